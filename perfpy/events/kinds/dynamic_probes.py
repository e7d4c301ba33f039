"""kprobe/func=NAME/ and uprobe/path="FILE",offset=N/: probes that exist as long as their event.

config1 is an address in this process, from which the kernel copies the string when the event is opened, so the event keeps the string
alive. Layout: the union of config1 and config2 in struct perf_event_attr.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Final

from perfpy.errors import EventSyntaxError

if TYPE_CHECKING:
    from perfpy.events.draft import EventDraft
    from perfpy.events.spec import Term

#: PMU -> terms: the string for config1, the number instead of it, the number for config2
_POSITION_TERMS: Final = {"kprobe": ("func", "addr", "offset"), "uprobe": ("path", "", "offset")}


def position_probe(event: EventDraft, pmu: str, terms: tuple[Term, ...], text: str) -> tuple[Term, ...]:
    """Set the probe's position from its terms, and return the other terms. Raises EventSyntaxError for invalid values."""
    string_term, address_term, offset_term = _POSITION_TERMS[pmu]
    others = []
    for term in terms:
        if term.name == string_term:
            target = ctypes.create_string_buffer(_string(term, text).encode())
            event.keepalive = target
            event.attr.config1 = ctypes.addressof(target)
        elif address_term and term.name == address_term:
            event.attr.config2 = _number(term, text)  # kprobe_addr, which the kernel uses if func is NULL
        elif term.name == offset_term:
            event.attr.config2 = _number(term, text)
        else:
            others.append(term)
    return tuple(others)


def _string(term: Term, text: str) -> str:
    if not isinstance(term.value, str) or not term.value:
        raise EventSyntaxError(text, term.value_column, f"'{term.name}' takes a name", expected="a string, in quotes when it has '/'")
    return term.value


def _number(term: Term, text: str) -> int:
    if not isinstance(term.value, int):
        raise EventSyntaxError(text, term.value_column, f"'{term.name}' takes a number", expected="a number")
    return term.value
