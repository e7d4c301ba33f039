"""The text that perf prints for side-band records ("PERF_RECORD_MMAP2 ..."), with the line end, for `perf script --show-*-events`
and `report -D`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from perfpy.abi import perf_records, records
from perfpy.abi import records as kernel
from perfpy.abi.flags import (
    MISC_COMM_EXEC,
    MISC_MMAP_BUILD_ID,
    MISC_MMAP_DATA,
    MISC_SWITCH_OUT,
    MISC_SWITCH_OUT_PREEMPT,
    RecordType,
    names_of,
)
from perfpy.untrusted.text import one_line

_NAMES: Final[dict[int, str]] = {
    0: "TOTAL",
    **names_of(RecordType),
    RecordType.HEADER_ATTR: "ATTR",
    RecordType.HEADER_EVENT_TYPE: "EVENT_TYPE",
    RecordType.HEADER_TRACING_DATA: "TRACING_DATA",
    RecordType.HEADER_BUILD_ID: "BUILD_ID",
    RecordType.HEADER_FEATURE: "FEATURE",
}
_NAMESPACES: Final = ("net", "uts", "ipc", "pid", "user", "mnt", "cgroup")
_MAP_SHARED: Final = 1
_PROT_READ, _PROT_WRITE, _PROT_EXEC = 1, 2, 4
_AUX_FLAGS: Final = ((1, "T"), (2, "O"), (4, "P"))

#: kernel address -> (symbol, offset) or None
KernelNamer = Callable[[int], "tuple[str, int] | None"]


def record_name(number: int) -> str:
    """Return a record type's name in perf's output; types above the last known one are INVALID."""
    # perf 6.12 knows types up to FINISHED_INIT; skipped numbers are UNKNOWN
    return _NAMES.get(number, "INVALID" if number > RecordType.FINISHED_INIT else "UNKNOWN")


def record_text(record: kernel.KernelRecord, name_kernel: KernelNamer | None = None) -> str:
    """Return the whole text of a kernel record, "PERF_RECORD_" and line end included.

    name_kernel: names the address of a TEXT_POKE, if kernel symbols are known.
    """
    head = f"PERF_RECORD_{record_name(kernel.type_of(record))}"
    if isinstance(record, kernel.TextPoke):
        return head + _text_poke(record, name_kernel)
    writer = _WRITERS.get(type(record))
    return head + (writer(record) if writer else "\n")


def signed_number(value: int) -> int:
    """Return a u32 as perf prints it with %d."""
    return value - (1 << 32) if value >> 31 else value


def alternate(value: int) -> str:
    """Format a number like C's %#x: 0 without 0x."""
    return f"{value:#x}" if value else "0"


def _mmap(r: kernel.Mmap) -> str:
    kind = "r" if r.misc & MISC_MMAP_DATA else "x"
    return f" {_task(r)}: [{alternate(r.addr)}({alternate(r.len)}) @ {alternate(r.pgoff)}]: {kind} {one_line(r.filename)}\n"


def _mmap2(r: kernel.Mmap2) -> str:
    file = f"{r.maj:02x}:{r.min:02x} {r.ino} {r.ino_generation}"
    if r.misc & MISC_MMAP_BUILD_ID and not (r.maj or r.ino):
        file = f"<{r.build_id.hex()}>"
    access = ("r" if r.prot & _PROT_READ else "-") + ("w" if r.prot & _PROT_WRITE else "-") + ("x" if r.prot & _PROT_EXEC else "-")
    access += "s" if r.flags & _MAP_SHARED else "p"
    return f" {_task(r)}: [{alternate(r.addr)}({alternate(r.len)}) @ {alternate(r.pgoff)} {file}]: {access} {one_line(r.filename)}\n"


def _task(r: Any) -> str:
    return f"{signed_number(r.pid)}/{signed_number(r.tid)}"


def _comm(r: kernel.Comm) -> str:
    return f"{' exec' if r.misc & MISC_COMM_EXEC else ''}: {one_line(r.comm)}:{_task(r)}\n"


def _fork(r: kernel.Fork | kernel.Exit) -> str:
    return f"({signed_number(r.pid)}:{signed_number(r.tid)}):({signed_number(r.ppid)}:{signed_number(r.ptid)})\n"


def _namespaces(r: kernel.Namespaces) -> str:
    return f" {_task(r)} - nr_namespaces: {len(r.namespaces)}\n\t\t[" + "".join(_namespace_entries(r))


def _namespace_entries(r: kernel.Namespaces) -> Iterator[str]:
    for i, (device, inode) in enumerate(r.namespaces):
        name = _NAMESPACES[i] if i < len(_NAMESPACES) else "(unknown)"
        yield "\n\t\t " if i and i % 4 == 0 else ""
        yield f"{i}/{name}: {device}/{f'{inode:#x}' if inode else 0}" + (", " if i + 1 < len(r.namespaces) else "]\n")


def _switch_direction(misc: int) -> str:
    if not misc & MISC_SWITCH_OUT:
        return "IN         "
    return "OUT preempt" if misc & MISC_SWITCH_OUT_PREEMPT else "OUT        "


