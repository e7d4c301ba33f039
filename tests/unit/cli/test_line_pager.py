"""The pager and the perfconfig files."""

from __future__ import annotations

import io
import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perfpy.cli.line import perfconfig
from perfpy.cli.line.pager import Notes, PagedScreen
from perfpy.errors import UsageError
from tests.builders.perfdata import simple_recording
from tests.builders.terminals import Shown, on_terminal

# Text longer than the screen goes through a pager, and no other text.


MARK = "sed s/^/paged:/"


@pytest.fixture
def recording(tmp_path: Path) -> str:
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(60).file())
    return str(path)


def script(recording: str, /, **environment: str) -> Shown:
    return on_terminal("script", "-F", "time", "-i", recording, environment=environment)


def piped(*args: str) -> str:
    return subprocess.run([sys.executable, "-m", "perfpy", *args], capture_output=True, text=True, timeout=60, check=True).stdout


def test_short_text_needs_no_pager(recording: str) -> None:
    screen_text = on_terminal("script", "-F", "time", "-i", recording, lines=100, environment={"PAGER": MARK})
    assert screen_text == (0, piped("script", "-F", "time", "-i", recording))


def test_long_text_goes_through_the_pager(recording: str) -> None:
    output = script(recording, PAGER=MARK)
    assert output == (0, "".join(f"paged:{line}\n" for line in piped("script", "-F", "time", "-i", recording).splitlines()))


def test_lines_that_wrap_count_for_all_they_take(recording: str) -> None:
    screen_text = on_terminal("script", "-i", recording, columns=10, lines=70, environment={"PAGER": MARK})
    assert screen_text.text.startswith("paged:")


@pytest.mark.parametrize(
    ("environment", "paged"),
    [
        ({"PERF_PAGER": MARK, "PAGER": "sed s/^/other:/"}, True),
        ({"PERF_PAGER": "cat", "PAGER": MARK}, False),
        ({"PAGER": ""}, False),
        ({"PAGER": "no-such-pager-anywhere", "PATH": "/nowhere"}, False),
        ({"PAGER": MARK, "TERM": "dumb"}, False),
    ],
)
def test_the_environment_chooses_the_pager(recording: str, environment: dict[str, str], paged: bool) -> None:
    output = script(recording, **environment)
    assert output.status == 0
    assert all(line.startswith("paged:") == paged for line in output.text.splitlines())
    assert len(output.text.splitlines()) == 60


