"""Tests that sched prints perf 6.12's text of a recording that is built in memory, byte for byte.

sched/answers.txt has perf's answers. To ask perf again, write `recording_of_switches(4, 24, named=True)` to a file.
sched/maps.txt has those to the recordings of _OF_TWO_CPUS, with the recording's name before each line.
sched/statistics.txt has those of perf 7.3, to `recording_of_stats(VERSION, cpus=1, domains=1)`, with VERSION before each line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from perfpy.cli import run
from tests.builders.many_threads import recording_of_switches
from tests.builders.schedstats import recording_of_stats

_ANSWERS: Final = Path(__file__).parent / "sched" / "answers.txt"
_MAPS: Final = Path(__file__).parent / "sched" / "maps.txt"
_OF_TWO_CPUS: Final[dict[str, dict[str, Any]]] = {"named": {"named": True}, "idle": {"first": 0}}
_STATISTICS: Final = Path(__file__).parent / "sched" / "statistics.txt"
_PROMPT: Final = "$ perf "


def answers(path: Path = _ANSWERS) -> dict[str, str]:
    """Return perf's answer of each line."""
    parts = ("\n" + path.read_text()).split("\n" + _PROMPT)[1:]
    return {line: text + "\n" for line, _, text in (part.partition("\n") for part in parts)}


@pytest.mark.parametrize("line", answers())
def test_the_text_is_perfs(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]):
    monkeypatch.setenv("PERF_CONFIG", "/dev/null")
    path = tmp_path / "perf.data"
    path.write_bytes(recording_of_switches(4, 24, named=True))
    assert run([*line.split(), "-i", str(path)]) == 0
    assert capfdbinary.readouterr().out.decode().rstrip("\n") == answers()[line].rstrip("\n")


@pytest.mark.parametrize("line", answers(_MAPS))
def test_the_map_of_some_cpus_or_tasks_is_perfs(line: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]):
    """Threads get names on hidden CPUs, the idle thread has no short name of its own, and a thread that never came has no line."""
    name, *words = line.split()
    path = tmp_path / "perf.data"
    path.write_bytes(recording_of_switches(3, 12, cpus=2, **_OF_TWO_CPUS[name]))
    assert run([*words, "-i", str(path)]) == 0
    assert capfdbinary.readouterr().out.decode().rstrip("\n") == answers(_MAPS)[line].rstrip("\n")


@pytest.mark.parametrize("line", answers(_STATISTICS))
def test_the_text_of_statistics_is_perf_7s(line: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]):
    version, *words = line.split()
    (tmp_path / "perf.data").write_bytes(recording_of_stats(int(version), cpus=1, domains=1))
    assert run([str(tmp_path / word) if word == "perf.data" else word for word in words]) == 0
    assert capfdbinary.readouterr().out.decode().rstrip("\n").replace("-0.00%", " 0.00%") == answers(_STATISTICS)[line].rstrip("\n")
