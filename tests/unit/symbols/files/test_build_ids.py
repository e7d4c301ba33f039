"""Build-ids, and files of debug information."""

from __future__ import annotations

import gzip
import mmap
import os
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from perfpy.abi.framing import HeaderBuildId
from perfpy.symbols.dso import Dso, DsoKind, DsoTable
from perfpy.symbols.files import build_ids, debug_files
from perfpy.symbols.files.build_ids import BuildIdCache
from perfpy.symbols.files.debug_files import DsoFiles, SharedFiles, SymbolOptions, find_debug_module
from perfpy.untrusted import files as paths
from tests.builders.elf import ALLOC, EXEC, Elf
from tests.builders.other_users import UID, needs_root

if TYPE_CHECKING:
    from perfpy.untrusted.process_files import FileId


# The cache of files by build-id, in perf's layout.


ID = "ab" * 20


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "bin" / "prog"
    path.parent.mkdir()
    path.write_bytes(Elf().text().symbol("f", 0x1000, 8).build_id(ID).build())
    return str(path)


def test_a_kept_file_lies_where_perf_looks_for_it(tmp_path: Path, program: str):
    cache = BuildIdCache(str(tmp_path / "cache"))
    cache.keep(program, ID)
    link = tmp_path / "cache" / ".build-id" / "ab" / ID[2:]
    assert link.is_symlink()
    assert not os.path.isabs(os.readlink(link))
    assert (link / "elf").read_bytes() == Path(program).read_bytes()
    assert (tmp_path / "cache" / program.lstrip("/") / ID / "elf").exists()
    assert cache.entries() == [(ID, program)]
    assert cache.holds(ID)


def test_an_entry_is_valid_if_its_path_still_has_that_build(tmp_path: Path, program: str):
    cache = BuildIdCache(str(tmp_path / "cache"))
    cache.keep(program, ID)
    cache.keep("[vdso]", "cd" * 20)
    assert cache.valid_entries() == [(ID, program)]
    Path(program).unlink()
    Path(program).write_bytes(Elf().text().build_id("12" * 20).build())
    assert cache.valid_entries() == []
    assert [name for _, name in cache.entries()] == [program, "[vdso]"]


def test_keeping_twice_is_keeping_once(tmp_path: Path, program: str):
    cache = BuildIdCache(str(tmp_path / "cache"))
    for _ in range(2):
        cache.keep(program, ID)
    assert len(cache.entries()) == 1


def test_a_removed_build_is_gone_with_its_files(tmp_path: Path, program: str):
    cache = BuildIdCache(str(tmp_path / "cache"))
    cache.keep(program, ID)
    assert cache.remove(ID)
    assert not cache.remove(ID)
    assert cache.entries() == []
    assert os.path.exists(program)


def test_a_link_to_nowhere_is_mended(tmp_path: Path, program: str):
    cache = BuildIdCache(str(tmp_path / "cache"))
    cache.keep(program, ID)
    (tmp_path / "cache" / program.lstrip("/") / ID / "elf").unlink()
    (tmp_path / "cache" / program.lstrip("/") / ID).rmdir()
    assert not cache.holds(ID)
    cache.keep(program, ID)
    assert cache.holds(ID)


def test_a_damaged_table_keeps_its_valid_entries(tmp_path: Path, program: str):
    cache = BuildIdCache(str(tmp_path / "cache"))
    cache.add([HeaderBuildId(0, -1, b"\1" * 20, "/no/such/file"), HeaderBuildId(0, -1, bytes.fromhex(ID), program)])
    assert cache.entries() == [(ID, program)]


def test_an_empty_or_foreign_folder_has_no_entries(tmp_path: Path):
    assert BuildIdCache(str(tmp_path / "none")).entries() == []
    (tmp_path / ".build-id" / "zz").mkdir(parents=True)
    (tmp_path / ".build-id" / "zz" / "link").symlink_to("/tmp")
    assert BuildIdCache(str(tmp_path)).entries() == []


