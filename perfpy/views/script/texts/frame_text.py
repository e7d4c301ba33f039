"""Addresses with their symbols and dsos as `perf script` prints them, and callchains.

Each distinct frame, and each distinct callchain of a batch, is formatted once.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.startup import NamedTuple
from perfpy.symbols.dso import UNKNOWN_NAME, Dso, DsoKind
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from perfpy.analysis.samples.source_texts import SourceTexts
    from perfpy.symbols.symbolizer import Symbolizer

_NO_NAME: Final = b"[unknown]"
_INLINED: Final = b" (inlined)"


class FrameStyle(NamedTuple):
    """The parts of a frame that are printed.

    Attributes:
        address_width: digits of the address; None for no address
        kernel_path: print the path of the kernel's symbols instead of [kernel.kallsyms]
        source: print the source line on its own line
    """

    address_width: int | None = 16
    symbol: bool = True
    offset: bool = True
    dso: bool = True
    dso_offset: bool = False
    kernel_path: bool = False
    source: bool = False

    @classmethod
    def of(cls, fields: Collection[str], *, kernel_path: bool = False, address_width: int | None = 16) -> FrameStyle:
        """Return the style of a set of -F fields."""
        return cls(address_width, "sym" in fields, "symoff" in fields, "dso" in fields, "dsoff" in fields, kernel_path, "srcline" in fields)


class FrameTexts:
    """The texts of all frames in one style, " ADDRESS SYMBOL+OFFSET (DSO)"; grows with the symbolizer's table."""

    def __init__(
        self, symbolizer: Symbolizer, style: FrameStyle, before: bytes = b"", after: bytes = b"", sources: SourceTexts | None = None
    ) -> None:
        self._symbolizer = symbolizer
        self._sources = sources if style.source else None
        self._style = style
        self._before = before
        self._after = after
        self._symbol_names: list[bytes] = []
        self.texts: list[bytes] = []

    def update(self) -> list[bytes]:
        """Return the text of every frame so far, by frame id."""
        frames = self._symbolizer.resolve()
        first_new = len(self.texts)
        if first_new < len(frames):
            self.texts.extend(self._format_new(first_new))
        return self.texts

    def _format_new(self, first_new: int) -> list[bytes]:
        frames, style = self._symbolizer.frames, self._style
        count = len(frames) - first_new
        parts: list[list[bytes]] = []
        if style.address_width is not None:
            form = self._before + b"%%%dx" % style.address_width
            parts.append([form % ip for ip in frames.ip[first_new:].tolist()])
        else:
            parts.append([self._before] * count)
        if style.symbol:
            parts.append(self._symbols(first_new))
        if style.dso:
            parts.append(self._dsos(first_new))
        if self._sources is not None:
            parts.append(self._lines(self._sources, np.arange(first_new, len(frames))))
        if self._symbolizer.inliner is not None:
            parts.append([_INLINED if inlined else b"" for inlined in self._are_inlined(first_new)])
        parts.append([self._after] * count)
        return list(map(b"".join, zip(*parts, strict=True)))

    def _symbols(self, first_new: int) -> list[bytes]:
        frames, symbols = self._symbolizer.frames, self._symbolizer.symbols
        for number in range(len(self._symbol_names), len(symbols)):
            self._symbol_names.append(_encode(symbols.name(number)))
        names = self._symbol_names
        pairs = zip(frames.symbol[first_new:].tolist(), frames.symbol_offset[first_new:].tolist(), strict=True)
        blank = b" " if self._style.address_width is not None else b""
        if not self._style.offset:
            return [blank + (names[symbol] if symbol >= 0 else _NO_NAME) for symbol, _ in pairs]
        return [blank + (b"%s+0x%x" % (names[symbol], offset) if symbol >= 0 else _NO_NAME) for symbol, offset in pairs]

    def _lines(self, sources: SourceTexts, frames: NDArray[np.int64]) -> list[bytes]:
        """Return the source line of each frame; empty without a mapping."""
        return [b"\n  " + _encode(text) if text else b"" for text in sources.in_files(frames)]

    def _dsos(self, first_new: int) -> list[bytes]:
        frames, dsos = self._symbolizer.frames, self._symbolizer.dsos
        names = [b" (" + _encode(dso.long_name if self._style.kernel_path else _plain_name(dso)) for dso in dsos]
        names.append(b" (" + UNKNOWN_NAME.encode())  # for dso -1
        if not self._style.dso_offset:
            ends = [name + b")" for name in names]
            inlined = self._are_inlined(first_new)
            return [b"" if hidden else ends[dso] for dso, hidden in zip(frames.dso[first_new:].tolist(), inlined, strict=True)]
        # the kernel's path is shown only while it has no symbols
        with_symbol = set(frames.dso[frames.symbol >= 0].tolist())
        plain = [dso.kernel and number in with_symbol for number, dso in enumerate(dsos)] + [True]
        pairs = zip(frames.dso[first_new:].tolist(), frames.address[first_new:].tolist(), strict=True)
        texts = [names[dso] + (b")" if plain[dso] else b"+0x%x)" % address) for dso, address in pairs]
        return [b"" if inlined else text for text, inlined in zip(texts, self._are_inlined(first_new), strict=True)]

    def _are_inlined(self, first_new: int) -> list[bool]:
        """Return which frames, from one on, are inlined calls; these have no dso."""
        symbols = self._symbolizer.symbols
        inlined = np.array([symbols.is_inlined(number) for number in range(len(symbols))] + [False], np.bool_)
        is_inlined: list[bool] = inlined[self._symbolizer.frames.symbol[first_new:]].tolist()
        return is_inlined


def _plain_name(dso: Dso) -> str:
    """Return the name of a dso as it was mapped; a kernel module's [name], unless the file lists it with a build-id."""
    return dso.short_name if dso.kind is DsoKind.MODULE and not dso.listed else dso.name


def _encode(name: str) -> bytes:
    return one_line(name).encode("utf-8", "surrogateescape")


def chain_texts(frames: NDArray[np.int32], counts: NDArray[np.int64], lines: list[bytes]) -> list[bytes]:
    """Return the lines of each callchain.

    Args:
        frames: frame ids, one callchain after the other
        counts: the length of each callchain
        lines: the line of each frame, by id
    """
    # imported here because only callchains need it
    from perfpy.analysis.samples.callchains import ChainTable

    table = ChainTable()
    chains = table.add(frames, counts)
    ids, offsets = table.chains()
    each = list(map(lines.__getitem__, ids.tolist()))
    bounds = offsets.tolist()
    texts = [b"".join(each[begin:end]) for begin, end in itertools.pairwise(bounds)]
    return list(map(texts.__getitem__, chains.tolist()))


def outermost_first(frames: NDArray[np.int32], counts: NDArray[np.int64]) -> NDArray[np.int32]:
    """Reverse the frames of every callchain."""
    ends = np.cumsum(counts)
    return frames[np.repeat(2 * ends - counts - 1, counts) - np.arange(len(frames))]


def truncate_chains(frames: NDArray[np.int32], counts: NDArray[np.int64], most: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Truncate callchains to the first `most` frames."""
    if not len(counts) or int(counts.max()) <= most:
        return frames, counts
    starts = np.cumsum(counts) - counts
    position = np.arange(len(frames)) - np.repeat(starts, counts)
    return frames[position < most], np.minimum(counts, most)
