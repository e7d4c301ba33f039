"""Bound the size of a demangled Rust name (RFC 2603, "v0") without demangling it.

Each part is read once; a back reference has the size of its part. Raises ValueError for unknown syntax.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_BASIC_TYPES: Final = frozenset("abcdefhijlmnopstuvxyz")
_PATHS: Final = frozenset("CMXYNI")
# Bound of the text around parts: "impl ", " as ", "{closure#12}", "extern \"C\" fn(", "&'a mut ".
_WORDS: Final = 24
_DEEPEST: Final = 150  # nested parts; real names have some thirty
_ESCAPED: Final = 10  # characters of an escaped character: \u{10ffff}


def demangled_size(name: str) -> int:
    """Return an upper bound of the demangled name's length."""
    reader = _RustReader(name)
    size = reader.path()
    if reader.offset < len(name) and name[reader.offset] not in ".$":
        size += reader.path()  # the crate of an instance
    return size + len(name) - reader.offset


class _RustReader:
    """A reader of one name."""

    def __init__(self, name: str) -> None:
        if not name.startswith("_R"):
            raise ValueError("no Rust name")
        self._name = name
        self.offset = 2
        self._sizes: dict[int, int] = {}  # start of a part -> its size
        self._level = 0

    def path(self) -> int:
        """Read a <path>."""
        return self._part(self._path)

    def _part(self, read: Callable[[str], int]) -> int:
        start = self.offset
        self._level += 1
        if self._level > _DEEPEST:
            raise ValueError("nested too deeply")
        first = self._next()
        size = self._back(start) if first == "B" else read(first) + _WORDS
        self._level -= 1
        self._sizes[start] = size
        return size

    def _back(self, start: int) -> int:
        offset = self._number() + 2
        if offset >= start:
            raise ValueError("a reference that goes forward")
        return self._sizes[offset]

    def _path(self, kind: str) -> int:
        if kind == "C":
            return self._identifier()
        if kind == "N":
            self._next()
            return self.path() + self._identifier()
        if kind == "I":
            return self.path() + self._until_end(self._argument)
        if kind == "M":
            return self._impl() + self._type()
        if kind == "X":
            return self._impl() + self._type() + self.path()
        if kind == "Y":
            return self._type() + self.path()
        raise ValueError(f"path {kind}")

    def _impl(self) -> int:
        self._disambiguator()
        return self.path()

    def _type(self) -> int:
        return self._part(self._type_of)

    def _type_of(self, kind: str) -> int:
        if kind in _BASIC_TYPES:
            return 0
        if kind in _PATHS:
            return self._path(kind)
        if kind in {"R", "Q"}:
            return self._lifetime() + self._type()
        if kind in {"P", "O", "S"}:
            return self._type()
        if kind == "A":
            return self._type() + self._constant()
        if kind == "T":
            return self._until_end(self._type)
        if kind == "F":
            size = self._binder()
            self._take("U")
            if self._take("K") and not self._take("C"):
                size += self._identifier()
            return size + self._until_end(self._type) + self._type()
        if kind == "D":
            size = self._binder() + self._until_end(self._trait)
            return size + self._lifetime()
        if kind == "W":  # a pattern type
            return self._type() + self._pattern()
        raise ValueError(f"type {kind}")

    def _pattern(self) -> int:
        kind = self._next()
        if kind == "R":
            return self._constant() + self._constant()
        if kind == "O":
            return self._until_end(self._pattern)
        return 0

    def _trait(self) -> int:
        size = self.path()
        while self._take("p"):
            size += self._identifier() + self._type()
        return size

    def _argument(self) -> int:
        if self._peek() == "L":
            return self._lifetime()
        if self._take("K"):
            return self._constant()
        return self._type()

    def _constant(self) -> int:
        return self._part(self._constant_of)

    def _constant_of(self, kind: str) -> int:
        if kind == "p":
            return 0
        if kind in {"R", "Q"} and self._peek() != "e":
            return self._constant()
        if kind in {"R", "e"}:
            self._take("e")
            return self._hexadecimal() * _ESCAPED
        if kind in {"A", "T"}:
            return self._until_end(self._constant)
        if kind == "V":
            size = self.path()
            kind = self._next()
            if kind == "T":
                return size + self._until_end(self._constant)
            if kind == "S":
                return size + self._until_end(lambda: self._identifier() + self._constant())
            return size
        if kind in _BASIC_TYPES:
            self._take("n")
            return self._hexadecimal() * 2
        raise ValueError(f"constant {kind}")

    def _until_end(self, read: Callable[[], int]) -> int:
        size = 0
        while not self._take("E"):
            size += read() + 2
        return size

    # -- words

    def _identifier(self) -> int:
        self._disambiguator()
        self._take("u")
        length = 0
        start = self.offset
        while self._peek().isdigit() and not (self.offset > start and length == 0):
            length = 10 * length + int(self._next())
        self._take("_")
        if length > len(self._name) - self.offset:
            raise ValueError("truncated name")
        self.offset += length
        return 2 * length + _WORDS

    def _disambiguator(self) -> None:
        if self._take("s"):
            self._number()

    def _lifetime(self) -> int:
        if self._take("L"):
            self._number()
        return 4

    def _binder(self) -> int:
        """Read for<'a, 'b>. The number of lifetimes may exceed all memory."""
        count = self._number() + 1 if self._take("G") else 0
        if count > len(self._name):
            raise ValueError(f"{count} lifetimes")
        return 8 * count

    def _number(self) -> int:
        """Read <base 62> _: 0 for _, 1 for 0_ ..."""
        end = self._name.index("_", self.offset)
        text, self.offset = self._name[self.offset : end], end + 1
        value = 0
        for digit in text:
            value = value * 62 + _DIGITS.index(digit)
        return value + 1 if text else 0

    def _hexadecimal(self) -> int:
        end = self._name.index("_", self.offset)
        length, self.offset = end - self.offset, end + 1
        return length

    def _peek(self) -> str:
        return self._name[self.offset : self.offset + 1]

    def _next(self) -> str:
        self.offset += 1
        return self._name[self.offset - 1]

    def _take(self, letter: str) -> bool:
        matches = self._peek() == letter
        self.offset += matches
        return matches
