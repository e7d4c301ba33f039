"""Names from recordings reach a terminal as text, and lines as parts of lines."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import termios
from typing import TYPE_CHECKING

import pytest

from tests.builders.hostile_names import COMMANDS, FORGED, hostile, hostile_program, hostile_recording

if TYPE_CHECKING:
    from pathlib import Path

#: what we send to a terminal ourselves: colours (perf's, those of rich's styles), and the line of progress on a slow machine
OURS = re.compile(r"\x1b\[(0|1|2|3|31|32|33|1;31|1;32|2;3[0-9])?m|\r[a-z ]+: +\d+%|\r +\r")
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")

#: each command, told where standard output leads; {} is the recording
COMMAND_LINES = [
    "report -i {}",
    "report --no-children -g -s comm,dso,symbol -i {}",
    "report --stdio -i {}",
    "report --stdio -g caller -s comm,dso,sym,cgroup -i {}",
    "report --stdio --hierarchy -s comm,dso,sym -i {}",
    "report --stdio -s comm,trace -i {}",
    "report --header-only -I -i {}",
    "report --stdio --header -i {}",
    "report -D -i {}",
    "report --tasks -i {}",
    "report --mmaps -i {}",
    "report --stats -i {}",
    "report --json=- -i {}",
    "report --folded=- -i {}",
    "report --speedscope=- -i {}",
    "report --firefox=- -i {}",
    "report --pprof=- -i {}",
    "report --flamegraph=- -i {}",
    "script -i {}",
    "script -F comm,tid,event,ip,sym,dso,trace -i {}",
    "script --header -i {}",
    "script --show-task-events --show-mmap-events --show-cgroup-events --show-bpf-events -i {}",
    "script -D -i {}",
    "evlist -i {}",
    "evlist -v -i {}",
    "evlist -F --trace-fields -i {}",
    "buildid-list -i {}",
    "diff {} {}",
    "diff --json=- {} {}",
]
#: error lines
REFUSED = [
    ["report", "-i", hostile("missing")],
    ["script", "-F", hostile("field"), "-i", "{}"],
    ["report", "--sort", hostile("key"), "-i", "{}"],
    ["report", "-i", "{}", hostile("--option")],
    [hostile("command")],
    ["evlist", "-i", hostile("cut")],
    ["report", "--stdio", "-i", hostile("cut")],
    ["stat", "-e", hostile("event"), "true"],
    ["report", "--json", hostile("/nowhere/file"), "-i", "{}"],
]


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    recording = hostile_recording().file()
    (folder / "perf.data").write_bytes(recording)
    os.makedirs(folder / "root")
    (folder / "root" / hostile("file")).write_bytes(hostile_program())
    (folder / hostile("cut")).write_bytes(recording[: len(recording) // 2])
    return folder


def on_terminal(arguments: list[str], folder: Path) -> bytes:
    """Everything that a command sends to the terminal that it runs on."""
    ours, its = pty.openpty()
    modes = termios.tcgetattr(its)
    modes[1] &= ~termios.OPOST  # line feeds as they come
    termios.tcsetattr(its, termios.TCSANOW, modes)
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "400", "HOME": str(folder), "PERF_CONFIG": "/dev/null", "PYTHONUTF8": "1"}
    environment["PERF_PAGER"] = "cat"  # nobody is there to leave another
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "perfpy", *arguments]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=its, stderr=its, cwd=folder, env=environment):
        os.close(its)
        pieces = []
        while True:
            try:
                piece = os.read(ours, 1 << 16)
            except OSError:  # how a terminal ends
                break
            pieces.append(piece)
    os.close(ours)
    return b"".join(pieces)


def line_of(text: str) -> list[str]:
    words = text.replace("{}", "perf.data").split()
    with_symbols = words[0] in ("report", "script", "diff") and "--header-only" not in words
    return [*words, "--symfs", "root"] if with_symbols else words


def obeyed(output: bytes) -> list[str]:
    """What of the output a terminal would obey, or not show."""
    text = output.decode()  # every byte is UTF-8
    return [result[0] for result in UNSEEN.finditer(OURS.sub("", text))]


@pytest.mark.parametrize("line", COMMAND_LINES)
@pytest.mark.slow
def test_texts_of_a_recording_do_not_control_the_terminal(line: str, room: Path) -> None:
    output = on_terminal(line_of(line), room)
    assert not obeyed(output)
    assert b"\x1b[8m" not in output
    assert not [line for line in output.splitlines() if line.lstrip().startswith(FORGED.encode())]
    assert b"Traceback" not in output
    assert ("script -i" not in line and "sym" not in line) or b"hot^[]0;" in output
    if "--stats" not in line and "--pprof" not in line and "--flamegraph" not in line:
        assert b"owned" in output  # it is shown, only not obeyed


@pytest.mark.parametrize("words", REFUSED, ids=range(len(REFUSED)))
def test_a_terminal_obeys_nothing_that_an_error_line_quotes(words: list[str], room: Path) -> None:
    output = on_terminal([word.replace("{}", "perf.data") for word in words], room)
    assert output
    assert not obeyed(output)
    assert b"Traceback" not in output
    assert not [line for line in output.splitlines() if line.startswith(FORGED.encode())]


@pytest.mark.parametrize("line", ["script -i {}", "report --folded=- -i {}", "report -D -i {}", "evlist -i {}"])
def test_a_pipe_has_the_bytes_but_no_forged_lines(line: str, room: Path) -> None:
    command = [sys.executable, "-m", "perfpy", *line_of(line)]
    output = subprocess.run(command, capture_output=True, cwd=room, check=True, timeout=60).stdout
    result = COMMANDS.rstrip("\r").replace(";", ":" if "--folded" in line else ";")  # which parts folded frames
    assert result.encode("utf-8", "surrogateescape") + b"^M^J" in output
    assert not [line for line in output.splitlines() if line.lstrip().startswith(FORGED.encode())]


def test_a_report_in_a_pipe_has_perfs_bytes(room: Path) -> None:
    command = [sys.executable, "-m", "perfpy", *line_of("report --stdio -i {}")]
    output = subprocess.run(command, capture_output=True, cwd=room, check=True, timeout=60).stdout
    assert COMMANDS.encode("utf-8", "surrogateescape") + b"\n" in output


def test_colours_are_ours(room: Path) -> None:
    """The door does not take colours away: perf's red of large shares, with names in the same row."""
    output = on_terminal(line_of("report --stdio -s comm -i {}"), room)
    assert re.search(rb"\x1b\[31m +\d+\.\d\d%\x1b\[m +.*comm\^\[\]0;owned\^G", output)
    piped = subprocess.run(
        [sys.executable, "-m", "perfpy", *line_of("report --stdio --stdio-color always -s comm -i {}")],
        capture_output=True,
        cwd=room,
        check=True,
        timeout=60,
    ).stdout
    assert re.search(rb"\x1b\[31m +\d+\.\d\d%\x1b\[m ", piped)
