"""Idle states and frequencies of CPUs over time, from power:cpu_idle and power:cpu_frequency.

The rules are perf 6.12's, learnt from its charts: a later idle state replaces an earlier one that has not ended, and idle states that last
until the end of the recording are left out. A CPU has an unknown frequency, 0, until the first event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.perfdata.tracepoint_rows import read_tracepoints

if TYPE_CHECKING:
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.perfdata.tracepoint_rows import TracepointRows

IDLE: Final = "power:cpu_idle"
FREQUENCY: Final = "power:cpu_frequency"
_FIELDS: Final = ("state", "cpu_id")
_RUNNING: Final = (1 << 32) - 1  # the state that ends idleness


class CpuState(NamedTuple):
    """A state of a CPU.

    Attributes:
        cpu: its number.
        begin, end: nanoseconds; begin is 0 for the beginning of the recording.
        state: the idle state, or the frequency in kHz.
    """

    cpu: int
    begin: int
    end: int
    state: int


class PowerHistory(NamedTuple):
    """The states of all CPUs.

    Attributes:
        idle: in order of their ends.
        frequencies: in order of their ends; the last ones are in `last`.
        set_frequencies: in order of time.
        last: begin and frequency of each CPU at the end of the recording.
        begin, end: nanoseconds, of all events; 0 without any.
        cpus: one more than the highest CPU.
    """

    idle: list[CpuState]
    frequencies: list[CpuState]
    set_frequencies: list[int]
    last: dict[int, tuple[int, int]]
    begin: int
    end: int
    cpus: int

    def frequencies_until(self, end: int, cpus: int, begin: int) -> list[CpuState]:
        """Return all frequencies; each CPU's last one lasts until the end of the chart.

        Args:
            end: of the chart, nanoseconds.
            cpus: the number of CPUs; perf draws one more.
            begin: of the first event, nanoseconds: the begin of the first states.
        """
        until_end = [CpuState(cpu, since, end, state) for cpu in range(cpus + 1) for since, state in [self.last.get(cpu, (0, 0))]]
        return [state if state.begin else state._replace(begin=begin) for state in (*self.frequencies, *until_end)]


def read_power(source: SampleSource) -> PowerHistory:
    """Return idle states and frequencies."""
    tables = read_tracepoints(source, {IDLE: _FIELDS, FREQUENCY: _FIELDS}, columns=())
    idle, frequencies = _columns(tables.get(IDLE)), _columns(tables.get(FREQUENCY))
    since: dict[int, tuple[int, int]] = {}
    states = []
    for time, cpu, state in idle:
        if state & _RUNNING != _RUNNING:
            since[cpu] = (time, state)
        elif cpu in since:
            begin, depth = since[cpu]
            states.append(CpuState(cpu, begin, time, depth))
    last: dict[int, tuple[int, int]] = {}
    changes = []
    for time, cpu, state in frequencies:
        begin, before = last.get(cpu, (0, 0))
        changes.append(CpuState(cpu, begin, time, before))
        last[cpu] = (time, state)
    times = [time for time, _, _ in (*idle, *frequencies)]
    cpus = max((cpu for _, cpu, _ in (*idle, *frequencies)), default=-1) + 1
    return PowerHistory(states, changes, [state for _, _, state in frequencies], last, min(times, default=0), max(times, default=0), cpus)


def _columns(rows: TracepointRows | None) -> list[tuple[int, int, int]]:
    """Return time, CPU and state of each event."""
    if rows is None:
        return []
    table = rows.with_numbers(_FIELDS)
    columns = (table.time, table.fields["cpu_id"].astype(np.int64), table.fields["state"].astype(np.int64))
    return list(zip(*(column.tolist() for column in columns), strict=True))
