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
from perfpy.symbols.files import elf_symbols
from perfpy.symbols.files.elf import ElfFile
from perfpy.symbols.symbolizer import Symbolizer
from tests.builders.pythons import interpreter
from tests.builders.timeline import mmap, timeline

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
    candidates = [interpreter(f"3.{minor}") for minor in (14, 13, 12)]
    for python in filter(None, candidates):
        process = subprocess.run(
            [python, "-X", "perf", "-c", "import sys; sys.exit(not sys.is_stack_trampoline_active())"], check=False, capture_output=True
        )
        if process.returncode == 0:
            return python
    return ""


@pytest.mark.particular
def test_the_perf_map_of_python_names_its_functions():
    python = python_with_perf_maps()
    if not python:
        pytest.skip("no Python 3.12 or newer that writes perf maps on this machine")
    # callchains through its trampolines need an interpreter with frame pointers: only the map is looked at
    with subprocess.Popen([python, "-X", "perf", "-c", FIB_PY]) as process:
        process.wait(timeout=120)
    path = Path(f"/tmp/perf-{process.pid}.map")
    try:
        line = next(line for line in path.read_text().splitlines() if "py::fib:" in line)
        start, size = (int(number, 16) for number in line.split()[:2])
        symbolizer = Symbolizer(timeline((0, mmap(process.pid, start & ~0xFFF, 0x10000, "//anon"))))
        middle = np.array([start + size // 2], np.uint64)
        symbolizer.frame_ids(np.array([process.pid]), middle, np.array([1], np.uint64), np.array([MISC_USER], np.uint8))
        symbolizer.resolve()
        assert symbolizer.symbols.name(0).startswith("py::fib:")
    finally:
        path.unlink(missing_ok=True)


def first_symbol(name: str, original: str, pid: int) -> tuple[str, str]:
    """The name of a program's first symbol, and the one found for it in a mapping of that name in a process that runs."""
    file = ElfFile(original)
    table = elf_symbols.load(file, file)
    symbolizer = Symbolizer(timeline((0, mmap(pid, 0x400000, 1 << 24, name))))
    one = np.array([0x400000 + int(table.symbols.start[0])], np.uint64)
    symbolizer.frame_ids(np.array([pid]), one, np.array([1], np.uint64), np.array([MISC_USER], np.uint8))
    symbol = int(symbolizer.resolve().symbol[0])
    return table.name(0), symbolizer.symbols.name(symbol) if symbol >= 0 else "-"


def until_mapped(process: subprocess.Popen[bytes], name: str) -> None:
    """Wait until exec is done."""
    maps, late = Path(f"/proc/{process.pid}/maps"), time.monotonic() + 60
    while name not in maps.read_text() and time.monotonic() < late:
        time.sleep(0.001)


def test_a_deleted_program_that_still_runs_is_named(tmp_path: Path):
    original = shutil.which("sleep") or "/bin/sleep"
    program = shutil.copy(original, tmp_path / "sleeper")
    with subprocess.Popen([program, "60"]) as process:
        try:
            until_mapped(process, str(program))
            os.unlink(program)
            expected, result = first_symbol(f"{program} (deleted)", original, process.pid)
            assert result == expected
        finally:
            process.kill()


def test_a_recording_keeps_a_program_that_was_deleted_while_it_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    program, data = shutil.copy(shutil.which("bash") or "/bin/sh", tmp_path / "shell"), str(tmp_path / "perf.data")
    with subprocess.Popen([program, "-c", "while :; do :; done"]) as process:
        try:
            until_mapped(process, str(program))
            os.unlink(program)
            perfpy = [sys.executable, "-m", "perfpy", "record", "-q", "-F", "999", "-p", str(process.pid), "-o", data]
            subprocess.run([*perfpy, "--", "sleep", "0.5"], check=True, capture_output=True, timeout=60)
        finally:
            process.kill()
    recording = Recording(data)
    symbolizer = recording.symbolizer()
    for batch in recording.data.batches():
        symbolizer.frame_ids(batch.columns["pid"], batch.columns["ip"], batch.key, batch.columns["cpumode"])
    symbolizer.resolve()
    dsos = {symbolizer.dsos[symbolizer.symbols.dso(number)].name for number in range(len(symbolizer.symbols))}
    assert f"{program} (deleted)" in dsos


def test_the_name_of_a_program_in_memory_does_not_lead_out_of_the_build_id_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Whoever may run programs chooses that name, and root may be the one who records."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    memory = os.memfd_create(f"x/../../..{'/..' * len(home.parts)}{tmp_path}/escaped", 0)
    os.write(memory, Path(shutil.which("bash") or "/bin/sh").read_bytes())
    with subprocess.Popen([f"/proc/self/fd/{memory}", "-c", "while :; do :; done"], pass_fds=[memory]) as process:
        try:
            until_mapped(process, "memfd:x")
            perfpy = [sys.executable, "-m", "perfpy", "record", "-F", "999", "-p", str(process.pid), "-o", str(tmp_path / "perf.data")]
            run = subprocess.run([*perfpy, "--", "sleep", "0.5"], check=True, capture_output=True, text=True, timeout=60)
        finally:
            process.kill()
            os.close(memory)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("escaped")] == []
    assert run.stderr.count("cannot be a path: it leads out of its folder; not kept in the build-id cache") == 1
    assert (home / ".debug").is_dir()  # of the others there are some


def test_a_program_in_memory_that_still_runs_is_named():
    original = shutil.which("sleep") or "/bin/sleep"
    memory = os.memfd_create("sleeper", 0)
    os.write(memory, Path(original).read_bytes())
    with subprocess.Popen([f"/proc/self/fd/{memory}", "60"], pass_fds=[memory]) as process:
        try:
            until_mapped(process, "memfd:sleeper")
            expected, result = first_symbol("/memfd:sleeper (deleted)", original, process.pid)
            assert result == expected
        finally:
            process.kill()


@pytest.fixture
def container() -> None:
    """Skips where mounts of a process's own are not allowed."""
    if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], check=False, capture_output=True).returncode:
        pytest.skip("not allowed to make a mount namespace")


