"""The event language: what `-e` means on this machine, as values that the capture half opens."""

from perfpy.events.event import Event, EventTerms
from perfpy.events.resolve import EventList, parse_events

__all__ = ["Event", "EventList", "EventTerms", "parse_events"]
