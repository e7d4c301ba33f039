"""Sentences about waits: what threads and goroutines wait for, and who ends it; blocked event loops, and pools of Python's processes.

Times of waits are measured, not sampled.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.analysis.sample_view import NANOSECONDS_A_SECOND
from perfpy.analysis.verdict import wait_reasons as reasons
from perfpy.analysis.verdict.waits import (
    GO_CONDITION,
    GO_INPUT,
    GO_LOCK,
    GO_NAME,
    GO_OTHER,
    GO_OTHERS,
    GO_RECEIVE,
    GO_SELECT,
    GO_SEND,
    GO_SLEEP,
    ONE_FUNCTION,
    RUNNING,
    BlockedTime,
    find_circle,
    long_turns,
    long_waits,
    pool_times,
)
from perfpy.errors import plural
from perfpy.untrusted.text import visible
from perfpy.views.verdict.sentence import (
    Sentence,
    beginning,
    function_text,
    join_names,
    number_word,
    percent,
    program_text,
    seconds,
    source,
    starting_code,
    within,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from perfpy.analysis.verdict.call_sites import HotLine
    from perfpy.analysis.verdict.evidence import Evidence
    from perfpy.analysis.verdict.waits import SeenLock, Wait, WaitingGoroutines, Waker


MATTERS: Final = 0.2  # of the elapsed time: shorter waits are no cause
LEAST: Final = 0.02  # seconds
AT_REST: Final = 0.05  # of the elapsed time: what programs do that use CPUs for less is not told
BUSY: Final = 0.5  # of the elapsed time: programs that use CPUs for longer do not mainly wait
OF_PROGRAM: Final = 0.5  # of the waits for a lock: those of the program's own code
SLEEPS: Final = 0.9  # the weight of sleeps: a thread that waits as long for the one that sleeps tells more
IN_QUEUE: Final = 0.1  # of the time that a waker used a CPU: waits for one
IN_ONE_FUNCTION: Final = 0.5  # of the waits for one reason
SURELY_OWN: Final = 0.9  # of the waits for one reason have a stack of their own: the others hardly matter
ROUNDED: Final = 0.1  # of a number of goroutines: what their mean may differ from it
RARE_GOROUTINES: Final = 0.5  # fewer on average are not told
_MOST_PEERS: Final = 3  # addresses that are named
_MOST_GROUPS: Final = 3  # groups of goroutines

#: threads that wait for each other
OF_THREADS: Final = (reasons.LOCK, reasons.OBJECT_LOCK, reasons.ROW_LOCK, reasons.GIL, reasons.KERNEL_LOCK, reasons.FILE_LOCK)
#: waits for work, which are no cause if other threads of the program run or wait
FOR_WORK: Final = (
    *(reasons.JOIN, reasons.BARRIER, reasons.QUEUE, reasons.CONDITION, reasons.SEMAPHORE, reasons.EVENTS, reasons.SIGNAL),
    *(reasons.CLIENT, reasons.MESSAGE, reasons.FUTEX, reasons.OTHER, reasons.FULL_QUEUE, reasons.RESULT),
    reasons.NOTIFICATION,
)
#: waits that are no cause if the program's other processes use CPUs meanwhile
FOR_OTHERS: Final = (reasons.CHILD, reasons.PIPE, reasons.NETWORK, reasons.NAME, reasons.INPUT)

#: waits of a server for its clients
OF_SERVERS: Final = (reasons.EVENTS, reasons.NETWORK, reasons.CLIENT)

#: waits that tell something beside those of other threads: not for work, but those of own code for what others have
_BESIDE: Final = (
    *(reasons.PIPE, reasons.QUEUE, reasons.FULL_QUEUE, reasons.RESULT, reasons.SEMAPHORE, reasons.BARRIER, reasons.CONDITION),
    *(reasons.NETWORK, reasons.NAME, reasons.DISK, reasons.MESSAGE, *OF_THREADS),
)

#: what threads wait for
WAIT_WORDS: Final = {
    reasons.CPU: "for a CPU, which other threads or programs used",
    reasons.GIL: "for Python's global interpreter lock (GIL)",
    reasons.JOIN: "for the end of a thread",
    reasons.BARRIER: "at a barrier",
    reasons.QUEUE: "for work",
    reasons.FULL_QUEUE: "for room in a queue",
    reasons.RESULT: "for the result of a task",
    reasons.CONDITION: "for a condition",
    reasons.LOCK: "for a lock",
    reasons.ROW_LOCK: "for a lock of the database",
    reasons.SEMAPHORE: "for a semaphore",
    reasons.CHILD: "for a child process",
    reasons.FILE_LOCK: "for a file lock",
    reasons.TERMINAL: "for input from the terminal",
    reasons.PIPE: "for a pipe",
    reasons.CLIENT: "for a connection",
    reasons.NETWORK: "for a socket",
    reasons.NAME: "for the address of a host (DNS)",
    reasons.EVENTS: "for events",
    reasons.SIGNAL: "for a signal",
    reasons.KERNEL_LOCK: "for a lock in the kernel",
    reasons.DISK: "for the disk",
    reasons.MESSAGE: "for a message",
    reasons.INPUT: "for input",
    reasons.FUTEX: "for another thread",
    reasons.OBJECT_LOCK: "for a Python object that another thread used",
    reasons.WORLD_STOP: "for the end of a stop of all threads, as for garbage collection",
    reasons.NOTIFICATION: "for Atomics.notify()",
    reasons.OTHER: "for unknown reasons",
}

_ALL_THE_TIME: Final = 0.9  # of the elapsed time
_FOR_OTHER_THREADS: Final = (reasons.QUEUE, reasons.CONDITION, reasons.RESULT)

#: what goroutines do, by the reasons of perfpy.analysis.verdict.waits
GO_WORDS: Final = {
    GO_LOCK: "waited for a lock",
    GO_NAME: "waited for the address of a host (DNS)",
    GO_SEND: "waited to send to a channel",
    GO_SLEEP: "slept",
    GO_RECEIVE: "waited to receive from a channel",
    GO_SELECT: "waited in a select",
    GO_CONDITION: "waited for a condition",
    GO_INPUT: "waited for input or output",
    GO_OTHERS: "waited for other goroutines",
    GO_OTHER: "waited",
}


def longest_wait(evidence: Evidence) -> Iterator[Sentence]:
    """Name the reason of the longest waits, the function, and the time; then the waits of other threads for another reason."""
    main = find_main_wait(evidence)
    if main is None or evidence.waits is None:
        return
    sentence = _sentence(evidence, main, with_cause=True)
    yield sentence
    beside = _wait_beside(evidence, main)
    if beside is None or _is_told(evidence, main, sentence, beside):
        beside = _wait_for_cpus(evidence, main)
    if beside is not None:
        yield _sentence(evidence, beside, with_cause=False)


def _is_told(evidence: Evidence, main: Wait, sentence: Sentence, beside: Wait) -> bool:
    """Whether the sentence on the main wait tells other waits, as those of the thread that ended it, with all that have no own code."""
    if beside.threads != 1 or sentence.numbers.get("waker reason") != float(beside.reason):
        return False
    waker = evidence.waker(main)
    lock = evidence.seen_lock(main) if waker is None else None
    return beside.thread == (waker.tid if waker is not None else lock.holder if lock is not None else -1)


def _wait_beside(evidence: Evidence, main: Wait) -> Wait | None:
    """Return the longest waits of the program's own code for another reason than the main waits; None if none lasted long, or the program
    is at rest. Sleeps come last: they may be those of a timer.
    """
    if main.reason == reasons.JOIN and evidence.waker(main) is None:
        return _wait_of_joined(evidence, main)
    if main.reason in (*OF_SERVERS, *FOR_WORK) and main.reason != reasons.NETWORK:
        return None
    waits = [one for one in _waits_of_own_code(evidence) if one.reason not in (main.reason, reasons.CHILD)]
    chosen = [one for one in waits if one.reason in _BESIDE]
    if not chosen and main.reason != reasons.CPU:
        chosen = [one for one in waits if one.reason == reasons.SLEEP]
    return chosen[0] if chosen else None


def _wait_for_cpus(evidence: Evidence, main: Wait) -> Wait | None:
    """Return the waits for a CPU, None if the program used CPUs for longer: the time of the main waits is not all that others took."""
    assert evidence.waits is not None
    if main.reason == reasons.CPU:
        return None
    least = max(MATTERS * evidence.elapsed, evidence.seconds or 0.0)
    waits = (one for one in evidence.waits.by_reason() if one.reason == reasons.CPU)
    return next((one for one in waits if one.longest >= least), None)


def _wait_of_joined(evidence: Evidence, join: Wait) -> Wait | None:
    """Return the longest waits of own code in the other threads of a process, whose end one thread waits for all the time."""
    assert evidence.waits is not None
    dimensions = evidence.waits.rows.dimensions
    is_other = (dimensions["tid"] != join.thread) & (dimensions["pid"] == evidence.process_of_wait(join))
    rows = np.flatnonzero(is_other & (evidence.waits.functions.charged_functions >= 0))
    waits = [one for one in evidence.waits.by_reason(rows) if one.longest >= BUSY * evidence.elapsed and one.in_function >= ONE_FUNCTION]
    idle_functions = {one.function for one in waits if one.reason in FOR_WORK and one.reason != reasons.JOIN}
    waits.sort(key=lambda wait: wait.reason == reasons.LOCK and wait.function in idle_functions)  # the turns of a pool come last
    return next((one for one in waits if one.reason not in (reasons.JOIN, reasons.CPU)), None)


def _waits_of_own_code(evidence: Evidence) -> list[Wait]:
    """Return the waits of own code, longest first, that lasted for half of the time in one thread and one function."""
    assert evidence.waits is not None
    waits = evidence.waits.by_reason(np.flatnonzero(evidence.waits.functions.charged_functions >= 0))
    return [one for one in waits if one.longest >= BUSY * evidence.elapsed and one.in_function >= ONE_FUNCTION]


def _reason_text(evidence: Evidence, wait: Wait) -> str:
    """Return what a thread waits for, as it follows "waited"."""
    if wait.reason == reasons.OTHER and wait.threads == 1 and (call := evidence.call_of(wait)):
        return f" in the system call {visible(call)}"
    text = f" {WAIT_WORDS[wait.reason]}"
    if wait.reason == reasons.CPU and wait.threads == 1 and evidence.is_only_busy_thread(wait.thread):
        text = " for a CPU, which other programs used"
    if wait.reason == reasons.QUEUE and wait.in_own >= ONE_FUNCTION and evidence.takes_from_queues:
        text = " for an item of a queue"
    elif wait.reason == reasons.QUEUE and wait.in_own >= ONE_FUNCTION and evidence.receives_from_channels:
        text = " for a message of a channel"
    if wait.reason == reasons.RESULT and not evidence.takes_from_queues:
        text = " for the value of a future"
    if wait.reason == reasons.CONDITION and evidence.is_never_woken(wait):
        text += " that no recorded thread signalled"
    if wait.reason == reasons.EVENTS and evidence.is_rarely_woken(wait):
        text += " or a timer"
    if wait.reason in (reasons.EVENTS, reasons.NETWORK) and wait.threads == 1:
        how, addresses = evidence.peers(wait)
        own = evidence.process_of_wait(wait)
        shown = [f"{visible(address)}{_process_at(name, pid, own)}" for address, name, pid in addresses]
        text += f", {how} {join_names(shown)}" if 0 < len(shown) <= _MOST_PEERS else ""
    return text


def _without_end(evidence: Evidence, wait: Wait, numbers: dict[str, float], *, is_endless: bool) -> str:
    """Return why a wait has no end, or that it had none, "" for others."""
    if wait.reason in _FOR_OTHER_THREADS and wait.longest >= _ALL_THE_TIME * evidence.elapsed and evidence.is_of_only_thread(wait):
        return "; its process has no other thread"
    if not is_endless:
        return ""
    deadlock = "; none of them got it: a deadlock, as no other thread can release it" if evidence.is_deadlock(wait) else ""
    missed = deadlock or ("; none of them got it" if wait.threads > 1 else "; nobody released it")
    if wait.reason != reasons.RESULT:
        return missed
    if not (workers := evidence.waiting_workers):
        return "; it did not come"
    numbers["workers"] = float(workers)
    which = f"{'both' if workers == 2 else f'all {number_word(workers)}'} threads that run tasks of pools wait"
    return f"; it did not come: {'the only thread that runs tasks of a pool waits' if workers == 1 else which} for one, too"


def _process_at(name: str, pid: int, own: int) -> str:
    """Return the process at the other end of a connection, in brackets; "" if it is unknown."""
    return " (in the same process)" if pid == own else f" ({program_text(name)}, process {pid})" if pid else ""


def _sentence(evidence: Evidence, wait: Wait, *, with_cause: bool) -> Sentence:
    """Return the sentence on some waits. with_cause: also what ended them, and what goroutines did meanwhile."""
    verb = "slept" if wait.reason == reasons.SLEEP else "waited"
    reason = "" if wait.reason == reasons.SLEEP else _reason_text(evidence, wait)
    numbers = {"seconds": wait.seconds, "threads": float(wait.threads), "elapsed": evidence.elapsed, "reason": float(wait.reason)}
    cpus, reached = evidence.cpu_limit(wait) if wait.reason == reasons.CPU else (0.0, 0.0)
    if reached >= MATTERS:
        numbers |= {"cpu limit": cpus, "periods at the limit": reached}
        reason = f" for a CPU; its cgroup may use {cpus:g} CPUs, and reached that limit in {percent(reached)} of the periods"
    if wait.threads > 1:
        who = beginning(f"{number_word(wait.threads)} {'processes' if wait.processes == wait.threads else 'threads'}")
        text = f"{who}{_started_by(evidence, wait)} {verb} {seconds(wait.seconds)} in total{reason}"
    else:
        name = evidence.comm(wait.thread)
        who = program_text(name) if name else "The program"
        text = f"{who} {verb} {seconds(wait.seconds)} of {seconds(max(evidence.elapsed, wait.seconds))}{reason}"
    if (share := evidence.share_of_own_stacks(wait)) < SURELY_OWN:
        numbers["own stacks"] = share
        text += f" (by the stacks of {percent(share)} of these waits)"
    names = {}
    in_both = wait.in_function + wait.in_second
    is_endless = wait.reason in (*OF_THREADS, reasons.RESULT) and evidence.is_endless(wait)
    if wait.function and max(wait.in_function, in_both if wait.second else 0.0) >= IN_ONE_FUNCTION and wait.reason != reasons.CPU:
        names["function"], numbers["in function"] = wait.function, wait.in_function
        is_one = wait.in_function >= ONE_FUNCTION
        has_both = not is_one and wait.second and in_both >= ONE_FUNCTION
        both = f" and {function_text(wait.second)}{_wait_source(wait, wait.second, evidence.second_line(wait))}" if has_both else ""
        most = "" if is_one or both else "mostly "
        if both or wait.in_function >= IN_ONE_FUNCTION:
            where = f"{function_text(wait.function)}{_wait_source(wait, wait.function, evidence.wait_line(wait))}{both}"
            text += f", {most}{within(where, evidence.vague_share(wait, in_both=bool(both)), are_several=bool(both))}"
        elif is_endless:  # each thread hangs in another one
            others = f"{function_text(wait.function)}, {function_text(wait.second)} and others"
            text += f", {within(others, evidence.vague_share(wait, in_both=True), are_several=True)}"
    text += _without_end(evidence, wait, numbers, is_endless=is_endless)
    if with_cause:
        goroutines = _goroutines(evidence, wait, numbers, names)
        if goroutines and wait.reason in FOR_WORK and "function" not in names:  # it is a thread of Go's runtime that waits, not the program
            text = f"While {who} waited, {goroutines.removeprefix('; meanwhile ')}"
        else:
            text += goroutines or _cause(evidence, wait, numbers, names)
    return Sentence("longest wait" if with_cause else "wait beside", f"{text}.", numbers, names)


def stuck_threads(evidence: Evidence) -> Iterator[Sentence]:
    """Tell which threads wait for each other's locks, and for which; or that a lock's holder has ended."""
    stuck = {tid: lock for tid, lock in evidence.stuck_threads.items() if evidence.function_of_lock(tid) is not None}
    circle = find_circle(stuck)
    numbers, names = {"threads": float(len(circle))}, {f"lock {number}": one.name for number, one in enumerate(circle)}
    functions = [_function_of_lock(evidence, one) for one in circle]
    names |= {f"function {number}": function for number, (function, _) in enumerate(functions) if function}
    if len(circle) == 1:
        yield Sentence(
            "deadlock", f"Deadlock: a thread waits{functions[0][1]} for {_lock(circle[0])}, which it holds itself.", numbers, names
        )
        return
    if circle:
        are_processes = len({evidence.process_of(one.tid) for one in circle}) == len(circle)
        texts = [*dict.fromkeys(f"{where} for {_lock(one)}" for one, (_, where) in zip(circle, functions, strict=True))]
        each = "one" if len(texts) > 1 else "all"
        who = f"{number_word(len(circle))} {'processes' if are_processes else 'threads'} wait for each other"
        yield Sentence("deadlock", f"Deadlock: {who}: {join_names([f'{each}{text}' for text in texts])}.", numbers, names)
        return
    left = next((one for one in stuck.values() if not one.holder_name and not one.is_file), None)
    if left is not None:
        function, where = _function_of_lock(evidence, left)
        count = sum(one.holder == left.holder for one in stuck.values())
        who = f"{number_word(count)} {plural(count, 'thread waits', 'threads wait')}".capitalize()
        text = f"{who}{where} for {_lock(left)}, which thread {left.holder} held when it ended."
        yield Sentence("lock of an ended thread", text, {"threads": float(count)}, {"lock": left.name, "function": function})


def _function_of_lock(evidence: Evidence, lock: SeenLock) -> tuple[str, str]:
    """Return the function in which a thread waits for a lock, "" if unknown, and where that is, as " in f() (a.c:1)"."""
    function, line, vague = evidence.function_of_lock(lock.tid) or ("", None, 0.0)
    return function, f" {within(f'{function_text(function)}{source(function, line)}', vague)}" if function else ""


def _lock(lock: SeenLock) -> str:
    """Return a lock as a sentence names it."""
    if lock.is_file:
        return f"the lock of {visible(os.path.basename(lock.name))}"
    return f"the mutex {visible(lock.name)}" if lock.name else "a mutex"


def _wait_source(wait: Wait, function: str, line: HotLine | None) -> str:
    """Return where a function waits longest, as a suffix, with the time at that line if it is not nearly all of the function's."""
    if line is None or line.is_alone or wait.reason == reasons.GIL:  # that line is where it runs
        return source(function, line)
    return source(function, line, amount=seconds(line.period / NANOSECONDS_A_SECOND))


