"""`report --tasks` and `--mmaps`: the tree of threads, with their mappings; perf 6.12's text byte for byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.symbols.tasks.task_tree import MAPPINGS, TREE, tasks_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.views.recorded import Recorded


def task_lines(recording: Recorded, *, mappings: bool = False) -> Iterator[str]:
    """Yield a line a thread; with `mappings` (--mmaps) followed by its process's final mappings."""
    yield f"# {'pid':>8} {'tid':>8} {'ppid':>8}  comm"
    for task in tasks_of(recording.side_band(TREE + MAPPINGS if mappings else TREE)):
        columns = f"  {task.pid:8} {task.tid:8} {task.parent:8} |{' ' * task.level}"
        yield columns + task.comm
        for mapping in task.mappings:
            area = f"{mapping.start:x}-{mapping.end:x} {mapping.access} {mapping.pgoff:08x} {mapping.ino}"
            yield f"{' ' * len(columns)}  {area} {mapping.name}"
