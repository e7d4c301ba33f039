"""`perfpy trace`: system calls as they happen, or from a recording."""

from __future__ import annotations

import errno
import fnmatch
import os
import shlex
import signal
import sys
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from perfpy.capture.record_options import BufferOptions, RecordOptions, SamplingOptions, SideBandOptions, parse_callchain, parse_pages
from perfpy.capture.session.inputs import Wakeups
from perfpy.capture.targets import TargetOptions, Workload
from perfpy.cli.line.input_recording import prepare_numpy
from perfpy.cli.line.option_parsing import PerfCommand, fail
from perfpy.errors import KernelRefusedError, RefusedOptionsError
from perfpy.events.grammar import names_probe
from perfpy.kernel.syscalls import may_measure_kernel, paranoid_level
from perfpy.live.priority import HigherPriority
from perfpy.live.rings import LiveRings
from perfpy.tools.trace.options import Selection, TraceCommandOptions, TraceOutput, parse_selection
from perfpy.tools.trace.record_queue import DrainingThread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perfpy.capture.record_options import Callchain
    from perfpy.tools.trace.call_sums import Totals
    from perfpy.tools.trace.lines import LineOptions
    from perfpy.tools.trace.live_trace import LiveCalls
    from perfpy.tools.trace.replay import SwitchOptions


def run(options: TraceCommandOptions) -> int:
    """Print the system calls of a program, of running tasks or of a recording."""
    if options.workload[:1] == ("record",):
        from perfpy.cli.forwarded_actions import run_record  # rarely needed

        return run_record("trace", options.workload[1:])
    if options.calls is not None:
        from perfpy.tools.trace.function_calls import trace_calls

        return trace_calls(options)
    if options.when or options.last or options.chrome_trace:
        fail("--when, --last and --chrome-trace need --calls")
    if options.summary and options.with_summary:
        options = options.replace(with_summary=False)
    if options.input:
        if options.workload:
            fail(f"-i {options.input} excludes a command to run")
        from perfpy.tools.trace.replay import replay

        return replay(options)

    return LiveTrace(options).run()


command = PerfCommand(TraceCommandOptions, run, takes_processes=True)


_FAULTS: Final = {"maj": ("major-faults",), "min": ("minor-faults",), "all": ("major-faults", "minor-faults")}
_RAW: Final = ("raw_syscalls:sys_enter", "raw_syscalls:sys_exit")
_STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_REMEDY: Final = "run with CAP_PERFMON, or sysctl kernel.perf_event_paranoid=1"
_KILLED: Final = 128  # plus the signal's number: the exit status
_LONGEST_END: Final = 1.0  # seconds
_INTERVAL: Final = 0.1  # seconds between two readings of the ring buffers


