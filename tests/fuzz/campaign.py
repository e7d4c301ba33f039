"""A campaign: many runs, counted.

Input: how many, a seed. Output: a Tally, with one case for each
cause of failure.
"""

from __future__ import annotations

import contextlib
import random
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.fuzz.targets import TARGETS, make_case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.fuzz.case import Case
    from tests.fuzz.server import Server
    from tests.fuzz.verdict import Outcome


@dataclass
class Failure:
    """One cause. number: of the first run that showed it."""

    number: int
    case: Case
    outcome: Outcome
    times: int = 1


@dataclass
class Tally:
    """What came of the runs. opened: recordings that got past their header, of read."""

    runs: int = 0
    read: int = 0
    opened: int = 0
    memory: int = 0
    slowest: float = 0.0
    slowest_run: str = ""
    largest_run: str = ""
    targets: Counter[str] = field(default_factory=Counter)
    failures: dict[str, Failure] = field(default_factory=dict)

    def add(self, number: int, case: Case, outcome: Outcome) -> None:
        """Count a run."""
        self.runs += 1
        self.targets[case.target] += 1
        if "perf.data" in case.files and case.target != "buildid-cache":
            self.read += 1
            self.opened += outcome.opened
        if outcome.memory > self.memory:
            self.memory, self.largest_run = outcome.memory, f"run {number}: {case.command}"
        if outcome.seconds > self.slowest:
            self.slowest, self.slowest_run = outcome.seconds, f"run {number}: {case.command}"
        if outcome.failure:
            failure = self.failures.setdefault(outcome.signature, Failure(number, case, outcome, 0))
            failure.times += 1


def case_of(seed: str, number: int, names: list[str] | None = None) -> Case:
    """The case of one run: always the same for a seed and a number."""
    return make_case(random.Random(f"{seed}/{number}"), names)


def targets_like(pattern: str) -> list[str] | None:
    """The names of targets that a regular expression finds, None for all."""
    return [name for name in TARGETS if re.search(pattern, name)] if pattern else None


def campaign(
    server: Server, numbers: Iterable[int], seed: str, names: list[str] | None = None, told: Callable[[Failure], None] | None = None
) -> Tally:
    """Run the cases of these numbers, up to Ctrl-C. told: called with each new cause of failure."""
    tally = Tally()
    with contextlib.suppress(KeyboardInterrupt):
        for number in numbers:
            case = case_of(seed, number, names)
            outcome = server.run(case)
            before = len(tally.failures)
            tally.add(number, case, outcome)
            if told and len(tally.failures) > before:
                told(tally.failures[outcome.signature])
    return tally
