"""Read a mangled C++ name from its beginning to its end."""

from __future__ import annotations

import re
from typing import Final

from perfpy.symbols.demangling.name_size import WORDS, Size

_DEEPEST: Final = 150  # nested parts
# the length of a name, or a part of a type
_PLAIN: Final = re.compile(
    r"(\d+)|[IJNEPRKOV]|[vwbcahstijlmxynofdeg]|S(?:[tabsiod]|[0-9A-Z]*_)|T[0-9]*_|XT[0-9]*_E|L[bcahstijlmxy]n?[0-9]+E"
)


class NameReader:
    """A name and the offset that has been reached. Methods raise ValueError for unknown syntax."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._offset = 0
        self._level = 0

    def _peek(self, count: int = 1) -> str:
        return self._name[self._offset : self._offset + count]

    def _take(self, text: str) -> bool:
        matches = self._name.startswith(text, self._offset)
        self._offset += len(text) * matches
        return matches

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise ValueError(f"no {text} at {self._offset}")

    def _number(self) -> int:
        self._take("n")
        start = self._offset
        while self._peek().isdigit():
            self._offset += 1
        if start == self._offset:
            raise ValueError(f"no number at {start}")
        return int(self._name[start : self._offset])

    def _skip_to(self, end: str) -> Size:
        """Skip everything through a character."""
        index = self._name.index(end, self._offset)
        size = Size(index - self._offset + WORDS)
        self._offset = index + 1
        return size

    def _sequence(self) -> int:
        """Read the number of [<base 36>] _: 0 for _, 1 for 0_ ..."""
        start = self._offset
        self._skip_to("_")
        text = self._name[start : self._offset - 1]
        if text != text.upper():
            raise ValueError(f"number {text}")
        return int(text, 36) + 1 if text else 0

    def _expect_plain(self, start: int) -> None:
        """Raise ValueError if the text since `start` has anything but old, simple types: libstdc++ 12 may read other names forever."""
        text = self._name[start : self._offset]
        while text:
            match = _PLAIN.match(text)
            if match is None:
                raise ValueError(f"{text[:2]!r} in the name of a dependent type")
            text = text[match.end() + int(match[1] or 0) :]

    def _closed(self, size: Size) -> Size:
        self._expect("_")
        return size

    def _deeper(self) -> None:
        self._level += 1
        if self._level > _DEEPEST:
            raise ValueError("nested too deeply")
