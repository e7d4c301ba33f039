"""The recordings of the growth benchmark hold what they are said to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfpy import cli
from tests.builders.growing import GROWING, command_line

if TYPE_CHECKING:
    from pathlib import Path

#: name -> how many rows a report of 30 of them has
ROWS = {"mappings": 30, "nested mappings": 10, "symbols": 30, "CPUs": 30, "mem": 1}
#: name -> what the output has of the last of 30 things, for commands without a table of percentages
LAST = {
    "verdict": "", "diff: symbols": "function_29", "sched latency": "t29:", "sched timehist": "t29[129]", "sched map": "t29:129",
    "run queue": "run queue         30", "why: threads": "t0 (100)", "why: switches": "(10", "timechart": "Written",
    "trace: calls": "t29/129", "trace -s": "t29 (129)", "lock contention": "80000740", "kwork report": "0x101d",
    "kwork timehist": "0x101d", "kmem": "0x101d", "c2c": "0x600740", "export": "wrote", "script": "growing",
}  # fmt: skip


@pytest.mark.parametrize("name", GROWING)
def test_each_grows(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERF_CONFIG", "/dev/null")
    build = GROWING[name][0]
    for path, data in build(30).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    assert cli.run(command_line(name, str(tmp_path))) == 0
    out, err = capfd.readouterr()
    if name in LAST:
        assert LAST[name] in out + err
    elif name.startswith("page"):
        assert not err or "wrote /dev/null" in err
    else:
        rows = [line for line in out.splitlines() if line.strip() and not line.startswith("#") and "%" in line]
        assert len(rows) >= ROWS.get(name, 1)
    assert ("inlined_29" in out) == (name == "inline depth")
