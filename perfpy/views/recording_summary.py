"""`report --stats`, `--tasks` and `--mmaps`: the number of records of each type, and the tree of threads with their mappings."""

from __future__ import annotations

from perfpy.abi.flags import MISC_MMAP_DATA, RecordType, names_of
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple, dataclass
from perfpy.abi.records import Comm, Fork, Mmap, Mmap2
from perfpy.perfdata.header import Feature
from perfpy.symbols.tasks import IDLE, NO_PARENT, ProcessSpaces, ThreadComms, is_user_map, name_of_unnamed, shown_name

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Final

    from perfpy.views.recorded import Recorded


#: perf's names that differ from the constants'
_NAMES: Final = {
    RecordType.HEADER_ATTR: "ATTR",
    RecordType.HEADER_EVENT_TYPE: "EVENT_TYPE",
    RecordType.HEADER_TRACING_DATA: "TRACING_DATA",
    RecordType.HEADER_BUILD_ID: "BUILD_ID",
    RecordType.HEADER_FEATURE: "FEATURE",
}
#: types that perf 6.12 lacks: only shown if present
_NEW: Final = (
    RecordType.CALLCHAIN_DEFERRED, RecordType.COMPRESSED2,
    RecordType.BPF_METADATA, RecordType.SCHEDSTAT_CPU, RecordType.SCHEDSTAT_DOMAIN,
)  # fmt: skip


def record_count_lines(recording: Recorded, entries: Counter[int] | None = None, *, skip_empty: bool = True) -> Iterator[str]:
    """Yield the lines of --stats: all records by type, then the samples of each event with samples.

    entries: by event, the number of histogram entries, which -D shows
    instead of samples; skip_empty: skip zeros.
    """
    counts = _by_name(recording, skip_empty=skip_empty)
    total = sum(counts.values())
    yield ""
    yield "Aggregated stats:" + _auxtrace_note(recording)
    yield _line("TOTAL", total)
    for name, count in counts.items():
        yield f"{_line(name, count)}  ({100 * count / total:4.1f}%)"
    samples, lost = (_samples(recording), _lost_samples(recording)) if entries is None else (entries, {})
    for event in recording.events:
        own = {"SAMPLE": samples.get(event.index, 0), "LOST_SAMPLES": lost.get(event.index, 0)}
        if any(own.values()) or not skip_empty:
            yield f"{event.name} stats:"
            yield from (_line(name, count) for name, count in own.items() if count)


def _line(name: str, count: int) -> str:
    return f"{name:>20} events: {count:10}"


def _auxtrace_note(recording: Recorded) -> str:
    if Feature.AUXTRACE not in recording.data.feature_sections:
        return ""
    return " (excludes AUX area (e.g. instruction trace) decoded / synthesized events)"


def _by_name(recording: Recorded, *, skip_empty: bool) -> dict[str, int]:
    """Return counts in order of the types' numbers; types that perf lacks are skipped."""
    types = recording.data.record_index.type_counts
    counts_of_names: dict[str, int] = {}
    for kind, name in names_of(RecordType).items():
        if types[kind] or not (skip_empty or kind in _NEW):
            counts_of_names[_NAMES.get(kind, name)] = types[kind]
    return counts_of_names


def _samples(recording: Recorded) -> Mapping[int, int]:
    """Count the delivered samples of each event: with counter readings, one for each counter that advanced."""
    from perfpy.perfdata.records.batches import carries_readings, split_readings  # lists of tasks need no numpy

    sample_counts = recording.data.record_index.sample_counts
    if not any(carries_readings(event) for event in recording.events):
        return sample_counts
    counts = type(sample_counts)()
    for batch in split_readings(recording.batches(["read", "period"]), recording.events):
        counts.update(batch.event.tolist())
    return counts


def _lost_samples(recording: Recorded) -> dict[int, int]:
    """Count the lost samples reported by the kernel, for each event."""
    lost: dict[int, int] = {}
    index_of = {ident: event.index for event in recording.events for ident in event.ids}
    for side in recording.side_band([RecordType.LOST_SAMPLES]):
        sample_id = side.record.sample_id
        ident = (sample_id.identifier or sample_id.id or 0) if sample_id else 0
        index = index_of.get(ident, 0)
        lost[index] = lost.get(index, 0) + side.record.lost
    return lost


