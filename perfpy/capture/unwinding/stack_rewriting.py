"""Replace stack copies by callchains in all records of a piece.

Registers and stacks are removed; all other fields and records stay as the kernel wrote them. Layout: perfpy.abi.samples.decoding.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import Columns, Ragged, slices_index
from perfpy.abi.flags import NATIVE_ENDIAN
from perfpy.abi.samples.cursor import Cursor
from perfpy.abi.samples.decoding import SampleLayout
from perfpy.abi.samples.fields import variable_decoders

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.abi.attr import EventAttr
    from perfpy.perfdata.records.chunk import Chunk

_MOST: Final = 0xFFF8 >> 3  # words of a record
_SIZE: Final = 3  # index of the size among the four u16 of a header


class SampleParts(NamedTuple):
    """Positions in samples: before the callchain; between it and the registers; after the stack. Starts and ends are in words."""

    start: NDArray[np.int64]
    chain: NDArray[np.int64]
    after_chain: NDArray[np.int64]
    registers: NDArray[np.int64]
    after_stack: NDArray[np.int64]
    end: NDArray[np.int64]
    whole: NDArray[np.bool_]


def parts_of(attr: EventAttr, chunk: Chunk) -> SampleParts:
    """Return the parts of samples with a callchain, registers and a stack."""
    start = chunk.starts >> 3
    end = start + (chunk.sizes >> 3).astype(np.int64)
    cursor = Cursor(chunk.data[: len(chunk.data) & ~7], NATIVE_ENDIAN, start, end)
    cursor.skip(SampleLayout(attr, NATIVE_ENDIAN).fixed_words)
    ranges_of: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
    nothing = Columns(len(start))
    for names, step in variable_decoders(attr, NATIVE_ENDIAN):
        before = cursor.position
        step(cursor, nothing, False)
        ranges_of[names[0]] = before, cursor.position
    (chain, after_chain), (registers, _), (_, after_stack) = (ranges_of[name] for name in ("callchain", "user_regs", "user_stack"))
    is_whole = np.ones(len(start), bool) if cursor.damaged is None else ~cursor.damaged
    return SampleParts(start, chain, after_chain, registers, after_stack, end, is_whole)


class Rewriting:
    """Collects the changes to one chunk's records; written() returns their bytes.

    `kept` has which records are written.
    """

    def __init__(self, chunk: Chunk) -> None:
        self._words = chunk.data[: len(chunk.data) & ~7].view(np.uint64)
        start = chunk.starts >> 3
        nowhere = start + (chunk.sizes >> 3).astype(np.int64)
        self.kept_records = np.ones(len(chunk), bool)
        # Each record has three spans of words; for most the first is all.
        self._begins = [start, nowhere.copy(), nowhere.copy()]
        self._ends = [nowhere.copy(), nowhere.copy(), nowhere.copy()]
        self._rows: list[NDArray[np.int64]] = []
        self._chains: list[Ragged] = []
        self._words_put: list[tuple[NDArray[np.int64], int, NDArray[np.uint64]]] = []

    def put(self, rows: NDArray[np.int64], word: int, values: NDArray[np.uint64]) -> None:
        """Set a word of some records, before the callchain."""
        self._words_put.append((rows, word, values))

    def replace(self, rows: NDArray[np.int64], parts: SampleParts, chains: Ragged) -> None:
        """Replace the stacks of these samples by callchains."""
        ranges = ((parts.start, parts.chain), (parts.after_chain, parts.registers), (parts.after_stack, parts.end))
        for begins, ends, (begin, end) in zip(self._begins, self._ends, ranges, strict=True):
            begins[rows], ends[rows] = begin, end
        self.kept_records[rows[~parts.whole]] = False
        fixed = sum((end - begin for begin, end in ranges), np.ones(len(rows), np.int64))
        self._rows.append(rows)
        self._chains.append(_truncate_to_room(chains, _MOST - fixed))

    def written(self, most: int = 1 << 62) -> list[bytes]:
        """Return the records, in parts of whole ones, each of about `most` bytes."""
        rows_kept = self.kept_records
        lengths = [np.where(rows_kept, end - begin, 0) for begin, end in zip(self._begins, self._ends, strict=True)]
        counted = np.zeros(len(rows_kept), np.int64)  # words of the callchain, including its length
        rows = np.concatenate(self._rows) if self._rows else np.zeros(0, np.int64)
        chains = Ragged.concat(self._chains) if self._chains else Ragged.empty(0, np.uint64)
        counted[rows] = chains.lengths + 1
        counted[~rows_kept] = 0
        sizes = lengths[0] + counted + lengths[1] + lengths[2]
        ends = np.cumsum(sizes)
        records = ends - sizes
        out = np.empty(int(ends[-1]) if len(ends) else 0, np.uint64)
        chain_end = records + lengths[0] + counted
        for target, begin, length in zip((records, chain_end, chain_end + lengths[1]), self._begins, lengths, strict=True):
            out[slices_index(target, length)[0]] = self._words[slices_index(begin, length)[0]]
        is_kept = rows_kept[rows]
        chains, counts = chains.take(np.flatnonzero(is_kept)), (records + lengths[0])[rows[is_kept]]
        out[counts] = chains.lengths.astype(np.uint64)
        out[slices_index(counts + 1, chains.lengths)[0]] = chains.values
        out.view(np.uint16)[(records[rows_kept] << 2) + _SIZE] = (sizes[rows_kept] << 3).astype(np.uint16)
        for changed, word, values in self._words_put:
            out[records[changed[rows_kept[changed]]] + word] = values[rows_kept[changed]]
        # A part ends with the first record beyond each multiple.
        borders = ends[np.searchsorted(ends << 3, np.arange(most, len(out) << 3, most))].tolist() if len(out) << 3 > most else []
        edges = [0, *dict.fromkeys(borders), len(out)]
        return [out[first:end].tobytes() for first, end in pairwise(edges) if end > first]


def _truncate_to_room(chains: Ragged, most: NDArray[np.int64]) -> Ragged:
    """Truncate the chains to the room in their records."""
    lengths = np.minimum(chains.lengths, np.maximum(most, 0))
    if (lengths == chains.lengths).all():
        return chains
    index, offsets = slices_index(chains.offsets[:-1], lengths)
    return Ragged(chains.values[index], offsets)
