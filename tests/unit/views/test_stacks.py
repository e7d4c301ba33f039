"""Stacks in the formats of other programs."""

from __future__ import annotations

import dataclasses
import gzip
import json
import shutil
import subprocess
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfpy.abi.flags import SampleType
from perfpy.abi.records import Cgroup, SampleId
from perfpy.analysis.code_sites import CodeSites, FileMapping, Source
from perfpy.analysis.stacks import Stacks, TimedSamples
from perfpy.cli import run
from perfpy.views.page.marks import Mark
from perfpy.views.stacks import exports
from perfpy.views.stacks import exports as time_order
from perfpy.views.stacks.exports import ThreadOrder, threads_in_order
from perfpy.views.stacks.firefox import Heading, firefox
from perfpy.views.stacks.protobuf_exports import Metadata, Origin, otlp, perfetto, pprof
from tests.builders.annotated import spin_with_lines
from tests.builders.messages import protobuf, varints
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr
from tests.builders.sampled_program import Stack, sampled_program
from tests.builders.stacks import At, stacks, timed_stacks
from tests.builders.traced import traced_recording
from tests.builders.viewers import SPEEDSCOPE, consumed, firefox_profiler

if TYPE_CHECKING:
    from pathlib import Path


# Tests of stacks in formats of other viewers: each contains the same profile.


PROFILE = "sh;main;run;sys_read_[k] 3\nsh;main;run 2\nls;main 4\nls 1"


def test_folded_lines_are_sorted_and_summed() -> None:
    assert list(exports.folded_lines(stacks(PROFILE))) == ["ls 1", "ls;main 4", "sh;main;run 2", "sh;main;run;sys_read 3"]
    assert list(exports.folded_lines(stacks("a;f 1\na;f 2"))) == ["a;f 3"]


def test_a_semicolon_in_a_name_does_not_split_it() -> None:
    part = stacks("a;f 1")
    part = dataclasses.replace(part, functions=[part.functions[0]._replace(name="operator;")])
    assert list(exports.folded_lines(part)) == ["a;operator: 1"]


def test_a_line_break_in_a_name_does_not_end_the_line() -> None:
    part = stacks("a;f 1")
    part = dataclasses.replace(part, functions=[part.functions[0]._replace(name="f 7\nroot;forged")], comms=["a\r\nb"])
    assert list(exports.folded_lines(part)) == ["a^M^Jb;f 7^Jroot:forged 1"]


def test_speedscope_holds_every_stack_outermost_first() -> None:
    data = json.loads(exports.speedscope([stacks(PROFILE, "cpu-clock:u"), stacks("x;y 1", "faults")], "perf.data"))
    first, second = data["profiles"]
    names = [frame["name"] for frame in data["shared"]["frames"]]
    got = {tuple(names[i] for i in sample): weight for sample, weight in zip(first["samples"], first["weights"], strict=True)}
    assert got == {("sh", "main", "run", "sys_read"): 3, ("sh", "main", "run"): 2, ("ls", "main"): 4, ("ls",): 1}
    assert (first["unit"], first["endValue"]) == ("nanoseconds", 10)
    assert (second["unit"], second["name"]) == ("none", "faults")


def test_speedscopes_schema_accepts_the_export(tmp_path: Path) -> None:
    file = tmp_path / "speedscope.json"
    file.write_text(exports.speedscope([stacks(PROFILE, "cpu-clock"), stacks("x;y 1", "faults")], "perf.data"))
    assert consumed(SPEEDSCOPE, file) == [True, None]


PYTHON = "sh;py::main:/srv/app.py;run 5"


def test_functions_of_python_have_their_names_and_files_in_viewers_and_are_folded_as_perf_prints_them() -> None:
    part = stacks(PYTHON)
    assert list(exports.folded_lines(part)) == [PYTHON]
    frames = json.loads(exports.speedscope([part], "perf.data"))["shared"]["frames"]
    assert {"name": "main (app.py)", "file": "/srv/app.py"} in frames


# Stacks in order of time: frames begin and end where samples say, and nest.


def in_order(part: Stacks) -> list[ThreadOrder]:
    functions = range(len(part.functions))
    return threads_in_order(part, functions, range(100, 100 + len(part.comms)))


def spans(part: Stacks, order: ThreadOrder) -> list[tuple[str, int, int]]:
    """Return each frame of a thread with its begin and end. As in speedscope, an end must match the innermost frame."""
    names = {**dict(enumerate(function.name for function in part.functions)), **dict(enumerate(part.comms, 100))}
    open_frames: list[tuple[int, int]] = []
    results, now = [], order.first
    for edge in order.edges:
        assert edge.time >= now
        now = edge.time
        if edge.is_begin:
            open_frames.append((edge.frame, edge.time))
        else:
            frame, begin = open_frames.pop()
            assert frame == edge.frame
            results.append((names[frame], begin, edge.time))
    assert not open_frames
    assert now == order.last
    return results


def test_frames_that_two_samples_share_go_on() -> None:
    part = timed_stacks([At("a;main;run", 10, 10), At("a;main;walk", 20, 10), At("a;main;walk", 30, 10)])
    (order,) = in_order(part)
    assert spans(part, order) == [("run", 0, 10), ("walk", 10, 30), ("main", 0, 30), ("a", 0, 30)]


