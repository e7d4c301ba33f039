"""Measure a program, tasks or CPUs in one call: counts by name (perfpy.stat), or a file (perfpy.record).

The command line has its own plans, because it has many more options.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from perfpy.capture import measurement, targets
from perfpy.capture.counters import CountingOptions
from perfpy.capture.measurement import Measurement, Plan
from perfpy.counts.named_counts import ProgramCounts, named_count
from perfpy.errors import PerfError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perfpy.capture.event_stream import EventStream
    from perfpy.capture.session.recorder import RecordSummary
    from perfpy.counts.comparison import Comparison
    from perfpy.counts.named_counts import Count
    from perfpy.counts.tally import Tally
    from perfpy.events.event import Event
    from perfpy.kernel import Kernel

SHORTEST_MS = 10


def event_texts(events: str | Iterable[str] | None) -> list[str]:
    """Events as the caller gave them, as texts of the event language."""
    if events is None:
        return []
    return [events] if isinstance(events, str) else list(events)


def count_program(
    command: Sequence[str | os.PathLike[str]] = (),
    *,
    events: str | Iterable[str] | None = None,
    pid: int | None = None,
    tid: int | None = None,
    cpus: Iterable[int] | None = None,
    system_wide: bool = False,
    repeat: int = 1,
    duration: float | None = None,
    inherit: bool = True,
    separate_children: bool = False,
    kernel: Kernel | None = None,
) -> ProgramCounts:
    """See perfpy.stat, which has the same parameters; kernel: the machine to count on."""
    words = _words(command)
    _check_positive(repeat=repeat, duration=duration)
    if not command and pid is None and tid is None and duration is None:
        raise UsageError("counting would never stop; give a command, a pid, a tid or a duration")
    target, _ = targets.resolve(_target(pid, tid, cpus, system_wide=system_wide or not (command or pid or tid or cpus)))
    texts = event_texts(events)
    chosen, _ = measurement.choose_events(texts, [], target)
    if separate_children and not target.has_tasks:
        raise UsageError("separate_children=True needs a task; a CPU has no children")
    if separate_children and not inherit:
        raise UsageError("separate_children=True requires inherit=True")
    alone = [event for event in measurement.choose_events(texts, [], target)[0] if not event.tool] if separate_children else []
    options = CountingOptions(inherit=inherit, alone=frozenset(alone), with_threads=True)
    timeout = 0 if duration is None else max(round(duration * 1000), SHORTEST_MS)
    return _carried_out(Plan([*chosen, *alone], target, words, options, repeat=repeat, timeout=timeout), kernel)


def _carried_out(plan: Plan, kernel: Kernel | None) -> ProgramCounts:
    shown = [event for event in plan.events if event.added_to is None and event not in plan.options.alone]
    outcome = Measurement(plan, kernel=kernel).run()
    tally = outcome.tally
    assert tally is not None  # there are no commands around the runs that could have failed
    times = tally.times
    return ProgramCounts(
        [event.name for event in shown],
        _with_own_parts(tally, shown),
        exit_code=outcome.exit_code,
        elapsed=[elapsed / 1e9 for elapsed in times.elapsed] if times else (),
        user=times.user if times else None,
        system=times.system if times else None,
        on_cpus=not plan.target.has_tasks,
    )


def _with_own_parts(tally: Tally, shown: Sequence[Event]) -> list[Count]:
    """Return the counts of the shown events. The tally may also have these events counted for the task alone, in the same order."""
    ((_, lines),) = tally.lines_by_aggregate()
    counts = {line.row.event: named_count(line.row, line.noise) for line in lines}
    events = tally.events[: len(shown)]
    of_task = iter([count for event, count in counts.items() if event not in events])
    has_parts = len(tally.events) > len(shown)
    return [counts[event].beside(next(of_task)) if has_parts and not event.tool else counts[event] for event in events]


def compare_programs(
    before: Sequence[str | os.PathLike[str]],
    after: Sequence[str | os.PathLike[str]],
    *,
    events: str | Iterable[str] | None = None,
    repeat: int = 10,
    warmup: int = 1,
    least_change: float = 0.01,
    kernel: Kernel | None = None,
) -> Comparison:
    """See perfpy.compare, which has the same parameters; kernel: the machine to count on."""
    from perfpy.capture.interleaved_runs import Contest
    from perfpy.counts.comparison import compare_runs

    sides = [_words(before), _words(after)]
    _check_positive(repeat=repeat, duration=None)
    if not all(sides) or warmup < 0 or least_change < 0:
        raise UsageError("compare needs two commands, and warmup and least_change of 0 or more")
    target, _ = targets.resolve()
    chosen, _ = measurement.choose_events(event_texts(events), [], target)
    contest = Contest([Plan(chosen, target, words) for words in sides], repeat=repeat, warmup=warmup, kernel=kernel)
    first, second = contest.run()
    if contest.failed:
        failed = contest.failed[0]
        which = f"run {failed.number}" if failed.number else "its warm-up run"
        raise PerfError(f"'{sides[failed.side][0]}' failed in {which} with status {failed.status}: nothing to compare")
    return compare_runs(first, second, least_change=least_change)


def record_program(
    command: Sequence[str | os.PathLike[str]] = (),
    *,
    events: str | Iterable[str] | None = None,
    output: str | os.PathLike[str] = "perf.data",
    frequency: int | None = None,
    period: int | None = None,
    call_graph: str | bool = False,
    jit: bool = False,
    unwind: bool = False,
    off_cpu: bool = False,
    max_cpu: float | None = None,
    pid: int | None = None,
    tid: int | None = None,
    cpus: Iterable[int] | None = None,
    system_wide: bool = False,
    kernel: Kernel | None = None,
) -> RecordSummary:
    """See perfpy.record, which has the same parameters; kernel: the machine to record on."""
    from perfpy.capture.record_options import (
        OffCpuOptions,
        OutputOptions,
        RecordOptions,
        SamplingOptions,
        compression_of_unwound,
        parse_callchain,
    )
    from perfpy.capture.session.recorder import Recorder

    _check_positive(frequency=frequency, period=period, max_cpu=max_cpu)
    mode = _chain_mode(call_graph, jit=jit, unwind=unwind)
    options = RecordOptions(
        sampling=SamplingOptions(freq=frequency, period=period, callchain=parse_callchain(mode) if mode else None, unwind=unwind),
        off_cpu=OffCpuOptions(enabled=off_cpu),
        output=OutputOptions(compression_level=compression_of_unwound() if unwind else 0, path=os.fspath(output)),
        target=_target(pid, tid, cpus, system_wide=system_wide),
        jit=jit,
        max_cpu=max_cpu or 0.0,
        command_line=tuple(sys.argv),
        quiet=True,
    )
    warn = None if events is None else warn_of_replaced  # the default event is the best that there is
    return Recorder(_words(command), event_texts(events), options=options, kernel=kernel, warn=warn).run()


def _chain_mode(call_graph: str | bool, *, jit: bool, unwind: bool) -> str:
    """How stacks are walked, "" where they are not, or where it is chosen by what runs."""
    if isinstance(call_graph, str) and call_graph:
        return call_graph
    return "" if jit else "fp" if call_graph else "dwarf" if unwind else ""


def watch_events(
    events: Sequence[str],
    *,
    pid: int | None = None,
    tid: int | None = None,
    cpus: Iterable[int] | None = None,
    system_wide: bool = False,
    filter: str = "",
    frequency: int | None = None,
    period: int | None = None,
    call_graph: bool = False,
    duration: float | None = None,
    kernel: Kernel | None = None,
) -> EventStream:
    """See perfpy.watch, which has the same parameters; kernel: the machine to watch."""
    from perfpy.capture.event_stream import open_stream
    from perfpy.capture.record_options import RecordOptions, SamplingOptions, parse_callchain

    _check_positive(frequency=frequency, period=period, duration=duration)
    if not events:
        raise UsageError('no events to watch; give some, as in perfpy.watch("sched:sched_switch", pid=1234)')
    chain = parse_callchain("fp") if call_graph else None
    options = RecordOptions(
        sampling=SamplingOptions(freq=frequency, period=period, callchain=chain), target=_target(pid, tid, cpus, system_wide=system_wide)
    )
    stream = open_stream([*events], [filter] if filter else [], options, kernel=kernel, warn=warn_of_replaced)
    if duration is not None:
        stream.stop_after(duration)
    return stream


def warn_of_replaced(text: str) -> None:
    """Warn the caller of the public function that another event replaces a named one."""
    import warnings  # rarely needed

    level, frame = 1, sys._getframe()  # noqa: SLF001  # warnings know skip_file_prefixes since Python 3.12
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] == __package__:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, RuntimeWarning, stacklevel=level)


def _target(pid: int | None, tid: int | None, cpus: Iterable[int] | None, *, system_wide: bool) -> targets.TargetOptions:
    return targets.TargetOptions(pid=_text(pid), tid=_text(tid), cpu="" if cpus is None else ",".join(map(str, cpus)), all_cpus=system_wide)


def _words(command: Sequence[str | os.PathLike[str]]) -> list[str]:
    if isinstance(command, (str, bytes)):
        raise UsageError(f"a command must be a list of arguments, {command.split()!r} instead of {command!r}")
    try:
        return [os.fsdecode(word) for word in command]
    except TypeError:
        raise UsageError(f"a command's arguments must be strings or paths, not {command!r}") from None


def _check_positive(**values: float | None) -> None:
    for name, value in values.items():
        if value is not None and value <= 0:
            raise UsageError(f"{name}={value} must be greater than 0")


def _text(number: int | None) -> str:
    return "" if number is None else str(number)
