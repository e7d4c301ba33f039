"""`perfpy sched latency`: the delays on the run queue of each task."""

from __future__ import annotations

from perfpy.abi.light_types import TYPE_CHECKING
from perfpy.cli.line.option_parsing import fail
from perfpy.cli.output.terminal import print_lines
from perfpy.tools.sched.options import open_sched
from perfpy.untrusted.text import byte_width, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Final

    from perfpy.analysis.scheduler import Problems, TaskDelays
    from perfpy.recording import Recording
    from perfpy.tools.sched.options import LatencyOptions


def run(options: LatencyOptions) -> int:
    """Show how long tasks waited for a CPU."""
    from perfpy.analysis.scheduler import DEFAULT_SORT, SORT_KEYS

    keys = [key for key in options.sort.split(",") if key] or list(DEFAULT_SORT)
    for key in keys:
        if key not in SORT_KEYS:
            fail(f"-s {key}: unknown sort key; expected {', '.join(SORT_KEYS)}")
    with open_sched(options) as recording:
        _show(recording, options, keys)
    return 0


def _show(recording: Recording, options: LatencyOptions, keys: list[str]) -> None:
    from perfpy.analysis.scheduler import DelaySums, event_windows, merged_by_comm, sorted_delays

    options.dump(recording)
    one_cpu = options.cpu >= 0
    delays = DelaySums(one_cpu=one_cpu)
    for events in event_windows(recording.data, migrations=one_cpu, unused=_UNUSED, columns=("cpu",), of_switches_only=True):
        delays.add(events)
    rows = delays.tasks(last_comms(recording))
    if not options.pids:
        rows = merged_by_comm(rows)
    below = problem_lines(delays.problems(recording.data))
    print_lines(latency_lines(sorted_delays(rows, keys), below, is_seven=written_by_seven(recording)))


def last_comms(recording: Recording) -> Callable[[int], str]:
    """Return the function from a thread to its last name."""
    timeline = recording.make_timeline(keep_exited=True, has_spaces=False)
    return lambda tid: timeline.last_comm(tid) if tid else "swapper"


def written_by_seven(recording: Recording) -> bool:
    """Whether perf 7 or later recorded the file; its tables have another layout."""
    version = str(recording.header.get("version", "")).split(".")[0]
    return version.isdecimal() and int(version) >= 7


_UNUSED: Final = ("prev_prio", "next_prio", "target_cpu", "orig_cpu", "dest_cpu")
_IDLE: Final = "swapper"
_NANOSECONDS: Final = 1_000_000_000
_UNITS: Final = ((1_000_000_000, "s "), (1_000_000, "ms"), (1_000, "us"))
_RULE: Final = " " + 139 * "-"
_TITLE: Final = (
    "  Task                  |   Runtime ms  |  Count   | Avg delay ms    | Max delay ms    |"
    " Max delay start           | Max delay end          |"
)
_SEVEN_RULE: Final = " " + 138 * "-"
_SEVEN_TITLE: Final = (
    "  Task                    |    Runtime     |  Count   |    Avg delay    |    Max delay    |"
    "      Max delay start  |     Max delay end     |"
)


def latency_lines(rows: Iterable[TaskDelays], problems: Sequence[str], *, is_seven: bool = False) -> Iterator[str]:
    """Yield the lines of the table.

    The text is perf 6.12's, byte for byte, or that of perf 7 for its files.

    Args:
        rows: sorted.
        problems: lines below the table.
        is_seven: the layout of perf 7.
    """
    rule, title = (_SEVEN_RULE, _SEVEN_TITLE) if is_seven else (_RULE, _TITLE)
    yield from ("", rule, title, rule)
    runtime = count = 0
    for row in rows:
        if row.delays and row.comm != _IDLE:
            runtime += row.runtime
            count += row.delays
            yield _seven_line(row) if is_seven else _line(row)
    if is_seven:
        yield from (rule, f"  TOTAL:                  |{_duration(runtime, 12)} |{count:9d} |", " " + 54 * "-")
    else:
        yield from (" " + 113 * "-", f"  TOTAL:                |{runtime / 1e6:11.3f} ms |{count:9d} |", " " + 51 * "-")
    yield from problems
    yield ""


def problem_lines(problems: Problems) -> list[str]:
    """Return the lines below the table that name lost records and inconsistent switches."""
    lines = []
    if problems.lost and problems.records:
        share = 100 * problems.lost / problems.records
        lines.append(f"  INFO: {share:.3f}% lost events ({problems.lost} out of {problems.records}, in {problems.chunks} chunks)")
    if problems.wrong_switches and problems.wakeups:
        share = 100 * problems.wrong_switches / problems.wakeups
        line = f"  INFO: {share:.3f}% context switch bugs ({problems.wrong_switches} out of {problems.wakeups})"
        lines.append(line + (" (due to lost events?)" if problems.lost else ""))
    return lines


def _task(row: TaskDelays) -> str:
    name = one_line(row.comm)
    return f"  {name}:({row.tasks})" if row.tasks > 1 else f"  {name}:{row.tid}"


def _padded(text: str, width: int) -> str:
    """Return a text with blanks up to a width, and one blank at least."""
    return text + " " * max(width - byte_width(text), 1)


def _line(row: TaskDelays) -> str:
    return (
        f"{_padded(_task(row), 24)}|{row.runtime / 1e6:11.3f} ms |{row.delays:9d} | avg:{row.average / 1e6:8.3f} ms |"
        f" max:{row.longest / 1e6:8.3f} ms | max start: {_seconds(row.begin):>12} s | max end: {_seconds(row.end):>12} s"
    )


def _seven_line(row: TaskDelays) -> str:
    durations = f"{_duration(row.average, 13)} |{_duration(row.longest, 13)}"
    return (
        f"{_padded(_task(row), 26)}|{_duration(row.runtime, 12)} |{row.delays:9d} |{durations} |"
        f"{_seconds(row.begin):>20} s |{_seconds(row.end):>20} s |"
    )


def _seconds(time: int) -> str:
    return f"{time // _NANOSECONDS}.{time % _NANOSECONDS // 1000:06d}"


def _duration(nanoseconds: int, width: int) -> str:
    for size, unit in _UNITS:
        if nanoseconds >= size:
            return f"{nanoseconds / size:{width}.3f} {unit}"
    return f"{nanoseconds:{width}d} ns"
