"""A tracepoint's print format as a Printer, which formats many samples at once.

A Printer has a Python format and a column of values for each conversion. The "%" operator applies the format to each row. That is as
fast as code generated for the event, and nothing in a file is executed.

The file determines the text and its length. Printer.fixed and Printer.growth bound the length before any text is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from perfpy.perfdata.tracepoints.print_format import PrintFormat, PrintFormatError, PrintFormatLimitError
from perfpy.perfdata.tracepoints.print_tree import (
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
    Symbolic,
)
from perfpy.views.tracepoints import values as trace_values
from perfpy.views.tracepoints.conversions import Conversion, split, widest
from perfpy.views.tracepoints.number_columns import NumberColumn, number_column, signed_column, unsigned_column
from perfpy.views.tracepoints.rows import TraceRows
from perfpy.views.tracepoints.values import Runtime, Words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.perfdata.tracepoints.event_format import TraceField

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