@pytest.mark.parametrize("name", ["/memfd:x/../../../escaped (deleted)", "/a/../../escaped", "../escaped", "/.build-id/ab/" + ID[2:]])
def test_a_name_that_leads_out_of_the_cache_is_not_kept(tmp_path: Path, program: str, name: str):
    cache = BuildIdCache(str(tmp_path / "deep" / "cache"))
    entries = [HeaderBuildId(0, -1, bytes.fromhex(ID), name), HeaderBuildId(0, -1, bytes.fromhex("cd" * 20), "[vdso]")]
    (refused,) = cache.add(entries, {bytes.fromhex(ID): program})
    assert "cannot be a path" in refused
    assert cache.entries() == [("cd" * 20, "[vdso]")]
    assert {path.name for path in tmp_path.iterdir()} == {"bin", "deep"}
    assert {path.name for path in (tmp_path / "deep").iterdir()} == {"cache"}


def test_the_cache_is_private(tmp_path: Path, program: str):
    before = os.umask(0)
    try:
        cache = BuildIdCache(str(tmp_path / "cache"))
        cache.keep("[kernel.kallsyms]", "ef" * 20)
        cache.keep("[vdso]", "cd" * 20)
        cache.keep(program, ID)
    finally:
        os.umask(before)
    results = [path for path in (tmp_path / "cache").rglob("*") if not path.is_symlink() and path.name != "elf"]
    assert [str(path) for path in results if path.stat().st_mode & 0o077] == []
    assert not (tmp_path / "cache").stat().st_mode & 0o077
    assert {path.name for path in results if path.is_file()} == {"kallsyms", "vdso"}


@needs_root
def test_a_file_that_another_user_could_change_is_copied(tmp_path: Path, program: str):
    cache = BuildIdCache(str(tmp_path / "cache"))
    cache.keep(program, ID)
    assert os.stat(paths.build_id_path(cache.folder, ID, "elf")).st_ino == os.stat(program).st_ino
    cache.remove(ID)
    os.chown(program, UID, -1)
    cache.keep(program, ID)
    status = os.stat(paths.build_id_path(cache.folder, ID, "elf"))
    assert (status.st_ino != os.stat(program).st_ino, status.st_uid, status.st_mode & 0o777) == (True, 0, 0o600)


def test_a_cache_into_which_others_may_write_stays_unchanged(tmp_path: Path, program: str):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    cache = BuildIdCache(str(tmp_path / "cache"))
    (refused,) = cache.add([HeaderBuildId(0, -1, bytes.fromhex(ID), program), HeaderBuildId(0, -1, b"\1" * 20, "[vdso]")])
    assert "others may write in it" in refused
    assert not os.listdir(tmp_path / "cache")


def test_planted_links_are_not_followed(tmp_path: Path, program: str):
    (tmp_path / "victim").mkdir()
    (tmp_path / "cache").mkdir(mode=0o700)
    (tmp_path / "cache" / program.split("/")[1]).symlink_to(tmp_path / "victim")
    cache = BuildIdCache(str(tmp_path / "cache"))
    assert cache.add([HeaderBuildId(0, -1, bytes.fromhex(ID), program)]) == []
    assert not os.listdir(tmp_path / "victim")


@pytest.mark.parametrize("target", ["../../../victim", "../../x/../../victim", "{victim}", "../../planted/victim"])
def test_only_files_of_the_cache_are_removed(tmp_path: Path, target: str):
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").touch()
    index = tmp_path / "cache" / ".build-id" / "ab"
    index.mkdir(parents=True, mode=0o700)
    (tmp_path / "cache" / "planted").symlink_to(tmp_path)
    (index / ID[2:]).symlink_to(target.format(victim=victim))
    (tmp_path / "cache").chmod(0o700)
    (tmp_path / "cache" / ".build-id").chmod(0o700)
    assert BuildIdCache(str(tmp_path / "cache")).remove(ID)
    assert (victim / "file").exists()
    assert not (index / ID[2:]).is_symlink()


def test_a_file_that_is_another_build_by_now_is_not_kept_for_the_old_one(tmp_path: Path, program: str):
    cache = BuildIdCache(str(tmp_path / "cache"))
    with pytest.raises(FileNotFoundError, match="another build"):
        cache.keep(program, "12" * 20)
    assert not cache.holds("12" * 20)


