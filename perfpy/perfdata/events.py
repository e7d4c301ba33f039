"""The events of a file: their attrs, ids and names, and which were counted together.

What enters: what a Preamble says of events. What leaves: FileEvents. No numpy:
headers and lists of events are shown without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perfpy.abi import user_records
from perfpy.abi.flags import PerfType
from perfpy.perfdata.event_names import default_name
from perfpy.perfdata.features import Feature

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfpy.abi.attr import EventAttr
    from perfpy.perfdata.feature_values import EventGroup
    from perfpy.perfdata.preamble import Preamble
    from perfpy.perfdata.tracing import Tracing

_ANONYMOUS: Final = "{anon_group}"


@dataclass(slots=True)
class FileEvent:
    """One event of a recording: its attr, the ids its samples carry, its name as perf prints it, its place in the file.

    unit, scale, cpus: what EVENT_UPDATE records say; tracepoint: (system,
    name) of a tracepoint event once it is known; leader: index of the event
    that leads its group (itself when it is alone); group_name: of a group that
    was given one, at its leader.
    """

    attr: EventAttr
    ids: tuple[int, ...]
    name: str
    index: int
    unit: str = ""
    scale: float | None = None
    cpus: tuple[int, ...] | None = None
    tracepoint: tuple[str, str] | None = None
    leader: int = -1
    group_name: str = ""

    def __post_init__(self) -> None:
        if self.leader < 0:
            self.leader = self.index


def make_events(preamble: Preamble, tracing: Tracing | None) -> list[FileEvent]:
    """The events, named by EVENT_DESC, their tracepoint or their attr; then by what EVENT_UPDATE records say."""
    described = preamble.features.get(Feature.EVENT_DESC.key, ())
    events = []
    for index, (attr, ids) in enumerate(preamble.events):
        point = _tracepoint(attr, tracing)
        name = described[index].name if index < len(described) else ""
        events.append(FileEvent(attr, ids, name or (":".join(point) if point else default_name(attr)), index, tracepoint=point))
    for update in preamble.updates:
        for event in events:
            if update.id in event.ids:
                _apply_update(event, update)
    _apply_groups(events, preamble.features.get(Feature.GROUP_DESC.key, ()))
    return events


def _tracepoint(attr: EventAttr, tracing: Tracing | None) -> tuple[str, str] | None:
    if attr.type != PerfType.TRACEPOINT or tracing is None:
        return None
    point = tracing.tracepoints.get(attr.config)
    return (point.system, point.name) if point else None


def _apply_groups(events: list[FileEvent], groups: Iterable[EventGroup]) -> None:
    """Take over which events were counted together."""
    for group in groups:
        members = events[group.leader : group.leader + group.members]
        for event in members:
            event.leader = group.leader
        if members and group.name != _ANONYMOUS:
            members[0].group_name = group.name


def _apply_update(event: FileEvent, update: user_records.EventUpdate) -> None:
    """Take over what an EVENT_UPDATE record says of an event."""
    if isinstance(update.value, tuple):
        event.cpus = update.value
    elif isinstance(update.value, float):
        event.scale = update.value
    elif update.type == user_records.EVENT_UPDATE_UNIT:
        event.unit = update.value
    else:
        event.name = update.value
