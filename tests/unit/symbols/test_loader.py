"""Symbol tables of perf maps that are being written, and of files that a recording brings along."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.perfdata.kept_files import KeptFiles, encode
from perfpy.symbols import mapped_names, perf_map
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.loader import SymbolLoader
from perfpy.symbols.symbolizer import Symbolizer
from tests.builders.elf import Elf
from tests.builders.timeline import comm, frames, mmap, timeline

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PID, CODE = 4242, 0x7000
PROGRAM = "/nowhere/jitted-4242-1.so"


def of_map(path: Path, monkeypatch: pytest.MonkeyPatch, options: SymbolOptions) -> Symbolizer:
    """With a perf map that was read once."""
    monkeypatch.setattr(mapped_names, "perf_map_paths", lambda pid: iter([str(path)]))
    path.write_bytes(b"7000 10 first\n")
    symbolizer = Symbolizer(timeline((0, comm(PID, "node")), (0, mmap(PID, CODE, 0x1000, "//anon"))), options)
    assert names(symbolizer) == ["first", "-"]
    path.write_bytes(b"7000 10 first\n7010 10 second\n")
    return symbolizer


def names(symbolizer: Symbolizer) -> list[str]:
    table, rows = symbolizer.symbols_of(0, np.array([CODE, CODE + 16], np.uint64))
    return [table.name(row) if row >= 0 else "-" for row in rows.tolist()]


def test_a_map_that_is_being_written_is_read_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    symbolizer = of_map(tmp_path / "map", monkeypatch, SymbolOptions(live=True))
    assert symbolizer.has_grown(0)
    assert names(symbolizer) == ["first", "second"]
    assert not symbolizer.has_grown(0)


def test_but_not_in_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Their frames know symbols by the rows of one table."""
    symbolizer = of_map(tmp_path / "map", monkeypatch, SymbolOptions())
    assert not symbolizer.has_grown(0)
    assert names(symbolizer) == ["first", "-"]


def test_functions_of_all_maps_together_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A user can have many processes, each with a map of half a gigabyte."""
    monkeypatch.setattr(perf_map, "MOST_FUNCTIONS", 3)
    for pid in (1, 2, 3):
        (tmp_path / str(pid)).write_bytes(b"7000 10 first\n7010 10 second\n")
    monkeypatch.setattr(mapped_names, "perf_map_paths", lambda pid: iter([str(tmp_path / str(pid))]))
    source = timeline(*((0, record) for pid in (1, 2, 3) for record in (comm(pid, "node"), mmap(pid, CODE, 0x1000, "//anon"))))
    symbolizer = Symbolizer(source, SymbolOptions())
    assert [len(symbolizer.symbols_of(number, np.array([CODE], np.uint64))[0]) for number in range(3)] == [2, 1, 0]
    assert {file.reason for file in symbolizer.unusable()} == {"too many functions in perf maps; the later ones have no names"}


def with_kept(files: dict[str, bytes]) -> Symbolizer:
    section = encode(files, "<")
    kept_files = KeptFiles(lambda offset, size: section[offset : offset + size], len(section), "<", lambda text: None)
    source = timeline((0, comm(PID, "node")), (0, mmap(PID, CODE, 0x1000, PROGRAM, pgoff=0x1000)))
    return Symbolizer(source, SymbolOptions(cache=False), files=kept_files)


def test_a_file_that_a_recording_brings_along_needs_no_path():
    image = Elf().text().segment(0x1000, 0x1000, 0x1000).symbol("JS:fib", 0x1000, 16).build()
    symbolizer = with_kept({PROGRAM: image})
    assert frames(symbolizer, (PID, CODE + 4, 1))[0].symbol == "JS:fib"
    assert symbolizer.origin(0) == "j"


def test_a_damaged_one_is_reported():
    symbolizer = with_kept({PROGRAM: Elf().text().build()[:40]})
    assert frames(symbolizer, (PID, CODE + 4, 1))[0].symbol == "-"
    assert [file.path for file in symbolizer.unusable()] == [PROGRAM]


def test_files_that_are_no_programs_are_skipped():
    assert frames(with_kept({PROGRAM: b"names"}), (PID, CODE + 4, 1))[0].symbol == "-"


def test_files_that_were_not_used_lately_are_forgotten_beyond_a_limit():
    """Those used since the last call stay, also if they alone take more."""
    mapped = [(0, mmap(PID, CODE + 0x1000 * number, 0x1000, f"/nowhere/{number}")) for number in range(3)]
    image = Elf().text().segment(0x1000, 0x1000, 0x1000).symbol("f", 0x1000, 16).build()
    stored = {f"/nowhere/{number}": image for number in range(3)}
    loader = SymbolLoader(timeline((0, comm(PID, "work")), *mapped), SymbolOptions(cache=False), stored)
    numbers = [number for number, dso in enumerate(loader._dsos) if dso.name.startswith("/nowhere")]
    for number in numbers:
        loader.table(number)
    loader.trim(0)
    assert set(numbers) <= loader.loaded_tables().keys()
    loader.table(numbers[0])
    loader.trim(1 << 20)
    assert set(numbers) <= loader.loaded_tables().keys()
    loader.table(numbers[0])
    loader.trim(0)
    assert [number for number in numbers if number in loader.loaded_tables()] == [numbers[0]]
    assert len(loader.table(numbers[1])) == len(loader.table(numbers[0]))
