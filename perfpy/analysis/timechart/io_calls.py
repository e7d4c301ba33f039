"""The input and output of tasks: system calls that read, write, sync, send, receive or poll, from their own tracepoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.perfdata.tracepoint_rows import read_tracepoints, tracepoints_of
from perfpy.scheduling.event_pairs import pair_events

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.perfdata.sample_source import SampleSource

    Int64 = NDArray[np.int64]

#: kind of call -> names
CALLS: Final = {
    "disk": ("read", "pread64", "readv", "preadv", "write", "pwrite64", "writev", "pwritev"),
    "sync": ("sync", "sync_file_range", "fsync", "fdatasync", "msync"),
    "net": ("recvfrom", "recvmmsg", "recvmsg", "sendto", "sendmsg", "sendmmsg"),
    "poll": ("epoll_pwait", "epoll_wait", "poll", "ppoll", "pselect6", "select"),
}
ENTER: Final = "syscalls:sys_enter_"
EXIT: Final = "syscalls:sys_exit_"
_AGAIN: Final = -11  # EAGAIN
_LARGEST_ERROR: Final = 4095


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


class IoCall(NamedTuple):
    """One call, or several of the same kind that follow each other. Times are nanoseconds.

    Attributes:
        kind: a key of CALLS.
        fd: of the first call, -1 without one.
        size: bytes that were moved.
        error: of the last call, 0 without one.
        merged: the calls that were joined to the first.
    """

    tid: int
    kind: str
    begin: int
    end: int
    fd: int
    size: int
    error: int
    merged: int


def has_io(source: SampleSource) -> bool:
    """Whether the recording has tracepoints of system calls of input and output."""
    return any(name.startswith(ENTER) for name in tracepoints_of(source))


def read_io(source: SampleSource, options: IoOptions) -> list[IoCall]:
    """Return the calls by thread and time."""
    names = {name: kind for kind, calls in CALLS.items() for name in calls}
    wanted = {**{ENTER + name: ("fd",) for name in names}, **{EXIT + name: ("ret",) for name in names}}
    tables = read_tracepoints(source, wanted, columns=("tid",))
    calls: list[IoCall] = []
    for name, kind in names.items():
        enter, leave = tables.get(ENTER + name), tables.get(EXIT + name)
        if enter is None or leave is None:
            continue
        pairs = pair_events(enter.tid.astype(np.int64), enter.order, leave.tid.astype(np.int64), leave.order)
        fds = enter.with_numbers(("fd",)).fields["fd"] if kind != "sync" or name == "fsync" else np.full(len(enter.order), -1)
        results = leave.with_numbers(("ret",)).fields["ret"].astype(np.int64)[pairs.end]
        columns = (enter.tid[pairs.begin], enter.time[pairs.begin], leave.time[pairs.end], fds[pairs.begin], results)
        for tid, begin, end, fd, result in zip(*(column.tolist() for column in columns), strict=True):
            error = -result if -_LARGEST_ERROR <= result < 0 else 0
            if not (options.skips_again and result == _AGAIN):
                size = max(result, 0) if kind in ("disk", "net") else 0
                calls.append(IoCall(tid, kind, begin, max(end, begin), fd, size, error, 0))
    return _merge(sorted(calls, key=lambda call: (call.tid, call.begin)), options)


def _merge(calls: list[IoCall], options: IoOptions) -> list[IoCall]:
    """Join successive calls of the same thread, kind, file and error that are close to each other."""
    merged: list[IoCall] = []
    for call in calls:
        before = merged[-1] if merged else None
        longer = call._replace(end=max(call.end, call.begin + options.least))
        if (
            before is not None
            and (before.tid, before.kind, before.fd, before.error) == (call.tid, call.kind, call.fd, call.error)
            and call.begin - before.end <= options.distance
        ):
            merged[-1] = before._replace(end=max(before.end, longer.end), size=before.size + call.size, merged=before.merged + 1)
        else:
            merged.append(longer)
    return merged
