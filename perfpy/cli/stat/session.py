"""One measurement of `perfpy stat`: signals, messages, the exit status."""

from __future__ import annotations

import os
import sys

from perfpy.abi.startup import signal
from perfpy.capture.counting.measurement import Hooks, Measurement
from perfpy.cli.stat.signals import Signals

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from perfpy.capture.counting.count_file import CountFile
    from perfpy.capture.counting.counters import Counting, Readings
    from perfpy.capture.counting.plan import Plan
    from perfpy.cli.stat.options import StatCommandOptions
    from perfpy.cli.stat.output import StatOutput
    from perfpy.cli.stat.progress import Progress
    from perfpy.counts.tally import Tally
    from perfpy.kernel import Kernel

_BRANCHES = (
    "hint: no hardware event was ever scheduled: a program with event-based branches (EBB) has exclusive use of the PMU;"
    " pinned events (:D) opened before it keep counting"
)


class Session(Hooks):
    """Runs a plan, and prints perf stat's messages. file also receives the counts."""

    def __init__(self, plan: Plan, output: StatOutput, options: StatCommandOptions, file: CountFile | None = None) -> None:
        self._plan = plan
        self._output = output
        self._options = options
        self._file = file
        self._signal = 0
        self._progress: Progress | None = None
        output.title = title(plan)

    def run(self) -> int:
        """Run the plan; return the command's exit status, or 128 + n if signal n ended a measurement without a command."""
        control = None
        if self._options.control:
            from perfpy.capture.control import Control

            control = Control(self._options.control)
        with Signals(self):
            outcome = Measurement(self._plan, self, control=control, kernel=self._kernel()).run()
            if self._file:
                self._file.finish()
        if outcome.failed_runs and outcome.runs > 1 and not self._signal:
            self.note(f"{outcome.failed_runs} of {outcome.runs} runs failed, the last with status {outcome.exit_code}")
        if outcome.tally and os.uname().machine.startswith("ppc") and self._plan.target.has_tasks:
            self._explain(outcome.tally)
        if self._signal and not self._plan.command:
            return 128 + self._signal
        return outcome.exit_code

    def _explain(self, tally: Tally) -> None:
        """Print hints about events that were never scheduled: unread counts, and programs that may have owned the PMU."""
        if os.uname().machine.startswith("ppc64"):
            from perfpy.cli.output.notes import print_notes
            from perfpy.events.kinds.ebb import never_counted, reasons

            notes = [*reasons(tally.rows), *([_BRANCHES] if never_counted(tally.rows) else ())]
            print_notes(notes, quiet=self._options.quiet, verbose=self._options.verbose)

    def _kernel(self) -> Kernel | None:
        """Return the kernel interface; with -vv one that prints every counter it opens."""
        if not self._options.verbose:
            return None
        from perfpy.cli.stat.verbose import LoggedKernel, machine_lines

        print(*machine_lines(controlled=bool(self._options.control)), sep="\n", file=sys.stderr)
        return LoggedKernel(self._plan.events) if self._options.verbose > 1 else None

    def interrupted(self, signum: int) -> None:
        """End a measurement without a command, of intervals or of repeated runs at Ctrl-C; a single command ends by itself."""
        self._signal = signum
        if not self._plan.command or self._plan.interval or self._plan.repeat != 1:
            self.stopped = True

    def show(self, tally: Tally) -> None:
        """Print the tally."""
        if self._progress:
            self._progress.clear()
        self._output.show(tally)

    def on_open(self, counting: Counting) -> None:
        """Write the file's header with the counters."""
        if self._file:
            self._file.begin(counting)

    def round(self, readings: Readings, elapsed: int, final: bool) -> None:
        """Write a round to the file; with -v print the readings."""
        if self._options.verbose:
            from perfpy.cli.stat.verbose import reading_lines

            print(*reading_lines(readings, each=self._options.verbose > 1), sep="\n", file=sys.stderr)
        if self._file:
            self._file.round(readings, elapsed, final=final)

    def note(self, text: str) -> None:
        """Print a note on stderr, unless --quiet."""
        if not self._options.quiet:
            print(text, file=sys.stderr)

    def warn(self, text: str) -> None:
        """Print a warning on stderr, with -v."""
        if self._options.verbose:
            print(f"Warning:\n{text}", file=sys.stderr)

    def run_started(self, number: int) -> None:
        """Show the progress of repeated runs; with -v print the run's number."""
        if self._plan.repeat > 1:
            from perfpy.cli.stat.progress import Progress

            self._progress = self._progress or Progress()
            self._progress.show(number, self._plan.repeat)
        if self._options.verbose and self._plan.repeat != 1:
            print(f"[ perf stat: executing run #{number + 1} ... ]", file=sys.stderr)

    def describe(self, counting: Counting, option: str) -> str:
        """Return the events as text of perf's evlist."""
        from perfpy.cli.output.control_lines import event_lines

        return event_lines(counting.events, option)

    def on_kill(self, program: str, signum: int) -> None:
        """Print the signal's name as psignal(3) does."""
        print(f"{program}: {signal.strsignal(signum)}", file=sys.stderr)


def title(plan: Plan) -> str:
    """Return the target, as text of the heading."""
    target = plan.target
    if target.kind in ("system", "threads"):
        return "'system wide'"
    if target.kind == "cpu":
        return f"'CPU(s) {target.text}'"
    if target.kind == "pid":
        return f"process id '{target.text}'"
    if target.kind == "tid":
        return f"thread id '{target.text}'"
    return f"'{' '.join(plan.command)}'"
