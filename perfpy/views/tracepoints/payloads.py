"""The payloads of tracepoints as text, for reports that group by them.

The first two bytes of a payload are the tracepoint's id (common_type of every format).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.abi.framing import as_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.perfdata.tracepoints.tracing_data import Tracing
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.views.tracepoints.event_text import TraceText

_TYPE_BYTES = 2
_ROWS_AT_ONCE = 1 << 12
_BYTES_AT_ONCE = 1 << 20


class PayloadTexts:
    """A formatter of payloads as perf script prints them. A payload without a format has an empty text."""

    def __init__(self, tracing: Tracing, symbolizer: Symbolizer) -> None:
        from perfpy.views.tracepoints.event_text import TraceSource
        from perfpy.views.tracepoints.values import Runtime

        def function(address: int) -> tuple[str, int] | None:
            """Return the kernel function at an address, and its start."""
            function = symbolizer.kernel_symbol(address)
            return None if function is None else (function[0], address - function[1])

        self._tracing = tracing
        runtime = Runtime(tracing.endian, tracing.long_size, function, tracing.printk_formats, tracing.warn)
        self._source = TraceSource(tracing.formats, runtime)

    def texts(self, payloads: Sequence[bytes]) -> list[str]:
        """Return the texts of payloads. Payloads of one tracepoint are formatted together."""
        numbers = [as_number(payload[:_TYPE_BYTES], self._tracing.endian) for payload in payloads]
        rows_of: dict[int, list[int]] = {}
        for row, number in enumerate(numbers):
            rows_of.setdefault(number, []).append(row)
        texts = [""] * len(payloads)
        for number, rows in rows_of.items():
            printer = self._source.printer(number)
            if printer is not None:
                for part in _parts(rows, payloads):
                    for row, text in zip(part, _format_payloads(printer, [payloads[row] for row in part]), strict=True):
                        texts[row] = text
        return texts

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

    def _printer_of(self, payload: bytes) -> TraceText | None:
        return self._source.printer(as_number(payload[:_TYPE_BYTES], self._tracing.endian))


def _parts(rows: list[int], payloads: Sequence[bytes]) -> Iterator[list[int]]:
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
