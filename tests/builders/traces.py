"""Bytes of hardware traces: random, but such that most packets of a tracer occur."""

from __future__ import annotations

from random import Random

INTEL_PT, INTEL_BTS, ARM_SPE, HISI_PTT = 1, 2, 4, 6

#: the words of AUXTRACE_INFO, as a recorder writes them
WORDS = {
    INTEL_PT: (9, 3, 31, 1000, 1, 0x400, 0x800, 2, 0, 1, 0x200, 0x3C000, 7, 3, 0x10, 25, 0, 1),
    INTEL_BTS: (9, 3, 31, 1000, 0, 1),
    ARM_SPE: (9, 0),
    HISI_PTT: (9,),
}
_PT_HEADS = (0, 2, 0x0D, 0x2D, 0x6D, 0x11, 0x31, 0xD1, 0x01, 0x1D, 0x99, 0x19, 0x59, 3, 7, 0xFF, 4, 0x24, 0xFC)
_PT_SECONDS = (
    *(0x03, 0x12, 0x13, 0x22, 0x23, 0x32, 0x33, 0x43, 0x53, 0x62, 0x63, 0x63, 0x63, 0x73, 0x83),
    *(0x92, 0xA2, 0xA3, 0xB2, 0xB3, 0xC2, 0xC3, 0xC8, 0xE2, 0xF3, 0x82),
)
_SPE_HEADS = (
    *(0, 1, 0x42, 0x52, 0x62, 0x72, 0x43, 0x53, 0x48, 0x49, 0x4A, 0x4B, 0x64, 0x65, 0x71, 0x98, 0x99, 0x9A),
    *(0xB0, 0xB1, 0xB2, 0xB3, 0xB4, 0xB5, 0x20, 0x21, 0x22, 0x23),
)


def trace(kind: int, seed: int, size: int = 3000) -> bytes:
    """Some bytes for a tracer; no multiple of anything."""
    random = Random(seed)
    result = b"\xff\xff\xff\xff" if kind == HISI_PTT and seed % 2 else b""
    while len(result) < size:
        result += _pt(random) if kind == INTEL_PT else _spe(random) if kind == ARM_SPE else random.randbytes(7)
    return result


def _pt(random: Random) -> bytes:
    match random.randrange(20):
        case 0:
            return b"\x02\x82" * 8
        case 1:
            return b"\x02\xc3\x88"
        case 2:
            return bytes(random.randrange(30))
        case 3:
            return bytes([random.choice((7, 15, 255))]) + bytes([random.randrange(256) | 1] * random.randrange(14))
        case 4 | 5 | 6 | 7:
            return bytes([random.choice(_PT_HEADS)])
        case 8 | 9 | 10 | 11:
            return random.randbytes(random.randrange(6))
        case _:
            return bytes([2, random.choice(_PT_SECONDS)]) + random.randbytes(random.randrange(9))


def _spe(random: Random) -> bytes:
    return bytes([random.choice(_SPE_HEADS)]) if random.random() < 0.5 else random.randbytes(1)
