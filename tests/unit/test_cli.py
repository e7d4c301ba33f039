"""The group finds commands without importing them, and errors become one line and perf's exit status."""

from __future__ import annotations

import errno
import io
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import perfpy
from perfpy import cli
from perfpy.cli.commands import COMMANDS
from perfpy.cli.line.option_parsing import CommandOptions, PerfCommand
from perfpy.errors import BadPerfDataError, UnknownEventError

if TYPE_CHECKING:
    from collections.abc import Callable


def perfpy_process(*args: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "perfpy", *args], text=True, timeout=60, check=False, **options)


@pytest.fixture
def version_is(monkeypatch):
    """A function that puts another one in the place of `perfpy version`."""

    def install(function: Callable[[], int | None]) -> None:
        monkeypatch.setattr(cli, "load_command", lambda name: PerfCommand(CommandOptions, lambda _: function()))

    return install


@pytest.fixture
def failing(version_is):
    """A function that makes `perfpy version` raise something."""

    def install(error: BaseException) -> None:
        def fail() -> None:
            raise error

        version_is(fail)

    return install


def test_help_lists_every_command(capsys):
    assert cli.run(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"  {name} " in text for name in COMMANDS)


def test_a_line_without_a_command_shows_the_first_commands_and_fails_as_perf_does(capsys):
    assert cli.run([]) == 1
    text = capsys.readouterr().out
    assert re.search(r"^  perfpy \./program ", text, re.MULTILINE)
    assert re.search(r"^  perfpy --help ", text, re.MULTILINE)


@pytest.mark.parametrize("args", [["--version"], ["-v"], ["version"]])
def test_the_version_is_the_package_s(args, capsys):
    assert cli.run(args) == 0
    assert capsys.readouterr().out == f"perfpy version {perfpy.__version__}\n"


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["recrod"], "perfpy: 'recrod' is not a perfpy command; did you mean 'record'?\n"),
        (["xyzzy"], "perfpy: 'xyzzy' is not a perfpy command; perfpy --help lists the commands\n"),
        (["bench"], "perfpy: perfpy does not have perf's command 'bench'; perfpy help compatibility says why\n"),
        (
            ["daemon"],
            "perfpy: perfpy does not have perf's command 'daemon'; use perfpy record -a --switch-output=1m --switch-max-files=60\n",
        ),
        (["--frobnicate"], "perfpy: unknown option --frobnicate; perfpy --help lists the options\n"),
        (["version", "--bulid-options"], "perfpy version: unknown option --bulid-options; did you mean --build-options?\n"),
        (["version", "now"], "perfpy version: unexpected argument 'now'\n"),
        (["help", "recrod"], "perfpy help: 'recrod' is not a perfpy command; did you mean 'record'?\n"),
    ],
)
def test_a_wrong_line_exits_129_with_one_line(args, text, capsys):
    assert cli.run(args) == 129
    assert capsys.readouterr().err == text


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (BadPerfDataError("x.data", "not a perf.data"), 255, "x.data: not a perf.data"),
        (UnknownEventError("cyclse", near=["cycles"]), 129, "unknown event 'cyclse'; did you mean 'cycles'?"),
        (OSError(errno.EACCES, "Permission denied", "/root/x"), 255, "/root/x: Permission denied"),
        (OSError(errno.ENOSPC, "No space left on device"), 255, "cannot write standard output: No space left on device"),
        (MemoryError(), 255, "out of memory"),
        (KeyError("lost"), 255, "internal error: KeyError: 'lost'; PERFPY_DEBUG=1 prints the traceback"),
    ],
)
def test_a_failure_is_one_line_without_a_traceback(error, status, text, failing, capfd, monkeypatch):
    monkeypatch.setattr("perfpy.cli._discard_output", lambda: None)  # it would close pytest's own output
    monkeypatch.delenv("PERFPY_DEBUG", raising=False)
    failing(error)
    assert cli.run(["version"]) == status
    assert capfd.readouterr().err == f"perfpy version: {text}\n"


def test_the_debug_variable_shows_the_traceback(failing, capsys, monkeypatch):
    monkeypatch.setenv("PERFPY_DEBUG", "1")
    failing(KeyError("lost"))
    assert cli.run(["version"]) == 255
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_exits_130_in_silence(failing, capsys):
    failing(KeyboardInterrupt())
    assert cli.run(["version"]) == 130
    assert capsys.readouterr().err == ""


def test_the_command_s_return_value_is_the_exit_status(version_is):
    version_is(lambda: 42)
    assert cli.run(["version"]) == 42


def test_a_reader_that_went_away_ends_quietly():
    reader, writer = os.pipe()
    os.close(reader)
    process = perfpy_process("--help", stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (process.returncode, process.stderr) == (141, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_a_full_disk_is_reported():
    with open("/dev/full", "w") as full:
        process = perfpy_process("version", stdout=full, stderr=subprocess.PIPE)
    assert (process.returncode, process.stderr) == (255, "perfpy version: cannot write standard output: No space left on device\n")


def test_closed_output_is_no_error():
    process = subprocess.run(["sh", "-c", f"{sys.executable} -m perfpy version >&-"], capture_output=True, check=False, timeout=60)
    assert (process.returncode, process.stderr) == (0, b"")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(("line", "status"), [("report -i -", 255), ("recrod", 129), ("list sw", 0)])
def test_closed_streams_get_no_messages_of_others(closed, line, status, tmp_path):
    """What is meant for a closed stream goes nowhere: neither to another stream, nor into a file that got the number."""
    run = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m perfpy {line} {closed}"], capture_output=True, check=False, timeout=60, stdin=subprocess.DEVNULL
    )
    assert run.returncode == status
    assert b"internal error" not in run.stderr
    assert bool(run.stdout) == (status == 0 and ">&-" not in closed.replace("2>&-", ""))
    assert bool(run.stderr) == (status != 0 and "2>&-" not in closed)


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_names_are_printed_as_they_are_in_any_locale(encoding, name, version_is, monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, name, io.TextIOWrapper(raw, encoding=encoding))
    version_is(lambda: print(os.fsdecode("/tmp/\xff\u00e9".encode("latin-1")), "h\u00e9", file=getattr(sys, name)))
    assert cli.run(["version"]) == 0
    getattr(sys, name).flush()
    assert raw.getvalue() == b"/tmp/\xff\xe9 h\xc3\xa9\n"


def test_help_of_a_command_is_its_own_help(capsys):
    assert cli.run(["help", "version"]) == 0
    through_help = capsys.readouterr().out
    assert cli.run(["version", "--help"]) == 0
    assert capsys.readouterr().out == through_help
    assert "--build-options" in through_help


def test_build_options_list_the_installed_libraries(capsys):
    assert cli.run(["version", "--build-options"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("click: [ on  ]" in line for line in lines)
    assert any(line.strip().startswith("python: [ on  ]") for line in lines)
