"""record --jit from start to end, without a recording."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perfpy.capture.record_options import Callchain, OutputOptions, RecordOptions, SamplingOptions
from perfpy.capture.runtimes import session
from perfpy.capture.runtimes.known_runtimes import PYTHON, RUNTIMES, Variable, runtime_of
from perfpy.capture.runtimes.session import (
    CommandEnvironment,
    RuntimeNames,
    command_with_switches,
    describe_variables,
    environment_for,
    join_values,
)
from perfpy.capture.runtimes.store_names import Kept
from perfpy.capture.targets import TargetOptions, Workload
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
    monkeypatch.setattr("perfpy.capture.runtimes.store_names.store_names", lambda *_, **__: Kept(1, 2, ("a map: not ours",), frozenset()))
    names.end(["perf.data"])
    assert lines[1:] == ["warning: --jit: a map: not ours", "[ perf record: --jit stored 1 perf map, 2 functions of jitdumps ]"]


def test_a_recording_that_cannot_be_read_again_is_a_warning(monkeypatch: pytest.MonkeyPatch):
    def damaged(*_: object, **__: object) -> Kept:
        raise PerfError("damaged")

    Path("perf.data").write_bytes(b"x")
    names, lines = begun(RecordOptions(), "sh")
    monkeypatch.setattr("perfpy.capture.runtimes.store_names.store_names", damaged)
    names.end(["perf.data"])
    assert lines[1:] == ["warning: --jit: damaged"]


def test_dumps_stay_for_the_recordings_that_come_after(monkeypatch: pytest.MonkeyPatch):
    removed: list[tuple[str, bool]] = []

    def keep(path: str, *_: object, remove_dumps: bool, **__: object) -> Kept:
        removed.append((path, remove_dumps))
        return Kept()

    monkeypatch.setattr("perfpy.capture.runtimes.store_names.store_names", keep)
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

    monkeypatch.setattr("perfpy.capture.runtimes.store_names.store_names", keep)
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
    monkeypatch.setattr("perfpy.capture.runtimes.store_names.store_names", lambda *_, **__: Kept(pids=frozenset({77})))
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


# The environment in which runtimes publish names.


def program(folder: Path, name: str, text: str = "#!/bin/sh\nexit 0\n") -> str:
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_python_needs_no_variables_if_its_memory_is_read() -> None:
    others = environment_for(["sh"], {}, reads_python=True).variables
    assert not {"PYTHONPATH", "PYTHONPERFSUPPORT"} & {*others}
    assert {*environment_for(["sh"], {}).variables} - {*others} == {"PYTHONPATH", "PYTHONPERFSUPPORT"}
    assert not environment_for(["python3", "a.py"], {}, reads_python=True).hints


def test_every_runtime_with_a_request_gets_it():
    variables = environment_for(["sh"], {}).variables
    assert variables["PYTHONPERFSUPPORT"] == "1"
    assert variables["NODE_OPTIONS"] == "--perf-basic-prof --interpreted-frames-native-stack"
    assert "+DumpPerfMapAtExit" in variables["JAVA_TOOL_OPTIONS"]
    assert "DOTNET_PerfMapEnabled" in variables


@pytest.mark.parametrize("variable", ["RUBYOPT", "ERL_FLAGS", "MONO_ENV_OPTIONS"])
def test_options_unknown_to_older_versions_are_omitted(variable: str):
    assert variable not in environment_for(["sh"], {}).variables


@pytest.mark.parametrize(("answer", "is_set"), [("ruby 3.3.0 (2023-12-25)", True), ("ruby 3.1.7p261", False), ("", False)])
def test_but_set_for_a_program_that_is_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, *, is_set: bool):
    program(tmp_path, "ruby", f"#!/bin/sh\necho '{answer}'\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    environment = environment_for(["ruby", "a.rb"], {"PATH": str(tmp_path)})
    assert ("RUBYOPT" in environment.variables) is is_set
    assert environment.hints == (() if is_set else ("Ruby: start it with --yjit-perf (3.3 or newer)",))


def test_the_users_settings_are_kept():
    users = {"NODE_OPTIONS": "--max-old-space-size=100", "PYTHONPERFSUPPORT": "0", "JAVA_TOOL_OPTIONS": "-Xmx1g"}
    variables = environment_for(["sh"], users).variables
    assert variables["NODE_OPTIONS"].startswith("--max-old-space-size=100 --perf-basic-prof")
    assert variables["JAVA_TOOL_OPTIONS"].startswith("-Xmx1g -XX:")
    assert "PYTHONPERFSUPPORT" not in variables


def test_existing_settings_are_not_repeated():
    before = environment_for(["sh"], {}).variables
    assert environment_for(["sh"], before).variables == {}


@pytest.mark.parametrize(
    ("variable", "users", "value"),
    [
        (Variable("P", "/ours", ":", first=True), "/theirs", "/ours:/theirs"),
        (Variable("P", ":/ours", ":"), "/theirs", "/theirs:/ours"),
        (Variable("P", ":/ours", ":"), "", ":/ours"),
        (Variable("P", "--ours", " "), "--title 'a  b'", "--title 'a  b' --ours"),
    ],
)
def test_values_stand_beside_each_other(variable: Variable, users: str, value: str):
    assert join_values(variable, users) == value


@pytest.mark.parametrize(
    ("name", "runtime"),
    [
        ("python3", "Python"),
        ("python3.13t", "Python"),
        ("node", "Node.js"),
        ("java", "Java"),
        ("ruby3.1", "Ruby"),
        ("php8.2", "PHP"),
        ("sh", ""),
        ("pythonic-thing", ""),
    ],
)
def test_programs_are_known_by_name(tmp_path: Path, name: str, runtime: str):
    path = program(tmp_path, name)
    for word in (path, name):
        result = runtime_of(word, {"PATH": str(tmp_path)})
        assert (result.name if result else "") == runtime


@pytest.mark.parametrize(
    ("first", "runtime"),
    [("#!/usr/bin/env python3", "Python"), ("#!/usr/bin/env -S A=1 node --x", "Node.js"), ("#! /bin/sh", ""), ("", "")],
)
def test_scripts_are_known_by_their_first_line(tmp_path: Path, first: str, runtime: str):
    result = runtime_of(program(tmp_path, "app", f"{first}\n"), {})
    assert (result.name if result else "") == runtime


def test_links_are_followed(tmp_path: Path):
    (tmp_path / "app").symlink_to(program(tmp_path, "node"))
    assert getattr(runtime_of(str(tmp_path / "app"), {}), "name", "") == "Node.js"


def test_the_line_has_the_commands_own_variables_in_full():
    environment = CommandEnvironment({"PYTHONPERFSUPPORT": "1", "NODE_OPTIONS": "--theirs --a b"}, PYTHON)
    assert describe_variables(environment, {}) == "PYTHONPERFSUPPORT=1 and for its children NODE_OPTIONS"
    assert (
        describe_variables(environment._replace(runtime=None), {"NODE_OPTIONS": "--theirs"}) == "PYTHONPERFSUPPORT=1 NODE_OPTIONS+='--a b'"
    )


def test_runtimes_that_have_no_variable_name_the_remedy():
    environment = environment_for(["/usr/bin/luajit"], {})
    assert environment.hints == ("LuaJIT: build it with -DLUAJIT_USE_PERFTOOLS",)


def test_each_entry_has_advice_for_running_processes():
    assert all(runtime.attach for runtime in RUNTIMES)


def test_the_command_gets_the_variables_and_we_do_not(tmp_path: Path):
    out = tmp_path / "out"
    with Workload(["sh", "-c", f"echo $PERFPY_TEST > {out}"], environment={"PERFPY_TEST": "a b"}) as workload:
        workload.start()
        workload.wait()
    assert out.read_text() == "a b\n"
    assert "PERFPY_TEST" not in os.environ


@pytest.mark.parametrize(
    ("words", "version", "has_switches"),
    [(["app.js"], "v20.1.0", True), (["app.js"], "v18.9.0", False), (["inspect", "app.js"], "v24.0.0", False)],
)
def test_node_itself_gets_switches_that_its_variable_does_not_permit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], version: str, *, has_switches: bool
):
    for name in ("node", "npm"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {version}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    switches = ["--perf-prof", "--log-code", "--log-source-code"] if has_switches else []
    assert command_with_switches(["node", *words], runtime_of("node")) == ["node", *switches, *words]
    assert command_with_switches(["npm", *words], runtime_of("npm")) == ["npm", *words]
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert command_with_switches(["node", *words], runtime_of("node")) == ["node", *words]
