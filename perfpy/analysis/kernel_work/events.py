"""Interrupts, soft interrupts and work of work queues, as one table of events.

Each kind of work has up to three tracepoints: the request (RAISE), the begin (ENTRY) and the end (EXIT). Layouts: the kernel's
include/trace/events/irq.h and workqueue.h.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import Ragged
from perfpy.perfdata.tracepoint_rows import read_tracepoints, tracepoints_of
from perfpy.scheduling.event_pairs import numbers_of_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.perfdata.tracepoint_rows import TracepointRows

    Int64 = NDArray[np.int64]

RAISE: Final = 0
ENTRY: Final = 1
EXIT: Final = 2
IRQ: Final = "irq"
SOFTIRQ: Final = "softirq"
WORKQUEUE: Final = "workqueue"
#: kind of work -> its tracepoints, with the phase and the field that identifies the work
TRACEPOINTS: Final = {
    IRQ: (("irq:irq_handler_entry", ENTRY, "irq"), ("irq:irq_handler_exit", EXIT, "irq")),
    SOFTIRQ: (("irq:softirq_raise", RAISE, "vec"), ("irq:softirq_entry", ENTRY, "vec"), ("irq:softirq_exit", EXIT, "vec")),
    WORKQUEUE: (
        ("workqueue:workqueue_activate_work", RAISE, "work"),
        ("workqueue:workqueue_execute_start", ENTRY, "work"),
        ("workqueue:workqueue_execute_end", EXIT, "work"),
    ),
}
_NUMBERS: Final = ("irq", "vec", "work", "function")
_VECTOR_NAMES: Final = re.compile(r'\{\s*(\d{1,9}|0x[0-9a-fA-F]{1,8})\s*,\s*"([^"]{0,64})"\s*\}')


class WorkEvents(NamedTuple):
    """The events of all kinds of work, in order of delivery.

    Attributes:
        kind: int64[n], index in the kinds that were read.
        phase: int64[n], RAISE, ENTRY or EXIT.
        cpu, tid: int64[n], of the samples.
        number: uint64[n]; the interrupt, the vector, or the address of the work.
        function: uint64[n], the address of a work's function, or 0.
        name: str[n], of an interrupt's handler, or empty.
        time: int64[n], nanoseconds.
        key: uint64[n], delivery keys.
        chains: callchains, if they were asked for and recorded.
    """

    kind: Int64
    phase: Int64
    cpu: Int64
    tid: Int64
    number: NDArray[np.uint64]
    function: NDArray[np.uint64]
    name: NDArray[np.object_]
    time: Int64
    key: NDArray[np.uint64]
    chains: Ragged | None = None

    def take(self, chosen: NDArray[np.bool_] | Int64) -> WorkEvents:
        """Select rows by mask or index."""
        chains = None if self.chains is None else self.chains.take(chosen)
        return WorkEvents._make([*(column[chosen] for column in self[:-1]), chains])

    def work_numbers(self) -> Int64:
        """Return a number for each event that is equal for events of the same work on the same CPU."""
        return numbers_of_keys(self.kind, self.cpu, self.number.view(np.int64))


def missing_kinds(source: SampleSource, kinds: Sequence[str]) -> list[str]:
    """Return the kinds of work whose begin the recording lacks."""
    present = tracepoints_of(source)
    return [kind for kind in kinds if not any(name in present and phase == ENTRY for name, phase, _ in TRACEPOINTS[kind])]


def read_work(source: SampleSource, kinds: Sequence[str], phases: Sequence[int], *, chains: bool = False) -> WorkEvents:
    """Read the events of some kinds and phases.

    Args:
        source: the samples.
        kinds: keys of TRACEPOINTS, in the order of the result's numbers.
        phases: of RAISE, ENTRY and EXIT.
        chains: whether to keep the callchains.
    """
    readers = {
        name: (kind_number, phase, field)
        for kind_number, kind in enumerate(kinds)
        for name, phase, field in TRACEPOINTS[kind]
        if phase in phases
    }
    fields_of = {name: _fields_of(name, field) for name, (_, _, field) in readers.items()}
    tables = read_tracepoints(source, fields_of, with_chains=tuple(fields_of) if chains else ())
    parts, orders = [], []
    for name, table in tables.items():
        kind_number, phase, field = readers[name]
        parts.append(_events_of(table.with_numbers(name for name in fields_of[name] if name in _NUMBERS), kind_number, phase, field))
        orders.append(table.order)
    if not parts:
        return _without_events()
    order = np.argsort(np.concatenate(orders), kind="stable")
    columns = [np.concatenate(columns) for columns in zip(*(part[:-1] for part in parts), strict=True)]
    all_chains = Ragged.concat([part.chains for part in parts if part.chains is not None]) if chains else None
    return WorkEvents._make([*columns, all_chains]).take(order)


def _fields_of(name: str, field: str) -> tuple[str, ...]:
    if field == "work":
        return (field, "function")
    return (field, "name") if name == TRACEPOINTS[IRQ][0][0] else (field,)


def _events_of(table: TracepointRows, kind: int, phase: int, field: str) -> WorkEvents:
    count = len(table.order)
    numbers = table.fields[field]
    number = numbers.astype(np.int64).view(np.uint64) if numbers.dtype.kind == "i" else numbers.astype(np.uint64)
    function = table.fields.get("function")
    return WorkEvents(
        kind=np.full(count, kind, np.int64),
        phase=np.full(count, phase, np.int64),
        cpu=table.cpu.astype(np.int64),
        tid=table.tid.astype(np.int64),
        number=number,
        function=np.zeros(count, np.uint64) if function is None else function.astype(np.uint64),
        name=_texts(table.fields.get("name"), count),
        time=table.time,
        key=table.key,
        chains=table.chains,
    )


def _texts(column: object, count: int) -> NDArray[np.object_]:
    if isinstance(column, np.ndarray) and column.dtype == object and len(column) == count:
        return column
    return np.full(count, "", object)


def _without_events() -> WorkEvents:
    none, keys = np.zeros(0, np.int64), np.zeros(0, np.uint64)
    return WorkEvents(none, none, none, none, keys, keys, np.zeros(0, object), none, keys)


def vector_names(source: SampleSource) -> dict[int, str]:
    """Return the names of soft interrupts by number, from the recorded formats."""
    tracing = source.tracing
    for name in (name for name, _, _ in TRACEPOINTS[SOFTIRQ]):
        event = tracepoints_of(source).get(name)
        if event is not None and tracing is not None:
            text = tracing.formats[event.attr.config].print_fmt
            return {int(number, 16 if number.startswith("0x") else 10): word for number, word in _VECTOR_NAMES.findall(text)}
    return {}
