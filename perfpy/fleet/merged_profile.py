"""A portable profile as the input of reports and stacks (perfpy.analysis): folded samples, callchains, frames and texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.analysis.aggregate.profile import samples_of_frames
from perfpy.analysis.report.report import SampleWords
from perfpy.analysis.samples.dimensions import PayloadTable
from perfpy.analysis.sortkeys.key_texts import TaskComms
from perfpy.fleet.late_symbols import loader_of
from perfpy.fleet.portable.own_values import MergedValues
from perfpy.fleet.portable.traced_values import merged_data, merged_fields
from perfpy.symbols.known_frames import KnownFrames
from perfpy.symbols.tasks.task_states import name_of_unnamed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.analysis.aggregate.profile import Folded
    from perfpy.analysis.entries.layout import Finder, Layout
    from perfpy.analysis.sortkeys.key_texts import MemoryWords
    from perfpy.fleet.portable.profile import PortableProfile
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.symbols.files.debug_files import SymbolOptions


class MergedProfile:
    """A portable profile as FoldedSamples and SourceHeader."""

    tracing = None
    is_pipe = False
    endian = "<"

    def __init__(self, profile: PortableProfile, symbols: SymbolOptions | None = None) -> None:
        """Adapt a profile; symbols: where to look for files with code."""
        self.events: list[FileEvent] = profile.events
        self.features: dict[str, object] = {}
        self.raw = PayloadTable()
        self.values = MergedValues(profile.folded.dimensions, profile.values, profile.recordings)
        loader = loader_of(profile.dsos, symbols) if symbols is not None else None
        self.symbolizer = KnownFrames(profile.frames, profile.symbols, profile.dsos, profile.origins, profile.lines, loader)
        self.folded: Folded = profile.folded.with_dimensions(self.values.dimensions)
        self.profile = profile
        self.chains = MergedChains(profile) if len(profile.chain_lengths) or not len(profile.folded) else None
        if self.chains is not None:  # rows of recordings without callchains have empty ones
            none = len(profile.chain_lengths)
            self.folded = self.folded.with_chains(np.where(profile.folded.chain < 0, none, profile.folded.chain))

    def last_comm(self, tid: int) -> str:
        """Return the last comm of a thread, from the first recording that has its id."""
        return self.values.comm_of(tid) or self.profile.last_comms.get(tid) or name_of_unnamed(tid)

    def fields(self, *, raw: bool) -> Finder:
        """Return a finder of sort keys for tracepoint fields."""
        profile = self.profile
        return merged_fields(profile.events, profile.formats, profile.values.get("raw", []), raw=raw)

    def words(self, memory: MemoryWords | None) -> SampleWords:
        """Return the texts of the dimensions other than locations."""
        profile = self.profile
        return SampleWords(
            TaskComms(profile.comms, self.last_comm), merged_data(profile.values.get("raw", [])), memory, self.values.machine
        )

    def samples_of_frames(self) -> NDArray[np.int64]:
        """Return the number of samples, after filters, on each frame."""
        return samples_of_frames(self.folded)


class MergedChains:
    """The distinct callchains of many recordings, and an empty one as the last."""

    def __init__(self, profile: PortableProfile) -> None:
        self._frames, self._offsets = profile.chain_frames, profile.offsets

    def chains(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return all frame ids, and the offset of each chain, with one more entry than chains."""
        return self._frames, np.append(self._offsets, self._offsets[-1])


def describe_builds(profile: PortableProfile, layout: Layout) -> str:
    """Return a note on files with several builds whose functions share rows; "" if rows separate them, or there are none."""
    if layout.has("build_id") or not any(key.of_location for key in layout.keys):
        return ""
    builds: dict[str, set[str]] = {}
    for file in profile.dsos:
        builds.setdefault(file.short_name, set()).add(file.build_id)
    names = [f"{name} ({len(build_ids)})" for name, build_ids in builds.items() if len(build_ids) > 1]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"rows combine several builds of these files: {', '.join(names[:_SHOWN])}{more}; -s +build_id separates them" * bool(names)


_SHOWN: Final = 5
