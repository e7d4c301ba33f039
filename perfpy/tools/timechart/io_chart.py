"""The chart of input and output: a row for each task, whose bars are calls; their height tells how much data they moved.

The text is that of perf 6.12, learnt from its charts.
"""

from __future__ import annotations

import numpy as np

from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.perfdata.tracepoint_rows import read_tracepoints, tracepoints_of
from perfpy.tools.timechart.drawing import BOX, ROW, Axis, escaped, head
from perfpy.tools.timechart.task_history import TASK_RECORDS, ChartedTasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Final

    from numpy.typing import NDArray

    from perfpy.perfdata.sample_source import SampleSource

    Int64 = NDArray[np.int64]


_LEGEND: Final = ((0, "disk", "Disk"), (100, "net", "Network"), (200, "sync", "Sync"), (300, "poll", "Poll"), (400, "error", "Error"))
_FIRST_THRESHOLD: Final = 1 << 20  # bytes of a task that is shown
_UNITS: Final = ((1 << 30, "Gbytes"), (1 << 20, "Mbytes"), (1 << 10, "Kbytes"))
_COLOURS: Final = {"read": "disk", "write": "disk", "receive": "net", "send": "net", "sync": "sync", "poll": "poll"}
_SYNC_HEIGHT: Final = BOX / 10
_FULL_HEIGHT: Final = BOX / 20  # of calls with three quarters of the largest call's data and more
_EIGHTH: Final = BOX / 8


def draw_io(history: IoHistory, width: int, count: int, is_chosen: Callable[[str, int], bool] | None) -> Iterator[str]:
    """Yield the text of the chart.

    Args:
        history: of the recording.
        width: pixels.
        count: the least number of tasks, if the recording has as many.
        is_chosen: whether to show a task, by name and number; None: show those that moved most data.
    """
    axis = Axis.of(history.begin, history.end, width)
    shown = _shown_tasks(history.tasks, count, is_chosen)
    yield from head(axis, len(shown) + 1, _LEGEND, fine=False)
    for row, task in enumerate(shown, 1):
        yield from _row(axis, task, row * ROW)
    yield "</svg>\n"


def _shown_tasks(tasks: Sequence[IoTask], count: int, is_chosen: Callable[[str, int], bool] | None) -> Sequence[IoTask]:
    if is_chosen is not None:
        return [task for task in tasks if is_chosen(task.comm, task.tid)]
    threshold = _FIRST_THRESHOLD
    while threshold:
        busy = [task for task in tasks if task.size >= threshold]
        if len(busy) >= count:
            return busy
        threshold //= 10
    return [task for task in tasks if task.size]


def _row(axis: Axis, task: IoTask, top: int) -> Iterator[str]:
    left, right = axis.x(task.begin), axis.x(task.end or axis.end)
    yield f'<rect x="{left:.8f}" width="{right - left:.8f}" y="{top:.1f}" height="{BOX:.1f}" class="process3"/>\n'
    largest = max(call.size for call in task.calls)
    for call in reversed(task.calls):
        height, y = _height(call, largest, top)
        begin, kind = axis.x(call.begin), "error" if call.error else _COLOURS[call.kind]
        yield (
            f"<g>\n<title>fd={call.fd} error={call.error} merges={call.merged}</title>\n"
            f'<rect x="{begin:.8f}" width="{axis.x(call.end) - begin:.8f}" y="{y:.1f}" height="{height:.1f}" class="{kind}"/>\n</g>\n'
        )
    yield f'<text x="{left:.8f}" y="{top + BOX / 2:.8f}">{escaped(task.comm)}:{task.tid} ({size_text(task.size)})</text>\n'


