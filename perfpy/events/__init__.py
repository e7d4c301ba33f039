"""The event language: resolve `-e` texts to events of this machine."""

from __future__ import annotations

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Any

    from perfpy.events.event import Event, EventTerms
    from perfpy.events.resolve import EventList, parse_events

__all__ = ["Event", "EventList", "EventTerms", "parse_events"]

_HOMES = {"Event": "event", "EventTerms": "event", "EventList": "resolve", "parse_events": "resolve"}


def __getattr__(name: str) -> Any:
    """Load on first use, because `perfpy list` needs the tables of this package and no parser."""
    if name not in _HOMES:
        raise AttributeError(f"module 'perfpy.events' has no attribute '{name}'")
    module = __import__(f"perfpy.events.{_HOMES[name]}", fromlist=[name])  # importlib would cost half a millisecond
    value = getattr(module, name)
    globals()[name] = value
    return value
