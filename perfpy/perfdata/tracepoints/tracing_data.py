r"""Decode and encode the TRACING_DATA section: the formats of tracepoints, and strings of the kernel.

In a pipe, its bytes follow the HEADER_TRACING_DATA record. Formats are parsed on first use.
Layout: tools/perf/util/trace-event-info.c:

    bytes 23 8 68, "tracing", string version; u8 big_endian, long_size; u32 page_size
    "header_page\\0" u64 size, text;  "header_event\\0" u64 size, text
    u32 nr; { u64 size, text } [nr]                               ftrace's own formats
    u32 nr; { string system; u32 nr; { u64 size, text } [nr] } [nr]
    u32 size, text kallsyms;  u32 size, text printk_formats;  u64 size, text cmdlines (version 0.6)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.perfdata.byte_cursor import FieldReader, FieldWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.perfdata.tracepoints.event_format import EventFormat

    Warn = Callable[[str], None]

_MAGIC: Final = b"\x17\x08\x44tracing"
_HEADER_PAGE: Final = b"header_page\0"
_HEADER_EVENT: Final = b"header_event\0"
_FIRST_WITH_CMDLINES: Final = 0.6
_NUMBER: Final = re.compile(rb"^ID:\s*(\d+)", re.MULTILINE)
_NAME: Final = re.compile(rb"^name:\s*(\S+)", re.MULTILINE)
_COMMIT_SIZE: Final = re.compile(rb"commit;\s*offset:\d+;\s*size:(\d+);")
_PRINTK: Final = re.compile(r'^\s*(?:0x)?([0-9a-fA-F]+)\s*:\s*"(.*)"\s*$')


_MOST_DIGITS: Final = 18  # of plausible numbers
_LONG_SIZES: Final = (4, 8)


class Tracepoint(NamedTuple):
    """One event's format, as text of .../events/SYSTEM/NAME/format."""

    system: str
    name: str
    id: int
    text: bytes


class TracingData(NamedTuple):
    """The parts of the section.

    Attributes:
        endian: "<" or ">".
        long_size, page_size: of the recorded kernel.
        ftrace: formats of ftrace's own events.
        systems: (name, formats) of each.
        cmdlines: None before version 0.6.
    """

    version: str
    endian: str
    long_size: int
    page_size: int
    header_page: bytes
    header_event: bytes
    ftrace: tuple[bytes, ...] = ()
    systems: tuple[tuple[str, tuple[bytes, ...]], ...] = ()
    kallsyms: bytes = b""
    printk: bytes = b""
    cmdlines: bytes | None = None

    def encode(self) -> bytes:
        """Return the section's bytes: the reverse of decode_tracing()."""
        w = FieldWriter(self.endian)
        w.raw(_MAGIC + _c_string(self.version) + bytes((self.endian == ">", self.long_size)))
        w.u32(self.page_size)
        for tag, text in ((_HEADER_PAGE, self.header_page), (_HEADER_EVENT, self.header_event)):
            w.raw(tag)
            _write_text(w, text)
        w.u32(len(self.ftrace))
        for text in self.ftrace:
            _write_text(w, text)
        w.u32(len(self.systems))
        for name, formats in self.systems:
            w.raw(_c_string(name))
            w.u32(len(formats))
            for text in formats:
                _write_text(w, text)
        for text in (self.kallsyms, self.printk):
            w.u32(len(text))
            w.raw(text)
        if self.cmdlines is not None:
            _write_text(w, self.cmdlines)
        return w.getvalue()


