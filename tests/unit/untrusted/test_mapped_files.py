"""Files that are truncated while a command reads them: a recording ends the command with a line, the rest of other files is zeros."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.builders.elf import Elf
from tests.builders.perfdata import PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 4096
STACKS = 1 << 13 | 1 << 12 | 1 << 5 | 0x187  # STACK_USER, REGS_USER, CALLCHAIN; IP, TID, TIME, CPU, PERIOD
# the file is cut after a chunk of it was mapped
CUT = """
import os, sys
from perfpy.perfdata.source import ByteSource
mapped = ByteSource.map_bytes
def and_cut(source, offset, size):
    found = mapped(source, offset, size)
    os.truncate(source.path, 4096)
    return found
ByteSource.map_bytes = and_cut
from perfpy.cli import main
sys.exit(main())
"""
# another file is
OTHER = """
import mmap, os, sys
from perfpy.untrusted.mapped_files import unwatch, watch
whole, cut = (os.open(name, os.O_RDWR) for name in sys.argv[1:3])
watch(whole, "whole")
if sys.argv[3] == "unwatched":
    watch(cut, "cut")
    unwatch(cut)
    unwatch(whole)
memory = mmap.mmap(cut, 0)
os.ftruncate(cut, 0)
memory[0]
"""


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    built = PerfDataBuilder([usual_attr(STACKS, sample_regs_user=0x1C0, sample_stack_user=SIZE)])
    for time in range(20):
        registers: dict[str, Any] = {"user_regs": [0, 0x7000, 0x1000], "user_regs_abi": 2}
        built.sample(time=1000 + time, pid=7, tid=7, ip=0x1000, misc=2, callchain=[], user_stack=bytes(SIZE), **registers)
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    return path


def ran(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("command", [["script"], ["report", "--stdio"]])
def test_a_recording_truncated_during_reading_is_reported_in_a_line(recording: Path, command: list[str]):
    result = ran(CUT, *command, "-i", str(recording))
    assert (result.returncode, result.stderr) == (255, f"{recording}: the file was cut while it was read\n")


@pytest.mark.parametrize("how", ["other", "unwatched"])
def test_other_bus_errors_keep_their_effect(tmp_path: Path, how: str):
    for name in ("whole", "cut"):
        (tmp_path / name).write_bytes(bytes(1 << 13))
    result = ran(OTHER, str(tmp_path / "whole"), str(tmp_path / "cut"), how)
    assert (result.returncode, result.stderr) == (-signal.SIGBUS, "")


# a library of another user is, after it was mapped
GUARDED = """
import gc, mmap, os, sys
from perfpy.untrusted.mapped_files import map_file
fd = os.open(sys.argv[1], os.O_RDWR)
calls = []
mapped = map_file(fd, lambda: calls.append(1))
os.ftruncate(fd, 5000)
print(set(mapped[:5000]), set(mapped[8192:]), len(mapped), len(calls))
if sys.argv[2] == "freed":
    start = mapped._start
    del mapped
    os.ftruncate(fd, 1 << 14)
    other = mmap.mmap(fd, 0)
    os.ftruncate(fd, 0)
    other[0]
"""


def test_the_missing_part_of_a_guarded_file_is_zeros(tmp_path: Path):
    (tmp_path / "library").write_bytes(b"x" * (1 << 14))
    result = ran(GUARDED, str(tmp_path / "library"), "kept")
    assert (result.returncode, result.stderr, result.stdout) == (0, "", "{120} {0} 16384 1\n")


def test_a_mapping_is_guarded_while_it_exists(tmp_path: Path):
    (tmp_path / "library").write_bytes(b"x" * (1 << 14))
    assert ran(GUARDED, str(tmp_path / "library"), "freed").returncode == -signal.SIGBUS


ELF = """
import os, shutil, sys
from perfpy.symbols.files.elf import ElfFile
file = ElfFile(sys.argv[1])
os.truncate(sys.argv[1], 4096)
print(*sorted(set(bytes(file.data(file.section("content"))))), file.flaws)
"""


def test_a_library_truncated_during_reading_is_reported_as_a_flaw(tmp_path: Path):
    library = tmp_path / "library.so"
    library.write_bytes(Elf().section("content", b"x" * (1 << 14)).build())
    result = ran(ELF, str(library))
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "0 120 ['truncated while it was read']\n"
