"""AUX data of hardware tracers, as `report -D` prints them below their AUXTRACE records: a line for each packet."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from perfpy.views.dump import arm_spe
from perfpy.views.dump.intel_pt import PtLines, pt_info_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    #: (data, offset, the data's offset in the file) -> (length, text); length 0: no packet
    Packet = Callable[[memoryview, int, int], tuple[int, str]]

#: AuxtraceInfo.type
INTEL_PT, INTEL_BTS, ARM_SPE, HISI_PTT = 1, 2, 4, 6

_BAD: Final = "Bad packet!"
_BRANCH: Final = struct.Struct("<QQQ")
_PREDICTED: Final = 0x10
_LINE: Final = 16  # bytes on a line
_LONG_PREFIX: Final = 0xFFFFF800
#: the parts of a PCIe packet: "" is not printed, None has fields
_LONG: Final = ("", "Prefix", "Header DW0", "Header DW1", "Header DW2", "Header DW3", "", "Time")
_SHORT: Final = (None, "Header DW1", "Header DW2", "Header DW3")
_AT_ONCE: Final = 1000  # lines

#: type -> the width of the names, the minimum number of words, their names
_INFO: Final[dict[int, tuple[int, int, tuple[str, ...]]]] = {
    INTEL_BTS: (19, 6, ("PMU Type", "Time Shift", "Time Muliplier", "Time Zero", "Cap Time Zero", "Snapshot mode")),
    ARM_SPE: (19, 2, ("PMU Type",)),
    HISI_PTT: (19, 1, ("PMU Type",)),
}
_TITLES: Final = {
    INTEL_PT: "Intel Processor Trace data: size {:d} bytes",
    INTEL_BTS: "Intel BTS data: size {:d} bytes",
    ARM_SPE: "ARM SPE data: size {:#x} bytes",
    HISI_PTT: "HISI PTT data: size {:d} bytes",
}


def info_text(kind: int, words: Sequence[int]) -> str:
    """Return the lines of an AUXTRACE_INFO record; "" for tracers without any."""
    if kind == INTEL_PT:
        return pt_info_text(words)
    width, least, names = _INFO.get(kind, (0, 0, ()))
    pairs = zip(names, words, strict=False) if len(words) >= least else ()
    return "".join(f"  {name:<{width}}{_sign_extend(word)}\n" for name, word in pairs)


def aux_texts(kind: int, data: bytes, in_file: int) -> Iterator[str]:
    """Yield the lines of AUX data; `kind`: AuxtraceInfo.type; `in_file`: their offset in the file."""
    title = _TITLES.get(kind)
    if title is None:
        return
    whole = len(data) // _link_size(data) * _link_size(data) if kind == HISI_PTT else len(data)
    yield f".\n. ... {title.format(whole)}\n"
    lines: list[str] = []
    for offset, raw, text in _packets(kind, memoryview(data), in_file):
        lines.append(_line(kind, offset, raw, text))
        if len(lines) >= _AT_ONCE:
            yield "".join(lines)
            lines.clear()
    yield "".join(lines)


def _line(kind: int, offset: int, raw: memoryview, text: str) -> str:
    if kind == HISI_PTT:
        return f".  {offset:08x}: {raw.hex(' '):<44}{text}\n"
    width = 3 * (_BRANCH.size if kind == INTEL_BTS else _LINE)
    return f".  {offset:08x}:  {raw.hex(' '):<{width}}{text}\n"


def _packets(kind: int, data: memoryview, in_file: int) -> Iterator[tuple[int, memoryview, str]]:
    if kind == INTEL_BTS:
        yield from _branches(data)
        return
    if kind == HISI_PTT:
        yield from _link_packets(data)
        return
    packet: Packet = PtLines().packet if kind == INTEL_PT else arm_spe.packet
    offset = 0
    while offset < len(data):
        length, text = packet(data, offset, in_file)
        if not length:
            length, text = 1, _BAD
        yield offset, data[offset : offset + length], text
        offset += length


def _branches(data: memoryview) -> Iterator[tuple[int, memoryview, str]]:
    for offset in range(0, len(data), _BRANCH.size):
        raw = data[offset : offset + _BRANCH.size]
        if len(raw) < _BRANCH.size:
            yield offset, raw, "Bad record!"
        else:
            source, target, flags = _BRANCH.unpack(raw)
            yield offset, raw, f"{source:x} -> {target:x} {'pred' if flags & _PREDICTED else 'miss'}"


def _link_packets(data: memoryview) -> Iterator[tuple[int, memoryview, str]]:
    """Yield packets of PCIe links."""
    size = _link_size(data)
    names: Sequence[str | None] = _LONG if size == 4 * len(_LONG) else _SHORT
    for begin in range(0, len(data) - size + 1, size):
        for number, name in enumerate(names):
            raw = data[begin + 4 * number : begin + 4 * number + 4]
            if name != "":
                yield begin + 4 * number, raw, name or _link_head(int.from_bytes(raw, "little"))


def _link_size(data: bytes | memoryview) -> int:
    """Return the size of packets: 8 words if the first packet has their prefix, otherwise 4."""
    is_long = len(data) >= 4 and int.from_bytes(data[:4], "little") & _LONG_PREFIX == _LONG_PREFIX
    return 4 * len(_LONG if is_long else _SHORT)


def _link_head(word: int) -> str:
    fields = {
        "Format": (0, 3),
        "Type": (2, 31),
        "T9": (7, 1),
        "T8": (8, 1),
        "TH": (9, 1),
        "SO": (10, 1),
        "Length": (11, 1023),
        "Time": (21, 2047),
    }
    return " ".join(f"{name} {word >> shift & mask:x}" for name, (shift, mask) in fields.items())


def _sign_extend(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
