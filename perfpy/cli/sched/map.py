"""`perfpy sched map`: which thread each CPU ran."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from perfpy.cli.line.options import fail
from perfpy.cli.sched.opening import dump_records, open_sched

if TYPE_CHECKING:
    from perfpy.cli.sched.options import MapOptions
    from perfpy.recording import Recording


def run(options: MapOptions) -> int:
    """Show which thread each CPU ran over time."""
    if options.fuzzy_name and not options.task_name:
        fail("--fuzzy-name requires --task-name")
    with open_sched(options) as recording:
        _show(recording, options)
    return 0


def _show(recording: Recording, options: MapOptions) -> None:
    from perfpy.analysis.sched.events import read_events
    from perfpy.analysis.sched.switch_map import TaskNameFilter, make_map
    from perfpy.cli.output.terminal import is_terminal
    from perfpy.untrusted.text import visible
    from perfpy.views.sched.map_lines import MapStyle, map_lines

    dump_records(recording, options)
    events = read_events(recording.data, runtimes=False)
    timeline = recording.make_timeline(keep_exited=True, has_spaces=False)
    names = TaskNameFilter(frozenset(options.task_name.split(",")), options.fuzzy_name) if options.task_name else None
    cpus = _numbers("--cpus", options.cpus) if options.cpus else None
    rows = make_map(events, recording.data, timeline, names, cpus)
    count = recording.header.get("nrcpus")
    highest = int(rows.cpu.max(initial=-1)) + 1
    on_terminal = is_terminal()
    style = MapStyle(
        max(int(count.online) if count else 0, min(highest, _MOST_CPUS)),
        compact=options.compact,
        blue_tids=_numbers("--color-pids", options.color_pids) if on_terminal else (),
        red_cpus=_numbers("--color-cpus", options.color_cpus) if on_terminal else (),
    )
    comms = [visible(comm) for comm in timeline.comms] if on_terminal else timeline.comms
    sys.stdout.flush()
    for text in map_lines(rows, comms, style):
        sys.stdout.buffer.write(text)


_MOST_CPUS = 4096


def _numbers(option: str, text: str) -> frozenset[int]:
    from perfpy.abi.cpu_list import parse_cpu_list

    try:
        return frozenset(parse_cpu_list(text)) if text else frozenset()
    except ValueError as error:
        fail(f"{option} {text!r}: {error}")
