"""A tracepoint's print format as a Printer, which formats many samples at once.

A Printer has a Python format and a column of values for each conversion. The "%" operator applies the format to each row. That is as
fast as code generated for the event, and nothing in a file is executed.

The file determines the text and its length. Printer.fixed and Printer.growth bound the length before any text is made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from perfpy.perfdata.print_format import (
    Atom,
    Cast,
    Conditional,
    DynamicArray,
    DynamicLength,
    DynamicText,
    Element,
    Expression,
    FieldValue,
    Flags,
    HexBytes,
    NumberArray,
    Operation,
    PrintFormat,
    PrintFormatError,
    PrintFormatLimitError,
    Symbolic,
    number,
)
from perfpy.views.tracepoints import values as trace_values
from perfpy.views.tracepoints.values import Runtime, Words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.perfdata.event_format import TraceField

    Numbers: TypeAlias = "NDArray[np.uint64]"


# The conversions in the format string of a tracepoint's print format.
#
# The parser splits the C format string of a PrintFormat, with escapes as written, into plain text and Conversions.


_CONVERSION: Final = re.compile(r"%(?P<flags>[-+#0-9.*]*)(?P<long>[hlLzZ]*)(?P<rest>[-+#0-9.*]*)(?P<kind>.)", re.DOTALL)
_PYTHON_FLAGS: Final = re.compile(r"[-+#0]*(?:[0-9]{1,4}|\*)?(?:\.(?:[0-9]{0,4}|\*))?")
_POINTER: Final = re.compile(r"[FSfs]|[Mm][RF]?|[Ii]S[pfs]*[hnlb]?c?|[Ii]4[hnlb]?|[Ii]6c?|[Ii]|U[LlBb]?|h[CDN]?")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
_KINDS_OF_ARGUMENTS: Final = "pcduixXos"
_LENGTH_BITS: Final = {-2: 8, -1: 16, 0: 32, 1: 64, 2: 64}


class Conversion(NamedTuple):
    """A conversion such as %-08lx.

    Attributes:
        flags: "-08"
        long: the length letters, "l"
        kind: "x"; "" for an invalid conversion
        letters: letters after %p that belong to it
    """

    text: str
    flags: str
    long: str
    kind: str
    letters: str

    @property
    def takes_argument(self) -> bool:
        """Whether perf's library supports the conversion."""
        return self.kind != "" and self.kind in _KINDS_OF_ARGUMENTS

    @property
    def stars(self) -> int:
        """The number of arguments for the width and precision."""
        return self.flags.count("*")

    @property
    def python_flags(self) -> str:
        """Return the flags of the equivalent Python conversion. Raises PrintFormatError if there are none, or for widths of thousands."""
        if _PYTHON_FLAGS.fullmatch(self.flags) is None:
            raise PrintFormatError(f"a conversion that is none: {self.text[:20]!r}")
        return self.flags

    @property
    def width(self) -> int:
        """The largest number of characters of its width and precision."""
        return widest(self.python_flags)

    @property
    def bits(self) -> int:
        """Return the number of bits of the length letters. Raises PrintFormatError for unknown letters."""
        marks = sum({"h": -1, "l": 1}.get(mark, 0) for mark in self.long)
        marks = 2 if "L" in self.long else 1 if re.search("[zZ]", self.long) else marks
        if marks not in _LENGTH_BITS:
            raise PrintFormatError("bad count")
        return _LENGTH_BITS[marks]


def split(literal: str) -> list[tuple[str, Conversion | None]]:
    """Split a C format into pairs of plain text and the following conversion, or None."""
    parts: list[tuple[str, Conversion | None]] = []
    text: list[str] = []
    i = 0
    while i < len(literal):
        char = literal[i]
        if char == "\\" and i + 1 < len(literal):
            text.append(_ESCAPES.get(literal[i + 1], literal[i + 1]))
            i += 2
        elif char == "%" and literal[i + 1 : i + 2] == "%":
            text.append("%")
            i += 2
        elif char == "%":
            conversion = _conversion(literal, i)
            parts.append(("".join(text), conversion))
            text = []
            i += len(conversion.text)
        else:
            text.append(char)
            i += 1
    parts.append(("".join(text), None))
    return parts


