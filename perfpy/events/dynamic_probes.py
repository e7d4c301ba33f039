"""kprobe/func=NAME/ and uprobe/path="FILE",offset=N/: probes that live as long as their event.

What enters: an EventDraft of the kprobe or uprobe PMU and its terms. What leaves:
attr.config1 and config2 set, and the terms that are left for the PMU's format.
config1 is an address in this process (the kernel copies the string when the
event is opened), so the event keeps the string alive. Layout: the union of
config1 and config2 in struct perf_event_attr.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Final

from perfpy.errors import EventSyntaxError

if TYPE_CHECKING:
    from perfpy.events.draft import EventDraft
    from perfpy.events.spec import Term

#: what each PMU takes: the term with a string for config1, the number for config1 instead, the number for config2
_POSITION_TERMS: Final = {"kprobe": ("func", "addr", "offset"), "uprobe": ("path", "", "offset")}


def position_probe(event: EventDraft, pmu: str, terms: tuple[Term, ...], text: str) -> tuple[Term, ...]:
    """Take the terms that say where the probe goes; raises EventSyntaxError for values that do not fit."""
    string_term, address_term, offset_term = _POSITION_TERMS[pmu]
    rest = []
    for term in terms:
        if term.name == string_term:
            target = ctypes.create_string_buffer(_string(term, text).encode())
            event.keepalive = target
            event.attr.config1 = ctypes.addressof(target)
        elif address_term and term.name == address_term:
            event.attr.config2 = _number(term, text)  # kprobe_addr, which the kernel takes where func is NULL
        elif term.name == offset_term:
            event.attr.config2 = _number(term, text)
        else:
            rest.append(term)
    return tuple(rest)


def _string(term: Term, text: str) -> str:
    if not isinstance(term.value, str) or not term.value:
        raise EventSyntaxError(text, term.value_column, f"'{term.name}' takes a name", expected="a string, in quotes when it has '/'")
    return term.value


def _number(term: Term, text: str) -> int:
    if not isinstance(term.value, int):
        raise EventSyntaxError(text, term.value_column, f"'{term.name}' takes a number", expected="a number")
    return term.value
