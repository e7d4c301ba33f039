"""Decode tracepoints' raw data into a column per field.

Layout: the format's field lines; a dynamic field
holds { u16 offset, u16 length } of its data, counted from the record's start
(__data_loc) or from the field's own end (__rel_loc).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import Ragged, slices_index

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.perfdata.tracepoints.event_format import EventFormat, TraceField

_NUMBERS: Final = (1, 2, 4, 8)


def trace_columns(form: EventFormat, raw: Ragged, endian: str = "<") -> dict[str, Any]:
    """Return field name -> column, common fields ("common_pid" ...) included.

    Numbers come as integers of the field's size and sign, arrays of numbers as two dimensions, strings
    as an object array of str, other dynamic data as a Ragged of bytes. Values
    beyond a row's end are 0 or empty.

    Args:
        form: the tracepoint's format.
        raw: uint8 rows.
        endian: the recorded machine's.
    """
    return {field.name: field_column(field, raw, endian) for field in (*form.common_fields, *form.fields)}


def field_column(field: TraceField, raw: Ragged, endian: str) -> Any:
    """Return the column of one field; see trace_columns."""
    if field.is_dynamic:
        data = _dynamic(field, raw, endian)
        return _texts(data) if "char" in field.type else data
    if field.is_array:
        size = field.element_size or 1
        if field.is_string or size not in _NUMBERS:
            return _texts(_fixed_bytes(field, raw)) if field.is_string else _fixed_bytes(field, raw)
        count = max(field.size // size, 0)
        return bytes_at(raw, field.offset, count * size).view(_dtype(field, size, endian)).astype(_dtype(field, size, "="))
    if field.size in _NUMBERS:
        return (
            bytes_at(raw, field.offset, field.size).view(_dtype(field, field.size, endian)).ravel().astype(_dtype(field, field.size, "="))
        )
    return _fixed_bytes(field, raw)


def _dtype(field: TraceField, size: int, endian: str) -> np.dtype[Any]:
    return np.dtype(f"{endian}{'i' if field.is_signed else 'u'}{size}")


def bytes_at(raw: Ragged, offset: int, size: int) -> NDArray[np.uint8]:
    """Return (rows, size) bytes from `offset` on in each row; 0 beyond its end."""
    positions = (raw.offsets[:-1] + offset)[:, None] + np.arange(size)
    inside = positions < raw.offsets[1:, None]
    if not len(raw.values):
        return np.zeros(positions.shape, np.uint8)
    return np.where(inside, raw.values[np.where(inside, positions, 0)], np.uint8(0))


def _fixed_bytes(field: TraceField, raw: Ragged) -> Ragged:
    """Return the bytes of a field at a fixed offset; size 0 means the rest of the row."""
    starts = np.minimum(raw.offsets[:-1] + field.offset, raw.offsets[1:])
    ends = np.minimum(starts + field.size, raw.offsets[1:]) if field.size else raw.offsets[1:]
    return _rows(raw, starts, ends)


def _dynamic(field: TraceField, raw: Ragged, endian: str) -> Ragged:
    """Return the bytes that a dynamic field refers to."""
    word = bytes_at(raw, field.offset, 4).view(endian + "u4").ravel().astype(np.int64)
    base = raw.offsets[:-1] + (field.offset + field.size if field.is_relative else 0)
    starts = np.minimum(base + (word & 0xFFFF), raw.offsets[1:])
    return _rows(raw, starts, np.minimum(starts + (word >> 16), raw.offsets[1:]))


def _rows(raw: Ragged, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Ragged:
    index, offsets = slices_index(starts, ends - starts)
    return Ragged(raw.values[index], offsets)


def _texts(data: Ragged) -> NDArray[Any]:
    """Return each row up to its first NUL, as str."""
    whole, offsets = data.values.tobytes(), data.offsets.tolist()
    rows = (whole[start:end].split(b"\0", 1)[0] for start, end in itertools.pairwise(offsets))
    texts = np.empty(len(data), object)
    texts[:] = [row.decode("utf-8", "surrogateescape") for row in rows]
    return texts
