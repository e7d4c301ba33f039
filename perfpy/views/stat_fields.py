"""A tally of counts as fields with a separator (perf stat -x): one count on each line.

The fields and their order are those of perf-stat(1), "CSV FORMAT", as of perf 6.12:
[summary,][time,][aggregate,[counters,]]count,unit,event,[cgroup,][noise,]running,share,ratio,unit.
"""

from __future__ import annotations

import json
import math
import re

from perfpy.counts.aggregation import AGGREGATE_COLUMNS, AggregateId, Aggregation, CountRow, Ratio
from perfpy.untrusted.text import one_line
from perfpy.views.stat_text import NOT_COUNTED, NOT_SUPPORTED, metric_names, ratios_without_counts

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Final

    from perfpy.counts.tally import Tally, TallyLine


_NUMBER: Final = re.compile(r"[0-9.]*")
#: lines of these aggregations have no heading for the number of their CPUs
_WITHOUT_CPUS: Final = (Aggregation.NONE, Aggregation.THREAD, Aggregation.NODE)
#: number of count fields that the line of a further ratio leaves empty
_EMPTY_BEFORE_RATIO: Final = 5


class CsvView:
    """A writer of the tallies of one measurement.

    Args:
        mark_summary: whether lines of the result after intervals begin with "summary"
    """

    def __init__(self, separator: str, *, metric_only: bool = False, mark_summary: bool = True) -> None:
        self._separator = separator
        self._metric_only = metric_only
        self._mark_summary = mark_summary
        self._headed = False
        self._last_group = ""

    def render(self, tally: Tally) -> Iterator[str]:
        """Yield the lines of a tally."""
        if self._metric_only:
            yield from self._metric_lines(tally)
            return
        join = self._separator.join
        start = self._start(tally)
        for line in tally.lines():
            aggregate = _aggregate_fields(tally.mode, line.row.aggregate_id, line.row.cells)
            before, again = start + aggregate, ([] if tally.timestamp is None else start) + aggregate
            if line.hides_count:
                yield from self._group_lines(line, before, again)
                continue
            first, *more = line.ratios or (Ratio(None, None),)
            yield join([*before, *_count_fields(line, tally.has_cgroups), *_ratio_fields(first)]) + "\n"
            empty = [""] * (_EMPTY_BEFORE_RATIO + (line.row.event.cgroup is not None))
            for ratio in more:
                yield join([*again, *empty, *_ratio_fields(ratio)]) + "\n"

    def _group_lines(self, line: TallyLine, before: Sequence[str], again: Sequence[str]) -> Iterator[str]:
        """Yield the lines of default metrics, after one with the name of their group. The first begins with before, others with again."""
        join = self._separator.join
        empty = [""] * (_EMPTY_BEFORE_RATIO + (line.row.event.cgroup is not None))
        for number, ratio in enumerate(line.ratios):
            if number and ratio.group == line.ratios[number - 1].group:
                yield join([*again, *empty, *_ratio_fields(ratio)]) + "\n"
                continue
            noise = [] if line.noise is None else [f"{line.noise:.2f}%"]
            running = [*(again if number else before), "", *noise, str(line.row.running), f"{whole_share(line.row):.2f}"]
            if ratio.group == self._last_group:
                yield join([*running, *empty[:-3], *_ratio_fields(ratio)]) + "\n"
                continue
            self._last_group = ratio.group
            yield join([*running, *empty[:-2], ratio.group]) + "\n"
            yield join([*again, *empty, *_ratio_fields(ratio)]) + "\n"

    def _start(self, tally: Tally) -> list[str]:
        if tally.timestamp is not None:
            return [_timestamp(tally.timestamp)]
        return ["summary"] if tally.summary and self._mark_summary else []

    def _metric_lines(self, tally: Tally) -> Iterator[str]:
        if not self._headed:
            self._headed = True
            names = ["time"] if tally.timestamp is not None else []
            if tally.mode is not Aggregation.GLOBAL:
                names.append(AGGREGATE_COLUMNS[tally.mode].heading)
                names += [] if tally.mode in _WITHOUT_CPUS else ["cpus"]
            names += ["cgroup"] if tally.has_cgroups else []
            names += metric_names(tally)
            yield "".join(name + self._separator for name in names) + "\n"
        stamp = [_timestamp(tally.timestamp)] if tally.timestamp is not None else []
        for aggregate_id, lines in tally.lines_by_aggregate():
            fields = stamp + _aggregate_fields(tally.mode, aggregate_id, lines[0].row.cells)
            fields += [one_line(lines[0].row.event.cgroup or "")] if tally.has_cgroups else []
            for line in lines:
                fields += [bare_number(ratio) for ratio in ratios_without_counts(line)]
            yield "".join(field + self._separator for field in fields) + "\n"


def _timestamp(nanoseconds: int) -> str:
    return f"{nanoseconds // 10**9}.{nanoseconds % 10**9:09d}"


def _aggregate_fields(mode: Aggregation, aggregate_id: AggregateId, cells: int) -> list[str]:
    if mode is Aggregation.GLOBAL:
        return []
    if mode in (Aggregation.NONE, Aggregation.THREAD):
        return [one_line(aggregate_id.label)]
    return [aggregate_id.label, str(cells)]