def decode_tracing(data: bytes) -> TracingData:
    """Decode a TRACING_DATA section; ignore bytes after it (padding).

    Raises ValueError if it is malformed or truncated.
    """
    if not data.startswith(_MAGIC):
        raise ValueError("tracing data without its magic")
    start = FieldReader(data[len(_MAGIC) :])
    version = start.read_string()
    big_endian, long_size = start.raw(2)
    r = FieldReader(start.raw(start.remaining), ">" if big_endian else "<")
    page_size = r.u32()
    header_page = _tag(r, _HEADER_PAGE)
    header_event = _tag(r, _HEADER_EVENT)

    def text() -> bytes:
        return r.raw(r.u64())

    def system() -> tuple[str, tuple[bytes, ...]]:
        return r.read_string(), r.list(r.u32(), text, 8)

    ftrace = r.list(r.u32(), text, 8)
    systems = r.list(r.u32(), system, 5)
    kallsyms, printk = r.raw(r.u32()), r.raw(r.u32())
    cmdlines = text() if _number(version) >= _FIRST_WITH_CMDLINES else None
    return TracingData(version, r.endian, long_size, page_size, header_page, header_event, ftrace, systems, kallsyms, printk, cmdlines)


def _tag(r: FieldReader, tag: bytes) -> bytes:
    if r.raw(len(tag)) != tag:
        raise ValueError(f"tracing data without its {tag[:-1].decode()}")
    return r.raw(r.u64())


def _number(version: str) -> float:
    match = re.match(r"\d+(\.\d+)?", version)
    return float(match[0]) if match else 0.0


def _c_string(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape") + b"\0"


def _write_text(w: FieldWriter, text: bytes) -> None:
    w.u64(len(text))
    w.raw(text)


class Formats(Mapping[int, "EventFormat"]):
    """Tracepoint id -> format, parsed on first use."""

    def __init__(self, tracepoints: Mapping[int, Tracepoint], long_size: int, warn: Warn) -> None:
        self._tracepoints = tracepoints
        self._warn = warn
        self._long_size = long_size
        self._parsed: dict[int, EventFormat] = {}

    def __getitem__(self, number: int) -> EventFormat:
        if number not in self._parsed:
            # loaded here because only recordings of tracepoints need it
            from perfpy.perfdata.tracepoints.event_format import parse_format

            point = self._tracepoints[number]
            text = point.text.decode("utf-8", "surrogateescape")
            self._parsed[number] = parse_format(text, point.system, self._long_size, warn=self._warn)
        return self._parsed[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._tracepoints)

    def __len__(self) -> int:
        return len(self._tracepoints)


class Tracing:
    """The tracepoints of a recording.

    Attributes:
        endian: of their raw data.
        long_size: bytes of the kernel's `long`.
        data: the section.
        warn: called with one line for each malformed part.
    """

    def __init__(self, data: TracingData, warn: Warn = lambda _line: None) -> None:
        self.data = data
        self.warn = warn
        self.endian = data.endian
        # perf may have been built for another size than the kernel's, which the page header has
        commit = _COMMIT_SIZE.search(data.header_page)
        size = int(commit[1][:_MOST_DIGITS]) if commit else data.long_size
        self.long_size = size if size in _LONG_SIZES else _LONG_SIZES[-1]

    @cached_property
    def tracepoints(self) -> dict[int, Tracepoint]:
        """id -> tracepoint."""
        points: dict[int, Tracepoint] = {}
        for system, formats in (*self.data.systems, ("ftrace", self.data.ftrace)):
            for text in formats:
                number, name = _NUMBER.search(text), _NAME.search(text)
                if number and name and len(number[1]) <= _MOST_DIGITS:
                    point = Tracepoint(system, name[1].decode("utf-8", "surrogateescape"), int(number[1]), text)
                    points.setdefault(point.id, point)
        return points

    @cached_property
    def formats(self) -> Formats:
        """id -> EventFormat, parsed on first use without malformed fields."""
        return Formats(self.tracepoints, self.long_size, self.warn)

    @cached_property
    def printk_formats(self) -> dict[int, str]:
        """Address -> the kernel's format string there."""
        strings: dict[int, str] = {}
        for line in self.data.printk.decode("utf-8", "surrogateescape").splitlines():
            match = _PRINTK.match(line)
            if match:
                strings[int(match[1], 16)] = match[2]
        return strings
