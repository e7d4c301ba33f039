"""Names come only from the file that ran, not from another one at its path."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from perfpy.symbols.dso import Dso, DsoKind, DsoTable
from perfpy.symbols.files import debug_files
from perfpy.symbols.files.debug_files import DsoFiles, SymbolOptions
from tests.builders.elf import Elf
from tests.builders.other_users import needs_root

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.untrusted.identified_file import FileId

ID, OTHER_ID = "ab" * 20, "cd" * 20


def write(path: Path, symbol: str, build_id: str = "") -> FileId:
    """Write a program beside its path, and rename it; return its identity."""
    built = Elf().text().segment(0x1000, 0x1000, 0x1000).symbol(symbol, 0x1000, 16)
    new = path.with_name("new")
    new.write_bytes((built.build_id(build_id) if build_id else built).build())
    new.replace(path)
    state = path.stat()
    return os.major(state.st_dev), os.minor(state.st_dev), state.st_ino, 0


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return tmp_path / "prog"


def find(path: Path, identity: FileId | None, *, symfs: str = "", ended: float = 0.0, build_id: str = "", pid: int = -1) -> DsoFiles:
    dso = Dso(str(path), build_id=build_id, identity=identity)
    dso.pids.add(pid)
    return debug_files.find(dso, SymbolOptions(cache=False, symfs=symfs, ended=ended or time.time()))


def test_the_file_that_ran_is_taken(program: Path):
    files = find(program, write(program, "old"))
    assert files.symbols is not None
    assert (files.symbols.path, files.refused) == (str(program), {})


def test_another_file_at_the_path_is_refused(program: Path):
    identity = write(program, "old")
    write(program, "new", build_id=ID)  # its build-id says nothing about the one that ran
    files = find(program, identity)
    assert (files.symbols, files.runtime) == (None, None)
    assert list(files.refused) == [str(program)]
    assert "replaced" in files.refused[str(program)]


@pytest.mark.parametrize("symfs", ["/", "//"])
def test_symfs_takes_the_file_of_today(program: Path, symfs: str):
    identity = write(program, "old")
    write(program, "new")
    files = find(program, identity, symfs=symfs)
    assert files.symbols is not None
    assert not files.refused


def test_a_missing_file_is_not_called_replaced(program: Path):
    identity = write(program, "old")
    program.unlink()
    files = find(program, identity)
    assert (files.symbols, files.refused) == (None, {})


def test_a_file_that_was_changed_in_place_is_named(program: Path):
    identity = write(program, "old")
    now = time.time()
    os.utime(program, (now + 60, now + 60))
    files = find(program, identity, ended=now)
    assert files.symbols is not None
    assert "modified" in files.refused[str(program)]


def test_debug_files_of_another_build_do_not_name_the_file_that_ran(program: Path):
    identity = write(program, "old")
    write(program, "new")
    (program.parent / ".debug").mkdir()
    write(program.parent / ".debug" / "prog", "new")
    assert find(program, identity).symbols is None


@needs_root
def test_a_running_process_still_has_the_file(program: Path, tmp_path: Path):
    """The file is mapped by a process, at another place than code would be."""
    identity = write(program, "old")
    code = (
        "import mmap, sys; f = open(sys.argv[1], 'rb'); m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ); print(flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        write(program, "new")
        files = find(program, identity, pid=process.pid)
        process.communicate(b"\n", timeout=30)
    assert files.symbols is not None
    assert files.symbols.path.startswith(f"/proc/{process.pid}/map_files/")
    assert not files.refused


def numbers(*identities: FileId) -> list[int]:
    table = DsoTable(by_identity=True)
    return [table.id_of("/bin/a", DsoKind.FILE, "", identity) for identity in identities]


def test_files_with_one_name_are_told_apart_by_device_inode_and_generation():
    assert numbers((8, 1, 5, 7), (8, 1, 6, 7), (8, 2, 5, 7), (8, 1, 5, 8), (8, 1, 5, 7)) == [0, 1, 2, 3, 0]


def test_a_synthesized_mapping_has_no_generation_and_is_the_first_file_of_its_inode():
    assert numbers((8, 1, 5, 0), (8, 1, 5, 7), (8, 1, 5, 9), (8, 1, 5, 0)) == [0, 0, 1, 0]
    table = DsoTable(by_identity=True)
    for generation in (0, 7):
        table.id_of("/bin/a", DsoKind.FILE, "", (8, 1, 5, generation))
    assert table.dsos[0].identity == (8, 1, 5, 7)
