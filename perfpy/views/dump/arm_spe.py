"""The packets of an Arm SPE trace as `report -D` prints them.

Layout: Arm Architecture Reference Manual, "Statistical Profiling Extension, sample record packets"; the texts are perf's.
"""

from __future__ import annotations

from typing import Final

_EVENTS: Final = {
    0: "EXCEPTION-GEN", 1: "RETIRED", 2: "L1D-ACCESS", 3: "L1D-REFILL", 4: "TLB-ACCESS", 5: "TLB-REFILL", 6: "NOT-TAKEN", 7: "MISPRED",
    8: "LLC-ACCESS", 9: "LLC-REFILL", 10: "REMOTE-ACCESS", 11: "ALIGNMENT", 17: "SVE-PARTIAL-PRED", 18: "SVE-EMPTY-PRED",
}  # fmt: skip
_LOADS: Final = {0x00: "GP-REG", 0x04: "SIMD-FP", 0x10: "UNSPEC-REG", 0x14: "MTE-TAG", 0x20: "MEMCPY", 0x30: "NV-SYSREG"}
_MEMSET: Final = 0x25
_CALLS: Final = ("", "CR-BL", "CR-RET", "CR-NON-BL-RET")
_DELAYS: Final = {0: "TOT", 1: "ISSUE", 2: "XLAT"}
_ADDRESSES: Final = {0: "PC", 1: "TGT", 2: "VA", 3: "PA", 4: "PBT"}
_LINE: Final = 16  # bytes
_56_BITS: Final = (1 << 56) - 1
_ADDRESS, _DELAY, _END, _TIME, _CONTEXT, _OPERATION, _EXTENDED, _EVENT, _SOURCE = 0xB0, 0x98, 0x01, 0x71, 0x64, 0x48, 0x20, 0x42, 0x43


def packet(data: memoryview, offset: int, in_file: int) -> tuple[int, str]:
    """Return the length and the text of the packet at an offset; (0, "") if there is none. `in_file`: the trace's offset in the file."""
    head = data[offset]
    if not head:
        return _padding(data, offset)
    if head == _END:
        return 1, "END"
    if head & 0xFC == _EXTENDED:
        return _decode_extended(data, offset, in_file)
    return _plain(data, offset, head, 1, 0)


def _padding(data: memoryview, offset: int, length: int = 1) -> tuple[int, str]:
    """Return padding, with following zeros that fit in the line."""
    while length < _LINE and offset + length < len(data) and not data[offset + length]:
        length += 1
    return length, "PAD"


def _decode_extended(data: memoryview, offset: int, in_file: int) -> tuple[int, str]:
    """Return a packet with two header bytes: a higher index, or padding to an aligned address."""
    if offset + 1 >= len(data):
        return 0, ""
    head, more = data[offset + 1], data[offset] & 3
    if not head:
        alignment = 2 << more
        length = alignment - (in_file + offset) % alignment
        return _padding(data, offset, length) if offset + alignment <= len(data) else (0, "")
    return _plain(data, offset, head, 2, more << 3) if head & 0xF8 in (_ADDRESS, _DELAY) else (0, "")


def _plain(data: memoryview, offset: int, head: int, before: int, high: int) -> tuple[int, str]:
    """Return a packet of a header and a payload; `before`: bytes before it; `high`: the high bits of an index."""
    width = 1 << (head >> 4 & 3)
    length = before + width
    if offset + length > len(data):
        return 0, ""
    value = int.from_bytes(data[offset + before : offset + length], "little")
    text = _text(head, value, high | head & 7, width)
    return (length, text) if text is not None else (0, "")


def _text(head: int, value: int, index: int, width: int) -> str | None:
    if head & 0xF8 == _ADDRESS:
        return _address(index, value)
    if head & 0xF8 == _DELAY:
        return f"LAT {value} {_DELAYS.get(index, '')}"
    if head == _TIME:
        return f"TS {_sign_extend(value, width)}"
    if head & 0xCF == _EVENT:
        return " ".join(["EV", *(name for bit, name in _EVENTS.items() if value >> bit & 1)])
    if head & 0xCF == _SOURCE:
        return f"DATA-SOURCE {_sign_extend(value, width)}"
    if head & 0xFC == _CONTEXT:
        return f"CONTEXT {value:#x} el{(head & 3) + 1}"
    if head & 0xFC == _OPERATION:
        return _operation(head & 3, value)
    return None


def _sign_extend(value: int, width: int) -> int:
    return value - (1 << 64) if width == 8 and value >> 63 else value


def _address(index: int, value: int) -> str:
    name = _ADDRESSES.get(index)
    if name is None:
        return f"ADDR {value:#x} ({index})"
    if name == "VA":
        return f"VA {value:#x}"
    text = f"{name} {value & _56_BITS:#x}"
    if name == "PA":
        return f"{text} ns={value >> 63} ch={value >> 62 & 1} pat={value >> 56 & 15:x}"
    return f"{text} el{value >> 61 & 3} ns={value >> 63}"


def _operation(kind: int, value: int) -> str:
    if kind == 0:
        return _other(value)
    if kind == 1:
        return " ".join(["ST" if value & 1 else "LD", *_memory(value)])
    if kind == 2:
        call = _CALLS[value >> 3 & 3]
        return " ".join(["B", *_set(value, COND=0, IND=1, GCS=2), *([call] if call else [])])
    return f"OP-TYPE {value:#x} ({kind})"


def _other(value: int) -> str:
    if value & 0x89 == 0x08:
        return " ".join(["SVE-OTHER", f"EVLEN {_vector(value)}", *_set(value, FP=1, PRED=2)])
    return "OTHER " + ("COND-SELECT" if value & 1 else "INSN-OTHER")


def _memory(value: int) -> list[str]:
    """Return the kind of load or store."""
    if value & 0xE2 == 0x02:
        return _set(value, AT=2, EXCL=3, AR=4)
    if value & 0x0A == 0x08:
        return [f"EVLEN {_vector(value)}", *_set(value, PRED=2, SG=7)]
    name = "MEMSET" if value == _MEMSET else _LOADS.get(value & 0xFE)
    return [name] if name else []


def _vector(value: int) -> int:
    """Return the bits of a vector."""
    return 32 << (value >> 4 & 7)


def _set(value: int, **bits: int) -> list[str]:
    return [name for name, bit in bits.items() if value >> bit & 1]
