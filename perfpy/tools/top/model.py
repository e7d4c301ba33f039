"""What a live screen shows: the rows of a report with their last minute, in an order that a cursor can hold."""

from __future__ import annotations

import math
import re
from collections import deque
from itertools import compress
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.cells import cell_len

from perfpy.analysis.locations import ROLE_BITS
from perfpy.analysis.verdict.categories import UNKNOWN, category
from perfpy.analysis.verdict.functions import interval
from perfpy.tools.top.options import WINDOW
from perfpy.untrusted.text import visible
from perfpy.views.readable import at_a_glance
from perfpy.views.report.screen_table import name_beside_file
from perfpy.views.report.text import OF_PROCESSES, name_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from perfpy.analysis.report.report import Report
    from perfpy.analysis.report.tables import Histogram
    from perfpy.tools.top.options import Rates


CELLS: Final = 12  #: of a sparkline
_MINUTE: Final = 60.0  # seconds that a sparkline shows
_RECENT: Final = 10.0  # seconds in which a row may have risen
_MOST_ROWS: Final = 200
_BARS: Final = " ▁▂▃▄▅▆▇█"
_LEAST_RISE: Final = 0.02  # of all samples
_CERTAIN: Final = 5.0  # standard deviations; samples of one moment are alike
_STANDS_OUT: Final = 0.25  # the least share of a row that is named
_MOSTLY: Final = 50.0  # percent
_PYTHON: Final = re.compile(r"(?:lib)?python\d\.\d+[a-z]*(?:\.so[\d.]*)?")
_LEVEL: Final = len("[.] ")
_OF_FUNCTIONS: Final = frozenset(("symbol", "pyfunc"))
_FEWEST: Final = 100  # samples


class TopRow(NamedTuple):
    """A row of the screen.

    Attributes:
        key: identifies the row across updates.
        texts: of its key columns, safe for a terminal.
        entry: of the histogram.
        percent: its share.
        children: its share with callees, None without callchains.
        sparkline: its share of each twelfth of the last minute.
        has_risen: whether its share in the last ten seconds is certainly higher than before.
        category: of its function (perfpy.analysis.verdict.categories), UNKNOWN for other rows.
    """

    key: tuple[str, ...]
    texts: tuple[str, ...]
    entry: int
    percent: float
    children: float | None
    sparkline: str
    has_risen: bool
    category: int = UNKNOWN

    def without_samples(self) -> TopRow:
        """Return the row as it is once it has no samples."""
        children = None if self.children is None else 0.0
        return self._replace(percent=0.0, children=children, entry=-1, has_risen=False)


class _Tick(NamedTuple):
    """The periods of one interval: of each row, and of all; and the number of samples."""

    seconds: float
    periods: dict[tuple[str, ...], int]
    total: int
    samples: int


