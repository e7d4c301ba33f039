"""The packets of an Intel Processor Trace as `report -D` shows them.

What enters: the bytes of a trace. What leaves: a text for each packet. Layout: Intel SDM, volume 3,
"Intel Processor Trace: trace packets and data types"; the words are perf's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LINE: Final = 8  # bytes that a line has room for, where there is padding
_PSB: Final = b"\x02\x82" * 8
_MNT: Final = b"\x02\xc3\x88"
_IP_PACKETS: Final = {0x0D: "TIP", 0x11: "TIP.PGE", 0x01: "TIP.PGD", 0x1D: "FUP"}
_IP_SIZES: Final = {0: 0, 1: 2, 2: 4, 3: 6, 4: 6, 6: 8}
_LONGEST_CYC: Final = 9  # bytes with a part of a number of 64 bits
_INFO: Final = (
    "PMU Type", "Time Shift", "Time Muliplier", "Time Zero", "Cap Time Zero", "TSC bit", "NoRETComp bit", "Have sched_switch",
    "Snapshot mode", "Per-cpu maps", "MTC bit", "MTC freq bits", "TSC:CTC numerator",
    "TSC:CTC denominator", "CYC bit", "Max non-turbo ratio",
)  # fmt: skip
_AS_BITS: Final = ("TSC bit", "NoRETComp bit", "MTC bit", "MTC freq bits", "CYC bit")
_FIRST_WORDS: Final = 10  # of the oldest recorders
_CYC_WORD: Final = 14
_BITS: Final = {0: "16", 1: "64", 2: "32"}


def _taken(value: int) -> str:
    """Branches that were taken or not, below the highest bit that is set."""
    count = value.bit_length() - 1
    return f"TNT {''.join('T' if value >> bit & 1 else 'N' for bit in reversed(range(count)))} ({count})"


def _power_entry(value: int) -> str:
    return f"PWRE {value:#x} HW:{value >> 7 & 1} CState:{value >> 12 & 15} Sub-CState:{value >> 8 & 15}"


def _power_exit(value: int) -> str:
    return f"PWRX {value:#x} Last CState:{value >> 4 & 15} Deepest CState:{value & 15} Wake Reason {value >> 8 & 15:#x}"


def _event(value: int) -> str:
    return f"EVD Type 0x{value & 0x3F:02x} Payload {value >> 8:#x}"


def _control_flow(value: int) -> str:
    return f"CFE IP:{value >> 7 & 1} Type 0x{value & 0x1F:02x} Vector {value >> 8:#x}"


def _block(value: int) -> str:
    return f"BBP SZ {'4' if value >> 7 else '8'}-byte Type {value & 0x1F:#x}"


def _clock_ratio(value: int) -> str:
    return f"TMA CTC {value & 0xFFFF:#x} FC {value >> 24 & 0x1FF:#x}"


#: second byte after 0x02 -> bytes of payload, text of it
_EXTENDED: Final[dict[int, tuple[int, Callable[[int], str]]]] = {
    0x03: (2, lambda value: f"CBR {value:#x}"),
    0x12: (4, lambda value: f"PTWRITE {value:#x} IP:0"),
    0x13: (2, _control_flow),
    0x22: (2, _power_entry),
    0x23: (0, lambda _: "PSBEND"),
    0x32: (8, lambda value: f"PTWRITE {value:#x} IP:0"),
    0x33: (0, lambda _: "BEP IP:0"),
    0x43: (6, lambda value: f"PIP {value >> 1:#x} (NR={value & 1})"),
    0x53: (9, _event),
    0x62: (0, lambda _: "EXSTOP IP:0"),
    0x63: (1, _block),
    0x73: (5, _clock_ratio),
    0x83: (0, lambda _: "TraceSTOP"),
    0x92: (4, lambda value: f"PTWRITE {value:#x} IP:1"),
    0xA2: (5, _power_exit),
    0xA3: (6, _taken),
    0xB2: (8, lambda value: f"PTWRITE {value:#x} IP:1"),
    0xB3: (0, lambda _: "BEP IP:1"),
    0xC2: (8, lambda value: f"MWAIT {value:#x} Hints {value & 0xFF:#x} Extensions {value >> 32 & 3:#x}"),
    0xC8: (5, lambda value: f"VMCS {value:#x}"),
    0xE2: (0, lambda _: "EXSTOP IP:1"),
    0xF3: (0, lambda _: "OVF"),
}
#: packets after which a block of items goes on
_WITHIN_BLOCKS: Final = ("PAD", "TSC", "TMA", "MTC", "FUP", "CYC", "CBR", "MNT", "EXSTOP", "PWRE", "PWRX", "BIP", "BBP")


class PtPackets:
    """Packets in their order: what some bytes mean depends on the block that they are in."""

    def __init__(self) -> None:
        self._item_size = 0  # in a block of items, of each; 0: in none

    def packet(self, data: memoryview, offset: int, _in_file: int) -> tuple[int, str]:
        """The length of the packet at an offset, and its text; (0, "") where that is none."""
        length, text = self._found(data, offset)
        if text.startswith("BBP"):
            self._item_size = 4 if "4-byte" in text else 8
        elif length and not text.startswith(_WITHIN_BLOCKS):
            self._item_size = 0
        while 0 < length < _LINE and offset + length < len(data) and not data[offset + length]:
            length += 1  # padding is shown with what is before it
        return length, text

    def _found(self, data: memoryview, offset: int) -> tuple[int, str]:
        head = data[offset]
        if self._item_size and head & 7 == 4:
            return _with_payload(data, offset, 1, self._item_size, lambda value: f"BIP ID 0x{head >> 3:02x} Value {value:#x}")
        if not head:
            return 1, "PAD"
        if head == 0x02:
            return _extended(data, offset)
        if not head & 1:
            return 1, _taken(head >> 1)
        if head & 3 == 3:
            return _cycles(data, offset)
        if (name := _IP_PACKETS.get(head & 0x1F)) is not None:
            return _address(data, offset, name, head >> 5)
        return _other(data, offset, head)


def pt_info_text(words: Sequence[int]) -> str:
    """What the recorder wrote of the tracer: older ones wrote less."""
    if len(words) < _FIRST_WORDS:
        return ""
    shown = len(words) if len(words) > _CYC_WORD else _FIRST_WORDS
    values = [f"{word:#x}" if name in _AS_BITS and word else str(word) for name, word in zip(_INFO, words, strict=False)]
    lines = list(zip(_INFO, values[:shown], strict=False))
    if len(words) > len(_INFO):
        lines += _filter_lines(words[len(_INFO) :])
    return "".join(f"  {name:<20}{value}\n" for name, value in lines)


def _filter_lines(words: Sequence[int]) -> list[tuple[str, str]]:
    length = words[0]
    end = 1 + -(-length // 8)
    lines = [("Filter string len.", str(length))]
    if end > len(words):
        return lines
    raw = b"".join(word.to_bytes(8, "little") for word in words[1:end])
    lines.append(("Filter string", one_line(raw.split(b"\0")[0].decode("utf-8", "surrogateescape"))))
    return lines + [("Cap Event Trace", str(int(bool(word)))) for word in words[end : end + 1]]


def _with_payload(data: memoryview, offset: int, before: int, size: int, text: Callable[[int], str]) -> tuple[int, str]:
    length = before + size
    if offset + length > len(data):
        return 0, ""
    return length, text(int.from_bytes(data[offset + before : offset + length], "little"))


def _extended(data: memoryview, offset: int) -> tuple[int, str]:
    raw = bytes(data[offset : offset + len(_PSB)])
    if raw == _PSB:
        return len(_PSB), "PSB"
    if raw.startswith(_MNT):
        return _with_payload(data, offset, len(_MNT), 8, lambda value: f"MNT {value:#x}")
    size, text = _EXTENDED.get(raw[1] if len(raw) > 1 else 0, (0, None))
    return _with_payload(data, offset, 2, size, text) if text else (0, "")


def _cycles(data: memoryview, offset: int) -> tuple[int, str]:
    value, shift, length = data[offset] >> 3, 5, 1
    more = data[offset] & 4
    while more:
        if offset + length >= len(data) or length > _LONGEST_CYC:
            return 0, ""
        byte = data[offset + length]
        value |= byte >> 1 << shift
        more, shift, length = byte & 1, shift + 7, length + 1
    return length, f"CYC {value & (1 << 64) - 1:#x}"


def _address(data: memoryview, offset: int, name: str, kind: int) -> tuple[int, str]:
    size = _IP_SIZES.get(kind)
    if size is None:
        return 0, ""
    return _with_payload(data, offset, 1, size, lambda value: f"{name} {value:#x}" if size else f"{name} no ip")


def _other(data: memoryview, offset: int, head: int) -> tuple[int, str]:
    if head == 0x19:
        return _with_payload(data, offset, 1, 7, lambda value: f"TSC {value:#x}")
    if head == 0x59:
        return _with_payload(data, offset, 1, 1, lambda value: f"MTC {value:#x}")
    if head == 0x99 and offset + 1 < len(data):
        return _mode(data[offset + 1])
    return 0, ""


def _mode(value: int) -> tuple[int, str]:
    if value >> 5 == 0 and value & 3 in _BITS:
        return 2, f"MODE.Exec IF:{value >> 2 & 1} {_BITS[value & 3]}"
    if value >> 5 == 1 and value & 3 < 3:
        return 2, f"MODE.TSX TXAbort:{value >> 1 & 1} InTX:{value & 1}"
    return 0, ""
