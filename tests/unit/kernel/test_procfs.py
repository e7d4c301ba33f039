"""What /proc says of tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.kernel.procfs import ProcFs

if TYPE_CHECKING:
    from pathlib import Path


def test_the_main_thread_comes_first_when_numbers_began_again(tmp_path: Path) -> None:
    """A thread before its process would lose its mappings to the process's, as perf reads a recording."""
    for tid in (817, 31045, 31046):
        (tmp_path / "31045" / "task" / str(tid)).mkdir(parents=True)
    assert ProcFs(str(tmp_path)).threads(31045) == [31045, 817, 31046]
    assert ProcFs(str(tmp_path)).threads(1) == []


def test_parents_and_cpu_times_are_read_behind_any_name(tmp_path: Path) -> None:
    fields = "4 4 4 -1 0 0 0 0 0 30 12 0 0 20 0 1 0 100"
    for pid, name, parent in ((7, "a) R 1 (b", 3), (8, "x", 7)):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} ({name}) S {parent} {fields}\n")
    (tmp_path / "9").mkdir()
    (tmp_path / "9" / "stat").write_text("9 (cut")
    assert ProcFs(str(tmp_path)).parents() == {7: (3, 42), 8: (7, 42)}


def test_the_age_of_this_process_is_known(tmp_path: Path) -> None:
    age = ProcFs().seconds_since_start()
    assert 0 < age < 1_000_000
    assert ProcFs().seconds_since_start() >= age
    assert ProcFs(str(tmp_path)).seconds_since_start() == 0
