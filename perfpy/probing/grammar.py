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
from fnmatch import translate
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfpy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    Test = Callable[[str], bool]


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
            if not _LINE.match(value) or abs(int(value)) > _LARGEST_LINE:
                raise UsageError(f"'{text}': ':' takes a line number, not '{value}'")
            fields["line"] = _once(fields, "line", int(value), text)
        elif mark == "+":
            if not _OFFSET.match(value):
                raise UsageError(f"'{text}': '+' takes a number of bytes, not '{value}'")
            fields["offset"] = _once(fields, "offset", int(value, 16 if value[1:2] in ("x", "X") else 10), text)
        elif mark + value == _RETURN:
            fields["is_return"] = _once(fields, "is_return", True, text)
        else:
            raise UsageError(f"'{text}': {mark}{value} is not part of a point; only %return begins with '%'")
    name = unescaped(name)
    is_partial = "line" in fields or "pattern" in fields
    if is_partial and "source" not in fields and ("/" in name or "." in name):
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


def _once(fields: dict[str, Any], name: str, value: object, text: str) -> object:
    if name in fields:
        raise UsageError(f"'{text}': a point has one {'%return' if name == 'is_return' else name}")
    return value


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


# The grammar of arguments: what a probe records.
#
#     [NAME=]VARIABLE[->MEMBER|.MEMBER|[INDEX]]...[:TYPE][@user]
#     [NAME=]$vars, [NAME=]$params      all variables, or all parameters
#     [NAME=]%REGISTER, $retval, $stack0, @SYMBOL, +8(%di), \7 ...   passed to the kernel
#
# Syntax: perf-probe(1).

_ARGUMENT: Final = re.compile(r"(?:(?P<name>[A-Za-z_]\w*)=)?(?P<rest>.+)\Z", re.ASCII)
_VARIABLE: Final = re.compile(
    r"(?P<name>[A-Za-z_][\w$]*(?:::[\w$]+)*)(?P<fields>(?:->\w+|\.\w+|\[\d+\])*)"
    r"(?::(?P<type>[^:@]+(?:@\d+/\d+)?))?(?P<user>@user)?\Z",
    re.ASCII,
)
_FIELD: Final = re.compile(r"->(\w+)|\.(\w+)|\[(\d+)\]", re.ASCII)
_RAW: Final = "$%@+-\\"
_TYPE: Final = re.compile(r"(?:\w+(?:\[\d+\])?|b\d+@\d+/\d+)\Z", re.ASCII)
_LARGEST_INDEX: Final = (1 << 31) - 1
#: names that stand for several variables
ALL_VARIABLES, ALL_PARAMETERS = "$vars", "$params"


class ArgumentField(NamedTuple):
    """One step from a variable to a part of it.

    Attributes:
        member: a member's name, "" for an index.
        number: index of an array's or a pointer's element.
        follows_pointer: written as ->.
    """

    member: str
    number: int = 0
    follows_pointer: bool = False


class ProbeArgument(NamedTuple):
    """An argument.

    Attributes:
        text: the whole text.
        name: its name, "" if the text has none.
        variable: a variable's name; "" for text that is passed to the kernel.
        fields: the steps to a part of the variable.
        type: the requested type, "" for the variable's own.
        is_user: the memory is the user's (kernel probes).
        raw: text that is passed to the kernel.
    """

    text: str
    name: str = ""
    variable: str = ""
    fields: tuple[ArgumentField, ...] = ()
    type: str = ""
    is_user: bool = False
    raw: str = ""

    @property
    def is_group(self) -> bool:
        """Whether the argument represents several variables."""
        return self.variable in (ALL_VARIABLES, ALL_PARAMETERS)

    @property
    def needs_variables(self) -> bool:
        """Whether it needs debug information."""
        return bool(self.variable)


