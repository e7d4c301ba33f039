"""Code that a runtime compiles repeatedly from one function is one row on screens, and several, like perf's, in JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import perfpy
from perfpy.abi.records import Comm, Mmap2
from perfpy.abi.sample_id import SampleId
from perfpy.analysis.entries.layout import ColumnOptions
from perfpy.analysis.entries.options import NameOptions, ReportOptions
from perfpy.cli import run
from perfpy.symbols.files.debug_files import SymbolOptions
from tests.builders.elf import Elf
from tests.builders.perfdata import PerfDataBuilder

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("JS:~slow /a.js:1", "JS:*slow /a.js:1", "JS:*other /a.js:9", "JS:^slow /a.js:1", "JS:~slow /b.js:1")


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Record a sample in each line of the map."""
    built = PerfDataBuilder()
    ids = SampleId(pid=7, tid=7, time=1)
    built.record(Comm(0, 7, 7, "node", ids))
    built.record(Mmap2(2, 7, 7, 0x1000, 0x1000, 0, 0, 0, 0, 0, 7, 2, "//anon", b"", ids))
    for number in range(5):
        built.sample(misc=2, ip=0x1010 + 0x100 * number, pid=7, tid=7, time=10 + number, period=1)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "perf-7.map").write_text("".join(f"{0x1000 + 0x100 * number:x} 100 {name}\n" for number, name in enumerate(NAMES)))
    (tmp_path / "perf.data").write_bytes(built.file())
    return tmp_path


@pytest.mark.parametrize(
    ("as_one", "rows"),
    [
        (True, {"[.] JS:~slow /a.js:1": 3, "[.] JS:*other /a.js:9": 1, "[.] JS:~slow /b.js:1": 1}),
        (False, dict.fromkeys((f"[.] {name}" for name in NAMES), 1)),
    ],
)
def test_rows_are_of_functions(as_one: bool, rows: dict[str, int], recorded: Path) -> None:  # a parameter
    options = ReportOptions(names=NameOptions(tiers_as_one=as_one), columns=ColumnOptions(sort="symbol"))
    with perfpy.open(recorded / "perf.data") as recording:
        report = recording.report(options=options, symbols=SymbolOptions(symfs=str(recorded), cache=False))
    assert {row.texts["symbol"]: row.values["samples"][0] for row in report.top()} == rows


@pytest.fixture
def injected(tmp_path: Path) -> Path:
    """Convert it to a jitdump, where each piece of code is a file."""
    built = PerfDataBuilder()
    ids = SampleId(pid=7, tid=7, time=1)
    built.record(Comm(0, 7, 7, "node", ids))
    for number, name in enumerate(NAMES):
        path = f"/tmp/jitted-7-{number}.so"
        built.record(Mmap2(2, 7, 7, 0x1000 * (number + 1), 0x1000, 0x40, 0, 0, 0, 0, 5, 2, path, b"", ids))
        built.sample(misc=2, ip=0x1000 * (number + 1) + 8, pid=7, tid=7, time=10 + number, period=1)
        (tmp_path / path[1:]).parent.mkdir(exist_ok=True)
        (tmp_path / path[1:]).write_bytes(Elf().text(0x40, 0x40, 0x100).symbol(name, 0x40, 0x100).build())
    (tmp_path / "perf.data").write_bytes(built.file())
    return tmp_path


def test_pieces_of_a_jitdump_are_rows_of_functions_of_one_process(injected: Path) -> None:
    def rows(*, as_one: bool) -> dict[tuple[str, str], int]:
        options = ReportOptions(names=NameOptions(tiers_as_one=as_one), columns=ColumnOptions(sort="dso,symbol"))
        with perfpy.open(injected / "perf.data") as recording:
            report = recording.report(options=options, symbols=SymbolOptions(symfs=str(injected), cache=False))
        return {(row.texts["dso"], row.texts["symbol"]): row.values["samples"][0] for row in report.top()}

    functions = {"[.] JS:~slow /a.js:1": 3, "[.] JS:*other /a.js:9": 1, "[.] JS:~slow /b.js:1": 1}
    assert rows(as_one=True) == {("jitted-7", name): count for name, count in functions.items()}
    assert rows(as_one=False) == {(f"jitted-7-{number}.so", f"[.] {name}"): 1 for number, name in enumerate(NAMES)}


def test_json_has_the_names_apart_and_flame_graphs_together(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["-f", "-i", str(recorded / "perf.data"), "--symfs", str(recorded)]
    assert run(["report", "--json", "-s", "sym", *where]) == 0
    assert len(json.loads(capsys.readouterr().out)["events"][0]["rows"]) == 5
    page = str(recorded / "page.html")
    assert run(["report", f"--html={page}", *where]) == 0
    with open(page, encoding="utf-8") as file:
        text = file.read()
    assert text.count('"JS:slow /a.js:1"') == 1
    assert "~slow" not in text
