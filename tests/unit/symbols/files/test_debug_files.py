"""What is kept between runs."""

from __future__ import annotations

import errno
import os
import resource
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.symbols.files import debug_files, elf_symbols
from perfpy.symbols.files.debug_files import SymbolCache
from perfpy.symbols.files.elf import ElfFile
from perfpy.symbols.symbol_table import Symbols, SymbolTable, symbols_of_names
from tests.builders.elf import Elf
from tests.builders.other_users import UID, needs_root

if TYPE_CHECKING:
    from pathlib import Path


def table(*names: bytes) -> Symbols:
    start = np.arange(len(names), dtype=np.uint64) * np.uint64(16)
    return symbols_of_names(start, start + np.uint64(16), list(names))


def names(symbols: Symbols) -> list[bytes]:
    text = bytes(symbols.sources[0])
    return [text[at : text.index(b"\0", at)] for at in symbols.name.tolist()]


def test_stored_tables_are_loaded(tmp_path: Path):
    cache = SymbolCache(str(tmp_path / "new" / "folder"))
    joined = table(b"one", b"two").concat(table(b"three"))
    cache.store("key", joined, module=np.array([1, 2, 3]))
    kept = cache.load("key")
    assert kept is not None
    assert names(kept[0]) == [b"one", b"two", b"three"]
    assert kept[0].start.tolist() == joined.start.tolist()
    assert kept[1]["module"].tolist() == [1, 2, 3]
    assert cache.load("other key") is None


def test_a_damaged_file_is_no_answer(tmp_path: Path):
    cache = SymbolCache(str(tmp_path))
    cache.store("key", table(b"one"))
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at])
        assert cache.load("key") is None
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert cache.load("key") is None


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path):
    (tmp_path / "file").write_text("")
    cache = SymbolCache(str(tmp_path / "file" / "below"))
    cache.store("key", table(b"one"))
    assert cache.load("key") is None


def test_the_least_recently_used_go_when_it_is_full(tmp_path: Path):
    cache = SymbolCache(str(tmp_path), limit=1 << 20)
    for key in "abc":
        cache.store(key, table(b"x"))
        os.utime(cache._file(key), (100, 100 + ord(key)))
    assert cache.load("a") is not None  # used now
    size = os.path.getsize(cache._file("a"))
    SymbolCache(str(tmp_path), limit=2 * size).store("a", table(b"x"))
    assert [cache.load(key) is not None for key in "abc"] == [True, False, True]


def test_a_folder_that_can_only_be_read_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cache = SymbolCache(str(tmp_path))
    cache.store("key", table(b"one"))

    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    opened = os.open

    def read_only(path: str, flags: int, *more: int, dir_fd: int | None = None) -> int:
        return refuse() if flags & os.O_CREAT else opened(path, flags, *more, dir_fd=dir_fd)

    monkeypatch.setattr(os, "utime", refuse)
    monkeypatch.setattr(os, "open", read_only)
    cache.store("other", table(b"two"))
    assert cache.load("key") is not None
    assert cache.load("other") is None


def test_a_full_disk_keeps_nothing_and_leaves_nothing(tmp_path: Path):
    cache = SymbolCache(str(tmp_path))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))  # Python ignores the signal: writing fails, as on a full disk
    try:
        cache.store("key", table(*(b"name%d" % number for number in range(10_000))))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []
    assert cache.load("key") is None


def test_leftovers_of_killed_runs_are_removed_later(tmp_path: Path):
    old, new = tmp_path / "tmpold", tmp_path / "tmpnew"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (100, 100))
    SymbolCache(str(tmp_path)).store("key", table(b"one"))
    assert (old.exists(), new.exists()) == (False, True)


def test_runs_at_the_same_time_see_whole_tables_or_none(tmp_path: Path):
    def run(number: int) -> bool:
        cache, mine = SymbolCache(str(tmp_path), limit=3 * size), table(b"%d" % number * (number + 1), b"last")
        for _ in range(20):
            cache.store("key", mine)
            cache.store(f"key {number}", mine)
            for key in ("key", f"key {number}"):
                kept = cache.load(key)
                if kept is not None and names(kept[0])[1] != b"last":
                    return False
        return True

    SymbolCache(str(tmp_path)).store("key", table(b"one"))
    size = next(tmp_path.iterdir()).stat().st_size
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(4)))


def test_no_temporary_files_stay(tmp_path: Path):
    cache = SymbolCache(str(tmp_path))
    for _ in range(3):
        cache.store("key", table(b"one"))
    assert len(list(tmp_path.iterdir())) == 1


# Symbols of big files come from the cache, and only those of the very same file.


ID = "ab" * 20


@pytest.fixture(autouse=True)
def _files_are_big(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug_files, "_BIG", 0)


