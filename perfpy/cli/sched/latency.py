"""`perfpy sched latency`: the delays on the run queue of each task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.cli.line.options import fail
from perfpy.cli.output.terminal import print_lines
from perfpy.cli.sched.opening import dump_records, open_sched

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.cli.sched.options import LatencyOptions
    from perfpy.recording import Recording


def run(options: LatencyOptions) -> int:
    """Show how long tasks waited for a CPU."""
    from perfpy.analysis.sched.latency import DEFAULT_SORT, SORT_KEYS

    keys = [key for key in options.sort.split(",") if key] or list(DEFAULT_SORT)
    for key in keys:
        if key not in SORT_KEYS:
            fail(f"-s {key}: unknown sort key; expected {', '.join(SORT_KEYS)}")
    with open_sched(options) as recording:
        _show(recording, options, keys)
    return 0


def _show(recording: Recording, options: LatencyOptions, keys: list[str]) -> None:
    from perfpy.analysis.sched.events import read_events
    from perfpy.analysis.sched.latency import merged_by_comm, problems, sorted_delays, task_delays, transitions_of
    from perfpy.views.sched.latency_table import latency_lines, problem_lines

    dump_records(recording, options)
    events = read_events(recording.data, columns=("cpu",))
    one_cpu = options.cpu >= 0
    transitions = transitions_of(events, one_cpu=one_cpu)
    rows = task_delays(events, transitions, last_comms(recording), one_cpu=one_cpu)
    if not options.pids:
        rows = merged_by_comm(rows)
    below = problem_lines(problems(events, transitions, recording.data, one_cpu=one_cpu))
    print_lines(latency_lines(sorted_delays(rows, keys), below, is_seven=written_by_seven(recording)))


def last_comms(recording: Recording) -> Callable[[int], str]:
    """Return the function from a thread to its last name."""
    timeline = recording.make_timeline(keep_exited=True, has_spaces=False)
    return lambda tid: timeline.last_comm(tid) if tid else "swapper"


def written_by_seven(recording: Recording) -> bool:
    """Whether perf 7 or later recorded the file; its tables have another layout."""
    version = str(recording.header.get("version", "")).split(".")[0]
    return version.isdecimal() and int(version) >= 7
