"""Texts after the functions of call trees whose frames are separated by position: addresses, offsets, source lines.

With -g srcline, frames of one line share a class, whatever their functions.
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
    """The texts of some frames; None for frames without mapping."""

    def __init__(self, frames: NDArray[np.int64], texts: list[str | None]) -> None:
        self._frames = frames
        self._texts = texts
        self._of_frame: dict[int, str | None] = dict(zip(frames.tolist(), texts, strict=True))

    @classmethod
    def of(cls, texts: KeyTexts, frames: NDArray[np.int32], key: str) -> CallNames:
        """Return the texts of the frames of callchains for a key of --call-graph."""
        used = distinct(frames).astype(np.int64)
        return cls(used, texts.source_texts.calls(used, offsets=key == "address"))

    def text(self, frame: int) -> str | None:
        """Return the text after the function of a frame."""
        return self._of_frame[frame]

    def ranks(self, location_table: Locations) -> Int64:
        """Return the class of every frame: by its text, or by its address; smaller ones come first among equal siblings."""
        has_text = np.array([text is not None for text in self._texts], np.bool_)
        of_text = name_ranks([text or "" for text in self._texts])
        address = location_table.ip[self._frames]
        classes = np.zeros(len(location_table.ip), np.int64)
        classes[self._frames] = ranks(has_text, np.where(has_text, -of_text, 0), np.where(has_text, np.uint64(0), ~address))
        return classes
