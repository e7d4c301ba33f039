"""The verdict of `perfpy why`: one to three sentences that name the cause first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perfpy.abi.perfpy_encodings import PYTHON_MARK
from perfpy.analysis.verdict import wait_reasons as reasons
from perfpy.errors import plural
from perfpy.tools.why.causes import ROOT
from perfpy.tools.why.explanation import launchers
from perfpy.tools.why.tasks import FOR_OTHERS, FOR_RESOURCES, LOCKS, PAGE_FAULT, RUNNING, SPINNING, STOPPED
from perfpy.untrusted.text import visible
from perfpy.views.readable import short_path
from perfpy.views.verdict.sentence import LOST, MOST_LOST, beginning, function_text, join_names, percent, seconds
from perfpy.views.verdict.waits import describe_goroutines

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from perfpy.tools.why.causes import Cause, CauseGroups
    from perfpy.tools.why.explanation import Explanation
    from perfpy.tools.why.tasks import RecordedTasks


MATTERS: Final = 0.1  # of the time: smaller causes are not named
_RUNS: Final = 0.65  # of the time: programs that run for longer do not mainly wait
_MOST: Final = 0.4  # of a wait: a part that explains it
_OF_OTHERS: Final = 0.25  # of the time: waits of other threads that matter
_OF_RUNNING: Final = 0.2  # of the time on CPUs of all threads
_OF_OWN: Final = 0.4  # of the time of these threads
_SENTENCES: Final = 3
_DEEPEST: Final = 4  # threads in one sentence
_NAMES: Final = 4  # programs in one sentence


def verdict(explanation: Explanation) -> list[str]:
    """Return the sentences. Losses come first, and alone if most events were lost: the rest does not tell what happened."""
    share = explanation.lost_share
    if share < LOST:
        return _verdict(explanation)
    doubt = "what is left does not tell what the threads waited for" if share >= MOST_LOST else "some waits are missing or too long"
    lost = f"{percent(share)} of the events were lost: {doubt}; try perfpy record --off-cpu, which copies fewer stacks."
    return [lost, *(_verdict(explanation)[: _SENTENCES - 1] if share < MOST_LOST else ())]


def _verdict(explanation: Explanation) -> list[str]:
    groups, whole = explanation.path, explanation.elapsed
    if not whole:
        return ["The process did not run while it was recorded."]
    causes = [cause for cause in ranked(groups.causes(), whole) if cause.time >= MATTERS * whole][:3]
    if not causes:
        return [f"{_who(explanation, groups, groups.causes()[0])} has no wait longer than {percent(MATTERS)} of {seconds(whole / 1e9)}."]
    first, rest = causes[0], causes[1:]
    spinning = next((cause for cause in rest if cause.kind == SPINNING and cause.comm == first.comm), None)
    if first.kind == reasons.CPU and spinning:  # threads that spin use up the CPUs that others wait for
        rest = [cause for cause in rest if cause is not spinning]
    sentences = [*_of_other_threads(explanation, first), _first(explanation, first, spinning if first.kind == reasons.CPU else None)]
    sentences += [_further(explanation, cause) for cause in rest]
    through = _launchers(explanation, causes)
    if through:
        sentences[0] = f"{sentences[0].removesuffix('.')}; {through}."
    texts = [text for _, text in describe_goroutines(explanation.goroutines)]
    of_go = [f"{beginning(join_names(texts))}."] if texts else []
    return [*sentences[: _SENTENCES - len(of_go)], *of_go]


def _of_other_threads(explanation: Explanation, first: Cause) -> Iterator[str]:
    """Yield the sentence of a lock or a CPU for which other threads wait, if the main thread does not wait for one itself."""
    groups, times = explanation.waits, {thread.tid: thread.wall for thread in explanation.threads}
    candidates = [cause for cause in groups.children([ROOT]) if cause.kind in (*LOCKS, SPINNING, reasons.CPU)]
    for cause in candidates:
        inversion = inverted(explanation, groups, cause)
        if inversion and cause.time >= MATTERS * explanation.elapsed:
            yield f"Priority inversion: {inversion}"
            return
    if first.kind in FOR_RESOURCES or resource_of(explanation.path, first) is not None:
        return
    for cause in candidates:
        if set(groups.all_of("tids", cause.nodes)) == {explanation.main}:  # its own sentence follows
            continue
        if cause.kind == SPINNING:
            own, least = sum(one.time for one in groups.children([ROOT]) if one.kind in (RUNNING, SPINNING)), _OF_RUNNING
        else:
            own, least = sum(times.get(tid, 0) for tid in groups.all_of("tids", cause.nodes)), _OF_OWN
        if cause.time >= _OF_OTHERS * explanation.elapsed and own and cause.time >= least * own:
            amount = f"{percent(cause.time / own)} of {seconds(own / 1e9)}"
            yield f"{_chain(explanation, groups, cause, amount, 0)}."
            return


def ranked(causes: list[Cause], whole: int) -> list[Cause]:
    """Return the causes, the most important first: waits before running, unless the program runs most of the time."""
    running = [cause for cause in causes if cause.kind == RUNNING]
    waits = [cause for cause in causes if cause.kind != RUNNING]
    runs = sum(cause.time for cause in running)
    if runs >= _RUNS * whole or not waits or waits[0].time < MATTERS * whole:
        return running + waits
    return waits + running


def _launchers(explanation: Explanation, causes: list[Cause]) -> str:
    """Return "sh waits for make, which waits for cc1" if the first cause is in a program that others started and wait for."""
    groups = explanation.path
    started = next((cause for cause in causes if cause.is_started), None)
    if started is None:
        return ""
    names = launchers(groups.largest("tids", started.nodes)[0], explanation.main, explanation.tasks)
    return launch_text(names)


def launch_text(programs: Sequence[str]) -> str:
    """Return "sh waits for make, which waits for cc1"; "" for fewer than two programs."""
    names = [visible(name) or "unnamed program" for name in programs]
    if len(names) > _NAMES:
        names = [*names[:2], "...", names[-1]]
    return f"{names[0]} waits for {', which waits for '.join(names[1:])}" if len(names) > 1 else ""


def _first(explanation: Explanation, cause: Cause, spinning: Cause | None) -> str:
    """Return the first sentence. spinning: the same threads, while they wait for a spinlock."""
    groups, share = explanation.path, cause.time / explanation.elapsed
    of = f"{percent(share)} of {seconds(explanation.elapsed / 1e9)}"
    root = resource_of(groups, cause)
    if root is not None and root is not cause:
        part = f"{percent(root.time / explanation.elapsed)} of {seconds(explanation.elapsed / 1e9)}"
        text = _chain(explanation, groups, root, part, 1)
        return f"{text}; {_who(explanation, groups, cause)} {activity_text(groups, cause)} meanwhile."
    too = f", and {activity_text(groups, spinning)} for {percent(spinning.time / explanation.elapsed)}" if spinning else ""
    return f"{_chain(explanation, groups, cause, of, 0)}{too}."


def _further(explanation: Explanation, cause: Cause) -> str:
    groups, share = explanation.path, cause.time / explanation.elapsed
    return f"{_who(explanation, groups, cause)} {activity_text(groups, cause)} for {percent(share)}{_by(explanation, groups, cause)}."


def resource_of(groups: CauseGroups, cause: Cause) -> Cause | None:
    """Return the wait for a lock, a CPU or a device that explains most of a wait for another thread or process."""
    resource = cause
    for _ in range(_DEEPEST):
        if resource.kind not in FOR_OTHERS:
            return resource if resource.kind in FOR_RESOURCES else None
        inner = [one for one in groups.children(resource.nodes) if one.time >= 0.5 * cause.time]
        if not inner:
            return None
        resource = inner[0]
    return None


def inverted(explanation: Explanation, groups: CauseGroups, cause: Cause) -> str:
    """Return the sentence of a priority inversion; "" if there is none.

    A thread waits for a lock whose holder waits for a CPU, which threads with priorities in between use.
    """
    priorities = explanation.activities.priorities
    if cause.kind not in LOCKS:
        return ""
    ready = next((one for one in groups.children(cause.nodes) if one.kind == reasons.CPU and one.time >= _MOST * cause.time), None)
    if ready is None:
        return ""
    waiter, holder, runner = (
        groups.largest(name, nodes)[0] for name, nodes in (("tids", cause.nodes), ("tids", ready.nodes), ("runners", ready.nodes))
    )
    high, low, between = (priorities.get(tid, -1) for tid in (waiter, holder, runner))
    if not -1 < high < between < low:  # smaller numbers are higher priorities
        return ""
    share = f"{percent(cause.time / explanation.elapsed)} of {seconds(explanation.elapsed / 1e9)}"
    names = [visible(explanation.comm(tid)) for tid in (waiter, holder, runner)]
    where = activity_text(groups, cause)
    return (
        f"{names[0]} (priority {high}) {where} for {share}, held by {names[1]} (priority {low}), which cannot run because"
        f" {names[2]} (priority {between}) uses the CPU."
    )


def _chain(explanation: Explanation, groups: CauseGroups, cause: Cause, amount: str, depth: int) -> str:
    """Return "A waits 41 % of 2 s for the mutex M in f(), held by B in g(), which waits for the disk"."""
    text = f"{_who(explanation, groups, cause)} {_with_amount(activity_text(groups, cause), amount)}"
    return text + "".join(_links(explanation, groups, cause, depth))


def _with_amount(activity: str, amount: str) -> str:
    verb, _, rest = activity.partition(" ")
    if verb == "is":
        verb, rest = activity, ""
    return f"{verb} {amount}{f' {rest}' if rest else ''}"


def _links(explanation: Explanation, groups: CauseGroups, cause: Cause, depth: int) -> Iterator[str]:
    """Yield who ends the wait and what that thread does, and so on."""
    while depth < _DEEPEST:
        yield _by(explanation, groups, cause)
        inner = [one for one in groups.children(cause.nodes) if one.time >= _MOST * cause.time]
        if not inner:
            return
        inner_waits = [one for one in inner if one.kind != RUNNING]
        cause = (inner_waits or inner)[0]
        yield f", which {activity_text(groups, cause)}"
        depth += 1


def _by(explanation: Explanation, groups: CauseGroups, cause: Cause) -> str:
    """Return who ends a wait: ", held by worker in flush()"."""
    if cause.kind == reasons.CPU:
        runner, time = explanation.runner(groups, cause)
        return f", while {visible(explanation.comm(runner))} ({runner}) ran" if time else ""
    if cause.kind in (SPINNING, RUNNING):
        return ""
    waker, time = groups.largest("wakers", cause.nodes)
    if not time or time < 0.3 * cause.time:
        return ""
    word = "held by" if cause.kind in LOCKS and has_holder(groups, cause) else "ended by"
    return f", {word} {visible(explanation.comm(waker))} ({waker}){in_place(waker_function(groups, cause))}"


def in_place(function: str) -> str:
    """Return " in f()"; "" without a function."""
    return f" in {place_text(function)}" if function else ""


def _who(explanation: Explanation, groups: CauseGroups, cause: Cause) -> str:
    """Return the threads of a cause: "worker (4 threads)", "cc1 (2 processes)", "main (1234)"."""
    tids = groups.all_of("tids", cause.nodes)
    name = visible(cause.comm) or "unnamed thread"
    if len(tids) > 1:
        return f"{name} ({tasks_text(tids, explanation.tasks)})"
    return f"{name} ({next(iter(tids))})" if tids else name


OBJECTS: Final = {
    reasons.CPU: "a CPU",
    reasons.GIL: "Python's global interpreter lock (GIL)",
    reasons.JOIN: "the end of a thread",
    reasons.BARRIER: "a barrier",
    reasons.QUEUE: "work",
    reasons.FULL_QUEUE: "room in a full queue",
    reasons.RESULT: "the result of a task",
    reasons.CONDITION: "a condition",
    reasons.LOCK: "a lock",
    reasons.SEMAPHORE: "a semaphore",
    reasons.CHILD: "a child process",
    reasons.FILE_LOCK: "a file lock",
    reasons.TERMINAL: "input from the terminal",
    reasons.PIPE: "a pipe",
    reasons.CLIENT: "a connection",
    reasons.NETWORK: "a socket",
    reasons.NAME: "the address of a host (DNS)",
    reasons.EVENTS: "events (poll)",
    reasons.SIGNAL: "a signal",
    reasons.KERNEL_LOCK: "a lock in the kernel",
    reasons.DISK: "the disk",
    reasons.MESSAGE: "a message",
    reasons.INPUT: "input",
    reasons.FUTEX: "a futex",
    reasons.OBJECT_LOCK: "a Python object that another thread uses",
    reasons.WORLD_STOP: "the end of a stop of all threads",
    reasons.NOTIFICATION: "Atomics.notify()",
    reasons.OTHER: "an unknown reason",
    PAGE_FAULT: "memory to be read from disk (page fault)",
    reasons.ROW_LOCK: "a lock of the database",
}
VERBS: Final = {RUNNING: "runs", SPINNING: "spins for a spinlock", reasons.SLEEP: "sleeps", STOPPED: "is stopped"}
#: short names of kinds, for tables and JSON
NAMES: Final = {
    reasons.CPU: "runnable",
    reasons.GIL: "GIL",
    reasons.JOIN: "thread end",
    reasons.BARRIER: "barrier",
    reasons.QUEUE: "work",
    reasons.FULL_QUEUE: "full queue",
    reasons.RESULT: "task",
    reasons.CONDITION: "condition",
    reasons.LOCK: "lock",
    reasons.SEMAPHORE: "semaphore",
    reasons.CHILD: "child",
    reasons.SLEEP: "sleep",
    reasons.FILE_LOCK: "file lock",
    reasons.TERMINAL: "terminal",
    reasons.PIPE: "pipe",
    reasons.CLIENT: "connection",
    reasons.NETWORK: "socket",
    reasons.NAME: "DNS",
    reasons.EVENTS: "events",
    reasons.SIGNAL: "signal",
    reasons.KERNEL_LOCK: "kernel lock",
    reasons.DISK: "disk",
    reasons.MESSAGE: "message",
    reasons.INPUT: "input",
    reasons.FUTEX: "futex",
    reasons.OBJECT_LOCK: "object lock",
    reasons.WORLD_STOP: "world stop",
    reasons.NOTIFICATION: "Atomics.wait",
    reasons.OTHER: "unknown",
    RUNNING: "running",
    SPINNING: "spinlock",
    PAGE_FAULT: "page fault",
    reasons.ROW_LOCK: "row lock",
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
        return f"{VERBS[cause.kind]}{in_place(where)}"
    return f"waits for {object_text(groups, cause)}{in_place(cause.function)}{_call(groups, cause)}{_polling(groups, cause)}"


def turn_text(groups: CauseGroups, kind: int, function: int, lock: int, chain: int) -> str:
    """Return what a thread does in one turn: "waits for a lock in save()". lock: its address, also as a signed number; chain: -1: none."""
    if kind in (RUNNING, SPINNING):
        return VERBS[kind]
    where = in_place(groups.function(function)) if kind != reasons.CPU else ""
    awaited = object_of(groups, kind, lock & 0xFFFFFFFFFFFFFFFF, chain)
    return f"{VERBS[kind]}{where}" if kind in VERBS else f"waits for {awaited}{where}"


def object_text(groups: CauseGroups, cause: Cause) -> str:
    """Return what a cause's threads wait for: "the mutex 0x5581e00c"."""
    return object_of(groups, cause.kind, cause.lock, groups.largest("chains", cause.nodes)[0])


def object_of(groups: CauseGroups, kind: int, lock: int, chain: int) -> str:
    """Return what a thread waits for. chain: its callchain; -1: none."""
    if kind in (reasons.LOCK, reasons.FUTEX) or (lock and kind == reasons.CONDITION):
        name = (groups.meanings.meanings[chain].lock if chain >= 0 else "") or ("condition" if kind == reasons.CONDITION else "lock")
        name = "futex" if kind == reasons.FUTEX else name
        return f"the {name} {lock_name(groups, lock)}" if lock else f"a {name}"
    return OBJECTS.get(kind, NAMES[kind])


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