def test_without_a_pager_where_one_is_not_wanted(recording: str, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[pager]\n\tscript = false\n\tevlist = sed s/^/configured:/\n")
    environment = {"PAGER": MARK, "PERF_CONFIG": str(tmp_path / "config")}
    assert "paged:" not in script(recording, **environment).text
    screen_text = on_terminal("--no-pager", "script", "-F", "time", "-i", recording, environment={"PAGER": MARK})
    assert (screen_text.status, "paged:" in screen_text.text, len(screen_text.text.splitlines())) == (0, False, 60)
    assert on_terminal("evlist", "-v", "-i", recording, lines=1, environment=environment).text.startswith("configured:")


def test_less_gets_colours_by_default(recording: str) -> None:
    say = 'echo "LESS is $LESS"; cat >/dev/null'
    assert script(recording, PAGER=say).text == "LESS is RSX\n"
    assert script(recording, PAGER=say, LESS="M").text == "LESS is M\n"


@pytest.mark.parametrize("line", ["help report", "report --help", "stat --help", "list", "--help"])
def test_help_and_lists_are_paged_too(line: str) -> None:
    screen_text = on_terminal(*line.split(), lines=5, environment={"PAGER": MARK})
    assert all(text.startswith("paged:") for text in screen_text.text.splitlines())


def test_notes_follow_the_text_into_the_pager(recording: str) -> None:
    screen_text = on_terminal("report", "--stdio", "-i", recording, lines=5, environment={"PAGER": MARK})
    *_, last = screen_text.text.splitlines()
    assert "no symbol" in screen_text.text
    assert all(line.startswith("paged:") for line in screen_text.text.splitlines()), last


def test_an_error_is_reported_at_once() -> None:
    screen_text = on_terminal("report", "-i", "/nowhere/perf.data", lines=1, environment={"PAGER": MARK})
    assert (screen_text.status, screen_text.text.count("\n")) == (255, 1)
    assert screen_text.text.startswith("perfpy report: /nowhere/perf.data: ")


@pytest.mark.parametrize("args", [("script", "-i"), ("report", "-i")])
def test_leaving_the_pager_is_no_error_to_talk_about(args: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(20_000).file())
    screen_text = on_terminal(*args, str(path), lines=5, environment={"PAGER": "head -n 2"})
    assert screen_text.status in (0, 141)
    assert len(screen_text.text.splitlines()) == 2


def test_notes_for_a_pager_that_was_left_are_dropped_and_later_ones_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERF_PAGER", "true")
    before = signal.getsignal(signal.SIGINT)
    master, slave = os.openpty()
    try:
        screen = PagedScreen(slave, "script")
        stderr = io.TextIOWrapper(io.BufferedWriter(Notes(screen, slave)), line_buffering=True)
        with pytest.raises(BrokenPipeError):
            screen.write(b"text\n" * 100_000)  # more than a pipe holds
        print("nobody reads this", file=stderr)
        screen.finish()
        print("but this", file=stderr)
        stderr.detach()
        output = b""
        while not output.endswith(b"\r\n"):
            output += os.read(master, 100)
        assert output == b"but this\r\n"
    finally:
        signal.signal(signal.SIGINT, before)
        os.close(slave)
        os.close(master)


def test_ctrl_c_leaves_the_terminal_to_the_pager_until_it_is_left(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(20_000).file())
    interrupts: list[int] = []

    def interrupt(pid: int, text: str) -> bytes | None:
        if "START" in text and not interrupts:
            interrupts.append(pid)
            os.kill(pid, signal.SIGINT)
        return None

    screen_text = on_terminal(
        "script", "-i", str(path), environment={"PAGER": "echo START; sleep 1; cat >/dev/null; echo END"}, watch=interrupt
    )
    assert screen_text == (130, "START\nEND\n")


def test_names_reach_the_pager_as_visible_as_the_terminal(tmp_path: Path) -> None:
    from tests.builders.hostile_names import hostile_recording

    path = tmp_path / "perf.data"
    path.write_bytes(hostile_recording().file())
    screen_text = on_terminal("report", "--stdio", "-i", str(path), lines=2, environment={"PAGER": MARK})
    assert "^[]0;owned^G" in screen_text.text
    assert "\x1b]" not in screen_text.text


def arrived(master: int, size: int) -> bytes:
    """So many bytes of a terminal: one write may arrive in pieces."""
    text = b""
    while len(text) < size and select.select([master], [], [], 30)[0]:
        text += os.read(master, size - len(text))
    return text


def test_a_line_that_writes_over_itself_is_shown_at_once_and_other_notes_follow_the_text() -> None:
    master, slave = os.openpty()
    try:
        screen = PagedScreen(slave, "report")
        notes = Notes(screen, slave)
        screen.write(b"text\n")
        notes.write(b"\r50 %")
        notes.write(b"a note\n")
        assert arrived(master, len(b"\r50 %")) == b"\r50 %"
        screen.finish()
        assert arrived(master, len(b"text\r\na note\r\n")) == b"text\r\na note\r\n"
    finally:
        os.close(slave)
        os.close(master)


# perf's configuration files: the format, the files that are read, and messages about bad ones.


TEXT = """
# a comment
[report]
    percent-limit = 3   ; cut
    children = off
[call-graph] record-mode = dwarf
[alias "My Sub"]
\tvalue = " two  words # kept "
    escaped = a\\tb\\\\c
    long = one \\
two
    Flag
"""


def test_sections_values_quotes_escapes_and_comments() -> None:
    assert dict(perfconfig.parse(TEXT)) == {
        "report.percent-limit": "3",
        "report.children": "off",
        "call-graph.record-mode": "dwarf",
        "alias.My Sub.value": " two  words # kept ",
        "alias.My Sub.escaped": "a\tb\\c",
        "alias.My Sub.long": "one two",
        "alias.My Sub.flag": "true",
    }


@pytest.mark.parametrize(
    "text", ["key = value", "[open\n", '[a]\nx = "open', "[a]\nx = \\q", "[a]\n= 3", "[a]\n9x = 3", "[]\n", "[a]\nx = y\0"]
)
def test_a_bad_line_is_named(text: str) -> None:
    with pytest.raises(UsageError, match=r"here, line \d"):
        list(perfconfig.parse(text, "here"))


def test_typed_settings() -> None:
    config = perfconfig.Config({"a.yes": "on", "a.no": "False", "a.one": "1", "a.size": "16k", "a.bad": "many"})
    assert config.flag("a.yes", False)
    assert not config.flag("a.no", True)
    assert config.flag("a.one", False)
    assert config.flag("a.none", True)
    assert config.number("a.size", 0) == 16384
    assert config.number("a.none", 2.5) == 2.5
    with pytest.raises(UsageError, match="many"):
        config.flag("a.bad", False)
    with pytest.raises(UsageError, match="many"):
        config.number("a.bad", 0)


def test_later_files_win_and_perf_config_stands_alone(tmp_path: Path) -> None:
    home = tmp_path / ".perfconfig"
    home.write_text("[report]\nchildren = false\n")
    other = tmp_path / "other"
    other.write_text("[report]\ngroup = true\n")
    assert perfconfig.load_config({"HOME": str(tmp_path), "PERF_CONFIG_NOSYSTEM": "1"}) == {"report.children": "false"}
    assert perfconfig.load_config({"HOME": str(tmp_path), "PERF_CONFIG": str(other)}) == {"report.group": "true"}
    assert perfconfig.load_config({"HOME": str(tmp_path), "PERF_CONFIG": "/dev/null"}) == {}
    assert perfconfig.files({"HOME": "/home/me"}) == ["/etc/perfconfig", "/home/me/.perfconfig"]
    assert perfconfig.load_config({"PERF_CONFIG": str(tmp_path / "missing")}) == {}


@pytest.mark.parametrize("text", ["inf", "nan", "1e999", "1e308g"])
def test_numbers_are_finite(text: str) -> None:
    with pytest.raises(UsageError, match="is not a number"):
        perfconfig.Config({"call-graph.print-limit": text}).number("call-graph.print-limit", 0)


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    (tmp_path / ".perfconfig").write_text("[buildid]\ndir = /chosen\n")
    return {"HOME": str(tmp_path), "PERF_CONFIG_NOSYSTEM": "1"}


def test_a_configuration_of_another_user_is_ignored_with_a_line(
    home: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert perfconfig.load_config(home) == {"buildid.dir": "/chosen"}
    monkeypatch.setattr(perfconfig, "trusted_file_owners", lambda: (12345,))
    assert perfconfig.load_config(home) == {}
    assert re.fullmatch(r"Warning: .*/\.perfconfig: belongs to user \d+; ignoring this configuration file\n", capsys.readouterr().err)
    assert perfconfig.load_config({"PERF_CONFIG": home["HOME"] + "/.perfconfig"}) == {"buildid.dir": "/chosen"}  # it was named


@pytest.mark.parametrize("kind", ["fifo", "folder"])
def test_an_unreadable_configuration_is_ignored_with_a_line(home: dict[str, str], kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(home["HOME"]) / ".perfconfig"
    path.unlink()
    os.mkfifo(path) if kind == "fifo" else path.mkdir()
    assert perfconfig.load_config(home) == {}
    assert capsys.readouterr().err.count("not a regular file") == 1


def test_the_empty_device_is_an_empty_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    assert perfconfig.load_config({"PERF_CONFIG": "/dev/null"}) == {}
    assert capsys.readouterr().err == ""
