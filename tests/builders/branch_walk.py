"""A recording with branch stacks of a program that was only walked through: no PMU is needed.

Input: a program whose code lies where its symbols say (-no-pie). Output: perf.data with samples whose last branches,
newest first, are jumps, calls and returns that objdump finds there, taken or not by a fixed rule.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfpy.abi import records
from perfpy.abi.flags import BranchSample, SampleType
from perfpy.abi.records import SampleId
from perfpy.perfdata.header import EventDesc, Feature
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

_LINE = re.compile(r"^ *([0-9a-f]+):\s+([0-9a-f ]+?)\s*\t(\S+) *(.*)$")
_HEAD = re.compile(r"^[0-9a-f]+ <([^>]+)>:$")
_TARGET = re.compile(r"^([0-9a-f]+) <")
_STACK = 16
SOURCE = Path(__file__).parents[1] / "versus_perf" / "option_lines" / "program.c"


@dataclass
class Instruction:
    """at: its address; jumps: none, always, maybe, call or ret; to: where it jumps to."""

    at: int
    size: int
    jumps: str
    to: int


def instructions(program: Path) -> dict[int, Instruction]:
    """All of a program's, by address."""
    text = subprocess.run(["objdump", "-dw", str(program)], capture_output=True, text=True, check=True).stdout
    results: dict[int, Instruction] = {}
    for line in text.splitlines():
        match = _LINE.match(line)
        if not match:
            continue
        at, raw, name, operands = int(match[1], 16), match[2].split(), match[3], match[4]
        target = _TARGET.match(operands)
        kind = {"j": "maybe", "c": "call", "r": "ret"}.get(name[0], "") if name.startswith(("j", "call", "ret")) else ""
        if name.startswith("jmp"):
            kind = "always"
        results[at] = Instruction(at, len(raw), kind, int(target[1], 16) if target else 0)
    return results


def start_of(program: Path, name: str) -> int:
    """The address of a function of a program."""
    text = subprocess.run(["objdump", "-t", str(program)], capture_output=True, text=True, check=True).stdout
    match = re.search(rf"^([0-9a-f]+) .* {name}$", text, re.MULTILINE)
    assert match
    return int(match[1], 16)


def walk(code: dict[int, Instruction], start: int, samples: int, step: int = 37) -> list[tuple[int, list[tuple[int, int, int]]]]:
    """(ip, branches) of as many samples: `step` instructions apart."""
    results: list[tuple[int, list[tuple[int, int, int]]]] = []
    at, turn, since = start, 0, 0
    returns: list[int] = []
    branches: list[tuple[int, int, int]] = []
    while len(results) < samples:
        turn += 1
        since += 1
        one = code.get(at)
        if turn % step == 0 and one is not None:
            results.append((at, branches[:_STACK]))
        to = at + one.size if one else 0
        if one is None or (one.jumps in ("always", "call") and one.to not in code) or (one.jumps == "ret" and not returns):
            to = start if one is None or one.jumps != "call" else to  # what is called elsewhere is stepped over
        elif one.jumps == "ret":
            to = returns.pop()
        elif one.jumps in ("always", "call") or (one.jumps == "maybe" and (turn * 2654435761 >> 7) % 3 and one.to in code):
            if one.jumps == "call":
                returns.append(to)
            to = one.to
        if one is None or to != at + one.size:
            flags = (1 if turn % 5 == 0 else 2) | min(since, 60) << 4
            branches = [(at, to, flags), *branches[: _STACK * 2]] if one else []
            since = 0
        at = to
    return results


def recording(program: Path, start: int, samples: int = 60, *, chains: bool = False, counters: bool = False) -> bytes:
    """The walk as a file of perf's."""
    kind = USUAL | SampleType.BRANCH_STACK | SampleType.IDENTIFIER | (SampleType.CALLCHAIN if chains else 0)
    branches = BranchSample.ANY | BranchSample.USER | (BranchSample.COUNTERS if counters else 0)
    attr = usual_attr(kind, type=0, branch_sample_type=branches, mmap=1, comm=1)
    built = PerfDataBuilder(attrs=[attr], ids=[(1,)])
    who = {"pid": 40, "tid": 40, "time": 1_000_000, "identifier": 1}
    built.record(records.Comm(0x2000, 40, 40, "walked", SampleId(**who)))
    code = instructions(program)
    first = min(code) & ~0xFFF
    size = (max(code) + 0x1000 & ~0xFFF) - first
    path = str(program)
    built.record(records.Mmap2(2, 40, 40, first, size, first - 0x400000, 8, 1, 99, 0, 5, 2, path, b"", SampleId(**who)))
    for number, (ip, stack) in enumerate(walk(code, start, samples)):
        chain: dict[str, Any] = {"callchain": [0xFFFFFFFFFFFFFE00, ip, start + 4]} if chains else {}
        chain |= {"branch_counters": [number % 4 for number in range(len(stack))]} if counters else {}
        built.sample(misc=2, ip=ip, pid=40, tid=40, time=2_000_000 + number * 1000, period=1000, branch_stack=stack, **chain)
    if counters:
        built.feature(Feature.CPU_PMU_CAPS, (("branch_counter_nr", "4"), ("branch_counter_width", "2")))
    built.feature(Feature.HOSTNAME, "host").feature(Feature.ARCH, "x86_64").feature(Feature.BRANCH_STACK, b"")
    return built.feature(Feature.EVENT_DESC, (EventDesc(attr, "cycles:u", (1,)),)).file()
