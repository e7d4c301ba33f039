"""Two commands against each other: run in turns, so that a noisy machine is noisy for both.

What enters: command lines. What leaves: medians of wall-clock time, CPU time
and peak memory.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


_DISTORTING = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")  # nobody's usual settings, and costly


class Cost(NamedTuple):
    """What one run took: seconds, CPU seconds, and the peak of its memory in MB."""

    wall: float
    cpu: float
    memory: float


def run_once(command: Sequence[str]) -> Cost:
    """Run a command to its end; its output is thrown away. Raises RuntimeError when it fails."""
    environment = {name: value for name, value in os.environ.items() if name not in _DISTORTING}
    nowhere = subprocess.DEVNULL
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=nowhere, stderr=nowhere, stdin=nowhere, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} exits {process.returncode}")
    return Cost(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def in_turns(ours: Sequence[str], theirs: Sequence[str], rounds: int) -> tuple[Cost, Cost]:
    """The medians of both, after one round that warms the caches and does not count."""
    costs: tuple[list[Cost], list[Cost]] = ([], [])
    for number in range(rounds + 1):
        for command, costs_of_one in zip((ours, theirs), costs, strict=True):
            cost = run_once(command)
            if number:
                costs_of_one.append(cost)
    return _median(costs[0]), _median(costs[1])


def _median(costs: Sequence[Cost]) -> Cost:
    return Cost(*(statistics.median(column) for column in zip(*costs, strict=True)))
