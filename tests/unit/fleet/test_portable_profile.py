"""Tasks, cgroups, namespaces, sockets and tracepoint data compare across recordings by value, not by each recording's numbers."""

from __future__ import annotations

import lzma
import shutil
from collections import Counter

import numpy as np
import pytest

from perfpy.abi.flags import SampleType
from perfpy.abi.recorded_marks import IS_WAIT, OFF_CPU_EVENT
from perfpy.analysis.report.options import CallGraph, ColumnOptions
from perfpy.analysis.sort_key import MachineTexts
from perfpy.capture.off_cpu import TIME_ATTR
from perfpy.errors import UsageError
from perfpy.fleet.portable_profile import MergedValues, OwnWords, replace_numbers
from perfpy.fleet.recordings import Recordings
from perfpy.perfdata.features import EventDesc, Feature
from perfpy.recording import Recording
from perfpy.views.report.text import TextOptions, report_lines
from perfpy.views.stacks.exports import folded_lines
from tests.builders.options import report_options
from tests.builders.own_corpus import RECORDINGS
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

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


def text(report):
    return [line for line in report_lines(report, TextOptions()) if "# (Tip:" not in line]


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