def test_long_gaps_stay_gaps_and_short_ones_close() -> None:
    part = timed_stacks([At("a;main", 10, 10), At("a;main", 28, 10), At("a;main", 99, 10)])
    (order,) = in_order(part)
    assert spans(part, order) == [("main", 0, 20), ("a", 0, 20), ("main", 89, 99), ("a", 89, 99)]


def test_threads_are_separate_and_sorted_by_time() -> None:
    part = timed_stacks([At("a;main", 10, 10, 7, 7), At("b;main", 15, 10, 7, 9), At("b;main", 25, 10, 7, 9)])
    orders = in_order(part)
    assert [order.name for order in orders] == ["b 7/9", "a 7"]
    assert [(order.first, order.last) for order in orders] == [(5, 25), (0, 10)]


def test_counts_and_too_many_samples_have_no_order(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [At("a;main", 10, 10), At("a;main", 20, 10)]
    assert not in_order(timed_stacks(samples, "faults", in_seconds=False))
    monkeypatch.setattr(time_order, "MOST_SAMPLES", 1)
    assert not in_order(timed_stacks(samples))


stacks_and_times = st.tuples(st.sampled_from(["a", "a;f", "a;f;g", "a;g;f", "b;f;f"]), st.integers(0, 60), st.integers(1, 40))


def test_the_sum_of_short_waits_is_between_longer_waits() -> None:
    part = timed_stacks([At("a;long", 20, 10), At("a;long", 90, 30), At("a;short", 95, 50)], "offcpu-time", off_cpu=True)
    (order,) = in_order(part)
    assert [(names_of(part, path), begin, end) for path, begin, end in order.steady_stacks] == [
        ("a;short", 0, 5),
        ("a;long", 5, 15),
        ("a;short", 15, 55),
        ("a;long", 55, 85),
        ("a;short", 85, 90),
    ]


def test_waits_keep_their_times() -> None:
    part = timed_stacks([At("a;read", 20, 10), At("a;read", 40, 15), At("a;poll", 60, 20)], "offcpu-time", off_cpu=True)
    (order,) = in_order(part)
    assert [(begin, end) for path, begin, end in order.steady_stacks if path] == [(0, 10), (15, 30), (30, 50)]


def test_samples_without_weight_have_no_time() -> None:
    assert not in_order(timed_stacks([At("a;main", 10, 0)]))
    assert [order.last for order in in_order(timed_stacks([At("a;main", 10, 0), At("a;main", 20, 5)]))] == [5]


def names_of(part: Stacks, path: list[int]) -> str:
    """Return a path of in_order() as `comm;outer;inner`."""
    return ";".join(part.comms[one - 100] if one >= 100 else part.functions[one].name for one in path)


@given(st.lists(stacks_and_times, min_size=1, max_size=12), st.booleans())
def test_frames_of_any_samples_nest_and_last_as_long_as_the_samples_weigh(samples: list[tuple[str, int, int]], off_cpu: bool) -> None:
    part = timed_stacks(
        [At(stack, 100 + time, weight) for stack, time, weight in sorted(samples, key=lambda sample: sample[1])], off_cpu=off_cpu
    )
    for order in in_order(part):
        spans(part, order)
        times: Counter[str] = Counter()
        for path, begin, end in order.steady_stacks:
            times[names_of(part, path)] += end - begin
        weights: Counter[str] = Counter()
        for stack, _, weight in samples:
            weights[stack] += weight
        times.pop("", None)
        assert times == weights
        assert [span.begin for span in order.steady_stacks[1:]] == [span.end for span in order.steady_stacks[:-1]]
        assert all(one.path != other.path for one, other in zip(order.steady_stacks, order.steady_stacks[1:], strict=False))


def test_speedscope_opens_with_the_busiest_thread_in_order_of_time(tmp_path: Path) -> None:
    part = timed_stacks([At("a;main;run", 10, 10), At("a;main;walk", 20, 10)])
    text = exports.speedscope([part], "perf.data")
    evented, sampled = json.loads(text)["profiles"]
    assert (evented["type"], evented["name"], evented["unit"]) == ("evented", f"a 7: {part.event}", "nanoseconds")
    assert (evented["startValue"], evented["endValue"], len(evented["events"])) == (0, 20, 8)
    assert (sampled["type"], sampled["endValue"]) == ("sampled", 20)
    (tmp_path / "speedscope.json").write_text(text)
    assert consumed(SPEEDSCOPE, tmp_path / "speedscope.json") == [True, None]


def test_whole_stacks_replace_many_events_and_have_the_same_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = timed_stacks([At("a;main;run", 10, 10), At("a;main;run", 20, 10), At("a;main;walk", 30, 10), At("b;main", 90, 10)])
    (order,) = in_order(part)
    monkeypatch.setattr(exports, "_FEW_EVENTS", 0)
    text = exports.speedscope([part], "perf.data")
    in_time, _ = json.loads(text)["profiles"]
    assert (in_time["type"], in_time["startValue"], in_time["endValue"]) == ("sampled", order.first, order.last)
    assert in_time["weights"] == [20, 10, 50, 10]
    assert [len(stack) for stack in in_time["samples"]] == [3, 3, 0, 2]
    (tmp_path / "speedscope.json").write_text(text)
    assert consumed(SPEEDSCOPE, tmp_path / "speedscope.json") == [True, None]


def test_an_export_has_the_threads_of_a_recording(tmp_path: Path) -> None:
    path = sampled_program(tmp_path, [Stack(("run", "main"), 3, tid=100), Stack(("walk", "main"), 5, tid=101)])
    exported = tmp_path / "out.json"
    assert run(["report", "-q", "-i", str(path), "--symfs", str(tmp_path), "--speedscope", str(exported)]) == 0
    profiles = json.loads(exported.read_text())["profiles"]
    assert [profile["type"] for profile in profiles] == ["evented", "evented", "sampled"]
    assert [profile["endValue"] - profile["startValue"] for profile in profiles[:2]] == [5_000_000, 3_000_000]


# Tests of the profile for the Firefox Profiler: its tables, and how the viewer's own code reads them.


def timed(event: str = "cycles") -> Stacks:
    def column(*values: int) -> np.ndarray[Any, Any]:
        return np.array(values)

    samples = TimedSamples(
        chain=column(0, 1, 2, 3, 0),
        comm=column(0, 0, 1, 1, 0),
        pid=column(7, 7, 8, 8, 7),
        tid=column(7, 7, 8, 8, 9),
        time=column(5000000, 1000000, 2000000, 3000000, 4000000).astype(np.uint64),
        cpu=column(0, 0, 0, 0, 0),
        weight=column(1000000, 2000000, 1, 1, 1).astype(np.uint64),
    )
    return dataclasses.replace(stacks(PROFILE, event), timed=samples)


def profile_of(*parts: Stacks, **recorded: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(firefox(parts, Heading("perf record", **recorded)))
    return document


def frames_of(profile: dict[str, Any], stack: int | None) -> list[int]:
    """Return the frames of a stack, innermost first."""
    frames = []
    while stack is not None:
        frames.append(profile["shared"]["stackTable"]["frame"][stack])
        stack = profile["shared"]["stackTable"]["prefix"][stack]
    return frames


def functions_of(profile: dict[str, Any], stack: int | None) -> list[str]:
    shared = profile["shared"]
    return [shared["stringArray"][shared["funcTable"]["name"][shared["frameTable"]["func"][frame]]] for frame in frames_of(profile, stack)]


def test_a_thread_has_a_track_with_its_samples_in_order_of_time() -> None:
    profile = profile_of(timed(), started=1.5)
    assert [(t["pid"], t["tid"], t["name"], t["isMainThread"]) for t in profile["threads"]] == [
        ("7", 7, "sh", True),
        ("7", 9, "sh", False),
        ("8", 8, "ls", True),
    ]
    samples = profile["threads"][0]["samples"]
    assert samples["time"] == [0.0, 4.0]
    assert [functions_of(profile, stack) for stack in samples["stack"]] == [["run", "main"], ["sys_read", "run", "main"]]
    assert profile["threads"][2]["samples"]["stack"][1] is None  # no frames
    assert profile["meta"]["startTime"] == 1500.0


def test_samples_need_times() -> None:
    with pytest.raises(ValueError, match="times"):
        firefox([stacks(PROFILE)], Heading())


def test_each_event_of_a_thread_has_a_track() -> None:
    first, second = timed(), timed("faults")
    assert second.timed is not None
    moved = dataclasses.replace(second.timed, time=second.timed.time + np.uint64(1000000))
    threads = profile_of(first, dataclasses.replace(second, timed=moved))["threads"]
    assert [(t["tid"], t["name"]) for t in threads] == [
        (7, "sh (cycles)"),
        (9, "sh (cycles)"),
        ("7 faults", "sh (faults)"),
        ("9 faults", "sh (faults)"),
        (8, "ls (cycles)"),
        ("8 faults", "ls (faults)"),
    ]
    assert threads[2]["samples"]["time"][0] == 1.0  # they share one time line


def test_times_are_their_own_weights_and_waits_begin_before_their_samples() -> None:
    samples = profile_of(dataclasses.replace(timed("cpu-clock"), in_seconds=True))["threads"][0]["samples"]
    assert (samples["weight"], samples["weightType"], samples["threadCPUDelta"]) == ([2.0, 1.0], "tracing-ms", [2000000, 1000000])
    waits = profile_of(dataclasses.replace(timed("offcpu-time"), in_seconds=True, off_cpu=True))["threads"][0]["samples"]
    assert (waits["time"], waits["threadCPUDelta"]) == ([0.0, 5.0], [0, 0])


def test_categories_are_origins_of_code() -> None:
    profile = profile_of(timed())
    frames, names = profile["shared"]["frameTable"], [category["name"] for category in profile["meta"]["categories"]]
    innermost = frames_of(profile, profile["threads"][0]["samples"]["stack"][1])
    assert [names[frames["category"][frame]] for frame in innermost] == ["Kernel", "Program", "Program"]


def exported(folder: Path, recording: bytes | None = None) -> Path:
    """Export a recording's profile: by default of a program with lines and an inlined call."""
    if recording is None:
        spin_with_lines(folder)
    else:
        (folder / "perf.data").write_bytes(recording)
    line = ["report", "-q", "-i", str(folder / "perf.data"), "--symfs", str(folder), f"--firefox={folder}/profile.json"]
    assert run(line) == 0
    return folder / "profile.json"


def test_frames_have_addresses_lines_and_depths_of_inlined_calls(tmp_path: Path) -> None:
    profile = json.loads(exported(tmp_path).read_text())
    shared = profile["shared"]
    table, strings = shared["frameTable"], shared["stringArray"]
    rows = {}
    for stack in profile["threads"][0]["samples"]["stack"]:
        for frame in frames_of(profile, stack):
            function = table["func"][frame]
            source = shared["funcTable"]["source"][function]
            file = strings[shared["sources"]["filename"][source]] if source is not None else ""
            name = strings[shared["funcTable"]["name"][function]]
            rows[table["address"][frame], name] = (table["inlineDepth"][frame], file.rpartition("/")[2], table["line"][frame])
    assert rows == {
        (0x1010, "spin"): (0, "a.c", 2),
        (0x1011, "helper"): (1, "b.h", 9),
        (0x1011, "spin"): (0, "a.c", 2),
        (0x1014, "helper"): (1, "b.h", 9),
        (0x1014, "spin"): (0, "a.c", 2),
        (0x1016, "spin"): (0, "a.c", 3),
        (0x1020, "rest"): (0, "", None),
        (0x1800, "[spin]"): (0, "", None),
    }
    symbols = shared["nativeSymbols"]
    addresses = zip(symbols["address"], symbols["functionSize"], strict=True)
    results = {strings[name]: where for name, where in zip(symbols["name"], addresses, strict=True)}
    assert results == {"spin": (0x1010, 7), "rest": (0x1020, 16)}


def test_samples_of_tracepoints_are_markers_with_their_fields_and_stacks(tmp_path: Path) -> None:
    profile = json.loads(exported(tmp_path, traced_recording()).read_text())
    assert {thread["name"] for thread in profile["threads"]} == {"w\u00f6rker", "other"}
    markers = profile["threads"][0]["markers"]
    switches = [data for data in markers["data"] if data["type"] == "sched:sched_switch"]
    assert len(switches) == 20
    fields = {name: switches[0][name] for name in ("_prev_pid", "_next_comm", "_next_pid")}
    assert fields == {"_prev_pid": "7", "_next_comm": "other", "_next_pid": "8"}
    assert functions_of(profile, switches[0]["cause"]["stack"]) == ["[w\u00f6rker]"]
    schema = next(schema for schema in profile["meta"]["markerSchema"] if schema["name"] == "sched:sched_switch")
    assert {"key": "_prev_comm", "label": "prev_comm", "format": "string"} in schema["fields"]


def test_moments_of_threads_are_markers_with_a_text() -> None:
    marks = [Mark(500_000, 7, 7, "fork", "too early"), Mark(2_000_000, 7, 7, "fork", "process 9"), Mark(3_000_000, 99, 99, "exit", "")]
    profile = json.loads(firefox([timed(), timed("faults")], Heading(), marks=marks))
    markers = profile["threads"][0]["markers"]
    assert (markers["data"], markers["startTime"], markers["length"]) == ([{"type": "fork", "_text": "process 9"}], [1.0], 1)
    assert [profile["shared"]["stringArray"][name] for name in markers["name"]] == ["fork"]
    assert sum(thread["markers"]["length"] for thread in profile["threads"]) == 1, "threads without samples have no track"
    (schema,) = profile["meta"]["markerSchema"]
    assert (schema["name"], schema["tableLabel"]) == ("fork", "{marker.data._text}")


def test_an_export_has_the_forks_and_faults_of_its_threads(tmp_path: Path) -> None:
    path = sampled_program(tmp_path, [Stack(("run", "main"), 30)], started=2)
    profile = json.loads(exported(tmp_path, path.read_bytes()).read_text())
    (thread,) = profile["threads"]
    assert [(data["type"], data["_text"]) for data in thread["markers"]["data"]] == [("fork", "process 10000"), ("fork", "process 10001")]


def test_the_viewer_shows_markers_of_forks(tmp_path: Path) -> None:
    path = sampled_program(tmp_path, [Stack(("run", "main"), 30)], started=3)
    with firefox_profiler(exported(tmp_path, path.read_bytes())) as viewer:
        answer = viewer.asked("thread", "markers")
    assert answer["totalMarkerCount"] == 3


def test_the_viewer_shows_functions_with_their_own_time_and_libraries(tmp_path: Path) -> None:
    with firefox_profiler(exported(tmp_path)) as viewer:
        answer = viewer.asked("thread", "functions")
    own = {function["nameWithLibrary"]: function["selfSamples"] for function in answer["functions"]}
    assert own == {"spin!helper": 0.008, "spin": 0.002, "spin!rest": 0.002, "spin![spin]": 0.001}  # ms


def test_the_viewer_shows_markers_of_tracepoints(tmp_path: Path) -> None:
    with firefox_profiler(exported(tmp_path, traced_recording())) as viewer:
        answer = viewer.asked("thread", "markers")
    assert answer["totalMarkerCount"] == 80 + 20, "tracepoints, and switches of the side-band"


# Tests of pprof's profile: it contains what was recorded, and pprof finds its source and instructions.


# what a node program says of an export: pprof's own decoder
PPROF = """
const fs = require("fs"), zlib = require("zlib"), { Profile } = require("pprof-format"), [packages, file] = process.argv.slice(1);
const profile = Profile.decode(zlib.gunzipSync(fs.readFileSync(file))), text = i => profile.stringTable.strings[Number(i)];
const name = Object.fromEntries(profile.function.map(f => [f.id, text(f.name)]));
const site = Object.fromEntries(profile.location.map(l => [l.id, name[l.line[0].functionId]]));
console.log(JSON.stringify(profile.sample.map(s => [s.locationId.map(i => site[i]), s.value.map(Number), text(s.label[0].str)])));
"""


def test_pprof_decodes_to_the_profile_that_went_in() -> None:
    fields = list(protobuf(gzip.decompress(pprof([stacks(PROFILE, "cycles"), stacks("x;y 1", "faults")], Metadata(start=5)))))
    strings = [value.decode() for number, value in fields if number == 6]
    functions = {dict(protobuf(v))[1]: strings[dict(protobuf(v))[2]] for n, v in fields if n == 5}
    assert [strings[dict(protobuf(v))[1]] for n, v in fields if n == 1] == ["cycles samples", "cycles", "faults samples", "faults"]
    got = []
    for sample in (dict(protobuf(v)) for n, v in fields if n == 2):
        chain = [functions[i] for i in varints(sample.get(1, b""))]
        label = dict(protobuf(sample[3]))
        got.append((strings[label[2]], chain, varints(sample[2])))
    assert got == [
        ("sh", ["sys_read", "run", "main"], [1, 3, 0, 0]),
        ("sh", ["run", "main"], [1, 2, 0, 0]),
        ("ls", ["main"], [1, 4, 0, 0]),
        ("ls", [], [1, 1, 0, 0]),
        ("x", ["y"], [0, 0, 1, 1]),
    ]
    assert dict(fields)[9] == 5


def labels(data: bytes) -> list[dict[str, str]]:
    """Return the labels of each sample of a profile."""
    fields = list(protobuf(gzip.decompress(data)))
    strings = [value.decode() for number, value in fields if number == 6]
    pairs = [[dict(protobuf(label)) for number, label in protobuf(value) if number == 3] for field, value in fields if field == 2]
    return [{strings[pair[1]]: strings[pair[2]] for pair in sample} for sample in pairs]


def test_samples_have_labels_of_their_thread_and_machine() -> None:
    part = stacks("sh;main;run 3\nls;main 4")
    assert labels(pprof([part])) == [{"comm": "sh"}, {"comm": "ls"}]
    tasks = (np.array([7, 8], np.int32), np.array([9, 8], np.int32))
    assert labels(pprof([dataclasses.replace(part, tasks=tasks)], Metadata(host="web-1"))) == [
        {"comm": "sh", "host": "web-1", "pid": "7", "tid": "9"},
        {"comm": "ls", "host": "web-1", "pid": "8", "tid": "8"},
    ]


def test_samples_have_a_label_of_their_cgroup() -> None:
    part = dataclasses.replace(stacks("sh;main;run 3\nls;main 4\nps;main 5"), cgroup=np.array([20, 0, 30]))
    part = dataclasses.replace(part, tasks=(np.array([7, 8, 9], np.int32), np.array([7, 8, 9], np.int32)))
    of_samples = labels(pprof([part], Metadata(cgroups={20: "/user.slice"})))
    assert [sample.get("cgroup") for sample in of_samples] == ["/user.slice", None, None], "not of samples with an unknown cgroup"


def test_an_export_separates_cgroups(tmp_path: Path) -> None:
    built = PerfDataBuilder([usual_attr(USUAL | SampleType.CGROUP)])
    for number, path in ((20, "/a.service"), (30, "/b.service")):
        built.record(Cgroup(0, number, path, SampleId(pid=7, tid=7, time=100)))
    for time, number in ((110, 20), (120, 30), (130, 30)):
        built.sample(misc=2, ip=0x401000, pid=7, tid=7, time=time, period=1000, cgroup=number)
    (tmp_path / "perf.data").write_bytes(built.file())
    assert run(["report", "-i", str(tmp_path / "perf.data"), "--pprof", str(tmp_path / "pprof.gz"), "-q"]) == 0
    assert sorted(sample["cgroup"] for sample in labels((tmp_path / "pprof.gz").read_bytes())) == ["/a.service", "/b.service"]


def test_an_export_separates_threads(tmp_path: Path) -> None:
    frames = ("run", "main")
    path = sampled_program(tmp_path, [Stack(frames, 3, tid=100), Stack(frames, 4, tid=101), Stack(frames, 2, tid=100)])
    exported = tmp_path / "out.pb.gz"
    assert run(["report", "-q", "-i", str(path), "--symfs", str(tmp_path), "--pprof", str(exported)]) == 0
    fields = [list(protobuf(value)) for number, value in protobuf(gzip.decompress(exported.read_bytes())) if number == 2]
    counts = [varints(dict(sample)[2])[0] for sample in fields]
    threads = [label["tid"] for label in labels(exported.read_bytes())]
    assert sorted(zip(threads, counts, strict=True)) == [("100", 5), ("101", 4)]
    assert {label["pid"] for label in labels(exported.read_bytes())} == {"100"}


def test_pprofs_decoder_finds_the_profile(tmp_path: Path) -> None:
    file = tmp_path / "profile.pb.gz"
    file.write_bytes(pprof([stacks(PROFILE)]))
    assert consumed(PPROF, file) == [
        [["sys_read", "run", "main"], [1, 3], "sh"],
        [["run", "main"], [1, 2], "sh"],
        [["main"], [1, 4], "ls"],
        [[], [1, 1], "ls"],
    ]


def test_functions_of_python_have_their_names_and_files() -> None:
    strings = gzip.decompress(pprof([stacks("sh;py::main:/srv/app.py;run 5")]))
    assert b"main (app.py)" in strings
    assert b"py::main:/srv/app.py" in strings  # the system's name


class Profile:
    """A profile's messages, as far as tests need them."""

    def __init__(self, data: bytes) -> None:
        fields = list(protobuf(gzip.decompress(data)))
        self.strings = [value.decode() for number, value in fields if number == 6]
        self.numbers = {number: value for number, value in fields if number > 8}
        self.mappings = {one[1]: one for one in (dict(protobuf(value)) for number, value in fields if number == 3)}
        self.functions = {one[1]: one for one in (dict(protobuf(value)) for number, value in fields if number == 5)}
        self.locations = {dict(protobuf(value))[1]: list(protobuf(value)) for number, value in fields if number == 4}
        self.samples = [(varints(one[1]), varints(one[2])) for one in (dict(protobuf(value)) for number, value in fields if number == 2)]

    def location(self, number: int) -> tuple[int, int, list[tuple[str, str, int, int]]]:
        """Return mapping, address, and for each function there its name, file, line, and the function's line."""
        fields = self.locations[number]
        lines = [dict(protobuf(value)) for field, value in fields if field == 4]
        field_values = dict(fields)
        return field_values.get(2, 0), field_values.get(3, 0), [self._line(line[1], line.get(2, 0)) for line in lines]

    def _line(self, number: int, line: int) -> tuple[str, str, int, int]:
        fields = self.functions[number]
        return self.strings[fields[2]], self.strings[fields.get(4, 0)], line, fields.get(5, 0)


@pytest.fixture
def exported_message(tmp_path: Path) -> Path:
    """Export the profile of a recording of a program with lines and an inlined call."""
    spin_with_lines(tmp_path)
    assert run(["report", "-q", "-i", str(tmp_path / "perf.data"), "--symfs", str(tmp_path), f"--pprof={tmp_path}/spin.pb.gz"]) == 0
    return tmp_path / "spin.pb.gz"


def test_a_location_is_an_address_of_the_file_with_the_lines_of_all_functions_inlined_there(exported_message: Path) -> None:
    profile, folder = Profile(exported_message.read_bytes()), exported_message.parent
    (mapping,) = profile.mappings.values()
    assert (mapping[2], mapping[3], mapping[4]) == (0x1000, 0x2000, 0x1000)
    assert profile.strings[mapping[5]] == "/bin/spin"
    assert (mapping[7], mapping[8], mapping[9], mapping[10]) == (1, 1, 1, 1)  # functions, files, lines, inlined calls
    results = {profile.location(site)[1]: (profile.location(site)[2], values[0]) for (site,), values in profile.samples}
    inlined = [("helper", f"{folder}/b.h", 9, 0), ("spin", f"{folder}/a.c", 2, 2)]
    assert results == {
        0x1010: ([("spin", f"{folder}/a.c", 2, 2)], 1),
        0x1011: (inlined, 6),
        0x1014: (inlined, 2),
        0x1016: ([("spin", f"{folder}/a.c", 3, 2)], 1),
        0x1020: ([("rest", "", 0, 0)], 2),
        0x1800: ([("[spin]", "", 0, 0)], 1),
    }


def test_the_profile_has_time_and_duration(exported_message: Path) -> None:
    numbers, modified = Profile(exported_message.read_bytes()).numbers, (exported_message.parent / "perf.data").stat().st_mtime
    assert numbers[10] == 120  # ns from the first sample to the last
    assert abs(numbers[9] + 120 - modified * 1e9) < 1e6


def test_every_function_has_a_name(exported_message: Path) -> None:
    profile = Profile(exported_message.read_bytes())
    assert all(profile.strings[function[2]] for function in profile.functions.values())
    assert all(profile.location(site)[2] for site in profile.locations)


def test_the_program_is_the_first_mapping_even_behind_a_link() -> None:
    part = stacks("python3;main 1\npython3;memcpy 9")
    mappings = [FileMapping(0x1000, 0x2000, 0x1000, path, "", False, True, False) for path in ("/lib/libc.so.6", "/usr/bin/python3.11")]
    column = np.array([0x1000, 0x1100], np.uint64)
    none = np.full(2, -1)
    sites = CodeSites(column, np.array([1, 0]), none, none > 0, column, column, mappings, [], [None, None])
    profile = Profile(pprof([dataclasses.replace(part, sites=sites, site=np.array([0, 1], np.int32))]))
    assert [profile.strings[mapping[5]] for mapping in profile.mappings.values()] == ["/usr/bin/python3.11", "/lib/libc.so.6"]


def asked_pprof(*words: str) -> str:
    go = shutil.which("go")
    if go is None:
        pytest.skip("no go, whose tool pprof reads the profile: install golang-go")
    # pprof removes from a source's path everything up to a folder that has the name of the current folder
    process = subprocess.run([go, "tool", "pprof", *words], capture_output=True, text=True, timeout=300, check=False, cwd="/")
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_pprof_lists_the_source_of_a_function(exported_message: Path) -> None:
    listed = [line.split() for line in asked_pprof("-list", "spin", str(exported_message)).splitlines()]
    assert ["1us", "9us", "2:", "second\x1b[2J"] in listed


def test_pprof_shows_the_instructions_of_a_function(exported_message: Path) -> None:
    with_file = ["-disasm", "spin", str(exported_message.parent / "bin" / "spin"), str(exported_message)]
    output = [line.split()[:3] for line in asked_pprof(*with_file).splitlines()]
    assert ["2us", "2us", "1014:"] in output


# OpenTelemetry profiles, read by the published protocol's own code where it is installed.


MS = 1_000_000
ORIGIN = Origin(1_700_000_000_000_000_000, 10 * MS, 30 * MS, {"host.name": "web-1", "os.type": "linux"}, "0.1")


def read(data: bytes) -> Any:
    """The message, by the package opentelemetry-proto (extra dev)."""
    reason = "opentelemetry-proto is not installed"
    profiles = pytest.importorskip("opentelemetry.proto.profiles.v1development.profiles_pb2", reason=reason)
    return profiles.ProfilesData.FromString(data)


def stack_of(found: Any, sample: Any) -> list[tuple[str, str, str]]:
    """The frames of a sample: name, file, kind."""
    tables = found.dictionary
    frames = []
    for index in tables.stack_table[sample.stack_index].location_indices:
        location = tables.location_table[index]
        function = tables.function_table[location.lines[0].function_index]
        module = tables.mapping_table[location.mapping_index].filename_strindex
        kind = tables.attribute_table[location.attribute_indices[0]].value.string_value
        frames.append((tables.string_table[function.name_strindex], tables.string_table[module], kind))
    return frames


def attributes_of(found: Any, sample: Any) -> dict[str, object]:
    tables = found.dictionary
    entries = [tables.attribute_table[index] for index in sample.attribute_indices]
    return {tables.string_table[one.key_strindex]: one.value.int_value or one.value.string_value for one in entries}


def test_a_sample_is_a_stack_of_a_thread_with_its_times_and_weights() -> None:
    part = timed_stacks(
        [At("app;main;hot", 10 * MS, 1 * MS, 7, 8), At("app;main", 20 * MS, 2 * MS, 7, 7), At("app;main;hot", 40 * MS, 3 * MS, 7, 8)]
    )
    message = read(otlp([part], ORIGIN))
    (profile,) = message.resource_profiles[0].scope_profiles[0].profiles
    tables = message.dictionary
    assert tables.string_table[profile.sample_type.type_strindex] == part.event
    assert tables.string_table[profile.sample_type.unit_strindex] == "nanoseconds"
    hot, main = profile.samples
    assert [name for name, _, _ in stack_of(message, hot)] == ["hot", "main"]
    assert stack_of(message, main)[0][1:] == (part.functions[0].dso, "native")
    assert list(hot.values) == [MS, 3 * MS]
    assert [time - ORIGIN.started for time in hot.timestamps_unix_nano] == [0, 30 * MS]
    assert attributes_of(message, hot) == {"process.pid": 7, "thread.id": 8, "thread.name": "app"}
    assert (profile.time_unix_nano, profile.duration_nano) == (ORIGIN.started, 30 * MS)


def test_a_resource_has_its_attributes_and_tables_begin_empty() -> None:
    message = read(otlp([timed_stacks([At("app;main", 10 * MS)])], ORIGIN))
    assert {one.key: one.value.string_value for one in message.resource_profiles[0].resource.attributes} == dict(ORIGIN.resource)
    tables = message.dictionary
    for table in (tables.mapping_table, tables.location_table, tables.function_table, tables.stack_table, tables.attribute_table):
        assert table[0] == type(table[0])()
    assert tables.string_table[0] == ""


def test_events_are_profiles_and_the_kernel_is_distinguished() -> None:
    part = timed_stacks([At("app;main;copy", 10 * MS)])
    part = dataclasses.replace(part, functions=[one._replace(kernel=one.name == "copy") for one in part.functions])
    faults = timed_stacks([At("app;main", 20 * MS, 1)], "page-faults", in_seconds=False)
    message = read(otlp([part, faults], ORIGIN))
    first, second = message.resource_profiles[0].scope_profiles[0].profiles
    assert [kind for _, _, kind in stack_of(message, first.samples[0])] == ["kernel", "native"]
    assert message.dictionary.string_table[second.sample_type.unit_strindex] == "count"


def test_hostile_names_are_values() -> None:
    message = read(otlp([timed_stacks([At("a\udcff\x1b;f\udc80<", 10 * MS)])], ORIGIN))
    assert "f?<" in message.dictionary.string_table


def test_samples_without_times_are_refused() -> None:
    with pytest.raises(ValueError, match="times"):
        otlp([stacks("a;f 1")], ORIGIN)


# A Perfetto trace: samples with callstacks, outermost first, read without a schema and, where installed, by the published one.


def ran() -> Stacks:
    return timed_stacks([At("app;main;hot", 10 * MS, 1 * MS, 7, 8, 1), At("app;main;read_[k]", 20 * MS, 2 * MS, 7, 7, 0),
                         At("sh;main;hot", 40 * MS, 3 * MS, 9, 9, 1)])  # fmt: skip


def packets(data: bytes) -> list[dict[int, Any]]:
    """Return the fields of each packet."""
    return [dict(protobuf(packet)) for number, packet in protobuf(data) if number == 1]


def interned(packet: dict[int, Any], kind: int) -> dict[int, dict[int, Any]]:
    """Return the entries of one kind by their ids."""
    entries = [dict(protobuf(value)) for number, value in protobuf(packet[12]) if number == kind]
    return {entry[1]: entry for entry in entries}


def frames_of_message(packet: dict[int, Any], callstack: int) -> list[tuple[str, str]]:
    """Return function and file of each frame of a callstack."""
    names, paths, mappings, frames = (interned(packet, kind) for kind in (5, 17, 19, 6))
    (fields,) = (value for number, value in protobuf(packet[12]) if number == 7 and dict(protobuf(value))[1] == callstack)
    return [(names[frames[frame][2]][2].decode(), paths[mappings[frames[frame][3]][7]][2].decode())
            for number, frame in protobuf(fields) if number == 2]  # fmt: skip


def test_a_sample_has_its_time_thread_and_callstack() -> None:
    _, first, *samples = packets(perfetto([ran()]))
    assert first[13] == 1, "the sequence begins"
    assert dict(protobuf(dict(protobuf(dict(protobuf(first[59]))[12]))[1]))[10] == b"cpu-clock"
    one, two, three = ((sample[8], dict(protobuf(sample[66]))) for sample in samples)
    assert [time for time, _ in (one, two, three)] == [10 * MS, 20 * MS, 40 * MS]
    assert [(fields.get(1, 0), fields[2], fields[3]) for _, fields in (one, two, three)] == [(1, 7, 8), (0, 7, 7), (1, 9, 9)]
    assert [fields[5] for _, fields in (one, two, three)] == [2, 1, 2], "in the kernel, or not"
    assert [fields[6] for _, fields in (one, two, three)] == [MS, 2 * MS, 4 * MS], "a counter of each CPU"
    assert frames_of_message(first, one[1][4]) == [("main", "app"), ("hot", "app")]
    assert frames_of_message(first, two[1][4]) == [("main", "app"), ("read", "kernel")]


def test_processes_and_threads_have_names() -> None:
    tree = list(protobuf(packets(perfetto([ran()]))[0][2]))
    assert [(one[1], one[3]) for one in (dict(protobuf(value)) for number, value in tree if number == 1)] == [(7, b"app"), (9, b"sh")]
    threads = [(one[1], one[3], one[2]) for one in (dict(protobuf(value)) for number, value in tree if number == 2)]
    assert sorted(threads) == [(7, 7, b"app"), (8, 7, b"app"), (9, 9, b"sh")]


def test_each_event_is_a_sequence() -> None:
    data = perfetto([ran(), dataclasses.replace(ran(), event="page-faults")])
    assert [packet.get(10) for packet in packets(data)] == [None, 1, 1, 1, 1, 2, 2, 2, 2]


def test_frames_have_addresses_in_their_files_and_lines() -> None:
    part = timed_stacks([At("app;main", 10 * MS)])
    mapping = FileMapping(0x400000, 0x500000, 0x1000, "/usr/bin/app", "ab12", False, True, True)
    column = np.array([0x400010], np.uint64)
    none = np.zeros(1, np.uint64)
    sites = CodeSites(column, np.array([0]), np.array([0]), np.array([False]), none, none, [mapping], [Source("/src/app.c", 7)], [None])
    _, first, _ = packets(perfetto([dataclasses.replace(part, sites=sites, site=np.array([0], np.int32))]))
    ((_, frame),) = interned(first, 6).items()
    assert (frame[4], frame[6]) == (0x1010, 7)
    assert interned(first, 18)[frame[5]][2] == b"/src/app.c"
    ((_, of_file),) = interned(first, 19).items()
    assert (of_file[8], of_file[4], of_file[5]) == (0x1000, 0x400000, 0x500000)
    assert [entry[2] for entry in interned(first, 17).values()] == [b"usr", b"bin", b"app"]
    assert interned(first, 16)[of_file[2]][2] == b"ab12"


def test_a_trace_needs_times() -> None:
    with pytest.raises(ValueError, match="times"):
        perfetto([stacks("app;main 1")])


def test_the_published_schema_knows_every_field(tmp_path: Path) -> None:
    path = sampled_program(tmp_path, [Stack(("run", "main"), 3), Stack(("main",), 2)])
    exported = tmp_path / "out.pftrace"
    assert run(["export", "-q", "-i", str(path), "--symfs", str(tmp_path), "--perfetto", str(exported)]) == 0
    assert len(packets(exported.read_bytes())) == 7
    schema = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="the package perfetto is not installed")
    trace = schema.Trace.FromString(exported.read_bytes())
    assert [packet.perf_sample.pid for packet in trace.packet if packet.HasField("perf_sample")] == [100] * 5
    assert trace.SerializeToString() == schema.Trace.FromString(trace.SerializeToString()).SerializeToString()
    trace.DiscardUnknownFields()
    assert trace == schema.Trace.FromString(exported.read_bytes())
