"""`perfpy stat`: run a program, or attach to tasks or CPUs, and count events; `stat record` and `stat report`.

The counts go to stderr (or -o, --log-fd) as perf's text, CSV or JSON, or to a file. The exit status is the program's.
"""

from __future__ import annotations

import os
import sys

from perfpy.abi.light_types import signal
from perfpy.capture.measurement import Hooks, Measurement
from perfpy.cli.line.option_parsing import PerfCommand
from perfpy.cli.stat.options import Progress, Signals, StatCommandOptions, StatOutput, check, form_of, of_one_set, plan_of, read_events
from perfpy.counts.aggregation import Aggregation
from perfpy.errors import KernelRefusedError
from perfpy.kernel import this_kernel

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, Final

    from perfpy.abi.attr import EventAttr
    from perfpy.capture.count_file import CountFile
    from perfpy.capture.counters import Counting, Readings
    from perfpy.capture.measurement import Plan
    from perfpy.counts.tally import Tally
    from perfpy.events.event import Event
    from perfpy.kernel import Kernel


_SUBCOMMANDS: Final = ("record", "report")
_SHORTEST_PREFIX: Final = 3


class StatCommand(PerfCommand[StatCommandOptions]):
    """The command, whose first word may be `record` or `report` (or a prefix of three letters or more)."""

    def run(self, name: str, args: Sequence[str]) -> int:
        """Read the arguments and run the command; options may stand on both sides of the word."""
        parser = self.parser(args)
        index = len(args) - len(parser.words)
        word = args[index] if parser.words and (not index or args[index - 1] != "--") else ""
        for subcommand in _SUBCOMMANDS if len(word) >= _SHORTEST_PREFIX else ():
            if subcommand.startswith(word):
                if subcommand == "record":
                    return record.run("stat record", [*args[:index], *args[index + 1 :]])
                from perfpy.cli.stat.report import command as report
                from perfpy.cli.stat.report import require_options_of_report

                require_options_of_report(parser)
                return report.run("stat report", [*args[:index], *args[index + 1 :]])
        return self.run_parsed(name, args, parser)


def _stat(options: StatCommandOptions) -> int:
    """Run a program and count events.

    `perfpy stat record` writes the counts to a file, `perfpy stat report` shows them.
    """
    if options.event:
        from perfpy.events.grammar import names_probe  # not needed for the default events

        if any(map(names_probe, options.event)):
            from perfpy.cli.temporary_probes import run_with_probes  # needs numpy and debug information

            return run_with_probes(options, _measure)
    return _measure(options)


def _measure(options: StatCommandOptions) -> int:
    check(options)
    options = of_one_set(options)
    if options.compare:
        from perfpy.cli.stat.compare import compare_programs

        return compare_programs(options)
    return _with_smi_cost(options, _count)


def _with_smi_cost(options: StatCommandOptions, count: Callable[[StatCommandOptions], int]) -> int:
    """Call `count`; with --smi-cost, with its metric and while SMIs stop the core's counters."""
    if not options.smi_cost:
        return count(options)
    from perfpy.kernel.sysfs import FrozenOnSmi

    read_events(options)
    with FrozenOnSmi():  # but not aperf: the difference is the cost
        return count(options.replace(metrics=(*options.metrics, "smi"), metric_only=options.metric_only is not False))


def _count(options: StatCommandOptions) -> int:
    plan = plan_of(options)
    with StatOutput(form_of(options)) as output:
        return Session(plan, output, options).run()


def _record(options: StatCommandOptions) -> int:
    """Run a program, count events, and write the counts into a file (-o, default perf.data, or standard output if it is a pipe)."""
    from perfpy.capture.count_file import CountFile
    from perfpy.capture.record_options import default_output

    path, options = options.output or default_output(), options.replace(output="")
    check(options)

    def count_into_file(options: StatCommandOptions) -> int:
        plan = plan_of(options)
        file = CountFile(path, plan, _command_line())
        if file.is_pipe:
            options = options.replace(quiet=True)
        with StatOutput(form_of(options)) as output:
            return Session(plan, output, options, file).run()

    return _with_smi_cost(of_one_set(options), count_into_file)


def _command_line() -> list[str]:
    return [os.path.abspath(sys.argv[0]), *sys.argv[1:]]


