"""The strings and structures that the BPF programs copied, as columns, and the call of each.

Most texts of a busy machine are never printed, so they become text when their calls are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Self

import numpy as np

from perfpy.abi.columns import rows_where
from perfpy.abi.system_calls.numbers import names_by_number
from perfpy.abi.system_calls.structures import structures_of
from perfpy.kernel.bpf.loading import record_bounds
from perfpy.live.calls.text_program import HEAD
from perfpy.tracing.events import ENTER
from perfpy.tracing.grouped_values import GroupedValues
from perfpy.views.trace.arguments.structure_text import structure_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from perfpy.abi.columns import Index
    from perfpy.tracing.events import CallEvents

_NO_ROW: Final = -1
_MOST_BYTES: Final = 1 << 26  # of waiting texts: four times the ring buffer


class CopiedTexts(NamedTuple):
    """Strings and structures, in the order of the ring buffer.

    Attributes:
        data: the bytes of the ring buffer.
        start, end: int64[n], of the bytes of each text.
        time: uint64[n], CLOCK_MONOTONIC, ns.
        tid: int32[n].
        number: int32[n], of the call.
        argument: uint16[n], its index.
        at_return: uint16[n], whether it was read when the call returned.
    """

    data: bytes
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    time: NDArray[np.uint64]
    tid: NDArray[np.int32]
    number: NDArray[np.int32]
    argument: NDArray[np.uint16]
    at_return: NDArray[np.uint16]

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Return the texts of the records of a ring buffer (perfpy.kernel.bpf.loading.BpfRing.take)."""
        bounds = np.array(record_bounds(data), np.int64).reshape(-1, 2)
        bounds = bounds[bounds[:, 1] >= HEAD.size]
        start, size = bounds[:, 0], bounds[:, 1]
        halves, words, longs = (np.frombuffer(data, dtype) for dtype in (np.uint16, np.int32, np.uint64))
        columns = words[(start >> 2) + 2], words[(start >> 2) + 4], halves[(start >> 1) + 10], halves[(start >> 1) + 11]
        return cls(data, start + HEAD.size, start + size, longs[start >> 3], *columns)

    @property
    def size(self) -> int:
        """The number of texts."""
        return len(self.time)

    def take(self, rows: Index) -> Self:
        """Select texts."""
        return self._replace(**{name: getattr(self, name)[rows] for name in self._fields[1:]})

    def pieces(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield number of the call, index of the argument, and bytes of each text."""
        data = self.data
        columns = (column.tolist() for column in (self.start, self.end, self.number, self.argument))
        for start, end, number, argument in zip(*columns, strict=True):
            yield number, argument, data[start:end]


class ThreadEntries:
    """The entries of a batch by thread and time."""

    def __init__(self, events: CallEvents) -> None:
        entries = rows_where(events.kind == ENTER)
        self._grouped = GroupedValues(events.tid[entries].astype(np.int64), events.time[entries])
        self._rows = entries[self._grouped.order]
        self._numbers = events.number[self._rows]

    def rows_of(self, texts: CopiedTexts) -> NDArray[np.int64]:
        """Return the row of the entry of each text; -1 for none.

        The program for entries runs just before the entry's sample, so a text belongs to the next entry of its call, and one that was
        read at the return to the last entry before it.
        """
        tids, times = texts.tid.astype(np.int64), texts.time.astype(np.int64)
        after, until = (self._grouped.find(tids, times, side) for side in ("left", "right"))
        position = np.where(texts.at_return != 0, until.position - 1, after.position)
        rows = np.full(texts.size, _NO_ROW, np.int64)
        inside = rows_where((position >= after.begin) & (position < after.end))
        inside = inside[self._numbers[position[inside]] == texts.number[inside]]
        rows[inside] = self._rows[position[inside]]
        return rows


class WaitingTexts:
    """Texts whose calls have not been seen; bounded, because tasks that are not traced make them without end.

    Args:
        machine: as uname(2) has it.
    """

    def __init__(self, machine: str) -> None:
        self._structures = structure_texts(machine)
        self._waiting: list[CopiedTexts] = []

    def add(self, data: bytes) -> None:
        """Add the records of a ring buffer, and drop the oldest if they are too many."""
        if data:
            self._waiting.append(CopiedTexts.decode(data))
        size = sum(len(texts.data) for texts in self._waiting)
        while size > _MOST_BYTES and len(self._waiting) > 1:
            size -= len(self._waiting.pop(0).data)

    def of(self, events: CallEvents) -> dict[int, dict[int, str]]:
        """Return row of an entry -> index of the argument -> its text; texts after the last event wait for the next ones."""
        found: dict[int, dict[int, str]] = {}
        if not self._waiting or not events.size:
            return found
        last, entries = events.time[-1].astype(np.uint64), ThreadEntries(events)
        waiting, self._waiting = self._waiting, []
        for texts in waiting:
            is_ready = texts.time <= last
            if not is_ready.all():
                self._waiting.append(texts.take(~is_ready))
            ready = texts.take(is_ready)
            self._add_texts(ready, entries.rows_of(ready), found)
        return found

    def _add_texts(self, texts: CopiedTexts, rows: NDArray[np.int64], found: dict[int, dict[int, str]]) -> None:
        """Make the texts of calls."""
        chosen = rows_where(rows != _NO_ROW)
        structures = self._structures
        for row, (number, argument, data) in zip(rows[chosen].tolist(), texts.take(chosen).pieces(), strict=True):
            text = structures.get((number, argument), _string)(data)
            if row in found:
                found[row][argument] = text
            else:
                found[row] = {argument: text}


def _string(data: bytes) -> str:
    """Return a string that ends with a NUL."""
    return data.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")


def structure_texts(machine: str) -> dict[tuple[int, int], Callable[[bytes], str]]:
    """Return (number of a call, index of an argument) -> the function from the bytes of its structure to text."""
    return {
        (number, pointed.argument): structure_text(pointed.structure, machine)
        for number, name in names_by_number(machine).items()
        for pointed in structures_of(name, machine)
    }
