"""Expressions of metrics are compiled to programs, and written again as perf writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfpy.counts.formulas import compile_formula, formula_text, tree_of
from perfpy.errors import EventSyntaxError


@pytest.mark.parametrize(
    ("text", "program", "tree"),
    [
        ("a + b * 2", "a b 2 * +", ("+", "a", ("*", "b", 2.0))),
        ("(a + b) * 2", "a b + 2 *", ("*", ("+", "a", "b"), 2.0)),
        ("a - (b - c)", "a b c - -", ("-", "a", ("-", "b", "c"))),
        ("(a if #SMT_on else b)", "a #SMT_on b if:", ("if", "a", "#SMT_on", "b")),
        ("max(0, 1 - a)", "0 1 a - max(", ("max", 0.0, ("-", 1.0, "a"))),
        (r"cpu@A.B\,cmask\=1@ / 4k\-x", r"cpu@A.B\,cmask\=1@ \4k\-x /", ("/", "cpu@A.B,cmask=1@", "4k-x")),
        ("a > 0.1 & (b > 0.2 & c > 0.3)", "a 0.1 > b 0.2 > c 0.3 > & &", None),
        ("source_count(unc_x) * 2", "unc_x source_count( 2 *", ("*", ("source_count", "unc_x"), 2.0)),
        ("d_ratio(a, b)", "a b d_ratio(", ("d_ratio", "a", "b")),
        ("strcmp_cpuid_str(0x41) | has_event(a)", r"\0x41 strcmp_cpuid_str( a has_event( |", None),
        ("unc@x\\,filter\\=?@", "unc@x\\,filter\\=?@", "unc@x,filter=0@"),
    ],
)
def test_a_program_has_the_words_in_postfix_order(text: str, program: str, tree: object) -> None:
    assert compile_formula(text) == program
    assert formula_text(program) == text
    assert tree is None or tree_of(program) == tree


@given(st.text(alphabet="0123456789.+-*/%()<>&|^!,abeif# \\@:?", max_size=40))
def test_any_text_is_compiled_or_refused(text: str) -> None:
    """A text that compiles means the same when it is written out again."""
    try:
        program = compile_formula(text)
    except EventSyntaxError:
        return
    assert repr(tree_of(compile_formula(formula_text(program)))) == repr(tree_of(program))


@pytest.mark.parametrize("program", ["", "a +", "a b", "+", "a  b +", "neg:", "a b if:", "1x", "min("])
def test_a_damaged_program_is_refused(program: str) -> None:
    with pytest.raises(EventSyntaxError, match="damaged"):
        tree_of(program)
