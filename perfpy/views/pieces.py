"""Lines of text for thousands of samples, joined from pieces.

A Piece has one part of the line for all samples. The result is a flat list of bytes with the same number of entries for every sample,
ready for b"".join, or for many samples without texts of their own, one text that numpy assembles. Each distinct text is made once.
Adjacent pieces are fused before Python handles them: fixed-width columns by numpy, coded pieces by pairing their codes.
"""

from __future__ import annotations

import numpy as np

from perfpy.abi.columns import Growing, rows_where
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Final, TypeAlias

    from numpy.typing import NDArray

    from perfpy.symbols.interning import IdTable

_WIDEST: Final = 64  # bytes of a text that may be copied into a fixed-width column
_MOST_COPIED: Final = 256  # texts of a coded piece that may be copied into a fixed-width column
_MOST_PAIRS: Final = 1 << 18
_WORTH_BLOCK: Final = 256  # lines
_LONGEST_BLOCK: Final = 1 << 24  # bytes: names may be long
_FEW_WIDTHS: Final = 4  # of texts that are copied by their exact widths
_WIDEST_MOVE: Final = 128  # bytes that are moved for a shorter text


class Coded(NamedTuple):
    """texts[codes[i]] is the text of sample i. A code has the same text in every batch; texts only grow."""

    codes: NDArray[Any]
    texts: Sequence[bytes]


#: One text for all samples; texts by code; or a text for each sample (a list, or bytes of equal width without trailing NULs).
Piece: TypeAlias = "bytes | Coded | list[bytes] | NDArray[np.bytes_]"


class Flat(NamedTuple):
    """The texts of all samples, `stride` entries each."""

    parts: list[bytes]
    stride: int

    @property
    def size(self) -> int:
        """The number of samples."""
        return len(self.parts) // self.stride

    def slice(self, begin: int, end: int) -> list[bytes]:
        """Return the entries of some samples."""
        return self.parts[begin * self.stride : end * self.stride]

    def lines(self) -> list[bytes]:
        """Return one entry for each sample."""
        if self.stride == 1:
            return self.parts
        columns = [self.parts[i :: self.stride] for i in range(self.stride)]
        return list(map(b"".join, zip(*columns, strict=True)))


