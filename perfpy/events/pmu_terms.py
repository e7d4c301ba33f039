"""Set the config words of an attr from the terms of a PMU's event, by the PMU's description in sysfs.

A named event also sets unit, scale and marks of the EventDraft. Raises EventSyntaxError with the term's column. Bit fields: the PMU's
format/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.abi.flags import PerfType
from perfpy.abi.perf_records.auxtrace_records import PMCU_NAME
from perfpy.abi.startup import NamedTuple
from perfpy.errors import EventSyntaxError
from perfpy.events.catalog import cache_event, generic_event
from perfpy.events.event_terms import apply_event_term, is_event_term, term_names
from perfpy.events.grammar import RAW_LIMIT, is_too_long_raw, parse_terms, raw_config

if TYPE_CHECKING:
    from perfpy.events.draft import EventDraft
    from perfpy.events.machine import Machine
    from perfpy.events.spec import Term
    from perfpy.kernel.sysfs import Alias, Pmu


class TermContext(NamedTuple):
    """The text, machine and mode that terms are read in."""

    text: str
    machine: Machine
    counting: bool

    def error(self, column: int, reason: str, expected: str = "", near: list[str] | None = None) -> EventSyntaxError:
        """Return an error at a column of the event's text."""
        return EventSyntaxError(self.text, column, reason, expected=expected, near=near or ())


def configure(event: EventDraft, pmu: Pmu, terms: tuple[Term, ...], context: TermContext) -> None:
    """Set the event's attr, terms, unit and scale from `terms`.

    A term without a value may be a named event of the PMU. Its own terms are set instead; the user's terms fill each `?` among them.
    """
    attr = event.attr
    if pmu.type is None:
        raise context.error(0, f"PMU '{pmu.name}' has no type in sysfs")
    attr.type = pmu.type
    event.pmu = pmu.name
    event.cpus = pmu.cpus
    event.requires_cpu = pmu.cpus is not None and not pmu.is_core
    parameters = {term.name: term for term in terms if isinstance(term.value, int)}
    alias: Alias | None = None
    for term in terms:
        term_alias = _alias_of(pmu, term, context)
        if term_alias is None:
            _set_term(event, pmu, term, context)
            continue
        if alias and term_alias.unit and alias.unit and (alias.unit, alias.scale) != (term_alias.unit, term_alias.scale):
            raise context.error(term.column, f"'{term.name}' counts in {term_alias.unit}, '{alias.name}' in {alias.unit}")
        alias = term_alias
        _take_alias(event, pmu, term_alias, context, parameters)
    if pmu.name.startswith(PMCU_NAME):
        from perfpy.events.kinds.pmcu import check_event  # few machines have one

        check_event(event, pmu, terms, context.text, counting=context.counting)


def _alias_of(pmu: Pmu, term: Term, context: TermContext) -> Alias | None:
    """Return the named event of a term without a value; None if it is none."""
    if term.value is not None or term.name in pmu.formats or is_event_term(term.name):
        return None
    return context.machine.alias(pmu, term.name)


def _take_alias(event: EventDraft, pmu: Pmu, alias: Alias, context: TermContext, parameters: dict[str, Term]) -> None:
    event.unit = alias.unit or event.unit
    event.scale = alias.scale
    event.per_pkg = alias.per_pkg
    event.snapshot = alias.snapshot
    inner = context._replace(text=f"{pmu.name}/{alias.name}/ = {alias.terms}", counting=False)
    own_rate = not parameters.keys().isdisjoint(("period", "freq"))
    for term in parse_terms(alias.terms):
        if term.name == "period" and own_rate:
            continue  # the user's rate precedes the one that the event proposes
        if term.value != "?":
            _set_term(event, pmu, term, inner)
        elif term.name not in parameters:
            reason = f"event '{alias.name}' needs a value for '{term.name}'"
            raise context.error(len(context.text), reason, f"'{term.name}=' and a number among the terms")
        # the user's term sets its bits later, in its own turn


def _set_term(event: EventDraft, pmu: Pmu, term: Term, context: TermContext) -> None:
    """Set a term that is not a named event."""
    if term.name in pmu.formats:
        _set_format(event, pmu, term, context)
    elif term.name == "user_events" and pmu.name.startswith(PMCU_NAME):
        from perfpy.events.kinds.pmcu import user_events  # few machines have one

        event.terms = event.terms._replace(user_events=user_events(term, context.text))
    elif is_event_term(term.name):
        apply_event_term(event, term, context.text, counting=context.counting)
    elif not _set_generic(event, pmu, term, context):
        raise _unknown_term(pmu, term, context)


def _set_format(event: EventDraft, pmu: Pmu, term: Term, context: TermContext) -> None:
    layout = pmu.formats[term.name]
    value = term.value
    if value is None:
        if layout.width > 1:
            raise context.error(term.value_column, f"term '{term.name}' has no value", "'=' and a number")
        value = 1
    if not isinstance(value, int):
        raise context.error(term.value_column, f"term '{term.name}' takes no word", "a number")
    if value >> layout.width:
        highest = (1 << layout.width) - 1
        raise context.error(term.value_column, f"{term.literal or value} does not fit '{term.name}'", f"at most {highest:#x}")
    setattr(event.attr, layout.field, getattr(event.attr, layout.field) | layout.spread(value))


def _set_generic(event: EventDraft, pmu: Pmu, term: Term, context: TermContext) -> bool:
    """Set rNNN or a generic name inside a core PMU (cpu/cycles/, cpu/L1-dcache-loads/). Return whether it was one."""
    if term.value is not None:
        return False
    raw = raw_config(term.name)
    if raw is not None:
        event.attr.config = raw
        return True
    if not pmu.is_core and pmu.path:
        return False
    generic = generic_event(term.name)
    cache = cache_event(term.name)
    if generic and generic[0] == PerfType.HARDWARE:
        event.attr.type, event.attr.config = generic
    elif cache is not None:
        event.attr.type, event.attr.config = PerfType.HW_CACHE, cache
    else:
        return False
    if context.machine.has_extended_types:
        event.attr.config |= (pmu.type or 0) << 32
    return True


def _unknown_term(pmu: Pmu, term: Term, context: TermContext) -> EventSyntaxError:
    from perfpy.events.suggestions import nearest

    if is_too_long_raw(term.name):
        return context.error(term.column, *RAW_LIMIT)
    general = term_names(counting=context.counting)
    near = nearest(term.name, [*pmu.formats, *general, *context.machine.alias_names(pmu)])
    absent = "" if pmu.path else ", because this machine shows no PMU of its CPUs"
    reason = f"PMU '{pmu.name}' has no term or event '{term.name}'{absent}"
    own = "a term of its format (" + ", ".join(pmu.formats) + "), " if pmu.formats else ""
    return context.error(term.column, reason, f"{own}one of its events, or one of {', '.join(general)}", near)
