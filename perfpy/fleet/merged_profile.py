"""The portable profile of many recordings in the place of a recording's own.

What enters: a PortableProfile. What leaves: what reports and stacks are made of (perfpy.analysis): folded samples, callchains, frames with
their symbols, and what words the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.analysis.aggregate.profile import samples_of_frames
from perfpy.analysis.report.report import SampleWords
from perfpy.analysis.samples.dimensions import PayloadTable
from perfpy.analysis.sortkeys.key_texts import TaskComms
from perfpy.fleet.late_symbols import loader_of
from perfpy.fleet.own_values import MergedValues
from perfpy.fleet.traced_values import merged_data, merged_fields
from perfpy.symbols.known_frames import KnownFrames
from perfpy.symbols.tasks.task_states import unnamed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.analysis.aggregate.profile import Folded
    from perfpy.analysis.report.layout import Finder, Layout
    from perfpy.analysis.sortkeys.key_texts import MemoryWords
    from perfpy.fleet.portable import PortableProfile
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.symbols.files.debug_files import SymbolOptions


class MergedProfile:
    """A portable profile in the place of a recording's own (a FoldedSamples, and a SourceHeader)."""

    tracing = None
    is_pipe = False
    endian = "<"

    def __init__(self, found: PortableProfile, symbols: SymbolOptions | None = None) -> None:
        """symbols: where to look for files with code."""
        self.events: list[FileEvent] = found.events
        self.features: dict[str, object] = {}
        self.raw = PayloadTable()
        self.values = MergedValues(found.folded.dimensions, found.values, found.recordings)
        loader = loader_of(found.dsos, symbols) if symbols is not None else None
        self.symbolizer = KnownFrames(found.frames, found.symbols, found.dsos, found.origins, found.lines, loader)
        self.folded: Folded = found.folded.with_dimensions(self.values.dimensions)
        self.found = found
        self.chains = MergedChains(found) if len(found.chain_lengths) or not len(found.folded) else None
        if self.chains is not None:  # rows of recordings without callchains have empty ones
            none = len(found.chain_lengths)
            self.folded = self.folded.with_chains(np.where(found.folded.chain < 0, none, found.folded.chain))

    def last_comm(self, tid: int) -> str:
        """The comm that a thread had last, of the first recording that has the number."""
        return self.values.comm_of(tid) or self.found.last_comms.get(tid) or unnamed(tid)

    def fields(self, *, raw: bool) -> Finder:
        """What finds sort keys of tracepoints' fields."""
        found = self.found
        return merged_fields(found.events, found.formats, found.values.get("raw", []), raw=raw)

    def words(self, memory: MemoryWords | None) -> SampleWords:
        """What words the numbers that are no locations."""
        found = self.found
        return SampleWords(TaskComms(found.comms, self.last_comm), merged_data(found.values.get("raw", [])), memory, self.values.machine)

    def samples_of_frames(self) -> NDArray[np.int64]:
        """How many samples that filters leave hit each frame."""
        return samples_of_frames(self.folded)


class MergedChains:
    """The distinct callchains of many recordings, and an empty one as the last."""

    def __init__(self, found: PortableProfile) -> None:
        self._frames, self._offsets = found.chain_frames, found.offsets

    def chains(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Frame ids one after the other, and offsets with one more entry than chains."""
        return self._frames, np.append(self._offsets, self._offsets[-1])


def several_builds(found: PortableProfile, layout: Layout) -> str:
    """Which files are several builds of one name, whose functions are one row; "" where rows tell them apart, or there are none."""
    if layout.has("build_id") or not any(key.of_location for key in layout.keys):
        return ""
    builds: dict[str, set[str]] = {}
    for file in found.dsos:
        builds.setdefault(file.short_name, set()).add(file.build_id)
    names = [f"{name} ({len(known)})" for name, known in builds.items() if len(known) > 1]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"of these files there are several builds, whose functions are one row: {', '.join(names[:_SHOWN])}{more} (-s +build_id)" * bool(
        names
    )


_SHOWN: Final = 5
