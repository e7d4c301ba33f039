"""Profiles and options as bytes that cluster workers and the driver exchange: data only, which cannot run code.

Layout: zstd data of MAGIC, the length of a JSON text (8 bytes, little-endian), the text, and the contents of arrays in the order of
the text. In the text, plain values stand for themselves. Lists begin with a tag: "l" list, "t" tuple, "s" frozenset, "d" dict (keys and
values in turn), "b" bytes (size), "a" array (dtype, length), "e" enum (class, value), or the name of a class, followed by its fields.
"""

from __future__ import annotations

import json
import sys
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import Machines
from perfpy.perfdata.events import FileEvent
from perfpy.symbols.dso import Dso
from perfpy.untrusted.expansion import ExpansionError, expand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from enum import Enum

    from perfpy.analysis.aggregate.profile import Folded
    from perfpy.fleet.portable_profile import PortableProfile
    from perfpy.symbols.known_frames import SymbolColumns
    from perfpy.symbols.symbolizer import LineColumns
    from perfpy.views.report.text import TextOptions


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
    for problem in CHECKS[tag](value) if tag in CHECKS else ():
        raise BadTransferError(f"{tag}: {problem}")
    return value


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


_BUILDERS: Final[dict[str, Callable[[Fields], Any]]] = {
    "FileEvent": _event,
    "Dso": _dso,
    "EventAttr": lambda fields: EventAttr.unpack(*fields),
}


@cache
def _enums() -> dict[str, type[Enum]]:
    from perfpy.analysis.sort_key import Mode
    from perfpy.symbols.dso import DsoKind
    from perfpy.symbols.files.debug_files import Inline

    return {kind.__name__: kind for kind in (DsoKind, Inline, Mode)}


@cache
def _classes() -> dict[str, type]:
    """Return the classes that may be transferred, by name."""
    from perfpy.analysis.aggregate.profile import Folded
    from perfpy.analysis.filters import AddressRanges, SampleFilter, TimeRanges
    from perfpy.analysis.report.options import CallGraph, ChainOptions, ColumnOptions, NameOptions, ReportOptions, RowOptions, TimeOptions
    from perfpy.analysis.sort_key import RecordingText
    from perfpy.analysis.stacks import StackOptions
    from perfpy.fleet.folding import FoldedGroup
    from perfpy.fleet.portable_profile import PortableProfile, RecordingProblem, ShownText
    from perfpy.perfdata.event_format import EventFormat, TraceField
    from perfpy.symbols.files.debug_files import GuestFiles, SymbolOptions
    from perfpy.symbols.known_frames import SymbolColumns
    from perfpy.symbols.quality_notes import TruncatedStacks
    from perfpy.symbols.symbolizer import LineColumns
    from perfpy.views.report.text import TextOptions

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
        GuestFiles,
        Machines,
        TextOptions,
    )
    filters = SampleFilter, TimeRanges, AddressRanges
    return {kind.__name__: kind for kind in (*profiles, *options, *filters, EventFormat, TraceField, EventAttr, FileEvent, Dso)}


# Checks of profiles and options that arrive from another machine: the type of each field, and each number that indexes another list.
#
# A check yields a line for each problem.