def waits_for_started(evidence: Evidence, wait: Wait) -> Iterator[Sentence]:
    """Tell how long the thread that starts processes waited for them in each function: for most of the time, and not in one alone."""
    share = wait.in_function + (wait.in_second if wait.second else 0.0)
    if wait.threads > 1 or wait.longest < BUSY * evidence.elapsed or share < IN_ONE_FUNCTION or wait.in_function >= ONE_FUNCTION:
        return
    name, elapsed = evidence.comm(wait.thread), max(evidence.elapsed, wait.longest)
    where = _wait_source(wait, wait.function, evidence.wait_line(wait))
    vague = evidence.vague_share(wait)
    clauses = [f"{percent(wait.in_function)} {within(f'{function_text(wait.function)}{where}', vague)}"]
    if wait.second and wait.in_second >= MATTERS:
        clauses.append(f"{percent(wait.in_second)} {within(function_text(wait.second), vague)}")
    text = f"{program_text(name) if name else 'The program'} waited {seconds(wait.longest)} of {seconds(elapsed)} for them: "
    names = {"function": wait.function, **({"second": wait.second} if wait.second else {})}
    numbers = {"seconds": wait.longest, "elapsed": elapsed, "in function": wait.in_function, "in second": wait.in_second}
    yield Sentence("wait for started", f"{text}{join_names(clauses)}.", numbers, names)


