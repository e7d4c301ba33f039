"""The `trace` field of tracepoint samples, as perf prints it.

What enters: an EventFormat and the raw data of many samples of that event.
What leaves: a text a sample. The print format is taken apart once an event
(perfdata.tracepoints.print_format) and becomes a Printer (printer), which makes the texts
of many samples at once. Texts are latin-1 strings: a character a byte of the
data.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.perfdata.tracepoints.print_format import PrintFormatError, PrintFormatLimitError, parse_print_fmt
from perfpy.views.tracepoints.conversions import field_formats
from perfpy.views.tracepoints.printer import make_printer
from perfpy.views.tracepoints.rows import NUMBER_SIZES, TraceRows
from perfpy.views.tracepoints.values import latin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from perfpy.perfdata.tracepoints.event_format import EventFormat, TraceField
    from perfpy.perfdata.tracepoints.print_format import PrintFormat
    from perfpy.views.tracepoints.printer import Printer
    from perfpy.views.tracepoints.values import Runtime

_AT_ONCE: Final = 1 << 25  # characters: the texts of a batch beyond that are not shown
_LONGEST: Final = 1 << 20  # characters of one sample's fields
_LEFT_OUT: Final = "[TOO LONG]"


def _is_printable(text: bytes) -> bool:
    return all(32 <= byte < 127 or 9 <= byte <= 13 for byte in text)


class TraceText:
    """One tracepoint's print format, ready to print."""

    def __init__(self, event: EventFormat, runtime: Runtime) -> None:
        self._runtime = runtime
        self._event = event = replace(event, print_fmt=latin(event.print_fmt))
        self._plain: set[str] = set()  # character arrays that held something unprintable
        self._of_field: dict[str, Printer] = {}
        self._parsed: PrintFormat | None = None
        self._printer: Printer | None = None
        try:
            self._parsed = parse_print_fmt(event, runtime.long_size)
            self._printer = make_printer(self._parsed, runtime)
        except PrintFormatLimitError as error:
            self._parsed = None
            runtime.warn(f"tracepoint {event.system}:{event.name}: {error}; its samples' fields are shown as they are")
        except PrintFormatError:
            self._parsed = None

    @property
    def breaks_lines(self) -> bool:
        """Whether the format itself has line breaks: the text of a stack is many lines."""
        return "\\n" in self._event.print_fmt

    def texts(self, values: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> list[str]:
        """The text of each sample.

        values: the bytes in which the raw data are (uint8); starts and sizes:
        of each sample's raw data there (int64).
        """
        rows = TraceRows(values, starts, sizes, self._runtime.endian)
        printer = self._printer
        if printer is None:
            return self._within_bounds(([self._unparsed(raw)] for raw in rows.raws), len(rows))
        if len(rows) * printer.fixed + int(sizes.sum()) * printer.growth <= _AT_ONCE:
            return printer.texts(rows)
        return self._within_bounds((printer.texts(part) for part in _parts(rows, printer)), len(rows))

    def _within_bounds(self, parts: Iterable[list[str]], count: int) -> list[str]:
        """The texts of so many samples, of which it is not known that they are short, as far as they are."""
        texts: list[str] = []
        left = _AT_ONCE
        for part in parts:
            texts += part
            left -= sum(map(len, part))
            if left < 0:
                self._runtime.warn(f"tracepoint {self._event.system}:{self._event.name}: very long texts; some are left out")
                break
        return texts + [_LEFT_OUT] * (count - len(texts))

    def _unparsed(self, raw: bytes) -> str:
        """The text of a sample whose print format perf's library cannot parse."""
        return f"[FAILED TO PARSE]{self.raw_text(raw)}"

    def raw_text(self, raw: bytes) -> str:
        """Every field by name; numbers as the event's print format has them, if it has them bare."""
        return "".join(f" {name}={text}" if name else text for name, text in self.fields(raw))

    def fields(self, raw: bytes) -> Iterator[tuple[str, str]]:
        """(name, text) of every field; ("", a mark) in the place of those that are left out."""
        size = 0
        for field in self._event.fields:
            text = self._field_text(raw, field)
            yield field.name, text
            size += len(field.name) + len(text) + 2
            if size > _LONGEST:  # fields may overlap: the data do not bound what they come to
                yield "", _LEFT_OUT
                return

    def field_text(self, raw: bytes, name: str) -> str:
        """The text of one field, by its name; "" if there is none."""
        fields = (*self._event.fields, *self._event.common_fields)
        return next((self._field_text(raw, field) for field in fields if field.name == name), "")

    def _field_text(self, raw: bytes, field: TraceField) -> str:
        if field.is_array or (field.is_dynamic and field.is_string):
            return self._array_text(raw, field)
        if field.name in self._formats:
            return self._formatted(raw, field.name)
        value = self._runtime.read(raw, field.offset, field.size)
        bits = field.size * 8 if field.size in NUMBER_SIZES else 0
        if field.is_pointer or (field.is_long and not (field.is_signed and bits != 32)):
            return f"0x{value:x}"
        if field.is_signed and bits:
            value = (value ^ 1 << bits - 1) - (1 << bits - 1)
        return f"{value:2d}" if field.is_signed and bits == 16 else str(value)

    @cached_property
    def _formats(self) -> dict[str, PrintFormat]:
        return {} if self._parsed is None else field_formats(self._parsed)

    def _formatted(self, raw: bytes, name: str) -> str:
        if name not in self._of_field:
            self._of_field[name] = make_printer(self._formats[name], self._runtime)
        return self._of_field[name].texts(self._row(raw))[0]

    def _row(self, raw: bytes) -> TraceRows:
        return TraceRows(np.frombuffer(raw, np.uint8), np.zeros(1, np.int64), np.array([len(raw)], np.int64), self._runtime.endian)

    def _array_text(self, raw: bytes, field: TraceField) -> str:
        offset, length = field.offset, field.size
        if field.is_dynamic:
            offset, length = (int(column[0]) for column in self._row(raw).data_range(field))
        data = raw[offset : offset + length]
        if field.is_string and field.name not in self._plain and _is_printable(data.partition(b"\0")[0]):
            return self._runtime.strings[raw[offset:]]  # an empty one runs on into what follows it
        self._plain.add(field.name)
        return "ARRAY[" + ", ".join(f"{byte:02x}" for byte in data) + "]"


class TraceSource:
    """Print formats of a recording's tracepoints, by id."""

    def __init__(self, formats: Mapping[int, EventFormat], runtime: Runtime) -> None:
        self.endian = runtime.endian
        self._formats = formats
        self._runtime = runtime
        self._printers: dict[int, TraceText | None] = {}

    def printer(self, number: int) -> TraceText | None:
        """The print format of a tracepoint; None for one that the recording does not describe."""
        if number not in self._printers:
            known = number in self._formats
            self._printers[number] = TraceText(self._formats[number], self._runtime) if known else None
        return self._printers[number]


def _parts(rows: TraceRows, printer: Printer) -> Iterator[TraceRows]:
    """The rows in parts whose texts together are within bounds, or single."""
    ends = np.cumsum(printer.fixed + rows.sizes * printer.growth)
    first = 0
    while first < len(rows):
        before = int(ends[first - 1]) if first else 0
        end = max(int(np.searchsorted(ends, before + _AT_ONCE)), first + 1)
        yield rows.part(first, end)
        first = end
