"""Tests that ordinary command lines in a pipe print perf's messages on standard error, or nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.patient_perf import patient
from tests.builders.prepared_start import PERFPY, run
from tests.builders.report_lines import at_fixed_addresses

pytestmark = [pytest.mark.live, pytest.mark.versus_perf]

PROGRAM = "sh -c true"
READING = [
    "report",
    "report --stdio",
    "report --stdio -g",
    "report --stdio --no-children",
    "report -i dwarf.data --no-children",
    "report -i old.data --sort comm,dso",
    "report --stdio -n --percent-limit 5",
    "report --stdio --comms python3",
    "report --stdio --pid 1",
    "report --stdio -S nosuch",
    "report --stdio --symbol-filter nosuch",
    "report --stdio --dsos nosuch --percentage relative",
    "report --stdio -g caller --max-stack 3",
    "report --header-only",
    "report --header --stdio",
    "report -D",
    "report --stats",
    "report --tasks",
    "script",
    "script -i dwarf.data",
    "script -i old.data -F comm,tid,time,event,ip,sym",
    f"script --comms {Path(sys.executable).name}",
    "script -F +srcline --max-stack 1",
    "script --show-mmap-events",
    "script --header",
    "evlist",
    "evlist -v",
    "diff old.data perf.data",
    "diff old.data perf.data -s comm",
    "buildid-list",
    "list sw",
    "list hw cache",
]
MEASURING = [
    f"record {PROGRAM}",
    f"record -g {PROGRAM}",
    f"record -e cycles -F 999 {PROGRAM}",
    f"record -e cpu-clock -g {PROGRAM}",
    f"record -a {PROGRAM}",
    f"record --call-graph dwarf {PROGRAM}",
    f"record -q {PROGRAM}",
    f"stat -e task-clock,page-faults {PROGRAM}",
    f"stat -x, -e task-clock {PROGRAM}",
    f"stat -r 2 -e task-clock {PROGRAM}",
]


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory, perf: str) -> Path:
    """Record with perf a program with many callchains of one frame and some files without symbols."""
    folder = tmp_path_factory.mktemp("recordings")
    work = [*at_fixed_addresses(), sys.executable, "-c", "import json; [json.dumps(str(i)) for i in range(100_000)]"]
    for name, options in (("perf.data", ["-g"]), ("old.data", []), ("dwarf.data", ["--call-graph", "dwarf,4096"])):
        record = [perf, "record", "-q", "-e", "cpu-clock", "-F", "499", *options, "-o", str(folder / name), "--", *work]
        subprocess.run(record, check=True, capture_output=True, timeout=120)
    return folder


def said(command: list[str], line: str, folder: Path) -> list[str]:
    """Return the messages of a command line, without numbers, which vary between runs, and blanks, which numbers move."""
    words = [*command, *line.split()]
    process = run(words, cwd=folder, timeout=120, env=patient(folder))
    text = process.stderr.decode(errors="replace").replace("(null)", "-")  # what perf 6.12 calls the pipe
    without_samples = re.sub(r" \(~?\d+ samples\)", "", text)  # of so short a program there may be none
    return [" ".join(re.sub(r"[\d.,]+(?: usec| msec)?", "N", each).split()) for each in without_samples.splitlines() if each.strip()]


@pytest.mark.parametrize("line", READING)
def test_readers_print_perfs_messages_or_none(line: str, recordings: Path, perf: str) -> None:
    ours = said(PERFPY, line, recordings)
    if ours:
        assert ours == said([perf], line, recordings)


@pytest.mark.parametrize("line", MEASURING)
def test_measuring_commands_print_perfs_messages_or_none(line: str, tmp_path: Path, perf: str) -> None:
    ours = said(PERFPY, line, tmp_path)
    if ours:
        assert ours == said([perf], line, tmp_path)


def test_there_are_many_lines() -> None:
    assert len({*READING, *MEASURING}) >= 40
