"""Tests that samples of PEBS, branch records, IBS, SPE and of hybrid machines, built without a PMU, are shown as perf shows them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Final

import pytest

from tests.builders import hardware_samples
from tests.builders.branch_walk import SOURCE, start_of
from tests.builders.prepared_start import PERFPY, run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = [
    pytest.mark.versus_perf,
    pytest.mark.skipif(not shutil.which("gcc") or not shutil.which("objdump"), reason="needs gcc and objdump"),
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="a program for x86-64"),
]

#: what differs in each run, and rows of `help compatibility`
_OTHER: Final = re.compile(rb"^# \((Tip|Cannot load)|^# (captured on|perf version|cmdline)")

EVERYWHERE: Final = (
    "report --stdio", "report --stdio --group", "report --stdio --no-group -s comm,dso", "report --stats --stdio", "report -D",
    "script", "script -F +misc", "script --header", "evlist -v", "evlist -g", "report --header-only",
    "report --stdio -F overhead,period,sample,weight1,weight2,weight3,ins_lat,retire_lat,sym", "report --stdio -H -s comm,sym",
)  # fmt: skip
ACCESSES: Final = (
    "report --stdio -s local_ins_lat,ins_lat,local_p_stage_cyc,p_stage_cyc",
    "report --stdio -s weight,local_weight,local_retire_lat,retire_lat",
    "script -F ip,addr,data_src,weight,phys_addr", "script -F data_src,phys_addr,weight", "script -F +data_src,+weight",
    "report --stdio -F +weight", "mem report --stdio -F ins_lat,overhead,sym",
)  # fmt: skip
SHARED_LINES: Final = (
    "c2c report --stdio -NN", "c2c report --stats", "c2c report --stdio --full-symbols -d lcl", "c2c report --stdio -c pid,iaddr",
)  # fmt: skip
MEMORY: Final = ("mem report --stdio", "mem -t store report --stdio", "mem report --stdio --sort mem,sym")  # perf dies of IBS
PEBS: Final = (
    "report --stdio -s transaction", "script -F +misc,+addr,+ins_lat,+retire_lat",
    "script -F ip,addr,data_page_size,code_page_size", "report --stdio --mem-mode -s dcacheline,phys_daddr", "annotate --stdio -s inner",
)  # fmt: skip
BRANCHES: Final = (
    "report --stdio -s dso_from,dso_to,addr_from,addr_to -F +sample",
    "script -F ip,brstack", "script -F brstacksym", "script -F brstackoff",
    "script -F ip,sym,brstackinsn", "report --stdio --no-branch-stack", "annotate --stdio", "annotate --stdio inner",
    "annotate --stdio -C 1 middle",
)  # fmt: skip
HYBRID: Final = (
    "report --stdio -s pid,cpu -n", "report --stdio --group --show-total-period", "report --stdio --group -t ,",
    "annotate --stdio --group inner",
    "report --stdio --group -C 1", "report --stdio --group --group-sort-idx 1", "script -F event,cpu -C 5", "report --stdio --skip-empty",
)  # fmt: skip
# not by source lines: perf loses names and branches where it joins rows
HISTORIES: Final = tuple(f"report --stdio --branch-history -s {options}" for options in (
    "comm,dso,symbol", "sym -g caller --no-children", "sym -g fractal,0.1 --no-children", "sym -g flat", "dso,sym -g folded,callee",
    "sym --max-stack 3", "comm,sym --max-stack 3 -g callee",
))  # fmt: skip
IPC: Final = (
    "report --stdio -g none -s symbol_from,symbol_to", "report --stdio -g none -s sym,cpu", "report --stdio -g none -s symbol_to -t , -C 1",
)  # fmt: skip
LINES: Final = {
    "pebs": EVERYWHERE + ACCESSES + SHARED_LINES + MEMORY + PEBS,
    "ibs": EVERYWHERE + ACCESSES + SHARED_LINES,
    "spe": EVERYWHERE + ACCESSES + SHARED_LINES + MEMORY,
    "branch_records": (*(line for line in EVERYWHERE if not line.startswith("report --stdio")), *BRANCHES),
    "typed": ("report --stdio -s addr_from,addr_to", "report --stdio -s addr_from,addr_to -C 1", *HISTORIES),  # perf counts types by row
    "chained": (*HISTORIES, *IPC),
    "hybrid": EVERYWHERE + HYBRID,
    "one name": EVERYWHERE + HYBRID,
    "grouped": EVERYWHERE + HYBRID,
}


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("sampled")
    program = folder / "walked"
    subprocess.run(["gcc", "-O1", "-g", "-no-pie", "-pthread", "-o", program, SOURCE], check=True)
    start = start_of(program, "outer")
    contents = {name: getattr(hardware_samples, name)(program, start) for name in ("pebs", "ibs", "spe", "branch_records", "hybrid")}
    contents["one name"] = hardware_samples.hybrid(program, start, names=("{}", "{}"))
    contents["typed"] = hardware_samples.branch_records(program, start, typed_by_place=True)
    contents["chained"] = hardware_samples.branches_and_chains(program, start)
    contents["grouped"] = hardware_samples.hybrid(program, start, grouped=True)
    for name, content in contents.items():
        (folder / f"{name}.data").write_bytes(content)
    return {name: folder / f"{name}.data" for name in contents}


def printed(program: Sequence[str], line: str, path: Path) -> list[str]:
    environment = {**os.environ, "PERF_CONFIG": "/dev/null", "LC_ALL": "C", "HOME": str(path.parent), "COLUMNS": "200"}
    process = run([*program, *line.split(), "-i", path], env=environment, check=True, cwd=path.parent)
    return [os.fsdecode(line.rstrip()) for line in process.stdout.splitlines() if not _OTHER.search(line)]


@pytest.mark.parametrize(("name", "line"), [(name, line) for name, lines in LINES.items() for line in lines])
def test_samples_of_hardware_are_shown_as_perf_shows_them(name: str, line: str, recordings: dict[str, Path], perf: str) -> None:
    expected, actual = (printed(program, line, recordings[name]) for program in ([perf], PERFPY))
    if name == "branch_records" and "addr_from" in line:  # perf takes the first branch's type for all branches of a row
        expected, actual = (lines[: lines.index("# Branch Statistics:")] for lines in (expected, actual))
    assert actual == expected


@pytest.mark.parametrize("line", ["", " --no-group", " --group"])
def test_blocks_of_groups_are_perfs(line: str, recordings: dict[str, Path], perf: str) -> None:
    """perf prints a + of a counter at each one to the right of it, too."""
    texts = [printed(program, f"report --stdio --total-cycles{line}", recordings["branch_records"]) for program in ([perf], PERFPY)]
    expected, actual = ([text.replace("+", " ") for text in lines[: lines.index("# Branch Statistics:")]] for lines in texts)
    assert sum("|AA" in text for text in expected) >= 5
    assert actual == expected


@pytest.mark.skipif(not shutil.which("perf7"), reason="no perf 7 in PATH")
@pytest.mark.parametrize(
    "line", ["brcntr", "brcntr -v", "brstackinsn,brcntr", "brstackinsn,brcntr -v", "ip,sym,brstackinsn,brstackinsnlen"]
)
def test_branch_counters_are_those_of_perf_7(line: str, recordings: dict[str, Path]) -> None:
    newer = shutil.which("perf7")
    assert newer
    expected = printed([newer], f"script -F {line}", recordings["branch_records"])
    assert len(expected) >= 80
    assert printed(PERFPY, f"script -F {line}", recordings["branch_records"]) == expected
