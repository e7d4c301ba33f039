"""What several recordings have in common is looked for once; what is another build, or of a process that runs, is not."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING, Any

import pytest

from perfpy.symbols.dso import Dso
from perfpy.symbols.files import debug_files
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.files.shared_files import SharedFiles
from tests.builders.elf import Elf

if TYPE_CHECKING:
    from pathlib import Path

ID, OTHER = "ab" * 20, "cd" * 20
OPTIONS = SymbolOptions(cache=False)


def program(path: Path, build_id: str = ID) -> str:
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
    path, shared = program(tmp_path / "program"), SharedFiles()
    results = [shared.find(Dso(path, build_id=ID), OPTIONS, None) for _ in range(2)]
    assert results[0] is results[1]
    assert results[0].symbols is not None
    assert searches == [path]


def test_another_build_or_other_options_are_searched_by_themselves(tmp_path: Path, searches: list[str]) -> None:
    path, shared = program(tmp_path / "program"), SharedFiles()
    assert shared.find(Dso(path, build_id=ID), OPTIONS, None).symbols
    assert not shared.find(Dso(path, build_id=OTHER), OPTIONS, None).symbols
    assert not shared.find(Dso(path, build_id=ID), OPTIONS._replace(symfs=str(tmp_path)), None).symbols
    assert len(searches) == 3


def test_missing_files_are_searched_once(tmp_path: Path, searches: list[str]) -> None:
    shared, missing_path = SharedFiles(), str(tmp_path / "gone")
    for _ in range(3):
        assert shared.find(Dso(missing_path, build_id=ID), OPTIONS, None).symbols is None
    assert searches == [missing_path]


def test_files_of_one_process_are_not_used_for_another(tmp_path: Path) -> None:
    path = program(tmp_path / "program")
    with open(path, "rb") as program_file:
        mapped = mmap.mmap(program_file.fileno(), 0, access=mmap.ACCESS_READ)
    os.unlink(path)
    shared, name = SharedFiles(), f"{path} (deleted)"
    dead, alive = Dso(name, build_id=ID), Dso(name, build_id=ID)
    alive.pids.add(os.getpid())
    reached = debug_files.find(alive, OPTIONS).symbols is not None  # by /proc/PID/map_files, which needs privileges
    assert shared.find(dead, OPTIONS, None).symbols is None
    assert (shared.find(alive, OPTIONS, None).symbols is not None) == reached
    mapped.close()


def test_beyond_the_limit_files_are_let_go_and_found_again(tmp_path: Path, searches: list[str]) -> None:
    paths = [program(tmp_path / name) for name in ("one", "two")]
    shared = SharedFiles(limit=os.path.getsize(paths[0]) + 1)
    for path in [*paths, *paths]:
        assert shared.find(Dso(path, build_id=ID), OPTIONS, None).symbols
    assert searches == [*paths, *paths]
