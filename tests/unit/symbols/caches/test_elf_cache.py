"""Symbols of big files come from the cache, and only those of the very same file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from perfpy.symbols.caches import elf_cache
from perfpy.symbols.caches.symbol_cache import SymbolCache
from perfpy.symbols.files import elf_symbols
from perfpy.symbols.files.elf import ElfFile
from perfpy.symbols.symbol_table import Symbols, SymbolTable
from tests.builders.elf import Elf
from tests.builders.other_users import UID, needs_root

if TYPE_CHECKING:
    from pathlib import Path

ID = "ab" * 20


@pytest.fixture(autouse=True)
def _files_are_big(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elf_cache, "_BIG", 0)


def written(path: Path, *names: str, build_id: str = ID, table: str = ".symtab") -> ElfFile:
    built = Elf().text().segment(0x1000, 0x1000, 0x1000)
    for number, name in enumerate(names):
        built.symbol(name, 0x1000 + 16 * number, 16, table=table)
    built.symbol("exported", 0x1F00, 16, table=".dynsym")
    path.write_bytes((built.build_id(build_id) if build_id else built).build())
    return ElfFile(str(path))


def names(symbols: Symbols) -> list[bytes]:
    return [SymbolTable(symbols).raw_name(row) for row in range(len(symbols))]


@pytest.mark.parametrize("table", [".symtab", ".dynsym"])
def test_files_are_read_once(tmp_path: Path, table: str, monkeypatch: pytest.MonkeyPatch):
    file, cache = written(tmp_path / "prog", "one", "two", table=table), SymbolCache(str(tmp_path / "cache"))
    first = elf_cache.symbols_of(file, file, cache)
    monkeypatch.setattr(elf_symbols, "collect", None)
    second = elf_cache.symbols_of(file, file, cache)
    assert names(first) == names(second) == [b"one", b"two", b"exported"]
    for column in ("start", "end", "binding", "type", "source"):
        assert getattr(first, column).tolist() == getattr(second, column).tolist()


def test_the_crc_of_a_large_file_is_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    computed: list[str] = []

    def crc_of(file: ElfFile) -> int:
        computed.append(file.path)
        return 7

    monkeypatch.setattr(elf_cache, "crc_of_content", crc_of)
    file, cache = written(tmp_path / "prog.debug", "one"), SymbolCache(str(tmp_path / "cache"))
    assert [elf_cache.crc_of(file, cache), elf_cache.crc_of(file, cache)] == [7, 7]
    assert len(computed) == 2  # small files are not cached
    monkeypatch.setattr(elf_cache, "_SLOW_CRC", 0)
    assert [elf_cache.crc_of(file, cache), elf_cache.crc_of(file, cache)] == [7, 7]
    assert len(computed) == 3
    os.utime(file.path, (1, 1))
    elf_cache.crc_of(file, cache)
    assert len(computed) == 4
    elf_cache.crc_of(file, None)
    assert len(computed) == 5


def test_another_file_at_the_path_is_read_anew(tmp_path: Path):
    cache = SymbolCache(str(tmp_path / "cache"))
    for number, name in enumerate(("one", "two", "six")):  # of the same build-id and size
        file = written(tmp_path / "prog", name)
        os.utime(file.path, (number, number))
        assert names(elf_cache.symbols_of(file, file, cache))[0] == name.encode()


def test_the_file_that_runs_counts_too(tmp_path: Path):
    cache = SymbolCache(str(tmp_path / "cache"))
    debug, one, other = (written(tmp_path / name, "f", build_id=ID) for name in ("debug", "one", "other"))
    os.utime(other.path, (5, 5))
    for runtime in (one, other, debug):
        elf_cache.symbols_of(debug, runtime, cache)
    assert len(list((tmp_path / "cache").iterdir())) == 3


def test_a_file_without_a_build_id_is_known_by_its_inode(tmp_path: Path):
    cache = SymbolCache(str(tmp_path / "cache"))
    for name in ("one", "two"):
        file = written(tmp_path / name, name, build_id="")
        os.utime(file.path, (5, 5))
        for _ in range(2):
            assert names(elf_cache.symbols_of(file, file, cache))[0] == name.encode()
    assert len(list((tmp_path / "cache").iterdir())) == 2


@needs_root
def test_a_file_of_another_user_is_not_taken_for_one_of_roots(tmp_path: Path):
    """That user can copy the build-id, the size and the time."""
    false, true = written(tmp_path / "false.so", "false"), written(tmp_path / "true.so", "truth")
    for file in (false, true):
        os.utime(file.path, ns=(0, 0))
    assert elf_cache.key_of("elf", false) == elf_cache.key_of("elf", true)
    os.chown(false.path, UID, -1)
    assert elf_cache.key_of("elf", false) != elf_cache.key_of("elf", true)


def test_an_image_in_memory_is_not_cached(tmp_path: Path):
    written(tmp_path / "prog", "f")
    file = ElfFile("[vdso]", (tmp_path / "prog").read_bytes())
    assert names(elf_cache.symbols_of(file, file, SymbolCache(str(tmp_path / "cache")))) == [b"f", b"exported"]
    assert not (tmp_path / "cache").exists()


def test_small_files_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(elf_cache, "_BIG", 100)
    file = written(tmp_path / "prog", "f")
    elf_cache.symbols_of(file, file, SymbolCache(str(tmp_path / "cache")))
    assert not (tmp_path / "cache").exists()
