"""Cached answers of debug information are used in the next run while they are valid."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.debuginfo import inlined_calls, kept_answers, source_lines
from perfpy.debuginfo.inlined_calls import InlineFinder
from perfpy.debuginfo.kept_answers import KeptAnswers
from perfpy.debuginfo.sections import DebugSections
from perfpy.debuginfo.source_lines import KeptPaths, Paths, SourceLines
from perfpy.debuginfo.unit_index import UnitIndex
from perfpy.symbols.files.debug_files import ColumnFiles
from perfpy.symbols.files.elf import ElfFile
from tests.builders.dies import Dies, code, function, inlined, unit
from tests.builders.line_programs import COPY, END, advance_line, advance_pc, line_section, set_address, source_file, special
from tests.builders.line_programs import unit as line_unit

if TYPE_CHECKING:
    from pathlib import Path

ADDRESSES = (0x1000, 0x1010, 0x10FF, 0x5000)
CALLS = [["main"], ["inner", "main"], ["main"], []]
LINES = ["/build/one.c:10", "/build/one.c:11", "", "/other/two.c:1"]
ASKED = (0x1000, 0x1004, 0x1500, 0x1800)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(kept_answers, "_WORTH_KEEPING", 1)
    return tmp_path / "cache" / "perfpy" / "debuginfo"


def program(path: Path, name: str = "inner") -> Path:
    inner = function(name)
    call = inlined(inner, (0x1010, 0x1020), line=7)
    root = code(unit(inner, function("main", (0x1000, 0x1100), call), low_pc=None), (0x1000, 0x1300))
    path.write_bytes(Dies(root).elf().build())
    return path


def lines_file(path: Path, name: str = "one.c") -> Path:
    first = line_section(set_address(0x1000) + advance_line(9) + COPY + special(4, 1) + advance_pc(8) + END, [(name, 0)])
    second = line_section(set_address(0x1800) + COPY + advance_pc(4) + END, [("two.c", 0)])
    path.write_bytes(source_file(first + second, line_unit(0, 0x1000, 0x100) + line_unit(len(first), 0x1800, 0x100, "/other")).build())
    return path


def units_of(path: Path) -> UnitIndex:
    return UnitIndex(DebugSections(ElfFile(str(path))))


def calls(path: Path, addresses: tuple[int, ...] = ADDRESSES) -> list[list[str]]:
    """Return the functions at each address, as found by one complete run."""
    finder = InlineFinder(units_of(path), keeps=True)
    position = finder.find(np.array(addresses, np.uint64))
    rows = iter(position.rows())
    return [[finder.names[next(rows)[0]].decode() for _ in range(count)] for count in position.counts.tolist()]


def lines(path: Path, addresses: tuple[int, ...] = ASKED, *, as_addr2line: bool = False) -> list[str]:
    finder = SourceLines(units_of(path), as_addr2line=as_addr2line, keeps=True)
    position = finder.find(np.array(addresses, np.uint64))
    return [
        f"{finder.paths[file]}:{line}" if file >= 0 else "" for file, line in zip(*(column.tolist() for column in position), strict=True)
    ]


def refuse(*_: object, **__: object) -> None:
    raise AssertionError("debug information is read")


def test_dies_are_not_walked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = program(tmp_path / "program")
    assert calls(path) == CALLS
    monkeypatch.setattr(inlined_calls, "InlineSearch", refuse)
    assert calls(path) == CALLS
    assert calls(path, ADDRESSES[::-1] * 2) == CALLS[::-1] * 2  # in any order, more than once


def test_line_programs_are_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = lines_file(tmp_path / "program")
    assert lines(path) == LINES
    monkeypatch.setattr(source_lines, "LineTable", refuse)
    assert lines(path) == LINES
    assert lines(path, ASKED[::-1]) == LINES[::-1]


def test_the_file_of_a_call_is_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = lines_file(tmp_path / "program")
    first = SourceLines(units_of(path), keeps=True)
    assert first.paths[first.files([(0, 1)])[0, 1]] == "/build/one.c"
    del first
    monkeypatch.setattr(source_lines, "LineTable", refuse)
    again = SourceLines(units_of(path), keeps=True)
    assert again.paths[again.files([(0, 1)])[0, 1]] == "/build/one.c"


def test_new_answers_are_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = program(tmp_path / "program")
    calls(path, ADDRESSES[1:2])
    assert calls(path, ADDRESSES[:1]) == CALLS[:1]
    monkeypatch.setattr(inlined_calls, "InlineSearch", refuse)
    assert calls(path, ADDRESSES[:2]) == CALLS[:2]


def test_two_ways_of_naming_files_do_not_mix(tmp_path: Path, folder: Path):
    path = lines_file(tmp_path / "program")
    assert lines(path) == lines(path, as_addr2line=True) == LINES
    names = sorted(name.split("1-")[0] for name in os.listdir(folder))
    assert names == ["lines-as", "lines-of"]


def test_another_file_of_the_same_name_is_read(tmp_path: Path):
    path = program(tmp_path / "program")
    calls(path)
    assert calls(program(path, "other")) == [["main"], ["other", "main"], ["main"], []]


def test_damaged_cache_files_are_ignored(tmp_path: Path, folder: Path):
    path = program(tmp_path / "program")
    assert calls(path) == CALLS
    (cache_file,) = folder.iterdir()
    whole = cache_file.read_bytes()
    for at in range(0, len(whole), 8):
        cache_file.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        assert calls(path) == CALLS
        cache_file.write_bytes(whole[:at])
        assert calls(path) == CALLS


@pytest.mark.parametrize("column", ["address", "count", "row", "end", "text"])
def test_inconsistent_columns_are_ignored(column: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = program(tmp_path / "program")
    keep = ColumnFiles.keep

    def spoilt(files: ColumnFiles, key: str, columns: dict[str, np.ndarray]) -> None:
        keep(files, key, columns | {column: columns[column][:-1]})

    monkeypatch.setattr(ColumnFiles, "keep", spoilt)
    calls(path)
    assert calls(path) == CALLS


def test_answers_of_damaged_files_are_not_cached(tmp_path: Path, folder: Path):
    file = units_of(program(tmp_path / "program"))
    finder = InlineFinder(file, keeps=True)
    finder.find(np.array(ADDRESSES, np.uint64))
    file.sections.file.flaw("something is wrong")
    del finder, file
    assert not folder.exists()


def test_answers_of_files_in_recordings_are_not_cached(tmp_path: Path, folder: Path):
    path = program(tmp_path / "program")
    image = ElfFile(str(path), path.read_bytes())
    InlineFinder(UnitIndex(DebugSections(image)), keeps=True).find(np.array(ADDRESSES, np.uint64))
    assert not folder.exists()


def test_cheap_answers_are_not_cached(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kept_answers, "_WORTH_KEEPING", 1 << 12)
    calls(program(tmp_path / "program"))
    assert not folder.exists()


def test_paths_of_many_calls_are_numbered_once(tmp_path: Path):
    """Thousands of calls from hundreds of files take linear time."""
    numbered = []

    class Counted(Paths):
        def number(self, path: str) -> int:
            numbered.append(path)
            return super().number(path)

    paths = Counted()
    results = [paths.number(f"/{number % 50}.c") for number in range(1000)]
    numbered.clear()
    kept_paths = KeptPaths(KeptAnswers("calls", 1, units_of(lines_file(tmp_path / "program")), between_runs=False), paths)
    for first in range(0, 1000, 100):
        keys = np.arange(first, first + 100, dtype=np.uint64)
        assert (
            kept_paths.rows(keys, lambda fresh: np.array([[results[key]] for key in fresh.tolist()]))[:, 0].tolist()
            == results[first : first + 100]
        )
    assert len(numbered) == 50
