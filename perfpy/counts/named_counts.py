"""Counts by the names of their events: what perfpy.stat() and perfpy.count() hand out.

What enters: the rows of a measurement, one an event. What leaves: a mapping
from event name to `Count`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.counts.aggregation import CountedEvent, CountRow


class Count(NamedTuple):
    """How often an event has occurred.

    value: the count, estimated for the whole time where the event had to
    share the hardware (clocks: ns); None when the machine cannot count the
    event, or the event never got onto the hardware. amount: the same in
    `unit` ("" for a plain number; task-clock: "msec"). enabled, running: ns that
    the event was wanted, and really counted. spread: the relative standard
    error over repeated runs in percent, or None.
    """

    event: str
    value: int | None
    amount: float | None
    unit: str
    enabled: int
    running: int
    spread: float | None = None


class Counts(Mapping[str, Count]):
    """Event name -> Count, in the order in which the events were asked for.

    An event is found by the name that it was asked for, and by the one that it
    was counted under: where only user space may be looked at, "cycles" is
    counted as "cycles:u".
    """

    def __init__(self, asked: Sequence[str] = (), counts: Sequence[Count] = ()) -> None:
        self._counts: dict[str, Count] = {}
        self._also: dict[str, Count] = {}
        self._fill(asked, counts)

    def _fill(self, asked: Sequence[str], counts: Sequence[Count]) -> None:
        self._counts = {}
        for name, count in zip(asked, counts, strict=True):
            self._counts.setdefault(name, count)
        self._also = {count.event: count for count in counts}

    def __getitem__(self, name: str) -> Count:
        found = self._counts.get(name) or self._also.get(name)
        if found is None:
            raise KeyError(f"{name}: not among the events counted: {', '.join(self._counts) or 'none'}")
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts)

    def __len__(self) -> int:
        return len(self._counts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={count.value}' for name, count in self._counts.items())})"

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Plain values: event name -> the fields of its Count."""
        return {name: count._asdict() for name, count in self._counts.items()}


class ProgramCounts(Counts):
    """The counts of perfpy.stat(), and how the program fared.

    exit_code: its status, 128 + n when signal n killed it (0 without a
    program); elapsed: wall-clock seconds of each run; user, system: CPU
    seconds of a single run, None where there was no program or several runs.
    """

    def __init__(
        self,
        asked: Sequence[str],
        counts: Sequence[Count],
        *,
        exit_code: int,
        elapsed: Sequence[float],
        user: float | None,
        system: float | None,
    ) -> None:
        super().__init__(asked, counts)
        self.exit_code = exit_code
        self.elapsed = tuple(elapsed)
        self.user = user
        self.system = system


def named(row: CountRow, spread: float | None = None) -> Count:
    """A row as a Count. spread: see Count."""
    event: CountedEvent = row.event
    if not row.counted:
        return Count(event.name, None, None, event.unit, row.enabled, row.running)
    return Count(event.name, row.value, row.amount, event.unit, row.enabled, row.running, spread)