def _conversion(literal: str, start: int) -> Conversion:
    """Parse the conversion at `start`."""
    match = _CONVERSION.match(literal, start)
    if match is None:
        return Conversion(literal[start:], "", "", "", "")
    letters = _POINTER.match(literal, match.end()) if match["kind"] == "p" else None
    own_letters = letters[0] if letters else ""
    return Conversion(match[0] + own_letters, match["flags"] + match["rest"], match["long"], match["kind"], own_letters)


def widest(conversion: str) -> int:
    """Return the largest number in a conversion."""
    return max((int(digits) for digits in re.findall("[0-9]+", conversion)), default=0)


def field_formats(parsed: PrintFormat) -> dict[str, PrintFormat]:
    """Return the first conversion of each field that is printed as a plain number, with "0x" before it if the format has it."""
    formats: dict[str, PrintFormat] = {}
    arguments = iter(parsed.arguments)
    for literal, conversion in split(parsed.literal):
        if conversion is None or not conversion.takes_argument:
            continue
        arguments_of_one = [*islice(arguments, conversion.stars + 1)]
        tree = arguments_of_one[-1] if arguments_of_one else None
        while isinstance(tree, Cast):
            tree = tree.item
        if isinstance(tree, FieldValue) and not conversion.stars:
            formats.setdefault(tree.name, PrintFormat(f"{'0x' if literal.endswith('0x') else ''}{conversion.text}", (arguments_of_one[0],)))
    return formats


# The raw data of many samples of one tracepoint, with their fields as columns.
#
# Nothing is read beyond a sample's end: missing data is 0 or empty, whatever offsets and sizes the tracepoint's format claims.


#: valid sizes of numbers
NUMBER_SIZES: Final = (1, 2, 4, 8)
_SHORT: Final = 256  # bytes; longer strings are rare and consist mostly of NULs
_LARGEST_ROW: Final = 1 << 16  # the size limit of records; larger offsets are in no record