def test_a_fifo_in_the_place_of_a_program_is_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "prog")
    assert BuildIdCache(str(tmp_path / "cache")).add([HeaderBuildId(0, -1, bytes.fromhex(ID), str(tmp_path / "prog"))]) == []


# Build-ids of files, of the kernel's notes, and of this process's vdso.


NOTE_BUILD_ID = bytes(range(20))


def note(name: bytes, kind: int, data: bytes, endian: str = "<") -> bytes:
    def padded(part: bytes) -> bytes:
        return part + bytes(-len(part) % 4)

    return struct.pack(endian + "III", len(name), len(data), kind) + padded(name) + padded(data)


NOTES = note(b"stapsdt\0", 3, b"no") + note(b"GNU\0", 1, b"abi!") + note(b"GNU\0", 3, NOTE_BUILD_ID)


def elf64(endian: str, *, sections: bool) -> bytes:
    """Head, then one program header or one section header, then the notes."""
    ident = b"\x7fELF\x02" + (b"\1" if endian == "<" else b"\2") + b"\1" + bytes(9)
    table, notes_at = 64, 64 + 64
    phoff, shoff = (0, table) if sections else (table, 0)
    head = ident + struct.pack(endian + "HHIQQQIHHHHHH", 3, 62, 1, 0, phoff, shoff, 0, 64, 56, not sections, 64, sections, 0)
    notes = note(b"GNU\0", 3, NOTE_BUILD_ID, endian)
    if sections:
        entry = struct.pack(endian + "IIQQQQIIQQ", 0, 7, 0, 0, notes_at, len(notes), 0, 0, 4, 0)
    else:
        entry = struct.pack(endian + "IIQQQQQQ", 4, 4, notes_at, 0, 0, len(notes), len(notes), 4)
    return head + entry.ljust(64, b"\0") + notes


def elf32() -> bytes:
    ident = b"\x7fELF\x01\x01\x01" + bytes(9)
    notes_at = 52 + 32
    head = ident + struct.pack("<HHIIIIIHHHHHH", 3, 3, 1, 0, 52, 0, 0, 52, 32, 1, 40, 0, 0)
    return head + struct.pack("<IIIIIIII", 4, notes_at, 0, 0, len(NOTES), len(NOTES), 4, 4) + NOTES