class TopModel:
    """The rows of a live view.

    Attributes:
        event: the index of the shown event among those with samples.
        filter: rows must contain this text.
        by_own: sort by a row's own share, not by that with callees.

    Args:
        name_processes: returns the names of processes by their command lines.
    """

    def __init__(self, *, by_own: bool = False, name_processes: Callable[[Iterable[int]], Mapping[int, str]] | None = None) -> None:
        self.by_own = by_own
        self._name_processes = name_processes
        self.event = 0
        self.filter = ""
        self._report: Report | None = None
        self._ticks: deque[_Tick] = deque()

    def clear(self) -> None:
        """Forget the last minute: the rows have other keys from now on."""
        self._ticks.clear()
        self._report = None

    def clear_minute(self) -> None:
        """Forget the last minute, but not the rows."""
        self._ticks.clear()

    def refresh(self, report: Report) -> None:
        """Take another report of the same interval."""
        self._report = report

    def update(self, report: Report, rates: Rates) -> None:
        """Take the next report."""
        self._report = report
        table = self.table
        if table is None:
            return
        periods = table.entries.measures.get(WINDOW)
        entries = table.visible_entries()
        if periods is not None:
            own = periods[entries, 0]
            used = [(int(entry), int(period)) for entry, period in zip(entries, own, strict=True) if period > 0][:_MOST_ROWS]
            total = int(own.sum())
            self._ticks.append(_Tick(rates.seconds, {self._key(table, entry): period for entry, period in used}, total, rates.samples))
        while self._ticks and sum(tick.seconds for tick in self._ticks) - self._ticks[0].seconds > _MINUTE:
            self._ticks.popleft()

    @property
    def table(self) -> Histogram | None:
        """The table of the shown event; None without samples."""
        tables = [table for table in (self._report.histograms if self._report else ()) if table.leader.samples]
        return tables[self.event % len(tables)] if tables else None

    @staticmethod
    def _key(table: Histogram, entry: int) -> tuple[str, ...]:
        return tuple(table.text(name, entry) for name in table.keys)

    def rows(self, most: int = _MOST_ROWS) -> list[TopRow]:
        """Return the rows, most first, that contain the filter's text."""
        table = self.table
        if table is None:
            return []
        pattern, rows = self.filter.lower(), []
        cells = self._cells()
        entries = table.visible_entries()
        order = (table.by_own(entries) if self.by_own else entries).tolist()
        is_process = [name in OF_PROCESSES for name in table.keys]
        names: Mapping[int, str] = {}
        if self._name_processes is not None and any(is_process):
            numbers = (text.partition(":")[0] for entry in order[:most] for text in compress(self._key(table, entry), is_process))
            names = self._name_processes(int(number) for number in numbers if number.strip().isdecimal())
        for entry in order:
            key = self._key(table, entry)
            named = (name_process(text, names) if is_one else at_a_glance(text) for text, is_one in zip(key, is_process, strict=True))
            texts = tuple(name_beside_file(text.strip(), "dso" in table.keys) for text in named)
            if pattern and not any(pattern in text.lower() for text in texts):
                continue
            children = table.percent("children", entry) if "children" in table.entries.measures else None
            percent, is_rising = table.percent("period", entry), self._has_risen(key)
            rows.append(TopRow(key, texts, entry, percent, children, self._sparkline(key, cells), is_rising, _category(table, entry)))
            if len(rows) == most:
                break
        return rows

    def _cells(self) -> list[list[_Tick]]:
        """Return the intervals of each cell of a sparkline, the latest last."""
        cells: list[list[_Tick]] = [[] for _ in range(CELLS)]
        age = 0.0
        for tick in reversed(self._ticks):
            cells[max(CELLS - 1 - int(age * CELLS / _MINUTE), 0)].append(tick)
            age += tick.seconds
        return cells

    @staticmethod
    def _sparkline(key: tuple[str, ...], cells: list[list[_Tick]]) -> str:
        shares = [
            sum(tick.periods.get(key, 0) for tick in cell) / max(sum(tick.total for tick in cell), 1) if cell else -1.0 for cell in cells
        ]
        most = max([*shares, 0.01])
        return "".join(_BARS[math.ceil(share / most * (len(_BARS) - 1))] if share > 0 else " " for share in shares)

    def _has_risen(self, key: tuple[str, ...]) -> bool:
        """Whether the share of the last ten seconds is certainly higher than that of the time before."""
        recent: list[_Tick] = []
        before: list[_Tick] = []
        age = 0.0
        for tick in reversed(self._ticks):
            (recent if age < _RECENT else before).append(tick)
            age += tick.seconds
        if sum(tick.seconds for tick in before) < _RECENT / 2:
            return False
        (now, samples), (then, samples_before) = _share(key, recent), _share(key, before)
        if not samples or not samples_before or now - then < _LEAST_RISE:
            return False
        both = (now * samples + then * samples_before) / (samples + samples_before)
        deviation = math.sqrt(both * (1 - both) * (1 / samples + 1 / samples_before))
        return now - then > _CERTAIN * deviation

    def verdict(self, width: int = 1000) -> str:
        """Return a sentence on the row that stands out, without its file if it is wider than the screen; "" unless it is certain."""
        table = self.table
        if table is None or len(table.visible_entries()) < 2 or table.leader.samples < _FEWEST:
            return ""
        if _is_mostly_python(table):
            return "most of this is CPython's own code; perfpy top --python shows the Python functions"
        first, second = (int(entry) for entry in table.by_own(table.visible_entries())[:2])
        samples = table.leader.samples
        low, high = interval(min(table.percent("period", first) / 100, 1.0), samples)
        if low < _STANDS_OUT or low <= interval(min(table.percent("period", second) / 100, 1.0), samples).high:
            return ""
        texts = [visible(at_a_glance(text).strip()) for text in reversed(self._key(table, first))]
        name = " in ".join(text[_LEVEL:] if text.startswith("[") and text[_LEVEL - 2 : _LEVEL] == "] " else text for text in texts)
        share = f": {100 * low:.0f} to {100 * high:.0f} % of the samples"
        if cell_len(name + share) > width:
            name = name.partition(" /" if " /" in name else " in ")[0]
        return name + share


def _category(table: Histogram, entry: int) -> int:
    """Return the category of a row's function; UNKNOWN for rows of other keys."""
    if not _OF_FUNCTIONS & table.keys.keys():
        return UNKNOWN
    locations, frame = table.locations, int(table.entries.location[entry]) >> ROLE_BITS
    symbol, dso = int(locations.symbol[frame]), int(locations.dso[frame])
    return category(locations.dsos[dso] if dso >= 0 else None, locations.symbols.name(symbol) if symbol >= 0 else "")


def _is_mostly_python(table: Histogram) -> bool:
    """Whether most samples are in CPython's program or library."""
    if "dso" not in table.keys or "children" in table.entries.measures:
        return False
    entries = [entry for entry in table.visible_entries().tolist()[:_MOST_ROWS] if _PYTHON.fullmatch(table.text("dso", entry).strip())]
    return sum(table.percent("period", entry) for entry in entries) > _MOSTLY


def _share(key: tuple[str, ...], ticks: list[_Tick]) -> tuple[float, int]:
    """Return the share of a row in some intervals, and their number of samples."""
    total = sum(tick.total for tick in ticks)
    return (sum(tick.periods.get(key, 0) for tick in ticks) / total if total else 0.0), sum(tick.samples for tick in ticks)