def _goroutines(evidence: Evidence, wait: Wait, numbers: dict[str, float], names: dict[str, str]) -> str:
    """Return what the goroutines of a Go program waited for, "" for other programs."""
    texts = describe_goroutines(evidence.goroutines(wait))
    for number, (group, _) in enumerate(texts):
        numbers[f"goroutines {number}"], names[f"function of goroutines {number}"] = group.number, group.function
    return f"; meanwhile {join_names([text for _, text in texts])}" if texts else ""


def describe_goroutines(groups: Sequence[WaitingGoroutines]) -> list[tuple[WaitingGoroutines, str]]:
    """Return the first groups of waiting goroutines, each with a text: "three goroutines waited for a lock in update() (index.go:5)"."""
    texts = []
    for group in groups[:_MOST_GROUPS]:
        count = round(group.number)
        is_whole = count and abs(group.number - count) <= ROUNDED * count
        if not is_whole and group.number < RARE_GOROUTINES:
            continue
        who = f"{number_word(count)} {plural(count, 'goroutine')}" if is_whole else "goroutines"
        where = f"in {function_text(group.callee)}, called from " if group.callee else "in "
        where += f"{function_text(group.function)}{source(group.function, (group.file, group.line))}"
        creator = group.creator
        is_inside = creator is None or creator.function == group.function
        notes = [] if is_whole else [f"{group.number:.1f} at a time"]
        notes += [f"started in {function_text(creator.function)}"] if creator is not None and not is_inside else []
        began = f" ({', '.join(notes)})" if notes else ""
        texts.append((group, f"{who}{began} {GO_WORDS[group.reason]} {where}"))
    return texts


