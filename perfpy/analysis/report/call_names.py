"""What stands after the functions of call trees whose frames are told apart by where they are in a function.

What enters: the frames of callchains, and what words source lines. What leaves: a text for each frame, and (for -g srcline)
its class: frames of one line are one, whatever their functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.analysis.samples.locations import name_ranks, ranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.analysis.samples.locations import Int64, Locations
    from perfpy.analysis.sortkeys.key_texts import KeyTexts


class CallNames:
    """The texts of some frames; None for those of no mapping."""

    def __init__(self, frames: NDArray[np.int64], texts: list[str | None]) -> None:
        self._frames = frames
        self._texts = texts
        self._of_frame: dict[int, str | None] = dict(zip(frames.tolist(), texts, strict=True))

    @classmethod
    def of(cls, texts: KeyTexts, frames: NDArray[np.int32], key: str) -> CallNames:
        """The texts of the frames of callchains, as a key of --call-graph has them."""
        used = distinct(frames).astype(np.int64)
        return cls(used, texts.source_texts.calls(used, offsets=key == "address"))

    def text(self, frame: int) -> str | None:
        """What stands after the function of a frame."""
        return self._of_frame[frame]

    def ranks(self, known: Locations) -> Int64:
        """The class of every frame that has a text, of others by their address; smaller ones come first among equal siblings."""
        there = np.array([text is not None for text in self._texts], np.bool_)
        of_text = name_ranks([text or "" for text in self._texts])
        address = known.ip[self._frames]
        found = np.zeros(len(known.ip), np.int64)
        found[self._frames] = ranks(there, np.where(there, -of_text, 0), np.where(there, np.uint64(0), ~address))
        return found
