"""perfpy in place of perf: called by its name, queried for its build options, with options before the command."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from perfpy import cli
from perfpy.cli import run
from perfpy.cli.commands import COMMANDS, load_command
from perfpy.cli.line.option_parsing import Parser
from perfpy.cli.line.perfconfig import Config
from perfpy.cli.top_level import ALTERNATIVES, refusal
from perfpy.cli.version import FEATURES


@pytest.fixture
def called_perf(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/usr/local/bin/perf"])


@pytest.mark.parametrize("line", [["--version"], ["version"], ["-v"], ["version", "--build-options"]])
def test_the_version_has_perfs_form(line, called_perf, capsys):
    assert cli.run(line) == 0
    assert re.match(r"perf version 6\.12\.\d+ \(perfpy [\d.]+\)\n", capsys.readouterr().out)


def test_as_perfpy_it_prints_its_own_version(capsys):
    assert cli.run(["--version"]) == 0
    assert re.fullmatch(r"perfpy version [\d.]+\n", capsys.readouterr().out)


def test_errors_and_help_have_the_name(called_perf, capsys):
    assert cli.run(["stat", "--nonsense"]) == 129
    assert capsys.readouterr().err.startswith("perf stat: ")
    assert cli.run(["xyzzy"]) != 0
    assert capsys.readouterr().err == "perf: 'xyzzy' is not a perf command; perf --help lists the commands\n"
    for name in ("stat", "record", "report", "script"):
        assert cli.run([name, "--help"]) == 0
        assert "perfpy " not in capsys.readouterr().out


def test_names_of_others_stay_unchanged(called_perf, capsys):
    assert cli.run(["report", "-i", "/nowhere/perfpy x.data"]) == 255
    assert "/nowhere/perfpy x.data" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "status", "output"),
    [
        (["feature", "libelf"], 0, "                libelf: [ on  ]  # HAVE_LIBELF_SUPPORT\n"),
        (["feature", "HAVE_LIBPFM"], 1, "               libpfm4: [ OFF ]  # HAVE_LIBPFM\n"),
        (["feature", "ZLIB"], 0, "                  zlib: [ on  ]  # HAVE_ZLIB_SUPPORT\n"),
        (["-q", "feature", "zlib"], 0, ""),
        (["feature", "zlib,nothing"], 1, "                  zlib: [ on  ]  # HAVE_ZLIB_SUPPORT\n"),
        (["feature"], 129, ""),
        (["nothing"], 129, ""),
        ([], 129, ""),
        (["feature", "zlib", "lzma"], 255, ""),
    ],
)
def test_check(line, status, output, capsys):
    assert cli.run(["check", *line]) == status
    captured = capsys.readouterr()
    assert captured.out == output
    assert bool(captured.err) == (status > 1 or "nothing" in str(line))


def test_build_options_are_a_line_each(capsys):
    assert cli.run(["version", "--build-options"]) == 0
    text = capsys.readouterr().out
    assert all(feature.line in text for feature in FEATURES)
    cli.run(["-vv"])
    assert capsys.readouterr().out == text


def test_completions_of_others_ask_for_commands_and_options(capsys):
    assert cli.run(["--list-cmds"]) == 0
    assert capsys.readouterr().out.split() == list(COMMANDS)
    assert cli.run(["stat", "--list-opts"]) == 130
    spellings = {f"--{word}" for option in load_command("stat").options for word in option.words}
    listed = capsys.readouterr().out.split()
    assert "--event" in listed
    assert set(listed) <= spellings
    assert cli.run(["--list-opts"]) == 0
    assert "--buildid-dir" in capsys.readouterr().out.split()


def test_the_build_id_cache_is_chosen_before_the_command(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setenv("PERF_BUILDID_DIR", "")  # put back afterwards
    assert cli.run(["--buildid-dir", str(tmp_path / "ids"), "buildid-cache", "--list"]) == 0
    assert cli.run(["--buildid-dir", str(tmp_path / "ids"), "buildid-cache", "--list", "--add", "/bin/ls"]) == 129
    assert Config({"buildid.dir": "/other"}).build_id_folder == str(tmp_path / "ids")
    monkeypatch.setenv("PERF_BUILDID_DIR", "")
    assert Config({"buildid.dir": "/other"}).build_id_folder == "/other"


@pytest.mark.parametrize("line", [["--buildid-dir"], ["--debug", "nothing", "version"], ["--nonsense", "version"]])
def test_bad_options_before_the_command(line, capsys):
    assert cli.run(line) == 129
    assert capsys.readouterr().err


@pytest.mark.parametrize(
    "line", [["--no-pager", "version"], ["-p", "version"], ["--debug", "verbose=1", "version"], ["--debugfs-dir=/x", "version"]]
)
def test_options_before_the_command_leave_it(line, monkeypatch, capsys):
    for name in ("PERF_PAGER", "PERF_DEBUGFS_DIR"):
        monkeypatch.setenv(name, "")
    assert cli.run(line) == 0
    assert "version" in capsys.readouterr().out


def test_the_exec_path_is_printed_and_accepted(monkeypatch, capsys):
    monkeypatch.delenv("PERF_EXEC_PATH", raising=False)
    assert cli.run(["--exec-path"]) == 0
    assert capsys.readouterr().out == "/usr/lib/perf-core\n"
    monkeypatch.setenv("PERF_EXEC_PATH", "/elsewhere")
    assert cli.run(["--exec-path"]) == 0
    assert capsys.readouterr().out == "/elsewhere\n"


def test_a_command_after_options_is_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PERF_BUILDID_DIR", "")  # which the option sets
    assert cli.run(["--buildid-dir", str(tmp_path), "evlist", "-i", "/nowhere/x.data"]) == 255
    assert capsys.readouterr().err.startswith("perfpy evlist: /nowhere/x.data: ")
    assert cli.run(["--no-pager", "stat", "--list-opts"]) == cli.run(["stat", "--list-opts"])
    first, _, second = capsys.readouterr().out.partition("--event ")
    assert second.count("--event ") == 1, first


@pytest.mark.parametrize("options", [[], ["--buildid-dir", "/nowhere"], ["--no-pager", "-p"]])
def test_ctrl_c_is_set_for_the_command_behind_options(options, monkeypatch, capsys):
    settings: list[bool] = []
    monkeypatch.setattr(cli, "_set_ctrl_c", lambda *, raises: settings.append(raises))
    monkeypatch.setenv("PERF_BUILDID_DIR", "")
    assert cli.run([*options, "buildid-cache", "--list-opts"], owns_process=True) == 130
    assert cli.run([*options, "record", "--list-opts"], owns_process=True) == 130
    assert settings == [True]
    assert "--purge " in capsys.readouterr().out


# A command that only perf has is refused with what does its work.


COMPATIBILITY = Path(__file__).resolve().parents[3] / "man" / "topics" / "compatibility.md"


def test_no_command_of_perfpys_is_refused() -> None:
    assert not set(ALTERNATIVES) & set(COMMANDS)


@pytest.mark.parametrize("line", sorted({line for lines in ALTERNATIVES.values() for line in lines}))
def test_alternatives_are_valid_command_lines(line: str) -> None:
    program, name, *words = shlex.split(line)
    command = load_command(name)
    Parser(command.options, stops_at_word=command.runs_workload).parse(words)
    assert program == "perfpy"


@pytest.mark.parametrize("name", sorted(ALTERNATIVES))
def test_the_refusal_is_one_line_with_a_remedy(name: str) -> None:
    text = refusal(name)
    assert f"'{name}'; " in text
    assert "\n" not in text
    assert "perfpy " in text.split("'; ")[1]
    assert f"`{name}`" in COMPATIBILITY.read_text()


@pytest.mark.parametrize(
    ("line", "pid", "words"),
    [
        (["top", "PID", "-d", "1"], "PID", []),
        (["top", "--json", "PID"], "PID", []),
        (["why", "PID,PID"], "PID,PID", []),
        (["trace", "-s", "PID", "--", "true"], "PID", ["true"]),
        (["trace", "4294967295"], None, ["4294967295"]),
        (["leaks", "-p", "1"], "1", []),
        (["leaks", "--json", "PID"], "PID", []),
        (["stat", "PID"], None, ["PID"]),
        (["why", "1,"], None, ["1,"]),
        (["top"], None, []),
    ],
)
def test_commands_of_processes_take_the_number_of_a_running_one(line: list[str], pid: str | None, words: list[str]) -> None:
    own = str(os.getpid())
    parser = load_command(line[0]).parser([word.replace("PID", own) for word in line[1:]])
    assert parser.values.get("pid") == (None if pid is None else pid.replace("PID", own))
    assert parser.words == [word.replace("PID", own) for word in words]


@pytest.mark.parametrize(("arguments", "lines"), [(["-q"], 0), ([], 1)])
def test_a_quiet_check_of_an_unknown_feature_has_an_exit_status_only(
    arguments: list[str], lines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", *arguments, "feature", "nosuch"]) == 1
    captured = capsys.readouterr()
    assert (captured.out, len(captured.err.splitlines())) == ("", lines)
