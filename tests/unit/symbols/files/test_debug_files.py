"""Names come only from the file that ran, not from another one at its path."""

from __future__ import annotations

import gzip
import mmap
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from perfpy.symbols.dso import Dso, DsoKind, DsoTable
from perfpy.symbols.files import debug_files
from perfpy.symbols.files.debug_files import DsoFiles, SharedFiles, SymbolOptions, find_debug_module
from tests.builders.elf import ALLOC, EXEC, Elf
from tests.builders.other_users import needs_root

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.untrusted.process_files import FileId


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


# What several recordings have in common is looked for once; what is another build, or of a process that runs, is not.


ID_OF_SHARED_FILES, OTHER = "ab" * 20, "cd" * 20
OPTIONS = SymbolOptions(cache=False)


def program_of_shared_files(path: Path, build_id: str = ID_OF_SHARED_FILES) -> str:
    path.write_bytes(Elf().text().segment(0x1000, 0x1000, 0x1000).symbol("main", 0x1000, 16).build_id(build_id).build())
    return str(path)


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the names that are searched."""
    names: list[str] = []
    find = debug_files.find

    def noting(dso: Dso, *rest: Any, **options: Any) -> debug_files.DsoFiles:
        names.append(dso.name)
        return find(dso, *rest, **options)

    monkeypatch.setattr(debug_files, "find", noting)
    return names


def test_the_same_file_of_two_recordings_is_searched_once(tmp_path: Path, searches: list[str]) -> None:
    path, shared = program_of_shared_files(tmp_path / "program"), SharedFiles()
    results = [shared.find(Dso(path, build_id=ID_OF_SHARED_FILES), OPTIONS, None) for _ in range(2)]
    assert results[0] is results[1]
    assert results[0].symbols is not None
    assert searches == [path]


def test_another_build_or_other_options_are_searched_by_themselves(tmp_path: Path, searches: list[str]) -> None:
    path, shared = program_of_shared_files(tmp_path / "program"), SharedFiles()
    assert shared.find(Dso(path, build_id=ID_OF_SHARED_FILES), OPTIONS, None).symbols
    assert not shared.find(Dso(path, build_id=OTHER), OPTIONS, None).symbols
    assert not shared.find(Dso(path, build_id=ID_OF_SHARED_FILES), OPTIONS._replace(symfs=str(tmp_path)), None).symbols
    assert len(searches) == 3


def test_missing_files_are_searched_once(tmp_path: Path, searches: list[str]) -> None:
    shared, missing_path = SharedFiles(), str(tmp_path / "gone")
    for _ in range(3):
        assert shared.find(Dso(missing_path, build_id=ID_OF_SHARED_FILES), OPTIONS, None).symbols is None
    assert searches == [missing_path]


def test_files_of_one_process_are_not_used_for_another(tmp_path: Path) -> None:
    path = program_of_shared_files(tmp_path / "program")
    with open(path, "rb") as program_file:
        mapped = mmap.mmap(program_file.fileno(), 0, access=mmap.ACCESS_READ)
    os.unlink(path)
    shared, name = SharedFiles(), f"{path} (deleted)"
    dead, alive = Dso(name, build_id=ID_OF_SHARED_FILES), Dso(name, build_id=ID_OF_SHARED_FILES)
    alive.pids.add(os.getpid())
    reached = debug_files.find(alive, OPTIONS).symbols is not None  # by /proc/PID/map_files, which needs privileges
    assert shared.find(dead, OPTIONS, None).symbols is None
    assert (shared.find(alive, OPTIONS, None).symbols is not None) == reached
    mapped.close()


def test_beyond_the_limit_files_are_let_go_and_found_again(tmp_path: Path, searches: list[str]) -> None:
    paths = [program_of_shared_files(tmp_path / name) for name in ("one", "two")]
    shared = SharedFiles(limit=os.path.getsize(paths[0]) + 1)
    for path in [*paths, *paths]:
        assert shared.find(Dso(path, build_id=ID_OF_SHARED_FILES), OPTIONS, None).symbols
    assert searches == [*paths, *paths]


# Files with the debug information of kernel modules: the module's own, or what a distribution put beside it, of the same build.


NAME, ID_OF_MODULE_FILES, OTHER_OF_MODULE_FILES = "/lib/modules/6.1/kernel/fs/some.ko", "ab" * 20, "cd" * 20


def put(root: Path, name: str, *, debug: bool = True, build_id: str = ID_OF_MODULE_FILES) -> None:
    elf = Elf(type=1).section(".text", flags=ALLOC | EXEC, offset=0x400, size=0x100).build_id(build_id)
    data = (elf.section(".debug_info", b"data", flags=0) if debug else elf).build()
    path = root / name.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)


def found(root: Path, name: str = NAME, build_id: str = ID_OF_MODULE_FILES) -> tuple[str, int] | None:
    image = find_debug_module(Dso(name, DsoKind.MODULE, build_id), str(root))
    return (image[0].path.removeprefix(str(root)), image[1]) if image else None


@pytest.mark.parametrize(
    "place", [NAME, f"/usr/lib/debug{NAME}", f"/usr/lib/debug{NAME}.debug", f"/usr/lib/debug/.build-id/ab/{ID_OF_MODULE_FILES[2:]}.debug"]
)
def test_it_is_where_distributions_put_it(tmp_path: Path, place: str) -> None:
    put(tmp_path, NAME, debug=False)
    assert found(tmp_path) is None
    put(tmp_path, place)
    assert found(tmp_path) == (place, -0x400)


def test_modules_may_be_packed(tmp_path: Path) -> None:
    put(tmp_path, f"{NAME}.gz")
    assert found(tmp_path, f"{NAME}.gz") == (f"{NAME}.gz", -0x400)
    (tmp_path / f"{NAME}.gz".lstrip("/")).unlink()
    put(tmp_path, f"/usr/lib/debug{NAME}")
    assert found(tmp_path, f"{NAME}.gz") == (f"/usr/lib/debug{NAME}", -0x400)


def test_files_of_other_builds_do_not_count(tmp_path: Path) -> None:
    put(tmp_path, NAME, build_id=OTHER_OF_MODULE_FILES)
    assert found(tmp_path) is None
    assert found(tmp_path, build_id="") == (NAME, -0x400)


@pytest.mark.parametrize("name", ["[some]", "/lib/../../etc/some.ko", ""])
def test_names_that_are_no_paths_have_none(tmp_path: Path, name: str) -> None:
    put(tmp_path, NAME)
    assert found(tmp_path, name, "") is None


def test_damaged_files_are_passed_over(tmp_path: Path) -> None:
    put(tmp_path, f"/usr/lib/debug{NAME}")
    path = tmp_path / NAME.lstrip("/")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9) + b"\xff" * 100)
    assert found(tmp_path) == (f"/usr/lib/debug{NAME}", -0x400)