class TraceRows:
    """Raw data, one row for each sample.

    Args:
        values: uint8
        starts, sizes: int64; the position of each row in `values`
        endian: "<" or ">"
    """

    def __init__(self, values: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64], endian: str) -> None:
        self.endian = endian
        self.sizes = sizes
        self._values = values
        self._starts = starts
        self._shortest = int(sizes.min()) if len(sizes) else 0
        self._data_ranges: dict[TraceField, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}

    def __len__(self) -> int:
        return len(self.sizes)

    def part(self, first: int, end: int) -> TraceRows:
        """Return consecutive rows."""
        return TraceRows(self._values, self._starts[first:end], self.sizes[first:end], self.endian)

    def number(self, offset: int, size: int) -> NDArray[np.uint64]:
        """Return the unsigned number at an offset of each row; 0 if it is not inside the row, or `size` is invalid."""
        if size not in NUMBER_SIZES or not 0 <= offset <= _LARGEST_ROW:
            return np.zeros(len(self), np.uint64)
        if offset + size <= self._shortest:
            return self._at_every_byte(f"u{size}")[self._starts + offset].astype(np.uint64, copy=False)
        return self.number_at(np.full(len(self), offset, np.int64), size)

    def number_at(self, offsets: NDArray[np.int64], size: int) -> NDArray[np.uint64]:
        """Return the unsigned number at each row's own offset; 0 if it is not inside the row, or `size` is invalid."""
        numbers = np.zeros(len(self), np.uint64)
        if size in NUMBER_SIZES:
            inside = np.flatnonzero((offsets >= 0) & (offsets + size <= self.sizes))
            if len(inside):
                numbers[inside] = self._at_every_byte(f"u{size}")[self._starts[inside] + offsets[inside]]
        return numbers

    def _at_every_byte(self, dtype: str) -> NDArray[Any]:
        """Return the bytes as numbers of a type, one starting at each byte."""
        kind = np.dtype(self.endian + dtype)
        return np.ndarray((len(self._values) - kind.itemsize + 1,), kind, np.ascontiguousarray(self._values), strides=(1,))

    def data_range(self, field: TraceField) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return offsets and lengths of the data of a dynamic field; length 0 if it is incomplete."""
        if field not in self._data_ranges:
            word = self.number(field.offset, field.size).astype(np.int64)
            offset = word & 0xFFFF
            length = self.sizes - offset if field.size == 2 else word >> 16 & 0xFFFF
            base = field.offset + field.size if field.is_relative else 0
            whole = (offset + length <= self.sizes) & (length > 0)
            self._data_ranges[field] = np.where(offset > self.sizes, 0, offset) + base, np.where(whole, length, 0)
        return self._data_ranges[field]

    def strings(self, offset: int, size: int) -> list[bytes]:
        """Return up to `size` bytes from an offset of each row, possibly without trailing NULs."""
        offset, size = min(offset, _LARGEST_ROW), min(size, _LARGEST_ROW)
        if 0 < size <= _SHORT and offset + size <= self._shortest:
            texts: list[bytes] = self._at_every_byte(f"S{size}")[self._starts + offset].tolist()
            return texts
        return self.slices(np.full(len(self), offset, np.int64), np.full(len(self), size, np.int64))

    def slices(self, offsets: NDArray[np.int64], lengths: NDArray[np.int64]) -> list[bytes]:
        """Return a slice of each row, truncated at the row's end."""
        first = np.minimum(offsets, self.sizes)
        starts = self._starts + first - self._low
        data = self._bytes
        ends = starts + np.minimum(lengths, self.sizes - first)
        return [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]

    @cached_property
    def raws(self) -> list[bytes]:
        """Return the bytes of each row."""
        return self.slices(np.zeros(len(self), np.int64), self.sizes)

    @cached_property
    def _low(self) -> int:
        return int(self._starts.min()) if len(self) else 0

    @cached_property
    def _bytes(self) -> bytes:
        """The bytes from the first to the last row."""
        end = int((self._starts + self.sizes).max()) if len(self) else 0
        return self._values[self._low : end].tobytes()


#: Computes the value of a conversion for each row.
Column: TypeAlias = Callable[[TraceRows], Iterable[Any]]
#: Computes (offsets, sizes) of an array in each row.
_DataRange: TypeAlias = "Callable[[TraceRows], tuple[NDArray[np.int64], NDArray[np.int64]]]"

_LARGEST: Final = np.uint64(1 << 16)  # the size limit of records

_ROWS_AT_ONCE: Final = 4096  # columns of more rows would leave the CPU's caches before they are formatted
_WIDEST: Final = 4096  # limit for widths that the data contains
_MOST_TEXTS: Final = 500  # limit for the pieces of one sample's text
_MOST_FIXED: Final = 1 << 18  # limit for the characters of a sample's text, apart from its data
_MOST_GROWTH: Final = 256  # limit for the characters for each byte of its data
_OF_NUMBER: Final = 40  # characters


@dataclass(slots=True)
class Printer:
    """The texts of one event's samples: `template`, filled with a row of `columns`.

    Attributes:
        fixed: the most characters of a text, apart from its data
        growth: the most further characters for each byte of the sample's data
    """

    template: str = ""
    columns: list[Column] = field(default_factory=list)
    may_hold_nul: bool = False
    fixed: int = 0
    growth: int = 0

    def texts(self, rows: TraceRows) -> list[str]:
        """Return the text of each row."""
        if not self.columns:
            return [self.template % ()] * len(rows)
        texts: list[str] = []
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            part = rows.part(first, first + _ROWS_AT_ONCE)
            texts += map(self.template.__mod__, zip(*(column(part) for column in self.columns), strict=True))
        return [text.partition("\0")[0] for text in texts] if self.may_hold_nul else texts


