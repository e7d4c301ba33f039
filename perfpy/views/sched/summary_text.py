"""The summary of `sched timehist` (-s, -S), byte for byte perf 6.12's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.views.sched.columns import NAME_WIDTH, TaskColumnTexts, milliseconds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from perfpy.analysis.sched.summary import IdleChain, Summary, ThreadSummary

_RUN_TITLES = ("sched-in", "run-time", "min-run", "avg-run", "max-run")
_IDLE_TITLES = ("sched-out", "idle-time", "min-idle", "avg-idle", "max-idle")


def summary_lines(
    summary: Summary, comms: Sequence[str], *, idle_only: bool, is_complete: bool, cpus: Collection[int] | None = None
) -> Iterator[str]:
    """Yield the lines.

    Args:
        summary: of a recording.
        comms: the names of threads, by index.
        idle_only: for -I, where only idle times are shown.
        cpus: the CPUs whose idle times are shown; None: all.
        is_complete: whether no switch was left out by a filter; otherwise idle times are unknown.
    """
    titles = _IDLE_TITLES if idle_only else _RUN_TITLES
    yield from ("", "Idle-time summary" if idle_only else "Runtime summary")
    columns = f"{titles[0]:>11}  {titles[1]:>11}  {titles[2]:>9}  {titles[3]:>10}  {titles[4]:>10}  stddev  migrations"
    yield f"{'comm':>{NAME_WIDTH}}  {'parent':>6}{columns}"
    yield f"{'(count)':>49}  {'(msec)':>11}  {'(msec)':>9}  {'(msec)':>10}  {'(msec)':>10}  {'%':>6}"
    yield "-" * 117
    threads = summary.threads
    texts = TaskColumnTexts(comms)
    yield from (_thread_line(thread, texts) for thread in threads)
    if not threads:
        yield "<no still running tasks>"
    if not is_complete and not idle_only:
        return
    shown_cpus = [cpu for cpu in range(summary.cpus) if cpus is None or cpu in cpus]
    yield from _idle_lines(summary, shown_cpus)
    if summary.idle_chains is not None:
        yield from _idle_chain_lines(summary, summary.idle_chains, shown_cpus)
    total = sum(thread.times.total for thread in threads)
    count = sum(thread.times.runs for thread in threads) + sum(times.runs for times in summary.idle.values())
    yield ""
    yield f"    Total number of unique tasks: {len(threads)}"
    yield f"Total number of context switches: {count}"
    yield f"           Total run time (msec): {milliseconds(total, 2)}"
    yield f"    Total scheduling time (msec): {milliseconds(summary.span, 2)} (x {summary.cpus})"


def _thread_line(thread: ThreadSummary, texts: TaskColumnTexts) -> str:
    times = thread.times
    name = texts.text(thread.comm, thread.tid, thread.pid).decode("utf-8", "surrogateescape")
    total, shortest, average, longest = (milliseconds(one, 6) for one in (times.total, times.shortest, int(times.average), times.longest))
    lengths = f"{total}{shortest} {average} {longest}"
    return f"{name:>{NAME_WIDTH}}  {thread.parent:>6}  {times.runs:>9}   {lengths}  {times.deviation:5.2f}   {thread.migrations:>5}"


def _idle_chain_lines(summary: Summary, idle_chains: Mapping[int, Sequence[IdleChain]], cpus: Sequence[int]) -> Iterator[str]:
    """Yield the idle times by callchain, as perf 7 does; perf 6.12 leaves the tables empty."""
    yield from ("", "Idle stats by callchain:")
    for cpu in cpus:
        times = summary.idle.get(cpu)
        yield f"  CPU {cpu:2d}:{milliseconds(times.total if times else 0, 6)} msec"
        yield f"  {'Idle time (msec)':>16}  {'Count':>8}  Callchains"
        yield f"  {'-' * 16}  {'-' * 8}  {'-' * 50}"
        for chain in idle_chains.get(cpu, ()):
            yield f"  {milliseconds(chain.time, 12).strip():>16}  {chain.times:8d}  {chain.text.decode('utf-8', 'surrogateescape')}"
        yield ""


def _idle_lines(summary: Summary, cpus: Sequence[int]) -> Iterator[str]:
    yield from ("", "Idle stats:")
    for cpu in cpus:
        times = summary.idle.get(cpu)
        if times is None:
            yield f"    CPU {cpu:2d} idle entire time window"
            continue
        share = 100 * times.total / summary.span if summary.span else 0.0
        yield f"    CPU {cpu:2d} idle for {milliseconds(times.total, 6)} msec  ({share:6.2f}%)"
