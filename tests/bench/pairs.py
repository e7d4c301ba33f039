"""Run two commands in turns, so that a noisy machine is noisy for both, and compare what they cost."""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


_DISTORTING = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")  # nobody's usual settings, and costly


class Cost(NamedTuple):
    """The cost of one run: seconds, CPU seconds, and peak memory in MB."""

    wall: float
    cpu: float
    memory: float


class Comparison(NamedTuple):
    """The costs of two commands that ran in turns: item n of both lists is one pair."""

    ours: list[Cost]
    theirs: list[Cost]

    def median(self, measure: str, *, ours: bool) -> float:
        """Return the median of a measure: wall, cpu or memory."""
        values: list[float] = [getattr(cost, measure) for cost in (self.ours if ours else self.theirs)]
        return statistics.median(values)

    def ratio(self, measure: str) -> float:
        """Return the median over all pairs of our cost to theirs."""
        return statistics.median(self._ratios(measure))

    def spread(self, measure: str) -> float:
        """Return half the distance between the quartiles of the ratios, to their median; 0 for fewer than four pairs."""
        ratios = self._ratios(measure)
        if len(ratios) < 4:
            return 0.0
        lower, middle, upper = statistics.quantiles(ratios, n=4)
        return (upper - lower) / 2 / middle if middle else 0.0

    def _ratios(self, measure: str) -> list[float]:
        pairs = zip(self.ours, self.theirs, strict=True)
        return [getattr(our, measure) / max(getattr(their, measure), 1e-6) for our, their in pairs]


def quiet_environment() -> dict[str, str]:
    """Return the environment without the settings that distort measurements."""
    return {name: value for name, value in os.environ.items() if name not in _DISTORTING}


def run_once(command: Sequence[str]) -> Cost:
    """Run a command to its end; its output is thrown away. Raises RuntimeError when it fails."""
    nowhere = subprocess.DEVNULL
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=nowhere, stderr=nowhere, stdin=nowhere, env=quiet_environment())
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command[:8])} exits {process.returncode}")
    return Cost(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def in_turns(ours: Sequence[str], theirs: Sequence[str], rounds: int) -> Comparison:
    """Run both commands in turns, after one round that warms the caches and does not count."""
    result = Comparison([], [])
    for number in range(rounds + 1):
        for command, costs in zip((ours, theirs), result, strict=True):
            cost = run_once(command)
            if number:
                costs.append(cost)
    return result


def instructions(command: Sequence[str]) -> int | None:
    """Return the user instructions of one run, counted by valgrind: the same on a busy machine. None where valgrind is missing."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        return None
    line = [valgrind, "--tool=callgrind", "--callgrind-out-file=/dev/null", *command]
    environment = quiet_environment() | {"PYTHONHASHSEED": "0"}
    process = subprocess.run(line, capture_output=True, text=True, errors="replace", env=environment, timeout=600, check=False)
    collected = re.search(r"Collected : (\d+)", process.stderr)
    return int(collected[1]) if collected else None
