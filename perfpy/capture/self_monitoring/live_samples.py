"""LiveSample: one sample of a running event, with the fields of tracepoints in tracefs's format."""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfpy.abi.ring_records import RingSample
    from perfpy.perfdata.tracepoints.event_format import EventFormat, TraceField

    Reader = Callable[[bytes], Any]

_LETTERS: Final = {1: "bB", 2: "hH", 4: "iI", 8: "qQ"}
_ORDER: Final = "little" if sys.byteorder == "little" else "big"


class LiveSample:
    """One sample of a running event.

    The kernel's fields are attributes, if the event has them: time (ns, of CLOCK_MONOTONIC), pid, tid, cpu, ip, period, addr,
    callchain (a list of addresses, innermost first).

    Attributes:
        event: the event's name.
        comm: the thread's comm.
        fields: the fields of a tracepoint by name; sample["next_comm"] returns one, too.

    >>> import os, perfpy
    >>> with perfpy.watch("page-faults:u", pid=os.getpid(), period=1, duration=5) as faults:
    ...     pages = bytearray(b"x") * (1 << 26)
    ...     sample = next(faults)
    >>> sample.event, sample.tid > 0, dict(sample.fields)
    ('page-faults:u', True, {})
    """

    __slots__ = ("_fields", "_read", "_sample", "comm", "event", "time")

    def __init__(self, event: str, comm: str, sample: RingSample, read: Callable[[bytes], dict[str, Any]] | None) -> None:
        self.event = event
        self.comm = comm
        self.time: int = sample.time
        self._sample = sample
        self._read = read
        self._fields: dict[str, Any] | None = None

    @property
    def fields(self) -> Mapping[str, Any]:
        """The tracepoint's fields; empty for other events."""
        if self._fields is None:
            self._fields = self._read(self._sample.raw) if self._read else {}
        return self._fields

    def __getitem__(self, name: str) -> Any:
        try:
            return self.fields[name]
        except KeyError:
            names = ", ".join(self.fields) or "none, because it is not a tracepoint"
            raise KeyError(f"'{self.event}' has no field {name!r}; it has {names}") from None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._sample, name)

    def __dir__(self) -> list[str]:
        return sorted({"comm", "event", "fields", *dir(self._sample)})

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.fields.items() if not name.startswith("common_"))
        return f"<{self.event} of {self.comm} at {self.time / 1e9:.6f} s{': ' if fields else ''}{fields}>"


def field_reader(form: EventFormat) -> Callable[[bytes], dict[str, Any]]:
    """Return a function that decodes a tracepoint's raw data: numbers, texts, lists of numbers, and bytes of other types."""
    readers = [(field.name, _reader(field)) for field in (*form.common_fields, *form.fields)]
    return lambda raw: {name: read(raw) for name, read in readers}


def _reader(field: TraceField) -> Reader:
    start, end = field.offset, field.offset + field.size
    if field.is_dynamic:
        return _dynamic(field)
    if field.is_string:
        return lambda raw: _text(raw[start:end])
    if field.is_array and field.element_size in _LETTERS and field.size:
        count = field.size // field.element_size
        numbers = struct.Struct(f"={count}{_LETTERS[field.element_size][not field.is_signed]}")
        return lambda raw: [*numbers.unpack_from(raw.ljust(end, b"\0"), start)]
    if not field.is_array and field.size in _LETTERS:
        return lambda raw: int.from_bytes(raw[start:end], _ORDER, signed=field.is_signed)
    return lambda raw: raw[start:end] if field.size else raw[start:]


def _dynamic(field: TraceField) -> Reader:
    start, end = field.offset, field.offset + field.size

    def data(raw: bytes) -> Any:
        word = int.from_bytes(raw[start:end], _ORDER)
        begin = (word & 0xFFFF) + (end if field.is_relative else 0)
        content = raw[begin : begin + (word >> 16)]
        return _text(content) if "char" in field.type else content

    return data


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode("utf-8", "surrogateescape")
