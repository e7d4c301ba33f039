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
