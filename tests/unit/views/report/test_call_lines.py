"""A function that calls itself again and again is one line of a call tree."""

from __future__ import annotations

from perfpy.views.report.call_lines import folded


def test_names_in_a_row_are_counted() -> None:
    assert list(folded(["main", "walk", "walk", "walk", "leaf", "walk"])) == ["main", "walk  (3 times)", "leaf", "walk"]
    assert list(folded([])) == []