def parse_argument(text: str) -> ProbeArgument:
    """Parse an argument. Raises UsageError."""
    match = _ARGUMENT.match(text)
    if match is None:
        raise UsageError(f"'{text}' is not an argument of a probe; the form is [NAME=]VARIABLE[:TYPE]")
    name, rest = match["name"] or "", match["rest"]
    if rest in (ALL_VARIABLES, ALL_PARAMETERS):
        return ProbeArgument(text, variable=rest)
    if rest[0] in _RAW:
        return ProbeArgument(text, name=name, raw=rest)
    parts = _VARIABLE.match(rest)
    if parts is None:
        raise UsageError(f"'{text}' is not an argument of a probe; the form is [NAME=]VARIABLE[->MEMBER|.MEMBER|[INDEX]]...[:TYPE]")
    kind = parts["type"] or ""
    if kind and not _TYPE.match(kind):
        raise UsageError(
            f"'{text}': '{kind}': unknown type; types are u8 to u64, s8 to s64, x8 to x64, x, u, s, string and bWIDTH@OFFSET/SIZE"
        )
    fields = []
    for arrow, dot, index in _FIELD.findall(parts["fields"]):
        if index and int(index) > _LARGEST_INDEX:
            raise UsageError(f"'{text}': the index {index} is too large")
        fields.append(ArgumentField("", int(index)) if index else ArgumentField(arrow or dot, follows_pointer=bool(arrow)))
    return ProbeArgument(text, name, parts["name"], tuple(fields), kind, bool(parts["user"]))


def shown_name(argument: ProbeArgument) -> str:
    """Return the name of the argument in the event: its own, the last member's, or the variable's with the type."""
    if argument.name:
        return argument.name
    members = [field.member for field in argument.fields if field.member]
    if members:
        return members[-1]
    if argument.fields or not argument.type:
        return _as_name(argument.variable)
    return _as_name(f"{argument.variable}_{re.split('[@[]', argument.type)[0]}")


def _as_name(text: str) -> str:
    return re.sub(r"\W", "_", text, flags=re.ASCII)


# The grammar of ranges of source lines: FUNCTION[@SOURCE][:FIRST[+COUNT|-LAST]] or SOURCE[:FIRST[+COUNT|-LAST]]. Syntax: perf-probe(1).
# The lines of functions count from the function's.

_RANGE: Final = re.compile(r"(?P<first>\d+)(?:\+(?P<count>\d+)|-(?P<last>\d+))?\Z", re.ASCII)
_LARGEST: Final = (1 << 31) - 1


class LineRange(NamedTuple):
    """A range of source lines.

    Attributes:
        function: a function's name, "" for a file.
        source: a source file.
        first: the first line.
        last: the last line, None: as far as there is code.
    """

    function: str
    source: str
    first: int
    last: int | None


def parse_line_range(text: str) -> LineRange:
    """Parse a range. Raises UsageError."""
    colon = find_special(text, ":")
    while colon >= 0 and text.startswith("::", colon):
        colon = find_special(text, ":", colon + 2)
    head, lines = (text[:colon], text[colon + 1 :]) if colon >= 0 else (text, "")
    if colon >= 0:
        between = find_special(lines, "@")
        if between >= 0:  # FUNCTION:LINES@SOURCE
            head, lines = head + lines[between:], lines[:between]
    first, last = _parse_lines(lines, text) if colon >= 0 else (0, None)
    split = find_special(head, "@")
    if split >= 0:
        return LineRange(unescaped(head[:split]), unescaped(head[split + 1 :]), first, last)
    name = unescaped(head)
    if not name:
        raise UsageError(f"'{text}': a range of lines needs a function or a source file")
    return LineRange("", name, first, last) if "." in name or "/" in name else LineRange(name, "", first, last)


def _parse_lines(lines: str, text: str) -> tuple[int, int | None]:
    match = _RANGE.match(lines)
    if match is None:
        raise UsageError(f"'{text}': '{lines}' is not a range of lines; the forms are FIRST, FIRST+COUNT and FIRST-LAST")
    first = int(match["first"])
    last = first + int(match["count"]) - 1 if match["count"] else int(match["last"]) if match["last"] else None
    if first > _LARGEST or (last is not None and (last > _LARGEST or last < first)):
        raise UsageError(f"'{text}': the range of lines {lines} ends before it begins")
    return first, last


# Filters of names: glob patterns joined by !, &, | and parentheses, such as "foo* & !bar". Syntax: perf-probe(1).

_TOKENS: Final = re.compile(r"\s*([!&|()]|(?:\\.|\[[^\]]*\]|[^!&|()\s\\\[])(?:\\.|\[[^\]]*\]|[^&|()\s\\\[])*)")
_LONGEST: Final = 1 << 12


