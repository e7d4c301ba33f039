"""Run commands in turns, so that changes of the machine affect all of them alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from perfpy.capture.measurement import Hooks, Measurement
from perfpy.counts.comparison import Runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perfpy.capture.measurement import Outcome, Plan
    from perfpy.kernel import Kernel


class FailedRun(NamedTuple):
    """A run that failed.

    Attributes:
        side: the index of its plan.
        number: its run from 1; 0 for warm-up runs.
        status: its exit status.
    """

    side: int
    number: int
    status: int


class Contest:
    """Several commands, run in turns.

    Args:
        plans: one for each command, with the same events.
        repeat: counted runs of each.
        warmup: uncounted runs of each before.
        ignore_failure: continue after a failed run.
        progress: called before each run with the number of completed runs and of all runs.
    """

    def __init__(
        self,
        plans: Sequence[Plan],
        *,
        repeat: int,
        warmup: int = 1,
        ignore_failure: bool = False,
        hooks: Hooks | None = None,
        progress: Callable[[int, int], None] | None = None,
        kernel: Kernel | None = None,
    ) -> None:
        self._plans = plans
        self._repeat = repeat
        self._warmup = warmup
        self._ignore_failure = ignore_failure
        self._hooks = hooks or Hooks()
        self._progress = progress or (lambda _done, _total: None)
        self._kernel = kernel
        self.failed: list[FailedRun] = []

    def run(self) -> list[Runs]:
        """Run all rounds, or up to a failure. The order alternates between rounds, so that no command always comes first."""
        sides = [Runs(" ".join(plan.command)) for plan in self._plans]
        total = len(sides) * (self._repeat + self._warmup)
        for finished_turns, (number, side) in enumerate(self._turns()):
            self._progress(finished_turns, total)
            outcome = Measurement(self._plans[side], self._hooks, kernel=self._kernel).run()
            if number > 0:
                _add(sides[side], outcome)
            if outcome.exit_code and not self._hooks.stopped:
                self.failed.append(FailedRun(side, max(number, 0), outcome.exit_code))
            if self._hooks.stopped or (self.failed and not self._ignore_failure):
                return sides
        self._progress(total, total)
        return sides

    def _turns(self) -> Iterator[tuple[int, int]]:
        """Yield (run from 1, side); warm-up runs have numbers up to 0."""
        for number in range(1 - self._warmup, self._repeat + 1):
            sides = range(len(self._plans))
            yield from ((number, side) for side in (sides if number % 2 else reversed(sides)))


def _add(runs: Runs, outcome: Outcome) -> None:
    tally = outcome.tally
    if tally is None or tally.times is None:
        return
    amounts = {}
    for event in tally.events:
        (row,) = tally.rows[event]
        if row.was_counted:
            amounts[event.name] = (event.unit, row.amount)
        else:
            runs.cannot_count(event.name, getattr(row.state.why_not, "cause", "") or "not counted")
    runs.add(tally.times.elapsed[-1], amounts)
