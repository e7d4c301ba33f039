"""`perfpy ftrace`: the kernel's functions, by its function tracers."""

from __future__ import annotations

import fnmatch
import os
import re
import select
import signal
import sys
import time
from itertools import takewhile
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi.cpu_list import parse_cpu_list
from perfpy.capture.targets import Workload
from perfpy.cli.line.option_parsing import (
    Attached,
    Choice,
    CommandOptions,
    Flag,
    Listed,
    Value,
    fail,
    option,
    parse_unsigned,
    program_to_run,
)
from perfpy.cli.line.shared_options import VerboseOptions
from perfpy.cli.line.subcommands import Action, CommandWithActions
from perfpy.cli.output.terminal import print_lines, print_notes
from perfpy.kernel.function_tracer import FUNCTION, GRAPH, FunctionTracer, function_names
from perfpy.kernel.sysfs import Tracefs, mount_as_root
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


_LACKING: Final[Mapping[str, str]] = {
    "-b,--use-bpf": "ftrace latency uses the function tracer; perfpy latency measures functions of programs"
}


class FtraceOptions(VerboseOptions):
    """Which tasks and functions are traced."""

    pid: str = option("-p,--pid", Value(default=""), "trace these processes", metavar="<pid>")
    tid: str = option("--tid", Value(default=""), "trace these threads", metavar="<tid>")
    all_cpus: bool = option("-a,--all-cpus", Flag(), "trace all tasks")
    cpu: str = option("-C,--cpu", Value(default=""), "trace only on these CPUs", metavar="<cpu>")
    trace_funcs: tuple[str, ...] = option("-T,--trace-funcs", Listed(), "only these functions, or patterns such as vfs_*", metavar="<func>")
    command: tuple[str, ...] = program_to_run()


class FtraceFilterOptions(CommandOptions):
    """Further filters of functions."""

    notrace_funcs: tuple[str, ...] = option("-N,--notrace-funcs", Listed(), "skip these functions", metavar="<func>")
    graph_funcs: tuple[str, ...] = option("-G,--graph-funcs", Listed(), "these functions and what they call", metavar="<func>")
    nograph_funcs: tuple[str, ...] = option("-g,--nograph-funcs", Listed(), "skip what these functions call", metavar="<func>")
    buffer_size: str = option("-m,--buffer-size", Value(default=""), "size of the buffer of each CPU: 512K, 4M", metavar="<size>")


class FtraceTraceOptions(FtraceOptions, FtraceFilterOptions):
    """Options of `perfpy ftrace trace`."""

    tracer: str = option(
        "-t,--tracer", Value(Choice("function_graph", "function"), default=""), "function_graph (default) or function", metavar="<tracer>"
    )
    funcs: str | None = option("-F,--funcs", Attached("", takes_word=True), "list the functions that can be traced", metavar="<[FILTER]>")
    delay: int = option("-D,--delay", Value(parse_unsigned, default=0), "milliseconds to wait before tracing starts", metavar="<n>")
    inherit: bool = option("--inherit", Flag(), "trace child processes")
    func_opts: str = option("--func-opts", Value(default=""), "options of the tracer function: call-graph, irq-info", metavar="<options>")
    graph_opts: str = option(
        "--graph-opts", Value(default=""), "nosleep-time, noirqs, verbose, thresh=<n>, depth=<n>, tail", metavar="<options>"
    )


class FtraceLatencyOptions(FtraceOptions, lacks=_LACKING):
    """Options of `perfpy ftrace latency`."""

    use_nsec: bool = option("-n,--use-nsec", Flag(), "a histogram of nanoseconds")


class FtraceProfileOptions(FtraceOptions, FtraceFilterOptions):
    """Options of `perfpy ftrace profile`."""

    sort: str = option("-s,--sort", Value(default="total"), "sort by total (default), avg, max, count or name", metavar="<key>")
    graph_opts: str = option("--graph-opts", Value(default=""), "nosleep-time, noirqs, thresh=<n>, depth=<n>", metavar="<options>")