def parse_filter(text: str) -> Test:
    """Return a function that tests a name. Raises UsageError."""
    tokens, offset = list[str](), 0
    if len(text) > _LONGEST:
        raise UsageError(f"--filter takes at most {_LONGEST} characters")
    while offset < len(text.rstrip()):
        match = _TOKENS.match(text, offset)
        if match is None:
            raise UsageError(f"--filter '{text}': unexpected '{text[offset]}'")
        tokens.append(match[1])
        offset = match.end()
    parser = _FilterParser(tokens, text)
    test = parser.either()
    if parser.tokens:
        raise UsageError(f"--filter '{text}': unexpected '{parser.tokens[0]}'")
    return test


class _FilterParser:
    """A parser with a function for each level of precedence: | below &, & below !."""

    def __init__(self, tokens: list[str], text: str) -> None:
        self.tokens = tokens
        self._text = text
        self._depth = 0

    def either(self) -> Test:
        """Parse patterns joined by |."""
        tests = [self._both()]
        while self._take("|"):
            tests.append(self._both())
        return tests[0] if len(tests) == 1 else lambda name: any(test(name) for test in tests)

    def _both(self) -> Test:
        tests = [self._one()]
        while self._take("&"):
            tests.append(self._one())
        return tests[0] if len(tests) == 1 else lambda name: all(test(name) for test in tests)

    def _one(self) -> Test:
        if self._take("!"):
            inner = self._nested(self._one)
            return lambda name: not inner(name)
        if self._take("("):
            inner = self._nested(self.either)
            if not self._take(")"):
                raise UsageError(f"--filter '{self._text}': a ')' is missing")
            return inner
        if not self.tokens or self.tokens[0] in "&|)":
            raise UsageError(f"--filter '{self._text}': a pattern is missing")
        return glob_test(self.tokens.pop(0))

    def _nested(self, parse: Callable[[], Test]) -> Test:
        self._depth += 1
        if self._depth > 100:
            raise UsageError("--filter: more than 100 levels")
        test = parse()
        self._depth -= 1
        return test

    def _take(self, token: str) -> bool:
        if self.tokens and self.tokens[0] == token:
            self.tokens.pop(0)
            return True
        return False


def glob_test(pattern: str) -> Test:
    """Return a function that tests whether a name matches a glob pattern."""
    match = re.compile(translate(re.sub(r"\\(.)", lambda escaped: f"[{escaped[1]}]", pattern))).match
    return lambda name: match(name) is not None


def is_glob(text: str) -> bool:
    """Whether a name is a pattern. Brackets alone also occur in C++ operators, and braces in Rust names."""
    return any(character in text for character in "*?") and "operator" not in text


# Split definitions into words, and words at special characters. Parentheses keep their content together: `over(int, long)`. A backslash
# takes the meaning from the next character: `malloc\@GLIBC_2.2.5`.

_MARK: Final = "\\"


def split_words(text: str) -> list[str]:
    """Split a definition at spaces outside of parentheses."""
    words, word, depth = list[str](), "", 0
    for character in text:
        if character.isspace() and depth <= 0:
            if word:
                words.append(word)
            word, depth = "", 0
            continue
        depth += (character == "(") - (character == ")")
        word += character
    return [*words, word] if word else words


def find_special(text: str, characters: str, start: int = 0) -> int:
    """Return the index of the first of some characters that no backslash precedes, -1 if there is none. Skips parentheses."""
    depth, index = 0, start
    while index < len(text):
        character = text[index]
        if character == _MARK:
            index += 2
            continue
        if character in characters and depth <= 0:
            return index
        depth += (character == "(") - (character == ")")
        index += 1
    return -1


def unescaped(text: str) -> str:
    """Remove the backslashes that take meanings away."""
    result, index = "", 0
    while index < len(text):
        index += text[index] == _MARK and index + 1 < len(text)
        result += text[index]
        index += 1
    return result


def without_parameters(name: str) -> str:
    """Return a name without the parameters of templates and generics: total<i32> is total."""
    if name.startswith("operator"):
        return name
    before = ""
    while before != name:
        before, name = name, re.sub(r"<[^<>]*>", "", name)
    return name
