"""Arguments are parsed as perf-probe(1) describes them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfpy.errors import UsageError
from perfpy.probing.grammar.arguments import ArgumentField, parse_argument, shown_name


def test_a_variable_has_fields_a_type_and_a_name() -> None:
    argument = parse_argument("n=it->next.sizes[2]:u8@user")
    assert (argument.name, argument.variable, argument.type, argument.is_user) == ("n", "it", "u8", True)
    assert argument.fields == (ArgumentField("next", follows_pointer=True), ArgumentField("sizes"), ArgumentField("", 2))


@pytest.mark.parametrize("text", ["%di", "$retval", "$stack0", "@counter+4", "+0(+8(%di)):string", "-8(%bp)", "\\7", "x=%ax:u32"])
def test_the_kernels_own_expressions_pass(text: str) -> None:
    argument = parse_argument(text)
    assert argument.raw == text.removeprefix("x=")
    assert not argument.needs_variables


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("count", "count"),
        ("why:string", "why_string"),
        ("n:b4@2/32", "n_b4"),
        ("it->price", "price"),
        ("it->name:string", "name"),
        ("argv[1]", "argv"),
        ("cs[1]:x8", "cs"),
        ("it[1].price", "price"),
        ("a=it->price", "a"),
        ("shop::total", "shop__total"),
    ],
)
def test_the_name_in_the_event(text: str, name: str) -> None:
    assert shown_name(parse_argument(text)) == name


@pytest.mark.parametrize("text", ["", "9", "a->", "a.", "a[x]", "a[99999999999]", "a:u8:x", "a b", "a:b c", "-", "="][1:-2])
def test_other_text_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        parse_argument(text)


@given(st.text(alphabet="ab->.[]0:@=$%+\\(", min_size=1, max_size=20))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with contextlib.suppress(UsageError):
        shown_name(parse_argument(text))
