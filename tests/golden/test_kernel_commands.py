"""Tests that kwork, kmem and lock print perf 6.12's text of recordings that are built in memory, byte for byte.

kernel/answers.txt has perf's answers. To ask perf again: `python -m tests.golden.test_kernel_commands`.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from perfpy.cli import run
from tests.builders.kernel_events import recording_of_allocations, recording_of_locks, recording_of_work

_ANSWERS: Final = Path(__file__).parent / "kernel" / "answers.txt"
_PROMPT: Final = "$ perf "
_RECORDINGS: Final = {"kwork": cache(recording_of_work), "kmem": cache(recording_of_allocations), "lock": cache(recording_of_locks)}


def answers() -> dict[str, str]:
    """Return perf's answer of each line."""
    parts = ("\n" + _ANSWERS.read_text()).split("\n" + _PROMPT)[1:]
    return {line: text + "\n" for line, _, text in (part.partition("\n") for part in parts)}


def words_of(line: str) -> list[str]:
    """Return the words of a line with the input; perf kmem reads options before the action only."""
    first, *others = line.split()
    return [first, "-i", "perf.data", *others] if first == "kmem" else [first, *others, "-i", "perf.data"]


@pytest.mark.parametrize("line", answers())
def test_the_text_is_perfs(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]):
    monkeypatch.setenv("PERF_CONFIG", "/dev/null")
    monkeypatch.chdir(tmp_path)
    Path("perf.data").write_bytes(_RECORDINGS[line.split(maxsplit=1)[0]]())
    run(words_of(line))
    output = capfdbinary.readouterr()
    assert (output.out + output.err).decode().rstrip("\n") == answers()[line].rstrip("\n")


def ask_perf() -> None:
    """Write perf's answers of all lines."""
    texts = []
    with tempfile.TemporaryDirectory() as folder:
        for line in answers():
            (Path(folder) / "perf.data").write_bytes(_RECORDINGS[line.split()[0]]())
            process = subprocess.run(
                ["perf", *words_of(line)], cwd=folder, capture_output=True, check=False, env={**os.environ, "PERF_CONFIG": "/dev/null"}
            )
            texts.append(f"{_PROMPT}{line}\n{(process.stdout + process.stderr).decode()}")
    _ANSWERS.write_text("".join(texts))


if __name__ == "__main__":
    ask_perf()
