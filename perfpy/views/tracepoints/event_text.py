"""The `trace` field of tracepoint samples, as perf prints it.

The print format of an event is parsed once (perfpy.perfdata.print_format) and becomes a Printer, which formats many samples at
once. Texts are latin-1 strings: each character is a byte of the data.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.framing import as_number
from perfpy.perfdata.print_format import PrintFormatError, PrintFormatLimitError, parse_print_fmt
from perfpy.views.tracepoints.printer import NUMBER_SIZES, TraceRows, field_formats, make_printer
from perfpy.views.tracepoints.values import latin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from perfpy.perfdata.event_format import EventFormat, TraceField, Tracing
    from perfpy.perfdata.print_format import PrintFormat
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.views.tracepoints.printer import Printer
    from perfpy.views.tracepoints.values import Runtime


_AT_ONCE: Final = 1 << 25  # characters; later texts of a batch are omitted
_LONGEST: Final = 1 << 20  # characters of one sample's fields
_ARRAY_GROWTH: Final = 4  # characters of an array's text for each byte
_NUMBER: Final = 32  # characters of a number and a name's separators, at most
_LEFT_OUT: Final = "[TOO LONG]"


def _is_printable(text: bytes) -> bool:
    return all(32 <= byte < 127 or 9 <= byte <= 13 for byte in text)


class TraceText:
    """The formatter of one tracepoint."""

    def __init__(self, event: EventFormat, runtime: Runtime) -> None:
        self._runtime = runtime
        self._event = event = event._replace(print_fmt=latin(event.print_fmt))
        self._plain: set[str] = set()  # character arrays that contained unprintable bytes
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
        """Whether the format has line breaks, as for the text of a stack."""
        return "\\n" in self._event.print_fmt

    def texts(self, values: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> list[str]:
        """Return the text of each sample.

        Args:
            values: uint8; the bytes that contain the raw data
            starts: int64; the start of each sample's raw data in `values`
            sizes: int64; its size
        """
        rows = TraceRows(values, starts, sizes, self._runtime.endian)
        printer = self._printer
        if printer is None:
            return self._within_bounds(([self._unparsed_text(raw)] for raw in rows.raws), len(rows))
        if len(rows) * printer.fixed + int(sizes.sum()) * printer.growth <= _AT_ONCE:
            return printer.texts(rows)
        return self._within_bounds((printer.texts(part) for part in _parts(rows, printer)), len(rows))

    def _within_bounds(self, parts: Iterable[list[str]], count: int) -> list[str]:
        """Return `count` texts of unknown length, up to the limit for a batch."""
        texts: list[str] = []
        budget = _AT_ONCE
        for part in parts:
            texts += part
            budget -= sum(map(len, part))
            if budget < 0:
                self._runtime.warn(f"tracepoint {self._event.system}:{self._event.name}: very long texts; some are skipped")
                break
        return texts + [_LEFT_OUT] * (count - len(texts))

    def _unparsed_text(self, raw: bytes) -> str:
        """Return the text of a sample whose print format perf's library cannot parse."""
        return f"[FAILED TO PARSE]{self.raw_text(raw)}"

    def raw_text(self, raw: bytes) -> str:
        """Return all fields by name; numbers in the event's print format if it prints them alone."""
        return "".join(f" {name}={text}" if name else text for name, text in self.fields(raw))

    def fields(self, raw: bytes) -> Iterator[tuple[str, str]]:
        """Yield the name and text of each field; "" and a mark for omitted fields."""
        rows = _one_row(raw, self._runtime.endian)
        size = 0
        for field in self._event.fields:
            (text,) = self._field_texts(rows, field)
            yield field.name, text
            size += len(field.name) + len(text) + 2
            if size > _LONGEST:  # Fields may overlap, so the data does not bound their total size.
                yield "", _LEFT_OUT
                return

    def fields_of_rows(self, raws: Sequence[bytes]) -> list[Sequence[tuple[str, str]]]:
        """Return fields() of each sample, field by field if the texts are surely short."""
        sizes = np.array([len(raw) for raw in raws], np.int64)
        names = [field.name for field in self._event.fields]
        growth = _ARRAY_GROWTH + max((printer.growth for printer in self._printers), default=0)
        fixed = sum(map(len, names)) + len(names) * (_NUMBER + max((printer.fixed for printer in self._printers), default=0))
        if fixed + growth * len(names) * int(sizes.max()) > _LONGEST:
            return [list(self.fields(raw)) for raw in raws]
        fields: list[Sequence[tuple[str, str]]] = []
        at_once = max(_AT_ONCE // max(fixed, 1), 1)  # rows whose texts are short together
        for first in range(0, len(raws), at_once):
            part, of_part = raws[first : first + at_once], sizes[first : first + at_once]
            rows = TraceRows(np.frombuffer(b"".join(part), np.uint8), np.cumsum(of_part) - of_part, of_part, self._runtime.endian)
            columns = [self._field_texts(rows, field) for field in self._event.fields]
            fields += [list(zip(names, texts, strict=True)) for texts in zip(*columns, strict=True)] if columns else [[]] * len(part)
        return fields

    def field_text(self, raw: bytes, name: str) -> str:
        """Return the text of a field by its name; "" if there is none."""
        fields = (*self._event.fields, *self._event.common_fields)
        rows = _one_row(raw, self._runtime.endian)
        return next((self._field_texts(rows, field)[0] for field in fields if field.name == name), "")

    def _field_texts(self, rows: TraceRows, field: TraceField) -> list[str]:
        if field.is_array or (field.is_dynamic and field.is_string):
            return self._array_texts(rows, field)
        if field.name in self._formats:
            return self._printer_of_field(field.name).texts(rows)
        values = rows.number(field.offset, field.size).tolist()
        bits = field.size * 8 if field.size in NUMBER_SIZES else 0
        if field.is_pointer or (field.is_long and not (field.is_signed and bits != 32)):
            return [f"0x{value:x}" for value in values]
        if field.is_signed and bits:
            values = [(value ^ 1 << bits - 1) - (1 << bits - 1) for value in values]
        return [f"{value:2d}" for value in values] if field.is_signed and bits == 16 else list(map(str, values))

    @cached_property
    def _formats(self) -> dict[str, PrintFormat]:
        return {} if self._parsed is None else field_formats(self._parsed)

    def _printer_of_field(self, name: str) -> Printer:
        if name not in self._of_field:
            self._of_field[name] = make_printer(self._formats[name], self._runtime)
        return self._of_field[name]

    @property
    def _printers(self) -> list[Printer]:
        """The printers of fields that are printed alone."""
        return [self._printer_of_field(field.name) for field in self._event.fields if field.name in self._formats]

    def _array_texts(self, rows: TraceRows, field: TraceField) -> list[str]:
        offsets, lengths = rows.data_range(field) if field.is_dynamic else (np.full(len(rows), one) for one in (field.offset, field.size))
        texts, is_text = [], field.is_string and field.name not in self._plain
        texts_of: dict[bytes, str] = {}
        for raw, offset, length in zip(rows.raws, offsets.tolist(), lengths.tolist(), strict=True):
            data = raw[offset : offset + length]
            text = texts_of.get(data)
            if text is None:
                string, end, _ = data.partition(b"\0")
                if is_text and not _is_printable(string):
                    is_text = False
                    texts_of.clear()
                # An empty string continues into the data after it.
                text = self._runtime.strings[raw[offset:]] if is_text else "ARRAY[" + ", ".join(f"{byte:02x}" for byte in data) + "]"
                if not is_text or (string and end):
                    texts_of[data] = text
            texts.append(text)
        if not is_text:
            self._plain.add(field.name)
        return texts


def _one_row(raw: bytes, endian: str) -> TraceRows:
    return TraceRows(np.frombuffer(raw, np.uint8), np.zeros(1, np.int64), np.array([len(raw)], np.int64), endian)


class TraceSource:
    """The formatters of a recording's tracepoints, by id."""

    def __init__(self, formats: Mapping[int, EventFormat], runtime: Runtime) -> None:
        self.endian = runtime.endian
        self._formats = formats
        self._runtime = runtime
        self._printers: dict[int, TraceText | None] = {}

    def printer(self, number: int) -> TraceText | None:
        """Return the formatter of a tracepoint; None if the recording does not describe it."""
        if number not in self._printers:
            is_described = number in self._formats
            self._printers[number] = TraceText(self._formats[number], self._runtime) if is_described else None
        return self._printers[number]


def _parts(rows: TraceRows, printer: Printer) -> Iterator[TraceRows]:
    """Split the rows into parts whose texts stay within the limit, or single rows."""
    ends = np.cumsum(printer.fixed + rows.sizes * printer.growth)
    first = 0
    while first < len(rows):
        before = int(ends[first - 1]) if first else 0
        end = max(int(np.searchsorted(ends, before + _AT_ONCE)), first + 1)
        yield rows.part(first, end)
        first = end


# The payloads of tracepoints as text, for reports that group by them.
#
# The first two bytes of a payload are the tracepoint's id (common_type of every format).


_TYPE_BYTES = 2
_ROWS_AT_ONCE = 1 << 12
_BYTES_AT_ONCE = 1 << 20


class PayloadTexts:
    """A formatter of payloads as perf script prints them. A payload without a format has an empty text."""

    def __init__(self, tracing: Tracing, symbolizer: Symbolizer | None) -> None:
        """Set the source. Without a symbolizer, functions are shown as addresses."""
        from perfpy.views.tracepoints.values import Runtime

        def function(address: int) -> tuple[str, int] | None:
            """Return the kernel function at an address, and its start."""
            function = None if symbolizer is None else symbolizer.kernel_symbol(address)
            return None if function is None else (function[0], address - function[1])

        self._tracing = tracing
        runtime = Runtime(tracing.endian, tracing.long_size, function, tracing.printk_formats, tracing.warn)
        self._source = TraceSource(tracing.formats, runtime)

    def texts(self, payloads: Sequence[bytes]) -> list[str]:
        """Return the texts of payloads. Payloads of one tracepoint are formatted together."""
        texts = [""] * len(payloads)
        for printer, part in self._parts(payloads):
            for row, text in zip(part, _format_payloads(printer, [payloads[row] for row in part]), strict=True):
                texts[row] = text
        return texts

    def _parts(self, payloads: Sequence[bytes]) -> Iterator[tuple[TraceText, list[int]]]:
        """Yield payloads of one tracepoint, as indexes, with its formatter."""
        rows_of: dict[int, list[int]] = {}
        for row, payload in enumerate(payloads):
            rows_of.setdefault(as_number(payload[:_TYPE_BYTES], self._tracing.endian), []).append(row)
        for number, rows in rows_of.items():
            printer = self._source.printer(number)
            if printer is not None:
                for part in _payload_parts(rows, payloads):
                    yield printer, part

    def raw_text(self, payload: bytes) -> str:
        """Return all fields of a payload by name, unformatted."""
        printer = self._printer_of(payload)
        return "" if printer is None else _decode(printer.raw_text(payload))

    def field_text(self, payload: bytes, name: str) -> str:
        """Return the text of a field of a payload."""
        printer = self._printer_of(payload)
        return "" if printer is None else _decode(printer.field_text(payload, name))

    def fields(self, payload: bytes) -> Iterator[tuple[str, str]]:
        """Yield the name and text of each field of a payload."""
        printer = self._printer_of(payload)
        for name, text in () if printer is None else printer.fields(payload):
            yield _decode(name), _decode(text)

    def joined_fields(self, payloads: Sequence[bytes], form: Callable[[str, str], str]) -> list[str]:
        """Return fields() of each payload as one text. form: returns the text of a field's name and text; called once for equal ones."""
        joined = [""] * len(payloads)
        forms = _FieldForms(form)
        for printer, part in self._parts(payloads):
            for row, pairs in zip(part, printer.fields_of_rows([payloads[row] for row in part]), strict=True):
                joined[row] = "".join(map(forms.__getitem__, pairs))
        return joined

    def _printer_of(self, payload: bytes) -> TraceText | None:
        return self._source.printer(as_number(payload[:_TYPE_BYTES], self._tracing.endian))


class _FieldForms(dict[tuple[str, str], str]):
    """The texts of fields by name and text, in both of which a character stands for a byte."""

    def __init__(self, form: Callable[[str, str], str]) -> None:
        super().__init__()
        self._form = form

    def __missing__(self, field: tuple[str, str]) -> str:
        name, text = field
        self[field] = form = self._form(_decode(name), _decode(text))
        return form


def _payload_parts(rows: list[int], payloads: Sequence[bytes]) -> Iterator[list[int]]:
    """Split the rows by number and bytes, because the texts of a part share a size limit."""
    part: list[int] = []
    size = 0
    for row in rows:
        size += len(payloads[row])
        if part and (len(part) == _ROWS_AT_ONCE or size > _BYTES_AT_ONCE):
            yield part
            part, size = [], len(payloads[row])
        part.append(row)
    yield part


def _format_payloads(printer: TraceText, payloads: list[bytes]) -> Iterator[str]:
    """Yield the texts of payloads of one tracepoint."""
    sizes = np.array([len(payload) for payload in payloads], np.int64)
    texts = printer.texts(np.frombuffer(b"".join(payloads), np.uint8), np.cumsum(sizes) - sizes, sizes)
    return map(_decode, texts)


def _decode(text: str) -> str:
    """Decode UTF-8: until here, texts have a character for each byte."""
    return text if text.isascii() else text.encode("latin-1").decode("utf-8", "surrogateescape")
