"""Find the source lines of functions that runtimes name with their source files.

The names are those of perf maps: py::QUALIFIED.NAME:/FILE of CPython, and KIND:NAME FILE:LINE:COLUMN of V8. A
function without a name in the source gets the line of the one around it; the line is 0 if the file is missing or has changed.
"""

from __future__ import annotations

import re
from typing import Final

from perfpy.abi.python_code import PYTHON_MARK
from perfpy.untrusted.files import read_regular

_PYTHON: Final = re.compile(PYTHON_MARK + r"(?P<name>.+?):(?P<path>/.+)", re.DOTALL)
_V8: Final = re.compile(r"[A-Za-z]+:[*~^+]?\S* (?:file://)?(?P<path>/.+):(?P<line>\d{1,9}):\d+", re.DOTALL)
_BEGINNING: Final = re.compile(rb"([ \t]*)(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)")
_FILE_MOST: Final = 16 << 20
_NAMES_MOST: Final = 1 << 16  # functions of a file


class NamedLines:
    """A lookup of names that reads each file once."""

    def __init__(self) -> None:
        self._beginnings: dict[str, dict[str, int]] = {}

    def of(self, name: str) -> tuple[str, int]:
        """Return the path and the line; "" for other names."""
        match = _PYTHON.fullmatch(name)
        if match:
            return match["path"], self._beginning(match["path"], match["name"])
        match = _V8.fullmatch(name)
        return (match["path"], int(match["line"])) if match else ("", 0)

    def _beginning(self, path: str, name: str) -> int:
        """Return the line where a function begins; for <lambda>, <genexpr> ... that of the function around it."""
        lines = self._lines(path)
        while name not in lines and name.endswith(">"):
            if not (name := name.rpartition(".<locals>.")[0]):
                return 0
        return lines.get(name, 0)

    def _lines(self, path: str) -> dict[str, int]:
        if path not in self._beginnings:
            try:
                self._beginnings[path] = beginnings(read_regular(path, limit=_FILE_MOST))
            except (OSError, ValueError):
                self._beginnings[path] = {}
        return self._beginnings[path]


def beginnings(source: bytes) -> dict[str, int]:
    """Map qualified names of Python's functions and classes to the lines where they begin; of equal names, the first."""
    lines: dict[str, int] = {}
    outer: list[tuple[int, str]] = []  # the indentation, and the prefix of names inside
    for number, line in enumerate(source.split(b"\n"), 1):
        match = _BEGINNING.match(line)
        if match is None:
            continue
        indent = len(match[1].expandtabs())
        while outer and outer[-1][0] >= indent:
            outer.pop()
        name = (outer[-1][1] if outer else "") + match[2].decode("utf-8", "replace")
        is_class = b"class" in line[: match.start(2)]
        outer.append((indent, f"{name}." if is_class else f"{name}.<locals>."))
        if len(lines) < _NAMES_MOST:
            lines.setdefault(name, number)
    return lines
