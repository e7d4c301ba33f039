"""The grammar of points: where a probe is.

    [[GROUP:]EVENT=]FUNCTION[@SOURCE][:LINE|+OFFSET|%return|;PATTERN]
    [[GROUP:]EVENT=]SOURCE:LINE
    [[GROUP:]EVENT=]SOURCE;PATTERN
    [[GROUP:]EVENT=]0xADDRESS
    %[sdt_PROVIDER:]MARKER, sdt_PROVIDER:MARKER

Names of C++ and Rust functions may be qualified: shop::Item::cost, shop::over(long). Syntax: perf-probe(1).
"""

from __future__ import annotations

import re
from typing import Any, Final

from perfpy.abi.startup import NamedTuple
from perfpy.errors import UsageError
from perfpy.probing.grammar.words import find_special, split_words, unescaped

_NAME: Final = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)
_LINE: Final = re.compile(r"-?\d+\Z", re.ASCII)
_OFFSET: Final = re.compile(r"(?:0[xX][0-9a-fA-F]+|\d+)\Z", re.ASCII)
_ADDRESS: Final = re.compile(r"0[xX][0-9a-fA-F]{1,16}\Z")
_LARGEST_LINE: Final = (1 << 31) - 1
_RETURN: Final = "%return"


class ProbePoint(NamedTuple):
    """The place of a probe. Fields that the text lacks are empty.

    Attributes:
        text: the text without group, event and arguments.
        function: a name or glob pattern.
        source: a source file.
        line: relative to the function's, or the file's line without a function; None: no line.
        offset: bytes after the function's entry.
        is_return: probe the function's return.
        pattern: a pattern for source lines, in which spaces do not count.
        address: an absolute address, None without one.
        marker: (provider or "", name) of an SDT marker.
    """

    text: str
    function: str = ""
    source: str = ""
    line: int | None = None
    offset: int = 0
    is_return: bool = False
    pattern: str = ""
    address: int | None = None
    marker: tuple[str, str] | None = None


class ProbeRequest(NamedTuple):
    """A parsed definition.

    Attributes:
        point: where the probe is.
        group: the event's group, "" for the usual one.
        event: the event's name, "" for the usual one.
        arguments: the texts of the arguments.
    """

    point: ProbePoint
    group: str
    event: str
    arguments: tuple[str, ...]


def parse_request(text: str) -> ProbeRequest:
    """Parse a definition. Raises UsageError."""
    words = split_words(text)
    if not words:
        raise UsageError("a probe needs a point: FUNCTION, FUNCTION:LINE, FUNCTION+OFFSET, FUNCTION%return or SOURCE:LINE")
    head, *arguments = words
    group, event, rest = _split_event(head)
    return ProbeRequest(parse_point(rest), group, event, tuple(arguments))


def _split_event(text: str) -> tuple[str, str, str]:
    """Return the group, the event and the rest of a definition's first word."""
    end = find_special(text, ";=@+%")
    if end < 0 or text[end] != "=":
        return "", "", text
    head, rest = text[:end], text[end + 1 :]
    colon = find_special(head, ":")
    group, event = (unescaped(head[:colon]), unescaped(head[colon + 1 :])) if colon >= 0 else ("", unescaped(head))
    for name, part in ((group, "group"), (event, "event")) if colon >= 0 else ((event, "event"),):
        if not _NAME.match(name):
            raise UsageError(f"'{name}' cannot be a probe's {part}; use letters, digits and '_', and begin with no digit")
    return group, event, rest


def parse_point(text: str) -> ProbePoint:
    """Parse a point. Raises UsageError."""
    if not text:
        raise UsageError("a probe needs a point: a function, a source line or an address")
    marker = _marker(text)
    if marker:
        return ProbePoint(text, marker=marker)
    if _ADDRESS.match(text):
        return ProbePoint(text, address=int(text, 16))
    return _check(_parse_parts(text))


def _marker(text: str) -> tuple[str, str] | None:
    """Return the provider and name of an SDT marker, None if the text is another kind of point."""
    if not (text.startswith("%") or (text.startswith("sdt_") and ":" in text)):
        return None
    provider, colon, name = text.removeprefix("%").partition(":")
    if not colon:
        provider, name = "", provider
    if not _NAME.match(name) or (provider and not _NAME.match(provider)):
        raise UsageError(f"'{text}' is not an SDT marker; expected %sdt_PROVIDER:NAME")
    return provider.removeprefix("sdt_"), name


def _parse_parts(text: str) -> ProbePoint:
    end = _name_end(text)
    name, rest = text[:end], text[end:]
    fields: dict[str, Any] = {}
    while rest:
        mark = rest[0]
        if mark == ";":
            fields["pattern"] = _once(fields, "pattern", rest[1:], text)
            break
        following = _name_end(rest, 1)
        value, rest = rest[1:following], rest[following:]
        if mark == "@":
            fields["source"] = _once(fields, "source", unescaped(value), text)
        elif mark == ":":
            fields["line"] = _once(fields, "line", _line(value, text), text)
        elif mark == "+":
            fields["offset"] = _once(fields, "offset", _offset(value, text), text)
        elif mark + value == _RETURN:
            fields["is_return"] = _once(fields, "is_return", True, text)
        else:
            raise UsageError(f"'{text}': {mark}{value} is not part of a point; only %return begins with '%'")
    name = unescaped(name)
    if _is_source(name, fields):
        return ProbePoint(text, source=name)._replace(**fields)
    return ProbePoint(text, function=name)._replace(**fields)


def _name_end(text: str, start: int = 0) -> int:
    """Return the end of a name: a mark other than the :: of qualified names."""
    index = start
    while True:
        index = find_special(text, ";:@+%", index)
        if index < 0:
            return len(text)
        if not text.startswith("::", index):
            return index
        index += 2


def _is_source(name: str, fields: dict[str, Any]) -> bool:
    """Whether the name before a line or a pattern is a source file's."""
    is_partial = "line" in fields or "pattern" in fields
    return is_partial and "source" not in fields and ("/" in name or "." in name)


def _once(fields: dict[str, Any], name: str, value: object, text: str) -> object:
    if name in fields:
        raise UsageError(f"'{text}': a point has one {'%return' if name == 'is_return' else name}")
    return value


def _line(value: str, text: str) -> int:
    if not _LINE.match(value) or abs(int(value)) > _LARGEST_LINE:
        raise UsageError(f"'{text}': ':' takes a line number, not '{value}'")
    return int(value)


def _offset(value: str, text: str) -> int:
    if not _OFFSET.match(value):
        raise UsageError(f"'{text}': '+' takes a number of bytes, not '{value}'")
    return int(value, 16 if value[1:2] in ("x", "X") else 10)


def _check(point: ProbePoint) -> ProbePoint:
    """Raise UsageError for parts that exclude each other."""
    parts = [
        name for name, value in (("a line", point.line is not None), ("an offset", point.offset), ("a pattern", point.pattern)) if value
    ]
    if point.is_return and parts:
        raise UsageError(f"'{point.text}': %return excludes {parts[0]}, because a function returns to its caller")
    if len(parts) > 1:
        raise UsageError(f"'{point.text}': {parts[0]} excludes {parts[1]}")
    if not point.function and (point.offset or point.is_return):
        raise UsageError(f"'{point.text}': only a function has offsets and %return")
    if not point.function and not parts:
        raise UsageError(f"'{point.text}': a source file needs a line or a pattern")
    return point
