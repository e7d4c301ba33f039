"""Names of threads cannot control the terminal of sched and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.builders.terminals import on_terminal
from tests.builders.traced import traced_recording

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("args", [("sched", "timehist", "-n"), ("sched", "map", "--compact"), ("sched", "latency", "-p"), ("why",)])
def test_escape_sequences_are_made_visible_on_a_terminal(args: tuple[str, ...], tmp_path: Path):
    path = tmp_path / "perf.data"
    path.write_bytes(traced_recording(40, odd_name=b"\x1b]0;x\x07odd"))
    terminal = on_terminal("--no-pager", *args, "-i", str(path), columns=200)
    assert "\x1b]0;" not in terminal.text
    assert terminal.text.strip()
    assert "Traceback" not in terminal.text
    if "timehist" in args:
        assert "^[]0;x^Godd" in terminal.text
