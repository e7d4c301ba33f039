"""What is kept between runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from perfpy.symbols.cache import SymbolCache
from perfpy.symbols.symbol_table import Symbols, named

if TYPE_CHECKING:
    from pathlib import Path


def table(*names: bytes) -> Symbols:
    start = np.arange(len(names), dtype=np.uint64) * np.uint64(16)
    return named(start, start + np.uint64(16), list(names))


def names(symbols: Symbols) -> list[bytes]:
    text = bytes(symbols.sources[0])
    return [text[at : text.index(b"\0", at)] for at in symbols.name.tolist()]


def test_what_was_stored_comes_back(tmp_path: Path):
    cache = SymbolCache(str(tmp_path / "new" / "folder"))
    joined = table(b"one", b"two").joined(table(b"three"))
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


def test_no_temporary_files_stay(tmp_path: Path):
    cache = SymbolCache(str(tmp_path))
    for _ in range(3):
        cache.store("key", table(b"one"))
    assert len(list(tmp_path.iterdir())) == 1
