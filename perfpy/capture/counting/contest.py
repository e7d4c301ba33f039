"""Running two programs against each other: in turn, so that what changes on the machine meanwhile hits both alike.

What enters: two plans, how many runs. What leaves: the `Runs` of both sides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.capture.counting.measurement import Hooks, Measurement
from perfpy.counts.comparison import Runs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.capture.counting.measurement import Outcome, Plan
    from perfpy.kernel import Kernel


class Contest:
    """A against B.

    plans: A's and B's, for the same events; repeat: runs of each that count;
    warmup: runs of each before that which do not; progress: called before
    each run with the number of runs done and of all runs.
    """

    def __init__(
        self,
        plans: tuple[Plan, Plan],
        *,
        repeat: int,
        warmup: int = 1,
        hooks: Hooks | None = None,
        progress: Callable[[int, int], None] | None = None,
        kernel: Kernel | None = None,
    ) -> None:
        self._plans = plans
        self._repeat = repeat
        self._warmup = warmup
        self._hooks = hooks or Hooks()
        self._progress = progress or (lambda _done, _total: None)
        self._kernel = kernel
        self.exit_codes: list[int] = []

    def run(self) -> tuple[Runs, Runs]:
        """Run all of it. The order of the two changes from round to round, so that neither always comes first."""
        sides = tuple(Runs(" ".join(plan.command)) for plan in self._plans)
        total = 2 * (self._repeat + self._warmup)
        done = 0
        for number in range(-self._warmup, self._repeat):
            order: Sequence[int] = (0, 1) if number % 2 == 0 else (1, 0)
            for side in order:
                self._progress(done, total)
                outcome = Measurement(self._plans[side], self._hooks, kernel=self._kernel).run()
                done += 1
                if outcome.exit_code:
                    self.exit_codes.append(outcome.exit_code)
                if number >= 0:
                    _add(sides[side], outcome)
                if self._hooks.stopped:
                    return sides[0], sides[1]
        self._progress(total, total)
        return sides[0], sides[1]


def _add(runs: Runs, outcome: Outcome) -> None:
    tally = outcome.tally
    if tally is None or tally.times is None:
        return
    amounts = {}
    for event in tally.events:
        (row,) = tally.rows[event]
        if row.counted:
            amounts[event.name] = (event.unit, row.amount)
        else:
            runs.cannot_count(event.name, getattr(event.why_not, "cause", "") or "not counted")
    runs.add(tally.times.elapsed[-1], amounts)
