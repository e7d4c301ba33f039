"""The events of a file: attrs, ids, names and groups. Imports no numpy: headers and lists of events are shown without it."""

from __future__ import annotations

from perfpy.abi.flags import PerfType
from perfpy.perfdata.container.event_names import default_name
from perfpy.perfdata.container.features import Feature, key_of

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

    from perfpy.abi.attr import EventAttr
    from perfpy.abi.perf_records.user_records import EventUpdate
    from perfpy.perfdata.container.feature_values import EventGroup
    from perfpy.perfdata.container.preamble import Preamble
    from perfpy.perfdata.tracepoints.tracing_data import Tracing

_ANONYMOUS: Final = "{anon_group}"


class FileEvent:
    """One event of a recording.

    Attributes:
        attr: its perf_event_attr.
        ids: the ids that its samples carry.
        name: as perf prints it.
        index: its position in the file.
        tracepoint: (system, name) of a tracepoint event, if the recording has its format.
        unit, scale, cpus: from EVENT_UPDATE records.
        leader: index of the event that leads its group; its own if it is alone.
        group_name: of a named group, at its leader.
        in_time: whether its periods are nanoseconds, whatever it counts.
        has_waits: whether the samples of time off the CPU were joined to it.
    """

    __slots__ = ("attr", "cpus", "group_name", "has_waits", "ids", "in_time", "index", "leader", "name", "scale", "tracepoint", "unit")

    def __init__(self, attr: EventAttr, ids: tuple[int, ...], name: str, index: int, tracepoint: tuple[str, str] | None = None) -> None:
        self.attr = attr
        self.ids = ids
        self.name = name
        self.index = index
        self.unit = ""
        self.scale: float | None = None
        self.cpus: tuple[int, ...] | None = None
        self.tracepoint = tracepoint
        self.leader = index
        self.group_name = ""
        self.in_time = False
        self.has_waits = False

    def __repr__(self) -> str:
        return f"FileEvent({self.name!r}, index={self.index}, ids={self.ids})"


def make_events(preamble: Preamble, tracing: Tracing | None) -> list[FileEvent]:
    """Return the events, named by EVENT_DESC, their tracepoint or their attr, then updated from EVENT_UPDATE records."""
    described = preamble.features.get(key_of(Feature.EVENT_DESC), ())
    events = []
    for index, (attr, ids) in enumerate(preamble.events):
        point = _tracepoint(attr, tracing)
        name = described[index].name if index < len(described) else ""
        events.append(FileEvent(attr, ids, name or (":".join(point) if point else default_name(attr)), index, point))
    if preamble.updates:
        _apply_updates(events, preamble.updates)
    _apply_groups(events, preamble.features.get(key_of(Feature.GROUP_DESC), ()))
    return events


def _tracepoint(attr: EventAttr, tracing: Tracing | None) -> tuple[str, str] | None:
    if attr.type != PerfType.TRACEPOINT or tracing is None:
        return None
    point = tracing.tracepoints.get(attr.config)
    return (point.system, point.name) if point else None


def _apply_groups(events: list[FileEvent], groups: Iterable[EventGroup]) -> None:
    """Set the group leaders."""
    for group in groups:
        members = events[group.leader : group.leader + group.members]
        for event in members:
            event.leader = group.leader
        if members and group.name != _ANONYMOUS:
            members[0].group_name = group.name


def _apply_updates(events: list[FileEvent], updates: Iterable[EventUpdate]) -> None:
    owners: dict[int, list[FileEvent]] = {}
    for event in events:
        for ident in set(event.ids):
            owners.setdefault(ident, []).append(event)
    for update in updates:
        for event in owners.get(update.id, ()):
            _apply_update(event, update)


def _apply_update(event: FileEvent, update: EventUpdate) -> None:
    """Apply an EVENT_UPDATE record to an event."""
    # loaded here because only pipes have these records
    from perfpy.abi.perf_records.user_records import EVENT_UPDATE_UNIT

    if isinstance(update.value, tuple):
        event.cpus = update.value
    elif isinstance(update.value, float):
        event.scale = update.value
    elif update.type == EVENT_UPDATE_UNIT:
        event.unit = update.value
    else:
        event.name = update.value
