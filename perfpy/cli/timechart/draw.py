"""Draw the chart of a recording."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from perfpy.cli.line.opening import open_recording
from perfpy.cli.line.options import fail
from perfpy.cli.timechart.options import parse_duration
from perfpy.untrusted.text import one_line
from perfpy.views.timechart.drawing import escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfpy.cli.timechart.options import TimechartOptions
    from perfpy.recording import Recording

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

        pieces, length = _io_chart(recording, options) if has_io(recording.data) else _task_chart(recording, options)
        write_text(options.output, pieces)
    if options.output != "-":
        print(one_line(f"Written {length / _SECOND:.1f} seconds of trace to {options.output}."), file=sys.stderr)
    return 0


def _io_chart(recording: Recording, options: TimechartOptions) -> tuple[Iterator[str], int]:
    from perfpy.analysis.timechart.io_calls import IoOptions, read_io
    from perfpy.views.timechart.io_chart import draw_io

    history = read_io(recording.data, IoOptions(options.io_min_time, options.io_merge_dist, options.io_skip_eagain))
    return draw_io(history, options.width, options.tasks, _choice(options)), history.end - history.begin


def _task_chart(recording: Recording, options: TimechartOptions) -> tuple[Iterator[str], int]:
    from perfpy.analysis.timechart.power import read_power
    from perfpy.analysis.timechart.task_history import read_task_history
    from perfpy.views.timechart.task_chart import ChartParts, draw_tasks

    history = read_task_history(recording.data)
    power = read_power(recording.data)
    if not history.end and not power.end:
        fail(f"{recording.path}: no tracepoints of switches or states of CPUs; record them: perfpy timechart record -- COMMAND")
    header = recording.header
    parts = ChartParts(
        options.width,
        options.tasks,
        _choice(options),
        with_cpus=not options.tasks_only,
        with_tasks=not options.power_only,
        position_of_cpu=_positions(recording) if options.topology else {},
        is_highlighted=_highlight(options.highlight),
        cpus=getattr(header.get("nrcpus"), "online", 0),
        cpu_model=_cpu_model(str(header.get("cpudesc") or "")),
    )
    begins = [time for time in (history.begin, power.begin) if time]
    return draw_tasks(history, power, parts), max(history.end, power.end) - min(begins, default=0)


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
    """Return whether a task is highlighted: by its name, or by its run time."""
    if not text:
        return lambda _name, _time: False
    try:
        least = parse_duration(text)
    except ValueError:
        return lambda name, _time: name == text
    return lambda _name, time: time >= least


def _cpu_model(description: str) -> str:
    """Return the model of the recorded machine as perf writes it: a line that ends."""
    return f"{escaped(description)}\n" if description else ""
