"""Handlers of tracepoints: which arguments a script's function gets for a sample.

What enters: the rows of a batch that are one tracepoint's, and the function for it, SYSTEM__EVENT or trace_unhandled. What
leaves: a tuple of arguments a row: event, context, CPU, seconds, nanoseconds, PID, command and callchain, then the
tracepoint's fields in the format's order (for trace_unhandled all of that in a dictionary), and, for functions with one parameter
more, the sample.

Tracepoints gain fields, and lose some, from kernel to kernel. A function with another number of parameters gets
the fields that have its parameters' names; a parameter with another name gets the field that stands where it stands.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.byteorder import as_number
from perfpy.perfdata.tracepoints.field_columns import trace_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.perfdata.tracepoints.event_format import EventFormat, TraceField

    Values = Sequence[Any]

#: of the arguments before the fields, those that trace_unhandled gets by name
_COMMON: Final = ("common_cpu", "common_s", "common_ns", "common_pid", "common_comm", "common_callchain")
_BEFORE_FIELDS: Final = 2 + len(_COMMON)
_SECOND: Final = 1_000_000_000
#: as perf has it: ASCII, and of Latin-1 what is no control character
_PRINTABLE: Final = frozenset([*range(0x20, 0x7F), *b"\t\n\v\f\r", *range(0xA0, 0x100)])


class Head(NamedTuple):
    """What is known of each row besides the tracepoint's fields: columns."""

    cpu: Values
    time: Values
    comm: Values
    callchain: Values


def parameters(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """The names of a function's positional parameters; None where it takes any number, or is no function of Python's."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is None or code.co_flags & 0x04:  # *args
        return None
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount]
    return names[1:] if hasattr(function, "__self__") else names


class TracepointArguments:
    """Makes the arguments of one tracepoint's handler."""

    def __init__(
        self, form: EventFormat, name: str, handler: Callable[..., Any], context: object, shown: Callable[[str], str], *, by_name: bool
    ) -> None:
        """name: SYSTEM__EVENT; context: what a handler asks for more; shown: text -> what the script gets.

        by_name: the fields come in one dictionary.
        """
        self._form = form
        self._name = name
        self._context = context
        self._shown = shown
        self._by_name = by_name
        self._not_text: set[str] = set()
        names = parameters(handler)
        given = _BEFORE_FIELDS + len(form.fields) if not self._by_name else 3
        #: whether the function has a parameter for the sample: one more than there are fields, and not one for a field that is gone
        self.wants_sample = names is not None and len(names) == given + 1 and (by_name or form.field(names[-1]) is None)
        fits = by_name or names is None or len(names) == given + self.wants_sample
        self._chosen = None if fits or names is None else _chosen(names, form.fields)

    def of(self, raw: Any, endian: str, head: Head) -> list[tuple[Any, ...]]:
        """The arguments of each row, but for the sample."""
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
        if self._chosen is not None:
            nothing = [None] * len(head.cpu)
            fields = [nothing if which is None else fields[which] for which in self._chosen]
        return list(zip(*before, *common, *fields, strict=False))

    def _values(self, field: TraceField, column: Any, raw: Any, endian: str) -> Values:
        """A field's values: numbers, text, or bytes where it is an array of anything else."""
        if not (field.is_array or field.is_dynamic):
            return column.tolist() if isinstance(column, np.ndarray) else [0] * len(column)
        data = _data(field, raw, endian)
        if not field.is_string and not (field.is_dynamic and "char" in field.type):
            return list(map(bytearray, data))
        return [self._text(field, one) for one in data]

    def _text(self, field: TraceField, data: bytes) -> str | bytearray:
        """A text that can be printed and ends within its field; from the first other one on it is bytes, as perf has it."""
        text = data.partition(b"\0")[0]
        if not data or not data.endswith(b"\0") or not _PRINTABLE.issuperset(text):
            self._not_text.add(field.name)
        return self._shown(text.decode(errors="surrogateescape")) if field.name not in self._not_text else bytearray(data)


def _chosen(names: tuple[str, ...], fields: Sequence[TraceField]) -> list[int | None]:
    """For each parameter after the common ones the number of its field; None for a field that there is not."""
    number_of = {field.name: number for number, field in enumerate(fields)}
    wanted = names[_BEFORE_FIELDS:]
    taken = {number_of[name] for name in wanted if name in number_of}
    free = [number if number < len(fields) and number not in taken else None for number in range(len(wanted))]
    return [number_of.get(name, number) for name, number in zip(wanted, free, strict=True)]


def _data(field: TraceField, raw: Any, endian: str) -> list[bytes]:
    """The bytes of an array of each row."""
    whole, bounds = raw.values.tobytes(), raw.offsets.tolist()
    rows = [whole[begin:end] for begin, end in itertools.pairwise(bounds)]
    if not field.is_dynamic:
        return [row[field.offset : field.offset + field.size] for row in rows]
    found = []
    for row in rows:
        word = as_number(row[field.offset : field.offset + field.size], endian)
        begin = (word & 0xFFFF) + (field.offset + field.size if field.is_relative else 0)
        found.append(row[begin : begin + (word >> 16)])
    return found
