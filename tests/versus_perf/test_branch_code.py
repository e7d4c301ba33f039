"""Tests that `perfpy script` prints the instructions between branches like perf, even for invalid branch stacks."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from perfpy.disassembly.x86_lengths import length
from tests.builders import branch_walk
from tests.builders.prepared_start import PERFPY, run

pytestmark = [
    pytest.mark.versus_perf,
    pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc"),
    pytest.mark.skipif(not shutil.which("objdump"), reason="needs objdump"),
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="a program for x86-64"),
]
SOURCE = Path(__file__).with_name("option_lines") / "program.c"
FIELDS = [
    "ip,insn,insnlen",
    "ip,sym,brstackinsn",
    "ip,sym,brstackinsn,brstackinsnlen,srcline",
    "comm,ip,brstack,brstackinsnlen,period",
    "ip,sym,brstackinsn,srcline,brcntr",
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("walked") / "walked"
    subprocess.run(["gcc", "-O1", "-g", "-no-pie", "-pthread", "-o", path, SOURCE], check=True)
    return path


def start_of(program: Path, name: str) -> int:
    text = subprocess.run(["objdump", "-t", program], capture_output=True, text=True, check=True).stdout
    match = re.search(rf"^([0-9a-f]+) .* {name}$", text, re.MULTILINE)
    assert match
    return int(match[1], 16)


def text_of(program: list[str], path: Path, *options: str) -> bytes:
    environment = {**os.environ, "PERF_CONFIG": "/dev/null", "LC_ALL": "C"}
    return run([*program, "script", *options, "-i", path], check=True, env=environment).stdout


def broken(samples: list[tuple[int, list[tuple[int, int, int]]]]) -> list[tuple[int, list[tuple[int, int, int]]]]:
    """Return samples with addresses that are wrong, the kernel's, or 0."""
    chance = random.Random(5)

    def off(address: int) -> int:
        return address + chance.choice([0, 0, 0, 0, 1, 3, -8, 70, 0xFFFF_FFFF_8100_0000, -address])

    return [
        (ip + chance.choice([0, 0, 9, -100, 20000]), [(off(at), off(to), flags | chance.choice([0, 4, 8])) for at, to, flags in stack])
        for ip, stack in samples
    ]


@pytest.mark.parametrize("fields", FIELDS)
def test_instructions_between_branches_are_perfs(perf: str, program: Path, tmp_path: Path, fields: str) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(branch_walk.recording(program, start_of(program, "outer"), counters="brcntr" in fields))
    expected = text_of([perf], path, "-F", fields)
    assert expected.count(b"\n") >= 60
    assert text_of(PERFPY, path, "-F", fields) == expected


def test_the_number_of_blocks_is_limited(perf: str, program: Path, tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(branch_walk.recording(program, start_of(program, "outer"), chains=True))
    options = ("-F", "ip,sym,brstackinsn", "--max-blocks", "3")
    assert text_of(PERFPY, path, *options) == text_of([perf], path, *options)


def test_invalid_branch_stacks(perf: str, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sensible = branch_walk.walk
    monkeypatch.setattr(branch_walk, "walk", lambda *asked: broken(sensible(*asked)))
    path = tmp_path / "perf.data"
    path.write_bytes(branch_walk.recording(program, start_of(program, "outer"), 200))
    expected = text_of([perf], path, "-F", "ip,sym,brstackinsn")
    assert b"mismatch of LBR" in expected
    assert text_of(PERFPY, path, "-F", "ip,sym,brstackinsn") == expected


def test_text_of_a_disassembler(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(branch_walk.recording(program, start_of(program, "outer")))
    lines = text_of(PERFPY, path, "-F", "ip,disasm,brstackdisasm").decode().splitlines()
    code = branch_walk.instructions(program)
    output = [re.match(r"\t([0-9a-f]{16})\t(\S+)", line) for line in lines]
    assert sum(1 for result in output if result and code[int(result[1], 16)].jumps == "ret" and result[2].startswith("ret")) > 20
    assert re.match(r" +[0-9a-f]+\t\t\w+", lines[0])


def test_lengths_are_objdumps() -> None:
    library = Path(os.path.realpath(shutil.which("ls") or sys.executable))
    code, content = branch_walk.instructions(library), library.read_bytes()
    assert len(code) > 10_000
    # this program's code lies in the file where its addresses say
    wrong = [one for one in code.values() if length(content[one.at : one.at + one.size]) != one.size]
    assert wrong == []


def without_tip(text: bytes) -> bytes:
    return re.sub(rb"(?m)^# \(Tip: .*\n", b"", text)


@pytest.mark.parametrize("sensible", [True, False])
def test_blocks_and_their_cycles_are_perfs(
    perf: str, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sensible: bool
) -> None:
    walk = branch_walk.walk
    if not sensible:
        monkeypatch.setattr(branch_walk, "walk", lambda *asked: broken(walk(*asked)))
    path = tmp_path / "perf.data"
    path.write_bytes(branch_walk.recording(program, start_of(program, "outer"), 200))
    printed = []
    for command in ([perf], PERFPY):
        line = [*command, "report", "--stdio", "--total-cycles", "-i", str(path)]
        environment = {**os.environ, "PERF_CONFIG": "/dev/null", "LC_ALL": "C"}
        printed.append(without_tip(subprocess.run(line, capture_output=True, check=True, timeout=60, env=environment).stdout))
    assert printed[0].count(b"program.c:9 -> program.c") > 1
    assert printed[1] == printed[0]
