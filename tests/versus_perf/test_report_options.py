"""Tests that report prints what perf prints of the same recording, with many options."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.builders.kernel_symbols import few_symbols
from tests.builders.prepared_start import PERFPY, run
from tests.builders.report_lines import at_fixed_addresses, comparable

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.versus_perf]

WORK = "ls -R /usr/include > /dev/null; grep -r foo /usr/include > /dev/null"
RUN_DEPENDENT = re.compile(rb"^# \((Tip|Cannot load)|^# (captured on|perf version|cmdline)")
RECORDINGS = {
    "flat": ["-F", "2000"],
    "callchains": ["-g", "-F", "999"],
    "group": ["-e", "{cpu-clock,page-faults}"],
    "cgroups": ["-e", "cpu-clock", "--all-cgroups"],
    "namespaces": ["-F", "999", "--namespaces"],
    "two modes": ["-e", "cpu-clock:u,cpu-clock:k", "-g", "-F", "999"],
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
    "--time 40% -s comm",
    "--sort=",
    "--percent-limit 2 -q",
    "-H --no-children -g none",
    "--stdio-color=always -n -s comm,dso",
    "--stdio-color=always -H -s comm,dso",
    "--stdio-color=always -t , -s comm",
    "--stdio-color=never -s comm",
    "-w 12,12,30,10",
    "-w 12,12,30,10 -v -s comm,dso",
    "-H -w 5,6,7 -s comm,{dso,sym} -g none",
    "-H -c grep -g none",
    "-F pid,weight1,overhead_children",
    "-F overhead,overhead_children,comm",
    "-s symoff -g none --symfs /nonexistent -d [kernel.kallsyms]",
    "-s cgroup_id,comm",
    "-c grep -s comm",
    "-c grep -s dso",
    "-c ls -s dso,sym --percentage relative",
    "--no-group -s comm",
]
WITH_CHAINS = [
    "-g callee",
    "--no-children -g",
    "--no-children -g caller,2 --max-stack 7",
    "-g flat,1",
    "-g graph,0.5 --percent-limit 4",
    "--percent-limit 4 -g graph,0.5",
    "--no-children -g folded,0.5,caller,period",
    "-g graph,0.5,3,callee,function,count",
    "--no-children --ignore-callees do_syscall_64",
    "-s parent -p entry_SYSCALL",
    "--stdio-color=always",
    "--stdio-color always -g flat -t ;",
    "--stdio-color=always --no-children -g fractal,0.5,callee,count",
    "-g none",
    "-c grep --percentage relative",
    "-d [kernel.kallsyms]",
]
WITH_GROUPS = ["--no-group", "--group-sort-idx 1", "-H -s comm,{dso,sym}", "-F overhead,overhead_children,comm"]
WITH_GROUPED_CHAINS = ["--group", "--group --group-sort-idx 1", "--group -g callee"]
LINES = {
    "flat": PLAIN,
    "callchains": PLAIN[:1] + WITH_CHAINS,
    "group": PLAIN[:4] + WITH_GROUPS,
    "cgroups": ["-s cgroup,comm", "-s comm,cgroup"],
    "namespaces": ["-s cgroup_id,comm", "-s comm,cgroup_id"],
    "two modes": WITH_GROUPED_CHAINS,
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, perf: str) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("recordings")
    results = {}
    for name, options in RECORDINGS.items():
        results[name] = folder / f"{name}.data"
        command = [perf, "record", "-q", *options, "-o", str(results[name]), *at_fixed_addresses(), "sh", "-c", WORK]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    return results


def printed(command: list[str], line: str, path: Path) -> list[str]:
    environment = os.environ | {"LC_ALL": "C", "PERF_CONFIG": "/dev/null", "COLUMNS": "200"}
    words = [*line.split(), *few_symbols(path.parent), "-i", str(path)]
    process = run([*command, "report", "--stdio", *words], env=environment, check=True)
    return comparable([os.fsdecode(line.rstrip()) for line in process.stdout.splitlines() if not RUN_DEPENDENT.search(line)])


@pytest.mark.parametrize(("name", "line"), [(name, line) for name, lines in LINES.items() for line in lines])
@pytest.mark.thorough
def test_the_report_is_perfs(name: str, line: str, recorded: dict[str, Path], perf: str) -> None:
    assert printed(PERFPY, line, recorded[name]) == printed([perf], line, recorded[name])


def test_a_pipes_features_are_shown_with_its_report(perf: str, tmp_path: Path) -> None:
    path = tmp_path / "pipe.data"
    with path.open("wb") as file:
        command = [perf, "record", "-q", "-o", "-", "sh", "-c", "ls -R /usr/include"]
        subprocess.run(command, stdout=file, stderr=subprocess.DEVNULL, check=True, timeout=60)
    assert printed(PERFPY, "-I -s comm", path) == printed([perf], "-I -s comm", path)


@pytest.mark.thorough
def test_names_can_come_from_a_file(recorded: dict[str, Path], perf: str, tmp_path: Path) -> None:
    names = tmp_path / "names"
    names.write_text("ls\ngrep\n")
    for line in (f"-c file://{names} -s comm", f"-c file://{names},sh -s comm,dso"):
        assert printed(PERFPY, line, recorded["flat"]) == printed([perf], line, recorded["flat"])


@pytest.mark.parametrize("options", [["-c", "200000"], ["-F", "2000"]], ids=" ".join)
def test_members_of_a_group_have_their_own_periods(perf: str, tmp_path: Path, options: list[str]):
    """With `:S`, the leader's samples have each member's progress, even with a fixed period of the leader."""
    program = "for _ in range(40): bytearray(4_000_000); sum(range(20_000))"
    file = str(tmp_path / "perf.data")
    line = [
        perf,
        "record",
        "-q",
        "-e",
        "{task-clock,page-faults}:S",
        *options,
        "-o",
        file,
        "--",
        *at_fixed_addresses(),
        sys.executable,
        "-Sc",
        program,
    ]
    subprocess.run(line, check=True, capture_output=True, timeout=120)
    output = []
    for command in ([perf], PERFPY):
        report = [*command, "report", "--stdio", "--group", "-s", "comm,dso", "-i", file]
        text = run(report, check=True, timeout=120).stdout
        output.append([row for row in text.splitlines() if not RUN_DEPENDENT.match(row)])
    assert output[1] == output[0]
    members = [re.findall(rb"[\d.]+(?=%)", row) for row in output[1] if b"%" in row]
    assert any(float(member[1]) > 1 for member in members)
