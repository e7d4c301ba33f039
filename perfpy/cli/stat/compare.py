"""`perfpy stat --compare`: programs in turn, and whether one of them is better.

What enters: the request, with each other program as a text in shell syntax.
What leaves: for each a table (CSV with -x, JSON with -j) of both sides' counts,
the change and what it means. A program that fails ends it: what fails early is
not faster. The exit status is that of the run that failed.
"""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Final

from perfpy.capture.counting.measurement import Hooks
from perfpy.cli.line.limits import told
from perfpy.cli.line.options import fail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.capture.counting.contest import FailedRun
    from perfpy.capture.counting.plan import Plan
    from perfpy.cli.stat.options import StatCommandOptions
    from perfpy.cli.stat.output import StatOutput
    from perfpy.counts.comparison import Comparison

_DEFAULT_RUNS: Final = 10


def compare_programs(options: StatCommandOptions) -> int:
    """Run the command and those of --compare in turn, and show how they differ from it. Raises UsageError."""
    from perfpy.capture.counting.contest import Contest
    from perfpy.cli.stat.output import StatOutput, form_of
    from perfpy.cli.stat.progress import Progress
    from perfpy.cli.stat.signals import Signals
    from perfpy.counts.comparison import compare_runs

    plans = _plans(options)
    repeat = options.repeat if options.repeat != 1 else _DEFAULT_RUNS
    watcher, progress = _Watcher(), Progress()
    ignore = options.ignore_failure
    with StatOutput(form_of(options)) as output:
        contest = Contest(plans, repeat=repeat, warmup=options.warmup, ignore_failure=ignore, hooks=watcher, progress=progress.show)
        with Signals(watcher):
            first, *others = contest.run()
        progress.clear()
        if contest.failed and not ignore:
            return _failed(contest.failed[0], plans)
        if not all(side.count for side in (first, *others)):
            fail("--compare was stopped before every command had run")
        least = options.min_change / 100
        found = [compare_runs(first, other, least_change=least) for other in others]
        show(found, output)
    if contest.failed:
        print(f"Warning: {len(contest.failed)} runs failed, the first with status {contest.failed[0].status}", file=sys.stderr)
        return contest.failed[0].status
    return told(_slower(found, options.fail_if_slower))


def _slower(found: Sequence[Comparison], limit: float | None) -> list[str]:
    """What is slower than the limit allows; None: nothing is."""
    return [
        f"{other.b_name} takes longer than {other.a_name}: {other.elapsed.change.estimate or 0:+.1%}, the limit is {limit:.1%}"
        for other in found
        if limit is not None and other.slower(by=limit)
    ]


def _failed(run: FailedRun, plans: Sequence[Plan]) -> int:
    """Say which side, which run and how."""
    which = f"run {run.number}" if run.number else "its warm-up run"
    side, command = chr(ord("A") + run.side), shlex.join(plans[run.side].command)
    print(f"{side} ({command}) failed in {which} with status {run.status}: nothing to compare (or --ignore-failure)", file=sys.stderr)
    return run.status


def show(comparisons: Sequence[Comparison], output: StatOutput) -> None:
    """Write comparisons of one A with some others in the output's form."""
    from perfpy.views.stat import comparison as stat_compare

    if output.form.json:
        pieces = stat_compare.render_json(comparisons)
    elif output.form.separator is not None:
        pieces = stat_compare.render_csv(comparisons, output.form.separator)
    else:
        pieces = stat_compare.render_text(comparisons, pictures=output.stream.isatty())
    output.write("".join(pieces))


class _Watcher(Hooks):
    """Ctrl-C ends the contest after the run that is under way."""

    def interrupted(self, signum: int) -> None:
        self.stopped = bool(signum)


def _plans(options: StatCommandOptions) -> list[Plan]:
    from perfpy.cli.stat.request import plan_of

    given = _alone(options)
    if given:
        fail(f"--compare does not go with --{given[0]}")
    if options.repeat == 0 or options.warmup < 0:
        fail("--compare needs a number of runs: -r 1 or more, --warmup 0 or more")
    plans = [plan_of(options), *(_plan_of_other(options, text) for text in options.compare)]
    if not all(plan.command for plan in plans):
        fail("--compare needs two commands: --compare 'command B' -- command A")
    if any(plan.target.kind != "command" for plan in plans):
        fail("--compare counts what commands do: it goes with no other target")
    return [plan._replace(repeat=1) for plan in plans]


def _plan_of_other(options: StatCommandOptions, text: str) -> Plan:
    from perfpy.cli.stat.request import plan_of

    try:
        return plan_of(options)._replace(command=shlex.split(text))
    except ValueError as error:
        fail(f"--compare {text}: {error}")


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
