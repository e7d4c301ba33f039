"""Counts read from files of stat record, including damaged ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfpy.abi import perf_records as u
from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import SampleType
from perfpy.capture.count_file import CountFile
from perfpy.capture.measurement import Hooks, Measurement, Plan
from perfpy.capture.targets import Target
from perfpy.cli.stat.report import RecordedCounts
from perfpy.counts.aggregation import Aggregation, Grouping
from perfpy.errors import BadPerfDataError
from perfpy.events.event import Event
from perfpy.perfdata.reader import PerfData
from tests.builders.fake_kernel import FakeKernel
from tests.builders.perfdata import PerfDataBuilder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from perfpy.capture.counters import Counting, Readings

CPUS = (Aggregation.NONE, Aggregation.SOCKET, Aggregation.CORE, Aggregation.NODE)


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[[int, int], RecordedCounts]:
    """Return a function that builds a file with CPUs 0 and 1 and one thread, and a count of a CPU and thread."""

    def make(cpu: int, thread: int) -> RecordedCounts:
        attr = EventAttr(type=1, sample_type=SampleType.IDENTIFIER, read_format=3)
        built = PerfDataBuilder(attrs=[attr], ids=[(1,)]).record(u.ThreadMap(0, ((7, "busy"),))).record(u.CpuMap(0, (0, 1)))
        built.record(u.Stat(0, 1, cpu, thread, 1000, 5, 5)).record(u.StatRound(0, 1, 10**9))
        (tmp_path / "perf.data").write_bytes(built.file())
        return RecordedCounts(PerfData(tmp_path / "perf.data"))

    return make


@pytest.mark.parametrize("mode", [*CPUS, Aggregation.THREAD])
def test_counts_of_listed_cpus_and_threads_are_separate(mode: Aggregation, recorded: Callable[[int, int], RecordedCounts]):
    counts = recorded(1, 0)
    [tally] = counts.tallies(counts.grouping(mode))
    assert sum(row.amount for rows in tally.rows.values() for row in rows) == 1000


@pytest.mark.parametrize("mode", CPUS)
def test_a_count_of_a_cpu_that_the_file_does_not_list_is_refused(mode: Aggregation, recorded: Callable[[int, int], RecordedCounts]):
    with pytest.raises(BadPerfDataError, match="counts of cpu 5, which the file does not list"):
        recorded(5, 0).grouping(mode)


def test_a_count_of_a_thread_that_the_file_does_not_list_is_refused(recorded: Callable[[int, int], RecordedCounts]):
    with pytest.raises(BadPerfDataError, match="counts of thread 1, which the file does not list"):
        recorded(0, 1).grouping(Aggregation.THREAD)


def test_all_counts_are_summed_wherever_they_are_from(recorded: Callable[[int, int], RecordedCounts]):
    counts = recorded(5, 1)
    [tally] = counts.tallies(counts.grouping(Aggregation.GLOBAL))
    assert [row.amount for rows in tally.rows.values() for row in rows] == [1000]


def test_a_file_names_the_cpus_that_an_event_counts_on(tmp_path: Path):
    """CPUs that its PMU lacks have no line, neither while it is counted nor in the report."""
    box = Event("uncore_imc_0/clockticks/", EventAttr(type=20), pmu="uncore_imc_0", cpus=(1,), requires_cpu=True)
    plan = Plan([box], Target("system", (), (0, 1)), ("true",), grouping=Grouping.by_cpu([0, 1]))
    file = CountFile(str(tmp_path / "perf.data"), plan, ["perfpy"])

    class Writing(Hooks):
        def on_open(self, counting: Counting) -> None:
            file.begin(counting)

        def round(self, readings: Readings, elapsed: int, final: bool) -> None:
            file.round(readings, elapsed, final=final)

    Measurement(plan, Writing(), kernel=FakeKernel(counts=lambda counter: counter.__dict__.update(value=7, enabled=5, running=5))).run()
    file.finish()
    with PerfData(tmp_path / "perf.data") as data:
        counts = RecordedCounts(data)
        [tally] = counts.tallies(counts.grouping(Aggregation.NONE))
        assert [(line.row.aggregate_id.label, line.row.value) for line in tally.lines()] == [("CPU1", 7)]
