"""Ranges of source lines are parsed as perf-probe(1) describes them."""

from __future__ import annotations

import pytest

from perfpy.errors import UsageError
from perfpy.probing.grammar.line_ranges import LineRange, parse_line_range


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
def test_other_text_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        parse_line_range(text)