def _count_fields(line: TallyLine, with_cgroup: bool) -> list[str]:
    row = line.row
    event = row.event
    if not row.was_counted:
        count = NOT_COUNTED if row.state.supported else NOT_SUPPORTED
    else:
        count = f"{row.amount:.0f}" if math.floor(event.scale) == event.scale else f"{row.amount:.2f}"
    fields = [count, event.unit, one_line(line.name)]
    if with_cgroup:
        fields.append(one_line(event.cgroup or ""))
    if line.noise is not None:
        fields.append(f"{line.noise:.2f}%")
    return [*fields, str(row.running), f"{whole_share(row):.2f}"]


def whole_share(row: CountRow) -> float:
    """Return the percentage of the enabled time spent counting, truncated to a whole number as perf does."""
    return float(100 * row.running // row.enabled) if row.enabled not in (0, row.running) else 100.0


def _ratio_fields(ratio: Ratio) -> list[str]:
    return ["", ""] if ratio.value is None else [bare_number(ratio), (ratio.unit or "").lstrip()]


def bare_number(ratio: Ratio) -> str:
    """Return a ratio's number without spaces and percent sign; "" if it has none."""
    if ratio.value is None:
        return ""
    number = _NUMBER.match((ratio.format % ratio.value).lstrip())
    return number[0] if number else ""


# A tally of counts as JSON (perf stat -j): one object on each line.
#
# Keys, their order and number formats are those of perf 6.12, but names are escaped as JSON requires.


class JsonView:
    """A writer of the tallies of one measurement."""

    def __init__(self, *, metric_only: bool = False) -> None:
        self._metric_only = metric_only
        self._last_group = ""

    def render(self, tally: Tally) -> Iterator[str]:
        """Yield the lines of a tally."""
        start = _start(tally)
        if self._metric_only:
            for aggregate_id, lines in tally.lines_by_aggregate():
                ratios = [ratio for line in lines if line.ratios for ratio in ratios_without_counts(line)]
                before = start + _aggregate(tally.mode, aggregate_id, lines[0].row.cells)
                if tally.has_cgroups:
                    before.append(_cgroup(lines[0]))
                yield _object(before + (_alone(ratios) or ['"metric-value" : "none"']))
            return
        for line in tally.lines():
            before = start + _aggregate(tally.mode, line.row.aggregate_id, line.row.cells)
            if line.hides_count:
                yield from self._group_objects(line, before)
                continue
            first, *more = line.ratios or (Ratio(None, ""),)
            yield _object(before + _count(line, tally.has_cgroups) + _ratio(first))
            for ratio in more:
                yield _object(before + _ratio(ratio))

    def _group_objects(self, line: TallyLine, before: Sequence[str]) -> Iterator[str]:
        """Yield the objects of default metrics, after one with the name of their group."""
        for number, ratio in enumerate(line.ratios):
            fields = list(before)
            if not number or ratio.group != line.ratios[number - 1].group:
                fields += _running(line)
                if ratio.group != self._last_group:
                    self._last_group = ratio.group
                    yield _object([*fields, f'"metricgroup" : {_text(ratio.group)}'])
                    fields = list(before)
            yield _object(fields + _ratio(ratio))


def _object(fields: Sequence[str]) -> str:
    return "{" + ", ".join(fields) + "}\n"


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _start(tally: Tally) -> list[str]:
    if tally.timestamp is None:
        return []
    return [f'"interval" : {tally.timestamp // 10**9}.{tally.timestamp % 10**9:09d}']


def _aggregate(mode: Aggregation, aggregate_id: AggregateId, cells: int) -> list[str]:
    if mode is Aggregation.GLOBAL:
        return []
    is_cpu = mode is Aggregation.NONE and aggregate_id.cpu >= 0
    name = str(aggregate_id.cpu) if is_cpu else aggregate_id.label
    column = AGGREGATE_COLUMNS[Aggregation.CORE if mode is Aggregation.NONE and not is_cpu else mode]
    fields = [f'"{column.key}" : {_text(name)}']
    if mode not in (Aggregation.NONE, Aggregation.THREAD):
        fields.append(f'"aggregate-number" : {cells}')
    return fields


def _count(line: TallyLine, with_cgroup: bool) -> list[str]:
    row = line.row
    event = row.event
    count = f"{row.amount:f}" if row.was_counted else NOT_COUNTED if row.state.supported else NOT_SUPPORTED
    fields = [f'"counter-value" : "{count}"', f'"unit" : {_text(event.unit)}', f'"event" : {_text(line.name)}']
    if with_cgroup:
        fields.append(_cgroup(line))
    return fields + _running(line)


def _cgroup(line: TallyLine) -> str:
    return f'"cgroup" : {_text(line.row.event.cgroup or "")}'


def _running(line: TallyLine) -> list[str]:
    noise = [] if line.noise is None else [f'"variance" : {line.noise:.2f}']
    return [*noise, f'"event-runtime" : {line.row.running}', f'"pcnt-running" : {whole_share(line.row):.2f}']


def _ratio(ratio: Ratio) -> list[str]:
    unit = "(null)" if ratio.unit is None else ratio.unit
    return [f'"metric-value" : "{ratio.value or 0.0:f}"', f'"metric-unit" : {_text(unit)}']


def _alone(ratios: Sequence[Ratio]) -> list[str]:
    """Return the ratios that have a number; perf writes no negative ones."""
    return [f'{_text(ratio.unit)} : "{number}"' for ratio in ratios if ratio.unit and (number := bare_number(ratio))]
