"""Counts by event name, as perfpy.stat() and perfpy.count() return them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfpy.abi.cpu_list import cpu_list_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.abi.attr import CountedEvent
    from perfpy.counts.aggregation import CountRow

_NEVER_ON: Final = "it was never on the hardware: other events had it all the time, or what was to be counted never ran"


class Count(NamedTuple):
    """The count of one event.

    Attributes:
        value: the count, scaled up if the event was multiplexed (clocks: ns); None if the machine cannot count it or it never ran
        amount: the value in `unit`
        unit: "" for a plain number, "msec" for task-clock
        enabled, running: ns that the event was enabled, and counted
        spread: relative standard error over repeated runs in percent, or None
        why_not: the reason if value is None
        own: the part of value that the task itself caused, if requested
        overhead: what an empty block counts, already subtracted from value, if requested
        text: the requested event, if it means one event for each kind of core of a hybrid machine

    >>> import perfpy
    >>> count = perfpy.stat(["true"], events="page-faults:u")["page-faults:u"]
    >>> count.event, count.value > 0, count.unit
    ('page-faults:u', True, '')
    """

    event: str
    value: int | None
    amount: float | None
    unit: str
    enabled: int
    running: int
    spread: float | None = None
    why_not: str = ""
    own: int | None = None
    overhead: int | None = None
    text: str = ""

    @property
    def share(self) -> float:
        """The fraction of the enabled time, 0 to 1, in which the event was counted; value is scaled up for the other part."""
        return self.running / self.enabled if self.enabled else 0.0

    @property
    def children(self) -> int | None:
        """The part of value that children caused; None if own is unknown."""
        return None if self.value is None or self.own is None else self.value - self.own

    def __add__(self, other: object) -> Count:
        """Add two counts. Fields that one of them lacks are missing from the sum."""
        if not isinstance(other, Count):
            return NotImplemented
        enabled, running = self.enabled + other.enabled, self.running + other.running
        if self.value is None or other.value is None:
            return Count(self.event, None, None, self.unit, enabled, running, why_not=self.why_not or other.why_not, text=self.text)
        amount = None if self.amount is None or other.amount is None else self.amount + other.amount
        own = None if self.own is None or other.own is None else self.own + other.own
        overhead = None if self.overhead is None or other.overhead is None else self.overhead + other.overhead
        return Count(self.event, self.value + other.value, amount, self.unit, enabled, running, own=own, overhead=overhead, text=self.text)

    def beside(self, alone: Count) -> Count:
        """Return this count with the task's own part, counted by `alone`."""
        return self if self.value is None or alone.value is None else self._replace(own=min(alone.value, self.value))

    def without(self, overhead: Count) -> Count:
        """Return this count without the count of an empty block."""
        if self.value is None or overhead.value is None:
            return self
        value, per_event = max(self.value - overhead.value, 0), self.amount / self.value if self.amount and self.value else 0.0
        own = None if self.own is None else min(max(self.own - (overhead.own or 0), 0), value)
        amount = value * per_event if self.unit else value
        return self._replace(value=value, amount=amount, own=own, overhead=overhead.value)

    def __str__(self) -> str:
        """Return one line in the layout of perf stat."""
        if self.value is None:
            return f"{'<not counted>':>18}      {self.event:<25} # {self.why_not}"
        number = f"{self.value:,}" if not self.unit or self.amount is None else f"{self.amount:,.2f}"
        line = f"{number:>18} {self.unit:<4} {self.event}".rstrip()
        if self.own is not None:
            line = f"{line:<49} # {100 * self.own / self.value if self.value else 100:5.1f}% its own"
        return f"{line:<49} ({self.share:.2%} of the time)" if 0 < self.share < 1 else line