@pytest.mark.parametrize(
    "image",
    [elf64("<", sections=False), elf64(">", sections=False), elf64("<", sections=True), elf32()],
    ids=["segments", "big-endian", "sections", "32 bits"],
)
def test_the_id_stands_in_a_gnu_note(image, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(image)
    assert build_ids.of_image(image) == NOTE_BUILD_ID
    assert build_ids.of_file(str(path)) == NOTE_BUILD_ID


@pytest.mark.parametrize("size", [0, 3, 4, 20, 63, 100, 130])
def test_a_cut_file_has_none(size):
    assert build_ids.of_image(elf64("<", sections=False)[:size]) == b""


def test_other_files_have_no_build_id(tmp_path):
    (tmp_path / "text").write_text("#!/bin/sh\n" * 20)
    assert build_ids.of_file(str(tmp_path / "text")) == b""
    assert build_ids.of_file(str(tmp_path)) == b""
    assert build_ids.of_file(str(tmp_path / "nothing")) == b""


def test_the_kernels_notes_are_notes_alone(tmp_path):
    (tmp_path / "notes").write_bytes(NOTES)
    assert build_ids.of_kernel(str(tmp_path / "notes")) == NOTE_BUILD_ID


def test_a_module_has_its_own_build_id(tmp_path):
    folder = tmp_path / "mod" / "notes"
    folder.mkdir(parents=True)
    (folder / ".note.gnu.build-id").write_bytes(NOTES)
    assert build_ids.of_module("mod", str(tmp_path)) == NOTE_BUILD_ID


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the vdso is Linux's")
def test_the_vdso_is_an_elf_image():
    image = build_ids.vdso_image()
    assert not image or image.startswith(b"\x7fELF")


# Names come only from the file that ran, not from another one at its path.


DEBUG_ID, OTHER_ID = "ab" * 20, "cd" * 20


def write(path: Path, symbol: str, build_id: str = "") -> FileId:
    """Write a program beside its path, and rename it; return its identity."""
    built = Elf().text().segment(0x1000, 0x1000, 0x1000).symbol(symbol, 0x1000, 16)
    new = path.with_name("new")
    new.write_bytes((built.build_id(build_id) if build_id else built).build())
    new.replace(path)
    state = path.stat()
    return os.major(state.st_dev), os.minor(state.st_dev), state.st_ino, 0


@pytest.fixture
def program_with_debug_file(tmp_path: Path) -> Path:
    return tmp_path / "prog"


def find(path: Path, identity: FileId | None, *, symfs: str = "", ended: float = 0.0, build_id: str = "", pid: int = -1) -> DsoFiles:
    dso = Dso(str(path), build_id=build_id, identity=identity)
    dso.pids.add(pid)
    return debug_files.find(dso, SymbolOptions(cache=False, symfs=symfs, ended=ended or time.time()))


def test_the_file_that_ran_is_taken(program_with_debug_file: Path):
    files = find(program_with_debug_file, write(program_with_debug_file, "old"))
    assert files.symbols is not None
    assert (files.symbols.path, files.refused) == (str(program_with_debug_file), {})


def test_another_file_at_the_path_is_refused(program_with_debug_file: Path):
    identity = write(program_with_debug_file, "old")
    write(program_with_debug_file, "new", build_id=DEBUG_ID)  # its build-id says nothing about the one that ran
    files = find(program_with_debug_file, identity)
    assert (files.symbols, files.runtime) == (None, None)
    assert list(files.refused) == [str(program_with_debug_file)]
    assert "replaced" in files.refused[str(program_with_debug_file)]


@pytest.mark.parametrize("symfs", ["/", "//"])
def test_symfs_takes_the_file_of_today(program_with_debug_file: Path, symfs: str):
    identity = write(program_with_debug_file, "old")
    write(program_with_debug_file, "new")
    files = find(program_with_debug_file, identity, symfs=symfs)
    assert files.symbols is not None
    assert not files.refused


def test_a_missing_file_is_not_called_replaced(program_with_debug_file: Path):
    identity = write(program_with_debug_file, "old")
    program_with_debug_file.unlink()
    files = find(program_with_debug_file, identity)
    assert (files.symbols, files.refused) == (None, {})


def test_a_file_that_was_changed_in_place_is_named(program_with_debug_file: Path):
    identity = write(program_with_debug_file, "old")
    now = time.time()
    os.utime(program_with_debug_file, (now + 60, now + 60))
    files = find(program_with_debug_file, identity, ended=now)
    assert files.symbols is not None
    assert "modified" in files.refused[str(program_with_debug_file)]


def test_debug_files_of_another_build_do_not_name_the_file_that_ran(program_with_debug_file: Path):
    identity = write(program_with_debug_file, "old")
    write(program_with_debug_file, "new")
    (program_with_debug_file.parent / ".debug").mkdir()
    write(program_with_debug_file.parent / ".debug" / "prog", "new")
    assert find(program_with_debug_file, identity).symbols is None


@needs_root
def test_a_running_process_still_has_the_file(program_with_debug_file: Path, tmp_path: Path):
    """The file is mapped by a process, at another place than code would be."""
    identity = write(program_with_debug_file, "old")
    code = (
        "import mmap, sys; f = open(sys.argv[1], 'rb'); m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ); print(flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(program_with_debug_file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        write(program_with_debug_file, "new")
        files = find(program_with_debug_file, identity, pid=process.pid)
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


def sharing_program(path: Path, build_id: str = ID_OF_SHARED_FILES) -> str:
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
    path, shared = sharing_program(tmp_path / "program"), SharedFiles()
    results = [shared.find(Dso(path, build_id=ID_OF_SHARED_FILES), OPTIONS, None) for _ in range(2)]
    assert results[0] is results[1]
    assert results[0].symbols is not None
    assert searches == [path]


def test_another_build_or_other_options_are_searched_by_themselves(tmp_path: Path, searches: list[str]) -> None:
    path, shared = sharing_program(tmp_path / "program"), SharedFiles()
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
    path = sharing_program(tmp_path / "program")
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
    paths = [sharing_program(tmp_path / name) for name in ("one", "two")]
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
