"""The public face of the package: what is promised, no more and no less."""

from __future__ import annotations

import inspect

import pytest

import perfpy

PUBLIC = [
    "AuxArea",
    "Comparison",
    "Count",
    "Counter",
    "CounterGroup",
    "Counts",
    "EventAttr",
    "EventInfo",
    "EventStream",
    "GroupChanges",
    "GroupReading",
    "LiveSample",
    "Profiler",
    "ProgramCounts",
    "ReadFormat",
    "Reading",
    "RecordSummary",
    "Recording",
    "RecordingChanges",
    "Recordings",
    "Region",
    "Report",
    "Ring",
    "RingSample",
    "SampleType",
    "UserReading",
    "__version__",
    "compare",
    "count",
    "counted",
    "diff",
    "disable_all",
    "enable_all",
    "errors",
    "list_events",
    "list_pmus",
    "open",
    "open_many",
    "parse_events",
    "profile",
    "record",
    "stat",
    "watch",
]


def test_the_names_are_pinned():
    assert perfpy.__all__ == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_every_name_is_there(name):
    assert getattr(perfpy, name) is not None
    assert name in dir(perfpy)


@pytest.mark.parametrize("name", [name for name in PUBLIC if callable(getattr(perfpy, name))])
def test_everything_public_has_a_docstring(name):
    thing = getattr(perfpy, name)
    assert inspect.getdoc(thing)
    for member, value in vars(thing).items() if inspect.isclass(thing) else []:
        if not member.startswith("_") and callable(value):
            assert inspect.getdoc(value), f"{name}.{member}"


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'perfpy' has no attribute 'utils'"):
        _ = perfpy.utils


@pytest.mark.parametrize("name", [name for name, value in vars(perfpy.errors).items() if inspect.isclass(value)])
def test_every_error_is_in_the_tree_that_errors_draws(name):
    error = getattr(perfpy.errors, name)
    assert issubclass(error, (perfpy.errors.PerfError, UserWarning))
    assert name in perfpy.errors.__doc__
