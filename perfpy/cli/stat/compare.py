"""`perfpy stat --compare`: run programs in turns, and test whether their counts differ.

For each other program, a table (CSV with -x, JSON with -j) shows both counts, the change and its significance. A failing
program ends the comparison, because a program that fails early is not faster. The exit status is that of the failed run.
"""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Final

from perfpy.capture.measurement import Hooks
from perfpy.cli.line.option_parsing import fail
from perfpy.cli.line.shared_options import report_exceeded
from perfpy.errors import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.capture.interleaved_runs import FailedRun
    from perfpy.capture.measurement import Plan
    from perfpy.cli.stat.options import StatCommandOptions, StatOutput
    from perfpy.counts.comparison import Comparison

_DEFAULT_RUNS: Final = 10


def compare_programs(options: StatCommandOptions) -> int:
    """Run the command and those of --compare in turns, and show how they differ. Raises UsageError."""
    from perfpy.capture.interleaved_runs import Contest
    from perfpy.cli.stat.options import Progress, Signals, StatOutput, form_of
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
            return _print_failure(contest.failed[0], plans)
        if not all(side.count for side in (first, *others)):
            fail("--compare was interrupted before every command had run")
        least = options.min_change / 100
        comparisons = [compare_runs(first, other, least_change=least) for other in others]
        show(comparisons, output)
    if contest.failed:
        failed = len(contest.failed)
        print(f"Warning: {failed} {plural(failed, 'run')} failed, the first with status {contest.failed[0].status}", file=sys.stderr)
        return contest.failed[0].status
    return report_exceeded(_slower(comparisons, options.fail_if_slower))


def _slower(comparisons: Sequence[Comparison], limit: float | None) -> list[str]:
    """Return a line for each program slower than the limit; limit None: no lines."""
    return [
        f"{other.b_name} takes longer than {other.a_name}: {other.elapsed.change.estimate or 0:+.1%}, the limit is {limit:.1%}"
        for other in comparisons
        if limit is not None and other.slower(by=limit)
    ]


def _print_failure(run: FailedRun, plans: Sequence[Plan]) -> int:
    """Print which side and run failed, and its status."""
    which = f"run {run.number}" if run.number else "its warm-up run"
    side, command = chr(ord("A") + run.side), shlex.join(plans[run.side].command)
    print(f"{side} ({command}) failed in {which} with status {run.status}; --ignore-failure compares it nevertheless", file=sys.stderr)
    return run.status


def show(comparisons: Sequence[Comparison], output: StatOutput) -> None:
    """Write comparisons of one A with others in the output's format."""
    from perfpy.views import stat_screen as stat_compare

    if output.form.json:
        pieces = stat_compare.render_json(comparisons)
    elif output.form.separator is not None:
        pieces = stat_compare.render_csv(comparisons, output.form.separator)
    else:
        pieces = stat_compare.render_text(comparisons, pictures=output.stream.isatty())
    output.write("".join(pieces))


class _Watcher(Hooks):
    """Ctrl-C ends the comparison after the current run."""

    def interrupted(self, signum: int) -> None:
        self.stopped = bool(signum)


def _plans(options: StatCommandOptions) -> list[Plan]:
    from perfpy.cli.stat.options import plan_of

    excluded = _excluded_options(options)
    if excluded:
        fail(f"--compare excludes --{excluded[0]}")
    if options.repeat == 0 or options.warmup < 0:
        fail("--compare requires -r 1 or more, and --warmup 0 or more")
    plans = [plan_of(options), *(_plan_of_other(options, text) for text in options.compare)]
    if not all(plan.command for plan in plans):
        fail("--compare requires two commands: --compare 'command B' -- command A")
    if any(plan.target.kind != "command" for plan in plans):
        fail("--compare compares commands; it excludes other targets")
    return [plan._replace(repeat=1) for plan in plans]


def _plan_of_other(options: StatCommandOptions, text: str) -> Plan:
    from perfpy.cli.stat.options import plan_of

    try:
        return plan_of(options)._replace(command=shlex.split(text))
    except ValueError as error:
        fail(f"--compare {text}: {error}")


def _excluded_options(options: StatCommandOptions) -> list[str]:
    """Return the given options that --compare excludes."""
    excluded = (
        ("interval", options.interval),
        ("timeout", options.timeout),
        ("delay", options.delay),
        ("control", options.control),
        ("table", options.table),
        ("metric-only", options.metric_only),
        ("summary", options.summary),
    )
    return [name for name, value in excluded if value]
