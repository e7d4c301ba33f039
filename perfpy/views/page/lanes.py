"""The page of lanes: the calls of threads, or the runs of tasks and CPUs, over time, and a table of their totals.

Memory is bounded for traces of days: beyond a limit, the shorter calls of a lane in an interval become one row, and intervals grow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import rows_where
from perfpy.views.page.marks import packed
from perfpy.views.page.page import assemble

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray


_MOST_CALLS: Final = 100_000
_MOST_MERGED: Final = 50_000
_MOST_LANES: Final = 4096
_MOST_TEXT: Final = 4 << 20  # characters
_FIRST_INTERVAL: Final = 100_000  # nanoseconds
_OTHERS: Final = -1  # the tid of threads beyond the limit


class LaneCalls(NamedTuple):
    """Calls.

    Attributes:
        begin, took: int64[n], nanoseconds.
        lane: int64[n], the index of the thread.
        number: int64[n], of the call.
        is_error: bool[n].
        text: int64[n], the index of the text; -1 for none.
    """

    begin: NDArray[np.int64]
    took: NDArray[np.int64]
    lane: NDArray[np.int64]
    number: NDArray[np.int64]
    is_error: NDArray[np.bool_]
    text: NDArray[np.int64]

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> LaneCalls:
        """Select rows."""
        columns: Any = tuple(column[rows] for column in self)
        return LaneCalls(*columns)

    @classmethod
    def concat(cls, parts: Sequence[LaneCalls]) -> LaneCalls:
        """Join parts in their order."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


class MergedCalls(NamedTuple):
    """Calls of a thread in one interval.

    Attributes:
        lane: int64[n], the index of the thread.
        begin, end: int64[n], of the first and the last, nanoseconds.
        calls, total: int64[n], their number and their time.
    """

    lane: NDArray[np.int64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    calls: NDArray[np.int64]
    total: NDArray[np.int64]


_NONE: Final = np.zeros(0, np.int64)
NO_CALLS: Final = LaneCalls(_NONE, _NONE, _NONE, _NONE, np.zeros(0, np.bool_), _NONE)
NOT_MERGED: Final = MergedCalls(_NONE, _NONE, _NONE, _NONE, _NONE)


class Lanes:
    """Collects calls.

    Attributes:
        threads: (pid, tid, comm) of each lane.
    """

    def __init__(self) -> None:
        self.threads: list[tuple[int, int, str]] = []
        self._indexes: dict[tuple[int, int], int] = {}
        self._parts: list[LaneCalls] = []
        self._size = 0
        self._merged = NOT_MERGED
        self._interval = _FIRST_INTERVAL
        self._texts: dict[bytes, int] = {}
        self._characters = 0

    def lane(self, pid: int, tid: int, comm: str, level: int = 0) -> int:
        """Return the index of a thread's lane. level: 0, or that of a lane below it, which has the calls within calls."""
        key, thread = (tid, level), (pid, tid, comm) if not level else (_OTHERS, _OTHERS, f"{comm} {tid}, level {level + 1}")
        if key not in self._indexes and len(self.threads) >= _MOST_LANES:
            key, thread = (_OTHERS, 0), (_OTHERS, _OTHERS, "other threads")
        index = self._indexes.setdefault(key, len(self.threads))
        self.threads[index : index + 1] = [thread]
        return index

    def text(self, text: bytes) -> int:
        """Return the index of a text; -1 if there are too many."""
        index = self._texts.get(text)
        if index is None:
            self._characters += len(text)
            if self._characters > 4 * _MOST_TEXT:
                return -1
            index = self._texts[text] = len(self._texts)
        return index

    def add(self, calls: LaneCalls) -> None:
        """Add calls; they are in order of time."""
        self._parts.append(calls)
        self._size += len(calls.begin)
        if self._size > 2 * _MOST_CALLS:
            self._shorten()

    def _shorten(self) -> None:
        """Merge the shorter calls, and drop the texts that no call has any longer."""
        calls = LaneCalls.concat([NO_CALLS, *self._parts])
        if len(calls.begin) > _MOST_CALLS:
            least = np.partition(calls.took, -_MOST_CALLS)[-_MOST_CALLS]
            is_kept = calls.took > least
            is_kept[rows_where(calls.took == least)[: _MOST_CALLS - int(is_kept.sum())]] = True
            short = calls.take(~is_kept)
            ones = np.ones(len(short.begin), np.int64)
            self._merge(MergedCalls(short.lane, short.begin, short.begin + short.took, ones, short.took))
            calls = calls.take(is_kept)
        used, text = np.unique(calls.text, return_inverse=True)
        all_texts = list(self._texts)
        known = [all_texts[index] for index in used.tolist() if index >= 0]
        self._texts = {one: index for index, one in enumerate(known)}
        self._characters = sum(map(len, known))
        self._parts = [calls._replace(text=text.ravel() - (1 if len(used) and used[0] < 0 else 0))]
        self._size = len(calls.begin)

    def _merge(self, more: MergedCalls) -> None:
        """Merge rows of the same thread and interval; let the intervals grow until there are few enough."""
        rows = MergedCalls(*map(np.concatenate, zip(self._merged, more, strict=True)))
        while True:
            cell = rows.begin // self._interval
            order = np.lexsort((cell, rows.lane))
            lane, cell = rows.lane[order], cell[order]
            first = rows_where(np.concatenate([[True], (lane[1:] != lane[:-1]) | (cell[1:] != cell[:-1])]))
            if len(first) <= _MOST_MERGED:
                break
            self._interval *= 2
        self._merged = MergedCalls(
            lane[first],
            np.minimum.reduceat(rows.begin[order], first),
            np.maximum.reduceat(rows.end[order], first),
            np.add.reduceat(rows.calls[order], first),
            np.add.reduceat(rows.total[order], first),
        )

    def finish(self) -> tuple[LaneCalls, MergedCalls, list[bytes]]:
        """Return the calls by thread and time, the merged ones, and the texts; the longest calls keep theirs if there are too many."""
        self._shorten()
        (calls,) = self._parts
        all_texts, texts, size = list(self._texts), dict[int, int](), 0
        for index in calls.text[np.argsort(-calls.took, kind="stable")].tolist():
            if index >= 0 and index not in texts:
                size += len(all_texts[index])
                if size > _MOST_TEXT:
                    break
                texts[index] = len(texts)
        new_indexes = np.full(len(all_texts) + 1, -1, np.int64)
        new_indexes[list(texts)] = list(texts.values())
        calls = calls._replace(text=new_indexes[calls.text])
        return calls.take(np.lexsort((calls.begin, calls.lane))), self._merged, [all_texts[index] for index in texts]


SCRIPTS: Final = (
    *("model/words", "model/trees", "model/kinds", "model/unpack", "model/categories", "model/permalink", "model/call_lanes"),
    *("views/elements", "views/brush", "views/call_lanes_canvas", "views/call_table", "views/headline", "lanes"),
)


class LaneTable(NamedTuple):
    """The table below the lanes.

    Attributes:
        head: the header of the names.
        columns: the header and the format of each column: "whole", "duration" (of nanoseconds) or "percent" (of a share of 1).
        rows: the values; row i belongs to name i of the page.
    """

    head: str
    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[float]]


