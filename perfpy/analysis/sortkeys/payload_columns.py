"""Sort keys of tracepoint data, transactions and page sizes. See perfpy.analysis.sortkeys.key_columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.analysis.samples.locations import name_ranks
from perfpy.analysis.sortkeys.key_columns import KeyColumn, by_number, byte_width

if TYPE_CHECKING:
    from perfpy.analysis.samples.locations import Int64
    from perfpy.analysis.sortkeys.key_texts import KeyTexts


def trace(texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of tracepoints' texts; empty for other events."""
    data, numbers = texts.trace, values.tolist()
    has = [bool(data.payloads[number]) for number in numbers]
    worded = iter(_trace_texts(texts, [number for number, there in zip(numbers, has, strict=True) if there]))
    payload_texts = [next(worded) if there else "N/A" for there in has]
    rank = name_ranks(payload_texts)
    return KeyColumn(rank, rank, lambda i: payload_texts[i], lambda i: byte_width(payload_texts[i]) if has[i] else 0)


def _trace_texts(texts: KeyTexts, numbers: list[int]) -> list[str]:
    data = texts.trace
    if data.words is None:
        return ["N/A"] * len(numbers)
    return [data.words.raw_text(data.payloads[number]) for number in numbers] if texts.style.raw_trace else data.texts(numbers)


_PAGE_UNITS = ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K"))


def page_size(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of page sizes."""
    return by_number(values, lambda i: page_size_text(int(values[i])))


def page_size_text(size: int) -> str:
    """Return a page's size as perf formats it; "N/A" for 0."""
    if not size:
        return "N/A"
    return next((f"{size // unit}{letter}" for unit, letter in _PAGE_UNITS if size >= unit), str(size))


_TRANSACTION_BITS = (
    (1 << 0, "EL "),
    (1 << 1, "TX "),
    (1 << 2, "SYNC "),
    (1 << 3, "ASYNC "),
    (1 << 4, "RETRY "),
    (1 << 5, "CON "),
    (1 << 6, "CAP-WRITE "),
    (1 << 7, "CAP-READ "),
)
_TRANSACTION_EITHER = 1 << 2 | 1 << 3
_ABORT_SHIFT = 32


def transaction(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of transaction flags."""

    def text(i: int) -> str:
        bits = int(values.view(np.uint64)[i])
        label = "".join(name for bit, name in _TRANSACTION_BITS if bits & bit)
        if bits and not bits & _TRANSACTION_EITHER:
            label += "NEITHER "
        return label + (f":{bits >> _ABORT_SHIFT:x}" if bits >> _ABORT_SHIFT else "")

    return by_number(values, text, falling=True)
