"""Profiles and options as bytes that cluster workers and the driver exchange: data only, which cannot run code.

Layout: zstd data of MAGIC, the length of a JSON text (8 bytes, little-endian), the text, and the contents of arrays in the order of
the text. In the text, plain values stand for themselves. Lists begin with a tag: "l" list, "t" tuple, "s" frozenset, "d" dict (keys and
values in turn), "b" bytes (size), "a" array (dtype, length), "e" enum (class, value), or the name of a class, followed by its fields.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from perfpy.abi.attr import EventAttr
from perfpy.fleet.transfer_checks import CHECKS
from perfpy.perfdata.container.events import FileEvent
from perfpy.symbols.dso import Dso
from perfpy.untrusted.expansion import ExpansionError, expand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from enum import Enum

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAGIC: Final = b"perfpy\0\1"
_LEVEL: Final = 1  # the next level takes twice the time for a tenth less
#: columns of equal numbers become this much smaller, or this many bytes
_MOST_RATIO: Final = 4096
_SMALL: Final = 8 << 20
_DTYPES: Final = frozenset(f"{order}{kind}" for order in "<|" for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1", "f8"))
_DSO_STATE: Final = ("name", "kind", "build_id", "listed", "long_name", "short_name", "pids")
_EVENT_STATE: Final = ("ids", "name", "index", "tracepoint", "unit", "scale", "cpus", "leader", "group_name", "in_time")

Fields: TypeAlias = "list[Any]"


class BadTransferError(ValueError):
    """Bytes that are not a value of the expected class."""


def pack(value: Any) -> bytes:
    """Encode a value of the classes in _classes(), or of plain values and arrays. Raises TypeError for others."""
    arrays: list[bytes] = []
    text = json.dumps(_tree(value, arrays), separators=(",", ":")).encode("ascii")
    return zstd.compress(b"".join([MAGIC, len(text).to_bytes(8, "little"), text, *arrays]), _LEVEL)


def unpack(data: bytes, expected: type) -> Any:
    """Decode a value of the expected class. Raises BadTransferError for wrong fields, and for indexes of missing items."""
    try:
        raw = expand("zstd", data, max(len(data) * _MOST_RATIO, _SMALL))
        start = len(MAGIC) + 8
        end = start + int.from_bytes(raw[len(MAGIC) : start], "little")
        if not raw.startswith(MAGIC) or end > len(raw):
            raise BadTransferError("not data of this version of perfpy")
        reader = _Reader(memoryview(raw)[end:])
        value = reader.value(json.loads(raw[start:end]))
        reader.finish()
    except (ExpansionError, ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError) as error:
        raise BadTransferError((str(error).splitlines() or [type(error).__name__])[0]) from None
    if type(value) is not expected:
        raise BadTransferError(f"a {type(value).__name__} instead of a {expected.__name__}")
    return value


def _tree(value: Any, arrays: list[bytes]) -> Any:
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind in (np.bool_, np.int64, np.int32, np.uint64, np.float64):
        return value.item()
    if kind is np.ndarray:
        arrays.append(np.ascontiguousarray(value).tobytes())
        return ["a", value.dtype.str, len(value)]
    if kind is bytes:
        arrays.append(value)
        return ["b", len(value)]
    if kind in (list, tuple, set, frozenset):
        tag = "l" if kind is list else "t" if kind is tuple else "s"
        return [tag, *(_tree(item, arrays) for item in (sorted(value) if tag == "s" else value))]
    if kind is dict:
        return ["d", *(_tree(item, arrays) for pair in value.items() for item in pair)]
    if kind in _enums().values():
        return ["e", kind.__name__, value.value]
    if _classes().get(kind.__name__) is not kind:
        raise TypeError(f"a {kind.__name__} cannot be sent to a cluster")
    return [kind.__name__, *(_tree(field, arrays) for field in _state(value))]


def _state(value: Any) -> Fields:
    """Return the fields of an instance of one of the classes."""
    kind: Any = type(value)
    if kind is EventAttr:
        return [value.pack()]
    if kind is FileEvent:
        return [value.attr, *(getattr(value, name) for name in _EVENT_STATE)]
    if kind is Dso:
        return [getattr(value, name) for name in _DSO_STATE]
    names = kind._fields if issubclass(kind, tuple) else kind.__match_args__
    return [getattr(value, name) for name in names]


class _Reader:
    """Reads values from a JSON tree and the bytes of arrays."""

    def __init__(self, arrays: memoryview) -> None:
        self._arrays = arrays
        self._offset = 0

    def value(self, tree: Any) -> Any:
        """Return the value of a tree."""
        if not isinstance(tree, list):
            if isinstance(tree, dict):
                raise BadTransferError("an object of JSON")
            return tree
        tag, *rest = tree
        if tag == "a":
            return self._array(*rest)
        if tag == "b":
            return bytes(self._take(*rest))
        if tag == "e":
            name, value = rest
            return _enums()[name](value)
        return _rebuild(tag, [self.value(item) for item in rest])

    def finish(self) -> None:
        """Raise BadTransferError if bytes are left."""
        if self._offset != len(self._arrays):
            raise BadTransferError("more bytes than arrays")

    def _take(self, size: Any) -> memoryview:
        begin = self._offset
        if type(size) is not int or not 0 <= size <= len(self._arrays) - begin:
            raise BadTransferError("an array that is longer than the message")
        self._offset += size
        return self._arrays[begin : self._offset]

    def _array(self, dtype: Any, length: Any) -> Any:
        if dtype not in _DTYPES or type(length) is not int:
            raise BadTransferError("an array of an unknown type")
        kind = np.dtype(dtype)
        return np.frombuffer(self._take(length * kind.itemsize), kind).copy()


def _rebuild(tag: str, values: Fields) -> Any:
    if tag == "l":
        return values
    if tag == "t":
        return tuple(values)
    if tag == "s":
        return frozenset(values)
    if tag == "d":
        return dict(zip(values[::2], values[1::2], strict=True))
    kind: Any = _classes()[tag]
    value = _BUILDERS[tag](values) if tag in _BUILDERS else kind(*values)
    for problem in CHECKS.get(tag, _no_problems)(value):
        raise BadTransferError(f"{tag}: {problem}")
    return value


def _no_problems(_value: Any) -> Iterator[str]:
    return iter(())


def _event(fields: Fields) -> FileEvent:
    attr, *state = fields
    event = FileEvent(attr, (), "", 0)
    for name, value in zip(_EVENT_STATE, state, strict=True):
        setattr(event, name, value)
    return event


def _dso(fields: Fields) -> Dso:
    name, kind, build_id, listed, long_name, short_name, pids = fields
    dso = Dso(name, kind, build_id, listed=listed)
    dso.long_name, dso.short_name, dso.pids = long_name, short_name, set(pids)
    return dso


def _attr(fields: Fields) -> EventAttr:
    (data,) = fields
    return EventAttr.unpack(data)


_BUILDERS: Final[dict[str, Callable[[Fields], Any]]] = {"FileEvent": _event, "Dso": _dso, "EventAttr": _attr}


@cache
def _enums() -> dict[str, type[Enum]]:
    from perfpy.analysis.sortkeys.sort_key import Mode
    from perfpy.symbols.dso import DsoKind
    from perfpy.symbols.files.debug_files import Inline

    return {kind.__name__: kind for kind in (DsoKind, Inline, Mode)}


@cache
def _classes() -> dict[str, type]:
    """Return the classes that may be transferred, by name."""
    from perfpy.analysis.aggregate.profile import Folded
    from perfpy.analysis.entries.layout import ColumnOptions
    from perfpy.analysis.entries.options import CallGraph, ChainOptions, NameOptions, ReportOptions, RowOptions, TimeOptions
    from perfpy.analysis.filters.address_ranges import AddressRanges
    from perfpy.analysis.filters.sample_filter import SampleFilter
    from perfpy.analysis.filters.time_ranges import TimeRanges
    from perfpy.analysis.sortkeys.key_texts import RecordingText
    from perfpy.fleet.folding import FoldedGroup, StackOptions
    from perfpy.fleet.portable.profile import PortableProfile, RecordingProblem
    from perfpy.fleet.portable.traced_values import ShownText
    from perfpy.perfdata.tracepoints.event_format import EventFormat, TraceField
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.symbols.frame_table import LineColumns
    from perfpy.symbols.known_frames import SymbolColumns
    from perfpy.unwind.truncated_stacks import TruncatedStacks
    from perfpy.views.report.column_text import TextOptions

    profiles = Folded, FoldedGroup, PortableProfile, RecordingProblem, RecordingText, ShownText, SymbolColumns, LineColumns, TruncatedStacks
    options = (
        ReportOptions,
        ChainOptions,
        RowOptions,
        NameOptions,
        TimeOptions,
        CallGraph,
        ColumnOptions,
        StackOptions,
        SymbolOptions,
        TextOptions,
    )
    filters = SampleFilter, TimeRanges, AddressRanges
    return {kind.__name__: kind for kind in (*profiles, *options, *filters, EventFormat, TraceField, EventAttr, FileEvent, Dso)}
