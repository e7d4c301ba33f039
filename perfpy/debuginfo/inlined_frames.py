"""Expand callchains by the frames of inlined calls.

Each frame is replaced by frames for the functions at its address, innermost first, with symbols marked as inlined.

Callers' addresses in unwound stacks are inside the call; those in the kernel's callchains follow it.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from perfpy.abi.columns import distinct, slices_index
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.debuginfo.inlined_calls import InlineFinder
from perfpy.debuginfo.kept_answers import link_addresses
from perfpy.debuginfo.sections import DebugSections
from perfpy.debuginfo.unit_index import UnitIndex
from perfpy.symbols.dso import DsoKind
from perfpy.symbols.files.debug_files import Inline
from perfpy.symbols.interning import first_occurrences

if TYPE_CHECKING:
    from typing import Final

    from numpy.typing import NDArray

    from perfpy.debuginfo.inlined_calls import CallRow
    from perfpy.symbols.files.elf import ElfFile
    from perfpy.symbols.symbolizer import FrameTable, Symbolizer

    Ids = NDArray[np.int32]
    Int64 = NDArray[np.int64]

_USER: Final = ord(".")
_KERNEL: Final = ord("k")
_NO_NAME: Final = "??"  # as in addr2line
_RUST_V0: Final = b"_R"
_UNSEEN: Final = -1
_BLOCK: Final = 1 << 20  # frames


class InlineStyle(NamedTuple):
    """The way to read callchains and to name inlined functions.

    Attributes:
        returns: callers' addresses are return addresses.
        names_decide: the outermost function, too, counts as inlined if its name differs from the symbol's (an alias, a clone), as in
            perf 6.12. perf 7.3 keeps the symbol, and so does every style for Rust's v0 names: 6.12 compares them as they are in the
            file, where the other names of one function are equally long, and so takes the one of the debug information.
        as_addr2line: name a function without a linkage name as addr2line does: by the symbol the first time that it is the innermost one,
            and afterwards too if it begins with the symbol.
        in_kernel: expand frames of the kernel and its modules too, if vmlinux and the .ko files have debug information.
    """

    returns: bool = True
    names_decide: bool = False
    as_addr2line: bool = False
    in_kernel: bool = True


def give_inlined(symbolizer: Symbolizer, *, unwound: bool) -> None:
    """Enable inlined frames in a Symbolizer if its options request them. `unwound`: its callchains come from copies of stacks."""
    option = symbolizer.inline
    as_perf_6, is_exact = option is Inline.UNWOUND_AS_PERF, option is Inline.ALL
    if option is not Inline.NONE and (unwound or not as_perf_6):
        symbolizer.inliner = InlinedFrames(symbolizer, InlineStyle(is_exact and not unwound, as_perf_6, not is_exact, not as_perf_6))


class InlinedFrames:
    """The expansion of one Symbolizer's callchains by inlined frames."""

    def __init__(self, symbolizer: Symbolizer, style: InlineStyle) -> None:
        self._symbolizer = symbolizer
        self._style = style
        self._finders: dict[int, InlineFinder | None] = {}
        # By state (twice the frame id, plus 1 for callers): how many frames replace the frame (0: none), and their start in `_frames`.
        self._count = np.zeros(0, np.int64)
        self._start = np.zeros(0, np.int64)
        self._frames = np.zeros(0, np.int32)
        self._kept_names: dict[tuple[int, int], str] = {}  # (dso, DIE) of functions seen innermost -> the symbol name that they keep, or ""

    def may_expand(self, number: int) -> bool:
        """Whether a dso has debug information with inlined calls."""
        return number >= 0 and self._finder(number) is not None

    def expand(self, frames: Ids, counts: Int64, *, callers_first: bool = False, calls: bool = False) -> tuple[Ids, Int64]:
        """Return callchains with frames of inlined calls added.

        Args:
            frames: frame ids, one chain after the other.
            counts: frames per chain.
            callers_first: whether chains begin with the outermost frame.
            calls: whether all frames are callers, also the innermost ones.
        """
        if not len(frames) or not self._is_any_in_debug_information(frames):
            return frames, counts
        bounds = np.concatenate([[0], np.cumsum(counts)])
        starts = distinct(np.searchsorted(bounds, np.arange(0, len(frames), _BLOCK), "right") - 1)  # a block of whole chains each
        starts[0] = 0  # the first chains may be empty
        blocks = [
            self._expand(frames[bounds[first] : bounds[end]], counts[first:end], callers_first=callers_first, calls=calls)
            for first, end in pairwise([*starts.tolist(), len(counts)])
        ]
        return blocks[0] if len(blocks) == 1 else (np.concatenate([one for one, _ in blocks]), np.concatenate([one for _, one in blocks]))

    def _is_any_in_debug_information(self, frames: Ids) -> bool:
        """Whether a file of some of these frames has debug information."""
        table = self._symbolizer.resolve()
        is_present = np.zeros(len(table), np.bool_)
        is_present[frames] = True
        is_present &= (table.symbol >= 0) & ((table.level == _USER) | (table.level == _KERNEL) & self._style.in_kernel)
        return any(self.may_expand(number) for number in distinct(table.dso[is_present]).tolist())

    def _expand(self, frames: Ids, counts: Int64, *, callers_first: bool, calls: bool) -> tuple[Ids, Int64]:
        ends = np.cumsum(counts)
        mirror = np.repeat(2 * ends - counts - 1, counts) - np.arange(len(frames)) if callers_first else slice(None)
        states = self._states(frames, counts, callers_first=callers_first, calls=calls)
        self._look_up(states[mirror])
        replacements = self._count[states]
        is_replaced = np.flatnonzero(replacements)
        if not len(is_replaced):
            return frames, counts
        lengths = np.maximum(replacements, 1)
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        index, groups = slices_index(self._start[states[is_replaced]], replacements[is_replaced])
        if callers_first:
            index = index[np.repeat(groups[:-1] + groups[1:] - 1, replacements[is_replaced]) - np.arange(len(index))]
        result = np.repeat(frames.astype(np.int32, copy=False), lengths)  # the number of an inlined frame may need more bytes
        result[slices_index(bounds[is_replaced], replacements[is_replaced])[0]] = self._frames[index]
        return result, bounds[ends] - bounds[ends - counts]

    def _states(self, frames: Ids, counts: Int64, *, callers_first: bool, calls: bool) -> Int64:
        """Return each frame's id times two, plus 1 for callers, whose address is after the call."""
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
            states[rows if calls else rows[~innermost]] |= 1
        return states

    def _look_up(self, states: Int64) -> None:
        """Look up states that are not known yet, in their order."""
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
        may_expand = (table.symbol[frames] >= 0) & ((level == _USER) | (level == _KERNEL) & self._style.in_kernel)
        states = states[may_expand & ~self._symbolizer.is_recorded(frames)]
        dso = table.dso[states >> 1]
        for number in distinct(dso).tolist():
            finder = self._finder(number)
            if finder is not None:
                self._look_up_dso(number, finder, states[dso == number], table)

    def _look_up_dso(self, number: int, finder: InlineFinder, states: Int64, table: FrameTable) -> None:
        """Look up the frames of one dso and store their replacements."""
        frames = states >> 1
        # A frame interrupted at its function's first instruction has not called anything.
        addresses = table.address[frames] - ((states & 1 != 0) & (table.symbol_offset[frames] > 0))
        unique = distinct(addresses)
        linked = self._link_addresses(number, unique)
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
            is_v0 = bool(functions) and finder.names[functions[-1][0]].startswith(_RUST_V0)
            frame_symbols = self._symbols(base, self._names(finder, number, base, bias, functions), keeps_own=is_v0)
            if not frame_symbols:
                continue
            self._start[state], self._count[state] = first + len(bases), count
            table.called_from |= {next_frame + len(bases) + depth: function[1:4] for depth, function in enumerate(functions[:-1], 1)}
            bases += [frame] * count
            symbols += frame_symbols
        inlined_frames = self._symbolizer.add_inlined(np.array(bases, np.int32), np.array(symbols, np.int32))
        self._frames = np.concatenate([self._frames, inlined_frames])

    def _link_addresses(self, number: int, addresses: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Convert addresses of a dso to link-time addresses."""
        if image := self._symbolizer.image(number):
            return addresses - np.uint64(image[1] % (1 << 64))
        runtime = self._symbolizer.files(number).runtime
        return addresses if runtime is None else link_addresses(runtime, addresses)

    def _names(self, finder: InlineFinder, number: int, base: int, bias: int, rows: list[CallRow]) -> list[str]:
        """Return the names of functions, innermost first.

        Args:
            finder: the functions of the dso.
            number: the dso.
            base: the symbol of the frame.
            bias: the distance of link-time addresses from addresses in the dso.
            rows: the functions, innermost first.
        """
        names = [self._symbolizer.shown_name(finder.names[row[0]]) or _NO_NAME for row in rows]
        if self._style.as_addr2line:
            for depth, (*_, die, low) in enumerate(rows):
                kept_name = self._kept_names.get((number, die)) if die >= 0 else ""
                if kept_name is None and not depth:
                    kept_name = self._symbolizer.symbols.name(base)
                    starts_there = (self._symbolizer.symbols.start(base) + bias) % (1 << 64) == low
                    self._kept_names[number, die] = kept_name if starts_there else ""
                names[depth] = kept_name or names[depth]
        return names

    def _symbols(self, base: int, names: list[str], *, keeps_own: bool) -> list[int]:
        """Return the symbols of the frames that replace one in the symbol `base`, innermost first; empty if the frame stays.

        keeps_own: whether the outermost function keeps `base` whatever its name.
        """
        symbols = self._symbolizer.symbols
        own_name = symbols.name(base)
        # A function with the symbol's name gets the symbol, even if it was inlined into a namesake.
        callee_symbols = [base if name == own_name else symbols.inlined_into(base, name) for name in names[:-1]]
        if self._style.names_decide and not keeps_own and names and names[-1] != own_name:
            return [*callee_symbols, symbols.inlined_into(base, names[-1])]
        return [*callee_symbols, base] if callee_symbols else []

    def _finder(self, number: int) -> InlineFinder | None:
        if number not in self._finders:
            self._finders[number] = self._new_finder(number)
        return self._finders[number]

    def _new_finder(self, number: int) -> InlineFinder | None:
        """Return the finder for the file with the debug information of a dso."""
        root, keeps = self._symbolizer.root, self._symbolizer.caches
        if image := self._symbolizer.image(number):
            return _finder_in(root, image[0], keeps=keeps)
        if self._symbolizer.dsos[number].kind is not DsoKind.FILE:
            return None
        files = self._symbolizer.files(number)
        return files.once(lambda sources: _finder_in(root, sources.symbols, sources.runtime, keeps=keeps), "inlined calls")


def _finder_in(root: str, *files: ElfFile | None, keeps: bool) -> InlineFinder | None:
    """Return the finder for the first of the files that has debug information."""
    file = next(
        (file for file in files if file and (file.section(".debug_info") is not None or file.section(".zdebug_info") is not None)), None
    )
    return InlineFinder(UnitIndex(DebugSections(file, root)), keeps=keeps) if file else None
