"""`perfpy stat --compare`: two programs in turn, and whether one of them is better.

What enters: the request, with the other program as a text in shell syntax.
What leaves: a table (CSV with -x, JSON with -j) of both sides' counts, the
change and what it means. The exit status is that of the first run that failed.
"""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Final

from perfpy.capture.counting.measurement import Hooks
from perfpy.cli.line.options import fail

if TYPE_CHECKING:
    from perfpy.capture.counting.measurement import Plan
    from perfpy.cli.stat.options import StatCommandOptions
    from perfpy.cli.stat.output import StatOutput
    from perfpy.counts.comparison import Comparison

_DEFAULT_RUNS: Final = 10


def compare_programs(options: StatCommandOptions) -> int:
    """Run the command and that of --compare in turn, and show how they differ. Raises UsageError."""
    from perfpy.capture.counting.contest import Contest
    from perfpy.cli.stat.output import StatOutput, form_of
    from perfpy.cli.stat.progress import Progress
    from perfpy.cli.stat.signals import Signals
    from perfpy.counts.comparison import compare_runs

    plans = _plans(options)
    repeat = options.repeat if options.repeat != 1 else _DEFAULT_RUNS
    watcher, progress = _Watcher(), Progress()
    with StatOutput(form_of(options)) as output:
        contest = Contest(plans, repeat=repeat, warmup=options.warmup, hooks=watcher, progress=progress.show)
        with Signals(watcher):
            a, b = contest.run()
        progress.clear()
        if not (a.count and b.count):
            fail("--compare was stopped before both commands had run")
        show(compare_runs(a, b), output)
    if contest.exit_codes:
        failed = len(contest.exit_codes)
        print(f"Warning: {failed} runs failed, the first with status {contest.exit_codes[0]}", file=sys.stderr)
        return contest.exit_codes[0]
    return 0


def show(comparison: Comparison, output: StatOutput) -> None:
    """Write a comparison in the output's form."""
    from perfpy.views.stat import comparison as stat_compare

    if output.form.json:
        pieces = stat_compare.render_json(comparison)
    elif output.form.separator is not None:
        pieces = stat_compare.render_csv(comparison, output.form.separator)
    else:
        pieces = stat_compare.render_text(comparison, pictures=output.stream.isatty())
    output.write("".join(pieces))


class _Watcher(Hooks):
    """Ctrl-C ends the contest after the run that is under way."""

    def interrupted(self, signum: int) -> None:
        self.stopped = bool(signum)


def _plans(options: StatCommandOptions) -> tuple[Plan, Plan]:
    from perfpy.cli.stat.request import plan_of

    given = _alone(options)
    if given:
        fail(f"--compare does not go with --{given[0]}")
    if options.repeat == 0 or options.warmup < 0:
        fail("--compare needs a number of runs: -r 1 or more, --warmup 0 or more")
    try:
        other = tuple(shlex.split(options.compare))
    except ValueError as error:
        fail(f"--compare {options.compare}: {error}")
    a, b = plan_of(options), plan_of(options)
    if not other or not a.command:
        fail("--compare needs two commands: --compare 'command B' -- command A")
    b.command = other
    for plan in (a, b):
        plan.repeat = 1
        if plan.target.kind != "command":
            fail("--compare counts what two commands do: it goes with no other target")
    return a, b


def _alone(options: StatCommandOptions) -> list[str]:
    """What is given of the options that --compare does not go with."""
    alone = (
        ("interval", options.interval),
        ("timeout", options.timeout),
        ("delay", options.delay),
        ("control", options.control),
        ("table", options.table),
        ("metric-only", options.metric_only),
        ("summary", options.summary),
    )
    return [name for name, value in alone if value]
