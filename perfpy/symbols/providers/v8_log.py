"""Read V8's log of code (node --log-code --log-source-code): the source lines of compiled code, and the functions inlined there.

V8's jitdump has lines with damaged file names and no inlined functions. The log has a line for each event, its fields between commas:

    code-creation,JS,KIND,TIME,ADDRESS,SIZE,NAME FILE:LINE:COLUMN,FUNCTION,TIER
    code-source-info,ADDRESS,SCRIPT,BEGIN,END,POSITIONS,INLININGS,FUNCTIONS
    script-source,SCRIPT,URL,TEXT

POSITIONS are C<offset in the code>O<offset in the script>[I<inlining>], INLININGS F<row of FUNCTIONS>O<offset of the call>[I<inlining>],
and FUNCTIONS S<function>, addresses in hexadecimal. Offsets in scripts count UTF-16 units (V8's tools/profview reads them alike).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final, NamedTuple

from perfpy.symbols.providers.jit_lines import CodeLine, InlinedCall, InlinedCode

LARGEST: Final = 256 << 20  #: bytes of a log
_ESCAPE: Final = re.compile(r"\\(?:n|\\|x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4}))")
_POSITION: Final = re.compile(r"C(\d{1,9})O(\d{1,9})(?:I(\d{1,6}))?")
_INLINING: Final = re.compile(r"F(\d{1,6})O(-?\d{1,9})(?:I(\d{1,6}))?")
_FUNCTION: Final = re.compile(r"S(0x[0-9a-f]{1,16})")
_LINE_END: Final = re.compile("\r\n?|\n|\u2028|\u2029")
_DEEPEST: Final = 32  # functions inlined into each other
_MOST_POSITIONS: Final = 1 << 16  # of a function


class _Script(NamedTuple):
    """The path of a script, and the offsets where its lines begin."""

    path: str
    beginnings: list[int]


class V8Code(NamedTuple):
    """The lines of compiled code, and what is inlined there; addresses as in the process."""

    lines: tuple[CodeLine, ...]
    inlined: tuple[InlinedCode, ...]


class V8Log:
    """The code of one log."""

    def __init__(self, text: str) -> None:
        self._scripts: dict[str, _Script] = {}
        self._script_of: dict[str, str] = {}  # function -> script
        self._names: dict[str, str] = {}  # function -> name
        self._infos: dict[tuple[int, int, str], list[list[str]]] = {}
        self._counts: dict[tuple[int, int, str], int] = {}
        self._taken: dict[tuple[int, int, str], int] = {}
        last: dict[str, tuple[tuple[int, int, str], str]] = {}
        for line in text.splitlines():
            kind, _, rest = line.partition(",")
            fields = rest.split(",")
            if kind == "code-creation" and len(fields) >= 8 and fields[0] in ("JS", "Function"):
                key = _key(fields)
                if key is not None:
                    last[fields[3]] = key, fields[-2]
                    self._counts[key] = self._counts.get(key, 0) + 1
                    self._names[fields[-2]] = key[2]
            elif kind == "code-source-info" and len(fields) >= 5 and fields[0] in last:
                key, function = last[fields[0]]
                self._infos.setdefault(key, []).append(fields)
                self._script_of[function] = fields[1]
            elif kind == "script-source" and len(fields) >= 3:
                self._scripts[fields[0]] = _Script(_path(fields[1]), _beginnings(_unescape(",".join(fields[2:]))))

    def take(self, address: int, size: int, name: str) -> V8Code | None:
        """Return the next code with an address, a size, and a name such as JS:*main /app.js:1:10; None without positions."""
        key = (address, size, re.sub(r"^\w+:[*~^+]?'?", "", name))
        infos, number = self._infos.get(key, []), self._taken.get(key, 0)
        self._taken[key] = number + 1
        # Code without positions is logged without them: then which one they belong to is unknown.
        if len(infos) != self._counts.get(key) or number >= len(infos):
            return None
        return self._code(address, size, infos[number])

    def _code(self, address: int, size: int, info: list[str]) -> V8Code | None:
        script, positions = info[1], _POSITION.findall(info[4])[:_MOST_POSITIONS]
        inlinings = _INLINING.findall(info[5]) if len(info) > 5 else []
        functions = _FUNCTION.findall(info[6]) if len(info) > 6 else []
        lines: list[CodeLine] = []
        inlined: list[InlinedCode] = []
        for row, (offset, position, inlining) in enumerate(positions):
            begin, end = int(offset), int(positions[row + 1][0]) if row + 1 < len(positions) else size
            chain = self._calls(script, inlining, inlinings, functions)
            source_line = None if chain is None else self._source_of(chain[-1][1] if chain else script, int(position))
            if chain is None or source_line is None or not 0 <= begin < end <= size:
                continue
            lines.append(CodeLine(address + begin, *source_line))
            if not chain:
                continue
            calls = tuple(call for call, _ in chain)
            if inlined and inlined[-1].end == address + begin and inlined[-1].calls == calls:
                inlined[-1] = inlined[-1]._replace(end=address + end)
            else:
                inlined.append(InlinedCode(address + begin, address + end, calls))
        return V8Code(tuple(lines), tuple(inlined)) if lines else None

    def _calls(
        self, script: str, inlining: str, inlinings: list[tuple[str, str, str]], functions: list[str]
    ) -> list[tuple[InlinedCall, str]] | None:
        """Return the inlined calls of a position, outermost first, each with the script of its function; None if one is unknown."""
        rows: list[tuple[str, str, str]] = []
        while inlining:
            if int(inlining) >= len(inlinings) or len(rows) >= _DEEPEST:
                return None
            rows.append(inlinings[int(inlining)])
            inlining = rows[-1][2]
        calls: list[tuple[InlinedCall, str]] = []
        for number, offset, _ in reversed(rows):
            function = functions[int(number)] if int(number) < len(functions) else ""
            source_line = self._source_of(script, int(offset))
            if function not in self._script_of or source_line is None:
                return None
            script = self._script_of[function]
            calls.append((InlinedCall(f"JS:*{self._names[function]}", *source_line), script))
        return calls

    def _source_of(self, script: str, offset: int) -> tuple[str, int] | None:
        """Return the path and line of an offset in a script; None for unknown scripts."""
        script_text = self._scripts.get(script)
        return (script_text.path, bisect_right(script_text.beginnings, offset)) if script_text and offset >= 0 else None


def _key(fields: list[str]) -> tuple[int, int, str] | None:
    try:
        return int(fields[3], 16), int(fields[4]), _unescape(",".join(fields[5:-2]))
    except ValueError:
        return None


def _unescape(text: str) -> str:
    """Undo V8's escapes. Characters above U+FFFF become two, as they are in V8's offsets."""

    def character(match: re.Match[str]) -> str:
        code = match[1] or match[2]
        return chr(int(code, 16)) if code else "\n" if match[0] == r"\n" else "\\"

    return _ESCAPE.sub(character, text)


def _beginnings(text: str) -> list[int]:
    return [0, *(match.end() for match in _LINE_END.finditer(text))]


def _path(url: str) -> str:
    """Return the path of a script's URL."""
    name = _unescape(url)
    if not name.startswith("file://"):
        return name
    from urllib.parse import unquote

    return unquote(name.removeprefix("file://"))
