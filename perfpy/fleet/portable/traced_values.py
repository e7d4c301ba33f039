"""Tracepoint data as texts, because kernels number tracepoints and place fields differently.

Each recording's payloads become the texts that its sort keys show; merged profiles get sort keys that show these texts.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.analysis.samples.locations import Locations
from perfpy.analysis.sortkeys.key_columns import KeyColumn
from perfpy.analysis.sortkeys.key_texts import KeyStyle, KeyTexts, TaskComms, TraceData
from perfpy.analysis.sortkeys.trace_fields import field_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.analysis.entries.layout import Finder, Layout
    from perfpy.analysis.samples.locations import Int64
    from perfpy.analysis.sortkeys.sort_key import SortKey
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.tracepoints.event_format import EventFormat
    from perfpy.perfdata.tracepoints.tracing_data import Tracing
    from perfpy.symbols.symbolizer import Symbolizer

#: the key that shows all of the data
_WHOLE: Final = "trace"
_NUMBER: Final = re.compile("-?[0-9]{1,20}")


class ShownText(NamedTuple):
    """A sort key's text for some data.

    Attributes:
        key: the key's name.
        text: as shown.
        width: that the text needs in its column.
    """

    key: str
    text: str
    width: int


def shown_texts(layout: Layout, data: TraceData, symbolizer: Symbolizer, style: KeyStyle) -> list[tuple[ShownText, ...]]:
    """Return the texts of a report's keys for each payload, without keys of other tracepoints."""
    rows = np.arange(len(data.payloads))
    texts_of_each: list[list[ShownText]] = [[] for _ in data.payloads]
    texts = KeyTexts(Locations(symbolizer), None, TaskComms((), str), data, style=style)
    for key in layout.keys:
        if key.dimension == "raw":
            column = key.column(texts, rows)
            for row in rows.tolist():
                text, width = column.text(row), column.wide(row)
                if text or width:
                    texts_of_each[row].append(ShownText(key.name, text, width))
    return [tuple(texts_of_row) for texts_of_row in texts_of_each]


def formats_of(events: Sequence[FileEvent], tracing: Tracing | None) -> list[EventFormat | None]:
    """Return the format of each event; None if it is no tracepoint."""
    return [tracing.formats.get(event.attr.config) if tracing is not None else None for event in events]


def merged_fields(
    events: Sequence[FileEvent], formats: Sequence[EventFormat | None], texts: Sequence[tuple[ShownText, ...]], *, raw: bool
) -> Finder:
    """Return a finder of sort keys like field_keys(), over texts instead of data."""

    def find_keys(token: str) -> list[SortKey]:
        pairs = zip(events, formats, strict=True)
        keys = [key for event, one in pairs if one for key in field_keys(token, [event], {event.attr.config: one}, raw=raw, endian="<")]
        return [key._replace(column=partial(_column, key.name, texts)) for key in keys]

    return find_keys


def merged_data(texts_of_rows: Sequence[tuple[ShownText, ...]]) -> TraceData:
    """Return the texts of whole payloads."""
    full_texts = [next((one.text for one in texts if one.key == _WHOLE and one.width), None) for texts in texts_of_rows]
    numbers = [b"" if text is None else b"%d" % number for number, text in enumerate(full_texts)]
    return TraceData(numbers, _RowTexts(full_texts))


class _RowTexts:
    """Texts of payloads that are numbers of known texts."""

    def __init__(self, full_texts: Sequence[str | None]) -> None:
        self._full_texts = full_texts

    def texts(self, payloads: Sequence[bytes]) -> list[str]:
        return [self.raw_text(payload) for payload in payloads]

    def raw_text(self, payload: bytes) -> str:
        return self._full_texts[int(payload)] or ""

    def field_text(self, _payload: bytes, _name: str) -> str:
        return ""


def _column(name: str, texts: Sequence[tuple[ShownText, ...]], _texts: KeyTexts, numbers: Int64) -> KeyColumn:
    """Return a key's column of texts; larger numbers come first, as their bytes do in perf's order."""
    nothing = ShownText(name, "", 0)
    fields = [next((one for one in texts[number] if one.key == name), nothing) for number in numbers.tolist()]
    rank = _ranks([one.text for one in fields])
    return KeyColumn(rank, rank, lambda i: fields[i].text, lambda i: fields[i].width)


def _ranks(texts: Sequence[str]) -> Int64:
    numeric = {text: int(text) for text in set(texts) if _NUMBER.fullmatch(text)}
    order = sorted(set(texts), key=lambda text: (text in numeric, numeric.get(text, 0), text), reverse=True)
    rank = {text: number for number, text in enumerate(order)}
    return np.array([rank[text] for text in texts], np.int64)
