"""The chart of input and output: a row for each task, whose bars are calls; their height tells how much data they moved."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from perfpy.views.timechart.drawing import Bar, Drawing, time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.analysis.timechart.io_calls import IoCall

_LEGEND: Final = (("disk", "Disk"), ("net", "Network"), ("sync", "Sync"), ("poll", "Poll"), ("error", "Error"))
_MOST_BARS: Final = 200_000  # of the file
_LOWEST: Final = 0.1  # share of the row's height
_KILOBYTE: Final = 1024


def draw_io(calls: Sequence[IoCall], tids: Sequence[int], comm_of: Callable[[int], str], width: int) -> tuple[Drawing, int]:
    """Return the chart, and the number of calls that were left out because there are too many.

    Args:
        calls: of the recording.
        tids: the tasks, in order of their rows.
        comm_of: names.
        width: pixels.
    """
    drawing = Drawing(min((call.begin for call in calls), default=0), max((call.end for call in calls), default=0), width, _LEGEND)
    row_of = {tid: drawing.add_row() for tid in tids}
    drawn = [call for call in calls if call.tid in row_of]
    left_out = max(len(drawn) - _MOST_BARS, 0)
    if left_out:
        drawn = sorted(drawn, key=lambda call: call.begin - call.end)[:_MOST_BARS]
    extents: dict[int, list[int]] = {}
    for call in drawn:
        first, last, size = extents.get(call.tid, [call.begin, call.end, 0])
        extents[call.tid] = [min(first, call.begin), max(last, call.end), size + call.size]
    largest = max((call.size for call in drawn), default=0)
    for tid, (first, last, _) in extents.items():
        drawing.add_bar(Bar(row_of[tid], first, last, "box"))
    for call in drawn:
        height = max(_LOWEST, math.log1p(call.size) / math.log1p(largest)) if largest and call.size else _LOWEST
        drawing.add_bar(Bar(row_of[call.tid], call.begin, call.end, "error" if call.error else call.kind, _title(call), 1 - height, height))
    for tid, (first, _, size) in extents.items():
        drawing.add_text(row_of[tid], first, f"{comm_of(tid)}:{tid} ({size / _KILOBYTE:.1f} Kbytes)")
    return drawing, left_out


def _title(call: IoCall) -> str:
    descriptor = f" fd={call.fd}" if call.fd >= 0 else ""
    return f"{call.kind}{descriptor} {call.size} bytes in {time_text(call.end - call.begin)}, error={call.error} merges={call.merged}"


def busiest_io(calls: Sequence[IoCall], count: int) -> list[int]:
    """Return the threads that moved the most data, in order of their first call."""
    totals: dict[int, list[int]] = {}
    for call in calls:
        size, first = totals.get(call.tid, [0, call.begin])
        totals[call.tid] = [size + call.size, min(first, call.begin)]
    chosen = sorted(totals, key=lambda tid: -totals[tid][0])[:count]
    return sorted(chosen, key=lambda tid: totals[tid][1])
