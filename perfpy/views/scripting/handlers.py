"""The arguments of a script's tracepoint handlers, SYSTEM__EVENT or trace_unhandled.

A handler gets event, context, CPU, seconds, nanoseconds, PID, command and callchain, then the tracepoint's fields in the format's order
(trace_unhandled: all in a dictionary). A function with one more parameter also gets the sample.

Tracepoints gain and lose fields between kernels. If the number of parameters differs, fields are matched by the parameters' names, and
other parameters get the field at their position.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.framing import as_number
from perfpy.perfdata.tracepoints.field_columns import trace_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.perfdata.tracepoints.event_format import EventFormat, TraceField

    Values = Sequence[Any]

#: the arguments before the fields that trace_unhandled gets by name
_COMMON: Final = ("common_cpu", "common_s", "common_ns", "common_pid", "common_comm", "common_callchain")
_BEFORE_FIELDS: Final = 2 + len(_COMMON)
_SECOND: Final = 1_000_000_000
#: as in perf: ASCII, and Latin-1 without control characters
_PRINTABLE: Final = frozenset([*range(0x20, 0x7F), *b"\t\n\v\f\r", *range(0xA0, 0x100)])


class Head(NamedTuple):
    """The columns of each row apart from the tracepoint's fields."""

    cpu: Values
    time: Values
    comm: Values
    callchain: Values


def parameters(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """Return the names of a function's positional parameters; None for any number, or for functions not written in Python."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is None or code.co_flags & 0x04:  # *args
        return None
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount]
    return names[1:] if hasattr(function, "__self__") else names


class TracepointArguments:
    """The arguments of one tracepoint's handler."""

    def __init__(
        self,
        form: EventFormat,
        name: str,
        handler: Callable[..., Any],
        context: object,
        visible_text: Callable[[str], str],
        *,
        by_name: bool,
    ) -> None:
        """Set the handler.

        Args:
            name: SYSTEM__EVENT
            context: what the handler passes to perf_trace_context
            visible_text: converts a text for scripts
            by_name: whether the fields are in one dictionary
        """
        self._form = form
        self._name = name
        self._context = context
        self._visible_text = visible_text
        self._by_name = by_name
        self._not_text: set[str] = set()
        names = parameters(handler)
        argument_count = _BEFORE_FIELDS + len(form.fields) if not self._by_name else 3
        #: Whether the function has a parameter for the sample: one more than there are fields, and not named like a removed field.
        self.wants_sample = names is not None and len(names) == argument_count + 1 and (by_name or form.field(names[-1]) is None)
        fits = by_name or names is None or len(names) == argument_count + self.wants_sample
        self._match_fields = None if fits or names is None else _match_fields(names, form.fields)

    def of(self, raw: Any, endian: str, head: Head) -> list[tuple[Any, ...]]:
        """Return the arguments of each row, without the sample."""
        columns = trace_columns(self._form, raw, endian)
        fields: list[Values] = [self._values(field, columns[field.name], raw, endian) for field in self._form.fields]
        seconds = [time // _SECOND for time in head.time]
        rests = [time % _SECOND for time in head.time]
        common: list[Values] = [head.cpu, seconds, rests, columns["common_pid"].tolist(), head.comm, head.callchain]
        before = (itertools.repeat(self._name), itertools.repeat(self._context))
        if self._by_name:
            keys = (*_COMMON, *(field.name for field in self._form.fields))
            values = (dict(zip(keys, row, strict=True)) for row in zip(*common, *fields, strict=True))
            return list(zip(*before, values, strict=False))
        if self._match_fields is not None:
            nothing = [None] * len(head.cpu)
            fields = [nothing if which is None else fields[which] for which in self._match_fields]
        return list(zip(*before, *common, *fields, strict=False))

    def _values(self, field: TraceField, column: Any, raw: Any, endian: str) -> Values:
        """Return a field's values: numbers, text, or bytes for arrays of other types."""
        if not (field.is_array or field.is_dynamic):
            return column.tolist() if isinstance(column, np.ndarray) else [0] * len(column)
        data = _data(field, raw, endian)
        if not field.is_string and not (field.is_dynamic and "char" in field.type):
            return list(map(bytearray, data))
        return [self._text(field, one) for one in data]

    def _text(self, field: TraceField, data: bytes) -> str | bytearray:
        """Return a printable text that ends within its field. After the first other value the field is bytes, as in perf."""
        text = data.partition(b"\0")[0]
        if not data or not data.endswith(b"\0") or not _PRINTABLE.issuperset(text):
            self._not_text.add(field.name)
        return self._visible_text(text.decode(errors="surrogateescape")) if field.name not in self._not_text else bytearray(data)


def _match_fields(names: tuple[str, ...], fields: Sequence[TraceField]) -> list[int | None]:
    """Return the index of the field for each parameter after the common ones; None for a missing field."""
    number_of = {field.name: number for number, field in enumerate(fields)}
    parameters = names[_BEFORE_FIELDS:]
    positions = {number_of[name] for name in parameters if name in number_of}
    free = [number if number < len(fields) and number not in positions else None for number in range(len(parameters))]
    return [number_of.get(name, number) for name, number in zip(parameters, free, strict=True)]


def _data(field: TraceField, raw: Any, endian: str) -> list[bytes]:
    """Return the bytes of an array in each row."""
    whole, bounds = raw.values.tobytes(), raw.offsets.tolist()
    rows = [whole[begin:end] for begin, end in itertools.pairwise(bounds)]
    if not field.is_dynamic:
        return [row[field.offset : field.offset + field.size] for row in rows]
    fields = []
    for row in rows:
        word = as_number(row[field.offset : field.offset + field.size], endian)
        begin = (word & 0xFFFF) + (field.offset + field.size if field.is_relative else 0)
        fields.append(row[begin : begin + (word >> 16)])
    return fields
