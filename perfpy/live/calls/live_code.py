"""The code that addresses of live samples refer to: mappings of running tasks, and their symbols."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.capture.metadata.synthesis import Synthesis, id_layout
from perfpy.kernel.procfs import ProcFs
from perfpy.live.symbolizing import LiveSymbols
from perfpy.symbols.files.debug_files import Inline, SymbolOptions
from perfpy.symbols.tasks.live_tasks import LiveTasks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfpy.live.rings import LiveRings
    from perfpy.live.window import LiveWindow
    from perfpy.perfdata.records.delivery.keys import OrderedChunk
    from perfpy.symbols.symbolizer import Symbolizer


class LiveCode:
    """The mappings and symbols of running tasks.

    Args:
        rings: the open events.
        window: the samples.
    """

    def __init__(self, rings: LiveRings, window: LiveWindow) -> None:
        self._rings = rings
        self._window = window
        attrs = [event.attr for event in window.events]
        has_data_maps = any(attr.mmap_data for attr in attrs)
        self._synthesis = Synthesis(ProcFs(), id_layout(attrs[0].sample_type), data_mmaps=has_data_maps, namespaces=False)
        self._tasks = LiveTasks(window.table)
        self._symbols = LiveSymbols(self._tasks, SymbolOptions(inline=Inline.ALL_AS_PERF))

    def learn(self) -> None:
        """Read the mappings of the kernel and of the target's tasks."""
        if data := b"".join(self._records()):
            self._tasks.add(self._window.begin(data))

    def _records(self) -> Iterable[bytes]:
        yield from self._synthesis.kernel()
        target = self._rings.target
        yield from self._synthesis.threads(target.tids) if target.has_tasks else self._synthesis.processes()

    def follow(self, ordered: OrderedChunk) -> Symbolizer:
        """Take the side-band of an interval; return the symbols for its samples."""
        self._tasks.add(ordered)
        symbolizer = self._symbols.of_window(self._window.pids)[1]
        first, _ = self._window.sample_times
        if first:
            self._tasks.forget(first)
        return symbolizer
