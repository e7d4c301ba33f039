"""Analysis works on any object with the members of SampleSource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import perfpy
from perfpy.analysis.filters import SampleFilter
from perfpy.analysis.named_samples import NamedSamples, Naming
from perfpy.analysis.report.options import ReportOptions
from perfpy.analysis.report.report import make_report
from perfpy.analysis.stacks import make_stacks
from perfpy.perfdata.sample_source import SampleSource, SourceHeader
from tests.builders.perfdata import simple_recording

if TYPE_CHECKING:
    from perfpy.perfdata.reader import PerfData
    from perfpy.recording import Recording

MEMBERS = {name for protocol in (SourceHeader, SampleSource) for name in vars(protocol) if not name.startswith("_")}


class ProtocolOnly:
    """A source with the members of the protocol only."""

    def __init__(self, data: PerfData) -> None:
        self._source = data

    def __getattr__(self, name: str) -> Any:
        if name not in MEMBERS:
            raise AttributeError(f"{name} is no member of SampleSource")
        return getattr(self._source, name)


@pytest.fixture
def recording(tmp_path):
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(20).file())
    with perfpy.open(path) as result:
        yield result


def rows(source: Any, recording: Recording) -> list[Any]:
    """Return the rows of a report, as values."""
    return make_report(source, recording.timeline, recording.symbolizer(), ReportOptions(), jobs=1).top(10)


def test_a_report_needs_no_more_than_the_protocol(recording):
    assert rows(ProtocolOnly(recording.data), recording) == rows(recording.data, recording) != []


def test_stacks_need_no_more_than_the_protocol(recording):
    def folded(source: Any) -> list[Any]:
        stacks = make_stacks(source, recording.timeline, recording.symbolizer(), SampleFilter(), jobs=1)
        return [(part.event, part.total) for part in stacks]

    assert folded(ProtocolOnly(recording.data)) == folded(recording.data) != []


def test_named_columns_need_no_more_than_the_protocol(recording):
    def columns(source: Any) -> dict[str, list[Any]]:
        samples = NamedSamples(source, None, lambda: Naming(recording.timeline, recording.symbolizer()))
        return {name: column.tolist() for name, column in samples.to_dict(["ip", "time", "comm", "symbol"]).items()}

    assert columns(ProtocolOnly(recording.data)) == columns(recording.data)


def test_perf_data_implements_the_protocol(recording):
    source: SampleSource = recording.data
    assert source.sample_counts.total() == 20
    assert 0 < source.sample_times[0] < source.sample_times[1]
    assert sum(len(batch.event) for batch in source.stored_batches([], range(source.part_count))) == 20
    (*_, last) = source.batches([])
    assert 0 < source.share_read(last) <= 1
