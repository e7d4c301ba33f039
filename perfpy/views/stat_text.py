"""A tally of counts as the text of perf stat.

Column widths and number formats are those of perf 6.12.
"""

from __future__ import annotations

from perfpy.abi.flags import PerfType
from perfpy.counts.aggregation import (
    AGGREGATE_COLUMNS,
    AggregateId,
    Aggregation,
    CountRow,
    Ratio,
    ratio_name,
    relative_error,
    standard_error,
)
from perfpy.errors import GroupIsFullError
from perfpy.untrusted.text import one_line

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Final

    from perfpy.counts.tally import RunTimes, Tally, TallyLine


NOT_SUPPORTED: Final = "<not supported>"
NOT_COUNTED: Final = "<not counted>"

_METRIC_WIDTH: Final = 38
_NO_RATIO: Final = " " * _METRIC_WIDTH
_METRIC_ONLY_WIDTH: Final = 20
_GROUP_WIDTH: Final = 49
_INTERVALS_A_HEADER: Final = 26
_NS: Final = 1e9
_NEVER_CROWDED: Final = (PerfType.SOFTWARE, PerfType.TRACEPOINT, PerfType.BREAKPOINT)
_WATCHDOG: Final = """\
Some events weren't counted. Try disabling the NMI watchdog:
\techo 0 > /proc/sys/kernel/nmi_watchdog
\tperf stat ...
\techo 1 > /proc/sys/kernel/nmi_watchdog
"""