def _started_by(evidence: Evidence, wait: Wait) -> str:
    """Return the name of processes that all have one, and of the program that started them; "" if it is the same program."""
    name, parent = evidence.name_and_parent(wait)
    return f" of {program_text(name)}, which {program_text(parent)} started," if name and parent and name != parent else ""


def _cause(evidence: Evidence, wait: Wait, numbers: dict[str, float], names: dict[str, str]) -> str:
    """Return what the thread that ended the wait did meanwhile, "" if that is not known."""
    waker = evidence.waker(wait)
    holders = evidence.holders(wait) if waker is None and wait.reason in OF_THREADS else None
    waker = waker or holders
    if waker is None and wait.reason in (reasons.LOCK, reasons.FILE_LOCK) and (lock := evidence.seen_lock(wait)) is not None:
        return _held(evidence, lock, numbers, names)
    if waker is None:
        return _children(evidence, wait) if wait.reason == reasons.CHILD else ""
    numbers["waker seconds"], numbers["waker reason"], names["function of waker"] = waker.seconds, float(waker.reason), waker.function
    where = _in_function(evidence, waker)
    if holders:  # without a time: they did the same between two times with the lock
        return f"; meanwhile its holders mostly {_activity(waker)}{where}"
    return f"; {_waker_text(evidence, wait, waker)} {_activity(waker, seconds(waker.seconds))}{where}"