_INTEGERS: Final = "iu"
#: fields that need more than the type of their class's default value: a type, "name" of a class, or a list of what is allowed
_NUMBER: Final = (int, float)
_FIELDS: Final[dict[str, dict[str, Any]]] = {
    "FoldedGroup": {"part": ("PortableProfile", None), "failed": ["RecordingProblem"], "refused": str},
    "RecordingProblem": {"path": str, "reason": str},
    "RecordingText": {"path": str, "host": str, "seconds": _NUMBER},
    "ShownText": {"key": str, "text": str, "width": int},
    "TruncatedStacks": {"truncated": int, "stacks": int, "size": int, "machine": str},
    "TraceField": {
        "name": str,
        "type": str,
        "offset": int,
        "size": int,
        "is_signed": bool,
        "is_array": bool,
        "length": int,
        "element_size": int,
    },
    "EventFormat": {"system": str, "name": str, "id": int, "common_fields": ["TraceField"], "fields": ["TraceField"], "print_fmt": str},
    "Dso": {"name": str, "kind": "DsoKind", "build_id": str, "listed": bool, "long_name": str, "short_name": str, "pids": [int]},
    "FileEvent": {
        "attr": EventAttr,
        "ids": [int],
        "name": str,
        "index": int,
        "tracepoint": ([str], None),
        "unit": str,
        "scale": (*_NUMBER, None),
        "cpus": ([int], None),
        "leader": int,
        "group_name": str,
        "in_time": bool,
    },
    "PortableProfile": {
        "recordings": ["RecordingText"],
        "events": ["FileEvent"],
        "event_keys": [tuple],
        "dsos": ["Dso"],
        "origins": [str],
        "frames": dict,
        "symbols": "SymbolColumns",
        "comms": [str],
        "last_comms": dict,
        "folded": "Folded",
        "values": dict,
        "formats": [("EventFormat", None)],
        "lines": ("LineColumns", None),
        "lost": int,
        "dropped": int,
        "truncated": ["TruncatedStacks"],
        "by_function": bool,
        "listed": [str],
        "warnings": ["RecordingProblem"],
    },
    "SymbolColumns": {"names": [str]},
    "LineColumns": {"paths": [str], "begins": [[int]]},
    "Folded": {"dimensions": dict, "measures": dict},
}


def _type_problems(value: Any, fields: dict[str, Any]) -> Iterator[str]:
    for name, allowed in fields.items():
        if not _is(getattr(value, name), allowed):
            yield f"{name} has a wrong type"


def _is(value: Any, allowed: Any) -> bool:
    if allowed is None:
        return value is None
    if isinstance(allowed, tuple):
        return any(_is(value, one) for one in allowed)
    if isinstance(allowed, list):
        return isinstance(value, list | tuple | set | frozenset) and all(_is(item, allowed[0]) for item in value)
    return type(value) is allowed if isinstance(allowed, type) else type(value).__name__ == allowed


def _default_problems(value: Any) -> Iterator[str]:
    """Compare the fields of options with the types of their default values."""
    for name, default in value._field_defaults.items():
        field = getattr(value, name)
        if default is not None and type(field) is not type(default) and not (type(field) is int and type(default) is float):
            if name not in _OPTIONAL or field is not None:
                yield f"{name} has a wrong type"
        elif default is None and not isinstance(field, _PLAIN) and type(field).__name__ not in _NESTED:
            yield f"{name} has a wrong type"


_PLAIN: Final = (type(None), str, int, float, bool, tuple, list, frozenset)
_NESTED: Final = ("CallGraph", "TimeRanges", "AddressRanges", "SampleFilter")
_OPTIONAL: Final = ("group",)


def _columns(columns: Sequence[Any], kinds: str) -> int:
    """Return the length of columns, -1 if they are no arrays of these kinds of numbers or differ in length."""
    lengths = {len(column) if isinstance(column, np.ndarray) and column.dtype.kind in kinds else -1 for column in columns}
    return lengths.pop() if len(lengths) == 1 else -1 if lengths else 0


def _within(numbers: Any, end: int, least: int = -1) -> bool:
    """Whether all numbers are indexes of a list of `end` items, or -1."""
    return len(numbers) == 0 or (int(numbers.min()) >= least and int(numbers.max()) < end)


def _check_symbols(symbols: SymbolColumns) -> Iterator[str]:
    yield from _type_problems(symbols, _FIELDS["SymbolColumns"])
    if _columns(symbols[1:], "iub") != len(symbols.names):
        yield "columns of different lengths"
    elif not _within(symbols.twin, len(symbols.names)):
        yield "twin refers to no symbol"


def _check_lines(lines: LineColumns) -> Iterator[str]:
    yield from _type_problems(lines, _FIELDS["LineColumns"])
    begins: Sequence[Sequence[int]] = lines.begins  # (file, line)
    if _columns(lines[2:], "iub") < 0:
        yield "columns of different lengths"
    elif not all(_within(numbers, len(lines.paths)) for numbers in (lines.file, lines.caller_file)):
        yield "a line refers to no file"
    elif not all(len(begin) == 2 and -1 <= begin[0] < len(lines.paths) for begin in begins):
        yield "a function refers to no file"


