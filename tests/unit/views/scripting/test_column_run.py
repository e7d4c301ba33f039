"""Tests of script --py: functions of a script get columns of some thousand samples, and errors are reported."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from perfpy.abi.flags import SampleType
from perfpy.abi.records import Comm, Mmap2, Throttle
from perfpy.abi.sample_id import SampleId
from tests.builders.elf import Elf
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Runs = Callable[..., tuple[int, str, str]]

SAMPLES = 20


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    """Return a function that runs a script on a recording with two functions: (status, output, errors)."""
    elf = Elf().text(0x1000, size=0x1000).segment(0x1000, 0x1000, 0x1000)
    (tmp_path / "app").write_bytes(elf.symbol("leaf", 0x1000, 0x10).symbol("main", 0x1010, 0x20).build())
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | SampleType.CALLCHAIN)])
    built.record(Comm(0, 7, 7, "worker", SampleId(pid=7, tid=7, time=1)))
    built.record(Mmap2(2, 7, 7, 0x401000, 0x1000, 0x1000, 0, 0, 0, 0, 5, 2, "/app", b"", SampleId(pid=7, tid=7, time=1)))
    for number in range(SAMPLES):
        ip = 0x401004 if number % 4 else 0x401014
        built.sample(pid=7, tid=7, time=10 + number, ip=ip, period=3, misc=2, callchain=[ip, 0x401014])
    built.record(Throttle(0, 99, 1, 1, SampleId(pid=7, tid=7, time=99)))
    (tmp_path / "perf.data").write_bytes(built.file())

    def run_it(text: str, *options: str) -> tuple[int, str, str]:
        (tmp_path / "script.py").write_text(text)
        where = ["-f", "--symfs", str(tmp_path), "-i", str(tmp_path / "perf.data"), "--py", str(tmp_path / "script.py")]
        command = [sys.executable, "-m", "perfpy", "script", *where, *options]
        environment = {**os.environ, "PATH": "/nowhere"}
        process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
        return process.returncode, process.stdout, process.stderr

    return run_it


COUNTS = """
import sys
from collections import Counter
seen = Counter()
def on_start(recording):
    print([event.name for event in recording.events], sys.argv[1:])
def on_sample(batch):
    seen.update(zip(batch["comm"], batch["dso"], batch["symbol"], batch["stack"]))
    print(len(batch), int(batch["period"].sum()), batch.names)
def on_record(record):
    print(type(record).__name__)
def on_end():
    print(sorted(seen.items()))
"""


def test_columns_have_names_and_records_come_in_order(runs: Runs) -> None:
    status, out, err = runs(COUNTS, "--", "one", "two")
    assert (status, err) == (0, "")
    *lines, counts = out.splitlines()
    names = ["comm", "dso", "symbol", "srcline", "stack"]
    assert lines[0].endswith(" ['one', 'two']")
    assert lines[1:] == ["Comm", "Mmap2", f"{SAMPLES} {3 * SAMPLES} {names}", "Throttle"]
    assert eval(counts) == [
        (("worker", "app", "leaf", ("leaf", "main")), SAMPLES * 3 // 4),
        (("worker", "app", "main", ("main", "main")), SAMPLES // 4),
    ]


def test_filters_select_the_samples(runs: Runs) -> None:
    count = "def on_sample(batch): print(len(batch), {*batch['symbol']})\n"
    assert runs(count, "-S", "main")[1] == f"{SAMPLES // 4} {{'main'}}\n"
    assert runs(count, "-c", "nobody")[1] == ""


def test_to_pandas_has_names(runs: Runs) -> None:
    pytest.importorskip("pandas")
    text = "def on_sample(batch): print(batch.to_pandas(['symbol', 'period']).groupby('symbol')['period'].sum().to_dict())\n"
    assert runs(text)[1] == "{'leaf': 45, 'main': 15}\n"


@pytest.mark.parametrize(
    ("text", "options", "status", "message"),
    [
        ("def on_sample(batch):\n    1 / 0\n", [], 255, 'script.py", line 2, in on_sample'),
        ("def on_sample(batch): batch['colour']\n", [], 255, "no column 'colour'; these samples have event, "),
        ("def process_event(sample): pass\n", [], 255, "no function on_sample(batch) or on_record(record); a script in perf's form"),
        ("def on_sample(batch) print\n", [], 255, "line 1: not a Python 3 program"),
        ("import sys\ndef on_end(): sys.exit(3)\n", [], 3, ""),
        ("", ["-s", "x.py"], 129, "exclude each other"),
    ],
)
def test_errors_of_scripts_are_reported(text: str, options: list[str], status: int, message: str, runs: Runs) -> None:
    ended, _, err = runs(text, *options)
    assert ended == status
    assert message in err
