"""What report prints with its options equals what the real perf prints of the same recording."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.versus_perf]

PERFPY = [sys.executable, "-m", "perfpy"]
WORK = "for i in 1 2 3; do ls -R /usr/include > /dev/null; grep -r foo /usr/include > /dev/null; done"
RUN_DEPENDENT = re.compile(rb"^# \((Tip|Cannot load)|^# (captured on|perf version|cmdline)")
RECORDINGS = {
    "flat": ["-F", "2000"],
    "callchains": ["-g", "-F", "999"],
    "group": ["-e", "{cpu-clock,page-faults}"],
    "cgroups": ["-e", "cpu-clock", "--all-cgroups"],
}
PLAIN = [
    "",
    "-s dso",
    "-s pid,dso -n --show-total-period",
    "-s cpu,comm -t ,",
    "-s socket,comm",
    "-s comm,dso,sym,symbol_size,dso_size",
    "-F comm,overhead,sample,dso",
    "-F +period -s comm",
    "--show-cpu-utilization -w 12,20,5",
    "-c grep,ls -s comm,sym",
    "-d [kernel.kallsyms] --percentage relative",
    "--symbol-filter alloc",
    "--time 20%/2 -s comm",
    "--percent-limit 2 -q",
    "-H --no-children -g none",
    "--stdio-color=always -n -s comm,dso",
    "--stdio-color=always -H -s comm,dso",
    "--stdio-color=always -t , -s comm",
    "--stdio-color=never -s comm",
]
WITH_CHAINS = [
    "-g callee",
    "--no-children -g",
    "--no-children -g caller,2 --max-stack 7",
    "-g flat,1",
    "--no-children -g folded,0.5,caller,period",
    "-g graph,0.5,3,callee,function,count",
    "--no-children --ignore-callees do_syscall_64",
    "-s parent -p entry_SYSCALL",
    "--stdio-color=always",
    "--stdio-color always -g flat -t ;",
    "--stdio-color=always --no-children -g fractal,0.5,callee,count",
]
WITH_GROUPS = ["--no-group", "--group-sort-idx 1", "-H -s comm,{dso,sym}"]
LINES = {
    "flat": PLAIN,
    "callchains": PLAIN[:1] + WITH_CHAINS,
    "group": PLAIN[:4] + WITH_GROUPS,
    "cgroups": ["-s cgroup,comm", "-s comm,cgroup"],
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, perf: str) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("recordings")
    made = {}
    for name, options in RECORDINGS.items():
        made[name] = folder / f"{name}.data"
        subprocess.run([perf, "record", "-q", *options, "-o", made[name], "sh", "-c", WORK], check=True, capture_output=True, timeout=60)
    return made


def printed(command: list[str], line: str, path: Path) -> list[bytes]:
    environment = os.environ | {"LC_ALL": "C", "PERF_CONFIG": "/dev/null", "COLUMNS": "200"}
    done = subprocess.run(
        [*command, "report", "--stdio", *line.split(), "-i", str(path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment,
        check=True,
        timeout=60,
    )
    return [line.rstrip() for line in done.stdout.splitlines() if not RUN_DEPENDENT.search(line)]


@pytest.mark.parametrize(("name", "line"), [(name, line) for name, lines in LINES.items() for line in lines])
def test_the_report_is_perfs(name: str, line: str, recorded: dict[str, Path], perf: str) -> None:
    assert printed(PERFPY, line, recorded[name]) == printed([perf], line, recorded[name])
