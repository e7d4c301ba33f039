"""Values that nobody means, but that somebody types: an answer or one line, never an internal error."""

from __future__ import annotations

import pytest

from perfpy import cli
from perfpy.abi.flags import SampleType
from tests.builders.perfdata import USUAL, simple_recording, usual_attr

HUGE = "9" * 20
LINES = [
    ("report", f"--time={HUGE},", 0),
    ("report", f"--call-graph={HUGE}", 0),
    ("report", f"--column-widths={HUGE}", 0),
    ("report", "--fields=,", 129),
    ("report", "--max-stack=-1", 129),
    ("report", "--sort=", 0),
    ("report", "--field-separator=.", 129),
    ("report", "--group-sort-idx=1", 129),
    ("report", f"--time={HUGE}", 129),
    ("report", f"--percent-limit={HUGE}", 0),
    ("script", f"--time={HUGE},", 0),
    ("script", "--max-stack=-1", 129),
    ("diff", f"--time={HUGE},", 0),
    ("diff", "--field-separator=.", 129),
]


@pytest.mark.parametrize(("command", "option", "status"), LINES)
def test_extreme_values(command, option, status, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERF_CONFIG", "/dev/null")
    for name in ("perf.data", "perf.data.old"):
        (tmp_path / name).write_bytes(simple_recording(attrs=[usual_attr(USUAL | SampleType.CALLCHAIN)]).file())
    assert cli.run([command, option, "perf.data.old", "perf.data"] if command == "diff" else [command, option, "-i", "perf.data"]) == status
    assert "internal error" not in capsys.readouterr().err
