"""Parse a tracepoint's `format` file: the fields of its raw data.

The text is that of events/SYSTEM/NAME/format, from tracefs or from the
TRACING_DATA section of a file. Layout: one line
`field:TYPE NAME; offset:N; size:N; signed:N;` per field (Documentation/trace/events.rst),
then the `print fmt`, which perfdata.tracepoints.print_format parses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

_FIELD: Final = re.compile(
    r"^\s*field:(?:special\s*:?\s*)?(?P<declaration>[^;]+);\s*offset:(?P<offset>\w+);\s*size:(?P<size>\w+);(?:\s*signed:(?P<signed>\w+);)?"
)
_DECLARATION: Final = re.compile(r"^(?P<type>.*?)\s*(?P<name>\w+)\s*(?P<brackets>\[.*\])?$", re.DOTALL)
_MIDDLE_BRACKETS: Final = re.compile(r"\[([^\]]*)\]\s*\w+$")
_LOC: Final = re.compile(r"__(?:data|rel)_loc")
_LONGEST_LINE: Final = 512
_MOST_BYTES: Final = 1 << 16  # the longest record
_ELEMENT_SIZES: Final = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "s8": 1, "s16": 2, "s32": 4, "s64": 8, "char": 1}


@dataclass(frozen=True, slots=True)
class TraceField:
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


@dataclass(frozen=True, slots=True)
class EventFormat:
    """One tracepoint: its common fields, its own, and the text of its print format."""

    system: str
    name: str
    id: int
    common_fields: tuple[TraceField, ...]
    fields: tuple[TraceField, ...]
    print_fmt: str

    def field(self, name: str) -> TraceField | None:
        """Return the field of that name, the common ones first; None if there is none."""
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
    common, own = _field_blocks(head[number.end() :], _Fields(f"{system}:{name[1]}", long_size, warn))
    return EventFormat(system, name[1], int(number[1]), common, own, print_fmt.strip())


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


def _field_blocks(text: str, fields: _Fields) -> tuple[tuple[TraceField, ...], tuple[TraceField, ...]]:
    """Parse the two runs of field lines: common fields, an empty line, the event's own."""
    blocks: list[list[TraceField]] = [[]]
    for line in text.splitlines():
        if "field:" in line:
            field = fields.parse(line)
            blocks[-1] += [field] if field else []
        elif not line.strip() and blocks[-1]:
            blocks.append([])
    own = [field for block in blocks[1:] for field in block]
    return tuple(blocks[0]), tuple(own)


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
    """Return the number that ends an array's brackets; 0 for a name or nothing."""
    match = re.search(r"(0[xX][0-9a-fA-F]+|\d+)\s*$", inside)
    return int(match[1], 0) if match else 0
