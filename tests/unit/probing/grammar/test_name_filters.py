"""Filters of names: patterns joined by !, &, | and parentheses."""

from __future__ import annotations

import pytest

from perfpy.errors import UsageError
from perfpy.probing.grammar.name_filters import glob_test, is_glob, parse_filter


@pytest.mark.parametrize(
    ("text", "passes", "fails"),
    [
        ("foo*", ["foo", "foobar"], ["bar"]),
        ("!foo* & *bar", ["fizzbar"], ["foobar", "fizz"]),
        ("foo* | bar*", ["foo1", "bar2"], ["xfoo"]),
        ("!(a | b)", ["c"], ["a", "b"]),
        ("!_* & !*@plt", ["main"], ["_start", "printf@plt"]),
        ("[!A-Z]*", ["main"], ["Main"]),
        ("a&b|c", ["c"], ["a", "b"]),
    ],
)
def test_a_filter_passes_these_names(text: str, passes: list[str], fails: list[str]) -> None:
    test = parse_filter(text)
    assert [name for name in passes + fails if test(name)] == passes


@pytest.mark.parametrize("text", ["", "(", "(a", "a)", "a &", "!", "& a", "a b", "!" * 500 + "a", "(" * 500])
def test_other_text_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        parse_filter(text)


def test_a_name_with_an_escaped_star_is_plain() -> None:
    assert glob_test(r"a\*")("a*")
    assert not glob_test(r"a\*")("ab")


def test_operators_are_no_patterns() -> None:
    assert is_glob("a*")
    assert not is_glob("operator*")
