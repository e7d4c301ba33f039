"""The chart of input and output: a row for each task, whose bars are calls; their height tells how much data they moved.

The text is that of perf 6.12, learnt from its charts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.views.timechart.drawing import BOX, ROW, Axis, escaped, head

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perfpy.analysis.timechart.io_calls import IoCall, IoHistory, IoTask

_LEGEND: Final = ((0, "disk", "Disk"), (100, "net", "Network"), (200, "sync", "Sync"), (300, "poll", "Poll"), (400, "error", "Error"))
_FIRST_THRESHOLD: Final = 1 << 30  # bytes of a task that is shown
_UNITS: Final = ((1 << 30, "Gbytes"), (1 << 20, "Mbytes"), (1 << 10, "Kbytes"))
_COLOURS: Final = {"read": "disk", "write": "disk", "receive": "net", "send": "net", "sync": "sync", "poll": "poll"}
_SYNC_HEIGHT: Final = BOX / 10
_FULL_HEIGHT: Final = BOX / 20  # of calls with three quarters of the largest call's data and more
_EIGHTH: Final = BOX / 8


def draw_io(history: IoHistory, width: int, count: int, is_chosen: Callable[[str, int], bool] | None) -> Iterator[str]:
    """Yield the text of the chart.

    Args:
        history: of the recording.
        width: pixels.
        count: the least number of tasks, if the recording has as many.
        is_chosen: whether to show a task, by name and number; None: show those that moved most data.
    """
    axis = Axis.of(history.begin, history.end, width)
    shown = _shown_tasks(history.tasks, count, is_chosen)
    yield from head(axis, len(shown) + 1, _LEGEND, fine=False)
    for row, task in enumerate(shown, 1):
        yield from _row(axis, task, row * ROW)
    yield "</svg>\n"


def _shown_tasks(tasks: Sequence[IoTask], count: int, is_chosen: Callable[[str, int], bool] | None) -> Sequence[IoTask]:
    if is_chosen is not None:
        return [task for task in tasks if is_chosen(task.comm, task.tid)]
    threshold = _FIRST_THRESHOLD
    while threshold:
        busy = [task for task in tasks if task.size >= threshold]
        if len(busy) >= count:
            return busy
        threshold //= 10
    return [task for task in tasks if task.size]


def _row(axis: Axis, task: IoTask, top: int) -> Iterator[str]:
    left, right = axis.x(task.begin), axis.x(task.end or axis.end)
    yield f'<rect x="{left:.8f}" width="{right - left:.8f}" y="{top:.1f}" height="{BOX:.1f}" class="process3"/>\n'
    largest = max(call.size for call in task.calls)
    for call in reversed(task.calls):
        height, y = _height(call, largest, top)
        begin, kind = axis.x(call.begin), "error" if call.error else _COLOURS[call.kind]
        yield (
            f"<g>\n<title>fd={call.fd} error={call.error} merges={call.merged}</title>\n"
            f'<rect x="{begin:.8f}" width="{axis.x(call.end) - begin:.8f}" y="{y:.1f}" height="{height:.1f}" class="{kind}"/>\n</g>\n'
        )
    yield f'<text x="{left:.8f}" y="{top + BOX / 2:.8f}">{escaped(task.comm)}:{task.tid} ({size_text(task.size)})</text>\n'


def _height(call: IoCall, largest: int, top: int) -> tuple[float, float]:
    """Return the height of a call, and where it begins: calls that give data away stand at the bottom."""
    if call.kind in ("sync", "poll"):
        return _SYNC_HEIGHT, top + BOX - _SYNC_HEIGHT
    quarter = 3 if call.error or not largest else min(call.size * 4 // largest, 3)
    height = (_EIGHTH, 2 * _EIGHTH, 3 * _EIGHTH, _FULL_HEIGHT)[quarter]
    return height, top + BOX - height if call.kind in ("write", "send") else top


def size_text(size: int) -> str:
    """Return a number of bytes with its unit.

    >>> size_text(480), size_text(5000)
    ('480.0 bytes', '4.9 Kbytes')
    """
    for unit, name in _UNITS:
        if size > unit:
            return f"{size / unit:.1f} {name}"
    return f"{size:.1f} bytes"
