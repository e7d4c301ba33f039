"""`perfpy timechart`: what CPUs and tasks did over time, as an SVG file. Options are perf timechart's (perf-timechart(1))."""

from __future__ import annotations

import re
import sys

from perfpy.abi.light_types import TYPE_CHECKING
from perfpy.cli.forwarded_actions import ForwardingAction, present_events, run_record
from perfpy.cli.line.input_recording import open_recording
from perfpy.cli.line.option_parsing import CommandOptions, Flag, Listed, Value, fail, option, parse_unsigned
from perfpy.cli.line.shared_options import InputOptions, VerboseOptions
from perfpy.cli.line.subcommands import Action, CommandWithActions
from perfpy.tools.timechart.drawing import escaped
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Final

    from perfpy.recording import Recording


_UNITS: Final = {"": 1, "ns": 1, "us": 1000, "ms": 1_000_000, "s": 1_000_000_000}
_DURATION: Final = r"(\d{1,15})(ns|us|ms|s)?\Z"


def parse_duration(text: str) -> int:
    """Return nanoseconds. Raises ValueError for other texts.

    >>> parse_duration("1ms"), parse_duration("20")
    (1000000, 20)
    """
    match = re.match(_DURATION, text)
    if match is None:
        raise ValueError("a time such as 500us or 2ms")
    return int(match[1]) * _UNITS[match[2] or ""]


class TimechartPartOptions(CommandOptions):
    """The parts of the chart."""

    power_only: bool = option("-P,--power-only", Flag(), "only idle states and frequencies of CPUs")
    tasks_only: bool = option("-T,--tasks-only", Flag(), "only tasks")


class TimechartRecordOptions(TimechartPartOptions):
    """Options of `perfpy timechart record`."""

    io_only: bool = option("-I,--io-only", Flag(), "record only input and output")
    callchain: bool = option("-g,--callchain", Flag(), "record callchains")


class TimechartOptions(TimechartPartOptions, InputOptions, VerboseOptions, lacks={"--symfs": "the chart shows no symbols"}):
    """Options of `perfpy timechart`."""

    output: str = option("-o,--output", Value(default="output.svg"), "write this file (default: output.svg)", metavar="<file>")
    html: str = option("--html", Value(default=""), "write a page with a lane for each CPU and task instead", metavar="<file>")
    width: int = option("-w,--width", Value(parse_unsigned, default=1000), "width in pixels (default: 1000)", metavar="<n>")
    tasks: int = option(
        "-n,--proc-num", Value(parse_unsigned, default=15), "show at least n tasks, the busiest (default: 15)", metavar="<n>"
    )
    process: tuple[str, ...] = option("-p,--process", Listed(), "only this process: a number or a name; repeatable", metavar="<process>")
    topology: bool = option("-t,--topology", Flag(), "sort CPUs by core and socket")
    highlight: str = option(
        "--highlight", Value(default=""), "highlight runs by task name or least length", metavar="<duration or task name>"
    )
    io_skip_eagain: bool = option("--io-skip-eagain", Flag(), "leave out calls that failed with EAGAIN")
    io_min_time: int = option(
        "--io-min-time", Value(parse_duration, default=1_000_000), "show shorter calls as this long (default: 1ms)", metavar="<time>"
    )
    io_merge_dist: int = option(
        "--io-merge-dist", Value(parse_duration, default=1000), "join calls as close as this (default: 1us)", metavar="<time>"
    )


def _record(options: TimechartRecordOptions, arguments: list[str]) -> int:
    if options.power_only and options.tasks_only:
        fail("-P and -T exclude each other")
    kinds = ["power"] if options.power_only else ["tasks"] if options.tasks_only else []
    events = _io_events() if options.io_only else []
    return run_record("timechart", arguments, kinds=kinds, events=events, options=["-g"] if options.callchain else [])


def _io_events() -> list[str]:
    """Return the tracepoints of input and output that the kernel has."""
    from perfpy.tools.timechart.io_chart import CALLS, ENTER, EXIT

    events = present_events(f"{prefix}{name}|" for calls in CALLS.values() for prefix in (ENTER, EXIT) for name in calls)
    if not events:
        fail("this kernel has no tracepoints of single system calls; record switches instead: perfpy timechart record -- COMMAND")
    return events


_LEAST_WIDTH: Final = 100
_MOST_WIDTH: Final = 100_000
_SECOND: Final = 1_000_000_000
_LARGE: Final = 5_000_000  # characters of a chart: tens of thousands of elements


