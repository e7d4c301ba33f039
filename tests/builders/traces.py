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


# CoreSight (Arm IHI 0029, "Formatter", and IHI 0064).

ETMV4, ETE = 0x4040404040404040, 0x5050505050505050
#: A-sync and Trace Info
CORESIGHT_BEGIN = bytes(11) + b"\x80\x01\x01\x00"
_ETM_HEADS = (1, 2, 3, 6, 0x0C, 0x0E, 0x10, 0x2D, 0x80, 0x81, 0x82, 0x85, 0x90, 0x91, 0x92, 0x95, 0x96, 0x9A, 0x9D, 0x9E, 0xF7)
_CONTEXT = b"\x81\x10"
#: TRCIDR0, TRCIDR1 and TRCIDR2 of different trace units
_UNITS = ((0x28000EA1, 0x4100F402, 0x488), (0x08000EA1, 0x4100F434, 0x1088), (0x28018EA1, 0x4100F464, 0x888))


def coresight_words(kind: int, cpus: int, seed: int = 0) -> tuple[int, ...]:
    """The words of AUXTRACE_INFO: the trace id of a CPU's unit is 0x10 and its number."""
    words = [1, 9 << 32 | cpus, 0]
    for cpu in range(cpus):
        parameters = [1, 0x10 + cpu, *_UNITS[(seed + cpu) % len(_UNITS)], 0, 0xCC, *([0x47705A13] if kind == ETE else []), 0]
        words += [kind, cpu, len(parameters), *parameters]
    return tuple(words)


def coresight_packets(seed: int, count: int) -> bytes:
    """Packets of all kinds, and bytes that begin none."""
    random = Random(seed)
    begin = random.choice((b"", b"\x01\x04", b"\0\0\x05", bytes(random.randrange(9)))) + CORESIGHT_BEGIN + _CONTEXT
    heads = [random.choice(_ETM_HEADS) if random.random() < 0.7 else random.randrange(256) for _ in range(count)]
    return begin + b"".join(bytes([head]) + random.randbytes(random.randrange(10)) for head in heads)


def frames(runs: list[tuple[int, bytes]]) -> bytes:
    """Frames of 16 bytes: the bytes of sources."""
    items = [(source, byte) for source, data in runs for byte in data]
    result, position, current = bytearray(), 0, 0
    while position < len(items):
        frame, flags = bytearray(), 0
        for place in range(0, 16, 2):
            source, byte = items[position] if position < len(items) else (0, 0)
            after = items[position + 1][0] if position + 1 < len(items) else 0
            is_last = place == 14
            if source == current and (after == current or is_last):
                frame.append(byte & 0xFE)
                flags |= (byte & 1) << place // 2
                position += 1
            elif source == current:  # another source's number, and a byte of this one
                frame += bytes([after << 1 | 1, byte])
                flags |= 1 << place // 2
                position, current = position + 1, after
                continue
            else:
                frame.append(source << 1 | 1)
                current = source
            if not is_last:
                frame.append(items[position][1] if position < len(items) else 0)
                position += 1
        frame.append(flags)
        result += frame
    return bytes(result)
