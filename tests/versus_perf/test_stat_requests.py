"""perfpy stat asks the kernel for the same counters as perf stat: every field of every attr, task, CPU and group."""

from __future__ import annotations

import collections
import re
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
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
    "-p 1 -e cs -- true",
    "-t 1 -e cs,faults -- true",
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
DETERMINISTIC = ["page-faults:u", "minor-faults:u", "context-switches:u", "sched:sched_process_fork", "sched:sched_process_exec"]


def requests(program: list[str], arguments: str, folder: Path) -> collections.Counter[tuple[str, ...]]:
    """The perf_event_open calls of a measurement; calls without a read format are perf's probes."""
    log = folder / "strace"
    command = ["strace", "-f", "-v", "-e", "trace=perf_event_open", "-o", str(log), *program, "stat", *shlex.split(arguments)]
    subprocess.run(command, capture_output=True, check=False, timeout=30)
    found: collections.Counter[tuple[str, ...]] = collections.Counter()
    leaders: dict[str, str] = {}
    for line in log.read_text().splitlines():
        call = CALL.match(line)
        if call is None or "read_format=PERF" not in call[2]:
            continue
        attr = re.sub(r"size=0x[0-9a-f]+( /\*.*?\*/)?, ", "", call[2])
        task = "any" if call[3] == "-1" else "a task"
        found[attr, task, call[4], leaders.get(call[5], "none"), call[6], call[8] or "opened"] += 1
        leaders[call[7]] = "of " + attr.partition("sample_period")[0]
    return found


@pytest.mark.parametrize("arguments", COMMANDS)
def test_the_kernel_is_asked_for_the_same(perf: str, tmp_path: Path, arguments: str) -> None:
    """The same calls with the same fields, refused ones included."""
    if shutil.which("strace") is None:
        pytest.skip("no strace in PATH")
    ours = requests([sys.executable, "-m", "perfpy"], arguments, tmp_path)
    theirs = requests([perf], arguments, tmp_path)
    assert ours == theirs


def test_deterministic_counts_are_equal(perf: str) -> None:
    """What a program does the same each time is counted the same."""
    script = "for i in 1 2 3 4 5; do /bin/true; done"
    found = []
    for program in ([sys.executable, "-m", "perfpy"], [perf]):
        command = [*program, "stat", "-x,", "-e", ",".join(DETERMINISTIC), "--", "sh", "-c", script]
        run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
        found.append({fields[2]: float(fields[0]) for fields in (line.split(",") for line in run.stderr.splitlines())})
    ours, theirs = found
    assert list(ours) == list(theirs)
    for event, count in theirs.items():
        assert ours[event] == pytest.approx(count, abs=0 if event.startswith("sched") else max(6, count * 0.03)), event


def test_times_agree_within_noise(perf: str) -> None:
    """A busy second is a second of task-clock for both."""
    busy = "import time; end = time.process_time() + 0.4\nwhile time.process_time() < end: pass"
    found = []
    for program in ([sys.executable, "-m", "perfpy"], [perf]):
        command = [*program, "stat", "-x,", "-e", "task-clock", "--", sys.executable, "-c", busy]
        run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
        found.append(float(run.stderr.split(",")[0]))
    assert found[0] == pytest.approx(found[1], rel=0.1)
