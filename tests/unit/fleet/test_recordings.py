"""Many recordings are reported as one, functions and events by name and meaning; unreadable ones are listed."""

from __future__ import annotations

import lzma
import pickle
import shutil

import pytest

import perfpy
from perfpy.analysis.report.options import CallGraph, ChainOptions, ColumnOptions, ReportOptions
from perfpy.errors import BadPerfDataError, PerfError, UsageError
from perfpy.fleet.folding import FoldingRequest, fold_recording
from perfpy.fleet.merging import merge_profiles
from perfpy.fleet.recordings import Recordings, find_recordings
from perfpy.recording import Recording
from perfpy.views.report.text import TextOptions, report_lines
from perfpy.views.stacks.exports import folded_lines
from tests.builders.own_corpus import RECORDINGS

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
