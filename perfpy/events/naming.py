"""Convert attrs to names and events to texts, the reverse of the event language.

`attr_name` returns perf's name of an event without a text; `event_text` returns a text for -e that means exactly the same event here.
"""

from __future__ import annotations

from perfpy.abi.flags import PerfType
from perfpy.events.catalog import generic_name

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from perfpy.abi.attr import EventAttr
    from perfpy.events.event import Event

_LOW_HALF = 0xFFFFFFFF  # the high half of a generic event's config has the core PMU
_ACCESS = ((1, "r"), (2, "w"), (4, "x"))


def modifiers_of(attr: EventAttr) -> str:
    """Return the letters for exclude_* and precise_ip; "" if nothing is excluded."""
    letters = ""
    if attr.exclude_user or attr.exclude_kernel or attr.exclude_hv:
        letters += "" if attr.exclude_kernel else "k"
        letters += "" if attr.exclude_user else "u"
        letters += "" if attr.exclude_hv else "h"
    letters += "p" * attr.precise_ip
    guests_left_out_anyway = bool(letters)  # perf's default in combination with other modifiers
    if attr.exclude_host or bool(attr.exclude_guest) == guests_left_out_anyway:
        letters += "" if attr.exclude_host else "H"
        letters += "" if attr.exclude_guest else "G"
    return letters


def attr_name(attr: EventAttr) -> str:
    """Return perf's name of an attr: generic if possible, with modifiers."""
    name, letters = _base_name(attr), modifiers_of(attr)
    return f"{name}:{letters}" if letters else name


def _base_name(attr: EventAttr) -> str:
    """Return the generic name, or TYPE:CONFIG, rCONFIG or mem:ADDRESS."""
    name = generic_name(attr.type, attr.config)
    if name:
        return name
    if attr.type == PerfType.BREAKPOINT:
        access = "".join(letter for bit, letter in _ACCESS if attr.bp_type & bit)
        return f"mem:{attr.bp_addr:#x}/{attr.bp_len}:{access}"
    if attr.type == PerfType.RAW:
        return f"r{attr.config:x}"
    return f"{attr.type}:{attr.config:#x}"


def event_text(event: Event) -> str:
    """Return a text for -e that resolves to the same attr and terms on the same machine, without groups and filters."""
    attr = event.attr
    letters = _exact_modifiers(event)
    terms = _term_texts(event)
    if event.tool:
        return f"{event.tool}:{letters}" if letters else event.tool
    if event.pmu and not event.tracepoint and not event.keepalive:
        words = [f"{field}={getattr(attr, field):#x}" for field in ("config", "config1", "config2", "config3")]
        if attr.type in (PerfType.HARDWARE, PerfType.HW_CACHE):  # a generic event on a core PMU
            words[:1] = [generic_name(attr.type, attr.config & _LOW_HALF)]
        return f"{event.pmu}/{','.join(words + terms)}/{letters}"
    name = ":".join(event.tracepoint) if event.tracepoint else _base_name(attr)
    if attr.type == PerfType.BREAKPOINT and terms:
        return f"{name}/{','.join(terms)}/{letters}"
    return name + (f"/{','.join(terms)}/" if terms else "") + (f":{letters}" if letters else "")


def _exact_modifiers(event: Event) -> str:
    """Return all letters that the event needs; none for the default, which excludes only guests."""
    attr = event.attr
    letters = modifiers_of(attr).rstrip("GH")
    letters += "I" * attr.exclude_idle + "D" * attr.pinned + "e" * attr.exclusive
    letters += "P" * event.precise_max + "S" * event.sample_read
    if letters or attr.exclude_host or not attr.exclude_guest:
        letters += "" if attr.exclude_host else "H"
        letters += "" if attr.exclude_guest else "G"
    return letters


def _term_texts(event: Event) -> list[str]:
    """Return the event's terms as texts."""
    texts = []
    for field, value in event.terms.present_terms().items():
        name = {"branch_type": "branch_type", "max_events": "nr"}.get(field, field.replace("_", "-"))
        if field == "driver":
            texts += [f"@{setting}" for setting in value]
        elif field == "cpu":
            texts += [f"cpu={cpu}" for cpu in value]
        elif isinstance(value, tuple):
            texts.append(f"{name}={':'.join(value)}")
        else:
            texts.append(f"{name}={int(value) if isinstance(value, bool) else value}")
    return texts
