"""The formulas of metric files: precedence, functions, names, errors."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfpy.counts.metrics import Formula
from perfpy.errors import EventSyntaxError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 4 - 3", 3),
        ("7 % 4", 3),
        ("-2 * -3", 6),
        ("1.5e3 / 2", 750),
        ("min(4, 2) + max(4, 2)", 6),
        ("d_ratio(3, 0)", 0),
        ("1 if 2 > 1 else 5", 1),
        ("1 if 0 else 2 if 0 else 3", 3),
        ("6 & 3 | 8", 10),
        ("5 ^ 1", 4),
        ("!0 + !7", 1),
        ("3 < 4", 1),
    ],
)
def test_values(text: str, value: float) -> None:
    """Arithmetic as the files mean it."""
    assert Formula(text).evaluate({}) == value


@pytest.mark.parametrize(
    ("text", "events"),
    [
        ("instructions / cycles", ("instructions", "cycles")),
        (r"L1\-dcache\-loads / cycles", ("L1-dcache-loads", "cycles")),
        (r"cpu@event\=0x3c\,umask\=1@ * 2", ("cpu/event=0x3c,umask=1/",)),
        ("cycles:u + cycles:u", ("cycles:u",)),
        ("#num_cpus * cs", ("cs",)),
    ],
)
def test_names_of_events(text: str, events: tuple[str, ...]) -> None:
    """Escapes and @ become the event language's own signs."""
    assert Formula(text).events == events


def test_missing_counts_make_no_number() -> None:
    """A division by zero, or an event without a count, gives NaN; has_event tells."""
    assert math.isnan(Formula("a / b").evaluate({"a": 1.0, "b": 0.0}))
    assert math.isnan(Formula("a + 1").evaluate({}))
    assert Formula("1 if has_event(a) else 2").evaluate({}) == 2


@pytest.mark.parametrize(("text", "column"), [("1 +", 3), ("(1", 2), ("min(1)", 5), ("1 2", 2), ("foo(1, 2)", 0), ("1 $ 2", 1), ("", 0)])
def test_errors_point_at_the_column(text: str, column: int) -> None:
    """Each error says where."""
    with pytest.raises(EventSyntaxError) as error:
        Formula(text)
    assert error.value.column == column


@given(st.text(alphabet="0123456789.+-*/%()<>&|^!,abeif# \\@:", max_size=40))
def test_any_text_is_a_formula_or_an_error(text: str) -> None:
    """Nothing but EventSyntaxError comes out of the parser."""
    try:
        formula = Formula(text)
    except EventSyntaxError:
        return
    assert isinstance(formula.evaluate({}), float)


def test_names_that_are_formulas_are_computed_from_their_events() -> None:
    definitions = {"ipc": "instructions / Slow", "slow": r"cpu@CYCLES\,cmask\=1@ + #Smt_On"}
    formula = Formula("100 * IPC - x", definitions)
    assert formula.events == ("instructions", "cpu/CYCLES,cmask=1/", "x")
    assert formula.literals == ("#smt_on",)
    assert formula.evaluate({"instructions": 8, "cpu/CYCLES,cmask=1/": 3, "#smt_on": 1, "x": 50}) == 150


def test_a_formula_within_itself_is_refused() -> None:
    with pytest.raises(EventSyntaxError, match="'a' is part of its own formula"):
        Formula("a", {"a": "b + 1", "b": "a"})
