"""Sentences about waits. Their times are measured, not sampled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.analysis.verdict import waits as reasons
from perfpy.analysis.verdict.wakers import RUNNING
from perfpy.views.verdict.sentence import Sentence, beginning, function_text, number_word, program_text, seconds, source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.analysis.verdict.evidence import Evidence
    from perfpy.analysis.verdict.waits import Wait
    from perfpy.analysis.verdict.wakers import Waker

MATTERS: Final = 0.2  # of the elapsed time: shorter waits are no cause
LEAST: Final = 0.02  # seconds
BUSY: Final = 0.5  # of the elapsed time: programs that use CPUs for longer do not mainly wait
OF_PROGRAM: Final = 0.5  # of the waits for a lock: those of the program's own code
SLEEPS: Final = 0.9  # the weight of sleeps: a thread that waits as long for the one that sleeps tells more
IN_QUEUE: Final = 0.1  # of the time that a waker used a CPU: waits for one
IN_ONE_FUNCTION: Final = 0.5  # of the waits for one reason

#: threads that wait for each other
OF_THREADS: Final = (reasons.LOCK, reasons.GIL, reasons.KERNEL_LOCK, reasons.FILE_LOCK)
#: waits for work, which are no cause if other threads of the program run or wait
FOR_WORK: Final = (reasons.JOIN, reasons.BARRIER, reasons.CONDITION, reasons.EVENTS, reasons.SIGNAL, reasons.FUTEX, reasons.OTHER)
#: waits that are no cause if the program's other processes use CPUs meanwhile
FOR_OTHERS: Final = (reasons.CHILD, reasons.PIPE, reasons.NETWORK)

_WORDS: Final = {
    reasons.CPU: "for a CPU, which other threads used",
    reasons.GIL: "for Python's global interpreter lock (GIL)",
    reasons.JOIN: "for the end of a thread",
    reasons.BARRIER: "at a barrier",
    reasons.CONDITION: "for a condition",
    reasons.LOCK: "for a lock",
    reasons.CHILD: "for a child process",
    reasons.FILE_LOCK: "for a file lock",
    reasons.TERMINAL: "for input from the terminal",
    reasons.PIPE: "for a pipe",
    reasons.NETWORK: "for a socket",
    reasons.EVENTS: "for events",
    reasons.SIGNAL: "for a signal",
    reasons.KERNEL_LOCK: "for a lock in the kernel",
    reasons.DISK: "for the disk",
    reasons.FUTEX: "for another thread",
    reasons.OTHER: "for unknown reasons",
}


def longest_wait(evidence: Evidence) -> Iterator[Sentence]:
    """Name the reason of the longest waits, the function, and the time."""
    wait = main_wait(evidence)
    if wait is None or evidence.waits is None:
        return
    verb = "slept" if wait.reason == reasons.SLEEP else "waited"
    reason = "" if wait.reason == reasons.SLEEP else f" {_WORDS[wait.reason]}"
    if wait.reason == reasons.CONDITION and evidence.is_never_woken(wait):
        reason += " that no recorded thread signalled"
    numbers = {"seconds": wait.seconds, "threads": float(wait.threads), "elapsed": evidence.elapsed, "reason": float(wait.reason)}
    if wait.threads > 1:
        who = beginning(f"{number_word(wait.threads)} {'processes' if wait.processes == wait.threads else 'threads'}")
        text = f"{who} {verb} {seconds(wait.seconds)} in total{reason}"
    else:
        name = evidence.comm(wait.thread)
        who = program_text(name) if name else "The program"
        text = f"{who} {verb} {seconds(wait.seconds)} of {seconds(max(evidence.elapsed, wait.seconds))}{reason}"
    names = {}
    if wait.function and wait.in_function >= IN_ONE_FUNCTION and wait.reason != reasons.CPU:
        names["function"], numbers["in function"] = wait.function, wait.in_function
        most = "" if wait.in_function >= reasons.NEARLY_ALL else "mostly "
        text += f", {most}in {function_text(wait.function)}{source(wait.function, evidence.wait_line(wait))}"
    text += _cause(evidence, wait, numbers, names)
    yield Sentence("longest wait", f"{text}.", numbers, names)


def _cause(evidence: Evidence, wait: Wait, numbers: dict[str, float], names: dict[str, str]) -> str:
    """Return what the thread that ended the wait did meanwhile, "" if that is not known."""
    waker = evidence.waker(wait)
    if waker is None:
        return ""
    numbers["waker seconds"], numbers["waker reason"], names["function of waker"] = waker.seconds, float(waker.reason), waker.function
    where = f", in {function_text(waker.function)}{source(waker.function, evidence.waker_line(waker))}" if waker.function else ""
    return f"; {_waker_text(evidence, wait, waker)} {_activity(waker)}{where}"


def _waker_text(evidence: Evidence, wait: Wait, waker: Waker) -> str:
    """Return the thread that ended a wait, as a sentence names it."""
    is_process = waker.pid != evidence.process_of(wait.thread)
    name = evidence.comm(waker.tid)
    named = f" {program_text(name)}" if name and name != evidence.comm(wait.thread) else ""
    if waker.depth > 1:
        return f"it waited for {'a process' if is_process else 'a thread'} that waited too, and the last one{named}"
    if wait.reason == reasons.CHILD:
        return f"the child process{named}"
    verb = "released" if wait.reason in OF_THREADS else "woke"
    is_child = waker.pid in evidence.children_of(evidence.process_of(wait.thread))
    return f"the {'child process' if is_child else 'process' if is_process else 'thread'}{named} that {verb} it"


def _activity(waker: Waker) -> str:
    if waker.reason == RUNNING:
        is_alone = waker.in_queue < IN_QUEUE * waker.seconds
        return f"used a CPU{'' if is_alone else ', or waited for one,'} for {seconds(waker.seconds)}"
    if waker.reason == reasons.SLEEP:
        return f"slept {seconds(waker.seconds)}"
    return f"waited {seconds(waker.seconds)} {_WORDS[waker.reason]}"


def main_wait(evidence: Evidence) -> Wait | None:
    """Return the waits that explain most of the elapsed time, None if they are no cause."""
    if evidence.waits is None or evidence.is_system_wide:
        return None
    least = max(MATTERS * evidence.elapsed, LEAST)
    waits = [wait for wait in evidence.waits.by_reason() if wait.seconds >= least]
    in_queue = sum(wait.seconds for wait in evidence.waits.by_reason() if wait.reason == reasons.CPU)
    is_busy = (evidence.seconds or 0.0) + in_queue >= BUSY * evidence.elapsed
    causes = [wait for wait in waits if not _is_for_work(wait) and not (is_busy and wait.reason in (*FOR_OTHERS, reasons.SLEEP))]
    # a thread's waits explain the elapsed time, not the sum of a process's and its child's
    causes.sort(key=lambda wait: -wait.longest * (SLEEPS if wait.reason == reasons.SLEEP else 1.0))
    between = sorted((wait for wait in causes if wait.reason in OF_THREADS), key=lambda wait: -wait.seconds)
    idle = next((wait for wait in waits if _is_for_work(wait) and wait.threads == 1), None)
    if not between and causes and causes[0].reason == reasons.CPU and idle and idle.seconds > causes[0].seconds and not is_busy:
        return idle  # the only thread that waits has more to wait for than CPUs
    if between or causes:
        return (between or causes)[0]
    return waits[0] if waits and not is_busy else None


def _is_for_work(wait: Wait) -> bool:
    """Whether threads wait for work: also those of a runtime, which wait for a lock without code of the program."""
    return wait.reason in FOR_WORK or (wait.reason == reasons.LOCK and wait.in_own < OF_PROGRAM)


def waits_first(evidence: Evidence, wait: Wait) -> bool:
    """Whether the wait explains more than the use of CPUs."""
    used = evidence.seconds
    if used is None or used < BUSY * evidence.elapsed:
        return wait.reason != reasons.CPU or used is None
    return wait.reason in OF_THREADS and wait.seconds >= BUSY * evidence.elapsed
