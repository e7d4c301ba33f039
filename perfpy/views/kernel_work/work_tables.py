"""Tables of run times and delays of kernel work, byte for byte perf 6.12's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.analysis.kernel_work.events import SOFTIRQ, WORKQUEUE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from perfpy.analysis.kernel_work.works import WorkRow, WorkTotals

NAME_WIDTH: Final = 30
_RUNTIMES: Final = ("Total Runtime", "Max runtime  ", "Max runtime start  ", "Max runtime end    ")
_DELAYS: Final = ("Avg delay    ", "Max delay    ", "Max delay start    ", "Max delay end      ")
_RULE: Final = " " + "-" * 128
_MARKS: Final = {SOFTIRQ: "(s)", WORKQUEUE: "(w)"}
_PHASES: Final = ("raise", "entry", "exit")
MILLISECOND: Final = 1_000_000


def label_of(kind: str, name: str, number: int) -> str:
    """Return the name of a piece of work as perf prints it, cut to the column's width.

    >>> label_of("softirq", "RCU", 9), label_of("irq", "eth0", 36), label_of("workqueue", "", 0xFF00)
    ('(s)RCU:9', 'eth0:36', '(w)0xff00')
    """
    text = name or f"{number:#x}" if kind == WORKQUEUE else f"{name or '(null)'}:{number}"
    return (_MARKS.get(kind, "") + text)[: NAME_WIDTH - 1]


def seconds_text(nanoseconds: int) -> str:
    """Return a time in seconds, truncated to microseconds.

    >>> seconds_text(1002003999)
    '1.002003'
    """
    micros = nanoseconds // 1000
    return f"{micros // 1_000_000}.{micros % 1_000_000:06d}"


def runtime_lines(rows: Iterable[WorkRow], label: Callable[[WorkRow], str], totals: WorkTotals | None) -> Iterator[str]:
    """Yield the table of `kwork report`; label: the text of a row's work; totals: for the summary below."""
    yield from _table(rows, label, _RUNTIMES, lambda row: row.total)
    if totals is not None:
        load = totals.runtime / totals.span if totals.span else 0.0
        yield f"  Total count            : {totals.intervals:9d}"
        yield f"  Total runtime   (msec) : {totals.runtime / MILLISECOND:9.3f} ({load:.3f}% load average)"
        yield f"  Total time span (msec) : {totals.span / MILLISECOND:9.3f}"
        yield _RULE


def delay_lines(rows: Iterable[WorkRow], label: Callable[[WorkRow], str]) -> Iterator[str]:
    """Yield the table of `kwork latency`; label: the text of a row's work."""
    yield from _table(rows, label, _DELAYS, lambda row: row.average)


def _table(
    rows: Iterable[WorkRow], label: Callable[[WorkRow], str], titles: Sequence[str], value: Callable[[WorkRow], int]
) -> Iterator[str]:
    first, longest, begin, end = titles
    yield ""
    yield f"  {'Kwork Name':<{NAME_WIDTH}} | Cpu  | {first} | Count     | {longest} | {begin} | {end} |"
    yield _RULE
    for row in rows:
        yield (
            f"  {label(row):<{NAME_WIDTH}} | {row.cpu:04d} | {value(row) / MILLISECOND:10.3f} ms | {row.intervals:9d} "
            f"| {row.longest / MILLISECOND:10.3f} ms | {seconds_text(row.begin):>17} s | {seconds_text(row.end):>17} s |"
        )
    yield _RULE


def skipped_lines(skipped: Sequence[int], records: int) -> Iterator[str]:
    """Yield perf's line on events without counterpart, if there are some, and the blank line that ends a table.

    Args:
        skipped: the events of each phase.
        records: of the file.
    """
    count = sum(skipped)
    if count and records:
        parts = ", ".join(f"{number} {phase}" for number, phase in zip(skipped, _PHASES, strict=True))
        yield f"  INFO: {100 * count / records:.3f}% skipped events ({count} including {parts})"
    yield ""
