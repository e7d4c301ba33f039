"""Tests of reports in Python: as text and HTML, as a sequence, and as columns."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

import perfpy
from perfpy.abi import records
from perfpy.abi.records import SampleId
from tests.builders.perfdata import PerfDataBuilder

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "<img src=x onerror=alert(1)>\x1b]0;t\a"


@pytest.fixture
def report(tmp_path: Path) -> perfpy.Report:
    """Return a report of thirty commands; the first one has most samples."""
    built = PerfDataBuilder()
    for tid in range(100, 130):
        comm = HOSTILE if tid == 100 else f"prog{tid}"
        built.record(records.Comm(0, tid, tid, comm, SampleId(pid=tid, tid=tid, time=1)))
    for number in range(40):
        tid = 100 + max(number - 10, 0)
        built.sample(ip=0x1000, pid=tid, tid=tid, time=number + 2, period=1)
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    return perfpy.open(path).report(by="comm,pid")


def test_it_is_a_sequence_of_rows(report: perfpy.Report) -> None:
    assert len(report) == 30
    assert [row.texts["comm"] for row in report][1:3] == [row.texts["comm"] for row in report[1:3]]
    assert (report[0].samples, report[0].percent, report[-1].samples) == (11, 27.5, 1)
    assert next(iter(report[report.histograms[0].leader.event.name].rows())) == report[0]
    with pytest.raises(IndexError):
        report[30]
    with pytest.raises(KeyError, match="no event 'cycles' in this report; its events:"):
        report["cycles"]


def test_its_columns_have_numbers(report: perfpy.Report) -> None:
    columns = report.to_columns()
    assert list(columns) == ["overhead", "period", "samples", "comm", "pid"]
    assert (columns["pid"][0], columns["samples"][0], columns["overhead"][0]) == (100, 11, 27.5)
    assert {len(values) for values in columns.values()} == {30}
    assert report.to_pandas()["pid"].tolist() == report.to_arrow()["pid"].to_pylist() == columns["pid"]


def test_it_shows_its_first_rows(report: perfpy.Report) -> None:
    lines = repr(report).splitlines()
    assert lines[0] == "<Report of 40 samples: 30 rows>"
    assert lines[2].split()[:2] == ["27.50%", "<img"]
    assert lines[-1] == "... and 10 rows more"
    assert "\x1b" not in repr(report)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)


def test_names_are_escaped(report: perfpy.Report) -> None:
    page = report._repr_html_() or ""
    tags = Tags()
    tags.feed(page)
    assert {*tags.tags} == {"table", "caption", "thead", "tbody", "tr", "th", "td", "p"}
    assert tags.tags.count("tr") == 21
    assert "&lt;img src=x" in page


def test_a_recording_without_samples_has_an_empty_report(tmp_path: Path) -> None:
    (tmp_path / "perf.data").write_bytes(PerfDataBuilder().file())
    report = perfpy.open(tmp_path / "perf.data").report()
    assert (len(report), list(report), report[:3], report.to_columns(), report._repr_html_()) == (0, [], [], {}, "")
    assert repr(report) == "<Report of 0 samples: 0 rows>"
    with pytest.raises(IndexError):
        report[0]
