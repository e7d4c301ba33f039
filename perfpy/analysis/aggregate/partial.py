"""A part of a recording, folded in a process of its own, and put to what another process folded of the part before.

What enters: a Profile of some of the samples. What leaves: PartialProfile, a
value of numbers and names that means the same to any process that has the
same recording open; taken in by the Profile of the samples before, it leaves that
as if it had folded all of them itself: same rows, same numbers, same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from perfpy.analysis.samples.dimensions import DIMENSIONS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.analysis.samples.sample_view import DeliveryOrder
    from perfpy.symbols.symbolizer import FrameOrigins, Symbolizer
    from perfpy.symbols.tasks.address_space import TaskTimeline


class PartialProfile(NamedTuple):
    """What was folded of a part of a recording.

    columns: what its rows are told apart by, in the order of the Profile; chain_frames, chain_lengths: its distinct chains;
    payloads: the distinct raw data; names: what was met beyond what the recording's side-band says; when, tid: of the first
    sample of each row; period, samples, measures: sums; warnings: of what could not be read.
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
    """Frames and comms that a process met, after those that were known when it began: frames_known, comms_known of them."""

    frames_known: int
    frames: FrameOrigins
    comms_known: int
    comms: list[str]


class NameMaps(NamedTuple):
    """The frames and comms of another process -> those here."""

    frame: NDArray[np.int32]
    comm: NDArray[np.int32]

    def here(self, dimension: str, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """The numbers of a dimension, as they are here."""
        table = DIMENSIONS[dimension].table
        return numbers if not table else (self.frame if table == "frame" else self.comm)[numbers]


class KnownNames:
    """How many frames and comms were known before a part was folded."""

    def __init__(self, symbolizer: Symbolizer, timeline: TaskTimeline) -> None:
        self._symbolizer, self._timeline = symbolizer, timeline
        self._frames, self._comms = len(symbolizer.frames), len(timeline.comms)

    def none(self) -> LearntNames:
        """As if none was met: what comes later names them."""
        return LearntNames(self._frames, self._symbolizer.learnt(len(self._symbolizer.frames)), self._comms, [])

    def learnt(self) -> LearntNames:
        """Those that were met since."""
        comms = self._timeline.comms[self._comms :]
        return LearntNames(self._frames, self._symbolizer.learnt(self._frames), self._comms, comms)


def name_maps(names: LearntNames, symbolizer: Symbolizer, timeline: TaskTimeline) -> NameMaps:
    """What another process met is met here, too, in the same order."""
    frames = symbolizer.learn(names.frames)
    comms = [timeline.comm_number(comm) for comm in names.comms]
    return NameMaps(
        np.concatenate([np.arange(names.frames_known, dtype=np.int32), frames]),
        np.array([*range(names.comms_known), *comms], np.int32),
    )
