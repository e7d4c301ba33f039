"""Numbers of thousands of digits in names and texts, which int() refuses to read, are no numbers to perfpy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfpy import cli
from perfpy.abi import records
from perfpy.abi.flags import SampleType
from perfpy.errors import UsageError
from perfpy.events.vendor import _number, entries_of
from perfpy.perfdata.features import PmuCaps
from perfpy.probing.requests import fetch_operand
from perfpy.symbols.dso import perf_map_pid
from perfpy.untrusted.paths import split_process
from perfpy.views.script.code import _widths
from tests.builders.perfdata import PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

DIGITS = "9" * 5000
NAMES = [f"/tmp/perf-{DIGITS}.map", f"/proc/{DIGITS}/root/file", f"py::work:/app.py:{DIGITS}", f"jitted-{DIGITS}-1.so", f"//{DIGITS}"]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
@pytest.mark.parametrize("line", ["report --stdio --sort dso,sym,srcline", "report --verdict", "script -F ip,sym,dso,srcline"])
def test_files_have_any_name(line: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    attr = usual_attr(SampleType.IP | SampleType.TID | SampleType.TIME | SampleType.PERIOD)
    built = PerfDataBuilder(attrs=[attr]).record(records.Mmap(2, 7, 7, 0x1000, 0x1000, 0, name))
    for number in range(20):
        built.sample(ip=0x1010, pid=7, tid=7, time=number, period=1, misc=2)
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    assert cli.run([*line.split(), "-i", str(path)]) == 0
    assert "internal error" not in capsys.readouterr().err


def test_paths_name_no_process() -> None:
    assert perf_map_pid(f"/tmp/perf-{DIGITS}.map") is None
    assert split_process(f"/proc/{DIGITS}/root/file") is None
    assert perf_map_pid("/tmp/perf-4194304.map") == 4194304


@pytest.mark.parametrize("operand", [f"{DIGITS}@%rax", f"4@{DIGITS}(%rax)", f"4@[x0, {DIGITS}]"])
def test_operands_of_markers_are_none_that_the_kernel_reads(operand: str) -> None:
    assert fetch_operand(operand) == ""


@pytest.mark.parametrize("width", [DIGITS, "\u00b2", ""])
def test_widths_of_branch_counters_are_left_out(width: str) -> None:
    assert list(_widths({"cpu_pmu_caps": (("branch_counter_width", width),)})) == []
    assert list(_widths({"pmu_caps": (PmuCaps("cpu", (("branch_counter_width", "4"),)),)})) == [4]


def test_numbers_in_event_files_are_zero() -> None:
    assert [_number(text) for text in (DIGITS, "\u00b2", "010", "0x1F", "7,8")] == [0, 0, 10, 31, 7]


@pytest.mark.parametrize("text", [f"[{DIGITS}]", "[" * 100_000])
def test_event_files_with_numbers_or_nests_that_python_refuses_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="cannot read the event file"):
        entries_of(text.encode(), "events.json")
