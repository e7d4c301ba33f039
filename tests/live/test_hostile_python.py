"""record --python of a program that lies about itself: names of 10 GB, endless lists, memory that is not there or never comes."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.builders.prepared_start import PERFPY, output_of
from tests.builders.pythons import interpreter

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.particular]

VERSION = "3.12"
HONEST = """
import ctypes, os, sys, time
def word(address): return ctypes.c_uint64.from_address(address)
def spin(n):
    x = 1
    for _ in range(n): x = (x * 1103515245 + 12345) & 0x7fffffff
def honest(): spin(3000)
def liar(): spin(3000)
QUALNAME, LINES = 128, 136  # of a code object
"""
LOOP = """
print("ready", flush=True)
end = time.time() + 60
while time.time() < end: honest(); liar()
"""
#: what a program does to its own memory
LIES = {
    "a name of 10 GB": "word(word(id(liar.__code__) + QUALNAME).value + 16).value = 10 << 30",
    "a line table of 1 TB": "word(word(id(liar.__code__) + LINES).value + 16).value = 1 << 40",
    "a name that is not there": "word(id(liar.__code__) + QUALNAME).value = 0x123450",
    "a name that is no text": "word(id(liar.__code__) + QUALNAME).value = id(liar)",
    # the thread states of 3.12 are linked at 8
    "threads without an end": """
get = ctypes.pythonapi.PyThreadState_Get; get.restype = ctypes.c_void_p
word(get() + 8).value = get()
""",
    # a last holder of the lock that is not there: of the interpreter's state (at 16), whose lock is at 384
    "a lock that nobody holds": """
get = ctypes.pythonapi.PyThreadState_Get; get.restype = ctypes.c_void_p
word(word(word(get() + 16).value + 384).value + 8).value = 0x123450
""",
    # a page that userfaultfd watches: who reads it waits for ever
    "a name that never comes": """
import fcntl, mmap, struct
libc = ctypes.CDLL(None, use_errno=True)
fault = libc.syscall(323, os.O_CLOEXEC | os.O_NONBLOCK)
assert fault >= 0
fcntl.ioctl(fault, 0xC018AA3F, bytearray(struct.pack("QQQ", 0xAA, 0, 0)))
page = mmap.mmap(-1, 1 << 16)
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
fcntl.ioctl(fault, 0xC020AA00, bytearray(struct.pack("QQQQ", address, 1 << 16, 1, 0)))
word(id(liar.__code__) + QUALNAME).value = address
""",
}
LONGEST = 300  # seconds: the machine may be busy
MOST_MEMORY = 700 << 20


@pytest.fixture(scope="module")
def python() -> str:
    program = interpreter(VERSION)
    if not program:
        pytest.skip(f"no Python {VERSION} on this machine")
    return program


def recorded(folder: Path, python: str, lie: str) -> subprocess.CompletedProcess[str]:
    """Record a program that lies, for a second."""
    (folder / "program.py").write_text(HONEST + lie + LOOP)
    with subprocess.Popen([python, "program.py"], cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            words = ["record", "--python", "-o", "perf.data", "-e", "cpu-clock", "-F", "999", "-p", str(process.pid), "--", "sleep", "1"]
            return subprocess.run(
                [sys.executable, "-m", "perfpy", *words],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=LONGEST,
                check=False,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY * 3, MOST_MEMORY * 3)),
            )
        finally:
            process.kill()


def shares(folder: Path) -> dict[str, float]:
    command = [*PERFPY, "report", "--stdio", "-s", "pyfunc", "--children", "-g", "none", "--percent-limit", "0"]
    text = output_of(command, cwd=folder, timeout=LONGEST)
    return {match[2]: float(match[1]) for match in re.finditer(r"^ +([\d.]+)% +[\d.]+%  (\S.*?) \S*program\.py *$", text, re.MULTILINE)}


@pytest.mark.parametrize("lie", [lie for lie in LIES if lie != "a name that never comes"])
@pytest.mark.thorough
def test_false_memory_costs_only_its_own_processes_frames(lie: str, python: str, tmp_path: Path):
    result = recorded(tmp_path, python, LIES[lie])
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr
    assert re.search(r"\d+ functions in \d+ of \d+ samples of Python code", result.stderr)
    actual_shares = shares(tmp_path)
    assert actual_shares["honest"] == pytest.approx(50, abs=15)
    assert actual_shares["spin"] > 60
    assert (tmp_path / "perf.data").stat().st_size < 16 << 20


@pytest.mark.thorough
def test_memory_that_never_comes_blocks_nothing(python: str, tmp_path: Path):
    """The reader waits for it; the recorder does not wait for the reader, and ends it."""
    began = time.monotonic()
    result = recorded(tmp_path, python, LIES["a name that never comes"])
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr
    assert time.monotonic() - began < LONGEST
    text = output_of([*PERFPY, "script", "-F", "ip,sym"], cwd=tmp_path, timeout=LONGEST)
    samples = text.strip().split("\n\n")
    assert sum("_PyEval_EvalFrameDefault" in sample for sample in samples) > 0.9 * len(samples) > 10


def test_processes_whose_memory_may_not_be_read_are_reported(tmp_path: Path, python: str):
    """A program that is no Python, though its library is called so."""
    (tmp_path / "libpython3.12.so.1.0").write_bytes(b"\x7fELF" + bytes(4096))
    lie = f"""
import mmap
file = open({str(tmp_path / "libpython3.12.so.1.0")!r}, "rb"); lied = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
"""
    result = recorded(tmp_path, python, lie)
    assert result.returncode == 0, result.stderr
    assert shares(tmp_path)["liar"] == pytest.approx(50, abs=15)
