"""Profiles of many recordings, portable ones, and differences of groups."""

from __future__ import annotations

import lzma
import pickle
import shutil
from collections import Counter

import numpy as np
import pytest

import perfpy
from perfpy.abi.flags import SampleType
from perfpy.abi.perfpy_encodings import IS_WAIT, OFF_CPU_EVENT
from perfpy.analysis.report.options import CallGraph, ChainOptions, ColumnOptions, ReportOptions
from perfpy.analysis.sort_key import MachineTexts
from perfpy.capture.off_cpu_events import TIME_ATTR
from perfpy.errors import BadPerfDataError, PerfError, UsageError
from perfpy.fleet.folding import FoldingRequest, fold_recording
from perfpy.fleet.portable_profile import MergedValues, OwnWords, replace_numbers
from perfpy.fleet.recordings import Recordings, find_recordings, with_recordings
from perfpy.perfdata.header import EventDesc, Feature
from perfpy.recording import Recording
from perfpy.views.report.text import TextOptions, report_lines
from perfpy.views.stacks.exports import folded_lines
from tests.builders.hosts import group, host_recording, merge_profiles
from tests.builders.options import report_options
from tests.builders.own_corpus import RECORDINGS
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

# Many recordings are reported as one, functions and events by name and meaning; unreadable ones are listed.


