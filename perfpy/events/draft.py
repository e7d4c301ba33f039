"""EventDraft: an event under construction, filled by grammar, terms, modifiers and groups. It does not leave this package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.abi.attr import EventAttr
from perfpy.events.event import NO_TERMS, Event, combine_filters, natural_unit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfpy.events.event import EventTerms


class EventDraft:
    """A mutable event; its fields are those of Event.

    Attributes:
        leader: the draft itself if it is alone
        host_or_guest: whether the event has its own G or H, which the `u` of its group does not change
    """

    def __init__(self, name: str, event_type: int, config: int) -> None:
        # perf's default excludes guests
        self.attr = EventAttr(type=int(event_type), config=int(config), exclude_guest=1)
        self.name = name
        self.leader = self
        self.pmu = self.unit = self.tool = self.group_name = self.filter = ""
        self.scale = 1.0
        self.per_pkg = self.snapshot = self.requires_cpu = False
        self.weak = self.sample_read = self.precise_max = self.host_or_guest = False
        self.cpus: tuple[int, ...] | None = None
        self.tracepoint: tuple[str, str] | None = None
        self.terms: EventTerms = NO_TERMS
        self.option = 0
        self.keepalive: object = None
        self.ebb = False

    @property
    def is_leader(self) -> bool:
        """Whether it leads a group, or is alone."""
        return self.leader is self

    def narrow(self, expression: str) -> None:
        """Add a condition to the tracepoint's filter."""
        self.filter = combine_filters(self.filter, expression)

    def event(self, leader: Event | None) -> Event:
        """Return the event, with its natural unit if the PMU defines none."""
        unit, scale = (self.unit, self.scale) if self.unit or self.scale != 1.0 else natural_unit(self.attr, self.tool)
        return Event(
            self.name,
            self.attr,
            leader,
            pmu=self.pmu,
            unit=unit,
            scale=scale,
            tool=self.tool,
            per_pkg=self.per_pkg,
            snapshot=self.snapshot,
            cpus=self.cpus,
            requires_cpu=self.requires_cpu,
            group_name=self.group_name,
            weak=self.weak,
            sample_read=self.sample_read,
            precise_max=self.precise_max,
            filter=self.filter,
            tracepoint=self.tracepoint,
            terms=self.terms,
            option=self.option,
            keepalive=self.keepalive,
            ebb=self.ebb,
        )


def finish_drafts(drafts: Iterable[EventDraft]) -> list[Event]:
    """Return the events in the same order. A leader precedes its members."""
    events: dict[EventDraft, Event] = {}
    for draft in drafts:
        events[draft] = draft.event(None if draft.is_leader else events[draft.leader])
    return list(events.values())
