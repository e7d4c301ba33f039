"""What a person types and completes with Tab, in real shells on a terminal of ours, arrives whole and is nothing but words."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.builders.perfdata import simple_recording

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT = Path(__file__).resolve().parents[1]
DEADLINE = 60  # seconds; a shell answers in one
ZSH_START = f"""autoload -Uz compinit; compinit -u -D
_perfpy_file() {{ . {CHECKOUT}/completions/perfpy.zsh }}; compdef _perfpy_file perfpy"""
SHELLS = {
    "bash": (
        ["bash", "--norc", "--noprofile", "-i"],
        f"PS1=; source {CHECKOUT}/completions/perfpy.bash; bind 'set enable-bracketed-paste off'",
    ),
    "zsh": (
        ["zsh", "-f", "-i"],
        f"PS1=; unsetopt zle_bracketed_paste; {ZSH_START}",
    ),
    "fish": (
        ["fish", "--no-config", "-i"],
        f"function fish_prompt; end; set -g fish_autosuggestion_enabled 0; source {CHECKOUT}/completions/perfpy.fish",
    ),
}
#: in the place of perfpy: answers the completion's questions, and otherwise shows its arguments
STAND_IN = f"""#!/bin/sh
if [ "$1" = complete ]; then exec {sys.executable} -m perfpy "$@"; fi
printf '{{%s}}' "$@"; printf '{{end}}\\n'
"""


class Terminal:
    """A shell at a terminal, in a folder of its own."""

    def __init__(self, shell: str, folder: Path) -> None:
        command, preparation = SHELLS[shell]
        environment = os.environ | {
            "PATH": f"{folder}/bin:{os.environ['PATH']}",
            "HOME": str(folder),
            "PYTHONPATH": str(CHECKOUT),
            "TERM": "dumb" if shell != "fish" else "xterm",
            "INPUTRC": "/dev/null",
            "HISTFILE": "/dev/null",
        }
        self.pid, self._fd = pty.fork()
        if not self.pid:
            os.chdir(folder)
            os.execvpe(command[0], command, environment)
        self._seen = ""
        self.say(f"{preparation}; perfpy ready\n")
        self.until("{ready}{end}")

    def say(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def until(self, pattern: str) -> str:
        """What the terminal shows, up to and with a text."""
        deadline = time.monotonic() + DEADLINE
        while pattern not in self._seen:
            ready, _, _ = select.select([self._fd], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"no {pattern!r} in {self._seen!r}"
            self._seen += os.read(self._fd, 65536).decode(errors="replace")
            if "\x1b[c" in self._seen or "\x1b[0c" in self._seen:  # fish asks what terminal this is
                self.say("\x1b[?6c")
                self._seen = self._seen.replace("\x1b[c", "").replace("\x1b[0c", "")
        before, _, self._seen = self._seen.partition(pattern)
        return before

    def words(self, line: str) -> list[str]:
        """The arguments that perfpy gets when a line is typed: a tab in it completes."""
        self.say(line + "\n")
        screen = self.until("{end}")
        arguments = re.search(r"({[^{}]*})*$", screen)  # before them may be a list of processes, with braces in their names
        return re.findall(r"{([^{}]*)}", arguments[0] if arguments else "")

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._fd)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completions")
    (folder / "bin").mkdir()
    (folder / "bin/perfpy").write_text(STAND_IN)
    (folder / "bin/perfpy").chmod(0o755)
    recording = simple_recording(1).file()
    (folder / "first.data").write_bytes(recording)
    (folder / "first.txt").write_text("no recording")
    (folder / "odd $(touch owned);'`.data").write_bytes(recording)
    (folder / "wicked\x1b]0;x\x07.data").write_bytes(recording)
    return folder


@pytest.fixture(scope="module", params=SHELLS)
def terminal(request: pytest.FixtureRequest, folder: Path) -> Iterator[Terminal]:
    if shutil.which(request.param) is None:
        pytest.skip(f"there is no {request.param} here")
    terminal = Terminal(request.param, folder)
    yield terminal
    terminal.close()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("perfpy evl\t", ["evlist"]),
        ("perfpy stat --interval-cl\t", ["stat", "--interval-clear"]),
        ("perfpy stat -e major-f\t", ["stat", "-e", "major-faults"]),
        ("perfpy record -e cs,task-c\t", ["record", "-e", "cs,task-clock"]),
        ("perfpy record --event=major-f\t", ["record", "--event=major-faults"]),
        ("perfpy record --call-graph dw\t", ["record", "--call-graph", "dwarf"]),
        ("perfpy record -k monotonic_\t", ["record", "-k", "monotonic_raw"]),
        ("perfpy record -j any_c\t", ["record", "-j", "any_call"]),
        ("perfpy report -s comm,cgroup_\t", ["report", "-s", "comm,cgroup_id"]),
        ("perfpy report --sort=pid,symof\t", ["report", "--sort=pid,symoff"]),
        ("perfpy report --percentage rel\t", ["report", "--percentage", "relative"]),
        ("perfpy script -F comm,brstacko\t", ["script", "-F", "comm,brstackoff"]),
        ("perfpy diff -c delta-\t", ["diff", "-c", "delta-abs"]),
        ("perfpy report -i fir\t", ["report", "-i", "first.data"]),
        ("perfpy report --input=fir\t", ["report", "--input=first.data"]),
        ("perfpy diff fir\t", ["diff", "first.data"]),
        ("perfpy list metricg\t", ["list", "metricgroup"]),
        ("perfpy help buildid-c\t", ["help", "buildid-cache"]),
        ("perfpy stat mkfif\t", ["stat", "mkfifo"]),
    ],
)
def test_a_word_is_completed(terminal: Terminal, line: str, words: list[str]) -> None:
    assert terminal.words(line) == words


@pytest.mark.system_wide
def test_a_tracepoint_is_completed_behind_its_colon(terminal: Terminal) -> None:
    assert terminal.words("perfpy record -e cs,sched:sched_process_fo\t") == ["record", "-e", "cs,sched:sched_process_fork"]


def test_a_process_is_completed(terminal: Terminal) -> None:
    number = str(terminal.pid)
    assert terminal.words(f"perfpy stat -p {number[:-1]}\t{number[-1]}")[:2] == ["stat", "-p"]
    assert terminal.words(f"perfpy stat -p 1,{number}\t") == ["stat", "-p", f"1,{number}"]


def test_the_name_of_a_file_is_one_word_and_runs_nothing(terminal: Terminal, folder: Path) -> None:
    assert terminal.words("perfpy report -i od\t") == ["report", "-i", "odd $(touch owned);'`.data"]
    assert not (folder / "owned").exists()


def answers(kind: str, start: str = "", folder: Path = CHECKOUT) -> list[str]:
    """What perfpy tells a shell."""
    command = [sys.executable, "-m", "perfpy", "complete", kind, start]
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT)}
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder, env=environment).stdout.splitlines()


def test_only_recordings_and_folders_are_offered(folder: Path) -> None:
    assert answers("recordings", folder=folder) == ["bin/", "first.data", "odd $(touch owned);'`.data"]


def test_processes_are_distinguished_by_their_command_lines() -> None:
    assert any(line.startswith(f"{os.getpid()}\t") and len(line) < 80 for line in answers("pids"))


def test_completions_of_unreadable_sources_are_empty() -> None:
    assert answers("nonsense") == answers("recordings", "/nowhere/") == []


def test_no_help_shows_the_command_of_the_shells() -> None:
    output = subprocess.run([sys.executable, "-m", "perfpy", "--help"], capture_output=True, text=True, check=True, cwd=CHECKOUT).stdout
    assert "complete" not in output


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_descriptions_keep_their_quotes_and_colons(shell: str, folder: Path):
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    terminal = Terminal(shell, folder)
    try:
        terminal.say("stty columns 200; perfpy wide\n")
        terminal.until("{wide}{end}")
        terminal.say("perfpy stat --s\t\t")
        terminal.until("print perf's plain text, also on a terminal")
        terminal.until("with -I: print the totals")
    finally:
        terminal.close()