def _height(call: IoCall, largest: int, top: int) -> tuple[float, float]:
    """Return the height of a call, and where it begins: calls that give data away stand at the bottom."""
    if call.kind in ("sync", "poll"):
        return _SYNC_HEIGHT, top + BOX - _SYNC_HEIGHT
    quarter = 3 if call.error or not largest else min(call.size * 4 // largest, 3)
    height = (_EIGHTH, 2 * _EIGHTH, 3 * _EIGHTH, _FULL_HEIGHT)[quarter]
    return height, top + BOX - height if call.kind in ("write", "send") else top


def size_text(size: int) -> str:
    """Return a number of bytes with its unit.

    >>> size_text(480), size_text(5000)
    ('480.0 bytes', '4.9 Kbytes')
    """
    for unit, name in _UNITS:
        if size > unit:
            return f"{size / unit:.1f} {name}"
    return f"{size:.1f} bytes"


#: kind of call -> names
CALLS: Final = {
    "read": ("read", "pread64", "readv", "preadv"),
    "write": ("write", "pwrite64", "writev", "pwritev"),
    "sync": ("sync", "sync_file_range", "fsync", "fdatasync", "msync"),
    "receive": ("recvfrom", "recvmmsg", "recvmsg"),
    "send": ("sendto", "sendmsg", "sendmmsg"),
    "poll": ("epoll_pwait", "epoll_wait", "poll", "ppoll", "pselect6", "select"),
}
ENTER: Final = "syscalls:sys_enter_"
EXIT: Final = "syscalls:sys_exit_"
_AGAIN: Final = -11  # EAGAIN
_MOVES_DATA: Final = frozenset(("read", "write", "receive", "send"))


class IoOptions(NamedTuple):
    """Options for joining and showing calls.

    Attributes:
        least: nanoseconds that a shorter call is shown to take.
        distance: nanoseconds between calls that are joined.
        skips_again: whether to leave out calls that failed with EAGAIN.
    """

    least: int
    distance: int
    skips_again: bool


class IoCall:
    """One call, or several of the same kind that follow each other.

    Attributes:
        kind: a key of CALLS.
        fd: of the first call.
        begin, end: nanoseconds; end is 0 until the call has returned.
        size: bytes that were moved.
        error: of the last call, negative; 0 without one.
        merged: the calls that were joined to the first.
    """

    __slots__ = ("begin", "end", "error", "fd", "kind", "merged", "size")

    def __init__(self, kind: str, fd: int, begin: int) -> None:
        self.kind = kind
        self.fd = fd
        self.begin = begin
        self.end = self.size = self.error = self.merged = 0


class IoTask(NamedTuple):
    """A task with its calls under one of its names.

    Attributes:
        tid, comm: number and name.
        calls: in order of time; a call that has not returned lasts until the end of the recording.
        size: bytes that it moved.
        begin, end: nanoseconds, of its fork or first call and of its exit; end is 0 if it did not exit.
    """

    tid: int
    comm: str
    calls: list[IoCall]
    size: int
    begin: int
    end: int


class IoHistory(NamedTuple):
    """The tasks of a recording, by number of the parent and own number.

    Attributes:
        begin, end: nanoseconds, of all calls.
    """

    tasks: list[IoTask]
    begin: int
    end: int


def has_io(source: SampleSource) -> bool:
    """Whether the recording has tracepoints of system calls of input and output."""
    return any(name.startswith(ENTER) for name in tracepoints_of(source))


def read_io(source: SampleSource, options: IoOptions) -> IoHistory:
    """Return the calls of all tasks.

    The rules are perf 6.12's, learnt from its charts. Calls that are shorter than a minimum are shown as that long. A call that begins
    before the last one has ended on the chart cuts that one short, or begins later if that one failed, so that errors stay visible.
    """
    states = ChartedTasks()
    changes = iter([(side.key, side.record) for side in source.side_band(TASK_RECORDS)])
    change = next(changes, None)
    calls: dict[int, list[IoCall]] = {}
    begin = end = 0
    kinds = {name: kind for kind, names in CALLS.items() for name in names}
    names = list(kinds)
    for key, time, tid, number, is_exit, value in _events(source, names):
        while change is not None and change[0] <= key:
            states.apply(change[1])
            change = next(changes, None)
        begin, end = min(begin or time, time), max(end, time)
        name = states.name(tid)
        own = calls.setdefault(name.number, [])
        if is_exit:
            _leave(own, kinds[names[number]], time, value, options)
        else:
            name.begin = min(name.begin or time, time)
            _enter(own, kinds[names[number]], time, value)
    while change is not None:
        states.apply(change[1])
        change = next(changes, None)
    tasks = []
    for task in states.sorted_tasks():
        for name in reversed(task.names):
            own = calls.get(name.number, [])
            for call in own[-1:]:
                call.end = call.end or max(end, call.begin)
            if own and name.comm is not None:
                tasks.append(IoTask(task.tid, name.comm, own, sum(call.size for call in own), name.begin, name.end))
    return IoHistory(tasks, begin, end)


def _events(source: SampleSource, names: list[str]) -> Iterator[tuple[int, ...]]:
    """Yield key, time, tid, number of the call's name, whether it is an exit, and the descriptor or result, in order of delivery."""
    wanted = {**{ENTER + name: ("fd",) for name in names}, **{EXIT + name: ("ret",) for name in names}}
    tables = read_tracepoints(source, wanted, columns=("tid",))
    columns = []
    for number, name in enumerate(names):
        for is_exit, prefix, field in ((0, ENTER, "fd"), (1, EXIT, "ret")):
            rows = tables.get(prefix + name)
            if rows is not None and len(rows.order):
                value = rows.with_numbers((field,)).fields[field].astype(np.int64)
                count = len(rows.order)
                columns.append([rows.order, rows.key, rows.time, rows.tid, np.full(count, number), np.full(count, is_exit), value])
    if not columns:
        return iter(())
    joined = [np.concatenate(parts) for parts in zip(*columns, strict=True)]
    order = np.argsort(joined[0], kind="stable")
    return zip(*(column[order].tolist() for column in joined[1:]), strict=True)


def _enter(calls: list[IoCall], kind: str, time: int, fd: int) -> None:
    """Begin a call; an unfinished one is dropped, and the new one with it, because its exit may be lost, too."""
    if calls and not calls[-1].end:
        calls.pop()
        return
    calls.append(IoCall(kind, fd, time))


def _leave(calls: list[IoCall], kind: str, time: int, result: int, options: IoOptions) -> None:
    """End a call."""
    if not calls or calls[-1].end:
        return
    call = calls[-1]
    if call.kind != kind:
        calls.pop()
        return
    call.end = max(time, call.begin + options.least)
    if result < 0:
        call.error = result
    elif kind in _MOVES_DATA:
        call.size = result
    _resolve_overlap(calls, options)
    if options.skips_again and result == _AGAIN and calls[-1] is call:
        calls.pop()


def _resolve_overlap(calls: list[IoCall], options: IoOptions) -> None:
    """Shorten or delay what overlaps with the last call, or join the two."""
    call = calls[-1]
    before = calls[-2] if len(calls) > 1 else None
    if before is None:
        return
    if call.begin < before.end:
        if before.error:
            call.begin = before.end
        else:
            before.end = call.begin
    if (before.fd, before.kind, before.error) == (call.fd, call.kind, call.error) and before.end + options.distance >= call.begin:
        calls.pop()
        before.end = call.end
        before.size += call.size
        before.merged += 1
