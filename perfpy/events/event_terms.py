"""Terms that every event accepts, whatever its PMU: config*, name, period, call-graph ...

Names and values: perf-record(1) and perf-list(1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfpy.abi.startup import NamedTuple
from perfpy.errors import EventSyntaxError

if TYPE_CHECKING:
    from perfpy.events.draft import EventDraft
    from perfpy.events.spec import Term

#: terms that are fields of the attr
CONFIG_FIELDS: Final = ("config", "config1", "config2", "config3")

_BITS_16: Final = (1 << 16) - 1
_BITS_32: Final = (1 << 32) - 1
_BITS_63: Final = (1 << 63) - 1
_BITS_64: Final = (1 << 64) - 1


class _TermRule(NamedTuple):
    """The rule of one term.

    Attributes:
        field: of EventTerms
        highest: the largest number; 0 for a word
        switch: the value of the term without "="; None if it needs one
    """

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

#: the terms that apply to counting; the others apply to samples
_COUNTING: Final = (*CONFIG_FIELDS, "name", "period", "percore", "metric-id", "cpu")


def is_event_term(name: str) -> bool:
    """Whether this is a term of this module, or a `@driver` setting."""
    return name in _RULES or name in CONFIG_FIELDS or name == "name" or name.startswith("@")


def term_names(*, counting: bool = False) -> list[str]:
    """Return the names for messages; with `counting`, only those that apply to counts."""
    return list(_COUNTING) if counting else [*CONFIG_FIELDS, "name", *_RULES]


def apply_event_term(event: EventDraft, term: Term, text: str, *, counting: bool = False) -> None:
    """Apply a term to a draft. Raises EventSyntaxError if its value is invalid."""
    if counting and term.name not in _COUNTING:
        raise EventSyntaxError(text, term.column, f"'{term.name}' applies to sampling, and stat only counts", expected=", ".join(_COUNTING))
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
    """Apply all terms of an event without format terms. Raises EventSyntaxError for an unknown one."""
    for term in terms:
        if not is_event_term(term.name):
            from perfpy.events.suggestions import nearest

            names = term_names(counting=counting)
            expected = "one of " + ", ".join(names)
            raise EventSyntaxError(text, term.column, f"unknown term '{term.name}'", expected=expected, near=nearest(term.name, names))
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
    if rule.field == "cpu":  # repeatable
        event.cpus = value = (*(event.terms.cpu or ()), int(str(value)))
    change: Any = {rule.field: value}
    event.terms = event.terms._replace(**change)


def _number(term: Term, highest: int, text: str) -> int:
    if term.value is None:
        return 1  # as in perf
    if not isinstance(term.value, int):
        raise EventSyntaxError(text, term.value_column, f"'{term.value}' is not a number", expected=f"a number for '{term.name}'")
    if term.value > highest:
        raise EventSyntaxError(text, term.value_column, f"{term.literal} is too big for '{term.name}'", expected=f"at most {highest}")
    return term.value


def _word(term: Term, text: str) -> str:
    if term.value is None or term.value == "":
        raise EventSyntaxError(text, term.value_column, f"'{term.name}' has no value", expected="'=' and a word or a quoted string")
    return term.literal or str(term.value)