def _held(evidence: Evidence, lock: SeenLock, numbers: dict[str, float], names: dict[str, str]) -> str:
    """Return which thread or process held a lock, and what it did meanwhile, if it was recorded."""
    names["lock"] = lock.name
    who = f"{'process' if lock.is_file else 'thread'} {lock.holder}"
    name = lock.holder_name
    if not name:
        return f"; {who}, which has ended, had taken {_lock(lock)}"
    text = f"; {program_text(name)} ({who}) held {_lock(lock)}"
    activity = evidence.activity(lock.holder)
    if activity is None:
        return text
    numbers["waker seconds"], numbers["waker reason"], names["function of waker"] = (
        activity.seconds,
        float(activity.reason),
        activity.function,
    )
    return f"{text}, and {_activity(activity, seconds(activity.seconds))}{_in_function(evidence, activity)}"


def _in_function(evidence: Evidence, activity: Waker) -> str:
    """Return in which function a thread did something for most of the time, "" if that is unknown."""
    if not activity.function or activity.in_function < IN_ONE_FUNCTION:
        return ""
    most = "" if activity.in_function >= ONE_FUNCTION else "mostly "
    where = f"{function_text(activity.function)}{source(activity.function, evidence.waker_line(activity))}"
    return f", {most}{within(where, evidence.vague_share_of_waker(activity))}"


