"""One measurement as a user of the command line meets it: signals, messages, the exit status.

What enters: a plan and where its output goes. What leaves: printed tallies
and the status to exit with.
"""

from __future__ import annotations

import os
import signal
import sys

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
    "hint: no hardware event was ever on the PMU: a program with event-based branches (EBB) keeps it for itself while it runs;"
    " pinned events (:D) that are there first stay"
)


class Session(Hooks):
    """Carries a plan out, and tells about it as perf stat does; file: where the counts are written, too."""

    def __init__(self, plan: Plan, output: StatOutput, options: StatCommandOptions, file: CountFile | None = None) -> None:
        self._plan = plan
        self._output = output
        self._options = options
        self._file = file
        self._signal = 0
        self._progress: Progress | None = None
        output.title = title(plan)

    def run(self) -> int:
        """The exit status: the command's, or 128 + n when signal n ended the waiting."""
        control = None
        if self._options.control:
            from perfpy.capture.control import Control

            control = Control(self._options.control)
        with Signals(self):
            outcome = Measurement(self._plan, self, control=control, kernel=self._kernel()).run()
            if self._file:
                self._file.finish()
        if outcome.failed_runs and outcome.runs > 1 and not self._signal:
            self.note(f"{outcome.failed_runs} of {outcome.runs} runs failed, the last status was {outcome.exit_code}")
        if outcome.tally and os.uname().machine.startswith("ppc") and self._plan.target.has_tasks:
            self._explain(outcome.tally)
        if self._signal and not self._plan.command:
            return 128 + self._signal
        return outcome.exit_code

    def _explain(self, tally: Tally) -> None:
        """Say who has a count that nobody reads, and who may have had the PMU, where the events of tasks were never on it."""
        if os.uname().machine.startswith("ppc64"):
            from perfpy.cli.line.notes import tell
            from perfpy.events.ebb import never_counted, reasons

            notes = [*reasons(tally.rows), *([_BRANCHES] if never_counted(tally.rows) else ())]
            tell(notes, quiet=self._options.quiet, verbose=self._options.verbose)

    def _kernel(self) -> Kernel | None:
        """The kernel to ask: with -vv one that tells of every counter that is opened."""
        if not self._options.verbose:
            return None
        from perfpy.cli.stat.verbose import ToldKernel, machine_lines

        print(*machine_lines(controlled=bool(self._options.control)), sep="\n", file=sys.stderr)
        return ToldKernel(self._plan.events) if self._options.verbose > 1 else None

    def interrupted(self, signum: int) -> None:
        """Ctrl-C: what waits without a command, or prints intervals, ends; a command ends by itself."""
        self._signal = signum
        if not self._plan.command or self._plan.interval or self._plan.repeat != 1:
            self.stopped = True

    def show(self, tally: Tally) -> None:
        """Print it."""
        if self._progress:
            self._progress.clear()
        self._output.show(tally)

    def opened(self, counting: Counting) -> None:
        """The file's head names the counters."""
        if self._file:
            self._file.begin(counting)

    def round(self, readings: Readings, elapsed: int, final: bool) -> None:
        """Each round goes into the file; -v shows what was read."""
        if self._options.verbose:
            from perfpy.cli.stat.verbose import reading_lines

            print(*reading_lines(readings, each=self._options.verbose > 1), sep="\n", file=sys.stderr)
        if self._file:
            self._file.round(readings, elapsed, final=final)

    def note(self, text: str) -> None:
        """On stderr, unless --quiet."""
        if not self._options.quiet:
            print(text, file=sys.stderr)

    def warn(self, text: str) -> None:
        """On stderr, with -v."""
        if self._options.verbose:
            print(f"Warning:\n{text}", file=sys.stderr)

    def run_started(self, number: int) -> None:
        """On stderr, with -v."""
        if self._plan.repeat > 1:
            from perfpy.cli.stat.progress import Progress

            self._progress = self._progress or Progress()
            self._progress.show(number, self._plan.repeat)
        if self._options.verbose and self._plan.repeat != 1:
            print(f"[ perf stat: executing run #{number + 1} ... ]", file=sys.stderr)

    def describe(self, counting: Counting, option: str) -> str:
        """As perf's evlist has it."""
        from perfpy.cli.line.control_lines import event_lines

        return event_lines(counting.events, option)

    def killed(self, program: str, signum: int) -> None:
        """As psignal(3) has it."""
        print(f"{program}: {signal.strsignal(signum)}", file=sys.stderr)


def title(plan: Plan) -> str:
    """What is measured, as the heading has it."""
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
