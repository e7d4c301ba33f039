"""Parse a tracepoint's `format` file: the fields of its raw data.

The text is that of events/SYSTEM/NAME/format, from tracefs or from the
TRACING_DATA section of a file. Layout: one line
`field:TYPE NAME; offset:N; size:N; signed:N;` per field (Documentation/trace/events.rst),
then the `print fmt`, which perfpy.perfdata.print_format parses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property

from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.perfdata.header import FieldReader, FieldWriter

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    Warn = Callable[[str], None]


_FIELD: Final = re.compile(
    r"^\s*field:(?:special\s*:?\s*)?(?P<declaration>[^;]+);\s*offset:(?P<offset>\w+);\s*size:(?P<size>\w+);(?:\s*signed:(?P<signed>\w+);)?"
)
_DECLARATION: Final = re.compile(r"^(?P<type>.*?)\s*(?P<name>\w+)\s*(?P<brackets>\[.*\])?$", re.DOTALL)
_MIDDLE_BRACKETS: Final = re.compile(r"\[([^\]]*)\]\s*\w+$")
_LOC: Final = re.compile(r"__(?:data|rel)_loc")
_LONGEST_LINE: Final = 512
_MOST_BYTES: Final = 1 << 16  # the longest record
_ELEMENT_SIZES: Final = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "s8": 1, "s16": 2, "s32": 4, "s64": 8, "char": 1}


class TraceField(NamedTuple):
    """One field of a tracepoint's raw data.

    Attributes:
        type: as declared, with the brackets of an array.
        offset, size: in bytes; size 0 is the rest of the data.
        length: elements of a fixed array.
        element_size: bytes, 0 if the format does not have it.
    """

    name: str
    type: str
    offset: int
    size: int
    is_signed: bool = False
    is_array: bool = False
    length: int = 0
    element_size: int = 0

    @property
    def is_dynamic(self) -> bool:
        """Whether the field holds u16 offset and u16 length of its data."""
        return _LOC.match(self.type) is not None

    @property
    def is_relative(self) -> bool:
        """Whether the data's offset counts from the end of the field."""
        return self.type.startswith("__rel_loc")

    @property
    def is_string(self) -> bool:
        """Whether the field is an array of characters, or an old dynamic string."""
        return (self.is_array and any(word in self.type for word in ("char", "u8", "s8"))) or (self.is_dynamic and self.size == 2)

    @property
    def is_pointer(self) -> bool:
        """Whether the field is declared with a star."""
        return "*" in self.type

    @property
    def is_long(self) -> bool:
        """Whether the field's type contains the word long."""
        return "long" in self.type


class EventFormat(NamedTuple):
    """One tracepoint: its common fields, its own, and the text of its print format."""

    system: str
    name: str
    id: int
    common_fields: tuple[TraceField, ...]
    fields: tuple[TraceField, ...]
    print_fmt: str

    def field(self, name: str) -> TraceField | None:
        """Return the field of that name, the common ones first, or None if there is none."""
        for field in (*self.common_fields, *self.fields):
            if field.name == name:
                return field
        return None


def parse_format(text: str, system: str, long_size: int = 8, *, warn: Callable[[str], None] | None = None) -> EventFormat:
    """Parse the format file of one tracepoint.

    Raises ValueError if the name or the ID cannot be read, or without `warn` a field.

    Args:
        text: of the format file.
        system: the folder it came from (a format does not name it).
        long_size: bytes of a long on the recorded machine.
        warn: called for malformed fields, which are skipped.
    """
    head, _, print_fmt = text.partition("print fmt:")
    name = re.search(r"^name:\s*(\S+)", head, re.MULTILINE)
    number = re.search(r"^ID:\s*(\d+)", head, re.MULTILINE)
    if name is None or number is None:
        raise ValueError("tracepoint format without name or ID")
    fields = _Fields(f"{system}:{name[1]}", long_size, warn)
    blocks: list[list[TraceField]] = [[]]
    for line in head[number.end() :].splitlines():
        if "field:" in line:
            field = fields.parse(line)
            blocks[-1] += [field] if field else []
        elif not line.strip() and blocks[-1]:
            blocks.append([])
    own = tuple(field for block in blocks[1:] for field in block)  # behind the empty line after the common fields
    return EventFormat(system, name[1], int(number[1]), tuple(blocks[0]), own, print_fmt.strip())


