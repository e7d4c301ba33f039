"""Tests that perfpy stat requests the same counters as perf stat: every field of every attr, task, CPU and group."""

from __future__ import annotations

import collections
import os
import re
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.versus_perf, pytest.mark.live]

CALL = re.compile(r"^(\d+)\s+perf_event_open\(\{(.*)\}, (-?\d+), (-?\d+), (-?\d+), ([A-Z_|0-9a-fx]+)\)\s+= (-?\d+)(?: (E[A-Z]+))?")
COMMANDS = [
    "-e cpu-clock,cs,faults -- true",
    "-e '{cpu-clock,cs,faults}:u' -- true",
    "-e '{task-clock,page-faults}:W' -- true",
    "-e page-faults:D -- true",
    "-e page-faults:e -- true",
    "-e cs:uk -- true",
    "-e task-clock:h -- true",
    "-e task-clock:H -- true",
    "-e task-clock:G -- true",
    "-e task-clock:I -- true",
    "--all-user -e task-clock,cs -- true",
    "--all-kernel -e task-clock,cs -- true",
    "-dd -- true",
    "-ddd -- true",
    "-a -A -e cs -- true",
    "-a --per-core -e cs -- true",
    "-C 0 -e '{cs,faults}' -- true",
    "-C 0-1 -i -e cs -- true",
    "-r 2 -e cs -- true",
    "-I 100 -e cs -- true",
    "-x, -e cs,cycles -- true",
    "-D 10 -e cs -- true",
    "-D -1 -e cs -- true",
    "-p SLEEPER -e cs -- true",
    "-t SLEEPER -e cs,faults -- true",
    "-n -- true",
    "-e duration_time,cs -- true",
    "-e sched:sched_switch --filter 'prev_pid>0' -a -- true",
    "-e 'sched:sched_process_*' -- true",
    "-e cpu/config=1/ -- true",
    "-e 1:1,1:2:u -- true",
    "-e software/config=2,name=foo/ -- true",
    "-e mem:0x1000/8:w -- true",
    "-e mem:0x1000:x:u -- true",
    "-e branches:pp,cycles:P -- true",
    "-a -e cpu-clock,cs --for-each-cgroup / -- true",
    "-a -e cpu-clock,cs -G / -- true",
    "-e cpu-clock/period=1000/ -- true",
    "--no-scale -e cs -- true",
    "-e instructions:u,cycles:k,ref-cycles,bus-cycles -- true",
    "-e LLC-prefetch-misses,node-loads,iTLB-load-misses:u -- true",
    "-e minor-faults,major-faults,alignment-faults,emulation-faults,dummy,cgroup-switches -- true",
    "-e cs,msr/tsc/,faults -- true",
    "-a -e msr/tsc/,cs -- true",
    "-e mem:0x1001/8:w,cs -- true",
    "-e '{cs,msr/tsc/}' -- true",
]
#: of a program that touches fresh pages and starts others
DETERMINISTIC = ["page-faults:u", "minor-faults:u", "context-switches:u", "sched:sched_process_fork", "sched:sched_process_exec"]
PAGES = 5000
TOUCH = f"""
import mmap, os
memory = mmap.mmap(-1, {PAGES} * mmap.PAGESIZE)
memory.madvise(mmap.MADV_NOHUGEPAGE)
for page in range({PAGES}):
    memory[page * mmap.PAGESIZE] = 1
for _ in range(5):
    os.spawnlp(os.P_WAIT, "true", "true")
"""


def requests(program: list[str], arguments: str, folder: Path) -> collections.Counter[tuple[str, ...]]:
    """Return the perf_event_open calls of a measurement; calls without a read format are perf's probes."""
    log = folder / "strace"
    command = ["strace", "-f", "-v", "-e", "trace=perf_event_open", "-o", str(log), *program, "stat", *shlex.split(arguments)]
    subprocess.run(command, capture_output=True, check=False, timeout=60)
    counter: collections.Counter[tuple[str, ...]] = collections.Counter()
    leaders: dict[str, str] = {}
    for line in log.read_text().splitlines():
        call = CALL.match(line)
        if call is None or "read_format=PERF" not in call[2]:
            continue
        attr = re.sub(r"size=0x[0-9a-f]+( /\*.*?\*/)?, ", "", call[2])
        task = "any" if call[3] == "-1" else "a task"
        counter[attr, task, call[4], leaders.get(call[5], "none"), call[6], call[8] or "opened"] += 1
        leaders[call[7]] = "of " + attr.partition("sample_period")[0]
    return counter


@pytest.fixture(scope="module")
def sleeper() -> Iterator[str]:
    """Yield the pid of a process that has one thread during the test."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield str(process.pid)


@pytest.mark.parametrize("arguments", COMMANDS)
def test_the_requests_to_the_kernel_are_the_same(perf: str, tmp_path: Path, sleeper: str, arguments: str) -> None:
    """The same calls with the same fields, refused ones included."""
    if shutil.which("strace") is None:
        pytest.skip("no strace in PATH")
    arguments = arguments.replace("SLEEPER", sleeper)
    ours = requests([sys.executable, "-m", "perfpy"], arguments, tmp_path)
    theirs = requests([perf], arguments, tmp_path)
    assert ours == theirs


def test_deterministic_counts_are_equal(perf: str) -> None:
    """Programs that do the same each time have equal counts."""
    results = []
    for program in ([sys.executable, "-m", "perfpy"], [perf]):
        command = [*program, "stat", "-x,", "-e", ",".join(DETERMINISTIC), "--", sys.executable, "-S", "-c", TOUCH]
        run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        results.append({fields[2]: float(fields[0]) for fields in (line.split(",") for line in run.stderr.splitlines())})
    ours, theirs = results
    assert list(ours) == list(theirs) == DETERMINISTIC
    for event, count in theirs.items():
        # the interpreter's own faults, a tenth of these, differ with what of its files is in memory
        assert ours[event] == pytest.approx(count, abs=0.05 * PAGES if event.endswith("faults:u") else 0), event
    assert ours["page-faults:u"] > PAGES
    assert ours["sched:sched_process_exec"] == 6


def test_both_measure_the_same_time_of_the_same_process(perf: str, tmp_path: Path) -> None:
    """Both count all work of a process that begins after they start, and ends before they do."""
    work = "import time; input(); end = time.thread_time() + 0.3\nwhile time.thread_time() < end: pass"
    with subprocess.Popen([sys.executable, "-S", "-c", work], stdin=subprocess.PIPE) as busy:
        counting = [attached(program, busy.pid, tmp_path) for program in ([sys.executable, "-m", "perfpy"], [perf])]
        busy.communicate(b"\n")
    ours, theirs = (float(process.communicate(timeout=60)[1].split("\n")[-2].split(",")[0]) for process in counting)
    assert ours >= 300
    assert ours == pytest.approx(theirs, rel=0.01)


def attached(program: list[str], pid: int, folder: Path) -> subprocess.Popen[str]:
    """Start a program that counts the task-clock of a process, and wait until it counts."""
    names = [str(folder / f"{os.path.basename(program[-1])}-{direction}") for direction in ("control", "answer")]
    for name in names:
        os.mkfifo(name)
    command = [*program, "stat", "-x,", "-D", "-1", "--control", f"fifo:{','.join(names)}", "-e", "task-clock", "-p", str(pid)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    control, answer = (os.open(name, os.O_RDWR) for name in names)
    os.write(control, b"enable\n")
    assert os.read(answer, 5) == b"ack\n\0"
    os.close(answer)
    return process