def _check_folded(folded: Folded) -> Iterator[str]:
    yield from _type_problems(folded, _FIELDS["Folded"])
    columns = folded.event, folded.chain, folded.tid, folded.period, folded.count
    named_columns = [folded.dimensions, folded.measures]
    if not all(isinstance(one, dict) for one in named_columns):
        return
    if not all(isinstance(name, str) for one in named_columns for name in one):
        yield "dimensions without names"
    elif {
        _columns([*columns, *(column for one in named_columns for column in one.values())], _INTEGERS),
        _columns([folded.filtered], "b"),
    } != {len(folded.event)}:
        yield "columns of different lengths"


def _check_profile(profile: PortableProfile) -> Iterator[str]:
    wrong = [*_type_problems(profile, _FIELDS["PortableProfile"])]
    yield from wrong
    if not wrong:
        yield from _list_problems(profile)
        yield from _frame_problems(profile)
        yield from _row_problems(profile)


def _list_problems(profile: PortableProfile) -> Iterator[str]:
    if not len(profile.events) == len(profile.event_keys) == len(profile.formats):
        yield "events without keys or formats"
    if len(profile.origins) != len(profile.dsos):
        yield "files without origins"
    tables: list[tuple[str, dict[Any, Any], type, type]] = [
        ("last_comms", profile.last_comms, int, str),
        ("values", profile.values, str, list),
    ]
    for name, table, key_type, value_type in tables:
        if not all(type(key) is key_type and type(value) is value_type for key, value in table.items()):
            yield f"{name} has a wrong type"


def _frame_problems(profile: PortableProfile) -> Iterator[str]:
    from perfpy.fleet.portable_profile import FRAME_COLUMNS

    frames, symbols = profile.frames, profile.symbols
    if tuple(frames) != FRAME_COLUMNS or (size := _columns([*frames.values()], "iub")) < 0:
        yield "frames have other columns"
        return
    if not (_within(frames["dso"], len(profile.dsos)) and _within(frames["symbol"], len(symbols.names))):
        yield "a frame refers to no file or symbol"
    if not _within(symbols.dso, len(profile.dsos)):
        yield "a symbol refers to no file"
    if _columns([profile.chain_frames], _INTEGERS) < 0 or _columns([profile.chain_lengths], _INTEGERS) < 0:
        yield "callchains are not numbers"
    elif not _within(profile.chain_frames, size) or not _within(profile.chain_lengths, len(profile.chain_frames) + 1, least=0):
        yield "a callchain refers to no frame"
    elif int(profile.chain_lengths.sum()) != len(profile.chain_frames):
        yield "callchains have other lengths"
    if profile.lines is not None and len(profile.lines.file) != size:
        yield "frames without lines"


def _row_problems(profile: PortableProfile) -> Iterator[str]:
    from perfpy.fleet.portable_profile import is_of_frames

    folded = profile.folded
    if not _within(folded.event, len(profile.events)):
        yield "a row refers to no event"
    if not _within(folded.chain, len(profile.chain_lengths)):
        yield "a row refers to no callchain"
    ends = {name: len(values) for name, values in profile.values.items()} | {"comm": len(profile.comms)}
    ends |= {name: len(profile.frames["ip"]) for name in folded.dimensions if is_of_frames(name)}
    for name, numbers in folded.dimensions.items():
        if name in ends and not _within(numbers, ends[name]):
            yield f"a row refers to no {name}"


def _check_text(options: TextOptions) -> Iterator[str]:
    yield from _default_problems(options)
    if options.colour:
        yield "colours are the terminal's"


_OPTIONS: Final = (
    *("ReportOptions", "ChainOptions", "RowOptions", "NameOptions", "TimeOptions", "CallGraph", "ColumnOptions", "StackOptions"),
    *("SymbolOptions", "GuestFiles", "Machines", "SampleFilter"),
)
#: class -> its check
CHECKS: Final[dict[str, Callable[[Any], Iterator[str]]]] = {
    **{name: partial(_type_problems, fields=fields) for name, fields in _FIELDS.items()},
    **dict.fromkeys(_OPTIONS, _default_problems),
    "SymbolColumns": _check_symbols,
    "LineColumns": _check_lines,
    "Folded": _check_folded,
    "PortableProfile": _check_profile,
    "TextOptions": _check_text,
}