def draw(options: TimechartOptions) -> int:
    """Draw what CPUs and tasks did over time."""
    if options.power_only and options.tasks_only:
        fail("-P and -T exclude each other")
    if not _LEAST_WIDTH <= options.width <= _MOST_WIDTH:
        fail(f"-w {options.width}: expected {_LEAST_WIDTH} to {_MOST_WIDTH} pixels")
    with open_recording(options.input, force=options.force, verbose=options.verbose) as recording:
        from perfpy.cli.output.output_files import write_text
        from perfpy.cli.output.terminal import notes_are_read
        from perfpy.tools.timechart.io_chart import has_io

        if options.html:
            return _write_page(recording, options)
        pieces, length = _io_chart(recording, options) if has_io(recording.data) else _task_chart(recording, options)
        size = 0

        def counted() -> Iterator[str]:
            nonlocal size
            for piece in pieces:
                size += len(piece)
                yield piece

        write_text(options.output, counted())
    if options.output != "-":
        print(one_line(f"Written {length / _SECOND:.1f} seconds of trace to {options.output}."), file=sys.stderr)
        if size > _LARGE and notes_are_read(quiet=False, verbose=options.verbose):
            about = f"{options.output} has {size / 1e6:.0f} MB, which browsers draw slowly"
            print(one_line(f"{about}; perfpy timechart --html <file> writes a page that opens at once."), file=sys.stderr)
    return 0


def _write_page(recording: Recording, options: TimechartOptions) -> int:
    """Write the page of --html."""
    from perfpy.cli.output.output_files import write_bytes
    from perfpy.tools.timechart.page import task_page

    cpus = getattr(recording.header.get("nrcpus"), "online", 0)
    page = task_page(recording.data, cpus, f"perfpy timechart {recording.path}", _choice(options))
    if not page:
        fail(
            f"{recording.path}: --html draws switches of tasks, and the recording has none; record them: perfpy timechart record -- COMMAND"
        )
    write_bytes(options.html, page.encode(errors="replace"), quiet=False)
    return 0


command = CommandWithActions(
    TimechartOptions,
    {"record": ForwardingAction(TimechartRecordOptions, _record, "record", "record on all CPUs; also takes the options of record")},
    "Draw what CPUs and tasks did over time, as an SVG file or a page.",
    without_action=Action(TimechartOptions, draw, "draw the chart of a recording"),
)


def _io_chart(recording: Recording, options: TimechartOptions) -> tuple[Iterator[str], int]:
    from perfpy.tools.timechart.io_chart import IoOptions, draw_io, read_io

    history = read_io(recording.data, IoOptions(options.io_min_time, options.io_merge_dist, options.io_skip_eagain))
    return draw_io(history, options.width, options.tasks, _choice(options)), history.end - history.begin


def _task_chart(recording: Recording, options: TimechartOptions) -> tuple[Iterator[str], int]:
    from perfpy.tools.timechart.task_chart import ChartParts, draw_tasks
    from perfpy.tools.timechart.task_history import read_power, read_task_history

    history = read_task_history(recording.data)
    power = read_power(recording.data)
    if not history.end and not power.end:
        fail(f"{recording.path}: no tracepoints of switches or states of CPUs; record them: perfpy timechart record -- COMMAND")
    header = recording.header
    times = recording.times()
    parts = ChartParts(
        options.width,
        options.tasks,
        _choice(options),
        with_cpus=not options.tasks_only,
        with_tasks=not options.power_only and options.tasks > 0,
        position_of_cpu=_positions(recording) if options.topology else {},
        is_highlighted=_highlight(options.highlight),
        cpus=getattr(header.get("nrcpus"), "online", 0),
        cpu_model=f"{escaped(str(header['cpudesc']))}\n" if header.get("cpudesc") else "",
        first=times.first,
        last=times.last,
    )
    return draw_tasks(history, power, parts), times.last - times.first


def _choice(options: TimechartOptions) -> Callable[[str, int], bool] | None:
    """Return whether -p names a task, by its name and number; None without -p."""
    words = set(options.process)
    return (lambda comm, tid: comm in words or str(tid) in words) if words else None


def _positions(recording: Recording) -> dict[int, int]:
    """Return the order of CPUs by socket and core, as the recording describes them."""
    topology = recording.header.get("cpu_topology")
    if topology is None:
        fail(f"{recording.path}: -t: the recording does not describe the CPUs' topology")
    cores = enumerate(topology.cpus)
    ordered = sorted(cores, key=lambda pair: (pair[1].socket, pair[1].core, pair[0]))
    return {cpu: rank for rank, (cpu, _) in enumerate(ordered)}


def _highlight(text: str) -> Callable[[str, int], bool]:
    """Return whether a task is highlighted: by a part of its name, or by its run time; a duration of 0 is a name, as in perf."""
    if not text:
        return lambda _name, _time: False
    try:
        least = parse_duration(text)
    except ValueError:
        least = 0
    return (lambda _name, time: time > least) if least else (lambda name, _time: text in name)
