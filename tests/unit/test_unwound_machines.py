"""Recordings of other architectures: every chain is one that the program can have made, and no shorter than perf's there."""

from __future__ import annotations

import lzma
import os
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from perfpy.analysis.stacks import StackOptions
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions

HERE: Final = Path(__file__).parent / "unwind" / "machines"
MACHINES: Final = sorted(path.name.removesuffix(".perf.txt") for path in HERE.glob("*.perf.txt"))
#: where signal handlers return to, the latter in 32-bit Arm programs
KERNELS: Final = {"[vdso]", "[sigpage]", "[unknown]"}
#: callers of each function; a signal interrupts anything
CALLERS: Final = {
    "leaf": {"many_registers", "rounds", "on_signal", *KERNELS},
    "many_registers": {"dynamic"},
    "dynamic": {"down", "rounds"},
    "down": {"down", "rounds", "silent"},
    "silent": {"rounds"},
    "rounds": {"_start"},
    "on_signal": KERNELS,
    "call": {"_start"},
}
#: share of chains that end in _start: others are cut (a signal's frame is larger than the copy of the stack), or in code that says nothing
WHOLE: Final = {"arm": 0.25, "s390x": 0.05}


def chains(name: str, folder: Path) -> list[list[str]]:
    """The callchain of each sample: functions, innermost first."""
    (folder / "tmp/c").mkdir(parents=True, exist_ok=True)
    (folder / "tmp/c" / name).write_bytes((HERE / name).read_bytes())
    path = folder / f"{name}.data"
    path.write_bytes(lzma.decompress((HERE / f"{name}.data.xz").read_bytes()))
    with Recording(os.fspath(path)) as recording:
        (part,) = recording.stacks(SymbolOptions(symfs=os.fspath(folder), cache=False), StackOptions(timed=True))
    assert part.timed is not None
    names = [function.name.split(".")[0] for function in part.functions]
    names = ["[vdso]" if function.dso == "[vdso]" else name for name, function in zip(names, part.functions, strict=True)]
    return [[names[function] for function in part.chain_of(number)] for number in part.timed.chain.tolist()]


@pytest.fixture(scope="module")
def unwound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[str]]]:
    """The chains of every machine."""
    return {name: chains(name, tmp_path_factory.mktemp("machines")) for name in MACHINES}


def test_there_are_machines_of_all_architectures() -> None:
    assert {"arm", "arm-debug-frame", "arm64", "arm64-signed", "ppc64le", "riscv64", "s390x"} == set(MACHINES)


@pytest.mark.parametrize("name", MACHINES)
def test_every_caller_calls_the_function_below_it(name: str, unwound: dict[str, list[list[str]]]) -> None:
    for chain in unwound[name]:
        for function, caller in pairwise(chain):
            assert function in {"_start", *KERNELS} or caller in CALLERS[function], chain


@pytest.mark.parametrize("name", MACHINES)
def test_chains_reach_the_programs_start(name: str, unwound: dict[str, list[list[str]]]) -> None:
    reached = sum("_start" in chain for chain in unwound[name])
    assert reached >= WHOLE.get(name, 0.8) * len(unwound[name])
    cut = [chain for chain in unwound[name] if "_start" not in chain]
    # those of deep recursion are longer than the copy of the stack on s390x
    assert not [chain for chain in cut if chain[-1] != "silent" and not KERNELS.intersection(chain) and chain.count("down") < 6]


@pytest.mark.parametrize("name", MACHINES)
def test_no_chain_is_shorter_than_perfs_on_that_machine(name: str, unwound: dict[str, list[list[str]]]) -> None:
    """perf repeats the last frame where it is lost."""
    perfs = [line.split() for line in (HERE / f"{name}.perf.txt").read_text().splitlines()]
    assert len(perfs) == len(unwound[name])
    for ours, theirs in zip(unwound[name], perfs, strict=True):
        expected_functions = theirs[:-1] if len(theirs) > 1 and (theirs[-1] == theirs[-2] or theirs[-1] == "[unknown]") else theirs
        expected_functions = [function for function in expected_functions if function != "[unknown]"]
        assert ours[: len(expected_functions)] == expected_functions
