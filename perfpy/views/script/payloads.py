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
    from perfpy.perfdata.tracepoints.tracing_data import Tracing
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.views.script.trace_text import TraceText

_TYPE_BYTES = 2


class PayloadTexts:
    """Words payloads as perf script does; a payload that the recording has no format for is an empty text."""

    def __init__(self, tracing: Tracing, symbolizer: Symbolizer) -> None:
        from perfpy.views.script.trace_values import Runtime

        def function(address: int) -> tuple[str, int] | None:
            """The kernel's function at an address, and its start."""
            found = symbolizer.kernel_symbol(address)
            return None if found is None else (found[0], address - found[1])

        self._tracing = tracing
        self._runtime = Runtime(tracing.endian, tracing.long_size, function, tracing.printk_formats, tracing.warn)
        self._printers: dict[int, TraceText | None] = {}

    def text(self, payload: bytes) -> str:
        """The text of one payload."""
        printer = self._printer_of(payload)
        if printer is None:
            return ""
        start, size = np.zeros(1, np.int64), np.array([len(payload)], np.int64)
        return _decoded(printer.texts(np.frombuffer(payload, np.uint8), start, size)[0])

    def raw_text(self, payload: bytes) -> str:
        """All its fields by name, not formatted."""
        printer = self._printer_of(payload)
        return "" if printer is None else _decoded(printer.raw_text(payload))

    def field_text(self, payload: bytes, name: str) -> str:
        """The text of one of its fields."""
        printer = self._printer_of(payload)
        return "" if printer is None else _decoded(printer.field_text(payload, name))

    def _printer_of(self, payload: bytes) -> TraceText | None:
        return self._printer(as_number(payload[:_TYPE_BYTES], self._tracing.endian))

    def _printer(self, number: int) -> TraceText | None:
        from perfpy.views.script.trace_text import TraceText

        if number not in self._printers:
            known = number in self._tracing.formats
            self._printers[number] = TraceText(self._tracing.formats[number], self._runtime) if known else None
        return self._printers[number]


def _decoded(text: str) -> str:
    """Texts of payloads have a character for each byte until here."""
    return text if text.isascii() else text.encode("latin-1").decode("utf-8", "surrogateescape")
