"""Tests the choice of cases: the quick run has one case of each test, `rest` has the other cases, `alone` the tests that run alone."""

from __future__ import annotations

import re
from pathlib import Path

from tests.builders.case_choice import SLOW_MARKERS, chosen, function_of, may_have_cases

CHECKOUT = Path(__file__).resolve().parents[2]
NAMES = [
    *("a.py::quick[1]", "a.py::quick[2]", "a.py::slow[1]", "a.py::slow[2-[x]]"),
    *("b.py::slow[1]", "b.py::slow[3]", "b.py::slow_single", "c.py::thorough"),
    *("d.py::alone_slow[1]", "d.py::alone_slow[2]"),
]


def run_of(choice: str) -> list[str]:
    included, excluded = chosen(NAMES, choice, str, lambda name: re.findall("alone|slow|thorough", name))  # type: ignore[arg-type]
    assert sorted([*included, *excluded]) == sorted(NAMES)
    return included


def test_some_has_one_case_of_each_slow_test_and_no_thorough_one() -> None:
    assert run_of("some") == ["a.py::quick[1]", "a.py::quick[2]", "a.py::slow[1]", "b.py::slow[1]", "b.py::slow_single"]
    assert {function_of(name) for name in run_of("some")} == {function_of(name) for name in NAMES} - {"c.py::thorough", "d.py::alone_slow"}


def test_some_rest_and_alone_are_all() -> None:
    assert run_of("rest") == ["a.py::slow[2-[x]]", "b.py::slow[3]", "c.py::thorough"]
    assert run_of("alone") == ["d.py::alone_slow[1]", "d.py::alone_slow[2]"]
    assert sorted(run_of("some") + run_of("rest") + run_of("alone")) == sorted(run_of("all"))


def test_a_run_of_the_whole_suite_is_the_quick_one(pytestconfig) -> None:
    """And one that names files or tests has all their cases."""
    assert pytestconfig.getoption("cases") in ("some", "rest", "alone", "all")
    assert {"live", "versus_perf", "slow"} <= set(SLOW_MARKERS)


def test_files_without_a_marker_are_not_imported_for_the_other_choices() -> None:
    slow, alone, plain = "@pytest.mark.versus_perf\n", "pytestmark = [pytest.mark.alone]", "@pytest.mark.parametrize('slow', [])"
    assert [may_have_cases(text, "rest") for text in (slow, alone, plain)] == [True, False, False]
    assert [may_have_cases(text, "alone") for text in (slow, alone, plain)] == [False, True, False]
    assert may_have_cases(plain, "some")
    assert may_have_cases(plain, "all")
