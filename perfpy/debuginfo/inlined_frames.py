"""Expand callchains by the frames of inlined calls.

Each frame is replaced by frames for the functions at its address, innermost first, with symbols marked as inlined.

Callers' addresses in unwound stacks are inside the call; those in the kernel's callchains follow it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import distinct, slices_index
from perfpy.abi.startup import NamedTuple
from perfpy.debuginfo.addresses import link_addresses
from perfpy.debuginfo.inlined_calls import InlineFinder
from perfpy.debuginfo.sections import DebugSections
from perfpy.debuginfo.units import UnitIndex
from perfpy.symbols.dso import DsoKind
from perfpy.symbols.files.debug_files import Inline
from perfpy.symbols.interning import first_occurrences

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.debuginfo.inlined_calls import CallRow
    from perfpy.symbols.files.elf import ElfFile
    from perfpy.symbols.frame_table import FrameTable
    from perfpy.symbols.symbolizer import Symbolizer

    Ids = NDArray[np.int32]
    Int64 = NDArray[np.int64]

_USER: Final = ord(".")
_KERNEL: Final = ord("k")
_NO_NAME: Final = "??"  # as addr2line has it
_UNSEEN: Final = -1


class InlineStyle(NamedTuple):
    """How chains are read.

    returns: callers' addresses are those that calls return to; names_decide: how many functions have to be at work at an
    address for the outermost one to count as inlined, too, where it has another name in the debug information (an alias, a
    clone): one in perf 6.12; two in perf 7.3, which keeps the symbol elsewhere, and of a clone that is named after its
    function; 0: it never does. as_addr2line: which both ask: it gives a function that the linker has no name for the symbol's
    name the first time that it is the innermost one, and from then on where that function begins with the symbol.
    in_kernel: whether frames of the kernel and its modules have them, too, where vmlinux and the .ko files have debug information.
    """

    returns: bool = True
    names_decide: int = 0
    as_addr2line: bool = False
    in_kernel: bool = True


def give_inlined(symbolizer: Symbolizer, *, unwound: bool) -> None:
    """Let a Symbolizer put inlined calls into chains, if its options ask for them; unwound: chains are made of stacks' copies."""
    wanted = symbolizer.inline
    as_of_6, ours = wanted is Inline.UNWOUND_AS_PERF, wanted is Inline.ALL
    if wanted is not Inline.NONE and (unwound or not as_of_6):
        deciding = 0 if ours else 1 if as_of_6 else 2
        symbolizer.inliner = InlinedFrames(symbolizer, InlineStyle(ours and not unwound, deciding, not ours, not as_of_6))


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
        self._given: dict[tuple[int, int], str] = {}  # dso and DIE that were the innermost one: the name that it keeps, if any

    def may_expand(self, number: int) -> bool:
        """Whether inlined calls can be found in a dso."""
        return number >= 0 and self._finder(number) is not None

    def expanded(self, frames: Ids, counts: Int64, *, callers_first: bool = False) -> tuple[Ids, Int64]:
        """Chains of frames (ids one chain after the other, and how many each has) with the frames of inlined calls."""
        if not len(frames):
            return frames, counts
        ends = np.cumsum(counts)
        mirror = np.repeat(2 * ends - counts - 1, counts) - np.arange(len(frames)) if callers_first else slice(None)
        states = self._states(frames, counts, callers_first=callers_first)
        self._learn(states[mirror])
        many = self._count[states]
        grown = np.flatnonzero(many)
        if not len(grown):
            return frames, counts
        lengths = np.maximum(many, 1)
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        index, groups = slices_index(self._start[states[grown]], many[grown])
        if callers_first:
            index = index[np.repeat(groups[:-1] + groups[1:] - 1, many[grown]) - np.arange(len(index))]
        result = np.repeat(frames, lengths)
        result[slices_index(bounds[grown], many[grown])[0]] = self._frames[index]
        return result, bounds[ends] - bounds[ends - counts]

    def _states(self, frames: Ids, counts: Int64, *, callers_first: bool) -> Int64:
        """Each frame's number times two, one more for callers whose address is after the call."""
        states = frames.astype(np.int64) << 1
        if not self._style.returns:
            return states
        level, chains = self._symbolizer.frames.level[frames], np.repeat(np.arange(len(counts)), counts)
        for one in (_USER, _KERNEL):
            rows = np.flatnonzero(level == one)
            chain = chains[rows]
            innermost = np.ones(len(rows), np.bool_)
            differs = chain[1:] != chain[:-1]
            innermost[slice(0, -1) if callers_first else slice(1, None)] = differs
            states[rows[~innermost]] |= 1
        return states

    def _learn(self, states: Int64) -> None:
        """Look up what was not met before; in the order of the states."""
        table = self._symbolizer.resolve()
        fresh = np.full(max(2 * len(table) - len(self._count), 0), _UNSEEN, np.int64)
        self._count, self._start = np.concatenate([self._count, fresh]), np.concatenate([self._start, np.zeros_like(fresh)])
        states = states[self._count[states] == _UNSEEN]
        if not len(states):
            return
        states = states[first_occurrences(states.view(np.uint64))]
        self._count[states] = 0
        frames = states >> 1
        level = table.level[frames]
        states = states[(table.symbol[frames] >= 0) & ((level == _USER) | (level == _KERNEL) & self._style.in_kernel)]
        dso = table.dso[states >> 1]
        for number in distinct(dso).tolist():
            finder = self._finder(number)
            if finder is not None:
                self._learn_of(number, finder, states[dso == number], table)

    def _learn_of(self, number: int, finder: InlineFinder, states: Int64, table: FrameTable) -> None:
        """Look up frames of one dso and keep what they become."""
        frames = states >> 1
        # what is interrupted at a function's first instruction has not called
        addresses = table.address[frames] - ((states & 1 != 0) & (table.symbol_offset[frames] > 0))
        unique = distinct(addresses)
        linked = self._linked(number, unique)
        calls = finder.find(linked)
        which = np.searchsorted(unique, addresses)
        starts = (np.cumsum(calls.counts) - calls.counts)[which]
        rows = calls.rows()
        first, next_frame = len(self._frames), len(table)
        bases: list[int] = []
        symbols: list[int] = []
        columns = (states, frames, starts, calls.counts[which], linked[which] - addresses)
        for state, frame, start, count, bias in zip(*(column.tolist() for column in columns), strict=True):
            functions = rows[start : start + count]
            base = int(table.symbol[frame])
            chosen = self._symbols(base, self._names(finder, number, base, bias, functions))
            if not chosen:
                continue
            self._start[state], self._count[state] = first + len(bases), count
            table.called_from |= {next_frame + len(bases) + depth: function[1:4] for depth, function in enumerate(functions[:-1], 1)}
            bases += [frame] * count
            symbols += chosen
        made = self._symbolizer.add_inlined(np.array(bases, np.int32), np.array(symbols, np.int32))
        self._frames = np.concatenate([self._frames, made])

    def _linked(self, number: int, addresses: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Addresses within a dso as its debug information has them."""
        if image := self._symbolizer.image(number):
            return addresses - np.uint64(image[1] % (1 << 64))
        runtime = self._symbolizer.files(number).runtime
        return addresses if runtime is None else link_addresses(runtime, addresses)

    def _names(self, finder: InlineFinder, number: int, base: int, bias: int, rows: list[CallRow]) -> list[str]:
        """What some functions are called, innermost first. number: of their dso; bias: from addresses in it to those in `rows`."""
        names = [self._symbolizer.shown_name(finder.names[row[0]]) or _NO_NAME for row in rows]
        if self._style.as_addr2line:
            for depth, (*_, die, low) in enumerate(rows):
                given = self._given.get((number, die)) if die >= 0 else ""
                if given is None and not depth:
                    given = self._symbolizer.symbols.name(base)
                    starts_there = (self._symbolizer.symbols.start(base) + bias) % (1 << 64) == low
                    self._given[number, die] = given if starts_there else ""
                names[depth] = given or names[depth]
        return names

    def _symbols(self, base: int, names: list[str]) -> list[int]:
        """The symbols of the frames that one in the symbol `base` becomes, innermost first; none if it stays as it is."""
        symbols = self._symbolizer.symbols
        own_name = symbols.name(base)
        # what is called as the symbol is the symbol, also where it was inlined into a namesake
        found = [base if name == own_name else symbols.inlined_into(base, name) for name in names[:-1]]
        least = self._style.names_decide
        if 0 < least <= len(names) and names[-1] != own_name and not (least > 1 and own_name.startswith(names[-1] + ".")):
            return [*found, symbols.inlined_into(base, names[-1])]
        return [*found, base] if found else []

    def _finder(self, number: int) -> InlineFinder | None:
        if number not in self._finders:
            self._finders[number] = self._new_finder(number)
        return self._finders[number]

    def _new_finder(self, number: int) -> InlineFinder | None:
        """For the file with the debug information of a dso."""
        root, keeps = self._symbolizer.root, self._symbolizer.caches
        if image := self._symbolizer.image(number):
            return _finder_in(root, image[0], keeps=keeps)
        if self._symbolizer.dsos[number].kind is not DsoKind.FILE:
            return None
        found = self._symbolizer.files(number)
        return found.once(lambda found: _finder_in(root, found.symbols, found.runtime, keeps=keeps), "inlined calls")


def _finder_in(root: str, *files: ElfFile | None, keeps: bool) -> InlineFinder | None:
    """For the first of some files that has debug information."""
    file = next((file for file in files if file and _has_units(file)), None)
    return InlineFinder(UnitIndex(DebugSections(file, root)), keeps=keeps) if file else None


def _has_units(file: ElfFile) -> bool:
    return file.section(".debug_info") is not None or file.section(".zdebug_info") is not None
