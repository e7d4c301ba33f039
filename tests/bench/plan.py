"""Fit measurements into a time: fewer rounds for the longest, and an end for what takes longer than expected."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import time
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ItemT = TypeVar("ItemT")
_USUAL_SIZE: Final = 1_000_000  # samples


class Step(NamedTuple):
    """A measurement, and about what it takes on two cores of 2024.

    Attributes:
        name: of the benchmark.
        setup: seconds without the rounds: recordings, and runs that do not count.
        seconds: of a round.
        rounds: how many there should be.
        samples: the size of large recordings.
    """

    name: str
    setup: float
    seconds: float
    rounds: int
    samples: int = _USUAL_SIZE

    def __str__(self) -> str:
        return self.name if self.samples == _USUAL_SIZE else f"{self.name} of {self.samples:,}"


#: what the benchmarks of tests.bench.cases take: name and size of the recordings -> seconds of setup, and of a round
_COSTS: Final = {
    ("stat", _USUAL_SIZE): (1, 0.4),
    ("list", _USUAL_SIZE): (1, 1.5),
    ("record", _USUAL_SIZE): (2, 3),
    ("system", _USUAL_SIZE): (25, 0),
    ("small", _USUAL_SIZE): (10, 0.6),
    ("small_tools", _USUAL_SIZE): (20, 4),
    ("python", _USUAL_SIZE): (5, 5),
    ("unwinding", _USUAL_SIZE): (15, 4),
    ("report", _USUAL_SIZE): (20, 3),
    ("scheduler", _USUAL_SIZE): (20, 5),
    ("system_calls", _USUAL_SIZE): (20, 6),
    ("conversion", _USUAL_SIZE): (30, 6),
    ("recorders", _USUAL_SIZE): (70, 0),
    ("dwarf", _USUAL_SIZE): (40, 10),
    ("script", _USUAL_SIZE): (130, 12),
    ("callgraph", _USUAL_SIZE): (130, 0),
    ("report", 10_000_000): (60, 15),
    ("callgraph", 3_000_000): (400, 0),
    ("script", 3_000_000): (400, 40),
    ("scheduler", 10_000_000): (170, 50),
    ("system_calls", 8_000_000): (150, 50),
}


def benchmark(name: str, rounds: int, samples: int = _USUAL_SIZE) -> Step:
    """Return the step of a benchmark of tests.bench.cases."""
    return Step(name, *_COSTS[name, samples], rounds, samples)


def planned(steps: Sequence[Step], seconds: float) -> list[int]:
    """Return the rounds of each step, so that all of them take a time; the longest lose rounds first, and each keeps one.

    >>> planned([Step("a", 1, 10, 5), Step("b", 1, 1, 5)], 40)
    [3, 5]
    >>> planned([Step("a", 1, 10, 5), Step("b", 1, 1, 5)], 5)
    [1, 1]
    """
    rounds = [step.rounds for step in steps]
    while expected(steps, rounds) > seconds and max(rounds, default=1) > 1:
        costs = [step.seconds * count if count > 1 else -1.0 for step, count in zip(steps, rounds, strict=True)]
        rounds[costs.index(max(costs))] -= 1
    return rounds


def expected(steps: Sequence[Step], rounds: Sequence[int]) -> float:
    """Return the seconds that the steps are expected to take."""
    return sum(step.setup + step.seconds * count for step, count in zip(steps, rounds, strict=True))


def plan_lines(steps: Sequence[Step], seconds: float) -> Iterator[str]:
    """Yield the plan as text."""
    rounds = planned(steps, seconds)
    for step, count in zip(steps, rounds, strict=True):
        fewer = f" instead of {step.rounds}" if count < step.rounds else ""
        yield f"#   {step}: {count} rounds{fewer}, about {step.setup + step.seconds * count:.0f} s"
    yield f"# plan: about {expected(steps, rounds) / 60:.0f} minutes, and {seconds / 60:.0f} at most: the step that runs then is ended"


class NotMeasuredError(Exception):
    """A measurement failed, or there was no time for it; the text says why."""


def bounded(items: Iterator[ItemT], end: float) -> Iterator[ItemT]:
    """Yield items that a process group of its own makes; end the group at a time of the monotonic clock.

    Raises NotMeasuredError where it fails, or is ended.
    """
    if time.monotonic() >= end:
        raise NotMeasuredError("no time is left")
    reader, writer = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if not child:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # removes folders on the way
        os.close(reader)
        try:
            with open(writer, "wb", buffering=0) as pipe:
                try:
                    pipe.writelines(pickle.dumps((item, "")) for item in items)
                except Exception as error:  # noqa: BLE001  # the parent process raises it
                    pipe.write(pickle.dumps((None, f"{error}" or type(error).__name__)))
            os._exit(0)
        finally:
            os._exit(1)
    with contextlib.suppress(PermissionError):  # the child was faster
        os.setpgid(child, child)
    os.close(writer)
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(child, signal.SIGTERM))
    signal.setitimer(signal.ITIMER_REAL, max(end - time.monotonic(), 0.001))
    failure = ""
    try:
        with open(reader, "rb") as pipe, contextlib.suppress(EOFError):
            while not failure:
                item, failure = pickle.load(pipe)
                if not failure:
                    yield item
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        status = os.waitpid(child, 0)[1]
    if failure or status:
        raise NotMeasuredError(failure or "it was ended, because it took too long")
