"""Tests that sched prints perf 6.12's text of a recording that is built in memory, byte for byte.

sched/answers.txt has perf's answers. To ask perf again, write `recording_of_switches(4, 24, named=True)` to a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from perfpy.cli import run
from tests.builders.many_threads import recording_of_switches

_ANSWERS: Final = Path(__file__).parent / "sched" / "answers.txt"
_PROMPT: Final = "$ perf "


def answers() -> dict[str, str]:
    """Return perf's answer of each line."""
    parts = ("\n" + _ANSWERS.read_text()).split("\n" + _PROMPT)[1:]
    return {line: text + "\n" for line, _, text in (part.partition("\n") for part in parts)}


@pytest.mark.parametrize("line", answers())
def test_the_text_is_perfs(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]):
    monkeypatch.setenv("PERF_CONFIG", "/dev/null")
    path = tmp_path / "perf.data"
    path.write_bytes(recording_of_switches(4, 24, named=True))
    assert run([*line.split(), "-i", str(path)]) == 0
    assert capfdbinary.readouterr().out.decode().rstrip("\n") == answers()[line].rstrip("\n")
