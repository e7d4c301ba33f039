"""Expressions in mangled C++ names (in decltype, noexcept, arguments of templates), and how long each becomes.

What enters: a name and an offset in it. What leaves: Sizes, and the offset after
the expression; ValueError for what is not understood. See cxx_sizes.
"""

from __future__ import annotations

from typing import Final

from perfpy.symbols.demangling.cxx_parts import NOTHING, WORD, Parts, Size

_UNARY: Final = frozenset("te sz az nx ps ng ad de co nt pp mm dl da tw aw".split())
_OF_TYPES: Final = frozenset({"st", "at", "ti"})
_CALLS: Final = frozenset({"cl", "cw", "il", "tl"})
_CASTS: Final = frozenset({"dc", "sc", "cc", "rc"})


class Expressions(Parts):
    """Reads expressions."""

    def _expression(self) -> Size:
        self._deeper()
        size = self._expression_at(self._peek(), self._peek(2)).plus(WORD)
        self._level -= 1
        return size

    def _expression_at(self, first: str, word: str) -> Size:
        if first == "L":
            return self._literal()
        if first == "T":
            return self._parameter()
        if first == "S" and word != "St":
            return self._substitution()
        if word in {"fp", "fL"}:
            return self._function_parameter()
        if first.isdigit() or word in {"on", "dn"}:
            self._offset += 2 * (not first.isdigit())
            return self._with_arguments(self._unqualified())
        self._offset += 2
        return self._operation(word)

    def _function_parameter(self) -> Size:
        """fp_, fp0_, fL0p_, fpT (this)."""
        if self._take("fpT"):
            return WORD
        return self._skip_to("_")

    def _operation(self, word: str) -> Size:
        """An operator and what it is applied to."""
        if word == "sr":
            return self._unresolved()
        if word in _CALLS:
            return (self._type() if word == "tl" else NOTHING).plus(self._until("E"))
        if word == "cv":
            size = self._type()
            return size.plus(self._until("E") if self._take("_") else self._expression())
        if word in _CASTS:
            return self._type().plus(self._expression())
        if word in {"dt", "pt"}:
            return self._expression().plus(self._member())
        if word in _OF_TYPES:
            return self._type()
        if word in {"nw", "na"}:
            return self._new()
        return self._simple_operation(word)

    def _simple_operation(self, word: str) -> Size:
        if word == "sP":
            return self._until("E")
        if word in {"sZ", "gs"}:
            return self._expression()
        if word == "sp":
            self.expansions += 1
            return self._expression().plus(Size(5)).expanded(self._pack)
        if word == "tr":
            return NOTHING
        if word in {"fl", "fr"} or len(word) < 2 or not word.isalpha() or not word[0].islower():
            raise ValueError(f"expression {word!r}")
        if word in _UNARY:
            self._take("_")
            return self._expression()
        size = self._expression().plus(self._expression())
        return size.plus(self._expression()) if word == "qu" else size

    def _new(self) -> Size:
        size = self._until("_").plus(self._type())
        if self._take("pi"):
            return size.plus(self._until("E"))
        self._expect("E")
        return size

    def _until(self, end: str) -> Size:
        size = NOTHING
        while not self._take(end):
            size = size.plus(self._expression()).plus(Size(2))
        return size

    def _member(self) -> Size:
        """What follows a dot."""
        if self._peek(2) == "sr" or self._peek() in {"L", "T", "f"}:
            return self._expression()
        self._take("on")
        return self._with_arguments(self._unqualified())

    def _unresolved(self) -> Size:
        """A name in a type that is not known yet."""
        if self._peek().isdigit():
            first, size = len(self._known), self._source()
            name, size = size, self._with_arguments(size)
            while self._peek().isdigit():
                size = size.plus(self._with_arguments(self._source()))
            if self._peek() != "E" or not (self._peek(2)[1:].isdigit() or self._peek(3)[1:] in {"on", "dn"}):
                # as older compilers wrote it: a type, which can be substituted, and the last was the name already
                self._known[first:first] = [name]
                self._keep(size)
                return size
            self._offset += 1
        else:
            size = self._type()
        self._take("on")
        return size.plus(self._with_arguments(self._unqualified()))

    def _with_arguments(self, size: Size) -> Size:
        return size.plus(self._template_arguments()) if self._peek() == "I" else size
