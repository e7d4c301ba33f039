"""Points are parsed as perf-probe(1) describes them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfpy.errors import UsageError
from perfpy.probing.grammar import (
    ArgumentField,
    LineRange,
    glob_test,
    is_glob,
    parse_argument,
    parse_filter,
    parse_line_range,
    parse_point,
    parse_request,
    shown_name,
)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("cost", {"function": "cost"}),
        ("cost+4", {"function": "cost", "offset": 4}),
        ("cost+0x10", {"function": "cost", "offset": 16}),
        ("cost%return", {"function": "cost", "is_return": True}),
        ("cost:2", {"function": "cost", "line": 2}),
        ("cost:-1", {"function": "cost", "line": -1}),
        ("cost@a/shop.c", {"function": "cost", "source": "a/shop.c"}),
        ("cost@shop.c:2", {"function": "cost", "source": "shop.c", "line": 2}),
        ("cost:2@shop.c", {"function": "cost", "source": "shop.c", "line": 2}),
        ("cost@shop.c%return", {"function": "cost", "source": "shop.c", "is_return": True}),
        ("shop.c:13", {"source": "shop.c", "line": 13}),
        ("shop.c;sum*=+;", {"source": "shop.c", "pattern": "sum*=+;"}),
        ("cost;a=b", {"function": "cost", "pattern": "a=b"}),
        ("main.cold", {"function": "main.cold"}),
        (r"malloc\@GLIBC_2.2.5", {"function": "malloc@GLIBC_2.2.5"}),
        (r"foo\+bar.c:4", {"source": "foo+bar.c", "line": 4}),
        ("shop::Item::cost", {"function": "shop::Item::cost"}),
        ("shop::Item::cost:3", {"function": "shop::Item::cost", "line": 3}),
        ("shop::over(long)", {"function": "shop::over(long)"}),
        ("0x11d4", {"address": 0x11D4}),
        ("%sdt_app:begin", {"marker": ("app", "begin")}),
        ("%begin", {"marker": ("", "begin")}),
        ("sdt_app:begin", {"marker": ("app", "begin")}),
    ],
)
def test_a_point_has_these_fields(text: str, fields: dict[str, object]) -> None:
    point = parse_point(text)
    defaults = parse_point("x")._replace(function="", text=text)
    assert point == defaults._replace(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    ["", "cost%return+3", "cost+3%return", "cost:1+2", "cost%foo", "cost+x", "cost:x", "shop.c", "cost:1:2", "%sdt_a:b-c", "@a.c", "+4"],
)
def test_a_wrong_point_is_a_usage_error(text: str) -> None:
    if text == "shop.c":
        assert parse_point(text).function == "shop.c"  # without a line it may be a function's clone
        return
    with pytest.raises(UsageError):
        parse_point(text)


def test_a_request_has_a_group_an_event_and_arguments() -> None:
    request = parse_request("mine:here=cost:2 count  it->price")
    assert (request.group, request.event, request.point.function, request.point.line) == ("mine", "here", "cost", 2)
    assert request.arguments == ("count", "it->price")
    assert parse_request("here=cost").event == "here"
    assert parse_request("f(int, long) x").arguments == ("x",)


@pytest.mark.parametrize("text", ["", "  ", "9a=cost", "a-b=cost", "g:=cost", "=cost", ":a=cost"])
def test_a_wrong_name_of_an_event_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        parse_request(text)


@given(st.text(alphabet="ab:;@+%=.\\0x()-> \t\n*", max_size=30))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with contextlib.suppress(UsageError):
        parse_request(text)


# Arguments are parsed as perf-probe(1) describes them.


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
def test_any_text_is_parsed_or_refused_of_arguments(text: str) -> None:
    with contextlib.suppress(UsageError):
        shown_name(parse_argument(text))


# Ranges of source lines are parsed as perf-probe(1) describes them.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cost", LineRange("cost", "", 0, None)),
        ("cost:1-4", LineRange("cost", "", 1, 4)),
        ("cost:1+2", LineRange("cost", "", 1, 2)),
        ("cost@shop.c:3", LineRange("cost", "shop.c", 3, None)),
        ("cost:3@shop.c", LineRange("cost", "shop.c", 3, None)),
        ("shop.c:18-22", LineRange("", "shop.c", 18, 22)),
        ("src/shop:5", LineRange("", "src/shop", 5, None)),
        ("shop::Item::cost:2", LineRange("shop::Item::cost", "", 2, None)),
    ],
)
def test_a_range_is_a_function_or_a_file_with_lines(text: str, expected: LineRange) -> None:
    assert parse_line_range(text) == expected


@pytest.mark.parametrize("text", ["", ":1", "cost:", "cost:x", "cost:4-1", "cost:1-2-3", "cost:99999999999", "cost:1+"])
def test_other_text_is_a_usage_error_of_line_ranges(text: str) -> None:
    with pytest.raises(UsageError):
        parse_line_range(text)


# Filters of names: patterns joined by !, &, | and parentheses.


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
def test_other_text_is_a_usage_error_of_name_filters(text: str) -> None:
    with pytest.raises(UsageError):
        parse_filter(text)


def test_a_name_with_an_escaped_star_is_plain() -> None:
    assert glob_test(r"a\*")("a*")
    assert not glob_test(r"a\*")("ab")


def test_operators_are_no_patterns() -> None:
    assert is_glob("a*")
    assert not is_glob("operator*")
