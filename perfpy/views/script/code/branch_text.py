"""Branch stacks of samples as text: brstack, brstacksym, brstackoff. Each branch is " FROM/TO/flags "."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from perfpy.views.script.texts.addresses import frames_of
from perfpy.views.script.texts.field_text import branch_flags_text, column
from perfpy.views.script.texts.frame_text import FrameStyle

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.records.batches import Batch
    from perfpy.views.script.line_context import LineContext
    from perfpy.views.script.pieces import Piece


class BranchTexts:
    """The formatter of one event's branch stacks; b"" if the fields do not include them."""

    def __init__(self, event: FileEvent, context: LineContext, fields: set[str]) -> None:
        self._event = event
        self._symbolizer = context.symbolizer
        self._kernel_start = context.kernel_start
        self._kind = next((name for name in ("brstack", "brstacksym", "brstackoff") if name in fields), "")
        self._with_dso = "dso" in fields
        by_symbol = self._kind == "brstacksym"
        style = FrameStyle(None, symbol=by_symbol, dso=self._with_dso, dso_offset="dsoff" in fields, kernel_path=context.kernel_path)
        self._frames = context.frame_texts(style)
        self._flags: dict[int, bytes] = {}

    def piece(self, batch: Batch) -> Piece:
        """Return the text of each sample's branches."""
        stacks = batch.columns.get("branch_stack") if self._kind else None
        if stacks is None:
            return b""
        counts = np.diff(stacks.offsets)
        ends = [self._end(batch, stacks.values[name], counts) for name in ("from", "to")]
        flags = map(self._flags_text, stacks.values["flags"].tolist())
        form = b"%s/%s%s" if self._kind == "brstacksym" else b" %s/%s%s"
        branches = [form % parts for parts in zip(*ends, flags, strict=True)]
        bounds = stacks.offsets.tolist()
        return [b"".join(branches[begin:end]) for begin, end in itertools.pairwise(bounds)]

    def _flags_text(self, word: int) -> bytes:
        text = self._flags.get(word)
        if text is None:
            text = self._flags[word] = branch_flags_text(word)
        return text

    def _end(self, batch: Batch, addresses: NDArray[np.uint64], counts: NDArray[np.int64]) -> list[bytes]:
        """Return one end of every branch."""
        is_from = self._kind != "brstacksym"
        if not is_from or self._with_dso or self._kind == "brstackoff":
            pid = np.repeat(column(batch, self._event, "pid"), counts)
            modes = np.repeat(batch.columns["cpumode"], counts)
            ids = frames_of(self._symbolizer, pid, addresses, np.repeat(batch.key, counts), modes, self._kernel_start)
            texts = self._frames.update()
            names = list(map(texts.__getitem__, ids.tolist()))
            if self._kind == "brstacksym":
                return names
            if self._kind == "brstackoff":
                addresses = self._offsets(addresses, ids)
        else:
            names = [b""] * len(addresses)
        return [b"0x%x%s" % pair for pair in zip(addresses.tolist(), names, strict=True)]

    def _offsets(self, addresses: NDArray[np.uint64], ids: NDArray[np.int32]) -> NDArray[np.uint64]:
        """Return addresses within their dsos; perf leaves addresses in dsos with loaded symbols unchanged."""
        frames = self._symbolizer.frames
        dso = frames.dso[ids]
        read = np.zeros(len(self._symbolizer.dsos) + 1, bool)
        read[frames.dso[frames.symbol >= 0]] = True
        read[-1] = True  # no dso
        kernel = np.array([*(one.kernel for one in self._symbolizer.dsos), False])
        read[kernel] = False
        within = np.where(kernel[dso], addresses - frames.map_start[ids], frames.address[ids])
        return np.where(read[dso], addresses, within)