# `report --tasks` and `--mmaps`: the tree of threads, with their mappings; perf 6.12's text byte for byte.


def task_lines(recording: Recorded, *, mappings: bool = False) -> Iterator[str]:
    """Yield a line a thread; with `mappings` (--mmaps) followed by its process's final mappings."""
    yield f"# {'pid':>8} {'tid':>8} {'ppid':>8}  comm"
    types = TREE + MAPPINGS if mappings else TREE
    records = recording.data.few_records(types)
    if records is None:
        records = (side.record for side in recording.side_band(types))
    texts: dict[TaskMapping, str] = {}  # forked processes have the same mappings
    for task in tasks_of(records):
        columns = f"  {task.pid:8} {task.tid:8} {task.parent:8} |{' ' * task.level}"
        yield columns + task.comm
        indent = " " * (len(columns) + 2)
        for mapping in task.mappings:
            text = texts.get(mapping)
            if text is None:
                area = f"{mapping.start:x}-{mapping.end:x} {mapping.access} {mapping.pgoff:08x} {mapping.ino}"
                text = texts[mapping] = f"{area} {mapping.name}"
            yield indent + text


# The tree of threads, and the mappings of processes: report --tasks and --mmaps.
#
# Tasks follow their parents. Exited threads remain, with their last name.


TREE: Final = (RecordType.COMM, RecordType.FORK)
MAPPINGS: Final = (RecordType.MMAP, RecordType.MMAP2)
_READ, _WRITE, _EXEC = 1, 2, 4  # PROT_*


class TaskMapping(NamedTuple):
    """One mapping of a process. `end` is exclusive; `shared` is perf's: whether it has any flags."""

    start: int
    end: int
    pgoff: int
    prot: int
    flags: int
    ino: int
    name: str

    @property
    def access(self) -> str:
        """The permissions, for example "r-xp"."""
        letters = "".join(letter if self.prot & bit else "-" for bit, letter in ((_READ, "r"), (_WRITE, "w"), (_EXEC, "x")))
        return letters + ("s" if self.flags else "p")


@dataclass(eq=False, repr=False)
class Task:
    """One thread. `parent`: the tid that forked it, NO_PARENT if unknown; `level`: its depth in the tree."""

    pid: int
    tid: int
    mappings: list[TaskMapping]
    comm: str = ""
    parent: int = NO_PARENT
    level: int = 0


def tasks_of(records: Iterable[object]) -> list[Task]:
    """Return all threads, the idle one first, each followed by its children by tid.

    `records`: of the types TREE, and optionally MAPPINGS, which add mappings and threads without other records.
    """
    tree = _TaskTree()
    for record in records:
        tree.apply(record)
    return list(tree.tasks())


