"""Tests of the profile for the Firefox Profiler: its tables, and how the viewer's own code reads them."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfpy.analysis.stacks import Stacks, TimedSamples
from perfpy.cli import run
from perfpy.views.page.marks import Mark
from perfpy.views.stacks.firefox import Heading, firefox
from tests.builders.annotated import spin_with_lines
from tests.builders.sampled_program import Stack, sampled_program
from tests.builders.stacks import stacks
from tests.builders.traced import traced_recording
from tests.builders.viewers import firefox_profiler

if TYPE_CHECKING:
    from pathlib import Path

PROFILE = "sh;main;run;sys_read_[k] 3\nsh;main;run 2\nls;main 4\nls 1"


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
