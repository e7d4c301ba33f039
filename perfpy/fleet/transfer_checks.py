"""Checks of profiles and options that arrive from another machine: the type of each field, and each number that indexes another list.

A check yields a line for each problem.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.attr import EventAttr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perfpy.analysis.aggregate.profile import Folded
    from perfpy.fleet.portable.profile import PortableProfile
    from perfpy.symbols.frame_table import LineColumns
    from perfpy.symbols.known_frames import SymbolColumns
    from perfpy.views.report.column_text import TextOptions

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
    if _columns(lines[2:], "iub") < 0:
        yield "columns of different lengths"
    elif not all(_within(numbers, len(lines.paths)) for numbers in (lines.file, lines.caller_file)):
        yield "a line refers to no file"
    elif not all(_is_place(begin, len(lines.paths)) for begin in lines.begins):
        yield "a function refers to no file"


def _is_place(begin: Sequence[int], path_count: int) -> bool:
    return len(begin) == len(("file", "line")) and -1 <= begin[0] < path_count


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
    from perfpy.fleet.portable.profile import FRAME_COLUMNS

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
    folded = profile.folded
    if not _within(folded.event, len(profile.events)):
        yield "a row refers to no event"
    if not _within(folded.chain, len(profile.chain_lengths)):
        yield "a row refers to no callchain"
    ends = {name: len(values) for name, values in profile.values.items()} | {"comm": len(profile.comms)}
    ends |= {name: len(profile.frames["ip"]) for name in folded.dimensions if name.endswith("frame") or name == "frame"}
    for name, numbers in folded.dimensions.items():
        if name in ends and not _within(numbers, ends[name]):
            yield f"a row refers to no {name}"


def _check_text(options: TextOptions) -> Iterator[str]:
    yield from _default_problems(options)
    if options.colour:
        yield "colours are the terminal's"


def _by_types(name: str) -> Callable[[Any], Iterator[str]]:
    return lambda value: _type_problems(value, _FIELDS[name])


_OPTIONS: Final = (
    *("ReportOptions", "ChainOptions", "RowOptions", "NameOptions", "TimeOptions", "CallGraph", "ColumnOptions", "StackOptions"),
    *("SymbolOptions", "SampleFilter"),
)
#: class -> its check
CHECKS: Final[dict[str, Callable[[Any], Iterator[str]]]] = {
    **{name: _by_types(name) for name in _FIELDS},
    **dict.fromkeys(_OPTIONS, _default_problems),
    "SymbolColumns": _check_symbols,
    "LineColumns": _check_lines,
    "Folded": _check_folded,
    "PortableProfile": _check_profile,
    "TextOptions": _check_text,
}