class _TaskTree:
    """The threads so far, by tid. Each has the mappings of its process's address space when it first appeared."""

    def __init__(self) -> None:
        self._comms = ThreadComms(IDLE)
        self._spaces = ProcessSpaces()
        self._mappings: list[list[TaskMapping]] = []  # by space
        self._by_tid: dict[int, Task] = {}
        self._inodes: dict[str, int] = {}
        self._find(0, 0)

    def apply(self, record: object) -> None:
        """Apply a record."""
        if isinstance(record, Comm):
            self._find(record.pid, record.tid)
            self._comms.living[record.tid] = record.comm
        elif isinstance(record, Fork):
            self._fork(record)
        elif isinstance(record, (Mmap, Mmap2)) and is_user_map(record.misc):
            self._map(record)

    def _find(self, pid: int, tid: int) -> Task:
        """Return a thread; a new one shares the mappings of its process."""
        if tid not in self._by_tid:
            if tid != pid:
                self._find(pid, pid)
            self._by_tid[tid] = Task(pid, tid, self._mappings_of(pid))
        return self._by_tid[tid]

    def _mappings_of(self, pid: int) -> list[TaskMapping]:
        space = self._spaces.of(pid)
        for parent in self._spaces.parent[len(self._mappings) :]:
            self._mappings.append([] if parent == NO_PARENT else list(self._mappings[parent]))
        return self._mappings[space]

    def _fork(self, record: Fork) -> None:
        """Apply a fork. A thread with the parent's or the new tid but another pid has ended without a record."""
        if self._find(record.ppid, record.ptid).pid != record.ppid:
            self._remove(record.ptid)
            self._comms.forget(record.ptid)
            self._find(record.ppid, record.ptid)
        self._remove(record.tid)
        self._comms.fork(record.tid, record.ptid)
        self._spaces.fork(record.pid, record.tid, record.ppid, record.misc)
        self._find(record.pid, record.tid).parent = record.ptid

    def _remove(self, tid: int) -> None:
        """Remove a thread, because its tid now means another one. A process's mappings go with its first thread."""
        task = self._by_tid.pop(tid, None)
        if task is not None and task.pid == tid:
            self._spaces.forget(tid)

    def _map(self, record: Mmap | Mmap2) -> None:
        mapping = _mapping(record)
        if mapping.ino:
            self._inodes.setdefault(mapping.name, mapping.ino)
        _insert(self._find(record.pid, record.tid).mappings, mapping)

    def tasks(self) -> Iterator[Task]:
        """Yield the threads in tree order with their last names. Mappings of one file get one inode, as in perf."""
        for task in self._in_order():
            task.comm = self._comms.living.get(task.tid, name_of_unnamed(task.tid))
            task.mappings = [one if one.ino else one._replace(ino=self._inodes.get(one.name, 0)) for one in task.mappings]
            yield task

    def _in_order(self) -> Iterator[Task]:
        children: dict[int, list[Task]] = {}
        for task in self._by_tid.values():
            if task.tid:
                children.setdefault(task.parent if task.parent in self._by_tid else NO_PARENT, []).append(task)
        todo = [(task, 1) for task in _last_first(children.get(0, []))]
        todo += [(task, 1) for task in _last_first(children.get(NO_PARENT, []))]
        todo.append((self._by_tid[0], 0))
        visited = set()
        while todo:
            task, task.level = todo.pop()
            visited.add(task.tid)
            yield task
            if task.tid:
                todo += [(child, task.level + 1) for child in _last_first(children.get(task.tid, [])) if child.tid not in visited]


def _last_first(tasks: list[Task]) -> list[Task]:
    return sorted(tasks, key=lambda task: -task.tid)


def _mapping(record: Mmap | Mmap2) -> TaskMapping:
    if isinstance(record, Mmap2):
        # perf prints 8 bytes of the build-id as the inode if the record has one.
        ino = int.from_bytes(record.build_id[4:12], "little") if record.build_id else record.ino
        prot, flags = record.prot, record.flags
    else:
        prot, flags, ino = 0 if record.misc & MISC_MMAP_DATA else _EXEC, 0, 0
    pgoff = record.pgoff
    name = shown_name(record.filename, record.pid, flags, executable=bool(prot & _EXEC))
    if name == "[vdso]":
        pgoff = ino = 0
    return TaskMapping(record.addr, record.addr + record.len, pgoff, prot, flags, ino, name)


def _insert(mappings: list[TaskMapping], new: TaskMapping) -> None:
    """Insert a mapping, removing the covered parts of others."""
    if not mappings or mappings[-1].end <= new.start:  # the usual case: /proc/PID/maps is in ascending order
        mappings.append(new)
        return
    remaining = []
    for old in mappings:
        if old.end <= new.start or old.start >= new.end:
            remaining.append(old)
            continue
        if old.start < new.start:
            remaining.append(old._replace(end=new.start))
        if old.end > new.end:
            remaining.append(old._replace(start=new.end, pgoff=old.pgoff + new.end - old.start))
    remaining.append(new)
    remaining.sort(key=lambda mapping: mapping.start)
    mappings[:] = remaining