class TextView:
    """A writer of the tallies of one measurement.

    Args:
        title: the target, as in the heading ("system wide", a command)
        separators: group digits of large numbers, as in the locale
        repeat_table: list the time of each run
        metric_only: print ratios only, on a line for each aggregate
        has_watchdog: tells whether the NMI watchdog uses a counter of each CPU; called if events were not counted
    """

    def __init__(
        self,
        title: str,
        *,
        separators: str = "",
        repeat_table: bool = False,
        metric_only: bool = False,
        has_watchdog: Callable[[], bool] = lambda: False,
    ) -> None:
        self._title = title
        self._separators = separators
        self._repeat_table = repeat_table
        self._metric_only = metric_only
        self._has_watchdog = has_watchdog
        self._printed = 0
        self._last_group = ""

    def render(self, tally: Tally) -> Iterator[str]:
        """Yield the text of a tally in pieces that end in newlines."""
        if self._printed % _INTERVALS_A_HEADER == 0:
            yield from self._heading(tally)
        self._printed += 1
        if self._metric_only:
            yield from self._metric_lines(tally)
        else:
            yield from self._count_lines(tally)
        if tally.timestamp is None:
            yield from self._footer(tally)
            yield from self._hints(tally)

    # -- headings --------------------------------------------------------------

    def _heading(self, tally: Tally) -> Iterator[str]:
        if tally.timestamp is None:
            runs = f" ({tally.runs} runs)" if tally.runs > 1 else ""
            yield f"\n Performance counter stats for {self._title}{runs}:\n\n"
            if self._metric_only:
                aggregate = 0 if tally.mode is Aggregation.GLOBAL else AGGREGATE_COLUMNS[tally.mode].width
                width = aggregate + (17 if tally.has_cgroups else 0)
                yield " " + " " * width + self._metric_names(tally) + "\n"
            return
        heading = f"#{'time':>15}"
        if tally.mode is Aggregation.THREAD:
            heading += f" {'comm':>16}-{'pid':<7}"
        elif tally.mode is not Aggregation.GLOBAL:
            column = AGGREGATE_COLUMNS[tally.mode]
            heading += f" {column.heading:<{column.width}}" + ("" if tally.mode is Aggregation.NONE else " cpus")
        if self._metric_only:
            yield f"{heading} {self._metric_names(tally)}\n"
        else:
            yield f"{heading} {'counts':>18} {'unit':>{tally.unit_width}} events\n"

    def _metric_names(self, tally: Tally) -> str:
        return "".join(f"{name:>{_METRIC_ONLY_WIDTH}} " for name in metric_names(tally))

    # -- counts ----------------------------------------------------------------

    def _count_lines(self, tally: Tally) -> Iterator[str]:
        unit_width = tally.unit_width
        stamp = timestamp(tally)
        indent = " " * (57 if tally.mode is Aggregation.NONE else 49)
        for line in tally.lines():
            row = line.row
            before = stamp + aggregate_column(tally.mode, row.aggregate_id, row.cells)
            text = before if line.hides_count else before + self._count(line, unit_width)
            if tally.has_cgroups and not line.hides_count:
                text += one_line(f" {row.event.cgroup or '':<16}")
            text += self._ratios(line, before, indent) if line.ratios else _NO_RATIO
            yield text + noise_column(line.noise) + _share(row) + "\n"

    def _ratios(self, line: TallyLine, before: str, indent: str) -> str:
        """Return the ratios of a line, each on a line of its own. Those of default metrics follow the name of their group."""
        text, last_group = "", None
        for ratio in line.ratios:
            if line.hides_count and ratio.group != last_group:
                text += ("" if last_group is None else f"\n{before}") + self._group_heading(ratio.group)
                last_group = ratio.group
            elif text and ratio.value is not None:
                text += f"\n{before}{indent}"
            text += _ratio(ratio)
        return text

    def _group_heading(self, group: str) -> str:
        """Return the column with the name of a metric group; blanks if it was printed last."""
        if group == self._last_group:
            return " " * _GROUP_WIDTH
        self._last_group = group
        return f" {group:>32}".ljust(_GROUP_WIDTH)

    def _count(self, line: TallyLine, unit_width: int) -> str:
        event = line.row.event
        if not line.row.was_counted:
            count = NOT_COUNTED if line.row.state.supported else NOT_SUPPORTED
        else:
            count = self._number(line.row.amount, 0 if event.scale % 1 == 0 else 2)
        return one_line(f"{count:>18} {event.unit:<{unit_width}} {line.name:<32}")

    def _number(self, value: float, decimals: int) -> str:
        return f"{value:{',' if self._separators else ''}.{decimals}f}".replace(",", self._separators)

    # -- only ratios -----------------------------------------------------------

    def _metric_lines(self, tally: Tally) -> Iterator[str]:
        stamp = timestamp(tally)
        for aggregate_id, lines in tally.lines_by_aggregate():
            text = stamp + aggregate_column(tally.mode, aggregate_id, lines[0].row.cells)
            if tally.has_cgroups:
                text += one_line(f" {lines[0].row.event.cgroup or '':<16}")
            for line in lines:
                text += "".join(_metric_value(ratio) for ratio in ratios_without_counts(line))
            yield text + "\n"

    # -- what follows ----------------------------------------------------------

    def _footer(self, tally: Tally) -> Iterator[str]:
        times = tally.times
        if times is None or not times.elapsed:
            return
        if not tally.is_null:
            yield "\n"
        if tally.runs > 1:
            yield from self._repeats(times)
        else:
            yield f" {times.elapsed[0] / _NS:17.9f} seconds time elapsed"
            if times.user is not None and times.system is not None:
                yield f"\n\n {times.user:17.9f} seconds user\n {times.system:17.9f} seconds sys\n"
        yield "\n\n"

    def _repeats(self, times: RunTimes) -> Iterator[str]:
        seconds = [elapsed / _NS for elapsed in times.elapsed]
        mean = sum(seconds) / len(seconds)
        error = standard_error(seconds)
        digits = _precision(error) + 2
        if self._repeat_table:
            yield from _table(seconds, mean, digits)
        yield f" {mean:17.{digits}f} +- {error:.{digits}f} seconds time elapsed{noise_column(relative_error(error, mean))}"

    def _hints(self, tally: Tally) -> Iterator[str]:
        """Yield the reasons why members of groups, or events that the machine has, have no count."""
        for event in tally.events:
            refusal = tally.rows[event][0].state.why_not
            if isinstance(refusal, GroupIsFullError):
                yield one_line(f"{event.name} is not counted: {refusal.cause}; {refusal.remedy}") + "\n"
        is_crowded = not self._metric_only and any(_is_crowded_out(row) for rows in tally.rows.values() for row in rows)
        if is_crowded and self._has_watchdog():
            yield _WATCHDOG