def make_printer(parsed: PrintFormat, runtime: Runtime) -> Printer:
    """Return the Printer of a print format.

    Raises PrintFormatError if conversions and arguments do not match, or if the text could exceed the limits.
    """
    return _Maker(runtime).make(parsed)


class _Maker:
    """A builder that collects the columns of one event's conversions."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._out = Printer()
        self._text_count = 0

    def make(self, parsed: PrintFormat) -> Printer:
        pieces: list[str] = []
        arguments = list(reversed(parsed.arguments))
        for literal, conversion in split(parsed.literal):
            pieces.append(literal.replace("%", "%%"))
            if conversion is not None:
                pieces.append(self._conversion(conversion, arguments))
        self._out.template = "".join(pieces)
        self._grow(len(self._out.template), 0)
        return self._out

    def _grow(self, fixed: int, growth: int) -> None:
        """Add a conversion to the bounds of the text."""
        self._out.fixed += fixed
        self._out.growth += growth
        if self._out.fixed > _MOST_FIXED or self._out.growth > _MOST_GROWTH:
            raise PrintFormatLimitError("it would print more than any sample holds")

    def _conversion(self, one: Conversion, arguments: list[Expression]) -> str:
        """Add the columns of a conversion, and return its part of the template.

        Args:
            arguments: the remaining arguments, last one first
        """
        if not one.takes_argument:
            return f">{one.kind or one.text[1:]}<".replace("%", "%%")
        stars = [arguments.pop() for _ in range(one.stars) if arguments]
        if len(stars) != one.stars or len(stars) > 1 or not arguments:
            raise PrintFormatError("no argument match")
        widths = [self._number(star) for star in stars]
        argument = arguments.pop()
        if one.kind == "p":
            return self._add("%s", self._pointer(one.letters, argument, widths))
        self._grow(one.width, 0)
        if widths:
            self._grow(_WIDEST, 0)
        # a precision that truncates a string may be large
        width = [_as_width(column, int(_LARGEST) if one.kind == "s" and ".*" in one.flags else _WIDEST) for column in widths]
        if one.kind == "s":
            return self._add("%s", self._text(argument, f"%{one.python_flags}s", width))
        return self._digits(one, argument, width)

    def _add(self, conversion: str, *columns: Column) -> str:
        self._out.columns.extend(columns)
        return conversion

    # numbers

    def _number(self, tree: Expression) -> NumberColumn:
        return number_column(tree, self._runtime.long_size)

    def _digits(self, one: Conversion, argument: Expression, width: list[Column]) -> str:
        self._grow(_OF_NUMBER, 0)
        number, bits = self._number(argument), one.bits
        if one.kind == "c":
            self._out.may_hold_nul = True
            return self._add(f"%{one.python_flags}c", *width, _list_column(lambda rows: number(rows) & np.uint64(0xFF)))
        cut = signed_column if one.kind in "di" else unsigned_column
        values = _list_column(lambda rows: cut(number(rows), bits))
        python = f"%{one.python_flags}{'d' if one.kind in 'diu' else one.kind}"
        if "#" not in one.flags:
            return self._add(python, *width, values)
        return self._add("%s", lambda rows: [trace_values.alternate(python, row) for row in _zip_columns(rows, *width, values)])

    # texts

    def _text(self, tree: Expression, python: str, width: list[Column]) -> Column:
        """Return the texts of an argument of %s; `python` is the conversion, which is applied to each piece."""
        self._text_count += 1
        if self._text_count > _MOST_TEXTS:
            raise PrintFormatLimitError(f"more than {_MOST_TEXTS} pieces of text")
        if isinstance(tree, Conditional):
            return self._choose(self._number(tree.condition), self._text(tree.yes, python, width), self._text(tree.no, python, width))
        if isinstance(tree, (Flags, Symbolic)):
            return self._flag_names(tree, python, width)
        if isinstance(tree, HexBytes):
            return self._hex_bytes(tree)
        if isinstance(tree, NumberArray):
            return self._number_array(tree)
        texts, ignores_width = self._plain_text(tree)
        if ignores_width or (python == "%s" and not width):
            return texts
        if isinstance(tree, DynamicText):
            # a dynamic string of length zero prints nothing, not even its width
            return lambda rows: [python % row if row[-1] else "" for row in _zip_columns(rows, *width, texts)]
        return lambda rows: [python % row for row in _zip_columns(rows, *width, texts)]

    def _choose(self, condition: NumberColumn, yes: Column, no: Column) -> Column:
        return lambda rows: [
            if_so if holds else otherwise for holds, if_so, otherwise in zip(condition(rows).tolist(), yes(rows), no(rows), strict=True)
        ]

    def _flag_names(self, tree: Flags | Symbolic, python: str, width: list[Column]) -> Column:
        """Return the names of __print_flags() and __print_symbolic(), each formatted by the conversion."""
        longest = max((len(name) for _, name in tree.names), default=0) + (_WIDEST if width else widest(python))
        if isinstance(tree, Flags):
            self._grow(min(len(tree.names), 64) * (longest + len(tree.delimiter)) + _OF_NUMBER, 0)
            word = trace_values.flag_words(tree)
        else:
            self._grow(longest + _OF_NUMBER, 0)
            word = trace_values.symbol_words(tree)
        number = self._number(tree.value)
        if width:
            return lambda rows: [word(value, python, tuple(rest)) for value, *rest in _zip_columns(rows, _list_column(number), *width)]
        return _word_column(number, Words(lambda value: word(value, python, ())))

    def _hex_bytes(self, tree: HexBytes) -> Column:
        data_range, size = self._data_range(tree.array), self._number(tree.size)
        if data_range is None:
            return _same("")
        self._grow(0, 3)
        return lambda rows: [
            trace_values.hexadecimal(data, tree.delimiter)
            for data in rows.slices(data_range(rows)[0], np.minimum(size(rows), _LARGEST).astype(np.int64))
        ]

    def _number_array(self, tree: NumberArray) -> Column:
        data_range, count, size = self._data_range(tree.array), self._number(tree.count), self._number(tree.element_size)
        if data_range is None:
            return _same("")
        self._grow(2, 35)

        def texts(rows: TraceRows) -> list[str]:
            tails = rows.slices(data_range(rows)[0], rows.sizes)
            return list(map(trace_values.number_array, tails, count(rows).tolist(), size(rows).tolist()))

        return texts

    def _plain_text(self, tree: Expression) -> tuple[Column, bool]:
        """Return the texts, and whether the conversion's width does not apply to them."""
        if isinstance(tree, Atom):
            self._grow(len(tree.text), 0)
            return _same(tree.text), False
        if isinstance(tree, DynamicText) and tree.field is not None:
            return self._dynamic_text(tree.field, tree.kind), False
        if isinstance(tree, FieldValue) and tree.field is not None:
            return self._field_text(tree.field)
        return _same(""), True

    def _dynamic_text(self, one: TraceField, kind: str) -> Column:
        self._grow(0, 30 if kind == "cpumask" else 3)
        if kind == "string":
            return lambda rows: _strings(rows, one, self._runtime.strings)
        words = self._runtime.cpumasks if kind == "cpumask" else self._runtime.bitmasks
        return lambda rows: map(words.__getitem__, rows.slices(*rows.data_range(one)))

    def _field_text(self, one: TraceField) -> tuple[Column, bool]:
        if not one.is_array and one.size == self._runtime.long_size:
            self._grow(1024, 0)
            address = _list_column(lambda rows: rows.number(one.offset, one.size))
            return lambda rows: map(self._runtime.kernel_string, address(rows)), True
        self._grow(0, 1)
        words = self._runtime.strings
        return lambda rows: map(words.__getitem__, rows.strings(one.offset, one.size or int(_LARGEST))), one.size == 0

    # %p and its kin

    def _pointer(self, letters: str, tree: Expression, width: list[NumberColumn]) -> Column:
        kind = letters[:1]
        number = self._number(tree)
        self._grow(1024, 0)
        if kind and kind in "FSfs":
            return _word_column(number, self._runtime.symbol_offsets if kind in "FS" else self._runtime.functions)
        if not kind or kind not in "MmIiUh":
            return lambda rows: map(trace_values.pointer, number(rows).tolist())
        item = tree
        while isinstance(item, Cast) and kind != "h":
            item = item.item
        data_range = self._data_range(item)
        is_field = isinstance(item, FieldValue)
        wants_field = kind != "h" and not (kind in "Ii" and letters[1:2] == "S")
        if data_range is None or (wants_field and not is_field) or (kind == "h" and is_field):
            return _same(_argument_error(item, letters))
        return self._pointed_data(kind, letters, data_range, width)

    def _pointed_data(self, kind: str, suffix: str, data_range: _DataRange, width: list[NumberColumn]) -> Column:
        """Return the data of a range in its kind's format."""
        if kind == "h":
            self._grow(0, 3)
            length = width[0] if width else lambda rows: np.ones(len(rows), np.uint64)
            return lambda rows: [trace_values.dump(data, suffix) for data in _truncate(rows, data_range, length)]
        if kind in "Mm":
            return lambda rows: [
                trace_values.mac(data, suffix) if size == 6 else "INVALIDMAC" for data, size in _read_sized(rows, data_range)
            ]
        if kind == "U":
            return lambda rows: [
                trace_values.uuid(data, suffix) if size == 16 else "INVALIDUUID" for data, size in _read_sized(rows, data_range)
            ]
        return lambda rows: [self._runtime.address(data, suffix) for data, _ in _read_sized(rows, data_range)]

    def _data_range(self, tree: Expression) -> _DataRange | None:
        """Return the position of an array in the raw data."""
        if isinstance(tree, DynamicArray):
            return lambda rows: rows.data_range(tree.field)
        if not isinstance(tree, FieldValue) or tree.field is None:
            return None
        # all offsets beyond the longest record are equivalent
        offset, size = min(tree.field.offset, int(_LARGEST)), min(tree.field.size, int(_LARGEST))
        return lambda rows: (np.full(len(rows), offset, np.int64), np.full(len(rows), size, np.int64))


