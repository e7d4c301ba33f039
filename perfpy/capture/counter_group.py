"""CounterGroup: counters that are scheduled together, and read in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, overload

from perfpy.abi.attr import Reading, decode_read
from perfpy.abi.flags import ReadFormat
from perfpy.capture.counter import open_with_less, refusal_by_group
from perfpy.errors import KernelRefusedError, UsageError
from perfpy.kernel import this_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.abi.attr import EventAttr
    from perfpy.capture.counter import Counter
    from perfpy.kernel import Kernel


_READ_FORMAT: Final = int(ReadFormat.TOTAL_TIME_ENABLED | ReadFormat.TOTAL_TIME_RUNNING | ReadFormat.GROUP | ReadFormat.ID)


class GroupReading(Sequence[Reading]):
    """The counts of a group at one time: a Reading for each member, in order; `reading["cycles"]` if the name is unique.

    >>> import perfpy
    >>> reading = perfpy.GroupReading([perfpy.Reading(5), perfpy.Reading(9)], ["cycles", "instructions"])
    >>> reading[0].value, reading["instructions"].value
    (5, 9)
    """

    __slots__ = ("_data", "_readings", "events")

    def __init__(self, readings: Sequence[Reading] | bytes, events: Sequence[str]) -> None:
        """Args: readings: one for each event, or the bytes of read(2), which are decoded on first use."""
        self._data = readings
        self._readings: Sequence[Reading] | None = None
        self.events = events

    def _decode(self) -> Sequence[Reading]:
        if self._readings is None:
            self._readings = decode_read(self._data, _READ_FORMAT, "=") if isinstance(self._data, bytes) else self._data
        return self._readings

    def __len__(self) -> int:
        return len(self.events)

    def __repr__(self) -> str:
        return f"GroupReading({self._decode()!r}, {self.events!r})"

    @overload
    def __getitem__(self, member: int | str) -> Reading: ...
    @overload
    def __getitem__(self, member: slice) -> Sequence[Reading]: ...
    def __getitem__(self, member: int | slice | str) -> Reading | Sequence[Reading]:
        """Return a member by its number, or by its name if that is unique. Raises KeyError for other names."""
        if not isinstance(member, str):
            return self._decode()[member]
        match [i for i, event in enumerate(self.events) if event == member]:
            case [number]:
                return self._decode()[number]
            case []:
                raise KeyError(f"no member is named '{member}'; the members are {', '.join(self.events)}")
            case numbers:
                raise KeyError(f"the members {', '.join(map(str, numbers))} are named '{member}'; use a number")


class CounterGroup:
    """Counters that are scheduled together, and read in one call.

    The first of attrs is the leader's. The group starts disabled: call enable(), or use it as a context manager. Raises
    KernelRefusedError, with the number of events that fit on the PMU if there are too many.

    >>> import perfpy
    >>> events = perfpy.parse_events("page-faults:u,minor-faults:u")
    >>> with perfpy.CounterGroup([event.attr for event in events]) as group:
    ...     pages = bytearray(b"x") * (1 << 26)
    ...     first, second = group.read()
    >>> first.value >= second.value > 0
    True
    """

    def __init__(
        self,
        attrs: Sequence[EventAttr],
        pid: int = 0,
        cpu: int = -1,
        *,
        events: Sequence[str] = (),
        kernel: Kernel | None = None,
    ) -> None:
        if not attrs:
            raise UsageError("a group needs at least one event")
        self.counters: list[Counter] = []
        self._events = list(events) or [""] * len(attrs)
        try:
            for event, attr in zip(self._events, attrs, strict=True):
                leader = self.counters[0] if self.counters else None
                member = attr.copy(read_format=_READ_FORMAT, disabled=int(leader is None))
                try:
                    self.counters.append(open_with_less(member, pid, cpu, leader, event=event, kernel=kernel))
                except KernelRefusedError as refusal:
                    if leader is None:
                        raise
                    fitting = len(self.counters)
                    remedy = f"use groups of at most {fitting} of these {len(self._events)} events, or separate groups"
                    raise refusal_by_group(refusal, member, pid, cpu, remedy, kernel=kernel) from None
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, events: Sequence[str], pid: int = 0, cpu: int = -1, *, ebb: int = 0, **attr_fields: int) -> CounterGroup:
        """Open a group for events' texts. attr_fields are attr bits to set in every member, for example inherit=1 or exclude_kernel=1.

        ebb: event-based branches of POWER, see Counter.open().
        """
        from perfpy.events import parse_events

        parsed = parse_events(list(events))
        for event in parsed:
            if event.tool:
                raise UsageError(f"'{event.name}' is not a kernel event")
        attrs = [event.attr.copy(**attr_fields) for event in parsed]
        if ebb:
            from perfpy.events.ebb import with_needs  # rarely needed

            attrs = [with_needs(attr, leads=not number) for number, attr in enumerate(attrs)]
        return cls(attrs, pid, cpu, events=[event.name for event in parsed])

    @property
    def leader(self) -> Counter:
        """The first counter, which controls the group."""
        return self.counters[0]

    def read(self) -> GroupReading:
        """Read all counts at one time. Raises NotScheduledError; UsageError for event-based branches (see Counter.read)."""
        if self.leader.is_ebb:
            self.leader.verify()
            raise self.leader.unread()
        return GroupReading(self.leader.read_raw(), self._events)

    def enable(self) -> None:
        """Start counting."""
        self.leader.enable(group=True)

    def disable(self) -> None:
        """Stop counting."""
        self.leader.disable(group=True)

    def reset(self) -> None:
        """Set all counts to 0."""
        self.leader.reset(group=True)

    def close(self) -> None:
        """Close all counters."""
        for counter in reversed(self.counters):
            counter.close()

    def __iter__(self) -> Iterator[Counter]:
        return iter(self.counters)

    def __len__(self) -> int:
        return len(self.counters)

    def __enter__(self) -> CounterGroup:
        self.enable()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


# perfpy.enable_all and perfpy.disable_all: switch all counters that the calling thread has opened (prctl(2)).


def enable_all(kernel: Kernel | None = None) -> None:
    """Enable every counter that the calling thread has opened, whatever task it counts. Raises KernelRefusedError.

    >>> import perfpy
    >>> with perfpy.Counter.open("page-faults:u", disabled=1) as counter:
    ...     perfpy.enable_all()
    ...     pages = bytearray(b"x") * (1 << 26)
    ...     counter.read().value > 0
    True
    """
    (kernel or this_kernel()).enable_all()


def disable_all(kernel: Kernel | None = None) -> None:
    """Disable every counter that the calling thread has opened, until enable_all(). Raises KernelRefusedError.

    >>> import perfpy
    >>> with perfpy.Counter.open("page-faults:u") as counter:
    ...     perfpy.disable_all()
    ...     before, pages = counter.read().value, bytearray(b"x") * (1 << 26)
    ...     counter.read().value == before
    True
    """
    (kernel or this_kernel()).disable_all()