def _children(evidence: Evidence, wait: Wait) -> str:
    """Return which program the children of a process that waits for them ran, and where they were started; "" if that is not known."""
    name, count, start = evidence.children_in_turn(wait)
    where = f", {within(starting_code(start), start.vague)}" if start else ""
    return f"; it {f'ran {program_text(name)}' if name else 'forked'} {count:,} times{where}" if count else ""


def _waker_text(evidence: Evidence, wait: Wait, waker: Waker) -> str:
    """Return the thread that ended a wait, as a sentence names it."""
    is_process = waker.pid != evidence.process_of(wait.thread)
    name = evidence.comm(waker.tid)
    named = f" {program_text(name)}" if name and name != evidence.comm(wait.thread) else ""
    if waker.depth > 1:
        between = [*dict.fromkeys(map(evidence.comm, waker.through))]
        known = f" ({join_names([*map(program_text, between)])})" if {*between} != {evidence.comm(wait.thread)} else ""
        return f"it waited for {'a process' if is_process else 'a thread'}{known} that waited too, and the last one{named}"
    if wait.reason == reasons.CHILD:
        return f"the child process{named}"
    verb = "released" if wait.reason in OF_THREADS else "woke"
    is_child = waker.pid in evidence.children_of(evidence.process_of(wait.thread))
    return f"the {'child process' if is_child else 'process' if is_process else 'thread'}{named} that {verb} it"


def _activity(waker: Waker, duration: str = "") -> str:
    """Return what a thread did, and for how long, unless that is told elsewhere."""
    if waker.reason == RUNNING:
        activity = "used a CPU" if waker.in_queue < IN_QUEUE * waker.seconds else "used a CPU, or waited for one"
        return f"{activity}{',' if ',' in activity else ''} for {duration}" if duration else activity
    time = f" {duration}" if duration else ""
    return f"slept{time}" if waker.reason == reasons.SLEEP else f"waited{time} {_wait_words(waker.reason)}"


def _wait_words(reason: int) -> str:
    """Return what a thread that is not the subject of the sentence waits for."""
    return "for a CPU" if reason == reasons.CPU else WAIT_WORDS[reason]


