"""Symbols across windows: each window has its own timeline of tasks, all share the dsos and their symbols."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from perfpy.symbols.dso import DsoTable
from perfpy.symbols.loader import SymbolLoader
from perfpy.symbols.symbolizer import Symbolizer

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.symbols.symbol_table import SymbolTable
    from perfpy.symbols.tasks.address_space import TaskTimeline
    from perfpy.symbols.tasks.live_tasks import LiveTasks

_KERNEL: Final = "[kernel]"  # perf top's name of the running kernel
_MOST_DSOS: Final = 10_000
_MOST_SYMBOLS: Final = 48 << 20  # bytes of tables of programs and libraries
_MOST_IMAGES: Final = 2
_LONGEST: Final = 300.0  # seconds until files are searched again: they may have been replaced, and tables of old ones take memory


class LiveSymbols:
    """The symbols of a live view. options: where to look for them.

    Attributes:
        images: files that are in memory only, by name.
    """

    def __init__(self, tasks: LiveTasks, options: SymbolOptions) -> None:
        self._tasks = tasks
        self._options = options._replace(live=True)
        self._dso_table = DsoTable(by_identity=True)
        self._loader: SymbolLoader | None = None
        self.images: dict[str, bytes] = {}
        self._since = time.monotonic()

    def add_images(self, images: dict[str, bytes]) -> None:
        """Add files, by name, or replace them. Only the last ones stay: samples of the last minute may refer to the one before."""
        self.images.update(images)
        for name in list(self.images)[:-_MOST_IMAGES]:
            del self.images[name]
        if self._loader is not None and images:
            self._loader.forget(images)

    def forget(self, names: set[str]) -> None:
        """Read the symbols of files again, by name, because they have changed."""
        if self._loader is not None:
            self._loader.forget(names)

    def of_window(self, pids: NDArray[np.uint32]) -> tuple[TaskTimeline, Symbolizer]:
        """Return the tasks and the symbols for the samples of some processes."""
        if len(self._dso_table.dsos) > _MOST_DSOS or time.monotonic() - self._since > _LONGEST:
            self._dso_table, self._loader, self._since = DsoTable(by_identity=True), None, time.monotonic()
        timeline = self._tasks.timeline(pids, self._dso_table)
        if timeline.kernel_dso >= 0:
            self._dso_table.dsos[timeline.kernel_dso].short_name = _KERNEL
        if self._loader is None:
            self._loader = SymbolLoader(timeline, self._options, self.images)
        self._loader.follow(timeline)
        self._loader.trim(_MOST_SYMBOLS)
        return timeline, Symbolizer(timeline, self._options, self._loader)

    def tables(self) -> Iterator[tuple[str, SymbolTable]]:
        """Yield the names of files and their symbols, as far as they were loaded."""
        dsos = self._dso_table.dsos
        loaded = self._loader.loaded_tables() if self._loader is not None else {}
        return ((dsos[number].long_name, table) for number, table in loaded.items() if len(table))