# columns


def _same(text: str) -> Column:
    return lambda rows: repeat(text, len(rows))


def _list_column(values: Callable[[TraceRows], NDArray[Any]]) -> Column:
    return lambda rows: values(rows).tolist()


def _word_column(values: NumberColumn, words: Words[int]) -> Column:
    return lambda rows: map(words.__getitem__, values(rows).tolist())


def _zip_columns(rows: TraceRows, *columns: Column) -> Iterable[tuple[Any, ...]]:
    return zip(*(column(rows) for column in columns), strict=True)


def _as_width(values: NumberColumn, most: int) -> Column:
    """Return a width from the data; as in C, a negative width aligns to the left."""
    return _list_column(lambda rows: np.clip(signed_column(values(rows), 32), -most, most))


def _strings(rows: TraceRows, one: TraceField, words: Words[bytes]) -> Iterable[str]:
    """Return dynamic strings. A string without a NUL in its range continues to the sample's end."""
    offsets, lengths = rows.data_range(one)
    data = rows.slices(offsets, lengths)
    unended = [i for i, piece in enumerate(data) if piece and piece[-1] and b"\0" not in piece]
    for i in unended:
        data[i] = rows.raws[i][int(offsets[i]) :]
    return map(words.__getitem__, data)


def _read_sized(rows: TraceRows, data_range: _DataRange) -> Iterable[tuple[bytes, int]]:
    """Yield the bytes of a range, and its size by the format."""
    offsets, sizes = data_range(rows)
    return zip(rows.slices(offsets, sizes), sizes.tolist(), strict=True)


