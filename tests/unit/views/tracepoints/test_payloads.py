"""Tests of payloads of tracepoints as text, in bulk."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from perfpy.perfdata.tracepoints.event_format import parse_format
from perfpy.views.tracepoints import payloads as module
from perfpy.views.tracepoints.event_text import TraceText
from perfpy.views.tracepoints.payloads import PayloadTexts

if TYPE_CHECKING:
    import numpy as np

FORMAT = """name: example
ID: {number}
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;

\tfield:unsigned short value;\toffset:2;\tsize:2;\tsigned:0;

print fmt: "{word}=%d", REC->value
"""


def payload(number: int, value: int) -> bytes:
    return bytes((number, 0, value, 0))


MIXED = [payload(9, 1), payload(8, 2), payload(7, 3), payload(9, 4), b"", payload(9, 5), payload(9, 6)]
TEXTS = ["nine=1", "eight=2", "", "nine=4", "", "nine=5", "nine=6"]


@pytest.fixture
def words() -> PayloadTexts:
    """Return the texts of two tracepoints, 8 and 9."""
    formats = {number: parse_format(FORMAT.format(number=number, word=word), "sys", 8) for number, word in ((8, "eight"), (9, "nine"))}
    tracing = SimpleNamespace(endian="<", long_size=8, printk_formats={}, warn=lambda _line: None, formats=formats)
    return PayloadTexts(tracing, SimpleNamespace())  # type: ignore[arg-type]


def test_each_payload_has_its_own_tracepoints_text(words: PayloadTexts) -> None:
    assert words.texts(MIXED) == TEXTS


@pytest.mark.parametrize(("limit", "value"), [("_ROWS_AT_ONCE", 1), ("_ROWS_AT_ONCE", 2), ("_BYTES_AT_ONCE", 1), ("_BYTES_AT_ONCE", 9)])
def test_formatting_in_parts_gives_the_same_texts(words: PayloadTexts, monkeypatch: pytest.MonkeyPatch, limit: str, value: int) -> None:
    monkeypatch.setattr(module, limit, value)
    assert words.texts(MIXED) == TEXTS


def test_the_payloads_of_one_tracepoint_are_printed_in_one_call(words: PayloadTexts, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    texts = TraceText.texts

    def counted(self: TraceText, values: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> list[str]:
        calls.append(len(sizes))
        return texts(self, values, starts, sizes)

    monkeypatch.setattr(TraceText, "texts", counted)
    assert words.texts(MIXED) == TEXTS
    assert sorted(calls) == [1, 4]
