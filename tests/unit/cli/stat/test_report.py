"""Counts read from files of stat record, including damaged ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfpy.abi import perf_records as u
from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import SampleType
from perfpy.cli.stat.report import RecordedCounts
from perfpy.counts.aggregation import Aggregation
from perfpy.errors import BadPerfDataError
from perfpy.perfdata.reader import PerfData
from tests.builders.perfdata import PerfDataBuilder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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
