"""Names that interpreters and JIT compilers give their code, and programs that are gone from their path."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from perfpy.abi.flags import MISC_USER
from perfpy.recording import Recording
from perfpy.symbols import elf_symbols
from perfpy.symbols.address_space import TaskTimeline
from perfpy.symbols.elf import ElfFile
from perfpy.symbols.symbolizer import Symbolizer
from tests.unit.symbols.timeline import Side, mmap

pytestmark = pytest.mark.live

FIB_JS = "function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) } let s = 0; for (let i = 0; i < 12; i++) s += fib(25)"
FIB_PY = "def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\nsum(fib(20) for _ in range(30))"


def recorded_names(folder: Path, *command: str) -> set[str]:
    """The symbols that samples and callchains of a recording of a command hit."""
    path = folder / "perf.data"
    perfpy = [sys.executable, "-m", "perfpy", "record", "-q", "-F", "2000", "-g", "-o", str(path), "--"]
    subprocess.run([*perfpy, *command], check=True, capture_output=True, timeout=120, cwd=folder)
    recording = Recording(str(path))
    symbolizer = recording.symbolizer()
    for batch in recording.data.batches():
        columns = batch.columns
        symbolizer.frame_ids(columns["pid"], columns["ip"], batch.key, columns["cpumode"])
    symbolizer.resolve()
    return {symbolizer.symbols.name(number) for number in range(len(symbolizer.symbols))}


@pytest.mark.skipif(shutil.which("node") is None, reason="no node in PATH")
def test_node_names_its_functions(tmp_path: Path):
    names = recorded_names(tmp_path, "node", "--perf-basic-prof", "-e", FIB_JS)
    assert any("fib" in name and name.startswith("JS:") for name in names)


def python_with_perf_maps() -> str:
    """A Python of 3.12 or newer that can write perf maps, "" where there is none."""
    candidates = [shutil.which(f"python3.{minor}") or "" for minor in (14, 13, 12)]
    candidates += sorted(map(str, (Path.home() / ".pyenv" / "versions").glob("3.1[2-9]*/bin/python")))
    for python in filter(None, candidates):
        done = subprocess.run(
            [python, "-X", "perf", "-c", "import sys; sys.exit(not sys.is_stack_trampoline_active())"], check=False, capture_output=True
        )
        if done.returncode == 0:
            return python
    return ""


def test_the_perf_map_of_python_names_its_functions():
    python = python_with_perf_maps()
    if not python:
        pytest.skip("no Python 3.12 or newer that writes perf maps")
    # callchains through its trampolines need an interpreter with frame pointers: only the map is looked at
    with subprocess.Popen([python, "-X", "perf", "-c", FIB_PY]) as process:
        process.wait(timeout=120)
    path = Path(f"/tmp/perf-{process.pid}.map")
    try:
        line = next(line for line in path.read_text().splitlines() if "py::fib:" in line)
        start, size = (int(number, 16) for number in line.split()[:2])
        symbolizer = Symbolizer(TaskTimeline([Side(mmap(process.pid, start & ~0xFFF, 0x10000, "//anon"), 0)]))
        middle = np.array([start + size // 2], np.uint64)
        symbolizer.frame_ids(np.array([process.pid]), middle, np.array([1], np.uint64), np.array([MISC_USER], np.uint8))
        symbolizer.resolve()
        assert symbolizer.symbols.name(0).startswith("py::fib:")
    finally:
        path.unlink(missing_ok=True)


def test_a_deleted_program_that_still_runs_is_named(tmp_path: Path):
    original = shutil.which("sleep") or "/bin/sleep"
    program = shutil.copy(original, tmp_path / "sleeper")
    with subprocess.Popen([program, "60"]) as process:
        try:
            maps = Path(f"/proc/{process.pid}/maps")
            while str(program) not in maps.read_text():  # until exec is done
                time.sleep(0.001)
            os.unlink(program)
            file = ElfFile(original)
            table = elf_symbols.load(file, file)
            offset = int(table.symbols.start[0])
            source = TaskTimeline([Side(mmap(process.pid, 0x400000, 1 << 24, f"{program} (deleted)"), 0)])
            symbolizer = Symbolizer(source)
            one = np.array([0x400000 + offset], np.uint64)
            symbolizer.frame_ids(np.array([process.pid]), one, np.array([1], np.uint64), np.array([MISC_USER], np.uint8))
            assert symbolizer.resolve().symbol.tolist() == [0]
            assert symbolizer.symbols.name(0) == table.name(0)
        finally:
            process.kill()
