"""The cache of files by build-id, in perf's layout."""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

import pytest

from perfpy.abi.framing import HeaderBuildId
from perfpy.symbols.files import build_ids
from perfpy.symbols.files.build_ids import BuildIdCache
from perfpy.untrusted import paths
from tests.builders.elf import Elf
from tests.builders.other_users import UID, needs_root

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


ID_OF_BUILD_ID_NOTES = bytes(range(20))


def note(name: bytes, kind: int, data: bytes, endian: str = "<") -> bytes:
    def padded(part: bytes) -> bytes:
        return part + bytes(-len(part) % 4)

    return struct.pack(endian + "III", len(name), len(data), kind) + padded(name) + padded(data)


NOTES = note(b"stapsdt\0", 3, b"no") + note(b"GNU\0", 1, b"abi!") + note(b"GNU\0", 3, ID_OF_BUILD_ID_NOTES)


def elf64(endian: str, *, sections: bool) -> bytes:
    """Head, then one program header or one section header, then the notes."""
    ident = b"\x7fELF\x02" + (b"\1" if endian == "<" else b"\2") + b"\1" + bytes(9)
    table, notes_at = 64, 64 + 64
    phoff, shoff = (0, table) if sections else (table, 0)
    head = ident + struct.pack(endian + "HHIQQQIHHHHHH", 3, 62, 1, 0, phoff, shoff, 0, 64, 56, not sections, 64, sections, 0)
    notes = note(b"GNU\0", 3, ID_OF_BUILD_ID_NOTES, endian)
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
    assert build_ids.of_image(image) == ID_OF_BUILD_ID_NOTES
    assert build_ids.of_file(str(path)) == ID_OF_BUILD_ID_NOTES


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
    assert build_ids.of_kernel(str(tmp_path / "notes")) == ID_OF_BUILD_ID_NOTES


def test_a_module_has_its_own_build_id(tmp_path):
    folder = tmp_path / "mod" / "notes"
    folder.mkdir(parents=True)
    (folder / ".note.gnu.build-id").write_bytes(NOTES)
    assert build_ids.of_module("mod", str(tmp_path)) == ID_OF_BUILD_ID_NOTES


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the vdso is Linux's")
def test_the_vdso_is_an_elf_image():
    image = build_ids.vdso_image()
    assert not image or image.startswith(b"\x7fELF")
