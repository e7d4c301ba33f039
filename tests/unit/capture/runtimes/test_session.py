"""record --jit from start to end, without a recording."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perfpy.capture.option_values import Callchain
from perfpy.capture.record_options import OutputOptions, RecordOptions, SamplingOptions
from perfpy.capture.runtimes import session
from perfpy.capture.runtimes.keeping import Kept
from perfpy.capture.runtimes.programs import runtime_of
from perfpy.capture.runtimes.session import RuntimeNames
from perfpy.capture.targets import TargetOptions
from perfpy.errors import PerfError


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("PYTHONPERFSUPPORT", "PYTHONPATH", "NODE_OPTIONS", "JAVA_TOOL_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def begun(options: RecordOptions, *command: str) -> tuple[RuntimeNames, list[str]]:
    lines: list[str] = []
    names = RuntimeNames(options, command, lines.append)
    names.begin(lambda _end: None)
    return names, lines


def test_one_line_shows_the_stacks_and_with_v_the_environment():
    options = RecordOptions(sampling=SamplingOptions(callchain=Callchain("fp")))
    assert begun(options, "node", "app.js")[1] == ["[ perf record: --jit --call-graph fp ]"]
    names, (line,) = begun(options._replace(verbose=1), "node", "app.js")
    assert line.startswith(
        "[ perf record: --jit sets NODE_OPTIONS='--perf-basic-prof --interpreted-frames-native-stack' and for its children "
    )
    assert line.endswith("; --call-graph fp ]")
    assert names.variables["NODE_OPTIONS"].startswith("--perf-basic-prof")


@pytest.mark.parametrize(
    "options",
    [
        RecordOptions(target=TargetOptions(pid="999999999")),
        RecordOptions(target=TargetOptions(tid="999999999")),
        RecordOptions(target=TargetOptions(user="root")),
    ],
)
def test_where_others_are_recorded_nothing_is_set_for_the_command(options: RecordOptions):
    names, (line,) = begun(options._replace(sampling=options.sampling._replace(callchain=Callchain("dwarf", 4096))), "sleep", "1")
    assert names.variables == {}
    assert line == "[ perf record: --jit --call-graph dwarf,4096 ]"


@pytest.mark.parametrize("command", [("python3", "-X", "perf_jit", "a.py"), ("python3", "-Xperf_jit", "a.py")])
def test_where_jitdumps_were_chosen_stacks_are_unwound_when_these_are_whole(command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "uname", lambda: type("Uname", (), {"machine": "x86_64"}))
    assert not begun(RecordOptions(), *command)[0].options.sampling.unwind
    assert begun(RecordOptions(), "sh")[0].options.sampling.unwind
    monkeypatch.setenv("PYTHON_PERF_JIT_SUPPORT", "1")
    assert not begun(RecordOptions(), "sh")[0].options.sampling.unwind


def test_a_pipe_keeps_no_names():
    names, lines = begun(RecordOptions(output=OutputOptions(path="-"), sampling=SamplingOptions(callchain=Callchain("fp"))), "sh")
    assert lines[1] == "warning: --jit: a pipe cannot store names; its readers need the perf maps in /tmp"
    names.end(["-"])
    assert len(lines) == 2


def test_the_last_line_counts_stored_and_failed_maps(monkeypatch: pytest.MonkeyPatch):
    Path("perf.data").write_bytes(b"x")
    names, lines = begun(RecordOptions(), "sh")
    monkeypatch.setattr("perfpy.capture.runtimes.keeping.store_names", lambda *_, **__: Kept(1, 2, ("a map: not ours",), frozenset()))
    names.end(["perf.data"])
    assert lines[1:] == ["warning: --jit: a map: not ours", "[ perf record: --jit stored 1 perf map, 2 functions of jitdumps ]"]


def test_a_recording_that_cannot_be_read_again_is_a_warning(monkeypatch: pytest.MonkeyPatch):
    def damaged(*_: object, **__: object) -> Kept:
        raise PerfError("damaged")

    Path("perf.data").write_bytes(b"x")
    names, lines = begun(RecordOptions(), "sh")
    monkeypatch.setattr("perfpy.capture.runtimes.keeping.store_names", damaged)
    names.end(["perf.data"])
    assert lines[1:] == ["warning: --jit: damaged"]


def test_dumps_stay_for_the_recordings_that_come_after(monkeypatch: pytest.MonkeyPatch):
    removed: list[tuple[str, bool]] = []

    def keep(path: str, *_: object, remove_dumps: bool, **__: object) -> Kept:
        removed.append((path, remove_dumps))
        return Kept()

    monkeypatch.setattr("perfpy.capture.runtimes.keeping.store_names", keep)
    for name in ("one", "two"):
        Path(name).write_bytes(b"x")
    names, _ = begun(RecordOptions(), "sh")
    names.end(["one", "gone", "two"])
    assert removed == [("one", False), ("two", True)]


def test_stacks_that_were_not_unwound_get_their_names_too(monkeypatch: pytest.MonkeyPatch):
    rewritten_paths: list[str] = []

    def keep(path: str, *_: object, **__: object) -> Kept:
        rewritten_paths.append(path)
        return Kept()

    monkeypatch.setattr("perfpy.capture.runtimes.keeping.store_names", keep)
    names, _ = begun(RecordOptions(sampling=SamplingOptions(unwind=True, callchain=Callchain("dwarf", 8192))), "sh")
    for name in ("new", "new.stacks", "old", "old.stacks"):
        Path(name).write_bytes(b"x")
    os.utime("old.stacks", (0, 0))
    names.end(["new", "old"])
    assert rewritten_paths == ["new", "new.stacks", "old"]


def test_logs_of_recorded_processes_are_removed_and_no_others(monkeypatch: pytest.MonkeyPatch):
    Path("perf.data").write_bytes(b"x")
    Path("isolate-0x1-77-v8.log").write_bytes(b"of before")
    os.utime("isolate-0x1-77-v8.log", (0, 0))
    names, _ = begun(RecordOptions(), "sh")
    for name in ("isolate-0x2-77-v8.log", "isolate-0x2-78-v8.log", "isolate-0x2-77-v8.log.mine"):
        Path(name).write_bytes(b"new")
    Path("isolate-0x3-77-v8.log").symlink_to("perf.data")
    monkeypatch.setattr("perfpy.capture.runtimes.keeping.store_names", lambda *_, **__: Kept(pids=frozenset({77})))
    names.end(["perf.data"])
    files = sorted(path.name for path in Path().iterdir())
    assert files == [
        *("isolate-0x1-77-v8.log", "isolate-0x2-77-v8.log.mine", "isolate-0x2-78-v8.log", "isolate-0x3-77-v8.log", "perf.data"),
    ]


def test_a_process_that_is_attached_to_chooses_how_stacks_are_walked(monkeypatch: pytest.MonkeyPatch):
    node = runtime_of("node")
    monkeypatch.setattr(session, "runtime_of_process", lambda pid: node)
    monkeypatch.setattr(session, "lacks", lambda pid, **_: f"{pid} lacks it")
    monkeypatch.setattr(session, "attach_all", lambda pids: ([], []))  # whatever has this number here
    names, lines = begun(RecordOptions(target=TargetOptions(pid="12")))
    assert names.options.sampling.callchain == Callchain("fp")
    assert lines[1:] == ["warning: --jit: 12 lacks it"]