NAMES = ("chains", "lost", "fork-exec", "arm64-chains", "zstd", "no-samples")
CALLERS = ReportOptions(
    chains=ChainOptions(call_graph=CallGraph(order="caller"), children=True), columns=ColumnOptions(sort="comm,dso,symbol")
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hosts")
    for name in NAMES:
        (folder / f"{name}.data").write_bytes(lzma.decompress((RECORDINGS / f"{name}.data.xz").read_bytes()))
    return folder


def paths(folder, *names):
    return [str(folder / f"{name}.data") for name in names or NAMES]


def text(report):
    return [line for line in report_lines(report, TextOptions()) if "# (Tip:" not in line]


def shares(report):
    return {tuple(row.texts.values()): (row.period, row.samples) for row in report}


@pytest.mark.parametrize("name", ["chains", "lost", "fork-exec", "arm64-chains"])
@pytest.mark.parametrize("options", [CALLERS, ReportOptions(columns=ColumnOptions(sort="comm,pid,sym"))], ids=["callers", "tasks"])
def test_a_single_recording_has_its_own_report(folder, name, options):
    (path,) = paths(folder, name)
    with Recording(path) as recording:
        alone = text(recording.report(options=options))
    assert text(Recordings([path], jobs=1).report(options=options)) == alone


def test_the_number_of_processes_does_not_matter(folder):
    alone = Recordings(paths(folder), jobs=1).report(options=CALLERS)
    assert text(Recordings(paths(folder), jobs=3).report(options=CALLERS)) == text(alone)
    assert len(alone.histograms) > 1


def test_twice_the_same_recording_has_twice_the_samples(folder, tmp_path):
    (path,) = paths(folder, "chains")
    other = tmp_path / "other.data"
    shutil.copy(path, other)
    with Recording(path) as recording:
        once = shares(recording.report(by="comm,dso,symbol"))
    twice = shares(Recordings([path, str(other)]).report(by="comm,dso,symbol"))
    assert twice == {names: (2 * period, 2 * samples) for names, (period, samples) in once.items()}


def test_neighbours_may_be_merged_in_any_groups(folder):
    request = FoldingRequest(lambda _recording: (CALLERS, None))
    results = [fold_recording(path, request) for path in paths(folder, "chains", "lost", "fork-exec", "arm64-chains")]
    parts = [part for part in results if part is not None]
    at_once, in_groups = (
        merge_profiles(parts),
        merge_profiles([merge_profiles(parts[:1]), merge_profiles([merge_profiles(parts[1:3]), parts[3]])]),
    )
    assert pickle.dumps(at_once._replace(events=[])) == pickle.dumps(in_groups._replace(events=[]))


def test_rows_of_hosts_and_recordings(folder):
    rows = {row.texts["recording"]: row.samples for row in Recordings(paths(folder, "fork-exec", "zstd")).report(by="host,recording")}
    assert all(path in paths(folder, "fork-exec", "zstd") for path in rows)
    with Recording(paths(folder, "fork-exec")[0]) as recording:
        assert [row.texts["host"] for row in recording.report(by="host")] == [recording.header["hostname"]]


def test_events_are_matched_by_meaning_not_by_precision():
    from perfpy.abi.attr import EventAttr
    from perfpy.fleet.portable_profile import event_keys
    from perfpy.perfdata.events import FileEvent

    def event(name, **fields):
        attr = EventAttr()
        for field, value in fields.items():
            setattr(attr, field, value)
        return FileEvent(attr, (), name, 0)

    plain, precise, of_user = event("cycles"), event("cycles:P", precise_ip=2), event("cycles:u", exclude_kernel=1)
    keys = [event_keys([one])[0] for one in (plain, precise, of_user)]
    assert keys[0] == keys[1] != keys[2]
    assert len(set(event_keys([plain, precise]))) == 2  # two events of one recording stay separate
    points = [event("sched:sched_switch", type=2, config=number) for number in (1, 2)]
    assert event_keys(points[:1]) == event_keys(points[1:])


def test_weights(folder):
    both = paths(folder, "chains", "lost")

    def periods(weight):
        return {row.texts["recording"]: (row.period, row.samples) for row in Recordings(both, weight=weight).report(by="recording")}

    assert all(period == samples for period, samples in periods("samples").values())
    counted = [period for period, _ in periods("equal").values()]
    assert max(counted) - min(counted) <= 10**6 < min(counted)
    with pytest.raises(UsageError):
        Recordings(both, weight="heavy")


def test_unreadable_recordings_are_skipped_and_reported(folder, tmp_path):
    bad = tmp_path / "bad.data"
    bad.write_bytes(b"PERFILE2 and no more")
    missing = str(tmp_path / "missing.data")
    good = paths(folder, "chains")
    recordings = Recordings([missing, *good, str(bad)], jobs=2)
    assert text(recordings.report(options=CALLERS)) == text(Recordings(good).report(options=CALLERS))
    assert [failed.path for failed in recordings.failed] == [missing, str(bad)]
    assert all(failed.reason for failed in recordings.failed)
    with pytest.raises(PerfError, match="none of 2 recordings"):
        Recordings([missing, str(bad)]).report()


def test_recordings_of_branches_are_skipped_if_the_first_has_none(folder, tmp_path):
    branches = tmp_path / "branches.data"
    branches.write_bytes(lzma.decompress((RECORDINGS / "made-branches.data.xz").read_bytes()))
    for path in (*paths(folder, "chains"), str(branches)):
        with Recording(path) as recording:
            assert recording.data.has_branches == (path == str(branches))
    from perfpy.analysis.sort_key import Mode

    def asked(recording):
        mode = Mode.BRANCH if recording.data.has_branches else Mode.NORMAL
        return CALLERS._replace(columns=CALLERS.columns._replace(mode=mode)), None

    recordings = Recordings([*paths(folder, "chains"), str(branches)], jobs=1)
    assert text(recordings.report(options=CALLERS, options_of=asked)) == text(Recordings(paths(folder, "chains")).report(options=CALLERS))
    assert [failed.path for failed in recordings.failed] == [str(branches)]


def test_stacks_of_all(folder):
    single = []
    for path in paths(folder, "chains", "lost"):
        with Recording(path) as recording:
            single += [part.total for part in recording.stacks() if part.event == "task-clock"]
    together = Recordings(paths(folder, "chains", "lost")).stacks()
    assert [part.total for part in together if part.event == "task-clock"] == [sum(single)]
    assert all(list(folded_lines(part)) for part in together)


def test_names_are_paths_patterns_and_folders(folder):
    assert find_recordings([str(folder)]) == sorted(paths(folder))
    assert find_recordings([str(folder / "*chains.data"), *paths(folder, "chains")]) == sorted(paths(folder, "chains", "arm64-chains"))
    with pytest.raises(BadPerfDataError, match="no recordings found"):
        find_recordings([str(folder / "none*.data")])


def test_open_many(folder):
    assert len(perfpy.open_many(folder)) == len(NAMES)
    assert len(perfpy.open_many(paths(folder, "chains", "lost"))) == 2


# Tasks, cgroups, namespaces, sockets and tracepoint data compare across recordings by value, not by each recording's numbers.


# recordings, and keys with recording-specific numbers
ASKED = (
    ("all-cgroups", "cgroup,sym"),
    ("namespaces", "cgroup_id,comm"),
    ("switch-events", "parallelism,sym"),
    ("chains", "socket,cpu,pid,tgid"),
    ("tracepoint-dynamic", "trace"),
    ("arm64-sched", "prev_comm,next_pid"),
    ("sched", "trace,sym"),
    ("perf7-latency", "parallelism,latency"),
    ("clock-monotonic", "tod,date"),
    ("build-id-mmap", "build_id,sym"),
)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hosts")

    def path(name):
        result = folder / f"{name}.data"
        if not result.exists():
            result.write_bytes(lzma.decompress((RECORDINGS / f"{name}.data.xz").read_bytes()))
        return str(result)

    return path


def asked(keys, **more):
    return report_options(group=False, columns=ColumnOptions(sort=keys), **more)


def samples(report):
    counter: Counter[tuple[str, ...]] = Counter()
    for name, row in rows(report):
        counter[name, *row.texts.values()] += row.samples
    return counter


def rows(report):
    return [(table.events[0].event.name, row) for table in report.histograms for row in table.rows()]


@pytest.mark.parametrize(("name", "keys"), ASKED)
def test_rows_equal_the_single_recordings_and_double_with_two_copies(unpacked, tmp_path, name, keys):
    path, copy = unpacked(name), str(tmp_path / "copy.data")
    shutil.copy(path, copy)
    with Recording(path) as recording:
        alone = recording.report(options=asked(keys))
    assert text(Recordings([path], jobs=1).report(options=asked(keys))) == text(alone)
    both = samples(Recordings([path, copy], jobs=1).report(options=asked(keys)))
    assert both == {names: 2 * count for names, count in samples(alone).items()}
    assert both


def test_threads_of_one_number_are_one_row_where_they_have_one_name():
    dimensions = {"tid": np.array([0, 1, 2, 1])}
    values = {"tid": [(7, "a"), (7, "b"), (-1, ":-1")]}
    merged = MergedValues(dimensions, values, [])
    numbers = merged.dimensions["tid"].tolist()
    assert numbers == [7, 7 + (1 << 32), -1, 7 + (1 << 32)]
    assert [merged.comm_of(number) for number in numbers] == ["a", "b", ":-1", "b"]


def test_cgroups_are_identified_by_path():
    machine = MachineTexts(cgroup_name={5: "/a", 9: "/a", 6: "/b"}.get)
    result = replace_numbers({"cgroup": np.array([9, 0, 5, 6, 8])}, OwnWords(str, machine, [None]))
    assert result.values["cgroup"] == [0, "/a", "/b", ""]
    merged = MergedValues(result.dimensions, result.values, [])
    numbers = merged.dimensions["cgroup"].tolist()
    assert [merged.machine.cgroup_name(number) if number else "N/A" for number in numbers] == ["/a", "N/A", "/a", "/b", None]


def test_fields_of_tracepoints_that_kernels_number_and_place_differently_are_one(unpacked):
    paths = [unpacked(name) for name in ("sched", "arm64-sched", "s390x-sched")]
    options, apart = asked("prev_comm,next_pid"), []
    for path in paths:
        with Recording(path) as recording:
            assert any(event.name == "sched:sched_switch" for event in recording.events)
            apart.append(samples(recording.report(options=options)))
    together = samples(Recordings(paths, jobs=1).report(options=options))
    assert sum(together.values()) == sum(sum(one.values()) for one in apart)
    assert {names[:2] for names in together} == {names[:2] for one in apart for names in one}


def test_a_recording_without_the_requested_field_is_skipped_and_reported(unpacked):
    recordings = Recordings([unpacked("chains"), unpacked("arm64-sched")], jobs=1)
    report = recordings.report(options=asked("prev_comm"))
    assert [failed.path for failed in recordings.failed] == [unpacked("chains")]
    assert "prev_comm" in recordings.failed[0].reason
    assert report.samples
    with pytest.raises(UsageError, match="prev_comm"):
        Recordings([unpacked("chains")], jobs=1).report(options=asked("prev_comm"))


def test_callers_of_recordings_without_samples(unpacked):
    options = asked("comm,sym", call_graph=CallGraph(order="caller"), children=True)
    assert not Recordings([unpacked("no-samples")], jobs=1).report(options=options).samples
    assert not Recordings([unpacked("ppc64le-chains-dwarf")], jobs=1).report(options=options).samples


def test_all_fields_of_tracepoints_of_recordings_of_which_some_have_none(unpacked):
    paths = [unpacked("chains"), unpacked("sched"), unpacked("arm64-sched")]
    recordings = Recordings(paths, jobs=1)
    report = recordings.report(options=asked("trace_fields"))
    assert not recordings.failed
    with Recording(paths[1]) as recording:
        alone = shown(recording.report(options=asked("trace_fields")))
    together = shown(report)
    assert len(alone) == 9
    assert all(together[texts] >= count for texts, count in alone.items())


def shown(report):
    """Return the texts of rows, of all columns."""
    return Counter({tuple(filter(None, texts)): count for texts, count in samples(report).items()})


def test_stacks_of_recordings_with_waits_and_without(unpacked, tmp_path):
    names, attrs = ("cpu-clock", OFF_CPU_EVENT), [usual_attr(), TIME_ATTR]
    ids: list[tuple[int, ...]] = [(1,), (2,)]
    attrs[0] = usual_attr(USUAL | SampleType.IDENTIFIER)
    built = PerfDataBuilder(attrs, ids)
    built.feature(Feature.EVENT_DESC, tuple(EventDesc(attr, name, one) for attr, name, one in zip(attrs, names, ids, strict=True)))
    built.sample(0, misc=2, ip=0x1000, pid=7, tid=7, time=10, period=1000)
    built.sample(1, misc=2, ip=0x1000, pid=7, tid=7, time=20, period=5000, callchain=(), weight=0, ins_lat=ord("S"), retire_lat=IS_WAIT)
    (tmp_path / "waits.data").write_bytes(built.file())
    both = Recordings([unpacked("chains"), str(tmp_path / "waits.data")], jobs=1)
    stacks = {part.event: list(folded_lines(part)) for part in both.stacks()}
    assert not both.failed
    assert stacks[OFF_CPU_EVENT][0].endswith("[S (sleeping)] 5000")
    with Recording(unpacked("chains")) as recording:
        assert stacks["task-clock"] == list(folded_lines(recording.stacks()[0]))


# Groups of recordings are compared by host: each host is one observation, however much it has recorded.


SHARES = {"a": (40, 44, 38, 41, 43, 39, 42, 37), "b": (40, 36, 42, 39, 37, 41, 38, 43)}


def numbered(change=0, scale=(10,) * 8, first=0):
    """Build eight hosts on which "b" and "c" share equally what "a" leaves; c has `change` more samples."""
    return {
        f"host{first + number}": {"a": a * size, "b": b * size, "c": (20 + change) * size}
        for number, (a, b, size) in enumerate(zip(SHARES["a"], SHARES["b"], scale, strict=True))
    }


def changes(before, after, **options):
    (result,) = perfpy.diff(perfpy.open_many(before), perfpy.open_many(after), by="comm")
    if options:
        (result,) = perfpy.open_many(before).changes(perfpy.open_many(after), by="comm", **options)
    return result


def rows_of_difference(found):
    return {row.names[0]: row for row in found}


def test_a_change_on_all_hosts_stands_out_from_their_spread(tmp_path):
    actual_changes = changes(group(tmp_path / "before", numbered()), group(tmp_path / "after", numbered(10, first=100)))
    assert (actual_changes.unit, actual_changes.test, actual_changes.in_both) == ("host", "permutation", 0)
    assert [row.names for row in actual_changes.above()] == [("c",)]
    (changed,) = actual_changes.above(0.05)
    assert (changed.before, changed.after) == pytest.approx((0.2, 30 / 110))
    assert changed.low < changed.change < changed.high
    assert actual_changes.above(0.1) == []
    assert actual_changes.shares[("c",)] == ([0.2] * 8, [pytest.approx(30 / 110)] * 8)
    assert rows_of_difference(actual_changes)["a"].change < 0


def test_the_same_hosts_are_compared_with_themselves(tmp_path):
    actual_changes = changes(group(tmp_path / "before", numbered()), group(tmp_path / "after", numbered(1)))
    assert actual_changes.in_both == 8
    assert (rows_of_difference(actual_changes)["c"].rose, rows_of_difference(actual_changes)["c"].fell) == (8, 0)
    assert {name for name, row in rows_of_difference(actual_changes).items() if row.has_changed} >= {"c"}


def test_a_host_that_did_more_is_no_change_where_hosts_are_the_same(tmp_path):
    """The amount of work differs between hosts, not its shares."""
    before = group(tmp_path / "before", numbered(scale=(40, *(10,) * 7)))
    after = group(tmp_path / "after", numbered(scale=(*(10,) * 7, 40)))
    actual_changes = changes(before, after)
    assert all(row.change == pytest.approx(0) for row in actual_changes)
    assert not any(row.has_changed for row in actual_changes)


def test_recordings_of_one_host_are_one_observation(tmp_path):
    for name, change in (("before", 0), ("after", 10)):
        for number in range(12):
            host_recording(tmp_path / name / f"{number}.data", f"{name}{number % 2}", {"a": 50 + number % 3, "c": 20 + change})
    actual_changes = changes(tmp_path / "before", tmp_path / "after")
    assert (len(actual_changes.before.units), actual_changes.before.recordings, actual_changes.test) == (2, 12, "student")
    by_recording = changes(tmp_path / "before", tmp_path / "after", unit="recording")
    assert (len(by_recording.before.units), by_recording.test) == (12, "permutation")
    assert {row.names[0] for row in by_recording if row.has_changed} == {"a", "c"}


@pytest.mark.parametrize("host", ["here", ""])
def test_recordings_are_compared_if_hosts_are_unknown_or_one(tmp_path, host):
    for name, change in (("before", 0), ("after", 30)):
        for number in range(5):
            host_recording(tmp_path / name / f"{number}.data", host, {"a": 50 + number, "c": 20 + change})
    actual_changes = changes(tmp_path / "before", tmp_path / "after")
    assert (actual_changes.unit, len(actual_changes.before.units), actual_changes.in_both) == ("recording", 5, 0)
    assert [row.names for row in actual_changes.above()] == [("c",)]


def test_one_host_shows_no_spread(tmp_path):
    actual_changes = changes(group(tmp_path / "before", {"one": {"a": 100, "c": 100}}), group(tmp_path / "after", numbered(first=100)))
    assert actual_changes.test == ""
    assert all(row.chance is None and row.low is None and not row.has_changed for row in actual_changes)


def test_hosts_may_all_count_the_same(tmp_path):
    sides = [{"big": {"a": 900, "b": 100}, "small": {"a": 10, "b": 90}}, {"big2": {"a": 900, "b": 100}, "small2": {"a": 10, "b": 90}}]
    before, after = (group(tmp_path / str(number), side) for number, side in enumerate(sides))
    shares = {}
    for weight in ("time", "samples", "equal"):
        found, *_ = perfpy.open_many(before, weight=weight).changes(perfpy.open_many(after, weight=weight), "comm")
        shares[weight] = rows_of_difference(found)["a"].before
    assert shares == {"time": pytest.approx(910 / 1100), "samples": pytest.approx(910 / 1100), "equal": pytest.approx(0.5)}


def test_growth_on_all_hosts_shows_in_rates(tmp_path):
    """Shares do not show it; recordings of twice the length are no growth."""
    before = group(tmp_path / "before", {f"host{number}": {"a": 30 + number, "b": 20} for number in range(8)})
    busier = group(
        tmp_path / "busier", {f"host{number}": {"a": 30 + number, "b": 20, "again": 30 + number, "more": 20} for number in range(8)}
    )
    longer = group(tmp_path / "longer", {f"host{number}": {"a": 60 + 2 * number, "b": 40} for number in range(8)})
    grown, same = (changes(before, one).rate for one in (busier, longer))
    assert grown.after == pytest.approx(2 * grown.before)
    assert grown.has_changed
    assert same.after == pytest.approx(same.before, rel=0.05)
    equal = perfpy.open_many(before, weight="equal").changes(perfpy.open_many(busier, weight="equal"))
    assert equal[0].rate is None


def test_one_host_that_did_less_is_no_change(tmp_path):
    """Hosts with few samples, in either group, do not make groups differ."""
    sizes = {"before": range(9), "after": range(9, 20)}
    for name, numbers in sizes.items():
        group(tmp_path / name, {f"host{number}": {"a": 30 if number == 12 else 40, "b": 40} for number in numbers})
    actual_changes = changes(tmp_path / "before", tmp_path / "after")
    assert actual_changes.rate is not None
    assert not actual_changes.rate.has_changed
    assert not any(row.has_changed for row in actual_changes)


def test_an_idle_host_has_a_rate_and_no_share(tmp_path):
    sides = [{f"host{number}": {"a": 40, "b": 20} for number in range(3)} for _ in range(2)]
    sides[1]["host2"] = {"b": 40, "idle": 39}
    before, after = (group(tmp_path / str(number), side) for number, side in enumerate(sides))
    from perfpy.analysis.filters import SampleFilter
    from perfpy.analysis.report.options import ColumnOptions, ReportOptions, RowOptions

    options = ReportOptions(
        rows=RowOptions(rows_filtered=False, relative_percentages=True),
        columns=ColumnOptions(sort="comm"),
        sample_filter=SampleFilter(comms=("a",)),
    )
    (result,) = perfpy.open_many(before).changes(
        perfpy.open_many(after), options=options, options_of=lambda _recording: (with_recordings(options), None)
    )
    assert result.rate is not None
    assert result.after.units == ["host0", "host1"]
    assert result.rate.after == pytest.approx(result.rate.before * 2 / 3)


def test_the_smallest_of_very_many_rows_are_not_tested(tmp_path, monkeypatch):
    monkeypatch.setattr("perfpy.analysis.group_differences._MOST_CELLS", 32)
    actual_changes = changes(group(tmp_path / "before", numbered()), group(tmp_path / "after", numbered(10)))
    assert {name: row.chance is None for name, row in rows_of_difference(actual_changes).items()} == {"a": False, "b": False, "c": True}
    assert rows_of_difference(actual_changes)["c"].after == pytest.approx(30 / 110)


def test_rows_of_one_group_only_have_nothing_in_the_other(tmp_path):
    new = {host: {**counts, "new": 50} for host, counts in numbered(first=100).items()}
    actual_changes = changes(group(tmp_path / "before", numbered()), group(tmp_path / "after", new))
    assert rows_of_difference(actual_changes)["new"].before == 0
    assert rows_of_difference(actual_changes)["new"].has_changed


def test_a_host_without_samples_of_the_event_has_no_share(tmp_path):
    before = group(tmp_path / "before", {**numbered(), "idle": {}})
    actual_changes = changes(before, group(tmp_path / "after", numbered(first=100)))
    assert "idle" not in actual_changes.before.units


def test_as_columns(tmp_path):
    actual_changes = changes(group(tmp_path / "before", numbered()), group(tmp_path / "after", numbered(10)))
    columns = actual_changes.to_columns()
    assert actual_changes.to_arrow().column_names == list(columns)
    assert columns["comm"][0] == "c"
    assert columns["has_changed"][0]
    assert {len(values) for values in columns.values()} == {len(actual_changes)}
    assert "8 -> 8 hosts" in repr(actual_changes)


def test_groups_that_cannot_be_compared_are_refused(tmp_path):
    before, after = (perfpy.open_many(group(tmp_path / name, numbered())) for name in ("before", "after"))
    with pytest.raises(UsageError, match="in both groups"):
        before.changes(before)
    with pytest.raises(UsageError, match="cannot be rows"):
        before.changes(after, by="host,comm")
    with pytest.raises(UsageError, match="unit"):
        before.changes(after, unit="day")