def _is_crowded_out(row: CountRow) -> bool:
    """Whether an event of a PMU that all CPUs have was never on it."""
    event = row.event
    is_everywhere = event.cpus is None and event.attr.type not in _NEVER_CROWDED and not event.tool
    return is_everywhere and row.state.supported and bool(row.cells) and not row.was_counted


def timestamp(tally: Tally) -> str:
    """Return the time column of an interval; "" for a result."""
    if tally.timestamp is None:
        return ""
    seconds, nanoseconds = divmod(tally.timestamp, 10**9)
    return f"{seconds:6d}.{nanoseconds:09d} "


def aggregate_column(mode: Aggregation, aggregate_id: AggregateId, cells: int) -> str:
    """Return the column of the aggregate; "" if everything is summed."""
    if mode is Aggregation.GLOBAL:
        return ""
    if mode is Aggregation.THREAD:
        return one_line(f"{aggregate_id.comm:>16}-{aggregate_id.pid:<7} ")
    is_core = mode is Aggregation.NONE and aggregate_id.cpu < 0  # an event with the term percore
    width = AGGREGATE_COLUMNS[Aggregation.CORE if is_core else mode].width
    return f"{aggregate_id.label:<{width}} " + ("" if mode is Aggregation.NONE else f"{cells:4d} ")


def noise_column(percent: float | None) -> str:
    """Return the relative error of a mean; "" for zero."""
    return f"  ( +-{percent:6.2f}% )" if percent else ""


def metric_names(tally: Tally) -> list[str]:
    """Return the headings of a line of ratios: of the metrics, and of the ratios of their events. Without aggregation, of all events."""
    of_metrics = {event for metrics in tally.metrics.values() for metric in metrics for event in metric.events}
    names: list[str] = []
    for event in tally.events:
        if event.cgroup == tally.events[0].cgroup:
            if (tally.mode is Aggregation.NONE or event in of_metrics) and (name := ratio_name(event)):
                names.append(name)
            names += [metric.name for metric in tally.metrics.get(event, ())]
    return names


def ratios_without_counts(line: TallyLine) -> Sequence[Ratio]:
    """Return the ratios that --metric-only shows, under their full names: no rates, and no CPUs utilized."""
    if not line.ratios:
        return [Ratio(None, "")]
    shown = [ratio for ratio in line.ratios if ratio.unit is not None and not ratio.unit.endswith("/sec") and ratio.unit != "CPUs utilized"]
    return [
        ratio._replace(unit=f"{line.row.event.name} {ratio.unit}") if (ratio.unit or "").startswith("of all") else ratio for ratio in shown
    ]


def _share(row: CountRow) -> str:
    """Return the share of time on the PMU if the counter was multiplexed."""
    return f"  ({100.0 * row.running / row.enabled:.2f}%)" if row.enabled not in (0, row.running) else ""


def _ratio(ratio: Ratio) -> str:
    if ratio.value is None or ratio.unit is None:
        return _NO_RATIO
    text = f" # {ratio.format % ratio.value}"
    return f"{text} {ratio.unit:<{_METRIC_WIDTH - len(text) - 1}}"


def _metric_value(ratio: Ratio) -> str:
    text = ratio.format % ratio.value if ratio.value is not None else ""
    width = len(ratio.unit or "")
    return f"{text:>{_METRIC_ONLY_WIDTH if width <= _METRIC_ONLY_WIDTH else width + 1}} "


def _precision(number: float) -> int:
    """Return the number of decimals up to the first significant digit."""
    if number > 1 or number <= 0:
        return 0
    from math import ceil, log10  # only repetitions need it

    return ceil(-log10(number))


def _table(seconds: Sequence[float], mean: float, digits: int) -> Iterator[str]:
    mean_text = f" {mean:17.{digits}f}"
    indent = " " * (len(mean_text) - len(mean_text.lstrip()))
    yield f"{indent}# Table of individual measurements:\n"
    for run in seconds:
        bar = "#" * (1 + abs(int(100.0 * (run - mean) / run)) // 5)
        yield f" {run:17.{digits}f} ({run - mean:+.{digits}f}) {bar}\n"
    yield f"\n{indent}# Final result:\n"
