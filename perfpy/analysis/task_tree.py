"""The threads of a recording as a tree, and what each process had mapped: report --tasks and --mmaps.

What enters: side-band records in order of delivery. What leaves: Task values,
parents before children. Exited threads stay, with their last name.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import MISC_CPUMODE_MASK, MISC_FORK_EXEC, MISC_GUEST_KERNEL, MISC_KERNEL, MISC_MMAP_DATA, RecordType
from perfpy.abi.records import Comm, Fork, Mmap, Mmap2

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perfpy.perfdata.records.side_band import SideRecord

NO_PARENT: Final = -1
TREE: Final = (RecordType.COMM, RecordType.FORK)
MAPPINGS: Final = (RecordType.MMAP, RecordType.MMAP2)
_READ, _WRITE, _EXEC = 1, 2, 4  # PROT_*
_WITHOUT_FILE: Final = ("//anon", "/dev/zero", "/anon_hugepage", "[stack", "/SYSV", "[heap]")


@dataclass(frozen=True, slots=True)
class TaskMapping:
    """One mapping of a process; end is behind its last byte; shared as perf has it: whether it has any flags."""

    start: int
    end: int
    pgoff: int
    prot: int
    flags: int
    ino: int
    name: str

    @property
    def access(self) -> str:
        """Like "r-xp"."""
        letters = "".join(letter if self.prot & bit else "-" for bit, letter in ((_READ, "r"), (_WRITE, "w"), (_EXEC, "x")))
        return letters + ("s" if self.flags else "p")


@dataclass(slots=True)
class Task:
    """One thread. parent: the tid it was forked from, NO_PARENT where that is not known; level: its depth in the tree."""

    pid: int
    tid: int
    comm: str
    parent: int = NO_PARENT
    level: int = 0
    mappings: list[TaskMapping] = field(default_factory=list)
    is_named: bool = False


def tasks_of(side_band: Iterable[SideRecord]) -> list[Task]:
    """All threads, the idle one first, each followed by its children in order of their tids.

    side_band: records of the types TREE, and of MAPPINGS to follow these too,
    which also finds threads that nothing else speaks of.
    """
    tasks = _Tasks()
    for side in side_band:
        tasks.see(side.record)
    tasks.share_inodes()
    return list(tasks.in_tree_order())


class _Tasks:
    """The threads so far, by tid."""

    def __init__(self) -> None:
        self._by_tid = {0: Task(0, 0, "swapper", is_named=True)}
        self._inodes: dict[str, int] = {}

    def see(self, record: object) -> None:
        if isinstance(record, Comm):
            task = self._find(record.pid, record.tid)
            task.comm, task.is_named = record.comm, True
        elif isinstance(record, Fork):
            self._fork(record)
        elif isinstance(record, (Mmap, Mmap2)) and record.misc & MISC_CPUMODE_MASK not in (MISC_KERNEL, MISC_GUEST_KERNEL):
            mapping = _mapping(record)
            if mapping.ino:
                self._inodes.setdefault(mapping.name, mapping.ino)
            _insert(self._find(record.pid, record.tid).mappings, mapping)

    def share_inodes(self) -> None:
        """A mapping whose record names no inode has that of another of the same file, as perf takes both for one file."""
        for task in self._by_tid.values():
            mappings = task.mappings
            mappings[:] = [replace(one, ino=one.ino or self._inodes.get(one.name, 0)) for one in mappings]

    def _find(self, pid: int, tid: int) -> Task:
        """The thread; a new one shares the mappings of its process."""
        if tid not in self._by_tid:
            leader = None if tid == pid else self._find(pid, pid)
            self._by_tid[tid] = Task(pid, tid, f":{tid}", mappings=leader.mappings if leader else [])
        return self._by_tid[tid]

    def _fork(self, record: Fork) -> None:
        parent = self._find(record.ppid, record.ptid)
        if parent.pid != record.ppid:
            del self._by_tid[record.ptid]
            parent = self._find(record.ppid, record.ptid)
        self._by_tid.pop(record.tid, None)
        task = self._find(record.pid, record.tid)
        if parent.is_named:
            task.comm, task.is_named = parent.comm, True
        task.parent = parent.tid
        if task.pid != parent.pid and not record.misc & MISC_FORK_EXEC:
            task.mappings[:] = parent.mappings

    def in_tree_order(self) -> Iterator[Task]:
        children: dict[int, list[Task]] = {}
        for task in self._by_tid.values():
            if task.tid:
                children.setdefault(task.parent if task.parent in self._by_tid else NO_PARENT, []).append(task)
        todo = [(task, 1) for task in _last_first(children.get(NO_PARENT, []))]
        todo += [(task, 1) for task in _last_first(children.get(0, []))]
        todo.append((self._by_tid[0], 0))
        seen = set()
        while todo:
            task, task.level = todo.pop()
            seen.add(task.tid)
            yield task
            if task.tid:
                todo += [(child, task.level + 1) for child in _last_first(children.get(task.tid, [])) if child.tid not in seen]


def _last_first(tasks: list[Task]) -> list[Task]:
    return sorted(tasks, key=lambda task: -task.tid)


def _mapping(record: Mmap | Mmap2) -> TaskMapping:
    if isinstance(record, Mmap2):
        # perf shows what stands in an inode's place: 8 bytes of the build-id where the record has one
        ino = int.from_bytes(record.build_id[4:12], "little") if record.build_id else record.ino
        prot, flags = record.prot, record.flags
    else:
        prot, flags, ino = 0 if record.misc & MISC_MMAP_DATA else _EXEC, 0, 0
    name, pgoff = record.filename, record.pgoff
    is_anonymous = name.startswith(_WITHOUT_FILE)
    if is_anonymous and prot & _EXEC:
        name = f"/tmp/perf-{record.pid}.map"
    if name == "[vdso]":
        pgoff = ino = 0
    return TaskMapping(record.addr, record.addr + record.len, pgoff, prot, flags, ino, name)


def _insert(mappings: list[TaskMapping], new: TaskMapping) -> None:
    """Put a mapping in its place, cutting off what it covers of others."""
    kept = []
    for old in mappings:
        if old.end <= new.start or old.start >= new.end:
            kept.append(old)
            continue
        if old.start < new.start:
            kept.append(replace(old, end=new.start))
        if old.end > new.end:
            kept.append(replace(old, start=new.end, pgoff=old.pgoff + new.end - old.start))
    kept.append(new)
    kept.sort(key=lambda mapping: mapping.start)
    mappings[:] = kept
