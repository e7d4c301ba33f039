"""Lists of CPUs such as 0-3,8: the one way from text to numbers, and back."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfpy.abi.cpu_list import MOST_CPUS, cpu_list_text, parse_cpu_list
from tests.builders.syntax import nodes_of

PACKAGE = Path(__file__).resolve().parents[3] / "perfpy"


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0", (0,)),
        ("0-3", (0, 1, 2, 3)),
        ("0-2,5", (0, 1, 2, 5)),
        ("3,1-2", (1, 2, 3)),
        ("1,0-2,1", (0, 1, 2)),
        ("7-7", (7,)),
        ("0,8-9\n", (0, 8, 9)),
        ("0, 2", (0, 2)),
        ("65535", (65535,)),
        ("", ()),
        (" \n", ()),
    ],
)
def test_a_list_becomes_numbers_in_ascending_order_each_once(text: str, cpus: tuple[int, ...]) -> None:
    assert parse_cpu_list(text) == cpus


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a", "'a' is neither a CPU nor a range"),
        ("1-", "'1-' is neither"),
        ("-1", "'-1' is neither"),
        ("0-3-5", "'0-3-5' is neither"),
        ("1,,2", "'' is neither"),
        ("0,", "'' is neither"),
        ("+1", "neither"),
        ("1_0", "neither"),
        ("²", "neither"),
        ("٣", "neither"),
        ("0x1", "neither"),
        ("3-1", "'3-1' runs backwards"),
        ("65536", "no machine has a CPU 65536"),
        ("0-4294967295", "no machine has a CPU 4294967295"),
        ("9" * 5000, "no machine has a CPU 9{20}"),
        ("0-65535," * 4 + "0", "more than 65536 CPUs"),
    ],
)
def test_anything_but_a_list_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        parse_cpu_list(text)
    assert len(str(refused.value)) < 120


@pytest.mark.parametrize(
    ("cpus", "text"), [((), ""), ((4,), "4"), ((0, 1, 2, 5), "0-2,5"), ((5, 1, 2), "5,1-2"), ((-1,), "-1"), ((-1, 3), "-1,3")]
)
def test_numbers_become_a_list(cpus: tuple[int, ...], text: str) -> None:
    assert cpu_list_text(cpus) == text


@given(st.sets(st.integers(0, MOST_CPUS - 1), max_size=40) | st.builds(range, st.integers(0, 300), st.integers(0, 700)))
def test_a_list_that_was_written_is_read_again(cpus: set[int] | range) -> None:
    ascending = tuple(sorted(cpus))
    assert parse_cpu_list(cpu_list_text(ascending)) == ascending


@pytest.mark.thorough
def test_nothing_else_reads_a_list_of_cpus() -> None:
    """No other function of the package that is about CPUs parts a text at a dash."""
    results = []
    for path in PACKAGE.rglob("*.py"):
        for function in nodes_of(path) if '"-"' in path.read_text() else ():
            if not isinstance(function, ast.FunctionDef):
                continue
            calls = (node for node in ast.walk(function) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute))
            parts = any(call.func.attr in ("partition", "split") and "'-'" in map(ast.unparse, call.args) for call in calls)  # type: ignore[attr-defined]
            if parts and "cpu" in ast.unparse(function).lower():
                results.append(f"{path.relative_to(PACKAGE)}:{function.name}")
    assert results == ["abi/cpu_list.py:_bounds"]