def _switch_cpu_wide(r: kernel.SwitchCpuWide) -> str:
    other = "next" if r.misc & MISC_SWITCH_OUT else "prev"
    return f" {_switch_direction(r.misc)}  {other} pid/tid: {signed_number(r.next_prev_pid):5d}/{signed_number(r.next_prev_tid):<5d}\n"


def _aux(r: kernel.Aux) -> str:
    flags = "".join(letter for bit, letter in _AUX_FLAGS if r.flags & bit)
    return f" offset: {alternate(r.aux_offset)} size: {alternate(r.aux_size)} flags: {alternate(r.flags)} [{flags}]\n"


def _ksymbol(r: kernel.Ksymbol) -> str:
    return f" addr {r.addr:x} len {r.len} type {r.ksym_type} flags 0x{r.flags:x} name {one_line(r.name)}\n"


def _text_poke(r: kernel.TextPoke, name_kernel: KernelNamer | None) -> str:
    symbol = name_kernel(r.addr) if name_kernel else None
    name = "" if symbol is None else f"{one_line(symbol[0])}+0x{symbol[1]:x}"
    head = f" {r.addr:x} {name} old len {len(r.old)} new len {len(r.new)}\n"
    return head + _poked_bytes("Old", r.old) + _poked_bytes("New", r.new)


def _poked_bytes(which: str, data: bytes) -> str:
    if not data:
        return ""
    lines = [data[i : i + 16] for i in range(0, len(data), 16)]
    labels = [f"            {which} bytes:" if not i else "                      " for i in range(len(lines))]
    return "".join(head + "".join(f" {byte:02x}" for byte in line) + "\n" for head, line in zip(labels, lines, strict=True))


_WRITERS: Final[dict[type, Callable[[Any], str]]] = {
    kernel.Mmap: _mmap,
    kernel.Mmap2: _mmap2,
    kernel.Comm: _comm,
    kernel.Fork: _fork,
    kernel.Exit: _fork,
    kernel.Namespaces: _namespaces,
    kernel.Cgroup: lambda r: f" cgroup: {r.id} {one_line(r.path)}\n",
    kernel.Aux: _aux,
    kernel.ItraceStart: lambda r: f" pid: {r.pid} tid: {r.tid}\n",
    kernel.Switch: lambda r: f" {_switch_direction(r.misc)}\n",
    kernel.SwitchCpuWide: _switch_cpu_wide,
    kernel.Lost: lambda r: f" lost {r.lost}\n",
    kernel.Ksymbol: _ksymbol,
    kernel.BpfEvent: lambda r: f" type {r.type}, flags {r.flags}, id {r.id}\n",
    kernel.AuxOutputHwId: lambda r: f" hw_id: {alternate(r.hw_id)}\n",
}


# Reproduce perf's byte swapping of records from machines of the other byte order, for dumps.
#
# perf swaps numbers but not strings, swaps
# pairs of u32 in samples as one u64, and skips some fields.


class _SwapRule(NamedTuple):
    """widths: of the numbers after the header; rest: "" none, "8" u64s, "s" a string and then u64s."""

    widths: tuple[int, ...] = ()
    rest: str = ""


_ALL_64: Final = _SwapRule(rest="8")
_TASK: Final = (4, 4)
_RULES: Final[dict[int, _SwapRule]] = {
    RecordType.MMAP: _SwapRule((*_TASK, 8, 8, 8), "s"),
    RecordType.MMAP2: _SwapRule((*_TASK, 8, 8, 8, 4, 4, 8, 8, 0, 0, 0, 0, 0, 0, 0, 0), "s"),
    RecordType.COMM: _SwapRule(_TASK, "s"),
    RecordType.FORK: _SwapRule((4, 4, 4, 4, 8), "8"),
    RecordType.EXIT: _SwapRule((4, 4, 4, 4, 8), "8"),
    RecordType.LOST: _ALL_64,
    RecordType.READ: _SwapRule((*_TASK, 8, 8, 8, 8), "8"),
    RecordType.THROTTLE: _ALL_64,
    RecordType.UNTHROTTLE: _ALL_64,
    RecordType.SAMPLE: _ALL_64,
    RecordType.AUX: _ALL_64,
    RecordType.ITRACE_START: _SwapRule(_TASK, "8"),
    RecordType.LOST_SAMPLES: _ALL_64,
    RecordType.SWITCH: _SwapRule((0, 0, 0, 0, 0, 0, 0, 0), "8"),
    RecordType.SWITCH_CPU_WIDE: _SwapRule(_TASK, "8"),
    RecordType.NAMESPACES: _SwapRule(_TASK, "8"),
    RecordType.CGROUP: _SwapRule((8,), "s"),
    RecordType.TEXT_POKE: _SwapRule((8, 2, 2)),
    RecordType.AUX_OUTPUT_HW_ID: _ALL_64,
    RecordType.HEADER_EVENT_TYPE: _SwapRule((8,)),
    RecordType.HEADER_TRACING_DATA: _SwapRule((4,)),
    RecordType.ID_INDEX: _ALL_64,
    RecordType.AUXTRACE_INFO: _SwapRule((4, 0, 0, 0, 0), "8"),
    RecordType.AUXTRACE: _SwapRule((8, 8, 8, 4, 4, 4)),
    RecordType.AUXTRACE_ERROR: _SwapRule((4, 4, 4, 4, 4, 4, 8, 8)),
    RecordType.THREAD_MAP: _SwapRule((8,)),
    RecordType.STAT_CONFIG: _ALL_64,
    RecordType.STAT: _SwapRule((8, 4, 4, 8, 8, 8)),
    RecordType.STAT_ROUND: _SwapRule((8, 8)),
    RecordType.EVENT_UPDATE: _SwapRule((8, 8)),
    RecordType.TIME_CONV: _SwapRule((8, 8, 8, 8, 8)),
}
_BITS_REVERSED: Final = bytes(int(f"{i:08b}"[::-1], 2) for i in range(256))
_ATTR_FLAGS: Final = 40  # the offset of the bit field in a perf_event_attr


