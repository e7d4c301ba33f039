"""The events of a machine as tables on a terminal: one per section, with each event's description, or why it is unavailable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.untrusted.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console
    from rich.table import Table

    from perfpy.events.listing import EventInfo
    from perfpy.events.vendor_tables import MetricDefinition


_TITLES: Final = {
    "Hardware event": "Hardware events",
    "Software event": "Software events, counted by the kernel",
    "Tool event": "Measured by perfpy itself",
    "Hardware cache event": "Hardware cache events",
    "Kernel PMU event": "Events of this machine's PMUs",
    "Raw event descriptor": "Raw events: how they are written",
    "Hardware breakpoint": "Breakpoints",
    "Tracepoint event": "Tracepoints",
    "SDT event": "Markers of programs (SDT)",
}
_WORKS: Final = "opens"
_TRACEPOINT: Final = "Tracepoint event"
_MANY: Final = 60  # more tracepoints than this are shown as a paragraph per system

#: the meanings of generic events
MEANINGS: Final = {
    "branch-instructions": "branches that were executed",
    "branch-misses": "branches that the CPU predicted wrongly",
    "bus-cycles": "cycles of the bus",
    "cache-misses": "accesses that the last-level cache could not serve",
    "cache-references": "accesses to the last-level cache",
    "cpu-cycles": "cycles of the CPU, at whatever frequency it ran",
    "instructions": "instructions that were completed",
    "ref-cycles": "cycles at the nominal frequency",
    "stalled-cycles-backend": "cycles that waited for data or execution units",
    "stalled-cycles-frontend": "cycles that waited for instructions",
    "alignment-faults": "accesses to unaligned memory that the kernel repaired",
    "bpf-output": "what BPF programs write",
    "cgroup-switches": "switches to a task of another cgroup",
    "context-switches": "switches from one task to another",
    "cpu-clock": "time on a CPU by a timer of its own; samples even where there is no PMU",
    "cpu-migrations": "moves of a task to another CPU",
    "dummy": "counts nothing; carries side-band records",
    "emulation-faults": "instructions that the kernel emulated",
    "major-faults": "page faults that needed input or output",
    "minor-faults": "page faults that were served from memory",
    "page-faults": "accesses to pages that were not mapped yet",
    "task-clock": "time that the task ran",
    "duration_time": "time from start to end",
    "user_time": "CPU time in user space",
    "system_time": "CPU time in the kernel",
}


def print_tables(
    rows: Iterable[tuple[EventInfo, str]], metrics: list[MetricDefinition], console: Console, *, checked: bool = False
) -> None:
    """Print a table per section, in the sections' order.

    Args:
        rows: each event, and why it cannot be used ("" if it can).
        metrics: printed last.
        console: of the terminal.
        checked: the events were tried; mark those that work.
    """
    sections: dict[str, list[tuple[EventInfo, str]]] = {}
    for info, reason in rows:
        sections.setdefault(info.kind, []).append((info, reason))
    for kind, infos in sections.items():
        _print_section(_TITLES.get(kind, kind), infos, console, checked)
    if metrics:
        _print_metrics(metrics, console)


def _table(title: str, *columns: str) -> Table:
    from rich.table import Table  # only terminals need it

    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0), title_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _print_section(title: str, infos: list[tuple[EventInfo, str]], console: Console, checked: bool) -> None:
    shared = {reason for _, reason in infos}
    common = shared.pop() if len(shared) == 1 else ""
    if len(infos) > _MANY and infos[0][0].kind == _TRACEPOINT:
        _print_systems(title, [info.name for info, _ in infos], console)
    else:
        _print_table(title, infos, "" if checked else common, console, checked)
    if common and (not checked or len(infos) > _MANY):
        console.print(f"  cannot be opened: {common}", style="magenta")
    console.print()


def _print_systems(title: str, names: list[str], console: Console) -> None:
    """Print the tracepoints of each system as a paragraph (a table of thousands would take seconds)."""
    from textwrap import fill

    systems: dict[str, list[str]] = {}
    for name in names:
        system, _, event = name.partition(":")
        systems.setdefault(system, []).append(event)
    console.print(title, style="bold")
    for system, events in systems.items():
        console.print(fill(visible(f"{system}: {' '.join(events)}"), console.width, subsequent_indent="    ", break_on_hyphens=False))


def _print_table(title: str, infos: list[tuple[EventInfo, str]], common: str, console: Console, checked: bool) -> None:
    table = _table(title, "event", "also", "what it is")
    for info, reason in infos:
        remark = info.description or MEANINGS.get(info.name, "")
        if checked or (reason and not common):
            remark = " - ".join(part for part in (reason or _WORKS, remark) if part)
        table.add_row(*map(visible, (info.name, info.alias, remark)), style="dim" if reason else None)
    console.print(table)


def _print_metrics(metrics: list[MetricDefinition], console: Console) -> None:
    table = _table("Metrics", "metric", "unit", "what it is")
    for metric in metrics:
        table.add_row(*map(visible, (metric.name, metric.unit, metric.description)))
    console.print(table)
