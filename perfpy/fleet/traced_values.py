"""The data of tracepoints in words: what kernels that number tracepoints and place fields in their own ways have in common.

What enters: the raw data that samples of a recording have, and the sort keys that look into them. What leaves: for each the texts that
those keys show; and sort keys that show these texts again, of several recordings.
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

    from perfpy.analysis.report.layout import Finder, Layout
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
    """What a sort key shows of some data, and how wide a column that asks for."""

    key: str
    text: str
    width: int


def shown_texts(layout: Layout, data: TraceData, symbolizer: Symbolizer, style: KeyStyle) -> list[tuple[ShownText, ...]]:
    """Of each payload what the keys of a report show of it; of keys of other tracepoints nothing."""
    rows = np.arange(len(data.payloads))
    found: list[list[ShownText]] = [[] for _ in data.payloads]
    texts = KeyTexts(Locations(symbolizer), None, TaskComms((), str), data, style=style)
    for key in layout.keys:
        if key.dimension == "raw":
            column = key.column(texts, rows)
            for row in rows.tolist():
                text, width = column.text(row), column.wide(row)
                if text or width:
                    found[row].append(ShownText(key.name, text, width))
    return [tuple(shown) for shown in found]


def formats_of(events: Sequence[FileEvent], tracing: Tracing | None) -> list[EventFormat | None]:
    """The format of each event that is a tracepoint."""
    return [tracing.formats.get(event.attr.config) if tracing is not None else None for event in events]


def merged_fields(
    events: Sequence[FileEvent], formats: Sequence[EventFormat | None], shown: Sequence[tuple[ShownText, ...]], *, raw: bool
) -> Finder:
    """What finds the sort keys that a word means, as field_keys does, of texts instead of data."""

    def found(token: str) -> list[SortKey]:
        known = zip(events, formats, strict=True)
        keys = [key for event, one in known if one for key in field_keys(token, [event], {event.attr.config: one}, raw=raw, endian="<")]
        return [key._replace(column=partial(_column, key.name, shown)) for key in keys]

    return found


def merged_data(shown: Sequence[tuple[ShownText, ...]]) -> TraceData:
    """What words the whole data of tracepoints, by what was shown of them."""
    whole = [next((one.text for one in texts if one.key == _WHOLE and one.width), None) for texts in shown]
    numbers = [b"" if text is None else b"%d" % number for number, text in enumerate(whole)]
    return TraceData(numbers, _Known(whole))


class _Known:
    """Words payloads that are numbers of known texts."""

    def __init__(self, known: Sequence[str | None]) -> None:
        self._known = known

    def texts(self, payloads: Sequence[bytes]) -> list[str]:
        return [self.raw_text(payload) for payload in payloads]

    def raw_text(self, payload: bytes) -> str:
        return self._known[int(payload)] or ""

    def field_text(self, _payload: bytes, _name: str) -> str:
        return ""


def _column(name: str, known: Sequence[tuple[ShownText, ...]], _texts: KeyTexts, numbers: Int64) -> KeyColumn:
    """What the key of this name shows; larger numbers come first, as their bytes do in perf's order."""
    nothing = ShownText(name, "", 0)
    shown = [next((one for one in known[number] if one.key == name), nothing) for number in numbers.tolist()]
    rank = _ranks([one.text for one in shown])
    return KeyColumn(rank, rank, lambda i: shown[i].text, lambda i: shown[i].width)


def _ranks(texts: Sequence[str]) -> Int64:
    numeric = {text: int(text) for text in set(texts) if _NUMBER.fullmatch(text)}
    order = sorted(set(texts), key=lambda text: (text in numeric, numeric.get(text, 0), text), reverse=True)
    rank = {text: number for number, text in enumerate(order)}
    return np.array([rank[text] for text in texts], np.int64)
