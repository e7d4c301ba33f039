"""The public face of the package: what is promised, no more and no less."""

from __future__ import annotations

import inspect

import pytest

import perfpy
from tests.builders.perfdata import simple_recording

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


@pytest.mark.parametrize("now", ["list_events", "Recording"])
def test_a_name_that_was_public_warns_and_works(now: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(perfpy._FORMER, "former", now)
    with pytest.warns(DeprecationWarning, match=f"perfpy.former is called perfpy.{now} now"):
        assert perfpy.former is getattr(perfpy, now)


@pytest.mark.parametrize(("function", "argument"), [(perfpy.stat, ["true"]), (perfpy.count, "page-faults")])
def test_a_former_argument_warns_and_works(function, argument) -> None:
    with (
        pytest.warns(DeprecationWarning, match="the argument apart is called separate_children now"),
        pytest.raises(perfpy.errors.UsageError, match="separate_children=True requires inherit=True"),
    ):
        function(argument, apart=True, inherit=False)


@pytest.mark.parametrize(("former", "name"), [("circumstances", "environment"), ("join_off_cpu", "merge_off_cpu")])
def test_a_former_attribute_of_a_recording_warns_and_works(former: str, name: str, tmp_path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording().file())
    with perfpy.open(path) as recording, pytest.warns(DeprecationWarning, match=f"Recording.{former} is called {name} now"):
        assert getattr(recording, former) == getattr(recording, name)


def test_a_former_attribute_of_a_report_warns_and_works(tmp_path) -> None:
    path, former = tmp_path / "perf.data", "cut"
    path.write_bytes(simple_recording().file())
    with perfpy.open(path) as recording, pytest.warns(DeprecationWarning, match="Report.cut is called truncated now"):
        assert getattr(recording.report(), former) == []


def test_a_former_attribute_of_a_group_warns_and_works() -> None:
    former = "unread"
    with perfpy.open_many(["perf.data"]) as recordings, pytest.warns(DeprecationWarning, match="Recordings.unread is called failed now"):
        assert getattr(recordings, former) == []


@pytest.mark.parametrize("former", ["BadPerfData", "KernelRefused", "NotScheduled", "OutputFailed", "UnknownEvent", "WorkloadFailed"])
def test_a_former_exception_warns_and_works(former: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"perfpy.errors.{former} is called {former}Error now"):
        assert getattr(perfpy.errors, former) is getattr(perfpy.errors, f"{former}Error")


def test_no_former_name_is_public() -> None:
    assert not set(perfpy._FORMER) & set(perfpy.__all__)
    assert set(perfpy._FORMER.values()) <= set(perfpy.__all__)


@pytest.mark.parametrize("name", [name for name, value in vars(perfpy.errors).items() if inspect.isclass(value)])
def test_every_error_is_in_the_tree_that_errors_draws(name):
    error = getattr(perfpy.errors, name)
    assert issubclass(error, (perfpy.errors.PerfError, UserWarning))
    assert name in perfpy.errors.__doc__
