"""The same conditions select the same samples for a report, for stacks and for a script."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import perfpy
from perfpy.abi import records
from perfpy.abi.flags import Machines, SampleType
from perfpy.abi.records import SampleId
from perfpy.analysis.filters import (
    AddressRanges,
    EventSwitch,
    RecordedTimes,
    SampleFilter,
    TimeRanges,
    parse_time_ranges,
    ranges_of,
)
from perfpy.analysis.report.options import ColumnOptions, ReportOptions
from perfpy.analysis.stacks import StackOptions
from perfpy.errors import PerfError, UsageError
from perfpy.perfdata.header import Feature, SampleTime
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.views.script.fields import OutputFields
from perfpy.views.script.run import ScriptOptions, ScriptRun
from tests.builders.perfdata import USUAL, PerfDataBuilder, simple_recording, usual_attr

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
    return sum(int(stacks.weight.sum()) for stacks in recording.stacks(NOWHERE_ELSE, StackOptions(keep)))


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


def test_the_filter_of_a_plain_report_includes_the_host() -> None:
    """Reports leave guests out; bursts and turns are told of the whole host only."""
    assert SampleFilter().includes_host
    assert SampleFilter(machines=Machines()).includes_host
    assert not SampleFilter(machines=Machines(host=False, guests=True)).includes_host
    assert not SampleFilter(machines=Machines(), pids=frozenset({1})).includes_host


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


# The arguments of where(): one value or several, times in seconds; and errors.


@pytest.fixture
def recording_of_conditions(tmp_path: Path) -> perfpy.Recording:
    """Return a recording of twenty samples, 10 ns apart."""
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(20).file())
    return perfpy.open(path)


@pytest.mark.parametrize(
    ("conditions", "count"),
    [
        ({}, 20),
        ({"pid": [1, 99999]}, 0),
        ({"comm": {"busy", "other"}}, 20),
        ({"comm": "other"}, 0),
        ({"event": "cpu-clock"}, 20),
        ({"time": (None, "50ns")}, 6),
        ({"time": ("0.1us", None)}, 10),
        ({"time": (5e-8, 1e-7)}, 6),
        ({"time": "0%-50%"}, 10),
        ({"time": ("50%", "100%"), "comm": "busy"}, 10),
    ],
)
def test_samples_that_meet_all_conditions_are_left(
    recording_of_conditions: perfpy.Recording, conditions: dict[str, Any], count: int
) -> None:
    assert len(recording_of_conditions.where(**conditions).samples["ip"]) == count


def test_numbers_may_be_numpys(recording_of_conditions: perfpy.Recording) -> None:
    pid = recording_of_conditions.samples["pid"][:1]
    assert len(recording_of_conditions.where(pid=pid).samples["ip"]) == len(recording_of_conditions.where(pid=pid[0]).samples["ip"]) == 20


@pytest.mark.parametrize(
    ("conditions", "error", "says"),
    [
        ({"pid": "12"}, TypeError, "pid takes a number or several numbers; not '12'"),
        ({"cpu": 1.5}, TypeError, "cpu takes a number or several numbers; not 1.5"),
        ({"comm": 5}, TypeError, "comm takes a text or several texts; not 5"),
        ({"symbol": [b"main"]}, TypeError, "symbol takes a text or several texts; not b'main'"),
        ({"dso": b"libc"}, TypeError, "dso takes a text"),
        ({"event": "cycles"}, UsageError, "no event 'cycles' in the recording; its events: cpu-clock:u"),
        ({"time": 5}, TypeError, "time takes a start and an end, such as"),
        ({"time": ("1.5 apples", None)}, ValueError, "a time is seconds from the first sample, or a text such as '1.5s'"),
        ({"time": (-1, None)}, ValueError, "a time is counted from the first sample on; not -1"),
        ({"time": ("90%", "10%")}, ValueError, "ends before it begins"),
        ({"time": "x,y"}, UsageError, "Invalid time string"),
        ({"colour": "red"}, TypeError, "colour"),
    ],
)
def test_invalid_arguments_raise_errors(
    recording_of_conditions: perfpy.Recording, conditions: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says.replace("(", r"\(")):
        recording_of_conditions.where(**conditions)


def test_conditions_add_up(recording_of_conditions: perfpy.Recording) -> None:
    part = (
        recording_of_conditions.where(time=("10ns", "150ns"))
        .where(time=("100ns", None))
        .where(comm=["busy", "x"])
        .where(comm=["busy", "y"])
    )
    assert len(part.samples["ip"]) == 6
    assert len(part.where(comm="x").samples["ip"]) == 0
    with pytest.raises(ValueError, match="do not overlap"):
        recording_of_conditions.where(time=(None, "50ns")).where(time=("100ns", None))


def test_report_refuses_options_together_with_keys(recording_of_conditions: perfpy.Recording) -> None:
    from perfpy.analysis.report.options import ReportOptions

    with pytest.raises(PerfError, match="drop them"):
        recording_of_conditions.report(by="comm", options=ReportOptions())


# The language of --time, and the samples in its ranges.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.5,2", ((1_500_000_000, 2_000_000_000),)),
        ("1,", ((SECOND, 0),)),
        (",2.25", ((0, 2_250_000_000),)),
        ("1,2 3,4", ((SECOND, 2 * SECOND), (3 * SECOND, 4 * SECOND))),
        ("10%/2", ((1_100, 1_199),)),
        ("25%", ((1_000, 1_249),)),
        ("0%-50%,90%-100%", ((1_000, 1_499), (1_900, 2_000))),
        ("20%/3,50%/1", ((1_400, 1_599), (1_000, 1_499))),
    ],
)
def test_time_ranges(text: str, expected: tuple[tuple[int, int], ...]) -> None:
    assert parse_time_ranges(text, 1_000, 2_000).ranges == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1,2", ((3 * SECOND, 4 * SECOND),)), (",2", ((2 * SECOND, 4 * SECOND),)), ("5,", ((7 * SECOND, 3 * SECOND),))],
)
def test_relative_times_count_from_the_first_sample(text: str, expected: tuple[tuple[int, int], ...]) -> None:
    """A start after the last sample selects nothing."""
    assert parse_time_ranges(text, 2 * SECOND, 3 * SECOND, relative=True).ranges == expected


@pytest.mark.parametrize("text", ["x", "2,1", "110%/1", "50%-10%", "1,2 1.5,3", "1,2 2,3", "1, 3,4", "%", "50%,", "5", "101%"])
def test_time_ranges_that_make_no_sense(text: str) -> None:
    with pytest.raises(UsageError, match="Invalid time string"):
        parse_time_ranges(text, 1_000, 2_000)


def test_shares_may_overlap_in_any_order() -> None:
    ranges = parse_time_ranges("20%/3,50%/1", 1_000, 2_000)
    assert ranges.mask(np.array([1_000, 1_498, 1_550, 1_700], np.uint64)).tolist() == [True, True, True, False]
    assert ranges.length_within(1_100, 2_000) == 499, "each moment counts once"


def test_shares_of_unknown_times_are_refused(tmp_path: Path) -> None:
    (tmp_path / "timeless.data").write_bytes(simple_recording(attrs=[usual_attr(SampleType.IP | SampleType.TID)]).file())
    with perfpy.open(tmp_path / "timeless.data") as recording:
        with pytest.raises(PerfError, match="have no time"):
            ranges_of("10%-50%", recording.times())
        assert ranges_of("1,2", recording.times()).ranges == ((SECOND, 2 * SECOND),)


def test_the_end_of_a_single_range_is_in_and_times_of_zero_are() -> None:
    times = np.array([0, 5, 10, 20, 21], np.uint64)
    assert TimeRanges(((10, 20),)).mask(times).tolist() == [True, False, True, True, False]
    assert TimeRanges(((5, 10), (10, 20))).mask(times).tolist() == [False, True, True, True, False]


def test_pairs_of_a_damaged_recording_are_signed_numbers():
    """`sched timehist --time 10%-50%` computes with them in signed columns."""
    latest = (1 << 63) - 1
    share = parse_time_ranges("10%-50%", 0, (1 << 64) - 1)
    assert share.bounded_pairs[0][1] == latest
    assert TimeRanges(((1 << 63, 0),)).bounded_pairs == [(latest, latest)]


def test_begin_and_end_come_from_the_header_or_else_from_samples(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    for header, times in ((None, None), (SampleTime(5, 9), (5, 9)), (SampleTime(0, 0), None)):  # perf writes zeros into a pipe
        built = simple_recording(2)
        path.write_bytes((built.feature(Feature.SAMPLE_TIME, header) if header else built).file())
        with perfpy.open(path) as recording:
            sampled = (int(recording.samples["time"].min()), int(recording.samples["time"].max()))
            assert recording.times() == RecordedTimes(str(path), *(times or sampled))


# Addresses among the words of -S.


HIGHEST = (1 << 64) - 1


@pytest.mark.parametrize(
    ("words", "length", "ranges"),
    [
        (["0x10"], 0, ((0x10, 0x10),)),
        (["main", "0x10", "0x20"], 16, ((0x10, 0x1F), (0x20, 0x2F))),
        (["0x10"], -1, ((0x10, 0x10),)),
        ([hex(HIGHEST)], 5, ((HIGHEST, HIGHEST),)),
    ],
)
def test_hexadecimal_words_are_addresses(words: list[str], length: int, ranges: tuple[tuple[int, int], ...]) -> None:
    result = AddressRanges.of(words, length)
    assert result is not None
    assert result.ranges == ranges


@pytest.mark.parametrize("word", ["main", "", "0x", "0xyz", "10", hex(1 << 64)])
def test_other_words_are_names(word: str) -> None:
    assert AddressRanges.of([word], 0) is None


def test_both_ends_are_in_and_a_range_that_runs_backwards_is_empty() -> None:
    addresses = np.array([0, 9, 10, 15, 16, HIGHEST], np.uint64)
    assert AddressRanges(((10, 15), (HIGHEST, HIGHEST))).mask(addresses).tolist() == [False, False, True, True, False, True]
    assert not AddressRanges(((10, -5),)).mask(addresses).any()


# Samples that count between two events.


EVENTS = np.array([0, 1, 0, 2, 0, 1, 1, 0], np.int32)


def kept(switch: EventSwitch, among: list[int] | None = None) -> list[int]:
    present = None if among is None else np.isin(np.arange(len(EVENTS)), among)
    return np.flatnonzero(switch.mask(EVENTS, present)).tolist()


@pytest.mark.parametrize(
    ("on", "off", "show", "rows"),
    [
        (1, None, False, [2, 3, 4, 5, 6, 7]),
        (1, None, True, [1, 2, 3, 4, 5, 6, 7]),
        (None, 2, False, [0, 1, 2]),
        (None, 2, True, [0, 1, 2, 3]),
        (1, 2, False, [2, 6, 7]),
        (1, 2, True, [1, 2, 3, 5, 6, 7]),
        (1, 1, False, [2, 3, 4, 7]),
        (3, None, False, []),
    ],
)
def test_samples_between_the_events_count(on: int | None, off: int | None, show: bool, rows: list[int]) -> None:
    assert kept(EventSwitch(on, off, show=show)) == rows


def test_excluded_samples_do_not_switch() -> None:
    assert kept(EventSwitch(1, None, show=False), [0, 2, 5, 6, 7]) == [6, 7]


def test_the_state_lasts_from_batch_to_batch_until_the_next_pass() -> None:
    switch = EventSwitch(1, None, show=False)
    switch.mask(EVENTS)
    assert kept(switch) == list(range(len(EVENTS)))
    switch.restart()
    assert kept(switch) == [2, 3, 4, 5, 6, 7]


def test_names_are_looked_up() -> None:
    assert EventSwitch.between("", "", [], show=False) is None
    with pytest.raises(UsageError, match="no event 'nothing'"):
        EventSwitch.between("nothing", "", [], show=False)
