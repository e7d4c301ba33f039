"""Points are parsed as perf-probe(1) describes them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfpy.errors import UsageError
from perfpy.probing.grammar.points import parse_point, parse_request


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