def find_main_wait(evidence: Evidence) -> Wait | None:
    """Return the waits that explain most of the elapsed time, None if they are no cause."""
    if evidence.waits is None or evidence.is_system_wide:
        return None
    least = max(MATTERS * evidence.elapsed, LEAST)
    waits = [wait for wait in evidence.waits.by_reason() if wait.seconds >= least]
    waits = [evidence.outermost(wait) if wait.reason == reasons.CHILD else wait for wait in waits]
    in_queue = max((wait.longest for wait in evidence.waits.by_reason() if wait.reason == reasons.CPU), default=0.0)  # of one thread
    is_busy = (evidence.seconds or 0.0) + in_queue >= BUSY * evidence.elapsed
    idle_functions = {name for wait in waits if wait.reason in FOR_WORK for name in (wait.function, wait.second) if name}
    servers = {evidence.process_of_wait(wait) for wait in waits if wait.reason in OF_SERVERS}
    waits = [wait for wait in waits if not _is_timer(evidence, wait, servers)]
    helpers = _helpers(evidence) if not is_busy else set()
    waits = [wait for wait in waits if evidence.process_of_wait(wait) not in helpers] or waits
    no_cause = (*FOR_OTHERS, reasons.SLEEP) if is_busy else ()
    causes = [wait for wait in waits if not _is_for_work(wait, idle_functions) and wait.reason not in no_cause]
    if any(one.reason == reasons.SLEEP and _is_in_child(evidence, one, causes) for one in _waits_of_own_code(evidence)):
        causes = [wait for wait in causes if wait.reason != reasons.CHILD]
    # a thread's waits explain the elapsed time, not the sum of a process's and its child's
    causes.sort(key=lambda wait: -wait.longest * (SLEEPS if wait.reason == reasons.SLEEP else 1.0))
    between = sorted((wait for wait in causes if wait.reason in OF_THREADS), key=lambda wait: -wait.seconds)
    idle = next((wait for wait in waits if _is_for_work(wait, idle_functions) and wait.threads == 1), None)
    if not is_busy and all(wait.reason in OF_SERVERS or _is_for_work(wait, idle_functions) for wait in waits):
        of_results = next((one for one in waits if one.reason == reasons.RESULT), None)
        own = sorted(_waits_of_own_code(evidence), key=lambda wait: wait.reason == reasons.LOCK)  # the turns of a pool come last
        return _wait_of_server(evidence) or of_results or next(iter([*own, *waits]), None)
    if not between and causes and causes[0].reason == reasons.CPU and not is_busy:
        idle = _wait_of_server(evidence) or idle
        if idle and idle.longest > causes[0].longest:
            return idle  # the thread that others serve, or the only one that waits, has more to wait for than CPUs
    if between or causes:
        return (between or causes)[0]
    return waits[0] if waits and not is_busy else None


def _helpers(evidence: Evidence) -> set[int]:
    """Return the processes whose creator waits for something else than them for most of the time: its wait tells more than theirs."""
    assert evidence.waits is not None
    tids = evidence.waits.rows.dimensions["tid"]
    helpers: set[int] = set()
    for pid in evidence.main_threads:
        children = evidence.main_threads.intersection(evidence.children_of(pid))
        own = next(iter(evidence.waits.by_reason(np.flatnonzero(tids == pid))), None) if children else None
        if own is not None and own.reason in OF_SERVERS and own.seconds >= BUSY * evidence.elapsed:
            helpers |= children
    return helpers


def _is_in_child(evidence: Evidence, sleep: Wait, causes: Sequence[Wait]) -> bool:
    """Whether a process sleeps in own code for most of the time for which the process that created it waits for its children."""
    parents = [evidence.process_of_wait(one) for one in causes if one.reason == reasons.CHILD and sleep.longest >= OF_PROGRAM * one.longest]
    return any(evidence.process_of_wait(sleep) in evidence.children_of(parent) for parent in parents)


def _wait_of_server(evidence: Evidence) -> Wait | None:
    """Return the waits of the thread that others serve, in a process without work: one that waits for clients, or the main thread."""
    if evidence.waits is None:
        return None
    best: tuple[tuple[bool, bool, float], Wait] | None = None
    tids, helpers = evidence.waits.rows.dimensions["tid"], _helpers(evidence)
    for tid in distinct(tids).tolist():
        if evidence.process_of(tid) in helpers:
            continue
        wait = next(iter(evidence.waits.by_reason(np.flatnonzero(tids == tid))), None)
        if wait is None or wait.seconds < BUSY * evidence.elapsed:
            continue
        is_main = tid in evidence.main_threads and wait.reason not in (reasons.JOIN, reasons.FUTEX)
        rank = (is_main, wait.reason in OF_SERVERS, wait.seconds)
        best = (rank, wait) if best is None or rank > best[0] else best
    return best[1] if best and (best[0][0] or best[0][1]) else None


def _is_timer(evidence: Evidence, wait: Wait, servers: Collection[int]) -> bool:
    """Whether a thread of a server sleeps without code of the program: it is a timer of its runtime."""
    is_alone = wait.reason == reasons.SLEEP and wait.threads == 1 and wait.in_own < OF_PROGRAM
    return is_alone and wait.thread not in evidence.main_threads and evidence.process_of_wait(wait) in servers


