"""Words for what threads do: "waits for the mutex queue_lock in flush()"."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perfpy.abi.python_code import PYTHON_MARK
from perfpy.analysis.verdict import waits as reasons
from perfpy.analysis.why.kinds import PAGE_FAULT, ROW_LOCK, RUNNING, SPINNING, STOPPED
from perfpy.plurals import plural
from perfpy.untrusted.text import visible
from perfpy.views.readable import short_path
from perfpy.views.verdict.sentence import function_text

if TYPE_CHECKING:
    from collections.abc import Collection

    from perfpy.analysis.why.cause_groups import Cause, CauseGroups
    from perfpy.analysis.why.tasks import RecordedTasks

OBJECTS: Final = {
    reasons.CPU: "a CPU",
    reasons.GIL: "Python's global interpreter lock (GIL)",
    reasons.JOIN: "the end of a thread",
    reasons.BARRIER: "a barrier",
    reasons.CONDITION: "a condition",
    reasons.LOCK: "a lock",
    reasons.CHILD: "a child process",
    reasons.FILE_LOCK: "a file lock",
    reasons.TERMINAL: "input from the terminal",
    reasons.PIPE: "a pipe",
    reasons.NETWORK: "a socket",
    reasons.EVENTS: "events (poll)",
    reasons.SIGNAL: "a signal",
    reasons.KERNEL_LOCK: "a lock in the kernel",
    reasons.DISK: "the disk",
    reasons.FUTEX: "a futex",
    reasons.OTHER: "an unknown reason",
    PAGE_FAULT: "memory to be read from disk (page fault)",
    ROW_LOCK: "a lock of the database",
}
VERBS: Final = {RUNNING: "runs", SPINNING: "spins for a spinlock", reasons.SLEEP: "sleeps", STOPPED: "is stopped"}
#: short names of kinds, for tables and JSON
NAMES: Final = {
    reasons.CPU: "runnable",
    reasons.GIL: "GIL",
    reasons.JOIN: "thread end",
    reasons.BARRIER: "barrier",
    reasons.CONDITION: "condition",
    reasons.LOCK: "lock",
    reasons.CHILD: "child",
    reasons.SLEEP: "sleep",
    reasons.FILE_LOCK: "file lock",
    reasons.TERMINAL: "terminal",
    reasons.PIPE: "pipe",
    reasons.NETWORK: "socket",
    reasons.EVENTS: "events",
    reasons.SIGNAL: "signal",
    reasons.KERNEL_LOCK: "kernel lock",
    reasons.DISK: "disk",
    reasons.FUTEX: "futex",
    reasons.OTHER: "unknown",
    RUNNING: "running",
    SPINNING: "spinlock",
    PAGE_FAULT: "page fault",
    ROW_LOCK: "row lock",
    STOPPED: "stopped",
}
_PYTHON: Final = re.compile(PYTHON_MARK + r"([^:]+):(.+):(\d+)", re.DOTALL)
_WITH_CALL: Final = (reasons.DISK, reasons.KERNEL_LOCK, reasons.OTHER)


def tasks_text(tids: Collection[int], tasks: RecordedTasks) -> str:
    """Return the number of threads, or of processes if each thread is in one of its own."""
    is_each_alone = len(tids) > 1 and len({tasks.pid_of.get(tid, tid) for tid in tids}) == len(tids)
    return f"{len(tids):,} {'processes' if is_each_alone else plural(len(tids), 'thread')}"


def activity_text(groups: CauseGroups, cause: Cause) -> str:
    """Return what a cause's threads do: "waits for the disk in save(), by fsync"."""
    if cause.kind in VERBS:
        where = running_function(groups, cause) if cause.kind in (RUNNING, SPINNING) else cause.function
        return f"{VERBS[cause.kind]}{_in(where)}"
    return f"waits for {object_text(groups, cause)}{_in(cause.function)}{_call(groups, cause)}{_polling(groups, cause)}"


def object_text(groups: CauseGroups, cause: Cause) -> str:
    """Return what a cause's threads wait for: "the mutex 0x5581e00c"."""
    if cause.kind in (reasons.LOCK, reasons.FUTEX) or (cause.lock and cause.kind == reasons.CONDITION):
        chain, _ = groups.largest("chains", cause.nodes)
        kind = (groups.meanings.meanings[chain].lock if chain >= 0 else "") or ("condition" if cause.kind == reasons.CONDITION else "lock")
        kind = "futex" if cause.kind == reasons.FUTEX else kind
        return f"the {kind} {lock_name(groups, cause.lock)}" if cause.lock else f"a {kind}"
    return OBJECTS.get(cause.kind, NAMES[cause.kind])


def has_holder(groups: CauseGroups, cause: Cause) -> bool:
    """Return whether the thread that ends a wait for a lock held it: any thread may post a semaphore, of which CPython makes its locks."""
    chain, _ = groups.largest("chains", cause.nodes)
    meaning = groups.meanings.meanings[chain] if chain >= 0 else None
    return meaning is None or meaning.is_python or meaning.lock not in ("semaphore", "lock")


def lock_name(groups: CauseGroups, address: int) -> str:
    """Return the variable at a lock's address, or else the address."""
    return visible(groups.lock_names.get(address, "")) or f"{address:#x}"


def running_function(groups: CauseGroups, cause: Cause) -> str:
    """Return the function in which running threads spent most time; "" without samples."""
    wants = int(cause.kind == SPINNING)
    samples = {value: count for value, count in groups.all_of("samples", cause.nodes).items() if value & 1 == wants}
    if not samples:
        return ""
    return groups.function(max(samples, key=lambda value: (samples[value], -value)) >> 1)


def waker_function(groups: CauseGroups, cause: Cause) -> str:
    """Return the function of the thread that ended most of a wait's time; "" if unknown."""
    chain, _ = groups.largest("waker_chains", cause.nodes)
    if chain < 0 or not groups.meanings.meanings[chain].is_own:
        return ""
    return groups.function(groups.meanings.meanings[chain].function)


def place_text(function: str) -> str:
    """Return a function as a sentence names it, Python's with the line.

    >>> place_text("py::Queue.get:/srv/worker.py:41"), place_text("flush")
    ('Queue.get(), worker.py:41', 'flush()')
    >>> place_text("py::<module>:/srv/worker.py:1")
    '<module>, worker.py:1'
    """
    match = _PYTHON.fullmatch(function)
    if match is None:
        return function_text(function)
    name = visible(match[1])
    return f"{name if name.endswith('>') else f'{name}()'}, {visible(short_path(match[2]))}:{match[3]}"


def _in(function: str) -> str:
    return f" in {place_text(function)}" if function else ""


def _call(groups: CauseGroups, cause: Cause) -> str:
    if cause.kind not in _WITH_CALL:
        return ""
    chain, _ = groups.largest("chains", cause.nodes)
    call = groups.meanings.meanings[chain].call if chain >= 0 else ""
    return f" ({visible(call)})" if call else ""


def _polling(groups: CauseGroups, cause: Cause) -> str:
    """Return a remark if threads wait for a child by sleeping between looks."""
    chain, _ = groups.largest("chains", cause.nodes) if cause.kind == reasons.CHILD else (-1, 0)
    is_sleep = chain >= 0 and groups.meanings.meanings[chain].reason in (reasons.SLEEP, reasons.EVENTS)
    return " (polling)" if is_sleep else ""
