"""Callchains with the frames of inlined calls.

What enters: a Symbolizer and chains of its frames. What leaves: the same chains, each frame replaced by the functions at
work there, innermost first: frames of their own, at the same address, with symbols that are marked as inlined.

Callers' addresses of unwound stacks are within the call; those of callchains that the kernel made are behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import distinct, slices_index
from perfpy.debuginfo.inlined_calls import InlineFinder
from perfpy.debuginfo.sections import DebugSections
from perfpy.debuginfo.units import UnitIndex
from perfpy.symbols.dso import DsoKind
from perfpy.symbols.files.debug_files import Inline

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.symbols.files.elf import ElfFile
    from perfpy.symbols.symbolizer import FrameTable, Symbolizer

    Ids = NDArray[np.int32]
    Int64 = NDArray[np.int64]

_USER: Final = ord(".")
_NO_NAME: Final = "??"  # as addr2line has it
_UNSEEN: Final = -1


class InlineStyle(NamedTuple):
    """How chains are read.

    returns: callers' addresses are those that calls return to; names_decide: a function whose name is another one in the
    debug information (an alias, a clone) counts as inlined, as in perf 6.12; perf 7.3 keeps the symbol.
    """

    returns: bool = True
    names_decide: bool = False


def give_inlined(symbolizer: Symbolizer, *, unwound: bool) -> None:
    """Let a Symbolizer put inlined calls into chains, if its options ask for them; unwound: chains are made of stacks' copies."""
    wanted = symbolizer.inline
    as_of_6 = wanted is Inline.UNWOUND_AS_PERF
    if wanted is not Inline.NONE and (unwound or not as_of_6):
        symbolizer.inliner = InlinedFrames(symbolizer, InlineStyle(wanted is Inline.ALL and not unwound, as_of_6))


class InlinedFrames:
    """Puts inlined calls into the chains of one Symbolizer."""

    def __init__(self, symbolizer: Symbolizer, style: InlineStyle) -> None:
        self._symbolizer = symbolizer
        self._style = style
        self._finders: dict[int, InlineFinder | None] = {}
        # of each frame, as the innermost one and as a caller: how many frames it becomes (0: it stays), and where they are
        self._count = np.zeros(0, np.int64)
        self._start = np.zeros(0, np.int64)
        self._frames = np.zeros(0, np.int32)

    def may_expand(self, number: int) -> bool:
        """Whether inlined calls can be found in a dso."""
        return number >= 0 and self._finder(number) is not None

    def expanded(self, frames: Ids, counts: Int64, *, callers_first: bool = False) -> tuple[Ids, Int64]:
        """Chains of frames (ids one chain after the other, and how many each has) with the frames of inlined calls."""
        if not len(frames):
            return frames, counts
        states = self._states(frames, counts, callers_first=callers_first)
        self._learn(distinct(states))
        many = self._count[states]
        grown = np.flatnonzero(many)
        if not len(grown):
            return frames, counts
        lengths = np.maximum(many, 1)
        ends = np.concatenate([[0], np.cumsum(lengths)])
        index, _ = slices_index(self._start[states[grown]], many[grown])
        into, bounds = slices_index(ends[grown], many[grown])
        if callers_first:
            into = np.repeat(bounds[:-1] + bounds[1:] - 1, many[grown]) - np.arange(len(into))
            into = slices_index(ends[grown], many[grown])[0][into]
        result = np.repeat(frames, lengths)
        result[into] = self._frames[index]
        last = np.cumsum(counts)
        return result, ends[last] - ends[last - counts]

    def _states(self, frames: Ids, counts: Int64, *, callers_first: bool) -> Int64:
        """Each frame's number times two, one more for callers whose address is behind the call."""
        states = frames.astype(np.int64) << 1
        if not self._style.returns:
            return states
        user = np.flatnonzero(self._symbolizer.frames.level[frames] == _USER)
        chain = np.repeat(np.arange(len(counts)), counts)[user]
        innermost = np.ones(len(user), np.bool_)
        differs = chain[1:] != chain[:-1]
        innermost[slice(0, -1) if callers_first else slice(1, None)] = differs
        states[user[~innermost]] |= 1
        return states

    def _learn(self, states: Int64) -> None:
        """Look up what was not met before."""
        table = self._symbolizer.resolve()
        fresh = np.full(max(2 * len(table) - len(self._count), 0), _UNSEEN, np.int64)
        self._count, self._start = np.concatenate([self._count, fresh]), np.concatenate([self._start, np.zeros_like(fresh)])
        states = states[self._count[states] == _UNSEEN]
        self._count[states] = 0
        frames = states >> 1
        states = states[(table.symbol[frames] >= 0) & (table.level[frames] == _USER)]
        dso = table.dso[states >> 1]
        for number in distinct(dso).tolist():
            finder = self._finder(number)
            if finder is not None:
                self._learn_of(finder, states[dso == number], table)

    def _learn_of(self, finder: InlineFinder, states: Int64, table: FrameTable) -> None:
        """Look up frames of one dso and keep what they become."""
        frames = states >> 1
        addresses = table.address[frames] - (states & 1).astype(np.uint64)
        unique = distinct(addresses)
        calls = finder.find(unique)
        starts = np.cumsum(calls.counts) - calls.counts
        rows = list(zip(*(column.tolist() for column in calls[1:]), strict=True))
        first = len(self._frames)
        bases: list[int] = []
        symbols: list[int] = []
        which = np.searchsorted(unique, addresses)
        queries = zip(states.tolist(), frames.tolist(), starts[which].tolist(), calls.counts[which].tolist(), strict=True)
        next_frame = len(table)
        for state, frame, start, count in queries:
            chosen = self._symbols(finder, int(table.symbol[frame]), rows[start : start + count])
            if not chosen:
                continue
            self._start[state], self._count[state] = first + len(bases), count
            for depth in range(1, count):
                table.called_from[next_frame + len(bases) + depth] = rows[start + depth - 1][1:]
            bases += [frame] * count
            symbols += chosen
        made = self._symbolizer.add_inlined(np.array(bases, np.int32), np.array(symbols, np.int32))
        self._frames = np.concatenate([self._frames, made])

    def _symbols(self, finder: InlineFinder, base: int, rows: list[tuple[int, int, int, int]]) -> list[int]:
        """The symbols of the frames that one in the symbol `base` becomes, innermost first; none if it stays as it is."""
        symbols = self._symbolizer.symbols
        names = [self._symbolizer.shown_name(finder.names[row[0]]) or _NO_NAME for row in rows]
        found = [symbols.inlined_into(base, name) for name in names[:-1]]
        if names and self._style.names_decide and names[-1] != symbols.name(base):
            return [*found, symbols.inlined_into(base, names[-1])]
        return [*found, base] if found else []

    def _finder(self, number: int) -> InlineFinder | None:
        if number not in self._finders:
            file = self._file(number)
            root = self._symbolizer.root
            self._finders[number] = InlineFinder(UnitIndex(DebugSections(file, root))) if file else None
        return self._finders[number]

    def _file(self, number: int) -> ElfFile | None:
        """The file with the debug information of a dso."""
        if self._symbolizer.dsos[number].kind is not DsoKind.FILE:
            return None
        found = self._symbolizer.files(number)
        return next((file for file in (found.symbols, found.runtime) if file and _has_units(file)), None)


def _has_units(file: ElfFile) -> bool:
    return file.section(".debug_info") is not None or file.section(".zdebug_info") is not None