def _is_for_work(wait: Wait, idle_functions: Collection[str]) -> bool:
    """Whether threads wait for work: also those of a runtime, which wait for a lock without code of the program, and those of a pool,
    which take turns to wait for work in one function with a lock.
    """
    is_turn = wait.reason == reasons.LOCK and wait.function in idle_functions and wait.in_function >= ONE_FUNCTION
    return wait.reason in FOR_WORK or is_turn or (wait.reason == reasons.LOCK and wait.in_own < OF_PROGRAM)


def waits_first(evidence: Evidence, wait: Wait) -> bool:
    """Whether the wait explains more than the use of CPUs."""
    used = evidence.seconds
    if used is None or used < BUSY * evidence.elapsed:
        return wait.reason != reasons.CPU or used is None
    return wait.reason in OF_THREADS and wait.seconds >= BUSY * evidence.elapsed


# The sentence about callbacks that block an event loop.


LOOPS_MATTER: Final = 0.05  # of the elapsed time
LEAST_BLOCKED: Final = 0.1  # seconds
NEARLY_ALWAYS_BLOCKED: Final = 0.9


def blocked_loop(evidence: Evidence) -> Iterator[Sentence]:
    """Tell for how long callbacks blocked the event loop, and in which function."""
    functions = evidence.functions
    if functions is None:
        return
    running = long_turns(functions) if evidence.seconds is not None else BlockedTime(0)
    waiting = long_waits(evidence.waits.functions) if evidence.waits is not None else BlockedTime(0)
    total = (running.period + waiting.period) / NANOSECONDS_A_SECOND
    if total < max(LOOPS_MATTER * evidence.elapsed, LEAST_BLOCKED):
        return
    numbers = {"seconds": total, "elapsed": evidence.elapsed, "running": running.period / NANOSECONDS_A_SECOND}
    elapsed = max(evidence.elapsed, total)
    least = "at least " if total < NEARLY_ALWAYS_BLOCKED * elapsed else ""  # shorter callbacks and the first 100 ms are not counted
    text, names = f"Long callbacks blocked the event loop for {least}{seconds(total)} of {seconds(elapsed)}", {}
    larger, waits = (running, None) if running.period >= waiting.period else (waiting, evidence.waits)
    functions_of = waits.functions if waits else functions
    name = functions_of.name(larger.function) if larger.function >= 0 else ""
    share = larger.in_function / NANOSECONDS_A_SECOND / total
    if name and share >= IN_ONE_FUNCTION:
        names["function"], numbers["in function"] = name, share
        line = evidence.line_with_callees(larger.function, waits=waits is not None)
        where = within(f"{function_text(name)}{source(name, line)}", functions_of.vague_share(larger.function))
        text += f", {'' if share >= NEARLY_ALWAYS_BLOCKED else 'mostly '}{where}"
    yield Sentence("blocked loop", f"{text}.", numbers, names)


# The sentence about the workers of a pool of Python processes.


_COMPUTING: Final = 0.8  # of the time of a pool's workers
_SMALLEST: Final = 0.005  # share that is told
_GIVING: Final = 0.4  # of the CPU time of the process that has the pool


def process_pool(evidence: Evidence) -> Iterator[Sentence]:
    """Tell what the workers of a pool of Python processes did, the largest part first, if they did not compute most of the time."""
    on_cpu, waits = evidence.functions if evidence.seconds is not None else None, evidence.waits
    times = pool_times(on_cpu, waits.functions if waits is not None else None)
    if times is None or waits is None:
        return
    of_workers = times.computing, times.waiting, times.pickling, times.sending, times.blocked, times.ready
    total = max(sum(of_workers), 1)
    if times.computing >= _COMPUTING * (total - times.ready):  # other sentences tell that CPUs are short
        return
    activities = ("computing", "waiting for work", "pickling", "sending results", "waiting in their tasks", "waiting for a CPU")
    parts = sorted(zip((time / total for time in of_workers), activities, strict=True), reverse=True)
    texts = [f"{percent(share)} {activity}" for share, activity in parts if share >= _SMALLEST]
    texts[0] = texts[0].replace("% ", "% of their time ", 1)
    who = f"{number_word(times.workers)} {plural(times.workers, 'worker')}".capitalize()
    numbers = {"workers": float(times.workers), **{activity: share for share, activity in parts}}
    giving = times.giving / max(times.of_owners, 1)
    of_owner = ""
    if giving >= _GIVING and parts[0][1] != "computing":
        numbers["giving"] = giving
        of_owner = f"; the process that they work for spent {percent(giving)} of its CPU time on pickling tasks and results"
    yield Sentence("process pool", f"{who} of a process pool spent {join_names(texts)}{of_owner}.", numbers)
