"""AUX data of hardware tracers, as `report -D` prints them below their AUXTRACE records: a line for each packet; and reports of PMCUs."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.auxtrace.intel_pt import PacketReader, ip_size
from perfpy.auxtrace.pmcu import fields
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from perfpy.auxtrace.intel_pt import Packet
    from perfpy.auxtrace.itrace import AuxPiece
    from perfpy.auxtrace.pmcu import Field, PmcuHeader, PmcuTrace

    AuxPacket = Callable[[memoryview, int, int], tuple[int, str]]


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
    packet: AuxPacket = PtLines().packet if kind == INTEL_PT else spe_packet
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


# The packets of an Intel Processor Trace (perfpy.auxtrace.intel_pt) as `report -D` prints them, in perf's words.


_PT_LINE: Final = 8  # bytes on a line with padding
_PT_INFO: Final = (
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
        while length < _PT_LINE and offset + length < len(data) and not data[offset + length]:
            length += 1  # padding is printed with the packet before it
        text = _TEXTS.get(packet.kind)
        return length, text(packet) if text else packet.kind


def _pt_branches(packet: Packet) -> str:
    """Return the taken and not taken branches, below the highest set bit."""
    count = packet.value.bit_length() - 1
    return f"TNT {''.join('T' if packet.value >> bit & 1 else 'N' for bit in reversed(range(count)))} ({count})"


def _pt_address(packet: Packet) -> str:
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
    "TNT": _pt_branches,
    **dict.fromkeys(("TIP", "TIP.PGE", "TIP.PGD", "FUP"), _pt_address),
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
    values = [f"{word:#x}" if name in _AS_BITS and word else str(word) for name, word in zip(_PT_INFO, words, strict=False)]
    lines = list(zip(_PT_INFO, values[:count], strict=False))
    if len(words) > len(_PT_INFO):
        lines += _filter_lines(words[len(_PT_INFO) :])
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


# The packets of an Arm SPE trace as `report -D` prints them.
#
# Layout: Arm Architecture Reference Manual, "Statistical Profiling Extension, sample record packets"; the texts are perf's.


_EVENTS: Final = {
    0: "EXCEPTION-GEN", 1: "RETIRED", 2: "L1D-ACCESS", 3: "L1D-REFILL", 4: "TLB-ACCESS", 5: "TLB-REFILL", 6: "NOT-TAKEN", 7: "MISPRED",
    8: "LLC-ACCESS", 9: "LLC-REFILL", 10: "REMOTE-ACCESS", 11: "ALIGNMENT", 17: "SVE-PARTIAL-PRED", 18: "SVE-EMPTY-PRED",
    # as in perf 7.3
    12: "LATE-PREFETCH", 16: "TXN", 19: "L2D-ACCESS", 20: "L2D-MISS", 21: "HITM", 22: "LFB", 23: "SNOOPED", 24: "STREAMING-SVE", 25: "SMCU",
}  # fmt: skip
_LOADS: Final = {0x00: "GP-REG", 0x04: "SIMD-FP", 0x10: "UNSPEC-REG", 0x14: "MTE-TAG", 0x20: "MEMCPY", 0x30: "NV-SYSREG"}
_MEMSET: Final = 0x25
_CALLS: Final = ("", "CR-BL", "CR-RET", "CR-NON-BL-RET")
_DELAYS: Final = {0: "TOT", 1: "ISSUE", 2: "XLAT"}
_ADDRESSES: Final = {0: "PC", 1: "TGT", 2: "VA", 3: "PA", 4: "PBT"}
_56_BITS: Final = (1 << 56) - 1
_ADDRESS, _DELAY, _END, _TIME, _CONTEXT, _OPERATION, _EXTENDED, _EVENT, _SOURCE = 0xB0, 0x98, 0x01, 0x71, 0x64, 0x48, 0x20, 0x42, 0x43


def spe_packet(data: memoryview, offset: int, in_file: int) -> tuple[int, str]:
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
        return _spe_address(index, value)
    if head & 0xF8 == _DELAY:
        return f"LAT {value} {_DELAYS.get(index, '')}"
    if head == _TIME:
        return f"TS {_spe_sign_extend(value, width)}"
    if head & 0xCF == _EVENT:
        return " ".join(["EV", *(name for bit, name in sorted(_EVENTS.items()) if value >> bit & 1)])
    if head & 0xCF == _SOURCE:
        return f"DATA-SOURCE {_spe_sign_extend(value, width)}"
    if head & 0xFC == _CONTEXT:
        return f"CONTEXT {value:#x} el{(head & 3) + 1}"
    if head & 0xFC == _OPERATION:
        return _operation(head & 3, value)
    return None


def _spe_sign_extend(value: int, width: int) -> int:
    return value - (1 << 64) if width == 8 and value >> 63 else value


def _spe_address(index: int, value: int) -> str:
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


# `report -D` of a PMCU's AUX data: the header, then every number with its offset.


_ROW: Final = 16
#: the names of the two context ids in the recorder's own dump
_LABELS: Final = {"CID1SR": "PMCID0SR", "CID2SR": "PMCID1SR", "cycles": "Cycle count"}


def piece_texts(trace: PmcuTrace, piece: AuxPiece) -> Iterator[str]:
    """Yield the samples that this piece completes, and before the first one the header."""
    begin, end = piece.record.offset, piece.record.offset + piece.size
    yield f".\n. ... HISI PMCU data: size {piece.size:#x} bytes\n"
    header = trace.header
    if header is None:
        return
    if not begin:
        yield "".join(_header_lines(trace, header))
    ends = trace.offsets + header.sample_size
    for number in np.flatnonzero((ends > begin) & (ends <= end)).tolist():
        yield f". Sample {number}\n" + "".join(_sample_lines(trace, header, int(trace.offsets[number])))


def _header_lines(trace: PmcuTrace, header: PmcuHeader) -> Iterator[str]:
    for offset in range(0, header.size, _ROW):
        yield f".  {offset:08x}: {trace.data[offset : offset + _ROW].hex(' ')}\n"
    words = {
        "AUX buffer size": header.buffer_size,
        "Counters in parallel": header.counters,
        "Monitored CPUs": header.cpus,
        "Compatible mode": "yes" if header.compatible else "no",
        "Subsample size": header.subsample_size,
        "Subsamples a sample": header.subsamples,
        "Events": len(header.events),
    }
    for name, value in words.items():
        yield f". {name}: {value}\n"
    yield "".join(f". Event {number}: {event:#06x}\n" for number, event in enumerate(header.events))


def _sample_lines(trace: PmcuTrace, header: PmcuHeader, begin: int) -> Iterator[str]:
    for subsample in range(header.subsamples):
        yield f". Subsample {subsample}\n"
        offset = begin + subsample * header.subsample_size
        for field in fields(header, subsample):
            yield _field_lines(trace, header, field, offset + field.offset)


def _field_lines(trace: PmcuTrace, header: PmcuHeader, field: Field, offset: int) -> str:
    label = _LABELS.get(field.name) or f"Event {field.event:04x}"
    values = np.frombuffer(trace.data, f"<u{field.width}", header.cpus, offset).tolist()
    rows = enumerate(zip(header.cpu_order.tolist(), values, strict=True))
    return "".join(
        [f".  {offset + index * field.width:08x}: {value:0{2 * field.width}x} {label} CPU {cpu}\n" for index, (cpu, value) in rows]
    )


# `report` and `script` of a PMCU's counts: totals of each CPU and event with counts per cycle, and a line for each sample and CPU.


_HEAD: Final = "#   CPU   Event                 Count                Cycles  per cycle"
_ALL: Final = "all"


class PmcuTotal(NamedTuple):
    """One event of one CPU (-1: of all CPUs), over all samples; cycles: while it was counted."""

    cpu: int
    event: int
    counted: int
    cycles: int

    @property
    def per_cycle(self) -> float | None:
        """Events per cycle; None if cycles were not counted."""
        return self.counted / self.cycles if self.cycles else None


def totals(trace: PmcuTrace) -> list[PmcuTotal]:
    """Return the totals by CPU and event, in recorded order; those of all CPUs come last."""
    counts: dict[tuple[int, int], list[int]] = {}
    header = trace.header
    events = list(dict.fromkeys(header.events)) if header else []
    for part in trace.batches():
        key = part["cpu"].astype(np.int64) << 32 | part["event"]
        keys, index = np.unique(key, return_inverse=True)
        for number, one in enumerate(keys.tolist()):
            rows = index == number
            total = counts.setdefault((one >> 32, one & 0xFFFFFFFF), [0, 0])
            total[0] += _sum(part["count"][rows])
            total[1] += _sum(part["cycles"][rows])
    each = [PmcuTotal(cpu, event, *counts[cpu, event]) for cpu, event in sorted(counts, key=lambda key: (key[0], events.index(key[1])))]
    return each + [_over_cpus(each, event) for event in events if any(one.event == event for one in each)]


def _sum(values: np.ndarray) -> int:
    """Sum u64 values as a Python int, without overflow."""
    return (int((values >> np.uint64(32)).sum()) << 32) + int((values & np.uint64(0xFFFFFFFF)).sum())


def _over_cpus(each: list[PmcuTotal], event: int) -> PmcuTotal:
    of_event = [one for one in each if one.event == event]
    return PmcuTotal(-1, event, sum(one.counted for one in of_event), sum(one.cycles for one in of_event))


def report_lines(trace: PmcuTrace) -> Iterator[str]:
    """Yield the table, and its description."""
    header = trace.header
    yield "#"
    if header is None:
        yield f"# {one_line(trace.name)}: no AUX data"
        yield "#"
        return
    yield f"# {one_line(trace.name)}: {len(trace)} samples, one each {trace.period_ms} ms, of {header.cpus} CPUs"
    yield "#"
    yield _HEAD
    before = None
    for one in totals(trace):
        if before is not None and one.cpu != before:
            yield ""
        before = one.cpu
        cycles, ratio = ("-", "-") if one.per_cycle is None else (str(one.cycles), f"{one.per_cycle:.3f}")
        cpu = _ALL if one.cpu < 0 else str(one.cpu)
        yield f"{cpu:>7}  {one.event:#06x}  {one.counted:>20}  {cycles:>20}  {ratio:>9}".rstrip()
    yield ""


def script_lines(trace: PmcuTrace, cpus: Collection[int] | None = None) -> Iterator[str]:
    """Yield the lines: sample, seconds since the first, CPU, task, then each event's count and its cycles. cpus: only these."""
    for part in trace.batches():
        rows = zip(*(part[name].tolist() for name in ("sample", "time", "cpu", "pid", "event", "count", "cycles")), strict=True)
        lines: dict[tuple[int, int], list[str]] = {}
        for sample, time, cpu, pid, event, count, cycles in rows:
            if cpus is not None and cpu not in cpus:
                continue
            line = lines.setdefault((sample, cpu), [f"{sample:>6} {time:>12.3f}: [{cpu:03d}] {pid:>7}"])
            line.append(f"{event:#06x}={count}" + (f"/{cycles}" if cycles else ""))
        yield from (" ".join(line) for line in lines.values())
