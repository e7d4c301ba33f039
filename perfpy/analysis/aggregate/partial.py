"""Rows that another process folded, in numbers that any process with the same recording can interpret.

Merged into the Profile of the samples before, they leave it as if it had folded all samples itself: same rows, same numbers, same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfpy.abi.startup import NamedTuple
from perfpy.analysis.samples.dimensions import DIMENSIONS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.analysis.samples.sample_view import DeliveryOrder
    from perfpy.symbols.symbolizer import FrameOrigins, Symbolizer
    from perfpy.symbols.tasks.address_space import TaskTimeline


class PartialProfile(NamedTuple):
    """The folded rows of a part of a recording.

    Attributes:
        columns: the rows' identity, in the order of the Profile.
        chain_frames, chain_lengths: the distinct callchains.
        payloads: the distinct raw data.
        names: frames and comms beyond those of the recording's side-band.
        when, tid: of the first sample of each row.
        period, samples, measures: sums.
        warnings: one line for each skipped part.
    """

    columns: list[NDArray[np.int64]]
    chain_frames: NDArray[np.int32]
    chain_lengths: NDArray[np.int64]
    payloads: list[bytes]
    names: LearntNames
    when: DeliveryOrder
    tid: NDArray[np.int64]
    period: NDArray[np.int64]
    samples: NDArray[np.int64]
    measures: dict[str, NDArray[np.int64]]
    warnings: list[str] = []  # noqa: RUF012  # never changed


class LearntNames(NamedTuple):
    """The frames and comms that a process added to the frames_known and comms_known that existed when it began."""

    frames_known: int
    frames: FrameOrigins
    comms_known: int
    comms: list[str]


class NameMaps(NamedTuple):
    """Maps from the numbers of frames and comms of another process to those of this one."""

    frame: NDArray[np.int32]
    comm: NDArray[np.int32]

    def translate(self, dimension: str, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """Translate the numbers of a dimension."""
        table = DIMENSIONS[dimension].table
        return numbers if not table else (self.frame if table == "frame" else self.comm)[numbers]


class KnownNames:
    """The number of frames and comms before a part is folded."""

    def __init__(self, symbolizer: Symbolizer, timeline: TaskTimeline) -> None:
        self._symbolizer, self._timeline = symbolizer, timeline
        self._frames, self._comms = len(symbolizer.frames), len(timeline.comms)

    def none(self) -> LearntNames:
        """Return no new names; a later call returns them all."""
        return LearntNames(self._frames, self._symbolizer.origins_since(len(self._symbolizer.frames)), self._comms, [])

    def learnt(self) -> LearntNames:
        """Return the frames and comms added since."""
        comms = self._timeline.comms[self._comms :]
        return LearntNames(self._frames, self._symbolizer.origins_since(self._frames), self._comms, comms)


def name_maps(names: LearntNames, symbolizer: Symbolizer, timeline: TaskTimeline) -> NameMaps:
    """Add the frames and comms of another process to this one's, in the same order."""
    frames = symbolizer.intern(names.frames)
    comm_numbers = [timeline.comm_number(comm) for comm in names.comms]
    return NameMaps(
        np.concatenate([np.arange(names.frames_known, dtype=np.int32), frames]),
        np.array([*range(names.comms_known), *comm_numbers], np.int32),
    )
