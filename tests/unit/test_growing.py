"""The recordings of the growth benchmark hold what they are said to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfpy import cli
from tests.builders.growing import GROWING

if TYPE_CHECKING:
    from pathlib import Path

#: name -> how many rows a report of 30 of them has
ROWS = {"mappings": 30, "nested mappings": 10, "symbols": 30, "CPUs": 30}


@pytest.mark.parametrize("name", GROWING)
def test_each_grows(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERF_CONFIG", "/dev/null")
    build, _, options = GROWING[name]
    for path, data in build(30).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    assert cli.run(["report", "--stdio", "-i", str(tmp_path / "perf.data"), "--symfs", str(tmp_path), *options]) == 0
    out = capfd.readouterr().out
    rows = [line for line in out.splitlines() if line.strip() and not line.startswith("#") and "%" in line]
    assert len(rows) >= ROWS.get(name, 1)
    assert ("inlined_29" in out) == (name == "inline depth")
