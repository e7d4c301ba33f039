"""Keys that a report does not have are refused with what to use instead."""

from __future__ import annotations

import pytest

from perfpy.analysis.report.layout import Wanted, make_layout
from perfpy.errors import UsageError


@pytest.mark.parametrize(
    ("sort", "said"),
    [
        ("symblo", "Unknown --sort key: `symblo'; near it: symbol"),
        ("qqqq", "Unknown --sort key: `qqqq'; known: overhead, "),
        ("comm,typeoff", "Unknown --sort key: `typeoff'; it needs the types of data"),
        ("dso_from", "Invalid --sort key: `dso_from' is of branch records: recordings made with -b have them"),
        ("mem", "Invalid --sort key: `mem' is of memory accesses: use --mem-mode"),
    ],
)
def test_the_refusal_says_what_to_do(sort: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_layout(Wanted(sort=sort))
    assert str(caught.value).startswith(said)


def test_fields_are_refused_alike() -> None:
    with pytest.raises(UsageError, match="Unknown --fields key: `overhed'; near it: overhead"):
        make_layout(Wanted(fields="overhed"))
