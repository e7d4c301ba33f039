"""Tests that commands show on a terminal, 80 and 120 columns wide, what was looked at.

The recordings are stored or built, so the screens need no kernel. `PERFPY_WRITE_SCREENS=1 pytest tests/golden/test_command_screens.py`
writes screens/commands-80.txt and screens/commands-120.txt again; look at the differences before they are committed.
"""

from __future__ import annotations

import lzma
import os
import re
import shutil
import sys
import threading
import tty
from pathlib import Path
from typing import Final

import pytest

from perfpy.cli import run
from tests.builders.guest_exits import random_exits
from tests.builders.kernel_events import recording_of_allocations, recording_of_locks, recording_of_work
from tests.builders.many_threads import recording_of_switches
from tests.builders.own_corpus import RECORDINGS

SCREENS: Final = Path(__file__).with_name("screens")
WIDTHS: Final = (80, 120)
_PROMPT: Final = "$ perfpy"
_ESCAPE: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

STORED: Final = ("chains-user", "chains-dwarf", "wide", "context-switches", "page-faults", "stat", "syscalls", "made-memory")
LINES: Final = (
    "",
    "report -i chains-user.data --symfs files",
    "report -i chains-user.data --symfs files --children",
    "report -i wide.data --symfs files --sort comm",
    "report -i page-faults.data --symfs files -g caller",
    "annotate -i chains-user.data --symfs files spin",
    "diff chains-user.data chains-dwarf.data --symfs files",
    "script -i context-switches.data --symfs files",
    "evlist -i stat.data",
    "buildid-list -i chains-user.data",
    "stat report -i stat.data",
    "sched latency -i switches.data",
    "sched timehist -s -i switches.data",
    "sched map -i switches.data",
    "why -i switches.data",
    "lock report -i locks.data",
    "lock contention -i locks.data",
    "kwork report -i work.data",
    "kwork latency -i work.data",
    "kmem -i allocations.data stat",
    "kmem -i allocations.data --caller stat",
    "trace -i syscalls.data",
    "trace -i syscalls.data -s",
    "mem report -i made-memory.data",
    "latency --of runqueue -i switches.data",
    "kvm stat report -i exits.data",
    "timechart -i switches.data -o chart.svg",
    "annotate -i chains-user.data --symfs files --by-line",
    "report -h sort",
    "report -i missing.data",
    "report --srot comm",
    "reprot",
    "files",
    "stat.data",
    "./missing",
)


class Terminal:
    """A terminal, whose text a thread collects.

    Attributes:
        stream: writes to the terminal.
    """

    def __init__(self) -> None:
        self._reading, writing = os.openpty()
        tty.setraw(writing)
        self.stream = open(writing, "w", encoding="utf-8")  # noqa: SIM115  # closed by text()
        self._pieces: list[bytes] = []
        self._thread = threading.Thread(target=self._collect)
        self._thread.start()

    def _collect(self) -> None:
        try:
            while piece := os.read(self._reading, 1 << 16):
                self._pieces.append(piece)
        except OSError:  # the other end is closed
            pass

    def text(self) -> str:
        """Close the terminal, and return its text without styles; of lines written over, the last."""
        self.stream.close()
        self._thread.join()
        os.close(self._reading)
        lines = _ESCAPE.sub("", b"".join(self._pieces).decode()).split("\n")
        return "\n".join(line.rpartition("\r")[2].rstrip() for line in lines).strip("\n")


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the recordings and their files."""
    folder = tmp_path_factory.mktemp("screens")
    for name in STORED:
        (folder / f"{name}.data").write_bytes(lzma.decompress((RECORDINGS / f"{name}.data.xz").read_bytes()))
    shutil.copytree(RECORDINGS.parent / "symfs", folder / "files")
    (folder / "switches.data").write_bytes(recording_of_switches(4, 24, named=True, one_process=True))
    (folder / "locks.data").write_bytes(recording_of_locks())
    (folder / "work.data").write_bytes(recording_of_work())
    (folder / "allocations.data").write_bytes(recording_of_allocations())
    (folder / "exits.data").write_bytes(random_exits(1, 60))
    return folder


def screen_of(line: str, width: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what a person sees after a command line."""
    terminal = Terminal()
    changes = {
        "COLUMNS": str(width),
        "LINES": "24",
        "TERM": "xterm",
        "HOME": str(folder),
        "PERF_CONFIG": "/dev/null",
        "PERFPY_NO_CACHE": "1",
    }
    with monkeypatch.context() as patch:
        patch.chdir(folder)
        for name, value in changes.items():
            patch.setenv(name, value)
        patch.setattr(sys, "stdout", terminal.stream)
        patch.setattr(sys, "stderr", terminal.stream)
        run(["--no-pager", *line.split()] if line else [])
    return terminal.text()


@pytest.mark.skipif(shutil.which("objdump") is None, reason="annotate shows objdump's text: install binutils")
@pytest.mark.parametrize("width", WIDTHS)
def test_the_screens_are_those_that_were_looked_at(width: int, recordings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = SCREENS / f"commands-{width}.txt"
    screens = {line: screen_of(line, width, recordings, monkeypatch) for line in LINES}
    text = "".join(f"{_PROMPT} {line}".rstrip() + f"\n{screen}\n\n" for line, screen in screens.items())
    if os.environ.get("PERFPY_WRITE_SCREENS"):
        path.write_text(text)
    assert text == path.read_text()
