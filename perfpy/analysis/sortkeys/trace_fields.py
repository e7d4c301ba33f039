"""The fields of tracepoints as sort keys: perf's `-s prev_comm`, `-s sched_switch.next_pid`, `-s trace_fields`.

A field belongs to one event; the rows of
other events have no text, nor is the column shown with them.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from perfpy.abi.flags import PerfType
from perfpy.abi.framing import as_number
from perfpy.analysis.sortkeys.key_columns import KeyColumn, byte_width
from perfpy.analysis.sortkeys.sort_key import ColumnCell, SortKey

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perfpy.analysis.samples.locations import Int64
    from perfpy.analysis.sortkeys.key_texts import KeyTexts
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.tracepoints.event_format import EventFormat, TraceField

_TYPE_BYTES = 2
_ALL = "trace_fields"


def field_keys(token: str, events: Sequence[FileEvent], formats: Mapping[int, EventFormat], *, raw: bool, endian: str) -> list[SortKey]:
    """Return the keys of a token; none if it names no field.

    Args:
        token: FIELD, EVENT.FIELD or EVENT.*, each with /raw after it for the unformatted number.
        events: of the recording.
        formats: of the tracepoints.
        raw: all fields are unformatted.
        endian: of the recording.
    """
    token, _, option = token.partition("/")
    event_name, dot, field_name = token.rpartition(".")
    keys = []
    for event in events:
        if event.attr.type != PerfType.TRACEPOINT or event.attr.config not in formats or (dot and not _is_meant(event_name, event)):
            continue
        tracepoint = formats[event.attr.config]
        common = () if field_name in (_ALL, "*") else tracepoint.common_fields
        fields = [field for field in (*tracepoint.fields, *common) if field_name in (field.name, _ALL, "*")]
        keys += [_key(event, field, raw=raw or option == "raw", endian=endian) for field in fields]
    return keys


def _is_meant(name: str, event: FileEvent) -> bool:
    if name.startswith("%"):
        return name[1:] == str(event.index + 1)
    return event.name == name if ":" in name else name in event.name


def _key(event: FileEvent, field: TraceField, *, raw: bool, endian: str) -> SortKey:
    width = max(len(field.name), field.size if field.is_string else 2 * field.size + 2)
    column = partial(_column, event.attr.config, field, raw, endian)
    name = f"{event.name}.{field.name}"
    return SortKey(name, field.name, "raw", column, ColumnCell.RIGHT_CUT, width, event=event.index)


def _column(number: int, field: TraceField, raw: bool, endian: str, texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of a field, compared by its bytes, larger first, like perf; formatted as in the event's text."""
    data, numbers = texts.trace, values.tolist()
    payloads = [data.payloads[value] for value in numbers]
    is_own = [as_number(payload[:_TYPE_BYTES], endian) == number for payload in payloads]
    content = [_content(payload, field, endian) if own else b"" for payload, own in zip(payloads, is_own, strict=True)]
    rank_of = {item: rank for rank, item in enumerate(sorted(set(content), reverse=True))}
    rank = np.array([rank_of[item] for item in content], np.int64)

    @cache
    def words() -> list[str | None]:
        """Return the field's word in each text, if it has one."""
        formatted = iter(data.texts([value for value, own in zip(numbers, is_own, strict=True) if own]) if not raw else ())
        return [_word(next(formatted), field.name) if own and not raw else None for own in is_own]

    def text(i: int) -> str:
        if not is_own[i] or data.words is None:
            return ""
        word = words()[i]
        return data.words.field_text(payloads[i], field.name) if word is None else word

    def wide(i: int) -> int:
        # perf gives dynamic data the width of their bytes, with the NUL, and truncates fields missing in the event's text
        return max(byte_width(words()[i] or ""), len(content[i]) if field.is_dynamic else 0)

    return KeyColumn(rank, rank, text, wide)


def _content(payload: bytes, field: TraceField, endian: str) -> bytes:
    """Return the bytes of a field; for a dynamic one, those that it refers to."""
    data = payload[field.offset : field.offset + field.size]
    if not field.is_dynamic:
        return data
    where = as_number(data, endian)
    start = (where & 0xFFFF) + (field.offset + field.size if field.is_relative else 0)
    return payload[start : start + (where >> 16)]


def _word(text: str, name: str) -> str | None:
    """Return the text after NAME= in an event's text; perf takes the first word that begins with the name."""
    for word in _words(text):
        if word.startswith(name):
            return word[len(name) + 1 :]
    return None


def _words(text: str) -> Iterator[str]:
    return iter(text.split(" "))