class TextBlock(NamedTuple):
    """The text of all samples' lines in one piece. Line i ends at ends[i]; its interface is Flat's."""

    data: bytes
    ends: NDArray[np.int64]

    @property
    def parts(self) -> list[bytes]:
        """The whole text."""
        return [self.data]

    def slice(self, begin: int, end: int) -> list[bytes]:
        """Return the text of some samples."""
        ends = self.ends
        return [self.data[int(ends[begin - 1]) if begin else 0 : int(ends[end - 1])]] if begin < end else []

    def lines(self) -> list[bytes]:
        """Return one entry for each sample."""
        ends = self.ends.tolist()
        return [self.data[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


class ValueTexts:
    """A cache of the texts of numbers."""

    def __init__(self, text: Callable[[int], bytes]) -> None:
        from perfpy.symbols.interning import IdTable

        self._text = text
        self._table = IdTable()
        self._texts: list[bytes] = []

    def piece(self, values: NDArray[Any]) -> Piece:
        """Return the piece of a column of integers."""
        if len(self._texts) > _MOST_PAIRS:
            return list(map(self._text, values.tolist()))
        codes, new = self._table.ids_and_new(
            values.astype(np.int64).view(np.uint64) if values.dtype.kind == "i" else values.astype(np.uint64)
        )
        self._texts.extend(map(self._text, values[new].tolist()))
        return Coded(codes, self._texts)


class Joiner:
    """Joins the pieces of one kind of line, batch after batch; caches fused texts."""

    def __init__(self) -> None:
        self._pairs: dict[tuple[object, ...], tuple[IdTable, list[bytes]]] = {}
        self._ended: tuple[Sequence[bytes], bytes, list[bytes]] | None = None  # texts, what follows them, and both
        self._packed: dict[int, _PackedTexts] = {}  # by position among the pieces

    def join(self, pieces: Sequence[Piece], count: int) -> Flat | TextBlock:
        """Join all pieces in order, for `count` samples."""
        if count >= _WORTH_BLOCK and not any(isinstance(piece, list) for piece in pieces):
            block = self._block(_join_constants(pieces), count)
            if block is not None:
                return block
        columns = self._end_coded(self._fuse(list(pieces), count))
        stride = len(columns)
        if stride == 1:
            return Flat(_as_list(columns[0], count), 1)
        parts: list[bytes] = [b""] * (stride * count)
        for index, column in enumerate(columns):
            parts[index::stride] = _as_list(column, count)
        return Flat(parts, stride)

    def _block(self, pieces: list[Piece], count: int) -> TextBlock | None:
        """Join pieces without a list of texts by copying each into its place; return None if the text would be very long."""
        columns: list[NDArray[Any] | _Chosen] = []
        packed = _pack_fixed(pieces, count)
        for position, piece in enumerate(packed):
            if isinstance(piece, bytes):
                if not (columns and isinstance(columns[-1], _Chosen)):  # otherwise it ends the texts before it
                    columns.append(np.full(count, np.void(piece)))
            elif isinstance(piece, Coded):
                after = packed[position + 1] if position + 1 < len(packed) else b""
                columns.append(self._texts_at(position, piece.texts, after if isinstance(after, bytes) else b"").chosen(piece.codes))
            else:
                columns.append(np.asarray(piece))
        sizes = [column.sizes if isinstance(column, _Chosen) else column.dtype.itemsize for column in columns]
        lengths = np.full(count, sum(size for size in sizes if isinstance(size, int)), np.int64)
        for size in sizes:
            if not isinstance(size, int):
                lengths += size
        ends = lengths.cumsum()
        if ends[-1] > _LONGEST_BLOCK:
            return None
        text = _Text(int(ends[-1]))
        column_ends = [ends]
        for size in reversed(sizes[1:]):
            column_ends.insert(0, column_ends[0] - size)
        is_fixed = [isinstance(column, np.ndarray) for column in columns]
        # columns of equal width last, because they may overwrite what the texts after them have written too much
        for index in sorted(range(len(columns)), key=is_fixed.__getitem__):
            column, before = columns[index], sizes[index - 1]
            if isinstance(column, _Chosen):
                text.put(column_ends[index], column, before if isinstance(before, int) else 0)
            else:
                text.put_fixed(column_ends[index], column)
        return TextBlock(text.data(), ends)

    def _texts_at(self, position: int, texts: Sequence[bytes], end: bytes) -> _PackedTexts:
        """Return the texts of the coded piece at a position, each with an end."""
        packed = self._packed.get(position)
        if packed is None or packed.texts is not texts or packed.end != end:
            packed = self._packed[position] = _PackedTexts(texts, end)
        return packed

    def _fuse(self, pieces: list[Piece], count: int) -> list[Piece]:
        """Fuse adjacent pieces where possible."""
        if not pieces:
            return [b""]
        return self._pair_coded(_pack_fixed(_join_constants(pieces), count))

    def _pair_coded(self, pieces: list[Piece]) -> list[Piece]:
        """Fuse coded pieces, and constants between them, while there are few distinct pairs."""
        index = 0
        pairs: tuple[object, ...] = tuple(map(type, pieces))  # what was fused so far decides what a pair is
        while index < len(pieces) - 1:
            between = pieces[index + 1]
            far = index + 2 if isinstance(between, bytes) and index + 2 < len(pieces) else index + 1
            first, second = pieces[index], pieces[far]
            if isinstance(first, Coded) and isinstance(second, Coded):
                pair = self._pair(pairs, first, between if far == index + 2 and isinstance(between, bytes) else b"", second)
                pairs = (*pairs, pair is not None)
                if pair is not None:
                    pieces[index : far + 1] = [pair]
                    continue
            index += 1
        return pieces

    def _end_coded(self, pieces: list[Piece]) -> list[Piece]:
        """Fuse a coded piece with the constant at the end of the line, while the piece has the same list of texts."""
        if len(pieces) < 2 or not isinstance(pieces[-1], bytes) or not isinstance(pieces[-2], Coded):
            return pieces
        (codes, texts), end = pieces[-2], pieces[-1]
        if self._ended is None:
            self._ended = texts, end, []
        known, same_end, ended = self._ended
        if known is not texts or same_end != end:
            return pieces
        ended.extend(text + end for text in texts[len(ended) :])
        return [*pieces[:-2], Coded(codes, ended)]

    def _pair(self, position: tuple[object, ...], first: Coded, between: bytes, second: Coded) -> Coded | None:
        from perfpy.symbols.interning import IdTable

        table, texts = self._pairs.setdefault(position, (IdTable(), []))
        if len(texts) > _MOST_PAIRS:
            return None
        keys = first.codes.astype(np.uint64) << np.uint64(32) | second.codes.astype(np.uint64)
        codes, new = table.ids_and_new(keys)
        pairs = zip(first.codes[new].tolist(), second.codes[new].tolist(), strict=True)
        texts.extend(first.texts[a] + between + second.texts[b] for a, b in pairs)
        return Coded(codes, texts)


class _Chosen(NamedTuple):
    """Texts of samples within a longer text: where each begins, and its size."""

    text: NDArray[np.uint8]
    begins: NDArray[np.int64]
    sizes: NDArray[np.int64]


class _PackedTexts:
    """Texts by code in one array, which grows with them; `end` follows each."""

    def __init__(self, texts: Sequence[bytes], end: bytes) -> None:
        self.texts, self.end = texts, end
        self._text, self._ends = Growing(np.uint8, np.zeros(_WIDEST_MOVE)), Growing(np.int64, [_WIDEST_MOVE])

    def chosen(self, codes: NDArray[Any]) -> _Chosen:
        """Return the texts of codes."""
        count, ends = len(self._ends.values) - 1, self._ends
        if count < len(self.texts):
            new = self.texts[count:]
            sizes = np.fromiter(map(len, new), np.int64, len(new)) + len(self.end)
            ends.append(int(ends.values[-1]) + np.cumsum(sizes))
            self._text.append(np.frombuffer(self.end.join([*new, b""]), np.uint8))
        codes = np.where(codes < 0, codes + len(self.texts), codes) if codes.dtype.kind == "i" and codes.min() < 0 else codes
        begins = ends.values.take(codes)
        return _Chosen(self._text.values, begins, ends.values[1:].take(codes) - begins)


class _Text:
    """A text in the making, whose parts are put into their places.

    numpy moves items of any size at any offset, so items of k bytes are moved by views whose items begin at each byte and overlap.
    """

    def __init__(self, size: int) -> None:
        self._room = np.empty(_WIDEST_MOVE + size, np.uint8)

    def data(self) -> bytes:
        """Return the text."""
        return self._room[_WIDEST_MOVE:].tobytes()

    def put_fixed(self, ends: NDArray[np.int64], column: NDArray[Any]) -> None:
        """Put a text of equal size before each position."""
        size = column.dtype.itemsize
        _items(self._room, size)[ends + (_WIDEST_MOVE - size)] = column.view(f"V{size}")

    def put(self, ends: NDArray[np.int64], chosen: _Chosen, unwritten: int) -> None:
        """Put a text before each position.

        All are moved with the size of the longest if that overwrites at most the `unwritten` bytes before each text. Otherwise texts of a
        few sizes are moved as they are, and others by two overlapping parts whose sizes are powers of two.
        """
        sizes = chosen.sizes
        longest = int(sizes.max())
        if 0 < longest <= _WIDEST_MOVE and longest - int(sizes.min()) <= unwritten:
            source = _items(chosen.text, longest)
            _items(self._room, longest)[ends + (_WIDEST_MOVE - longest)] = source[chosen.begins + sizes - longest]
            return
        positions = ends - sizes + _WIDEST_MOVE
        counts = np.bincount(sizes)
        widths = rows_where(counts).tolist()
        is_exact = len(widths) <= _FEW_WIDTHS
        if not is_exact:
            powers = np.frexp(sizes.astype(np.float64))[1]  # of the smallest power of two above
            widths = [1 << power - 1 for power in rows_where(np.bincount(powers)).tolist() if power]
        for width in filter(None, widths):
            rows = None if len(widths) == 1 and counts[0] == 0 else rows_where(sizes == width if is_exact else powers == width.bit_length())
            to, source = (positions, chosen.begins) if rows is None else (positions[rows], chosen.begins[rows])
            into, items = _items(self._room, width), _items(chosen.text, width)
            into[to] = items[source]
            if not is_exact:
                rest = (sizes if rows is None else sizes[rows]) - width
                into[to + rest] = items[source + rest]


def _items(text: NDArray[np.uint8], size: int) -> NDArray[Any]:
    """Return the items of a size that begin at each byte of a text."""
    return np.ndarray((len(text) - size + 1,), f"V{size}", text, strides=(1,))


def repeat(pieces: list[Piece], rows: NDArray[np.intp], count: int) -> list[Piece]:
    """Return the pieces of more samples.

    Args:
        pieces: of `count` samples.
        rows: for each of the new samples, the one whose texts it has.
    """
    repeated: list[Piece] = []
    for piece in _pack_fixed([piece for piece in pieces if len(piece)], count):
        if isinstance(piece, Coded):
            repeated.append(Coded(piece.codes.take(rows), piece.texts))
        elif isinstance(piece, np.ndarray):
            repeated.append(piece.take(rows))
        else:
            repeated.append(piece if isinstance(piece, bytes) else list(map(piece.__getitem__, rows.tolist())))
    return repeated


def text_of(pieces: Sequence[Piece], count: int) -> bytes:
    """Return the text of all lines. Lines of equal width are joined by numpy.

    Args:
        pieces: of the lines.
        count: the number of lines.
    """
    if (equal := text_of_equal_lines(pieces, count)) is not None:
        return equal
    return b"".join(Joiner().join(pieces, count).parts)


def text_of_equal_lines(pieces: Sequence[Piece], count: int) -> bytes | None:
    """Return the text of lines of equal width, or None if their widths may differ."""
    if not pieces or not all(_has_one_width(piece, count) for piece in pieces):
        return None
    (rows,) = _pack(list(pieces), count)
    return rows.tobytes() if isinstance(rows, np.ndarray) else b""


def _has_one_width(piece: Piece, count: int) -> bool:
    """Whether all texts have the same width, and there are few enough of them to copy."""
    if isinstance(piece, (bytes, np.ndarray)):
        return bool(len(piece))
    if isinstance(piece, list) or not 0 < len(piece.texts) <= count:
        return False
    width = len(piece.texts[0])
    return 0 < width <= _WIDEST and set(map(len, piece.texts)) == {width} and not any(text.endswith(b"\0") for text in piece.texts)


def _join_constants(pieces: Sequence[Piece]) -> list[Piece]:
    """Join adjacent texts of all samples, and leave empty ones out."""
    joined: list[Piece] = []
    for piece in pieces:
        if joined and isinstance(joined[-1], bytes) and isinstance(piece, bytes):
            joined[-1] += piece
        elif not isinstance(piece, bytes) or piece:
            joined.append(piece)
    return joined


def _as_list(piece: Piece, count: int) -> list[bytes]:
    if isinstance(piece, bytes):
        return [piece] * count
    if isinstance(piece, Coded):
        return list(map(piece.texts.__getitem__, piece.codes.tolist()))
    return piece if isinstance(piece, list) else piece.tolist()


def _pack_fixed(pieces: list[Piece], count: int) -> list[Piece]:
    """Fuse fixed-width columns with adjacent constants and columns."""
    packed: list[Piece] = []
    run: list[Piece] = []
    for piece in [*pieces, None]:
        if piece is not None and _may_be_fixed(piece):
            run.append(piece)
            continue
        packed.extend(_pack(run, count) if any(isinstance(one, np.ndarray) for one in run) else run)
        run = []
        if piece is not None:
            packed.append(piece)
    return packed


def _may_be_fixed(piece: Piece) -> bool:
    """Whether the piece may become a fixed-width column."""
    if isinstance(piece, np.ndarray):
        return True
    if isinstance(piece, bytes):
        return len(piece) <= _WIDEST and piece[-1:] != b"\0"
    if isinstance(piece, Coded) and 0 < len(piece.texts) <= _MOST_COPIED:
        width = len(piece.texts[0])
        return 0 < width <= _WIDEST and all(len(text) == width and text[-1] for text in piece.texts)
    return False


def _pack(run: list[Piece], count: int) -> list[Piece]:
    columns: list[Any] = [np.array(one.texts).take(one.codes) if isinstance(one, Coded) else np.asarray(one) for one in run]
    layout = np.dtype([(f"f{i}", column.dtype) for i, column in enumerate(columns)])
    rows = np.empty(count, layout)
    for i, column in enumerate(columns):
        rows[f"f{i}"] = column
    return [rows.view(f"S{layout.itemsize}")]


# Colours of shares: perf's red and green. Shares get a style of rich, or escape sequences around their text.

_RED: Final = "[31m"
_GREEN: Final = "[32m"
_RESET: Final = "[m"
_MUCH: Final = 5.0
_SOMETHING: Final = 0.5


def colour_share(percent: float, text: str, escape: str) -> str:
    """Return `text` in red from 5 %, in green above 0.5 %, else unchanged; escape: the beginning of escape sequences."""
    size = abs(percent)  # differences may be negative
    if size <= _SOMETHING:
        return text
    return in_colour(_RED if size >= _MUCH else _GREEN, text, escape)


def in_colour(colour: str, text: str, escape: str) -> str:
    """Return `text` in a colour of the terminal; escape: the beginning of escape sequences."""
    return f"{escape}{colour}{text}{escape}{_RESET}"


def share_style(percent: float) -> str:
    """Return rich's style of a share; "" for small ones."""
    if percent >= _MUCH:
        return "bold red"
    return "green" if percent >= _SOMETHING else ""
