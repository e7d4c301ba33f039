"""Sentences about waits. Their times are measured, not sampled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.analysis.verdict import waits as reasons
from perfpy.plurals import plural
from perfpy.untrusted.text import visible
from perfpy.views.verdict.sentence import Sentence, beginning, function_text, number_word, seconds, source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.analysis.verdict.evidence import Evidence
    from perfpy.analysis.verdict.waits import Wait

MATTERS: Final = 0.2  # of the elapsed time: shorter waits are no cause
LEAST: Final = 0.02  # seconds
BUSY: Final = 0.5  # of the elapsed time: programs that use CPUs for longer do not mainly wait
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
    numbers = {"seconds": wait.seconds, "threads": float(wait.threads), "elapsed": evidence.elapsed, "reason": float(wait.reason)}
    if wait.threads > 1:
        who = beginning(f"{number_word(wait.threads)} {plural(wait.threads, 'thread')}")
        text = f"{who} {verb} {seconds(wait.seconds)} in total{reason}"
    else:
        who = visible(evidence.comm(wait.thread)) or "The program"
        text = f"{who} {verb} {seconds(wait.seconds)} of {seconds(max(evidence.elapsed, wait.seconds))}{reason}"
    names = {}
    if wait.function and wait.in_function >= IN_ONE_FUNCTION and wait.reason != reasons.CPU:
        names["function"], numbers["in function"] = wait.function, wait.in_function
        most = "" if wait.in_function >= 0.9 else "mostly "
        text += f", {most}in {function_text(wait.function)}{source(wait.function, evidence.wait_line(wait.number))}"
    yield Sentence("longest wait", f"{text}.", numbers, names)


def main_wait(evidence: Evidence) -> Wait | None:
    """Return the waits that explain most of the elapsed time, None if they are no cause."""
    if evidence.waits is None or evidence.is_system_wide:
        return None
    least = max(MATTERS * evidence.elapsed, LEAST)
    waits = [wait for wait in evidence.waits.by_reason() if wait.seconds >= least]
    used = evidence.seconds or 0.0
    is_busy = used >= BUSY * evidence.elapsed
    causes = [wait for wait in waits if wait.reason not in FOR_WORK and not (is_busy and wait.reason in (*FOR_OTHERS, reasons.SLEEP))]
    between = [wait for wait in causes if wait.reason in OF_THREADS]
    if between or causes:
        return (between or causes)[0]
    return waits[0] if waits and not is_busy else None


def waits_first(evidence: Evidence, wait: Wait) -> bool:
    """Whether the wait explains more than the use of CPUs."""
    used = evidence.seconds
    if used is None or used < BUSY * evidence.elapsed:
        return wait.reason != reasons.CPU or used is None
    return wait.reason in OF_THREADS and wait.seconds >= BUSY * evidence.elapsed