def written(path: Path, *names: str, build_id: str = ID, table: str = ".symtab") -> ElfFile:
    built = Elf().text().segment(0x1000, 0x1000, 0x1000)
    for number, name in enumerate(names):
        built.symbol(name, 0x1000 + 16 * number, 16, table=table)
    built.symbol("exported", 0x1F00, 16, table=".dynsym")
    path.write_bytes((built.build_id(build_id) if build_id else built).build())
    return ElfFile(str(path))


def cached_names(symbols: Symbols) -> list[bytes]:
    return [SymbolTable(symbols).raw_name(row) for row in range(len(symbols))]


@pytest.mark.parametrize("table", [".symtab", ".dynsym"])
def test_files_are_read_once(tmp_path: Path, table: str, monkeypatch: pytest.MonkeyPatch):
    file, cache = written(tmp_path / "prog", "one", "two", table=table), SymbolCache(str(tmp_path / "cache"))
    first = debug_files.symbols_of(file, file, cache)
    monkeypatch.setattr(elf_symbols, "collect", None)
    second = debug_files.symbols_of(file, file, cache)
    assert cached_names(first) == cached_names(second) == [b"one", b"two", b"exported"]
    for column in ("start", "end", "binding", "type", "source"):
        assert getattr(first, column).tolist() == getattr(second, column).tolist()


def test_the_crc_of_a_large_file_is_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    computed: list[str] = []

    def crc_of(file: ElfFile) -> int:
        computed.append(file.path)
        return 7

    monkeypatch.setattr(debug_files, "crc_of_content", crc_of)
    file, cache = written(tmp_path / "prog.debug", "one"), SymbolCache(str(tmp_path / "cache"))
    assert [debug_files.crc_of(file, cache), debug_files.crc_of(file, cache)] == [7, 7]
    assert len(computed) == 2  # small files are not cached
    monkeypatch.setattr(debug_files, "_SLOW_CRC", 0)
    assert [debug_files.crc_of(file, cache), debug_files.crc_of(file, cache)] == [7, 7]
    assert len(computed) == 3
    os.utime(file.path, (1, 1))
    debug_files.crc_of(file, cache)
    assert len(computed) == 4
    debug_files.crc_of(file, None)
    assert len(computed) == 5


def test_another_file_at_the_path_is_read_anew(tmp_path: Path):
    cache = SymbolCache(str(tmp_path / "cache"))
    for number, name in enumerate(("one", "two", "six")):  # of the same build-id and size
        file = written(tmp_path / "prog", name)
        os.utime(file.path, (number, number))
        assert cached_names(debug_files.symbols_of(file, file, cache))[0] == name.encode()


def test_the_file_that_runs_counts_too(tmp_path: Path):
    cache = SymbolCache(str(tmp_path / "cache"))
    debug, one, other = (written(tmp_path / name, "f", build_id=ID) for name in ("debug", "one", "other"))
    os.utime(other.path, (5, 5))
    for runtime in (one, other, debug):
        debug_files.symbols_of(debug, runtime, cache)
    assert len(list((tmp_path / "cache").iterdir())) == 3


def test_a_file_without_a_build_id_is_known_by_its_inode(tmp_path: Path):
    cache = SymbolCache(str(tmp_path / "cache"))
    for name in ("one", "two"):
        file = written(tmp_path / name, name, build_id="")
        os.utime(file.path, (5, 5))
        for _ in range(2):
            assert cached_names(debug_files.symbols_of(file, file, cache))[0] == name.encode()
    assert len(list((tmp_path / "cache").iterdir())) == 2


@needs_root
def test_a_file_of_another_user_is_not_taken_for_one_of_roots(tmp_path: Path):
    """That user can copy the build-id, the size and the time."""
    false, true = written(tmp_path / "false.so", "false"), written(tmp_path / "true.so", "truth")
    for file in (false, true):
        os.utime(file.path, ns=(0, 0))
    assert debug_files.key_of("elf", false) == debug_files.key_of("elf", true)
    os.chown(false.path, UID, -1)
    assert debug_files.key_of("elf", false) != debug_files.key_of("elf", true)


def test_an_image_in_memory_is_not_cached(tmp_path: Path):
    written(tmp_path / "prog", "f")
    file = ElfFile("[vdso]", (tmp_path / "prog").read_bytes())
    assert cached_names(debug_files.symbols_of(file, file, SymbolCache(str(tmp_path / "cache")))) == [b"f", b"exported"]
    assert not (tmp_path / "cache").exists()


def test_small_files_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(debug_files, "_BIG", 100)
    file = written(tmp_path / "prog", "f")
    debug_files.symbols_of(file, file, SymbolCache(str(tmp_path / "cache")))
    assert not (tmp_path / "cache").exists()
