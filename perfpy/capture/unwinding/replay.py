"""Tasks and mappings while they are recorded: a Symbolizer over all mappings so far, with their files.

The replay is built anew after changes. Mappings of ended processes are dropped after a while, so that a recording of days does
not grow. Files are opened as soon as they are mapped, because they may be deleted before their samples are unwound.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.flags import NATIVE_ENDIAN, RecordType
from perfpy.abi.task_columns import TASK_TYPES
from perfpy.perfdata.records.delivery.keys import OrderedChunk
from perfpy.perfdata.records.raw_records import RawRecords
from perfpy.perfdata.records.side_band import SideBand
from perfpy.symbols.dso import DsoKind, DsoTable
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.symbolizer import Symbolizer
from perfpy.symbols.tasks.address_space import TaskTimeline

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.perfdata.records.chunk import Chunk
    from perfpy.perfdata.records.event_table import EventTable
    from perfpy.symbols.dso import Dso
    from perfpy.symbols.files.debug_files import DsoFiles

_WANTED: Final = list(TASK_TYPES - {RecordType.KSYMBOL})
_WORTH_FORGETTING: Final = 4096  # records


class Replay:
    """The state of tasks.

    Args:
        table: the events of the records.
        opens_files: whether to open files as soon as they are mapped. A live view of all processes opens those that samples hit.
    """

    def __init__(self, table: EventTable, *, opens_files: bool = True) -> None:
        self._table = table
        self._opens_files = opens_files
        self._records = RawRecords.concat([])
        self._forgotten_at = _WORTH_FORGETTING
        self._offset = 0
        self._ordinal = 0
        self._files: dict[tuple[object, ...], DsoFiles] = {}
        self._stale = True
        self._symbolizer: Symbolizer | None = None

    def keys(self, times: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the delivery keys of the next records: their times, or without times their numbers."""
        if self._table.has_times:
            return times
        first = self._ordinal + 1
        self._ordinal += len(times)
        return np.arange(first, first + len(times), dtype=np.uint64)

    def add(self, chunk: Chunk, keys: NDArray[np.uint64], times: NDArray[np.uint64], events: NDArray[np.int32]) -> None:
        """Add the side-band records. keys and times are of all records; events of the side-band only."""
        nothing = np.zeros(0, np.intp)
        ordered = OrderedChunk(chunk, keys, times, nothing, chunk.rows(nothing), nothing.astype(np.int32), events)
        chosen = np.isin(chunk.types[chunk.others], _WANTED)
        if not chosen.any():
            return
        added = RawRecords.of_chunk(ordered, chosen)
        added.rows["offset"] += self._offset
        self._offset += len(chunk.data)
        self._records = RawRecords.concat([self._records, added])
        self._stale = True

    def symbolizer(self, before: int) -> Symbolizer:
        """Return a symbolizer over every mapping so far, the last one if nothing changed. No later sample has a key below `before`."""
        if self._symbolizer is None or self._stale:
            self._forget(before)
            band = SideBand(self._records.in_order(), lambda _types: iter(()), self._table, lambda _text: None, None)
            if self._symbolizer is not None and not self._opens_files:
                dsos = self._symbolizer.dsos
                self._files = {_key_of(dsos[number]): files for number, files in self._symbolizer.found_files().items()}
            timeline = TaskTimeline(band.tasks(), dso_table=DsoTable(by_identity=True))
            self._symbolizer = Symbolizer(timeline, SymbolOptions(live=True))
            self._open_files(self._symbolizer)
            self._stale = False
        return self._symbolizer

    def elsewhere(self) -> dict[tuple[bytes, tuple[int, ...]], bytes]:
        """Return the build-ids of files that are not at their recorded path, by name, and device and inode: files of containers."""
        if self._symbolizer is None:
            return {}
        build_ids: dict[tuple[bytes, tuple[int, ...]], bytes] = {}
        for number, files in self._symbolizer.found_files().items():
            dso, file = self._symbolizer.dsos[number], files.original
            if dso.identity and file is not None and file.path != dso.name and file.build_id:
                build_ids[os.fsencode(dso.name), dso.identity[:3]] = bytes.fromhex(file.build_id)
        return build_ids

    def _open_files(self, symbolizer: Symbolizer) -> None:
        """Find the files of all mappings, each once; those of dropped processes are closed."""
        before, self._files = self._files, {}
        for number, dso in enumerate(symbolizer.dsos):
            if dso.kind in (DsoKind.FILE, DsoKind.VDSO):
                key = _key_of(dso)
                files = before.get(key)
                if files is not None:
                    symbolizer.set_files(number, files)
                if files is not None or self._opens_files:
                    self._files[key] = files or symbolizer.files(number)

    def _forget(self, before: int) -> None:
        """Drop processes that ended before any future sample, unless others have inherited their mappings."""
        if len(self._records) < self._forgotten_at:
            return
        rows, bodies = self._records.rows, self._records.bodies
        halves = np.frombuffer(bodies, NATIVE_ENDIAN + "u4")
        pid, second = (halves.take((rows["start"] >> 2) + half, mode="clip") for half in (0, 1))
        ended = set(pid[(rows["type"] == RecordType.EXIT) & (rows["key"] < before)].tolist())
        living = {one for one in set(pid.tolist()) if one not in ended or os.path.exists(f"/proc/{one}")}
        forks = rows["type"] == RecordType.FORK
        parents = dict(zip(pid[forks].tolist(), second[forks].tolist(), strict=True))
        for one in list(living):
            while (one := parents.get(one, one)) not in living:
                living.add(one)
        chosen = np.isin(pid, np.array(sorted(living), np.uint32))
        self._records = RawRecords(rows[chosen], bodies).compact()
        self._forgotten_at = max(_WORTH_FORGETTING, 2 * len(self._records))


def _key_of(dso: Dso) -> tuple[object, ...]:
    return dso.name, dso.build_id, dso.identity[:3] if dso.identity else None
