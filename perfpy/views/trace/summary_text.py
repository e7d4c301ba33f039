"""The tables of perf trace -s: the calls of each thread, or of all, with their times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi.system_calls.errors import error_name
from perfpy.tracing.totals import Totals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfpy.tracing.totals import CallTotals

_MILLISECOND: Final = 1e6  # nanoseconds
_HEAD: Final = (
    "   syscall            calls  errors  total       min       avg       max       stddev",
    "                                     (msec)    (msec)    (msec)    (msec)        (%)",
    "   --------------- --------  ------ -------- --------- --------- ---------     ------",
)


def empty_totals(*, has_buckets: bool) -> Totals:
    """Return sums without calls; has_buckets: for percentiles and histograms."""
    return Totals(has_buckets=has_buckets)


class SummaryOptions(NamedTuple):
    """The form of the tables.

    Attributes:
        of_all: one table for all threads instead of one for each.
        errnos: print the error numbers of each call.
        most: rows of a table; 0 for all.
    """

    of_all: bool = False
    errnos: bool = False
    most: int = 0


class CallTables:
    """The tables of a stream's sums.

    Args:
        totals: the sums.
        options: their form.
        name_of: returns the name of a call.
        comm_of: returns the last comm of a thread.
    """

    def __init__(self, totals: Totals, options: SummaryOptions, name_of: Callable[[int], str], comm_of: Callable[[int], str]) -> None:
        self._totals = totals
        self._options = options
        self._name_of = name_of
        self._comm_of = comm_of

    def lines(self) -> Iterator[str]:
        """Yield the lines of the tables, without line breaks."""
        yield from ("", " Summary of events:", "")
        events = self._totals.events
        count = self._totals.samples
        if self._options.of_all:
            yield f" total, {count} events"
            yield from self._table(self._totals.of_all())
            return
        by_thread = self._totals.by_thread()
        for tid, own in sorted(events.items(), key=lambda item: item[1]):
            yield f" {self._comm_of(tid)} ({tid}), {own} events, {100 * own / max(count, 1):.1f}%{self._further_sums(tid)}"
            yield from self._table(by_thread.get(tid, []))

    def _further_sums(self, tid: int) -> str:
        """Return the page faults and the run time of a thread."""
        faults = ((name, self._totals.faults.get(name, {}).get(tid, 0)) for name in ("majfault", "minfault"))
        texts = [f", {count} {name}s" for name, count in faults if count]
        if self._totals.run_times:
            texts.append(f", {self._totals.run_times.get(tid, 0) / _MILLISECOND:.3f} msec")
        return "".join(texts)

    def _table(self, calls: list[CallTotals]) -> Iterator[str]:
        yield ""
        yield from _HEAD
        most = self._options.most or len(calls)
        for call in calls[:most]:
            times = "".join(f" {value / _MILLISECOND:9.3f}" for value in (call.least, call.mean, call.most))
            yield (
                f"   {self._name_of(call.number):<15s} {call.calls:8d} {call.errors:6d}"
                f" {call.total / _MILLISECOND:9.3f}{times} {call.relative_error:9.2f}%"
            )
            if self._options.errnos:
                for number, count in sorted(call.errnos.items()):
                    yield f"\t\t\t\t{error_name(number).name}: {count}"
        yield from ("", "")
