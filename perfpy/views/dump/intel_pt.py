"""The packets of an Intel Processor Trace (perfpy.auxtrace.intel_pt) as `report -D` prints them, in perf's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.auxtrace.intel_pt.packets import PacketReader, ip_size
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.auxtrace.intel_pt.packets import Packet

_LINE: Final = 8  # bytes on a line with padding
_INFO: Final = (
    "PMU Type", "Time Shift", "Time Muliplier", "Time Zero", "Cap Time Zero", "TSC bit", "NoRETComp bit", "Have sched_switch",
    "Snapshot mode", "Per-cpu maps", "MTC bit", "MTC freq bits", "TSC:CTC numerator",
    "TSC:CTC denominator", "CYC bit", "Max non-turbo ratio",
)  # fmt: skip
_AS_BITS: Final = ("TSC bit", "NoRETComp bit", "MTC bit", "MTC freq bits", "CYC bit")
_FIRST_WORDS: Final = 10  # the number of words that the oldest recorders wrote
_CYC_WORD: Final = 14
_BITS: Final = {0: "16", 1: "64", 2: "32"}


class PtLines:
    """The texts of the packets of one trace, in order."""

    def __init__(self) -> None:
        self._reader = PacketReader()

    def packet(self, data: memoryview, offset: int, _in_file: int) -> tuple[int, str]:
        """Return the length of the packet at an offset, and its text; (0, "") if there is none."""
        packet = self._reader.read(data, offset)
        if packet is None:
            return 0, ""
        length = packet.length
        while length < _LINE and offset + length < len(data) and not data[offset + length]:
            length += 1  # padding is printed with the packet before it
        text = _TEXTS.get(packet.kind)
        return length, text(packet) if text else packet.kind


def _branches(packet: Packet) -> str:
    """Return the taken and not taken branches, below the highest set bit."""
    count = packet.value.bit_length() - 1
    return f"TNT {''.join('T' if packet.value >> bit & 1 else 'N' for bit in reversed(range(count)))} ({count})"


def _address(packet: Packet) -> str:
    return f"{packet.kind} {packet.value:#x}" if ip_size(packet) else f"{packet.kind} no ip"


def _number(packet: Packet) -> str:
    return f"{packet.kind} {packet.value:#x}"


def _with_ip_bit(packet: Packet) -> str:
    return f"{packet.kind} IP:{packet.detail}"


def _written(packet: Packet) -> str:
    return f"PTWRITE {packet.value:#x} IP:{packet.detail}"


def _paging(packet: Packet) -> str:
    return f"PIP {packet.value >> 1:#x} (NR={packet.value & 1})"


def _power_entry(packet: Packet) -> str:
    value = packet.value
    return f"PWRE {value:#x} HW:{value >> 7 & 1} CState:{value >> 12 & 15} Sub-CState:{value >> 8 & 15}"


def _power_exit(packet: Packet) -> str:
    value = packet.value
    return f"PWRX {value:#x} Last CState:{value >> 4 & 15} Deepest CState:{value & 15} Wake Reason {value >> 8 & 15:#x}"


def _wait(packet: Packet) -> str:
    return f"MWAIT {packet.value:#x} Hints {packet.value & 0xFF:#x} Extensions {packet.value >> 32 & 3:#x}"


def _event(packet: Packet) -> str:
    return f"EVD Type 0x{packet.value & 0x3F:02x} Payload {packet.value >> 8:#x}"


def _control_flow(packet: Packet) -> str:
    return f"CFE IP:{packet.value >> 7 & 1} Type 0x{packet.value & 0x1F:02x} Vector {packet.value >> 8:#x}"


def _block(packet: Packet) -> str:
    return f"BBP SZ {'4' if packet.value >> 7 else '8'}-byte Type {packet.value & 0x1F:#x}"


def _block_item(packet: Packet) -> str:
    return f"BIP ID 0x{packet.detail:02x} Value {packet.value:#x}"


def _clock_ratio(packet: Packet) -> str:
    return f"TMA CTC {packet.value & 0xFFFF:#x} FC {packet.value >> 24 & 0x1FF:#x}"


def _execution_mode(packet: Packet) -> str:
    return f"MODE.Exec IF:{packet.value >> 2 & 1} {_BITS[packet.value & 3]}"


def _transaction(packet: Packet) -> str:
    return f"MODE.TSX TXAbort:{packet.value >> 1 & 1} InTX:{packet.value & 1}"


#: kind of packet -> its text, if that is more than the kind
_TEXTS: Final[dict[str, Callable[[Packet], str]]] = {
    "TNT": _branches,
    **dict.fromkeys(("TIP", "TIP.PGE", "TIP.PGD", "FUP"), _address),
    **dict.fromkeys(("CBR", "CYC", "TSC", "MTC", "MNT", "VMCS"), _number),
    **dict.fromkeys(("BEP", "EXSTOP"), _with_ip_bit),
    "PTWRITE": _written,
    "PIP": _paging,
    "PWRE": _power_entry,
    "PWRX": _power_exit,
    "MWAIT": _wait,
    "EVD": _event,
    "CFE": _control_flow,
    "BBP": _block,
    "BIP": _block_item,
    "TMA": _clock_ratio,
    "MODE.Exec": _execution_mode,
    "MODE.TSX": _transaction,
}


def pt_info_text(words: Sequence[int]) -> str:
    """Return the recorder's data about the tracer; older recorders wrote less."""
    if len(words) < _FIRST_WORDS:
        return ""
    count = len(words) if len(words) > _CYC_WORD else _FIRST_WORDS
    values = [f"{word:#x}" if name in _AS_BITS and word else str(word) for name, word in zip(_INFO, words, strict=False)]
    lines = list(zip(_INFO, values[:count], strict=False))
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
