"""A report's rows as columns, for tables of other libraries.

All visible rows, one table after the other: "event" if there are several, "overhead"
(percent) and similar shares, "period", "samples", and a column for each sort key; numbers stay numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfpy.analysis.aggregate.profile import LATENCY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.analysis.report.histogram import Histogram

_SHARES: Final = {"period": "overhead", "children": "overhead_children", LATENCY: LATENCY, f"{LATENCY}_children": f"{LATENCY}_children"}
_MEASURES: Final = ("period", "children", "samples")


def _of_thread(text: str) -> int:
    """Parse PID:COMM."""
    return int(text.partition(":")[0])


#: keys with numeric texts; texts that are no number ("unknown") become None
_NUMBERS: Final[dict[str, Callable[[str], float]]] = {
    "pid": _of_thread,
    "tgid": _of_thread,
    "time": float,
    **dict.fromkeys(("cpu", "socket", "parallelism", "local_weight", "weight", "local_ins_lat", "ins_lat", "dso_size", "symbol_size"), int),
}


def report_columns(histograms: Sequence[Histogram]) -> dict[str, list[Any]]:
    """Return the columns; None for columns that a table lacks."""
    tables = [table for table in histograms if len(table.shown())]
    parts = [(table, _columns(table)) for table in tables]
    names = dict.fromkeys(name for _, part in parts for name in part)
    columns: dict[str, list[Any]] = {"event": [_title(table) for table, part in parts for _ in part["period"]]} if len(parts) > 1 else {}
    columns |= {name: [value for _, part in parts for value in part.get(name, [None] * len(part["period"]))] for name in names}
    return columns


def _title(table: Histogram) -> str:
    return table.group_title or table.leader.event.name


def _columns(table: Histogram) -> dict[str, list[Any]]:
    entries = table.shown()
    measures = table.entries.measures
    columns: dict[str, list[Any]] = {shown: table.percents(name, entries).tolist() for name, shown in _SHARES.items() if name in measures}
    columns |= {name: measures[name][entries, 0].tolist() for name in _MEASURES if name in measures}
    for key in table.keys:
        texts = [text.strip() for text in table.texts(key, entries)]
        columns[key] = [_number(_NUMBERS[key], text) for text in texts] if key in _NUMBERS else texts
    return columns


def _number(read: Callable[[str], float], text: str) -> float | None:
    try:
        return read(text)
    except ValueError:
        return None
