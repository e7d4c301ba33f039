"""Tables of calls with percentiles and shares of the traced time, and histograms of their times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfpy.tracing.totals import CallTotals, Totals

_MILLISECOND: Final = 1e6  # nanoseconds
_SECOND: Final = 1e9
_PARTS: Final = 16  # buckets of a power of two (perfpy.tracing.totals)
_BAR: Final = 40  # the longest bar
_HEAD: Final = (
    "   syscall            calls  errors     total   wall       p50       p90       p99       max",
    "                                       (msec)    (%)    (msec)    (msec)    (msec)    (msec)",
    "   --------------- --------  ------ --------- ------ --------- --------- --------- ---------",
)
_UNITS: Final = ((1e9, "s"), (1e6, "ms"), (1e3, "us"))


def percentile_lines(totals: Totals, name_of: Callable[[int], str], most: int = 0, *, histograms: bool = False) -> Iterator[str]:
    """Yield the table of all calls by their total time.

    Args:
        totals: the sums.
        name_of: returns the name of a call.
        most: rows; 0 for all.
        histograms: print the histogram of each call below the table.
    """
    calls = totals.of_all()
    wall = max(totals.last_time - totals.first_time, 1)
    yield from ("", f" {sum(call.calls for call in calls)} calls in {wall / _SECOND:.3f} s:", "", *_HEAD)
    for call in calls[: most or len(calls)]:
        times = (*(call.percentile(share) for share in (0.5, 0.9, 0.99)), call.most)
        columns = "".join(f" {value / _MILLISECOND:9.3f}" for value in times)
        share = 100 * call.total / wall
        yield f"   {name_of(call.number):<15s} {call.calls:8d}  {call.errors:6d} {call.total / _MILLISECOND:9.3f} {share:6.2f}{columns}"
    for call in calls[: most or len(calls)] if histograms else ():
        yield from _histogram(call, name_of)


def _histogram(call: CallTotals, name_of: Callable[[int], str]) -> Iterator[str]:
    """Yield the counts of calls by powers of two of their times."""
    counts: dict[int, int] = {}
    for bucket, count in call.buckets.items():
        counts[bucket // _PARTS] = counts.get(bucket // _PARTS, 0) + count
    yield from ("", f" {name_of(call.number)}: {call.calls} calls, {call.total / _MILLISECOND:.3f} msec")
    largest = max(counts.values(), default=1)
    for power in range(min(counts, default=0), max(counts, default=-1) + 1):
        count = counts.get(power, 0)
        bar = "#" * -(-_BAR * count // largest)
        yield f"   {_time(2**power):>8s} .. {_time(2 ** (power + 1)):>8s} {count:9d} {bar}".rstrip()


def _time(nanoseconds: int) -> str:
    """Return a time with its unit, three digits."""
    for size, unit in _UNITS:
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds} ns"