def _truncate(rows: TraceRows, data_range: _DataRange, length: NumberColumn) -> list[bytes]:
    offsets, sizes = data_range(rows)
    return rows.slices(offsets, np.minimum(sizes, unsigned_column(length(rows), 32).astype(np.int64)))


# how perf's library names the kinds of arguments in messages
_KINDS: Final = {
    Atom: 1, FieldValue: 2, Flags: 3, Symbolic: 4, HexBytes: 5, NumberArray: 6, Cast: 7, DynamicText: 8, DynamicArray: 10, Operation: 11,
    Conditional: 11, Element: 11, DynamicLength: 14,
}  # fmt: skip


def _argument_error(tree: Expression, letters: str) -> str:
    """Return the text for an address, UUID or dump whose argument is not in the data."""
    kind = _KINDS[type(tree)]
    if letters[0] in "Ii":
        if letters[1:2] == "S":
            return f"ARG NOT FIELD NOR DYNAMIC ARRAY BUT TYPE {kind}"
        if letters[1:2] not in ("4", "6"):
            return ""
    return f"ARG TYPE NOT FIELD BUT {kind}"


# Expressions of a tracepoint's print format as functions over columns of numbers.
#
# The functions compute an expression (perfpy.perfdata.print_format) over all rows at once, as unsigned 64-bit numbers, as perf's
# library does. numpy's numbers overflow as those of C. Each function is a closure over the functions of its operands; no code is
# generated.


