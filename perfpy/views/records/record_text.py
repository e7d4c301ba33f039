"""The text that perf prints for side-band records ("PERF_RECORD_MMAP2 ..."), with the line end, for `perf script --show-*-events`
and `report -D`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

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
        yield f"{i}/{name}: {device}/0x{inode:x}" + (", " if i + 1 < len(r.namespaces) else "]\n")


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
