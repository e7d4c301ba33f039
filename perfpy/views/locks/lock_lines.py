"""Tables of waits for locks, and the lists of `lock info`, byte for byte perf 6.12's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.analysis.locks.lock_table import VALUES
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from perfpy.analysis.locks.lock_table import LockRow

_TITLES: Final = {
    "acquired": ("acquired", 10),
    "contended": ("contended", 10),
    "avg_wait": ("avg wait", 12),
    "wait_total": ("total wait", 12),
    "wait_max": ("max wait", 12),
    "wait_min": ("min wait", 12),
}
_UNITS: Final = ((3_600_000_000_000, "h "), (60_000_000_000, "m "), (1_000_000_000, "s "), (1_000_000, "ms"), (1_000, "us"))
_NAME_WIDTH: Final = 20
_SHORTENED: Final = 16
#: the fields of contention and of report, by default
CONTENTION_FIELDS: Final = ("contended", "wait_total", "wait_max", "avg_wait")
REPORT_FIELDS: Final = ("acquired", "contended", "avg_wait", "wait_total", "wait_max", "wait_min")


def duration_text(nanoseconds: int, width: int) -> str:
    """Return a duration with its unit.

    >>> duration_text(834007492, 12), duration_text(1630000000, 12)
    ('   834.01 ms', '     1.63 s ')
    """
    for size, unit in _UNITS:
        if nanoseconds >= size:
            return f"{_rounded(nanoseconds / size):{width - 3}.2f} {unit}"
    return f"{nanoseconds:{width - 3}d} ns"


def _rounded(value: float) -> float:
    """Return the nearest number of single precision, which perf prints."""
    return float(np.float32(value))


def _values(row: LockRow, fields: Sequence[str]) -> str:
    texts = []
    for field in fields:
        value, width = VALUES[field](row), _TITLES[field][1]
        texts.append(duration_text(value, width) if field not in ("acquired", "contended") else f"{value:{width}d}")
    return "".join(f"{text} " for text in texts)


def _titles(fields: Sequence[str]) -> str:
    return "".join(f"{_TITLES[field][0]:>{_TITLES[field][1]}} " for field in fields)


def report_lines(rows: Iterable[LockRow], fields: Sequence[str], name_of: Callable[[LockRow], str]) -> Iterator[str]:
    """Yield the table of `lock report`; name_of: the name of a row's lock or thread."""
    yield f"{'Name':>{_NAME_WIDTH}} {_titles(fields)}"
    yield ""
    for row in rows:
        name = one_line(name_of(row))
        if len(name) >= _NAME_WIDTH:
            name = name[:_SHORTENED] + "..."
        yield f"{name:>{_NAME_WIDTH}} {_values(row, fields)}"


def contention_lines(
    rows: Iterable[LockRow],
    fields: Sequence[str],
    last_titles: str,
    text_of: Callable[[LockRow], str],
    details_of: Callable[[LockRow], Iterable[str]] | None = None,
) -> Iterator[str]:
    """Yield the table of `lock contention`.

    Args:
        rows: sorted.
        fields: of the columns.
        last_titles: the titles of the last columns.
        text_of: the text of a row's last columns.
        details_of: lines below a row.
    """
    yield f"{_titles(fields)}{last_titles}"
    yield ""
    for row in rows:
        yield f"{_values(row, fields)}{one_line(text_of(row))}"
        if details_of is not None:
            yield from details_of(row)


def csv_lines(
    rows: Iterable[LockRow], fields: Sequence[str], separator: str, titles: Sequence[str], texts_of: Callable[[LockRow], Sequence[str]]
) -> Iterator[str]:
    """Yield the same as values between separators, in nanoseconds."""
    names = [*(_TITLES[field][0] for field in fields), *titles]
    yield "# output: " + f"{separator} ".join(names)
    for row in rows:
        values = [*(str(VALUES[field](row)) for field in fields), *(one_line(text) for text in texts_of(row))]
        yield f"{separator} ".join(values)


def thread_lines(threads: Iterable[tuple[int, str]]) -> Iterator[str]:
    """Yield the list of threads of `lock info`."""
    yield f"{'Thread ID':>10}: comm"
    for tid, comm in threads:
        yield f"{tid:10d}: {one_line(comm)}"


def address_lines(locks: Iterable[tuple[int, str]]) -> Iterator[str]:
    """Yield the list of locks of `lock info`."""
    yield "Address of instance: name of class"
    for address, name in locks:
        yield f" {address:#x}: {one_line(name)}"
