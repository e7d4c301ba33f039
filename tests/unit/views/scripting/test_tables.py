"""Tests of scripts that fill tables: each row is written once, before the first row that refers to it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from perfpy.abi.flags import SampleType
from perfpy.abi.records import Comm, Fork, Mmap2, SampleId, Switch, SwitchCpuWide
from perfpy.views.scripting.tables import branch_types
from tests.builders.elf import Elf
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Tables = dict[str, list[tuple[Any, ...]]]

SCRIPT = """
import sys
perf_db_export_mode = True
perf_db_export_callchains = True
def process_event(sample): print("process_event",)
for table in "evsel machine thread comm comm_thread dso symbol call_path sample context_switch branch_type".split():
    globals()[table + "_table"] = lambda *values, table=table: print((table, values))
"""
OUT, PREEMPTED = 1 << 13, 1 << 14
EXEC = 1 << 13


@pytest.fixture
def tables(tmp_path: Path) -> Callable[[PerfDataBuilder], Tables]:
    """Return a function that collects the rows of a script, by table, and the order of the tables."""
    elf = Elf().text(0x1000, size=0x1000).segment(0x1000, 0x1000, 0x1000)
    (tmp_path / "app").write_bytes(elf.symbol("leaf", 0x1000, 0x10).symbol("main", 0x1010, 0x20).build())
    (tmp_path / "script.py").write_text(SCRIPT)

    def run_it(built: PerfDataBuilder) -> Tables:
        data = tmp_path / "perf.data"
        data.write_bytes(built.file())
        options = ["-f", "--symfs", str(tmp_path), "-i", str(data), "-s", str(tmp_path / "script.py")]
        command = [sys.executable, "-m", "perfpy", "script", *options]
        out = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env={**os.environ, "PATH": "/nowhere"}).stdout
        results: Tables = {}
        for table, values in map(eval, out.splitlines()):  # printed by our own script
            results.setdefault(table, []).append(values)
            results.setdefault("order", []).append((table,))
        return results

    return run_it


def recorded() -> PerfDataBuilder:
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | SampleType.CALLCHAIN)])
    built.record(Comm(EXEC, 7, 7, "app", SampleId(pid=7, tid=7, time=1)))
    built.record(Mmap2(2, 7, 7, 0x401000, 0x1000, 0x1000, 0, 0, 0, 0, 5, 2, "/app", b"", SampleId(pid=7, tid=7, time=1)))
    return built


def test_a_sample_follows_the_rows_that_it_refers_to(tables: Callable[[PerfDataBuilder], Tables]) -> None:
    built = recorded()
    built.sample(pid=7, tid=7, time=5, ip=0x401004, period=3, misc=2, callchain=[0x401004, 0x401014])
    built.sample(pid=7, tid=7, time=7, ip=0x401018, period=4, misc=2, callchain=[0x401018])
    rows = tables(built)
    assert "process_event" not in rows
    names = [name for (name,) in rows["order"] if name != "branch_type"]
    first = "evsel machine thread comm comm_thread dso symbol symbol call_path call_path call_path sample".split()
    assert names == [*first, "sample"], "the second has no row that is new: its callchain begins like the first one's"
    assert rows["symbol"] == [(1, 1, 0x1000, 0x1010, 1, "leaf"), (2, 1, 0x1010, 0x1030, 1, "main")]
    assert rows["call_path"] == [(1, 0, 0, 0), (2, 1, 2, 0), (3, 2, 1, 0)]
    assert [(row[0], row[4], row[6], row[7], row[8], row[9], row[15], row[21]) for row in rows["sample"]] == [
        (1, 1, 1, 4, 0x401004, 5, 3, 3),
        (2, 1, 2, 8, 0x401018, 7, 4, 2),
    ]
    assert {len(row) for row in rows["sample"]} == {28}
    assert rows["comm"] == [(1, "app", 1, 1, 1)]


def test_an_address_without_a_symbol_has_a_row(tables: Callable[[PerfDataBuilder], Tables]) -> None:
    built = recorded()
    for address in (0x401800, 0x401900, 0x401800):
        built.sample(pid=7, tid=7, time=5, ip=address, period=1, misc=2, callchain=[])
    rows = tables(built)
    assert rows["symbol"] == [(1, 1, 0x1800, 0x1800, 0, "unknown"), (2, 1, 0x1900, 0x1900, 0, "unknown")]
    assert [row[6] for row in rows["sample"]] == [1, 2, 1]


def test_threads_belong_to_processes_and_have_the_names_of_records(tables: Callable[[PerfDataBuilder], Tables]) -> None:
    built = recorded()
    built.record(Fork(0, 7, 7, 8, 7, 2, SampleId(pid=7, tid=7, time=2)))
    built.record(Comm(0, 7, 8, "worker", SampleId(pid=7, tid=8, time=3)))
    built.sample(pid=7, tid=8, time=5, ip=0x401004, period=1, misc=2, callchain=[])
    built.record(Comm(EXEC, 7, 7, "other", SampleId(pid=7, tid=7, time=6)))
    built.sample(pid=7, tid=7, time=7, ip=0x401004, period=1, misc=2, callchain=[])
    rows = tables(built)
    assert rows["thread"] == [(1, 1, 1, 7, 7), (2, 1, 1, 7, 8)]
    assert rows["comm"] == [(1, "app", 1, 1, 1), (2, "worker", 2, 3, 0), (3, "other", 1, 6, 1)]
    assert rows["comm_thread"] == [(1, 1, 1), (2, 1, 2), (3, 3, 1)]
    assert [(row[3], row[4]) for row in rows["sample"]] == [(2, 1), (1, 3)], "a sample's command is its program's"


def test_switches_name_both_threads(tables: Callable[[PerfDataBuilder], Tables]) -> None:
    built = recorded()
    built.record(Comm(0, 9, 9, "next", SampleId(pid=9, tid=9, time=2)))
    ids = SampleId(pid=7, tid=7, time=3)
    built.record(Switch(OUT | PREEMPTED, ids)).record(SwitchCpuWide(OUT, 9, 9, ids)).record(SwitchCpuWide(0, 9, 9, ids))
    built.sample(pid=7, tid=7, time=5, ip=0x401004, period=1, misc=2, callchain=[])
    rows = tables(built)["context_switch"]
    assert [row[4:] for row in rows] == [(1, 1, 0, 0, 3), (1, 1, 2, 2, 1), (2, 2, 1, 1, 0)]
    assert [row[:4] for row in rows] == [(number, 1, 3, -1) for number in (1, 2, 3)]


def test_kinds_of_branches_have_numbers() -> None:
    kinds = branch_types()
    assert len(kinds) == len(dict(kinds)) == 42
    assert dict(kinds)[579] == "software interrupt / trace end"
