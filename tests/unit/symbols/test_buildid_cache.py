"""The cache of files by build-id, in perf's layout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perfpy.abi.build_ids import HeaderBuildId
from perfpy.symbols.buildid_cache import BuildIdCache
from tests.builders.elf import Elf

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


def test_valid_entries_are_those_whose_path_still_has_that_build(tmp_path: Path, program: str):
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


def test_a_recordings_table_keeps_what_it_can(tmp_path: Path, program: str):
    cache = BuildIdCache(str(tmp_path / "cache"))
    cache.add([HeaderBuildId(0, -1, b"\1" * 20, "/no/such/file"), HeaderBuildId(0, -1, bytes.fromhex(ID), program)])
    assert cache.entries() == [(ID, program)]


def test_an_empty_or_foreign_folder_has_no_entries(tmp_path: Path):
    assert BuildIdCache(str(tmp_path / "none")).entries() == []
    (tmp_path / ".build-id" / "zz").mkdir(parents=True)
    (tmp_path / ".build-id" / "zz" / "link").symlink_to("/tmp")
    assert BuildIdCache(str(tmp_path)).entries() == []