@pytest.mark.particular
@pytest.mark.usefixtures("container")
def test_a_program_of_a_container_is_read_through_its_root(tmp_path: Path):
    original = shutil.which("sleep") or "/bin/sleep"
    inside = tmp_path / "sleeper"
    script = f"mount -t tmpfs none {tmp_path} && cp {original} {inside} && exec {inside} 60"
    with subprocess.Popen(["unshare", "-m", "sh", "-c", script]) as process:
        try:
            until_mapped(process, str(inside))
            assert not inside.exists()
            expected, result = first_symbol(str(inside), original, process.pid)
            assert result == expected
        finally:
            process.kill()


@pytest.mark.particular
@pytest.mark.usefixtures("container")
def test_the_perf_map_of_a_container_is_under_the_pid_that_is_known_there():
    script = "mount -t tmpfs none /tmp && echo 7000 40 inside > /tmp/perf-1.map && exec sleep 60"
    with subprocess.Popen(["unshare", "-m", "-p", "-f", "sh", "-c", script]) as outer:
        children, late = Path(f"/proc/{outer.pid}/task/{outer.pid}/children"), time.monotonic() + 60
        while not (child := children.read_text().strip()) and time.monotonic() < late:
            time.sleep(0.001)
        try:
            while "sleep" not in Path(f"/proc/{child}/comm").read_text() and time.monotonic() < late:
                time.sleep(0.001)
            symbolizer = Symbolizer(timeline((0, mmap(int(child), 0x7000, 0x1000, "//anon"))))
            address, key = np.array([0x7010], np.uint64), np.array([1], np.uint64)
            symbolizer.frame_ids(np.array([int(child)]), address, key, np.array([MISC_USER], np.uint8))
            symbolizer.resolve()
            assert symbolizer.symbols.name(0) == "inside"
        finally:
            os.kill(int(child), 9)