class LaneStory(NamedTuple):
    """What a page of lanes says.

    Attributes:
        title: the traced command or recording.
        headline: texts and durations (nanoseconds), in their order.
        thing: what a bar is: "call".
        groups: what the colours mean, each with the category of functions whose colour it has ("own", "kernel" and so on), or with the
            state of threads whose bars it has: "runs", "ready" (for a CPU) or "waits".
        names: of bars, each with the index of its group; beyond the last: other.
        table: of the first names.
        notes: on losses and the like.
    """

    title: str
    headline: Sequence[str | int]
    thing: str
    groups: Sequence[tuple[str, str]]
    names: Sequence[tuple[str, int]]
    table: LaneTable
    notes: Sequence[str]


def page_of_lanes(lanes: Lanes, name_of: Callable[[int], int], tell: Callable[[LaneCalls, MergedCalls], LaneStory]) -> str:
    """Return the page.

    Args:
        lanes: filled; calls of one lane do not overlap.
        name_of: returns the index of a number's name.
        tell: returns the story of the calls.
    """
    calls, merged, texts = lanes.finish()
    story = tell(calls, merged)
    first, last = limits(calls, merged)
    data: dict[str, Any] = {
        **story._asdict(),
        "table": story.table._asdict(),
        "notes": [*story.notes, *_notes(story.thing, int(merged.calls.sum()), int((calls.text < 0).sum()))],
        "span": last - first,
        "lanes": [list(thread) for thread in lanes.threads],
        "calls": {
            "begin": packed((calls.begin - first).astype(np.float64)),
            "took": packed(calls.took),
            "lane": packed(calls.lane),
            "name": packed(np.array([name_of(number) for number in calls.number.tolist()], np.int64)),
            "error": packed(calls.is_error.astype(np.int64)),
            "text": packed(calls.text + 1),
        },
        "merged": {
            "begin": packed((merged.begin - first).astype(np.float64)),
            "took": packed(merged.end - merged.begin),
            "lane": packed(merged.lane),
            "count": packed(merged.calls),
            "total": packed(merged.total),
        },
        "texts": [text.decode("utf-8", "surrogateescape").rstrip("\n") for text in texts],
    }
    return assemble("lanes.html", SCRIPTS, data)


def limits(calls: LaneCalls, merged: MergedCalls) -> tuple[int, int]:
    """Return the times of the first begin and of the last end; zeros without calls."""
    first = int(min((column.min() for column in (calls.begin, merged.begin) if len(column)), default=0))
    return first, int(max((column.max() for column in (calls.begin + calls.took, merged.end) if len(column)), default=first))


def _notes(thing: str, merged: int, without_text: int) -> Iterator[str]:
    if merged:
        yield f"{merged:,} short {thing}s are merged: a pale bar is those of a lane in an interval; the table counts all {thing}s"
    if without_text:
        yield f"{without_text:,} {thing}s have no details here: the page has room for those of the longest {thing}s"
