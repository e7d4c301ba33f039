"""Sizes of parts of a demangled C++ name, with unknown template arguments as parameters."""

from __future__ import annotations

from typing import Final

#: bound of the text around a part's own parts: "unsigned long long", " const", ", ", "{lambda(", "operator"
WORDS: Final = 24


class Size:
    """A fixed length plus multiples of the lengths of template arguments.

    `parameters`: (number, whether in the pattern of a pack expansion) -> count.
    """

    __slots__ = ("fixed", "parameters")

    def __init__(self, fixed: int, parameters: dict[tuple[int, bool], int] | None = None) -> None:
        self.fixed = fixed
        self.parameters = parameters or {}

    def plus(self, other: Size, times: int = 1) -> Size:
        """Return the size of both, one after the other."""
        if not other.parameters:
            return Size(self.fixed + other.fixed * times, self.parameters)
        parameters = dict(self.parameters)
        for key, count in other.parameters.items():
            parameters[key] = parameters.get(key, 0) + count * times
        return Size(self.fixed + other.fixed * times, parameters)

    def expanded(self, count: int) -> Size:
        """Return the size for each of `count` elements of a pack."""
        result = Size(self.fixed * count)
        for (number, packed), often in self.parameters.items():
            result = result.plus(Size(0, {(number, True): often * (count if packed else 1)}))
        return result

    def resolved(self, arguments: list[tuple[Size, bool]], pack: int) -> Size:
        """Replace parameters by arguments (size, whether it is a pack). Parameters without an argument stay."""
        result = Size(self.fixed)
        for (number, packed), often in self.parameters.items():
            if number < len(arguments):
                argument, is_pack = arguments[number]
                result = result.plus(argument, often * (pack if packed and not is_pack else 1))
            else:
                result = result.plus(Size(0, {(number, packed): often}))
        return result

    def without_parameters(self) -> Size:
        """Return the fixed part."""
        return Size(self.fixed)

    def swollen(self, argument: Size, pack: int) -> Size:
        """Add an argument's size for each parameter, keeping the parameters."""
        often = sum(count * (pack if packed else 1) for (_, packed), count in self.parameters.items())
        return self.plus(argument, often)


NOTHING: Final = Size(0)
WORD: Final = Size(WORDS)
