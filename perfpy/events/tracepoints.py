"""Find the tracepoints of system:event, with wildcards, in the kernel's order as in perf.

Raises UnknownEventError with near matches if there is none, KernelRefusedError if tracefs is missing or unreadable.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from perfpy.errors import UnknownEventError

if TYPE_CHECKING:
    from perfpy.events.spec import TracepointName
    from perfpy.kernel.tracefs import Tracefs

# ftrace's own records have ids and formats, but cannot be opened as events
_NOT_EVENTS = ("ftrace",)


def is_pattern(name: str) -> bool:
    """Whether the name contains wildcards."""
    return any(character in name for character in "*?[")


def find_tracepoints(target: TracepointName, tracefs: Tracefs) -> list[tuple[str, str, int]]:
    """Return (system, event, id) of each matching tracepoint."""
    systems = [target.system]
    if is_pattern(target.system):
        systems = [name for name in tracefs.systems if fnmatchcase(name, target.system)]
    matches = []
    for system in systems:
        events = [target.event]
        if is_pattern(target.event):
            events = [name for name in tracefs.events(system) if fnmatchcase(name, target.event)]
        for event in events:
            number = None if system in _NOT_EVENTS and is_pattern(target.system) else tracefs.event_id(system, event)
            if number is not None:
                matches.append((system, event, number))
    if not matches:
        raise _unknown(target, tracefs)
    return matches


def _unknown(target: TracepointName, tracefs: Tracefs) -> UnknownEventError:
    from perfpy.events.suggestions import nearest

    name = f"{target.system}:{target.event}"
    if is_pattern(name):
        return UnknownEventError(name, hint="no tracepoint matches it")
    systems = [target.system] if target.system in tracefs.systems else nearest(target.system, tracefs.systems)
    near = []
    for system in systems:
        events = tracefs.events(system)
        same = [target.event] if target.event in events else nearest(target.event, events)
        near += [f"{system}:{event}" for event in same]
    if not near:
        near = [f"{system}:*" for system in systems]
    where = f"no system '{target.system}'" if target.system not in tracefs.systems else f"'{target.system}' lacks it"
    probe = f"; a marker of a program needs a probe first: perf probe {name}" if target.system.startswith("sdt_") else ""
    return UnknownEventError(name, near=near[:3], hint=f"no such tracepoint, {where} in {tracefs.root}/events{probe}")
