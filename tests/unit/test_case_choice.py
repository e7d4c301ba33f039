"""The quick run has one case of every test; the rest, which CI runs too, has all others."""

from __future__ import annotations

import re
from pathlib import Path

from tests.builders.case_choice import SLOW_MARKERS, chosen, function_of

CHECKOUT = Path(__file__).resolve().parents[2]
NAMES = [
    *("a.py::quick[1]", "a.py::quick[2]", "a.py::slow[1]", "a.py::slow[2-[x]]"),
    *("b.py::slow[1]", "b.py::slow[3]", "b.py::slow_alone", "c.py::thorough"),
]


def run_of(choice: str) -> list[str]:
    included, excluded = chosen(NAMES, choice, str, lambda name: re.findall("slow|thorough", name))  # type: ignore[arg-type]
    assert sorted([*included, *excluded]) == sorted(NAMES)
    return included


def test_some_has_one_case_of_each_slow_test_and_no_thorough_one() -> None:
    assert run_of("some") == ["a.py::quick[1]", "a.py::quick[2]", "a.py::slow[1]", "b.py::slow[1]", "b.py::slow_alone"]
    assert {function_of(name) for name in run_of("some")} == {function_of(name) for name in NAMES} - {"c.py::thorough"}


def test_some_and_rest_are_all() -> None:
    assert run_of("rest") == ["a.py::slow[2-[x]]", "b.py::slow[3]", "c.py::thorough"]
    assert sorted(run_of("some") + run_of("rest")) == sorted(run_of("all"))


def test_a_run_of_the_whole_suite_is_the_quick_one(pytestconfig) -> None:
    """And one that names files or tests has all their cases."""
    assert pytestconfig.getoption("cases") in ("some", "rest", "all")
    assert {"live", "versus_perf", "slow"} <= set(SLOW_MARKERS)


def test_ci_runs_both() -> None:
    script = (CHECKOUT / ".ci" / "run").read_text()
    assert "<!-- tests -->" in script
    assert "--cases=rest" in script
