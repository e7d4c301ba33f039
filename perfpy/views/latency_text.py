"""Durations of a function's calls as text: percentiles, a histogram, the slowest calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.analysis.latencies import duration_bins, nearest_rank
from perfpy.errors import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from perfpy.analysis.latencies import FunctionCalls


#: the columns of the table: heading and share
PERCENTILES: Final = (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999))
_UNITS: Final = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns"))
_BAR: Final = 40


class SlowCall(NamedTuple):
    """One of the slowest calls.

    Attributes:
        time: its start, in nanoseconds of the recording's clock.
        tid: the thread.
        comm: the thread's name.
        duration: nanoseconds.
        off_cpu: nanoseconds.
        values: the arguments and the return value, as NAME=VALUE.
        callers: the functions that called it, the nearest first.
    """

    time: int
    tid: int
    comm: str
    duration: int
    off_cpu: int
    values: Sequence[str]
    callers: Sequence[str]


def duration_text(nanoseconds: float) -> str:
    """Return a duration with four digits and its unit."""
    for size, unit in _UNITS:
        if nanoseconds >= size:
            value = nanoseconds / size
            return f"{value:.{3 if value < 10 else 2 if value < 100 else 1}f} {unit}"
    return "0 ns"


def latency_lines(title: str, calls: FunctionCalls, slowest: Sequence[SlowCall]) -> Iterator[str]:
    """Yield the lines of the whole output."""
    count = len(calls.duration)
    threads = len(set(calls.tid.tolist()))
    yield f"{title}: {count:,} {plural(count, 'call')} by {threads} {plural(threads, 'thread')}"
    if calls.open_count:
        yield f"{calls.open_count:,} {plural(calls.open_count, 'call')} did not return while it was measured"
    if not count:
        return
    yield ""
    yield from _table(calls)
    yield ""
    yield from histogram_lines(calls.duration)
    if slowest:
        yield ""
        yield "Slowest calls"
        for call in slowest:
            yield from _slow_call(title.split(" ", 1)[0], call)


def _table(calls: FunctionCalls) -> Iterator[str]:
    durations, total, off = calls.duration, int(calls.duration.sum()), int(calls.off_cpu.sum())
    values = [
        int(durations.min()),
        *(nearest_rank(durations, share) for _, share in PERCENTILES),
        int(durations.max()),
        total / len(durations),
    ]
    headings = ["min", *(name for name, _ in PERCENTILES), "max", "mean"]
    yield "".join(f"{heading:>11}" for heading in headings)
    yield "".join(f"{duration_text(value):>11}" for value in values)
    yield ""
    share = 100 * off / total if total else 0
    yield f"  on the CPU {duration_text(total - off)} ({100 - share:.1f} %), off the CPU {duration_text(off)} ({share:.1f} %)"


def histogram_lines(durations: NDArray[np.int64]) -> Iterator[str]:
    """Yield a line for each bin of a histogram."""
    bins = duration_bins(durations)
    most = max(count for _, _, count in bins)
    for low, high, count in bins:
        bar = "#" * round(_BAR * count / most)
        yield f"  {duration_text(low):>9} - {duration_text(high):>9} {count:>10,} |{bar:<{_BAR}}|"


def _slow_call(function: str, call: SlowCall) -> Iterator[str]:
    split = f"on the CPU {duration_text(call.duration - call.off_cpu)}, off {duration_text(call.off_cpu)}"
    values = f"  {' '.join(call.values)}" if call.values else ""
    yield f"  {duration_text(call.duration):>9}  {split}, at {call.time / 1e9:.6f} s, {call.comm} {call.tid}{values}"
    if call.callers:
        yield f"             {' < '.join((function, *call.callers))}"