_SORT_KEYS = ("total", "avg", "max", "count", "name")


def trace(options: FtraceTraceOptions) -> int:
    """Print every call of the kernel's functions."""
    if options.funcs is not None:
        names = function_names(Tracefs(mount=mount_as_root).root)
        print_lines(name for name in names if not options.funcs or fnmatch.fnmatchcase(name, options.funcs))
        return 0
    tracer, settings = trace_settings(options)
    tracing = FunctionTracing(options, tracer, settings, delay=options.delay)
    for line in tracing.lines():
        sys.stdout.write(f"{one_line(line)}\n")
    print_notes(_notes(tracing), quiet=False, verbose=options.verbose)
    return tracing.exit_code


def latency(options: FtraceLatencyOptions) -> int:
    """Show a histogram of the durations of one function."""
    if len(options.trace_funcs) != 1:
        fail("ftrace latency takes one function: -T FUNCTION")
    tracing = FunctionTracing(options, GRAPH, {"set_ftrace_filter": options.trace_funcs[0]})
    histogram = DurationHistogram(nanoseconds=options.use_nsec)
    for line in tracing.lines():
        histogram.add(line)
    print_lines(histogram.lines())
    print_notes(_notes(tracing), quiet=False, verbose=options.verbose)
    return tracing.exit_code


def profile(options: FtraceProfileOptions) -> int:
    """Show the total, mean and longest durations of functions."""
    if options.sort not in _SORT_KEYS:
        fail(f"-s {options.sort}: unknown sort key; expected {', '.join(_SORT_KEYS)}")
    settings = {**filter_settings(options), **graph_settings(options.graph_opts), "options/funcgraph-tail": "1"}
    tracing = FunctionTracing(options, GRAPH, settings)
    functions = FunctionProfile()
    for line in tracing.lines():
        functions.add(line)
    print_lines(functions.lines(options.sort))
    print_notes(_notes(tracing), quiet=False, verbose=options.verbose)
    return tracing.exit_code


class _FtraceCommand(CommandWithActions):
    """The command, whose first action needs no name, as in perf."""

    def _divided(self, args: Sequence[str]) -> tuple[list[str], str, list[str]]:
        before, action, rest = super()._divided(args)
        if not action and any(not arg.startswith("-") or arg != "-h" for arg in args) and args and args[0] not in ("-h", "--help"):
            return [], "trace", list(args)
        return before, action, rest

    def _action(self, word: str) -> str:
        return word if word in self.actions else ""


command = _FtraceCommand(
    FtraceTraceOptions,
    {
        "trace": Action(FtraceTraceOptions, trace, "every call, as it happens"),
        "latency": Action(FtraceLatencyOptions, latency, "a histogram of the durations of one function"),
        "profile": Action(FtraceProfileOptions, profile, "totals, means and longest durations of functions"),
    },
    "Trace the kernel's functions with its function tracers, as root, and restore the tracers' former state.",
)


def _notes(tracing: FunctionTracing) -> Iterator[str]:
    if tracing.lost:
        yield "note: the kernel dropped events because its buffer was full; -m 16M makes it larger, -T and -G trace fewer functions"
    if tracing.missing:
        yield f"note: this kernel does not have {', '.join(sorted(set(tracing.missing)))}; the options that need them have no effect"


_WAIT: Final = 0.1  # seconds between looks at the program
_PIECE: Final = 1 << 16
_SIZE: Final = re.compile(r"(\d{1,12})([BKMG])", re.IGNORECASE)
_UNITS: Final = {"B": 0, "K": 10, "M": 20, "G": 30}
_SWITCHES: Final = {
    "call-graph": ("options/func_stack_trace", "1"), "irq-info": ("options/irq-info", "1"),
    "nosleep-time": ("options/sleep-time", "0"), "noirqs": ("options/funcgraph-irqs", "0"), "tail": ("options/funcgraph-tail", "1"),
}  # fmt: skip
_VERBOSE: Final = ("options/funcgraph-proc", "options/funcgraph-abstime", "options/latency-format")
_NUMBERS: Final = {"thresh": "tracing_thresh", "depth": "max_graph_depth"}