command = StatCommand(StatCommandOptions, _stat)
record = PerfCommand(StatCommandOptions, _record)


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
        output.title = "'system wide'" if options.all_cpus and plan.target.kind == "cpu" else title(plan)

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
            from perfpy.cli.output.terminal import print_notes
            from perfpy.events.ebb import never_counted, reasons

            notes = [*reasons(tally.rows), *([_BRANCHES] if never_counted(tally.rows) else ())]
            print_notes(notes, quiet=self._options.quiet, verbose=self._options.verbose)

    def _kernel(self) -> Kernel | None:
        """Return the kernel interface; with -vv one that prints every counter it opens."""
        if not self._options.verbose:
            return None

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
        for text in tally.contradictions():
            self.note(text)

    def on_open(self, counting: Counting) -> None:
        """Write the file's header with the counters."""
        if self._file:
            self._file.begin(counting)

    def round(self, readings: Readings, elapsed: int, final: bool) -> None:
        """Write a round to the file; with -v print the readings."""
        if self._options.verbose:
            for event in (event for event, cells in readings.items() if not cells):
                print(f"failed to read counter {event.name}", file=sys.stderr)
            lines = reading_lines(readings, each=self._options.verbose > 1, summed=self._plan.grouping.mode is Aggregation.GLOBAL)
            self._output.write("".join(f"{line}\n" for line in lines))
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
            self._progress = self._progress or Progress()
            self._progress.show(number, self._plan.repeat)
        if self._options.verbose and self._plan.repeat != 1:
            print(f"[ perf stat: executing run #{number + 1} ... ]", file=sys.stderr)

    def describe(self, counting: Counting, option: str) -> str:
        """Return the events as text of perf's evlist."""
        from perfpy.cli.output.header import event_lines

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


_RULE = "-" * 60


def machine_lines(*, controlled: bool) -> Iterator[str]:
    """Yield the CPU's identification, and whether --control is active."""
    from perfpy.kernel.cpus import event_tables_identity

    yield from mounted_lines()
    if identity := event_tables_identity():
        yield f"Using CPUID {identity}"
    if not controlled:
        yield "Control descriptor is not initialized"


def mounted_lines() -> Iterator[str]:
    """Yield a line for each tracefs that was mounted to find tracepoints."""
    from perfpy.kernel.sysfs import mounted_here

    for path in mounted_here:
        yield f"mounted tracefs on {path}"


class _EventNames:
    """Names of this machine's PMUs, and of the counted tracepoints."""

    def __init__(self, events: Iterable[Event]) -> None:
        events = list(events)
        self._pmus = {event.attr.type: event.pmu for event in events if event.pmu}
        self._pmus.update({1: "software", 2: "tracepoint", 5: "breakpoint"})  # as sysfs lists them
        self._tracepoints = {event.attr.config: event.name for event in events}

    def pmu(self, type_number: int) -> str:
        """Return the PMU whose events have this type."""
        return self._pmus.get(type_number, "")

    def tracepoint(self, number: int) -> str:
        """Return the tracepoint with this id."""
        return self._tracepoints.get(number, "")


class LoggedKernel:
    """The kernel interface, with lines on stderr about each counter it opens."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._kernel = this_kernel()
        self._names = _EventNames(events)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)

    def perf_event_open(self, attr: EventAttr, pid: int, cpu: int, group_fd: int = -1, flags: int = 8, *, event: str = "") -> int:
        """Open one counter; see perfpy.kernel.syscalls."""
        call = f"sys_perf_event_open: pid {pid}  cpu {cpu}  group_fd {group_fd}  flags {flags:#x}"
        print(*self._attr_lines(attr), call, sep="\n", end="", file=sys.stderr)
        try:
            fd = self._kernel.perf_event_open(attr, pid, cpu, group_fd, flags, event=event)
        except KernelRefusedError as refusal:
            print(f"\nsys_perf_event_open failed, error -{refusal.errno}", file=sys.stderr)
            raise
        print(f" = {fd}", file=sys.stderr)
        return fd

    def _attr_lines(self, attr: EventAttr) -> Iterator[str]:
        from perfpy.views.header_text import attr_fields

        yield _RULE
        yield "perf_event_attr:"
        for label, value in attr_fields(attr, self._names):
            yield f"  {label:<32} {value}"
        yield _RULE


def reading_lines(readings: Readings, *, each: bool = False, summed: bool = True) -> Iterator[str]:
    """Yield the value and times of events: each of every counter, and summed over the event's counters."""
    if each:
        for event, cells in readings.items():
            for cell in cells if not event.tool else ():
                yield f"{event.name}: {cell.cpu}: {cell.value} {cell.enabled} {cell.running}"
    for event, cells in readings.items() if summed else ():
        if cells:
            totals = (sum(cell.value for cell in cells), sum(cell.enabled for cell in cells), sum(cell.running for cell in cells))
            yield f"{event.name}: {totals[0]} {totals[1]} {totals[2]}"
