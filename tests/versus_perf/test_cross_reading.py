"""Tests that every perf reads perfpy's recordings with each of these lines, and prints them like perfpy."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from perfpy.cli import run
from tests.builders.kernel_symbols import few_symbols
from tests.builders.prepared_start import PERFPY
from tests.builders.prepared_start import run as run_prepared
from tests.builders.report_lines import comparable

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.versus_perf, pytest.mark.system_wide]

CPU = min(os.sched_getaffinity(0))
#: some options each, by topic
LINES = {
    "how often": ["-F 99", "-F 4999", "-c 100000", "-F max -m 64", "-n"],
    "whom": ["-i", "--per-thread", f"-C {CPU} -F 99", "-a -F 49", "--all-user", "--all-kernel"],
    "samples": ["-d", "-P -T", "-W", "--sample-cpu", "--sample-identifier", "--phys-data"],
    "more in samples": ["--data-page-size", "--code-page-size", "--running-time", "-s", "-I", "--user-regs=ip,sp"],
    "newer": ["--data-mmap", "--sample-mem-info", "--transaction", "-k mono", "-k CLOCK_BOOTTIME", "-R"],
    "stacks": ["-g", "--call-graph fp,32", "--call-graph fp,128", "-g --user-callchains", "-g --kernel-callchains"],
    "side-band": ["--switch-events", "--namespaces", "--all-cgroups", "--no-bpf-event", "--synth=task", "--synth=no"],
    "buffers": ["-m 1", "-m 64K,8", "-m 0", "--mmap-flush=4K", "--no-buffering", "--affinity=cpu", "--aio"],
    "what comes last": ["--tail-synthesize", "--overwrite -m 16", "--timestamp-boundary", "--buildid-all", "-B", "--buildid-mmap"],
    "folders": ["--threads", "--threads=core -g", "--threads=numa -z"],
    "compressed": ["-z", "-z99", "-z5 -g"],
    "held down, off the CPU": ["--max-cpu 50%", "--max-cpu 1000 -g", "--off-cpu -g", "--off-cpu --off-cpu-thresh 0"],
    "delayed": ["-D 1", "-D -1", "-D 1-5,10-20"],
    "more events": [
        "-e page-faults -c 1",
        "-e {cpu-clock,page-faults}:S",
        "-e cpu-clock,page-faults,context-switches -g",
        "-e sched:sched_process_exec,cpu-clock",
        "-e cpu-clock/period=100000,call-graph=fp/,page-faults/freq=7,time=0/",
    ],
}
READINGS = {
    "script": [],
    "evlist": ["-v"],
    # of the first line of each
    "report": ["--stdio"],
    "buildid-list": [],
}
#: print names of functions
NAMING = ("script", "report")
TROUBLE = re.compile(r"(?i)unordered|corrupt|bad |incompatible|failed|out of order")


def read(command: list[str], path: Path) -> str:
    """Return what perf prints of a recording, without complaints."""
    process = subprocess.run([*command, "-i", str(path)], capture_output=True, text=True, errors="surrogateescape", timeout=60, check=False)
    assert process.returncode == 0, (command, process.stderr)
    assert not TROUBLE.search(process.stderr), (command, process.stderr)
    return process.stdout


def ours(command: list[str], path: Path, capfd: pytest.CaptureFixture[str]) -> str:
    """Return what perfpy prints of it."""
    capfd.readouterr()
    assert run([*command, "-i", str(path)]) == 0
    return capfd.readouterr().out


def lines_of(reading: str, text: str) -> object:
    """Return the lines to compare; the tip at the end of perf's report varies."""
    lines = [line for line in text.splitlines() if not line.startswith("# (")]
    return comparable(lines) if reading == "report" else lines


@pytest.mark.parametrize("about", LINES)
@pytest.mark.thorough
def test_every_perf_reads_it(about, tmp_path, perf, capfd):
    newer = shutil.which("perf7")
    for line in LINES[about]:
        path = tmp_path / re.sub(r"\W+", "-", line)
        event = [] if "-e " in line else ["-e", "cpu-clock"]
        options = [*event, *line.split()]
        command = [*PERFPY, "record", "-q", "-N", "-o", path, *options, "--", "sh", "-c", "/bin/true; /bin/true"]
        process = run_prepared(command)
        assert process.returncode in (0, 143), (line, process.stderr)  # the last of some ranges ends the command
        # others come and go on whole CPUs, with files that are gone; what is told last perf has no names from, and perfpy has
        differs = {"-a", "-C", "--tail-synthesize", "--overwrite"} & set(options)
        for reading, more in READINGS.items() if line is LINES[about][0] else list(READINGS.items())[:2]:
            words = [reading, *more, *(few_symbols(tmp_path) if reading in NAMING else ())]
            theirs = read([perf, *words], path)
            if not differs:
                assert lines_of(reading, ours(words, path, capfd)) == lines_of(reading, theirs), (line, reading)
            if newer:
                read([newer, *words], path)
    assert "# missing features" in read([perf, "report", "--header-only", "-I"], path)
