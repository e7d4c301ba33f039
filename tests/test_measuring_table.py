"""tests/measuring.tsv says which test shows what programs that measure themselves are owed, and where it ran; the tests are there."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROWS = [line.split("\t") for line in (TESTS / "measuring.tsv").read_text().splitlines()[1:]]


def test_no_row_is_missing():
    assert [sum(row[0] == contract for row in ROWS) for contract in ("perf-events", "perfctr")] == [24, 16]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1])
def test_the_tests_of_a_row_are_there(row: list[str]):
    tests = [test.strip() for test in row[2].split(",")] if "::" in row[2] else []
    assert tests or row[3] == "-"
    for test in tests:
        path, function = test.split("::")
        assert f"def {function}(" in (TESTS / path).read_text()
