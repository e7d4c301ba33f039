"""The rows of a live screen: their last minute, and what is certain about them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import perfpy
from perfpy.analysis.report.options import ColumnOptions, ReportOptions
from perfpy.tools.top.model import CELLS, TopModel
from perfpy.tools.top.options import WINDOW, Rates
from tests.builders.perfdata import PerfDataBuilder
from tests.builders.sampled_program import Stack, sampled_program

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from perfpy.analysis.report.report import Report

SECONDS = 2.0


class Machine:
    """Makes reports of invented intervals: comm -> samples."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def report(self, samples: Mapping[str, int]) -> Report:
        builder = PerfDataBuilder()
        time = 0
        for tid, (comm, count) in enumerate(samples.items(), 100):
            builder.record(perfpy.abi.records.Comm(0, tid, tid, comm, perfpy.abi.records.SampleId(pid=tid, tid=tid, time=1)))
            for _ in range(count):
                time += 1
                builder.sample(ip=1, pid=tid, tid=tid, time=time + 10, period=1, misc=2)
        self._path.write_bytes(builder.file())
        with perfpy.open(self._path) as recording:
            report = recording.report(options=ReportOptions(columns=ColumnOptions(sort="comm")))
        for table in report.histograms:
            table.entries.measures[WINDOW] = table.entries.measures["period"]
        return report


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "perf.data")


def rates(samples: Mapping[str, int]) -> Rates:
    return Rates(SECONDS, sum(samples.values()), 0, 0, 0, 0)


def after(machine: Machine, *intervals: Mapping[str, int]) -> TopModel:
    model = TopModel()
    for samples in intervals:
        model.update(machine.report(samples), rates(samples))
    return model


def risen(model: TopModel) -> list[str]:
    return [row.texts[0] for row in model.rows() if row.has_risen]


def test_rows_are_sorted_by_their_share(machine: Machine) -> None:
    rows = after(machine, {"a": 10, "b": 30, "c": 20}).rows()
    assert [(row.texts, round(row.percent)) for row in rows] == [(("b",), 50), (("c",), 33), (("a",), 17)]


def test_a_sparkline_has_a_cell_for_each_five_seconds(machine: Machine) -> None:
    calm, busy = {"a": 10, "b": 90}, {"a": 80, "b": 20}
    row = next(row for row in after(machine, *[calm] * 10, *[busy] * 5).rows() if row.texts == ("a",))
    assert len(row.sparkline) == CELLS
    assert row.sparkline.startswith(" " * 6)  # before the first interval
    assert row.sparkline[6:10] == "▁" * 4
    assert row.sparkline[10:] == "██"


def test_intervals_older_than_a_minute_are_forgotten(machine: Machine) -> None:
    model = after(machine, *[{"a": 90, "b": 10}] * 5, *[{"b": 10}] * 31)
    model.update(machine.report({"a": 1, "b": 99}), rates({"a": 1, "b": 99}))
    row = next(row for row in model.rows() if row.texts == ("a",))
    assert row.sparkline[:-1].strip() == ""


def test_a_row_that_rose_in_the_last_seconds_is_marked(machine: Machine) -> None:
    calm, busy = {"a": 100, "b": 900}, {"a": 400, "b": 600}
    assert risen(after(machine, *[calm] * 5, *[busy] * 5)) == ["a"]
    assert risen(after(machine, *[calm] * 10)) == []


def test_a_rise_within_the_noise_is_not_marked(machine: Machine) -> None:
    assert risen(after(machine, *[{"a": 10, "b": 90}] * 5, *[{"a": 13, "b": 87}] * 5)) == []


def test_nothing_has_risen_without_a_time_before(machine: Machine) -> None:
    assert risen(after(machine, {"a": 1, "b": 999}, {"a": 999, "b": 1})) == []


def test_the_verdict_names_a_row_that_certainly_stands_out(machine: Machine) -> None:
    assert after(machine, {"a": 800, "b": 200}).verdict() == "a: 77 to 83 % of the samples"


@pytest.mark.parametrize("samples", [{"a": 500, "b": 500}, {"a": 8, "b": 2}, {"a": 1000}])
def test_without_certainty_there_is_no_verdict(machine: Machine, samples: Mapping[str, int]) -> None:
    assert after(machine, samples).verdict() == ""


@pytest.mark.parametrize(("python", "other", "is_told"), [(120, 60, True), (60, 120, False)])
def test_the_option_for_python_functions_is_named(python: int, other: int, is_told: bool, tmp_path: Path) -> None:
    """The interpreter's own functions say little about a program."""
    stacks = [Stack(("evaluate@python3.11",), python // 2), Stack(("allocate@python3.11",), python // 2), Stack(("work",), other)]
    with perfpy.open(sampled_program(tmp_path, stacks)) as recording:
        report = recording.report(options=ReportOptions(columns=ColumnOptions(sort="dso,symbol")))
    model = TopModel()
    model.update(report, Rates(SECONDS, python + other, 0, 0, 0, 0))
    assert ("perfpy top --python" in model.verdict()) is is_told


def test_the_filter_keeps_rows_with_its_text(machine: Machine) -> None:
    model = after(machine, {"server": 10, "Client": 30})
    model.filter = "CLI"
    assert [row.texts for row in model.rows()] == [("Client",)]


def test_names_are_safe_for_a_terminal(machine: Machine) -> None:
    (row,) = after(machine, {"p\33[2J\u202e": 10}).rows()
    assert row.texts == ("p^[[2J\\u202e",)


def test_no_samples_are_no_rows(machine: Machine) -> None:
    model = TopModel()
    assert (model.rows(), model.verdict(), model.table) == ([], "", None)
    del machine


def test_a_sentence_that_is_wider_than_the_screen_has_no_file(tmp_path: Path) -> None:
    stacks = [Stack(("work",), 180), Stack(("rest",), 20)]
    with perfpy.open(sampled_program(tmp_path, stacks)) as recording:
        report = recording.report(options=ReportOptions(columns=ColumnOptions(sort="dso,symbol")))
    model = TopModel()
    model.update(report, Rates(SECONDS, 200, 0, 0, 0, 0))
    whole = model.verdict()
    assert " in app: " in whole
    assert model.verdict(len(whole)) == whole
    assert re.fullmatch(r"0x[0-9a-f]+: \d+ to \d+ % of the samples", model.verdict(len(whole) - 1))
