"""Tests that why prints its whole text of a recording that is built in memory: four threads that wake each other in turns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from perfpy.cli import run
from tests.builders.many_threads import recording_of_switches

if TYPE_CHECKING:
    import pytest

_TEXT: Final = Path(__file__).parent / "why" / "four_threads.txt"


def test_verdict_path_threads_and_waits(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "perf.data"
    path.write_bytes(recording_of_switches(4, 24, named=True, one_process=True))
    assert run(["why", "-i", str(path)]) == 0
    assert capsys.readouterr().out == _TEXT.read_text()
