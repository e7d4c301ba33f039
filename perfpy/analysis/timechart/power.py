"""Idle states and frequencies of CPUs over time, from power:cpu_idle and power:cpu_frequency."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.perfdata.tracepoint_rows import read_tracepoints

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.perfdata.tracepoint_rows import TracepointRows

    Int64 = NDArray[np.int64]

IDLE: Final = "power:cpu_idle"
FREQUENCY: Final = "power:cpu_frequency"
_FIELDS: Final = ("state", "cpu_id")
_RUNNING: Final = (1 << 32) - 1  # the state that ends idleness


class CpuStates(NamedTuple):
    """The states of CPUs: int64[n] each, sorted by CPU and time.

    Attributes:
        cpu: its number.
        begin, end: nanoseconds.
        state: the idle state, or the frequency in kHz.
    """

    cpu: Int64
    begin: Int64
    end: Int64
    state: Int64


def read_power(source: SampleSource, end: int = 0) -> tuple[CpuStates, CpuStates]:
    """Return idle states and frequencies. end: of the last states, nanoseconds; 0: the last event."""
    tables = read_tracepoints(source, {IDLE: _FIELDS, FREQUENCY: _FIELDS}, columns=())
    idle, frequency = (_states(tables.get(name), end) for name in (IDLE, FREQUENCY))
    is_idle = idle.state & _RUNNING != _RUNNING
    return CpuStates._make(column[is_idle] for column in idle), frequency


def _states(rows: TracepointRows | None, end: int) -> CpuStates:
    if rows is None or not len(rows.order):
        none = np.zeros(0, np.int64)
        return CpuStates(none, none, none, none)
    table = rows.with_numbers(_FIELDS)
    cpu = table.fields["cpu_id"].astype(np.int64)
    order = np.lexsort((table.order, cpu))
    cpu, time, state = cpu[order], table.time[order], table.fields["state"].astype(np.int64)[order]
    last = max(end, int(time.max()))
    following = np.append(time[1:], last)
    is_last = np.append(cpu[1:] != cpu[:-1], True)
    return CpuStates(cpu, time, np.maximum(np.where(is_last, last, following), time), state)
