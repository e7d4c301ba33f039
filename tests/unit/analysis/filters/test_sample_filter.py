"""The same conditions select the same samples for a report, for stacks and for a script."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from perfpy.abi import records
from perfpy.abi.flags import SampleType
from perfpy.abi.sample_id import SampleId
from perfpy.analysis.entries.layout import ColumnOptions
from perfpy.analysis.entries.options import ReportOptions
from perfpy.analysis.filters.address_ranges import AddressRanges
from perfpy.analysis.filters.event_switch import EventSwitch
from perfpy.analysis.filters.sample_filter import SampleFilter
from perfpy.analysis.filters.time_ranges import TimeRanges
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.views.script.fields import OutputFields
from perfpy.views.script.run import ScriptOptions, ScriptRun
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

SECOND = 1_000_000_000
ALL = {1, 2, 3, 4, 5, 6}
ON_CPUS = USUAL | SampleType.CPU | SampleType.ID
NOWHERE_ELSE = SymbolOptions(symfs="/nonexistent", kallsyms="/dev/null")


def two_processes() -> PerfDataBuilder:
    """Samples of seconds 1 to 6: by turns of `one` (7, in /bin/one, on CPU 0) and of `two` (8 and its thread 9, in /bin/two, on CPU 1).

    Those of seconds 2 and 5 are of the second event, the sixth is of the third, which names no CPU.
    """
    attrs = [usual_attr(ON_CPUS), usual_attr(ON_CPUS, config=1), usual_attr(USUAL | SampleType.ID, config=2)]
    built = PerfDataBuilder(attrs=attrs, ids=[(1,), (2,), (3,)])
    for pid, name, start in ((7, "one", 0x1000), (8, "two", 0x3000)):
        at = SampleId(pid=pid, tid=pid, time=pid, cpu=0, id=1)
        built.record(records.Comm(0, pid, pid, name, at))
        built.record(records.Mmap2(2, pid, pid, start, 0x1000, 0, 8, 1, 5, 0, 5, 2, f"/bin/{name}", b"", at))
    for second, event, pid, tid in ((1, 0, 7, 7), (2, 1, 8, 8), (3, 0, 7, 7), (4, 0, 8, 9), (5, 1, 7, 7), (6, 2, 8, 9)):
        ip = {7: 0x1000, 8: 0x3000}[pid] + second
        built.sample(event, ip=ip, pid=pid, tid=tid, time=second * SECOND, period=1, misc=2, id=event + 1, cpu=pid - 7)
    return built


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    path = tmp_path / "perf.data"
    path.write_bytes(two_processes().file())
    return Recording(path)


def printed(recording: Recording, keep: SampleFilter, **switches: str) -> set[int]:
    """Return the seconds of the samples that script prints."""
    fields = OutputFields()
    fields.apply("time")
    out = io.BytesIO()
    ScriptRun(recording, ScriptOptions(fields=fields, sample_filter=keep, symbols=NOWHERE_ELSE, **switches)).write(out)  # type: ignore[arg-type]
    return {int(float(line.rstrip(b": "))) for line in out.getvalue().splitlines()}


def shown(recording: Recording, keep: SampleFilter) -> set[int]:
    """Return the seconds of the samples in a report's rows."""
    report = recording.report(options=ReportOptions(columns=ColumnOptions(sort="time"), sample_filter=keep), symbols=NOWHERE_ELSE)
    return {int(float(row.texts["time"])) for histogram in report.histograms for row in histogram.rows()}


def stacked(recording: Recording, keep: SampleFilter) -> int:
    """Return the number of samples in the stacks."""
    return sum(int(stacks.weight.sum()) for stacks in recording.stacks(NOWHERE_ELSE, sample_filter=keep))


CONDITIONS = [
    (SampleFilter(), ALL),
    (SampleFilter(comms=("one",)), {1, 3, 5}),
    (SampleFilter(comms=("none",)), set()),
    (SampleFilter(comms=frozenset(("one", "two"))), {1, 2, 3, 5}),  # no record names the thread
    (SampleFilter(pids=(8,)), {2, 4, 6}),
    (SampleFilter(pids=(1 << 70, 7)), {1, 3, 5}),
    (SampleFilter(tids=(9,)), {4, 6}),
    (SampleFilter(tids=frozenset()), set()),
    (SampleFilter(dsos=("two",)), {2, 4, 6}),
    (SampleFilter(dsos=("/bin/one",)), {1, 3, 5}),
    (SampleFilter(symbols=("main",)), set()),
    (SampleFilter(times=TimeRanges(((2 * SECOND, 4 * SECOND),))), {2, 3, 4}),
    (SampleFilter(cpus=(0,)), {1, 3, 5}),
    (SampleFilter(cpus=(1,)), {2, 4}),
    (SampleFilter(cpus=(1,), unknown_cpu=True), {2, 4, 6}),
    (SampleFilter(cpus=(0, 1), pids=(8,), times=TimeRanges(((3 * SECOND, 0),))), {4}),
]


@pytest.mark.parametrize(("keep", "seconds"), CONDITIONS)
def test_report_script_and_stacks_choose_the_same_samples(recording: Recording, keep: SampleFilter, seconds: set[int]) -> None:
    with recording:
        assert printed(recording, keep) == seconds
        assert shown(recording, keep) == seconds
        assert stacked(recording, keep) == len(seconds)


@pytest.mark.parametrize(
    ("keep", "seconds"),
    [
        (SampleFilter(symbols=("main",), addresses=AddressRanges(((0x1003, 0x3002),))), {2, 3, 5}),
        (SampleFilter(addresses=AddressRanges(((0x3004, 0x3004),))), {4}),
        (SampleFilter(addresses=AddressRanges(((4, 4),))), set()),  # in the file
        (SampleFilter(dsos=("two",), addresses=AddressRanges(((0x1000, 0x3004),))), {2, 4}),
    ],
)
def test_addresses_equal_the_output_of_script(recording: Recording, keep: SampleFilter, seconds: set[int]) -> None:
    with recording:
        assert printed(recording, keep) == seconds


@pytest.mark.parametrize(("keep", "seconds"), CONDITIONS)
def test_a_filter_reads_only_the_columns_it_needs(recording: Recording, keep: SampleFilter, seconds: set[int]) -> None:
    """A filter is open if it needs no column, and then everything passes."""
    assert keep.is_open == (not keep.all_fields())
    assert not keep.is_open or seconds == ALL
    recording.close()


def test_a_filter_for_many_names_is_as_good_as_one_for_few(recording: Recording) -> None:
    names = tuple(f"name{number}" for number in range(20_000))
    with recording:
        assert shown(recording, SampleFilter(symbols=names)) == set()
        assert shown(recording, SampleFilter(dsos=(*names, "two"))) == {2, 4, 6}


def test_samples_on_other_cpus_switch_a_report_but_not_a_script(recording: Recording) -> None:
    """As in perf, whose script applies switches last."""
    second = next(event.name for event in recording.events if event.index == 1)
    with recording:
        switch = EventSwitch(1, None, show=False)  # the second event: at second 2 on CPU 1, at second 5 on CPU 0
        assert shown(recording, SampleFilter(cpus=(0,), switch=switch)) == {3, 5}
        assert printed(recording, SampleFilter(cpus=(0,)), switch_on=second) == set()
        assert printed(recording, SampleFilter(), switch_on=second) == {3, 4, 5, 6}
