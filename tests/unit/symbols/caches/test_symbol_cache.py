"""What is kept between runs."""

from __future__ import annotations

import errno
import os
import resource
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from perfpy.symbols.caches.symbol_cache import SymbolCache
from perfpy.symbols.symbol_table import Symbols, symbols_of_names

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


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
