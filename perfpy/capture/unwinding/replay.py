"""Tasks and mappings while they are recorded: a Symbolizer over all mappings so far, with their files.

The replay is built anew after changes. Mappings of ended processes are dropped after a while, so that a recording of days does
not grow. Files are opened as soon as they are mapped, because they may be deleted before their samples are unwound.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.flags import RecordType
from perfpy.abi.task_columns import TASK_TYPES
from perfpy.perfdata.records.delivery.keys import OrderedChunk
from perfpy.symbols.dso import DsoKind, DsoTable
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.symbolizer import Symbolizer
from perfpy.symbols.tasks.live_tasks import LiveTasks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.perfdata.records.chunk import Chunk
    from perfpy.perfdata.records.event_table import EventTable
    from perfpy.symbols.dso import Dso
    from perfpy.symbols.files.debug_files import DsoFiles

_WANTED: Final = list(TASK_TYPES - {RecordType.KSYMBOL})
_MOST_UNUSED: Final = 64  # files of a live view that stay open although the last samples did not hit their processes


class Replay:
    """The state of tasks.

    Args:
        table: the events of the records.
        opens_files: whether to open files as soon as they are mapped. A live view of all processes opens those that samples hit.
    """

    def __init__(self, table: EventTable, *, opens_files: bool = True) -> None:
        self._table = table
        self._opens_files = opens_files
        self._tasks = LiveTasks(table, types=_WANTED)
        self._ordinal = 0
        self._files: dict[tuple[object, ...], DsoFiles] = {}
        self._symbolizer: Symbolizer | None = None
        self._symbolizer_of: bytes | None = None  # its processes; None after further records

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
        if self._tasks.add(ordered):
            self._symbolizer_of = None

    def symbolizer(self, before: int, pids: NDArray[np.uint32] | None = None) -> Symbolizer:
        """Return a symbolizer over every mapping so far, the last one if nothing changed. No later sample has a key below `before`.

        pids: the processes of its samples; None for all.
        """
        processes = b"" if pids is None else pids.tobytes()
        if self._symbolizer is None or self._symbolizer_of != processes:
            self._tasks.forget(before)
            if self._symbolizer is not None and not self._opens_files:
                dsos = self._symbolizer.dsos
                self._keep_files({_key_of(dsos[number]): files for number, files in self._symbolizer.found_files().items()})
            timeline = self._tasks.timeline(pids, DsoTable(by_identity=True), keep_exited=False)
            self._symbolizer = Symbolizer(timeline, SymbolOptions(live=True))
            self._open_files(self._symbolizer)
            self._symbolizer_of = processes
        return self._symbolizer

    def _keep_files(self, used: dict[tuple[object, ...], DsoFiles]) -> None:
        """Keep the files that samples hit, and some that earlier samples hit."""
        unused = [(key, files) for key, files in self._files.items() if key not in used]
        self._files = {**dict(unused[-_MOST_UNUSED:]), **used}

    def elsewhere(self) -> dict[tuple[bytes, tuple[int, ...]], bytes]:
        """Return the build-ids of files that are not at their recorded path, by name and identity: files of containers, replaced files."""
        if self._symbolizer is None:
            return {}
        build_ids: dict[tuple[bytes, tuple[int, ...]], bytes] = {}
        first_dsos: dict[tuple[str, tuple[int, ...]], Dso] = {}
        for dso in self._symbolizer.dsos:
            if dso.identity:
                first_dsos.setdefault((dso.name, dso.identity[:3]), dso)
        for number, files in self._symbolizer.found_files().items():
            dso, file = self._symbolizer.dsos[number], files.original
            if dso.identity and file is not None and file.path != dso.name and file.build_id:
                name, build_id = os.fsencode(dso.name), bytes.fromhex(file.build_id)
                build_ids[name, dso.identity] = build_id
                if first_dsos[dso.name, dso.identity[:3]] is dso:  # synthesized mappings have no generation
                    build_ids[name, (*dso.identity[:3], 0)] = build_id
        return build_ids

    def _open_files(self, symbolizer: Symbolizer) -> None:
        """Find the files of all mappings, each once; a recording closes those of dropped processes."""
        present: dict[tuple[object, ...], DsoFiles] = {}
        for number, dso in enumerate(symbolizer.dsos):
            if dso.kind in (DsoKind.FILE, DsoKind.VDSO):
                key = _key_of(dso)
                files = self._files.get(key)
                if files is not None:
                    symbolizer.set_files(number, files)
                if self._opens_files:
                    present[key] = files or symbolizer.files(number)
        if self._opens_files:
            self._files = present


def _key_of(dso: Dso) -> tuple[object, ...]:
    return dso.name, dso.build_id, dso.identity
