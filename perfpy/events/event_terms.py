"""Terms that every event takes, whatever its PMU: config*, name, period, call-graph ...

What enters: a Term of the grammar, an EventDraft. What leaves: the draft with its
attr's config words, its name or its EventTerms set. Names and values:
perf-record(1) and perf-list(1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfpy.errors import EventSyntaxError

if TYPE_CHECKING:
    from perfpy.events.draft import EventDraft
    from perfpy.events.spec import Term

#: terms that are words of the attr itself
CONFIG_FIELDS: Final = ("config", "config1", "config2", "config3")

_BITS_16: Final = (1 << 16) - 1
_BITS_32: Final = (1 << 32) - 1
_BITS_63: Final = (1 << 63) - 1
_BITS_64: Final = (1 << 64) - 1


class _TermRule(NamedTuple):
    """field: of EventTerms; highest: of a number, 0: it is a word; switch: what the term alone means, None: needs a value."""

    field: str
    highest: int = 0
    switch: bool | None = None
    words: tuple[str, ...] = ()
    several: bool = False


_RULES: Final[dict[str, _TermRule]] = {
    "period": _TermRule("period", _BITS_63),
    "freq": _TermRule("freq", _BITS_32),
    "branch_type": _TermRule("branch_type", several=True),
    "time": _TermRule("time", 1, True),
    "call-graph": _TermRule("call_graph", words=("fp", "dwarf", "lbr", "no")),
    "stack-size": _TermRule("stack_size", _BITS_32),
    "max-stack": _TermRule("max_stack", _BITS_16),
    "nr": _TermRule("max_events", _BITS_63),
    "inherit": _TermRule("inherit", 1, True),
    "no-inherit": _TermRule("inherit", 1, False),
    "overwrite": _TermRule("overwrite", 1, True),
    "no-overwrite": _TermRule("overwrite", 1, False),
    "percore": _TermRule("percore", 1, True),
    "aux-output": _TermRule("aux_output", 1, True),
    "aux-sample-size": _TermRule("aux_sample_size", _BITS_32),
    "aux-action": _TermRule("aux_action", words=("pause", "resume", "start-paused"), several=True),
    "metric-id": _TermRule("metric_id"),
    "cpu": _TermRule("cpu", _BITS_16),
}

#: the terms that make sense for counting; the others speak of samples
_COUNTING: Final = (*CONFIG_FIELDS, "name", "period", "percore", "metric-id", "cpu")


def is_event_term(name: str) -> bool:
    """True for the names of this module, and for `@driver` settings."""
    return name in _RULES or name in CONFIG_FIELDS or name == "name" or name.startswith("@")


def term_names(*, counting: bool = False) -> list[str]:
    """The names, for messages; counting: only those that a count takes."""
    return list(_COUNTING) if counting else [*CONFIG_FIELDS, "name", *_RULES]


def apply_event_term(event: EventDraft, term: Term, text: str, *, counting: bool = False) -> None:
    """Set what the term says; raises EventSyntaxError when its value does not fit."""
    if counting and term.name not in _COUNTING:
        raise EventSyntaxError(
            text, term.column, f"'{term.name}' says how to sample, and nothing is sampled here", expected=", ".join(_COUNTING)
        )
    if term.name in CONFIG_FIELDS:
        setattr(event.attr, term.name, _number(term, _BITS_64, text))
    elif term.name == "name":
        event.name = _word(term, text)
    elif term.name.startswith("@"):
        setting = term.name[1:] if term.value is None else f"{term.name[1:]}={term.literal or term.value}"
        event.terms = event.terms._replace(driver=(*(event.terms.driver or ()), setting))
    else:
        _apply_rule(event, term, _RULES[term.name], text)


def apply_event_terms(event: EventDraft, terms: tuple[Term, ...], text: str, *, counting: bool = False) -> None:
    """All of an event that has no format terms of a PMU; raises EventSyntaxError for one that is unknown."""
    for term in terms:
        if not is_event_term(term.name):
            from perfpy.events.suggestions import nearest

            known = term_names(counting=counting)
            expected = "one of " + ", ".join(known)
            raise EventSyntaxError(text, term.column, f"unknown term '{term.name}'", expected=expected, near=nearest(term.name, known))
        apply_event_term(event, term, text, counting=counting)


def _apply_rule(event: EventDraft, term: Term, rule: _TermRule, text: str) -> None:
    value: object
    if rule.switch is not None:
        value = rule.switch == bool(_number(term, rule.highest, text))
    elif rule.highest:
        value = _number(term, rule.highest, text)
    else:
        word = _word(term, text)
        words = tuple(part for part in word.replace("|", ":").split(":")) if rule.several else (word,)
        for part in words:
            if rule.words and part not in rule.words:
                raise EventSyntaxError(
                    text, term.value_column, f"'{term.name}' cannot be '{part}'", expected="one of " + ", ".join(rule.words)
                )
        value = words if rule.several else word
    other = {"period": event.terms.freq, "freq": event.terms.period}.get(rule.field)
    if other is not None:
        raise EventSyntaxError(text, term.column, "period and freq exclude each other")
    if rule.field == "cpu":  # may be repeated
        event.cpus = value = (*(event.terms.cpu or ()), int(str(value)))
    given: Any = {rule.field: value}
    event.terms = event.terms._replace(**given)


def _number(term: Term, highest: int, text: str) -> int:
    if term.value is None:
        return 1  # as with perf
    if not isinstance(term.value, int):
        raise EventSyntaxError(text, term.value_column, f"'{term.value}' is not a number", expected=f"a number for '{term.name}'")
    if term.value > highest:
        raise EventSyntaxError(text, term.value_column, f"{term.literal} is too big for '{term.name}'", expected=f"at most {highest}")
    return term.value


def _word(term: Term, text: str) -> str:
    if term.value is None or term.value == "":
        raise EventSyntaxError(text, term.value_column, f"'{term.name}' has no value", expected="'=' and a word or a quoted string")
    return term.literal or str(term.value)
