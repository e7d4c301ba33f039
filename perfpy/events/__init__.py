"""The event language: resolve `-e` texts to events of this machine.

Modules, in the order of the data:

    spec, grammar       text -> EventSpec and GroupSpec
    resolve             EventSpec + Machine -> Event, by way of draft
    event               Event and its terms
    event_terms         terms of every event; pmu_terms: terms of a PMU's format
    tracepoints         events of tracefs
    catalog             generic hardware, software and cache events
    kinds               probes, markers and other kinds
    grouping            leaders of groups, and groups that several PMUs split
    machine             the sources of named events: sysfs, files, tables
    vendor              events and metrics that vendors publish
    listing             what perfpy list shows
    fallback            the next attempt after a refused event
    naming              Event -> text
    suggestions         near matches of unknown names
"""

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
    from importlib import import_module

    value = getattr(import_module(f"perfpy.events.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
