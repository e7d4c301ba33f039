"""Fit measurements into a time: fewer rounds for the longest, and an end for what takes longer than expected."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import time
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ItemT = TypeVar("ItemT")


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
    samples: int = 1_000_000

    def __str__(self) -> str:
        return self.name if self.samples == 1_000_000 else f"{self.name} of {self.samples:,}"


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