#: Computes a number for each row.
NumberColumn: TypeAlias = Callable[[TraceRows], "Numbers"]

_ALL: Final = (1 << 64) - 1
_CAST_BITS: Final = {"u8": 8, "s8": 8, "char": 8, "u16": 16, "s16": 16, "short": 16, "u32": 32, "s32": 32, "int": 32}
_NEVER_INSIDE: Final = np.uint64(1 << 20)  # beyond the end of every record, and small enough to add to


def number_column(tree: Expression, long_size: int) -> NumberColumn:
    """Return a function that computes an expression. Texts have no value and count as 0.

    Args:
        long_size: bytes of a long on the recorded machine
    """
    function = _compile(tree, long_size)
    if isinstance(function, _Constant):
        value = function.value
        return lambda rows: np.full(len(rows), value)
    return function


class _Constant:
    """The same number for each row, computed in advance."""

    def __init__(self, value: int) -> None:
        self.value = np.uint64(value & _ALL)

    def __call__(self, _rows: TraceRows) -> Numbers:
        """Return the number, which numpy broadcasts."""
        return self.value  # type: ignore[return-value]


def _compile(tree: Expression, long_size: int) -> NumberColumn:
    make = _MAKERS.get(type(tree))
    return _Constant(0) if make is None else make(tree, long_size)


def signed_column(values: Numbers, bits: int) -> NDArray[Any]:
    """Return the lowest bits as signed numbers."""
    return values.astype(f"u{bits // 8}").view(f"i{bits // 8}")


def unsigned_column(values: Numbers, bits: int) -> NDArray[Any]:
    """Return the lowest bits as unsigned numbers."""
    return values.astype(f"u{bits // 8}", copy=False)


def _atom(tree: Atom, _long_size: int) -> NumberColumn:
    return _Constant(number(tree.text))


def _field(tree: FieldValue, _long_size: int) -> NumberColumn:
    field = tree.field
    return _Constant(0) if field is None else lambda rows: rows.number(field.offset, field.size)


def _cast(tree: Cast, long_size: int) -> NumberColumn:
    return _narrow(_compile(tree.item, long_size), tree.type)


def _narrow(item: NumberColumn, type_name: str) -> NumberColumn:
    bits = _CAST_BITS.get(type_name.removeprefix("unsigned "), 64)
    mask = np.uint64((1 << bits) - 1)
    if isinstance(item, _Constant):
        return _Constant(int(item.value & mask))
    return item if bits == 64 else lambda rows: item(rows) & mask


def _conditional(tree: Conditional, long_size: int) -> NumberColumn:
    condition = _compile(tree.condition, long_size)
    yes, no = _compile(tree.yes, long_size), _compile(tree.no, long_size)
    if isinstance(condition, _Constant):
        return yes if condition.value else no
    return lambda rows: np.where(condition(rows) != 0, yes(rows), no(rows))