def swap_record(kind: int, misc: int, record: bytes) -> bytes:
    """Return a record of the other byte order, header included, as perf shows its bytes."""
    head = record[:4][::-1] + record[4:6][::-1] + record[6:8][::-1]
    body = record[8:]
    if kind == RecordType.HEADER_ATTR:
        return head + _attr(body)
    if kind == RecordType.THREAD_MAP:
        return head + _threads(body)
    if kind == RecordType.CPU_MAP:
        return head + _cpu_map(body)
    rule = _RULES.get(kind)
    if rule is None:
        return head + body
    widths = rule.widths
    if kind == RecordType.MMAP2 and misc & MISC_MMAP_BUILD_ID:
        widths = (*_TASK, 8, 8, 8, *([0] * 32))
    fixed = sum(width or 1 for width in widths)
    return head + _numbers(body[:fixed], widths) + _tail(body[fixed:], rule.rest)


def _numbers(data: bytes, widths: tuple[int, ...]) -> bytes:
    """Swap numbers of these widths; width 0: an unchanged byte."""
    parts = []
    offset = 0
    for width in widths:
        parts.append(data[offset : offset + (width or 1)][::-1])
        offset += width or 1
    return b"".join(parts)


def _tail(data: bytes, rest: str) -> bytes:
    if not rest:
        return data
    text = b""
    if rest == "s":
        end = (data.find(b"\0") + 8) & ~7 if b"\0" in data else len(data)
        text, data = data[:end], data[end:]
    return text + _words(data)


def _words(data: bytes) -> bytes:
    return b"".join(data[offset : offset + 8][::-1] if offset + 8 <= len(data) else data[offset:] for offset in range(0, len(data), 8))


def _attr(body: bytes) -> bytes:
    """Swap perf_event_attr and ids: the bits of the bit field are reversed within their bytes."""
    size = int.from_bytes(body[4:8], "big")
    widths = {0: 4, 4: 4, 48: 4, 52: 4, 88: 4, 92: 4, 104: 4, 108: 2, 110: 2, 112: 4, 116: 4}
    attr = b""
    offset = 0
    while offset < min(size, len(body)):
        width = widths.get(offset, 8)
        part = body[offset : offset + width]
        attr += part.translate(_BITS_REVERSED) if offset == _ATTR_FLAGS else part[::-1]
        offset += width
    ids = body[offset:]
    return attr + _words(ids.ljust(-(-len(ids) // 8) * 8, b"\0"))[: len(ids)]


def _threads(body: bytes) -> bytes:
    """{ u64 nr; { u64 pid; char comm[16]; } [nr]; }"""
    parts = [body[:8][::-1]]
    for offset in range(8, len(body), 24):
        parts += [body[offset : offset + 8][::-1], body[offset + 8 : offset + 24]]
    return b"".join(parts)


def _cpu_map(body: bytes) -> bytes:
    """A list { u16 nr, cpus[] }, a mask { u16 nr, long_size; words } or a range { u8 any, pad; u16 start, end }."""
    kind = int.from_bytes(body[:2], "big")
    if kind == perf_records.RANGE:
        return _numbers(body, (2, 0, 0, 2, 2)) + body[8:]
    if kind == perf_records.LIST:
        return _numbers(body, (2,) * (len(body) // 2))
    return _numbers(body, (2, 2, 2)) + body[6:10] + _words(body[10:])


def as_perf_reads(record: Any) -> Any:
    """Return a record as perf 6.12 reads it: it swaps neither an MMAP2's protection flags nor the task of a SWITCH."""
    if isinstance(record, records.Mmap2):
        return record._replace(prot=_swapped32(record.prot), flags=_swapped32(record.flags))
    sample_id = record.sample_id
    if isinstance(record, records.Switch) and sample_id is not None and sample_id.pid is not None:
        return record._replace(sample_id=sample_id._replace(pid=_swapped32(sample_id.tid or 0), tid=_swapped32(sample_id.pid)))
    return record


def _swapped32(value: int) -> int:
    return int.from_bytes(value.to_bytes(4, "little"), "big")