def of_all_cores(counts: Sequence[Count], *, on_cpus: bool) -> Count:
    """Return the count of an event on all kinds of cores.

    Counts of CPUs are added. A task runs on one kind of core at a time: each of its counts is scaled up as if the task had spent all its
    time there, so their mean weighted with the times is the task's count.
    """
    counted = [count for count in counts if count.value is not None and count.amount is not None]
    first = counts[0]
    if not counted:
        return first._replace(event=first.text)
    running = sum(count.running for count in counted)
    if on_cpus or not running:
        total = counted[0]
        for count in counted[1:]:
            total += count
        return total._replace(event=first.text)
    enabled = max(count.enabled for count in counts)
    value = sum(count.value * count.running for count in counted if count.value is not None) / running
    amount = sum(count.amount * count.running for count in counted if count.amount is not None) / running
    return Count(first.text, round(value), amount, first.unit, enabled, min(running, enabled), text=first.text)


class Counts(Mapping[str, Count]):
    """A mapping from event name to Count, in the order of the requested events.

    A count is found by the requested name and by the counted one: where only user space may be measured, "cycles" is counted as "cycles:u".
    On a hybrid machine "cycles" is the count on all kinds of cores, and "cpu_core/cycles/" that of one.

    >>> import perfpy
    >>> counts = perfpy.stat(["true"], events="page-faults:u,task-clock:u")
    >>> list(counts), counts["task-clock:u"].unit
    (['page-faults:u', 'task-clock:u'], 'msec')
    """

    def __init__(self, names: Sequence[str] = (), counts: Sequence[Count] = (), *, on_cpus: bool = False) -> None:
        """Take the counts of the named events. on_cpus: CPUs were counted, not tasks."""
        self._on_cpus = on_cpus
        self._counts: dict[str, Count] = {}
        self._also: dict[str, Count] = {}
        self._fill(names, counts)

    def _fill(self, names: Sequence[str], counts: Sequence[Count]) -> None:
        self._counts = {}
        for name, count in zip(names, counts, strict=True):
            self._counts.setdefault(name, count)
        self._also = {count.event: count for count in counts}
        of_text: dict[str, list[Count]] = {}
        for count in counts:
            of_text.setdefault(count.text, []).append(count)
        of_text.pop("", None)
        self._also |= {text: of_all_cores(kinds, on_cpus=self._on_cpus) for text, kinds in of_text.items()}

    def __getitem__(self, name: str) -> Count:
        count = self._counts.get(name) or self._also.get(name)
        if count is None:
            raise KeyError(f"{name}: not among the events counted: {', '.join(self._counts) or 'none'}")
        return count

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts)

    def __len__(self) -> int:
        return len(self._counts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={count.value}' for name, count in self._counts.items())})"

    def __str__(self) -> str:
        """Return a table with one line for each event."""
        return "\n".join(map(str, self._counts.values()))

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Return plain values: event name -> the fields of its Count."""
        return {name: count._asdict() for name, count in self._counts.items()}


class ProgramCounts(Counts):
    """The counts of perfpy.stat(), and how the program ended.

    Attributes:
        exit_code: its status, 128 + n if signal n killed it; 0 without a program
        elapsed: wall-clock seconds of each run
        user, system: CPU seconds of a single run; None without a program or with several runs

    >>> import perfpy
    >>> counts = perfpy.stat(["false"], events="page-faults:u", repeat=2)
    >>> counts.exit_code, len(counts.elapsed)
    (1, 2)
    """

    def __init__(
        self,
        names: Sequence[str],
        counts: Sequence[Count],
        *,
        exit_code: int,
        elapsed: Sequence[float],
        user: float | None,
        system: float | None,
        on_cpus: bool = False,
    ) -> None:
        super().__init__(names, counts, on_cpus=on_cpus)
        self.exit_code = exit_code
        self.elapsed = tuple(elapsed)
        self.user = user
        self.system = system


def named_count(row: CountRow, spread: float | None = None) -> Count:
    """Return a row as a Count. spread: see Count."""
    event: CountedEvent = row.event
    value, amount = (row.value, row.amount) if row.was_counted else (None, None)
    why_not = "" if row.was_counted else str(row.state.why_not or never_on(event))
    return Count(event.name, value, amount, event.unit, row.enabled, row.running, spread, why_not, text=event.text_name)


def never_on(event: CountedEvent) -> str:
    """Return the reason why an open event was never counted."""
    if not event.cpus:
        return _NEVER_ON
    return f"nothing ran on CPUs {cpu_list_text(event.cpus)}, the only ones that {event.pmu} counts, or other events had its counters"