def _operation(tree: Operation, long_size: int) -> NumberColumn:
    compute = _OPERATORS.get(tree.operator)
    if compute is None:
        return _Constant(0)
    left = _Constant(0) if tree.left is None else _compile(tree.left, long_size)
    right = _compile(tree.right, long_size)
    if isinstance(left, _Constant) and isinstance(right, _Constant):
        return _Constant(int(compute(np.array([left.value]), np.array([right.value]))[0]))
    return lambda rows: compute(left(rows), right(rows)).astype(np.uint64, copy=False)


def _divide(left: Numbers, right: Numbers) -> Numbers:
    """Return left / right; 0 where C would trap."""
    return np.where(right == 0, 0, left // np.maximum(right, 1))


def _remainder(left: Numbers, right: Numbers) -> Numbers:
    """Return left % right; 0 where C would trap."""
    return np.where(right == 0, 0, left % np.maximum(right, 1))


# a unary operator's left side is 0
_OPERATORS: Final[dict[str, Callable[[Numbers, Numbers], NDArray[Any]]]] = {
    "|": lambda left, right: left | right,
    "&": lambda left, right: left & right,
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": _divide,
    "%": _remainder,
    "<<": lambda left, right: left << (right & np.uint64(63)),
    ">>": lambda left, right: left >> (right & np.uint64(63)),
    "<": lambda left, right: left < right,
    ">": lambda left, right: left > right,
    "<=": lambda left, right: left <= right,
    ">=": lambda left, right: left >= right,
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "&&": lambda left, right: (left != 0) & (right != 0),
    "||": lambda left, right: (left != 0) | (right != 0),
    "!": lambda _left, right: right == 0,
    "~": lambda _left, right: ~right,
}


def _element(tree: Element, long_size: int) -> NumberColumn:
    """Return array[index]. A cast of the array to a pointer selects the pointer's type of element."""
    array = tree.array
    pointer = ""
    while isinstance(array, Cast):
        pointer = pointer or array.type
        array = array.item
    index = _compile(tree.index, long_size)
    if isinstance(array, DynamicArray):
        value = _dynamic_element(array.field, index, long_size)
    elif isinstance(array, FieldValue) and array.field is not None and array.field.element_size in NUMBER_SIZES:
        value = _fixed_element(array.field, index)
    else:
        return _Constant(0)
    return _narrow(value, pointer[:-2].rstrip()) if pointer.endswith("*") else value


def _dynamic_element(field: TraceField, index: NumberColumn, long_size: int) -> NumberColumn:
    size = field.element_size or long_size
    # perf's library takes the index as bytes here
    return lambda rows: rows.number_at(rows.data_range(field)[0] + _clip(index(rows)), size)


def _fixed_element(field: TraceField, index: NumberColumn) -> NumberColumn:
    offset, size = field.offset, field.element_size
    if isinstance(index, _Constant):
        start = offset + min(int(index.value), int(_NEVER_INSIDE)) * size
        return lambda rows: rows.number(start, size)
    return lambda rows: rows.number_at(offset + _clip(index(rows)) * size, size)


def _clip(index: Numbers) -> NDArray[np.int64]:
    return np.minimum(index, _NEVER_INSIDE).astype(np.int64)


def _length(tree: DynamicLength, _long_size: int) -> NumberColumn:
    return lambda rows: rows.data_range(tree.field)[1].astype(np.uint64)


def _offset(tree: DynamicArray, _long_size: int) -> NumberColumn:
    return lambda rows: rows.data_range(tree.field)[0].astype(np.uint64)


_MAKERS: Final[dict[type, Callable[[Any, int], NumberColumn]]] = {
    Atom: _atom,
    FieldValue: _field,
    Cast: _cast,
    Conditional: _conditional,
    Operation: _operation,
    Element: _element,
    DynamicLength: _length,
    DynamicArray: _offset,
}
