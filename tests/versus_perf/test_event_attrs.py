"""Tests of the kernel requests and names of events, ours against perf's, by strace."""

from __future__ import annotations

import collections
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.versus_perf

_CALL = re.compile(r"perf_event_open\(\{(.*)\}, (-?\d+), (-?\d+), (-?\d+), ([A-Z_|0-9a-fx]+)\)\s+= (?:(\d+)|-1 (E\w+))")

PERFPY = [sys.executable, "-m", "perfpy"]

# perf and perfpy agree on each; one call of either tool opens a whole list
EVENTS = [
    "cycles,cycles:u,cpu-cycles:k,instructions:h,ref-cycles:uk",
    "r1a8,r4064:u,cpu/r1a8/,cpu/cycles/,cpu/L1-dcache-loads/u,4:0x6530160:p",
    "L1-dcache-load-misses:u,l1d-loads,LLC,dTLB-speculative-read-miss,branches-loads,bpc,L1-dcache-misses-loads",
    "cs:G,cs:H,cs:GH,cs:uG,cs:uH,cs:kG,cs:hG,cs:Gp,cs:I,cs:P,cs:ppp,cs:kpupp",
    "cs:e,cs:D,cs:S,1:1,1:1:u,1:99,software/config=3/,cpu-clock/config=3/,cs//u,cs/period=3/",
    "{cs,faults:k}:u,{cs:u,faults:G}:k,{cs:p,faults}:pp,{cs:G,faults}:u,foo{cs,faults}:D",
    "{cs,msr/tsc/},{cs,sched:sched_switch},cs,{cpu-clock,mem:0x1000:w},{faults,msr/tsc/}",
    "{cs:D,faults:D},{cs:e,faults:e}",
    "mem:0x1000,mem:0x1000/8:x:u",
    "mem:0x1000/3:w,mem:4096:rw",
    "mem:0x1000:rwx,mem:0x1000:w:k",
    "msr/tsc/,msr/tsc/u,msr/event=3/,tsc:u,TSC,m*/tsc/,uncore_msr/tsc/,msr//,msr/event=0x1,event=2/",
    "uprobe/ref_ctr_offset=3,retprobe/,breakpoint/config=3/,tracepoint/config=0x82f/",
    "sched:sched_switch:u,sched:sched_sw*:k,raw_syscalls:*",
    "cs/name='x:y=1,2'/,cs/name=foo/u,msr/tsc,name=bar/,r1a/name=baz/",
]


@pytest.fixture(scope="module")
def strace() -> str:
    path = shutil.which("strace")
    if not path:
        pytest.skip("no strace")
    return path


# terms and modifiers that affect only sampling
SAMPLED = [
    "cpu-clock/period=5000,time=0/,cs/freq=7,call-graph=fp,max-stack=9/",
    "cpu-clock/call-graph=dwarf,stack-size=1024/u,cs/no-inherit,nr=3/",
    "{cpu-clock,cs/period=3/,faults}:S",
    "mem:0x1000:w,sched:sched_switch,cycles:P",
    "msr/tsc/",
]


def calls(command: list[str], strace: str, folder: Path, *, probes: bool = False) -> tuple[collections.Counter[str], str]:
    """Return the measurement's calls as texts without what varies between runs, and the command's output."""
    log = folder / "strace.log"
    tracer = [strace, "-f", "-v", "-s", "256", "-e", "trace=perf_event_open", "-o", str(log)]
    run = subprocess.run([*tracer, *command], capture_output=True, text=True, check=False, timeout=60, cwd=folder)
    counter: collections.Counter[str] = collections.Counter()
    for line in log.read_text().splitlines():
        match = _CALL.search(line)
        if match and (probes or "read_format=PERF" in match[1]):  # the others are probes for what the kernel knows
            attr = re.sub(r"/\*.*?\*/|\bsize=\w+", "", match[1])
            counter[f"{attr} {match[3]} {'leads' if match[4] == '-1' else 'member'} {match[5]} {match[7] or 'opened'}"] += 1
    return counter, run.stderr


def counted_names(report: str) -> list[str]:
    return [line.split(";")[2] for line in report.splitlines() if line.count(";") > 5]


@pytest.mark.parametrize("events", EVENTS)
def test_counting_asks_the_kernel_for_the_same(events: str, perf: str, strace: str, tmp_path: Path) -> None:
    arguments = ["stat", "-x", ";", "-e", events, "--", "true"]
    theirs, their_report = calls([perf, *arguments], strace, tmp_path)
    ours, our_report = calls([*PERFPY, *arguments], strace, tmp_path)
    assert theirs, "perf opened nothing"
    assert ours == theirs
    assert counted_names(our_report) == counted_names(their_report)


@pytest.mark.live
@pytest.mark.system_wide
@pytest.mark.parametrize("line", ["-e dummy -C 0", "-e dummy -a -g", "-e dummy,cpu-clock -C 0", "-e cpu-clock,dummy -C 0", "-e dummy -D 1"])
def test_the_event_that_carries_the_side_band(line: str, perf: str, strace: str, tmp_path: Path) -> None:
    arguments = ["record", "-o", "p.data", *line.split(), "--", "true"]
    theirs, _ = calls([perf, *arguments], strace, tmp_path)
    ours, _ = calls([*PERFPY, *arguments], strace, tmp_path)
    assert theirs, "perf opened nothing"
    assert ours == theirs


@pytest.mark.parametrize("events", SAMPLED)
def test_sampling_asks_the_kernel_for_the_same(events: str, perf: str, strace: str, tmp_path: Path) -> None:
    arguments = ["record", "-o", "p.data", "-e", events, "--", "true"]
    theirs, _ = calls([perf, *arguments], strace, tmp_path)
    ours, _ = calls([*PERFPY, *arguments], strace, tmp_path)
    assert theirs, "perf opened nothing"
    assert ours == theirs


@pytest.mark.live
@pytest.mark.parametrize(
    "line", ["", "--intr-regs=ax,bx", "-I -e task-clock", "-I -g", "-I -e cpu-clock:u", "-e cycles:P", "--user-regs=ax"]
)
def test_a_user_opens_no_probe_that_perf_does_not_open(line: str, perf: str, strace: str, tmp_path: Path) -> None:
    unprivileged = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"]
    arguments = ["record", "-o", "p.data", *line.split(), "--", "true"]
    theirs, _ = calls([*unprivileged, perf, *arguments], strace, tmp_path, probes=True)
    ours, _ = calls([*unprivileged, *PERFPY, *arguments], strace, tmp_path, probes=True)
    assert ours
    assert ours - theirs == collections.Counter()