class LiveTrace:
    """One run of the command."""

    def __init__(self, options: TraceCommandOptions) -> None:
        from perfpy.tools.trace.call_sums import NamedTotals
        from perfpy.tools.trace.replay import new_totals

        if not options.workload:
            prepare_numpy()
        self._options = options
        machine = os.uname().machine
        self._selection = parse_selection(options.event, machine)
        is_usual = not options.faults or any(options.event)
        self._has_calls = (is_usual if options.syscalls is None else options.syscalls) and self._selection.has_calls
        self._numbers = self._selection.numbers(machine)
        if options.by and (options.percentiles or options.histogram or options.sched or options.errno_summary or options.summary_mode):
            fail("--by prints its own table; drop --percentiles, --histogram, --sched, --errno-summary or --summary-mode")
        self._totals = None if options.by else new_totals(options)
        self._named = NamedTotals(options.by, machine) if options.by else None
        self._form: LineOptions | None = None
        self._ends = False  #: a signal has arrived
        self._limit: Workload | None = None  #: the command that is not traced, whose end ends the trace
        self._left: int | None = options.max_events or None

    def run(self) -> int:
        """Print calls until the end; return the exit status."""
        from perfpy.tools.trace.lines import RUN_TIME
        from perfpy.tools.trace.live_trace import LiveCalls
        from perfpy.tools.trace.replay import CallFilter, line_options, output_path, stack_options, wants_lines

        options = self._options
        if (self._has_calls or options.sched) and not may_measure_kernel():
            level = f"kernel.perf_event_paranoid is {paranoid_level()}"
            raise KernelRefusedError(
                "perf_event_open", errno.EACCES, event=_RAW[0], cause=f"{level}: users may not measure the kernel", remedy=_REMEDY
            )
        with ExitStack() as stack:
            signals = stack.enter_context(Wakeups(_STOPPING))
            selection, switches = self._resolve(stack)
            workload = stack.enter_context(Workload(options.workload)) if options.workload else None
            events, filters = self._events(selection)
            record_options = self._record_options()
            is_target = workload is not None and not record_options.target.is_given  # otherwise its run is the duration of the trace
            self._limit, pid = None if is_target else workload, workload.pid if workload and is_target else 0
            stack.enter_context(HigherPriority(_NICER))  # the workload has its own priority by now
            rings = LiveRings(
                *([*events, *switches.added], filters, record_options, _teller()),
                workload=pid,
                ring_size=_RING_SIZE,
                offline_status=RefusedOptionsError.exit_code,
            )
            stack.callback(rings.close)
            self._form = form = line_options(options)._replace(has_calls=self._has_calls) if wants_lines(options) else None
            calls = LiveCalls(
                *(rings, form, CallFilter(self._numbers, excluded=self._excluded()), _tell),
                workload=pid,
                wants_strings=options.strings,
                stacks=stack_options(options)._replace(has_kernel=options.kernel_chains) if self._callchain() else None,
                totals=self._totals,
                switches=switches,
                named=self._named,
                unprinted=() if RUN_TIME in self._selection.events else (RUN_TIME,),
            )
            stack.callback(calls.close)
            output = stack.enter_context(TraceOutput(output_path(options)))
            draining = stack.enter_context(DrainingThread(calls.read_rings))
            if not is_target:
                rings.counters.enable()
            if workload is not None:
                workload.start()
            draining.resume()
            calls.learn()
            return self._loop(rings, calls, output, signals, draining)

    def _resolve(self, stack: ExitStack) -> tuple[Selection, SwitchOptions]:
        """Return the selection and the switches with the names of events; add the probes among them until the stack ends."""
        from perfpy.tools.trace.replay import SwitchOptions

        options, own = self._options, self._selection.events
        switching = [text for text in (options.switch_on, options.switch_off) if text]
        added = [text for text in dict.fromkeys(switching) if not any(fnmatch.fnmatchcase(text, event) for event in own)]
        texts = dict(zip((*own, *added), stack.enter_context(_probes([*own, *added])), strict=True))
        on, off = (texts.get(text, text) for text in (options.switch_on, options.switch_off))
        switches = SwitchOptions(on, off, options.show_on_off_events, tuple(texts[text] for text in added))
        return self._selection._replace(events=tuple(texts[text] for text in own)), switches

    def _filters(self, events: int) -> list[tuple[int, str]]:
        """Return the texts of --filter, with the number of events before each. events: the number of those before the ones of -e."""
        filters, texts = [], []
        for occurrence in self._options.in_order("event", "filter"):
            if occurrence.name == "event":
                texts.append(occurrence.value)
                continue
            count = len(parse_selection(texts, os.uname().machine).events)
            if not count:
                fail(f"--filter {occurrence.value}: no event before it; put -e with a tracepoint first")
            filters.append((events + count, occurrence.value))
        return filters

    def _excluded(self) -> frozenset[int]:
        try:
            return frozenset(int(word) for word in self._options.filter_pids.split(",") if word)
        except ValueError:
            fail(f"--filter-pids {self._options.filter_pids!r}: expected a list of numbers, for example 10,20")

    def _events(self, selection: Selection) -> tuple[list[str], list[tuple[int, str]]]:
        """Return the texts of the events, and the filters with the number of events before each."""
        from perfpy.tools.trace.lines import RUN_TIME

        options = self._options
        chain = options.call_graph is not None or options.max_stack or options.min_stack
        events = [_RAW[0] + ("/call-graph=no/" if chain else ""), _RAW[1]] if self._has_calls else []
        events += _FAULTS.get(options.faults, ())
        events += [RUN_TIME] if options.sched else []
        events += selection.events
        if not events:
            fail("-e names no system call and no event")
        text = self._call_filter(selection) if self._has_calls else ""
        filters = [(1, text), (2, text)] if text else []
        return events, filters + self._filters(len(events) - len(selection.events))

    def _call_filter(self, selection: Selection) -> str:
        """Return the kernel's filter of the calls; "" for none. As in perf, the calls of this thread do not fill the ring buffers."""
        from perfpy.tools.trace.descriptors import descriptor_numbers
        from perfpy.tools.trace.replay import wants_lines

        options = self._options
        terms = []
        if self._numbers is not None and not selection.is_excluded:
            followed = descriptor_numbers(os.uname().machine) if wants_lines(options) or options.by else frozenset()
            numbers = self._numbers | followed
            if len(numbers) <= _MOST_IN_FILTER:
                terms.append(" || ".join(f"id == {number}" for number in sorted(numbers)))
        if not (options.workload or options.pid or options.tid) or options.all_cpus:
            terms.append(f"common_pid != {os.getpid()}")
        return terms[0] if len(terms) == 1 else " && ".join(f"({term})" for term in terms)

    def _callchain(self) -> Callchain | None:
        """Return how to record callchains; None without. A limit of frames asks for perf trace's default, copied stacks."""
        options = self._options
        if options.call_graph is None and not (options.max_stack or options.min_stack or options.kernel_chains):
            return None
        return parse_callchain(options.call_graph or "dwarf")._replace(addresses=False)

    def _record_options(self) -> RecordOptions:
        options = self._options
        return RecordOptions(
            sampling=SamplingOptions(
                each_occurrence=True,
                callchain=self._callchain(),
                user_callchains=not options.kernel_chains and not options.faults,
                data=bool(options.faults),
                data_mmap=bool(options.faults),
            ),
            target=options.fill(TargetOptions, cgroups=(options.cgroup,) if options.cgroup else (), inherit=not options.no_inherit),
            side_band=SideBandOptions(bpf_events=False),
            buffers=BufferOptions(mmap_pages=parse_pages(options.mmap_pages) if options.mmap_pages else 0),
            command_line=(os.path.realpath(sys.argv[0]), *sys.argv[1:]),
        )

    def _loop(self, rings: LiveRings, calls: LiveCalls, output: TraceOutput, signals: Wakeups, draining: DrainingThread) -> int:
        """Print what happens until the target ends, a signal arrives or enough lines are printed."""
        from perfpy.tools.trace.replay import summary_of, wants_summary
        from perfpy.tools.trace.summary_tables import named_json, named_lines

        numbers: list[int] = []
        rings.watch(signals.fileno())
        is_last = False
        while not is_last:
            rings.wait(_INTERVAL)
            numbers = list(signals.read())
            self._ends = bool(numbers)
            is_last = rings.has_ended or self._ends
            is_last |= self._reaches_limit(rings)
            calls.read_rings(last=is_last)
            draining.resume()
            is_last = not self._print(rings, calls, output, signals) or is_last
            draining.pause()
        output.write_lines(calls.rest())
        if self._totals is not None and wants_summary(self._options):
            output.write(summary_of(self._totals, self._options, calls.calls.name, calls.comms.final_comm))
        if self._named is not None:
            output.write(named_json(self._named) if self._options.json else named_lines(self._named, self._options.max_summary))
        if self._options.html and self._form is not None and self._totals is not None:
            self._write_page(calls, self._form, self._totals)
        if lost := calls.lost:
            full = "the records that waited to be printed took all the room; fewer calls (-e) help"
            _tell(f"warning: {lost} samples lost; {full if calls.was_full else 'larger ring buffers (-m) or fewer calls (-e) help'}")
        return _KILLED + min(numbers) if numbers and signal.SIGINT not in numbers else 0

    def _write_page(self, calls: LiveCalls, form: LineOptions, totals: Totals) -> None:
        from perfpy.tools.trace.replay import write_page

        title = f"perfpy trace {shlex.join(self._options.workload or sys.argv[2:])}"
        write_page(self._options, form, totals, calls.calls.name, title, [f"{lost:,} samples lost"] if (lost := calls.lost) else [])

    def _reaches_limit(self, rings: LiveRings) -> bool:
        """Whether the command has ended whose run is the duration of the trace; the events stop then."""
        if self._limit is None or self._limit.poll() is None:
            return False
        rings.counters.disable()
        return True

    def _print(self, rings: LiveRings, calls: LiveCalls, output: TraceOutput, signals: Wakeups) -> bool:
        """Print what has been read; return whether to go on. After a signal, printing ends within about a second."""
        deadline = 0.0
        for batch in calls.batches():
            output.write_lines(batch.lines, self._left)
            if self._left is not None:
                self._left -= min(self._left, batch.lines.size)
                if not self._left:
                    return False
            if self._ends or signals.arrived:
                deadline = deadline or time.monotonic() + _LONGEST_END
                if time.monotonic() > deadline:
                    _tell("note: stopped before all recorded calls were printed; fewer calls (-e) are printed faster")
                    return False
            else:
                self._reaches_limit(rings)
        return True


@contextmanager
def _probes(texts: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Add the probes that events name; yield the events' texts. The probes exist within a with statement."""
    if not any(map(names_probe, texts)):
        yield tuple(texts)
        return
    from perfpy.cli.temporary_probes import TemporaryProbes  # reads debug information

    with TemporaryProbes(texts) as probes:
        yield tuple(probes.texts)


_RING_SIZE: Final = 16 << 20  # bytes: two tenths of a second of a program that does nothing but call the kernel
_NICER: Final = 5  # ring buffers fill up while this process waits for a CPU
_MOST_IN_FILTER: Final = 250  # the kernel limits the length of a filter to a page


def _teller() -> Callable[[str], None]:
    """Return a function that prints each line for the user once: several events can have the same note."""
    told = set()

    def tell(text: str) -> None:
        if text not in told:
            told.add(text)
            _tell(text)

    return tell


def _tell(text: str) -> None:
    print(text, file=sys.stderr)
