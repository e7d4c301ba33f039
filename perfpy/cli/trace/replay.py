"""`perfpy trace -i`: a recording as lines and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.cli.line.filters import convert, parse_numbers, parse_ranges
from perfpy.cli.line.opening import open_recording
from perfpy.cli.line.options import fail
from perfpy.cli.trace.output import TraceOutput
from perfpy.cli.trace.selection import parse_selection
from perfpy.views.trace.call_tables import CallTables, SummaryOptions, empty_totals, percentile_lines
from perfpy.views.trace.lines import LineOptions
from perfpy.views.trace.recorded_calls import CallFilter, RecordedCalls
from perfpy.views.trace.stack_text import StackLimits
from perfpy.views.trace.switched import SwitchOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from perfpy.cli.trace.options import TraceCommandOptions
    from perfpy.tracing.lanes import Lanes
    from perfpy.tracing.totals import Totals


_MOST_FRAMES: Final = 127


def line_options(options: TraceCommandOptions) -> LineOptions:
    """Return the form of the lines."""
    if options.slowest and (options.json or options.min_stack or options.max_events):
        fail("--slowest prints text at the end; drop --json, --min-stack or --max-events")
    if options.html and (options.json or options.slowest or options.max_events or options.by or options.min_stack):
        fail("--html draws the calls instead of printing them; drop --json, --slowest, --max-events, --min-stack or --by")
    return LineOptions(
        absolute_time=options.time,
        shows_comm=options.comm,
        shows_cpu=options.show_cpu,
        failures_only=options.failure,
        longer_than=options.duration,
        as_json=options.json,
        slowest=options.slowest,
        has_least_depth=options.min_stack > 0,
        lanes=_new_lanes() if options.html else None,
    )


def _new_lanes() -> Lanes:
    from perfpy.tracing.lanes import Lanes  # rarely needed

    return Lanes()


def stack_options(options: TraceCommandOptions) -> StackLimits:
    """Return which callchains to print."""
    if options.min_stack > (options.max_stack or _MOST_FRAMES):
        fail("--min-stack exceeds --max-stack: no call can be printed")
    return StackLimits(options.max_stack or _MOST_FRAMES, options.min_stack)


def output_path(options: TraceCommandOptions) -> str:
    """Return where to write: standard error, or standard output for JSON."""
    return options.output or ("-" if options.json else "")


def wants_lines(options: TraceCommandOptions) -> bool:
    """Whether to print calls, not only tables."""
    return bool(options.html) or options.with_summary or not wants_summary(options.replace(sched=False))


def wants_summary(options: TraceCommandOptions) -> bool:
    """Whether to print tables."""
    return bool(
        options.percentiles
        or options.by
        or options.sched
        or options.histogram
        or options.summary
        or options.with_summary
        or options.errno_summary
        or options.summary_mode
        or options.max_summary
    )


def new_totals(options: TraceCommandOptions) -> Totals | None:
    """Return where to add up the calls; None without tables."""
    has_buckets = bool(options.percentiles or options.histogram or options.json or options.html)
    return empty_totals(has_buckets=has_buckets) if wants_summary(options) or options.html else None


def write_page(
    options: TraceCommandOptions, form: LineOptions, totals: Totals, name_of: Callable[[int], str], title: str, notes: Sequence[str] = ()
) -> None:
    """Write the page of --html.

    Args:
        options: of the command.
        form: the form of the lines, with the collected calls.
        totals: the sums.
        name_of: returns the name of a call.
        title: what was traced.
        notes: on losses.
    """
    from perfpy.cli.output.output_files import write_bytes  # rarely needed
    from perfpy.views.trace.lane_page import lane_page

    assert form.lanes is not None
    write_bytes(options.html, lane_page(form.lanes, totals, name_of, title, notes).encode(errors="replace"), quiet=False)


def summary_of(totals: Totals, options: TraceCommandOptions, name_of: Callable[[int], str], comm_of: Callable[[int], str]) -> Iterable[str]:
    """Return the lines of the tables."""
    if options.json:
        from perfpy.views.trace.json_lines import json_summary  # rarely needed

        return json_summary(totals, name_of, comm_of, of_all=options.summary_mode == "total")
    if options.percentiles or options.histogram:
        return percentile_lines(totals, name_of, options.max_summary, histograms=options.histogram)
    form = SummaryOptions(options.summary_mode == "total", options.errno_summary, options.max_summary)
    return CallTables(totals, form, name_of, comm_of).lines()


def replay(options: TraceCommandOptions) -> int:
    """Print the calls of a recording; return the exit status."""
    if options.by:
        fail("--by: recordings (-i) have neither file names nor addresses; trace the program, or its processes (-p)")
    if options.faults or options.sched or options.kernel_chains:
        fail("-F, --sched and --kernel-syscall-graph choose what to trace; they have no effect on a recording (-i)")
    with (
        open_recording(options.input, force=options.force, verbose=options.verbose, keeps_memory=True) as recording,
        TraceOutput(output_path(options)) as output,
    ):
        form = line_options(options) if wants_lines(options) else None
        timeline = recording.make_timeline(keep_exited=wants_summary(options))
        totals = new_totals(options)
        call_filter = _filter(options, str(recording.header.get("arch") or "x86_64"))
        switches = SwitchOptions(options.switch_on, options.switch_off, options.show_on_off_events)
        calls = RecordedCalls(recording, timeline, form, call_filter, totals=totals, stacks=stack_options(options), switches=switches)
        left = options.max_events or None
        for lines in calls.lines(divides=not options.max_events):
            output.write_lines(lines, left)
            if left is not None:
                left -= min(left, lines.size)
            if left == 0:
                break
        output.write_lines(calls.rest())
        if totals is not None and wants_summary(options):
            output.write(summary_of(totals, options, calls.calls.name, timeline.last_comm))
        if form is not None and totals is not None and options.html:
            write_page(options, form, totals, calls.calls.name, f"{recording.path}: {recording.title}")
    return 0


def _filter(options: TraceCommandOptions, machine: str) -> CallFilter:
    if options.user:
        fail("-u: recordings do not have users; use -p or -t")
    selection = parse_selection(options.event, machine)
    return CallFilter(
        selection.numbers(machine),
        convert("-p", options.pid, parse_numbers),
        convert("-t", options.tid, parse_numbers),
        convert("-C", options.cpu, parse_ranges),
    )
