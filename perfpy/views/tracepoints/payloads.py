"""Tracepoints' payloads as text, for reports that group by it.

What enters: the formats of a recording's tracepoints, and raw payloads: their
first two bytes are the tracepoint's id (common_type of every format). What
leaves: a text each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.abi.byteorder import as_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.perfdata.tracepoints.tracing_data import Tracing
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.views.tracepoints.event_text import TraceText

_TYPE_BYTES = 2
_ROWS_AT_ONCE = 1 << 12
_BYTES_AT_ONCE = 1 << 20


class PayloadTexts:
    """Words payloads as perf script does; a payload that the recording has no format for is an empty text."""

    def __init__(self, tracing: Tracing, symbolizer: Symbolizer) -> None:
        from perfpy.views.tracepoints.event_text import TraceSource
        from perfpy.views.tracepoints.values import Runtime

        def function(address: int) -> tuple[str, int] | None:
            """The kernel's function at an address, and its start."""
            found = symbolizer.kernel_symbol(address)
            return None if found is None else (found[0], address - found[1])

        self._tracing = tracing
        runtime = Runtime(tracing.endian, tracing.long_size, function, tracing.printk_formats, tracing.warn)
        self._source = TraceSource(tracing.formats, runtime)

    def texts(self, payloads: Sequence[bytes]) -> list[str]:
        """The texts of payloads, those of one tracepoint at once."""
        numbers = [as_number(payload[:_TYPE_BYTES], self._tracing.endian) for payload in payloads]
        rows_of: dict[int, list[int]] = {}
        for row, number in enumerate(numbers):
            rows_of.setdefault(number, []).append(row)
        texts = [""] * len(payloads)
        for number, rows in rows_of.items():
            printer = self._source.printer(number)
            if printer is not None:
                for part in _parts(rows, payloads):
                    for row, text in zip(part, _worded(printer, [payloads[row] for row in part]), strict=True):
                        texts[row] = text
        return texts

    def raw_text(self, payload: bytes) -> str:
        """All its fields by name, not formatted."""
        printer = self._printer_of(payload)
        return "" if printer is None else _decoded(printer.raw_text(payload))

    def field_text(self, payload: bytes, name: str) -> str:
        """The text of one of its fields."""
        printer = self._printer_of(payload)
        return "" if printer is None else _decoded(printer.field_text(payload, name))

    def fields(self, payload: bytes) -> Iterator[tuple[str, str]]:
        """Its fields, by name, and the text of each."""
        printer = self._printer_of(payload)
        for name, text in () if printer is None else printer.fields(payload):
            yield _decoded(name), _decoded(text)

    def _printer_of(self, payload: bytes) -> TraceText | None:
        return self._source.printer(as_number(payload[:_TYPE_BYTES], self._tracing.endian))


def _parts(rows: list[int], payloads: Sequence[bytes]) -> Iterator[list[int]]:
    """The rows in parts of some thousand, or of some bytes: a part's texts have a bound in common, which none should meet for another."""
    part: list[int] = []
    size = 0
    for row in rows:
        size += len(payloads[row])
        if part and (len(part) == _ROWS_AT_ONCE or size > _BYTES_AT_ONCE):
            yield part
            part, size = [], len(payloads[row])
        part.append(row)
    yield part


def _worded(printer: TraceText, payloads: list[bytes]) -> Iterator[str]:
    """The texts of payloads of one tracepoint."""
    sizes = np.array([len(payload) for payload in payloads], np.int64)
    texts = printer.texts(np.frombuffer(b"".join(payloads), np.uint8), np.cumsum(sizes) - sizes, sizes)
    return map(_decoded, texts)


def _decoded(text: str) -> str:
    """Texts of payloads have a character for each byte until here."""
    return text if text.isascii() else text.encode("latin-1").decode("utf-8", "surrogateescape")
