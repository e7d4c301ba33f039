"""Draw the chart of a recording."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from perfpy.cli.line.opening import open_recording
from perfpy.cli.line.options import fail
from perfpy.cli.timechart.options import parse_duration
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.cli.timechart.options import TimechartOptions
    from perfpy.recording import Recording
    from perfpy.views.timechart.drawing import Drawing

_LEAST_WIDTH: Final = 100
_MOST_WIDTH: Final = 100_000
_SECOND: Final = 1_000_000_000


def run(options: TimechartOptions) -> int:
    """Draw the chart of a recording."""
    if options.power_only and options.tasks_only:
        fail("-P and -T exclude each other")
    if not _LEAST_WIDTH <= options.width <= _MOST_WIDTH:
        fail(f"-w {options.width}: expected {_LEAST_WIDTH} to {_MOST_WIDTH} pixels")
    with open_recording(options.input, force=options.force, verbose=options.verbose) as recording:
        from perfpy.analysis.timechart.io_calls import has_io
        from perfpy.cli.output.output_files import write_text

        drawing, left_out, length = _io_chart(recording, options) if has_io(recording.data) else _task_chart(recording, options)
        write_text(options.output, drawing.pieces())
    if options.output != "-":
        print(one_line(f"Written {length / _SECOND:.1f} seconds of trace to {options.output}."), file=sys.stderr)
    if left_out:
        print(f"The chart lacks the {left_out} shortest segments; -p draws fewer tasks.", file=sys.stderr)
    return 0


def _io_chart(recording: Recording, options: TimechartOptions) -> tuple[Drawing, int, int]:
    from perfpy.analysis.timechart.io_calls import IoOptions, read_io
    from perfpy.views.timechart.io_chart import busiest_io, draw_io

    calls = read_io(recording.data, IoOptions(options.io_min_time, options.io_merge_dist, options.io_skip_eagain))
    comm_of = _comms(recording)
    tids = sorted({call.tid for call in calls}) if options.process else busiest_io(calls, options.tasks)
    drawing, left_out = draw_io(calls, _selected(tids, options, comm_of), comm_of, options.width)
    length = max((call.end for call in calls), default=0) - min((call.begin for call in calls), default=0)
    return drawing, left_out, length


def _task_chart(recording: Recording, options: TimechartOptions) -> tuple[Drawing, int, int]:
    import numpy as np

    from perfpy.analysis.timechart.power import read_power
    from perfpy.analysis.timechart.task_times import read_task_times
    from perfpy.views.timechart.task_chart import ChartParts, busiest, draw_tasks

    times = read_task_times(recording.data)
    power = read_power(recording.data, times.end if times else 0)
    if times is None or (options.power_only and not any(len(states.cpu) for states in power)):
        needed = "states of CPUs" if options.power_only else "switches or system calls"
        fail(f"{recording.path}: no tracepoints of {needed}; record them: perfpy timechart record -- COMMAND")
    comm_of = _comms(recording)
    tids = np.unique(times.segments.tid).tolist() if options.process else busiest(times, options.tasks)
    parts = ChartParts(
        options.width,
        _selected(tids, options, comm_of),
        with_cpus=not options.tasks_only,
        with_tasks=not options.power_only,
        rank_of_cpu=_ranks(recording) if options.topology else {},
        is_highlighted=_highlight(options.highlight),
    )
    drawing, left_out = draw_tasks(times, power, comm_of, parts)
    return drawing, left_out, times.end - times.begin


def _comms(recording: Recording) -> Callable[[int], str]:
    """Return the function from a thread to its last name."""
    timeline = recording.make_timeline(keep_exited=True)
    return lambda tid: timeline.last_comm(tid) if tid else "swapper"


def _ranks(recording: Recording) -> dict[int, int]:
    """Return the order of CPUs by socket and core, as the recording describes them."""
    topology = recording.header.get("cpu_topology")
    if topology is None:
        fail(f"{recording.path}: -t: the recording does not describe the CPUs' topology")
    cores = enumerate(topology.cpus)
    ordered = sorted(cores, key=lambda pair: (pair[1].socket, pair[1].core, pair[0]))
    return {cpu: rank for rank, (cpu, _) in enumerate(ordered)}


def _selected(tids: list[int], options: TimechartOptions, comm_of: Callable[[int], str]) -> list[int]:
    """Return the tasks of -p; all without it."""
    words = set(options.process)
    return [tid for tid in tids if not words or str(tid) in words or comm_of(tid) in words]


def _highlight(text: str) -> Callable[[str, int], bool]:
    """Return whether a task is highlighted: by its name, or by its run time."""
    if not text:
        return lambda _name, _time: False
    try:
        least = parse_duration(text)
    except ValueError:
        return lambda name, _time: name == text
    return lambda _name, time: time >= least
