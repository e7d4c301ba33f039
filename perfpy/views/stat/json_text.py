"""A tally of counts as JSON (perf stat -j): one object on each line.

Keys, their order and number formats are those of perf 6.12, but names are escaped as JSON requires.
"""

from __future__ import annotations

import json

from perfpy.counts.aggregation import AggregateId, Aggregation
from perfpy.counts.ratios import Ratio
from perfpy.views.stat.csv_text import bare_number, whole_share
from perfpy.views.stat.text import NOT_COUNTED, NOT_SUPPORTED, ratios_without_counts

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Final

    from perfpy.counts.tally import Tally, TallyLine

_KEYS: Final = {
    Aggregation.CORE: "core",
    Aggregation.CACHE: "cache",
    Aggregation.CLUSTER: "cluster",
    Aggregation.DIE: "die",
    Aggregation.SOCKET: "socket",
    Aggregation.NODE: "node",
    Aggregation.NONE: "cpu",
    Aggregation.THREAD: "thread",
}


class JsonView:
    """A writer of the tallies of one measurement."""

    def __init__(self, *, metric_only: bool = False) -> None:
        self._metric_only = metric_only

    def render(self, tally: Tally) -> Iterator[str]:
        """Yield the lines of a tally."""
        start = _start(tally)
        if self._metric_only:
            for aggregate_id, lines in tally.lines_by_aggregate():
                ratios = [ratio for line in lines if line.ratios for ratio in ratios_without_counts(line)]
                yield _object(start + _aggregate(tally.mode, aggregate_id, lines[0].row.cells) + _alone(ratios))
            return
        for line in tally.lines():
            before = start + _aggregate(tally.mode, line.row.aggregate_id, line.row.cells)
            first, *more = line.ratios or (Ratio(None, ""),)
            yield _object(before + _count(line, tally.has_cgroups) + _ratio(first))
            for ratio in more:
                yield _object(before + _ratio(ratio))


def _object(fields: Sequence[str]) -> str:
    return "{" + (", ".join(fields) or '"metric-value" : "none"') + "}\n"


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _start(tally: Tally) -> list[str]:
    if tally.timestamp is None:
        return []
    return [f'"interval" : {tally.timestamp // 10**9}.{tally.timestamp % 10**9:09d}']


def _aggregate(mode: Aggregation, aggregate_id: AggregateId, cells: int) -> list[str]:
    if mode is Aggregation.GLOBAL:
        return []
    name = str(aggregate_id.cpu) if mode is Aggregation.NONE else aggregate_id.label
    fields = [f'"{_KEYS[mode]}" : {_text(name)}']
    if mode not in (Aggregation.NONE, Aggregation.THREAD):
        fields.append(f'"aggregate-number" : {cells}')
    return fields


def _count(line: TallyLine, with_cgroup: bool) -> list[str]:
    row = line.row
    event = row.event
    count = f"{row.amount:f}" if row.was_counted else NOT_COUNTED if row.state.supported else NOT_SUPPORTED
    fields = [f'"counter-value" : "{count}"', f'"unit" : {_text(event.unit)}', f'"event" : {_text(line.name)}']
    if with_cgroup:
        fields.append(f'"cgroup" : {_text(event.cgroup or "")}')
    if line.noise is not None:
        fields.append(f'"variance" : {line.noise:.2f}')
    return [*fields, f'"event-runtime" : {row.running}', f'"pcnt-running" : {whole_share(row):.2f}']


def _ratio(ratio: Ratio) -> list[str]:
    unit = "(null)" if ratio.unit is None else ratio.unit
    return [f'"metric-value" : "{ratio.value or 0.0:f}"', f'"metric-unit" : {_text(unit)}']


def _alone(ratios: Sequence[Ratio]) -> list[str]:
    return [f'{_text(ratio.unit)} : "{bare_number(ratio) or "none"}"' for ratio in ratios if ratio.unit]
