"""The environment in which runtimes publish names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from perfpy.capture.runtimes.environment import CommandEnvironment, command_with_switches, describe_variables, environment_for, join_values
from perfpy.capture.runtimes.programs import runtime_of
from perfpy.capture.runtimes.table import PYTHON, RUNTIMES, Variable
from perfpy.capture.workload import Workload

if TYPE_CHECKING:
    from pathlib import Path


def program(folder: Path, name: str, text: str = "#!/bin/sh\nexit 0\n") -> str:
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


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
