"""Text of `evlist` over --control: the open events, in perf's format without its tips."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.capture.opening import OpenEvent


class _Names:
    """Names of this machine's PMUs, and of the tracepoints among these events."""

    def __init__(self, events: Sequence[OpenEvent]) -> None:
        from perfpy.kernel.sysfs import Sysfs

        self._pmus = {pmu.type: pmu.name for pmu in Sysfs().pmus}
        self._tracepoints = {event.attr.config: event.name for event in events}

    def pmu(self, type_number: int) -> str:
        return self._pmus.get(type_number, "")

    def tracepoint(self, number: int) -> str:
        return self._tracepoints.get(number, "")


def event_lines(events: Sequence[OpenEvent], option: str) -> str:
    """Return a line for each event (-g: each group). option is "", -v, -g or -F."""
    if option == "-g":
        return "\n".join(_group(event, events) for event in events if event.is_leader)
    names = _Names(events) if option == "-v" else None
    return "\n".join(event.name + _details(event, option, names) for event in events)


def _details(event: OpenEvent, option: str, names: _Names | None) -> str:
    attr = event.attr
    if option == "-F":
        return f": {'sample_freq' if attr.freq else 'sample_period'}={attr.sample_freq}"
    if names is None:
        return ""
    from perfpy.views.metadata.attr import attr_fields

    return ": " + ", ".join(f"{label}: {value}" for label, value in attr_fields(attr, names))


def _group(leader: OpenEvent, events: Sequence[OpenEvent]) -> str:
    members = ",".join(event.name for event in events if event.leader is leader)
    return f"{leader.event.group_name}{{{members}}}" if "," in members else members