class FunctionTracing:
    """A measurement.

    Attributes:
        exit_code: of the program.
        lost: whether the kernel dropped events because its buffer was full.
        missing: settings that this kernel does not have.

    Args:
        tracer: GRAPH or FUNCTION.
        settings: files of the tracer and their texts.
        delay: milliseconds before tracing starts.
    """

    def __init__(self, options: FtraceOptions, tracer: str, settings: dict[str, str], *, delay: int = 0) -> None:
        if options.command and (options.pid or options.tid):
            fail("-p and --tid exclude a command")
        self._options = options
        self._tracer = tracer
        self._settings = settings
        self._delay = delay
        self._stopped = False
        self.exit_code = 0
        self.lost = False
        self.missing: list[str] = []

    def lines(self) -> Iterator[str]:
        """Yield the lines of the trace while the program runs, or until Ctrl-C; the heading comes first. Raises KernelRefusedError."""
        root = Tracefs(mount=mount_as_root).root
        with FunctionTracer(root, self._tracer) as tracer:
            self._set(tracer)
            previous = {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)}
            try:
                if self._options.command:
                    with Workload(self._options.command) as workload:
                        yield from self._follow(tracer, workload)
                else:
                    yield from self._follow(tracer, None)
            finally:
                for number, handler in previous.items():
                    signal.signal(number, handler)

    def _stop(self, _number: int, _frame: object) -> None:
        self._stopped = True

    def _set(self, tracer: FunctionTracer) -> None:
        tracer.set_defaults()
        for name, text in self._settings.items():
            tracer.set(name, text)
        if self._options.cpu:
            tracer.set("tracing_cpumask", _cpu_mask(self._options.cpu))
        threads = [*_numbers(self._options.tid, "--tid")]
        for pid in _numbers(self._options.pid, "-p"):
            try:
                threads += os.listdir(f"/proc/{pid}/task")
            except OSError:
                fail(f"-p {pid}: no such process")
        if threads:
            tracer.set("set_ftrace_pid", "\n".join(threads))
        self.missing = tracer.missing

    def _follow(self, tracer: FunctionTracer, workload: Workload | None) -> Iterator[str]:
        if workload is not None and not self._options.all_cpus:
            tracer.set("set_ftrace_pid", str(workload.pid))
        tracer.choose()
        descriptor = os.open(f"{tracer.folder}/trace_pipe", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not self._delay:
                tracer.start()
            yield from takewhile(lambda line: line.startswith("#"), tracer.read("trace").splitlines())  # the kernel's heading
            if workload is not None:
                workload.start()
            if self._delay:
                time.sleep(self._delay / 1000)
                tracer.start()
            rest = ""
            while not self._stopped and (workload is None or workload.poll() is None):
                select.select([descriptor], [], [], _WAIT)
                lines, rest = self._read(descriptor, rest)
                yield from lines
            tracer.stop()
            lines, rest = self._read(descriptor, rest)
            yield from lines
            if rest:
                yield rest
            if workload is not None:
                if self._stopped:
                    workload.kill()
                self.exit_code = workload.wait().exit_code
        finally:
            os.close(descriptor)

    def _read(self, descriptor: int, rest: str) -> tuple[list[str], str]:
        """Return the complete lines that the kernel has now, and the begin of the next one."""
        pieces = [rest.encode("utf-8", "surrogateescape")]
        total = 0
        while total < 64 * _PIECE:
            try:
                piece = os.read(descriptor, _PIECE)
            except BlockingIOError:
                break
            if not piece:
                break
            pieces.append(piece)
            total += len(piece)
        *lines, last = b"".join(pieces).decode("utf-8", "surrogateescape").split("\n")
        self.lost = self.lost or any(" [LOST " in line for line in lines)
        return lines, last


def trace_settings(options: FtraceTraceOptions) -> tuple[str, dict[str, str]]:
    """Return the tracer and its settings for `ftrace trace`. Rejects options of the other tracer."""
    if options.graph_funcs or options.nograph_funcs:
        tracer = GRAPH
    elif options.trace_funcs or options.notrace_funcs:
        tracer = options.tracer or FUNCTION
    else:
        tracer = options.tracer or GRAPH
    settings = filter_settings(options)
    if options.inherit:
        settings["options/function-fork"] = "1"
    settings.update(switch_settings(options.func_opts, "--func-opts", ("call-graph", "irq-info")))
    settings.update(graph_settings(options.graph_opts))
    return tracer, settings


def filter_settings(options: FtraceTraceOptions | FtraceProfileOptions) -> dict[str, str]:
    """Return the settings of -T, -N, -G, -g and -m."""
    lists = {
        "set_ftrace_filter": options.trace_funcs, "set_ftrace_notrace": options.notrace_funcs,
        "set_graph_function": options.graph_funcs, "set_graph_notrace": options.nograph_funcs,
    }  # fmt: skip
    settings = {name: "\n".join(functions) for name, functions in lists.items() if functions}
    if options.buffer_size:
        settings["buffer_size_kb"] = str(_kilobytes(options.buffer_size))
    return settings


def graph_settings(text: str) -> dict[str, str]:
    """Return the settings of --graph-opts."""
    return switch_settings(text, "--graph-opts", ("nosleep-time", "noirqs", "verbose", "thresh", "depth", "tail"))


def switch_settings(text: str, name: str, known: tuple[str, ...]) -> dict[str, str]:
    """Return the settings of words with commas between them. Rejects unknown ones."""
    settings: dict[str, str] = {}
    for word in filter(None, text.split(",")):
        switch, equals, value = word.partition("=")
        if switch not in known:
            fail(f"{name} {word}: unknown; expected {', '.join(known)}")
        if switch in _NUMBERS:
            if not re.fullmatch(r"\d{1,9}", value, re.ASCII):
                fail(f"{name} {word}: a number, as in {switch}=10")
            settings[_NUMBERS[switch]] = value
        elif equals:
            fail(f"{name} {word}: {switch} takes no value")
        elif switch == "verbose":
            settings.update(dict.fromkeys(_VERBOSE, "1"))
        else:
            settings.update([_SWITCHES[switch]])
    return settings


def _kilobytes(text: str) -> int:
    match = _SIZE.fullmatch(text)
    size = int(match[1]) << _UNITS[match[2].upper()] if match else 0
    if size < 1024:
        fail(f"-m {text}: a size such as 512K or 4M")
    return size >> 10


def _cpu_mask(text: str) -> str:
    """Return CPUs as the kernel's mask: hexadecimal words of 32 bits."""
    try:
        cpus = parse_cpu_list(text)
    except ValueError as error:
        fail(f"-C {text}: {error}")
    mask = sum(1 << cpu for cpu in cpus)
    words = [f"{mask >> shift & 0xFFFFFFFF:x}" for shift in range(0, max(mask.bit_length(), 1), 32)]
    return ",".join([words[-1], *(word.zfill(8) for word in reversed(words[:-1]))])


def _numbers(text: str, name: str) -> list[str]:
    words = [word for word in text.split(",") if word]
    for word in words:
        if not re.fullmatch(r"\d{1,10}", word, re.ASCII):
            fail(f"{name} {text}: expected numbers, with commas between them")
    return words


_LINE: Final = re.compile(
    r"^.*?[\d>]\)(?:\s|[$@*#!+])*(?P<duration>[\d.]+) us\s+\|\s+"
    r"(?:(?P<leaf>[^\s;{}()]+)\(.*\);|\}(?:\s*/\*\s*(?P<name>[^\s*]+).*\*/)?)",
    re.ASCII,
)


class Duration(NamedTuple):
    """A finished call: name ("" if the line lacks it) and microseconds."""

    name: str
    microseconds: float


def duration_of(line: str) -> Duration | None:
    """Return the call that a line finishes, or None.

    The lines of a call without traced calls, of the begin of another call, and of its end, with its name (option funcgraph-tail):

        0)   0.768 us    |    irq_enter_rcu();
        0)               |    getname() {
        0) + 82.272 us   |    } /* getname */

    Signs before the duration mark long ones ($ @ * # ! +).
    """
    match = _LINE.match(line)
    if match is None or len(match["duration"]) > 16 or match["duration"].count(".") > 1:
        return None
    return Duration(match["leaf"] or match["name"] or "", float(match["duration"]))


_BUCKETS: Final = 22
_BAR: Final = 46
_HISTOGRAM_UNITS: Final = {False: ("us", "ms", "s"), True: ("ns", "us", "ms")}


class DurationHistogram:
    """Counts of durations, by powers of two.

    nanoseconds: begin with 1 ns instead of 1 us.
    """

    def __init__(self, *, nanoseconds: bool = False) -> None:
        self._nanoseconds = nanoseconds
        self._counts = [0] * _BUCKETS

    def add(self, line: str) -> None:
        """Count the call that a line of the tracer finishes."""
        call = duration_of(line)
        if call is not None:
            units = int(call.microseconds * (1000 if self._nanoseconds else 1))
            self._counts[min(units.bit_length(), _BUCKETS - 1)] += 1

    def lines(self) -> Iterator[str]:
        """Yield the histogram."""
        total = sum(self._counts)
        if not total:
            yield "No data found"
            return
        yield f"#   DURATION     | {'COUNT':>10} | {'GRAPH':{_BAR}} |"
        for number, count in enumerate(self._counts):
            bar = "#" * (count * _BAR // total)
            yield f"{self._range(number)} | {count:>10} | {bar:{_BAR}} |"

    def _range(self, number: int) -> str:
        small, middle, large = _HISTOGRAM_UNITS[self._nanoseconds]
        if number == _BUCKETS - 1:
            return f"  {1:>4} - {'...':<4} {large:>2}"
        if number <= 10:
            start, stop, unit = (1 << number) // 2, 1 << number, small
        else:
            start, stop, unit = 1 << number - 11, 1 << number - 10, middle
        return f"  {start:>4} - {stop:<4} {unit:>2}"


_ORDER: Final[dict[str, Callable[[tuple[str, list[float]]], tuple[float | str, ...]]]] = {
    "total": lambda row: (-row[1][0], row[0]),
    "avg": lambda row: (-row[1][0] / row[1][1], row[0]),
    "max": lambda row: (-row[1][2], row[0]),
    "count": lambda row: (-row[1][1], row[0]),
    "name": lambda row: (row[0],),
}


class FunctionProfile:
    """Sums over the calls of each function."""

    def __init__(self) -> None:
        self._functions: dict[str, list[float]] = {}  # total, count, longest

    def add(self, line: str) -> None:
        """Count the call that a line of the tracer finishes."""
        call = duration_of(line)
        if call is None or not call.name:
            return
        totals = self._functions.setdefault(call.name, [0.0, 0.0, 0.0])
        totals[0] += call.microseconds
        totals[1] += 1
        totals[2] = max(totals[2], call.microseconds)

    def lines(self, key: str) -> Iterator[str]:
        """Yield the table, sorted by total, avg, max, count or name."""
        yield f"# {'Total (us)':>10} {'Avg (us)':>10} {'Max (us)':>10} {'Count':>10}   Function"
        for name, (total, count, longest) in sorted(self._functions.items(), key=_ORDER[key]):
            yield f"{total:12.3f} {total / count:10.3f} {longest:10.3f} {int(count):10d}   {name}"