class _Fields(NamedTuple):
    """The context of the field lines of one tracepoint."""

    event: str
    long_size: int
    warn: Callable[[str], None] | None

    def parse(self, line: str) -> TraceField | None:
        """Parse a line; return None, with a warning, if it is malformed. Raises ValueError without `warn`."""
        try:
            return _parse_field(line, self.long_size)
        except ValueError as error:
            if self.warn is None:
                raise
            self.warn(f"tracepoint {self.event}: {error}; skipped")
            return None


def _parse_field(line: str, long_size: int) -> TraceField:
    if len(line) > _LONGEST_LINE:
        raise ValueError(f"field line of {len(line)} characters")
    match = _FIELD.match(line)
    declared = _DECLARATION.match(match["declaration"].strip()) if match else None
    if match is None or declared is None:
        raise ValueError(f"malformed field: {line.strip()!r}")
    offset, size = _number(match["offset"]), _number(match["size"])
    kind, name, brackets = declared["type"], declared["name"], declared["brackets"]
    middle = _MIDDLE_BRACKETS.search(match["declaration"].strip())
    element = 0
    inside = None
    if brackets is not None:
        kind, inside = kind + brackets, brackets[1:-1]
    elif middle is not None:
        inside = middle[1]
        element = _ELEMENT_SIZES.get(re.split(r"\W+", kind[: kind.rindex("[")].strip())[-1], 0)
    field = TraceField(name, kind, offset, size, (match["signed"] or "0") != "0", inside is not None)
    if inside is None and not field.is_dynamic:
        return TraceField(name, kind, offset, size, field.is_signed, False, 0, size)
    length = _array_length(inside or "")
    if length:
        element = size // length
    elif not field.is_dynamic:
        element = 1 if field.is_string else long_size if field.is_long else 0
    return TraceField(name, kind, offset, size, field.is_signed, field.is_array, length, element)


def _number(text: str) -> int:
    """Return a number of bytes. Raises ValueError beyond the size of a record."""
    value = int(text, 0)
    if not 0 <= value <= _MOST_BYTES:
        raise ValueError(f"field offset or size of {text} bytes, beyond the size of a record")
    return value


def _array_length(inside: str) -> int:
    """Return the number that ends an array's brackets, or 0 for a name or nothing."""
    match = re.search(r"(0[xX][0-9a-fA-F]+|\d+)\s*$", inside)
    return int(match[1], 0) if match else 0


# Decode and encode the TRACING_DATA section: the formats of tracepoints, and strings of the kernel. In a pipe, its bytes follow the
# HEADER_TRACING_DATA record. Formats are parsed on first use. Layout: tools/perf/util/trace-event-info.c:
#
#     bytes 23 8 68, "tracing", string version; u8 big_endian, long_size; u32 page_size
#     "header_page\\0" u64 size, text;  "header_event\\0" u64 size, text
#     u32 nr; { u64 size, text } [nr]                               ftrace's own formats
#     u32 nr; { string system; u32 nr; { u64 size, text } [nr] } [nr]
#     u32 size, text kallsyms;  u32 size, text printk_formats;  u64 size, text cmdlines (version 0.6)

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
    cmdlines = text() if _version_number(version) >= _FIRST_WITH_CMDLINES else None
    return TracingData(version, r.endian, long_size, page_size, header_page, header_event, ftrace, systems, kallsyms, printk, cmdlines)


def _tag(r: FieldReader, tag: bytes) -> bytes:
    if r.raw(len(tag)) != tag:
        raise ValueError(f"tracing data without its {tag[:-1].decode()}")
    return r.raw(r.u64())


def _version_number(version: str) -> float:
    match = re.match(r"\d+(\.\d+)?", version)
    return float(match[0]) if match else 0.0


def _c_string(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape") + b"\0"


def _write_text(w: FieldWriter, text: bytes) -> None:
    w.u64(len(text))
    w.raw(text)


class Formats(Mapping[int, "EventFormat"]):
    """Tracepoint id -> format, parsed on first use. A format that cannot be parsed is left out, with a warning."""

    def __init__(self, tracepoints: Mapping[int, Tracepoint], long_size: int, warn: Warn) -> None:
        self._tracepoints = dict(tracepoints)
        self._warn = warn
        self._long_size = long_size
        self._parsed: dict[int, EventFormat] = {}

    def __getitem__(self, number: int) -> EventFormat:
        if number not in self._parsed:
            point = self._tracepoints[number]
            text = point.text.decode("utf-8", "surrogateescape")
            try:
                self._parsed[number] = parse_format(text, point.system, self._long_size, warn=self._warn)
            except ValueError as error:
                self._warn(f"{point.system}: {error}")
                del self._tracepoints[number]
                raise KeyError(number) from None
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
