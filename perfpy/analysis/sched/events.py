"""The scheduler's tracepoints of a recording as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.errors import UsageError
from perfpy.perfdata.tracepoint_rows import TASK_COLUMNS, TracepointRows, read_tracepoints, tracepoints_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from perfpy.perfdata.sample_source import SampleSource

SWITCH: Final = "sched:sched_switch"
WAKING: Final = "sched:sched_waking"
WAKEUP: Final = "sched:sched_wakeup"
NEW: Final = "sched:sched_wakeup_new"
RUNTIME: Final = "sched:sched_stat_runtime"
MIGRATE: Final = "sched:sched_migrate_task"

_FIELDS: Final = {
    SWITCH: ("prev_pid", "prev_prio", "prev_state", "next_pid", "next_prio"),
    WAKING: ("pid", "target_cpu"),
    WAKEUP: ("pid", "target_cpu"),
    NEW: ("pid", "target_cpu"),
    RUNTIME: ("pid", "runtime"),
    MIGRATE: ("pid", "orig_cpu", "dest_cpu"),
}
_NO_SWITCHES: Final = "{path}: no sched:sched_switch tracepoint with its format; record one: perfpy sched record -- COMMAND"


class SchedEvents(NamedTuple):
    """The scheduler's events of a recording.

    Attributes:
        switches: sched_switch.
        wakeups: sched_waking, or else sched_wakeup, and sched_wakeup_new, in order.
        runtimes: sched_stat_runtime.
        migrations: sched_migrate_task.
    """

    switches: TracepointRows
    wakeups: TracepointRows
    runtimes: TracepointRows
    migrations: TracepointRows

    @property
    def has_chains(self) -> bool:
        """Whether the switches have callchains."""
        return self.switches.chains is not None


def read_events(
    source: SampleSource,
    *,
    runtimes: bool = True,
    chains: bool = False,
    comms: bool = False,
    woken_comms: bool = False,
    columns: Collection[str] = TASK_COLUMNS,
) -> SchedEvents:
    """Read the scheduler's events. Raises UsageError if the recording has no switches.

    Args:
        source: the samples.
        runtimes: whether to read sched_stat_runtime.
        chains: whether to keep the callchains of switches.
        comms: whether to read prev_comm and next_comm of switches.
        woken_comms: whether to read comm of wakeups.
        columns: which of pid, tid and cpu of the samples to read.
    """
    present = tracepoints_of(source)
    if SWITCH not in present:
        raise UsageError(_NO_SWITCHES.format(path=source.path))
    waking = WAKING if WAKING in present else WAKEUP
    names = [SWITCH, waking, NEW, MIGRATE, *((RUNTIME,) if runtimes else ())]
    fields_of = {name: _FIELDS[name] for name in names}
    if comms:
        fields_of[SWITCH] = (*_FIELDS[SWITCH], "prev_comm", "next_comm")
    if woken_comms:
        fields_of |= {name: (*_FIELDS[name], "comm") for name in (waking, NEW)}
    rows = read_tracepoints(source, fields_of, with_chains=(SWITCH,) if chains else (), columns=columns)
    rows = {name: table.with_numbers(_FIELDS[name]) for name, table in rows.items()}
    wakeups = [rows[name] for name in (waking, NEW) if name in rows]
    none = _without_rows()
    return SchedEvents(rows[SWITCH], _merged(wakeups), rows.get(RUNTIME, none), rows.get(MIGRATE, none))


def _without_rows() -> TracepointRows:
    none = np.zeros(0, np.int64)
    some = none.astype(np.int32)
    names = {name for fields in _FIELDS.values() for name in fields}
    return TracepointRows(none, none.astype(np.uint64), none, some, some, some, dict.fromkeys(names, none))


def _merged(parts: list[TracepointRows]) -> TracepointRows:
    """Return the rows of several tracepoints with the same fields, in order."""
    parts = [part for part in parts if len(part.order)]
    if not parts:
        return _without_rows()
    if len(parts) == 1:
        return parts[0]
    columns = [np.concatenate(column) for column in zip(*(part[:6] for part in parts), strict=True)]
    fields = {name: np.concatenate([part.fields[name] for part in parts]) for name in parts[0].fields}
    merged = TracepointRows._make([*columns, fields, None])
    return merged.take(np.argsort(merged.order, kind="stable"))
