"""Functions that runtimes named with their source files -> the file, and the line where the function begins.

What enters: names as perf maps have them: py::QUALIFIED.NAME:/FILE of CPython, and KIND:NAME FILE:LINE:COLUMN of V8. What leaves: the
path and the line, of what has no name in the source that of the function around it; 0 where the file does not tell, as it is not
here, or not as it was.
"""

from __future__ import annotations

import re
from typing import Final

from perfpy.untrusted.files import read_regular

_PYTHON: Final = re.compile(r"py::(?P<name>.+?):(?P<path>/.+)", re.DOTALL)
_V8: Final = re.compile(r"[A-Za-z]+:[*~^+]?\S* (?:file://)?(?P<path>/.+):(?P<line>\d{1,9}):\d+", re.DOTALL)
_BEGINNING: Final = re.compile(rb"([ \t]*)(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)")
_FILE_MOST: Final = 16 << 20
_NAMES_MOST: Final = 1 << 16  # functions of a file


class NamedLines:
    """Looks names up; each file is read once."""

    def __init__(self) -> None:
        self._beginnings: dict[str, dict[str, int]] = {}

    def of(self, name: str) -> tuple[str, int]:
        """The path and the line; "" for other names."""
        found = _PYTHON.fullmatch(name)
        if found:
            return found["path"], self._beginning(found["path"], found["name"])
        found = _V8.fullmatch(name)
        return (found["path"], int(found["line"])) if found else ("", 0)

    def _beginning(self, path: str, name: str) -> int:
        """The line where a function begins; of what has no name of its own (<lambda>, <genexpr> ...) that of the function around it."""
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
    """Qualified names of Python's functions and classes -> the line where each begins; the first of those that share a name."""
    found: dict[str, int] = {}
    outer: list[tuple[int, str]] = []  # how far it is indented, and what those in it begin with
    for number, line in enumerate(source.split(b"\n"), 1):
        begins = _BEGINNING.match(line)
        if begins is None:
            continue
        indent = len(begins[1].expandtabs())
        while outer and outer[-1][0] >= indent:
            outer.pop()
        name = (outer[-1][1] if outer else "") + begins[2].decode("utf-8", "replace")
        is_class = b"class" in line[: begins.start(2)]
        outer.append((indent, f"{name}." if is_class else f"{name}.<locals>."))
        if len(found) < _NAMES_MOST:
            found.setdefault(name, number)
    return found
