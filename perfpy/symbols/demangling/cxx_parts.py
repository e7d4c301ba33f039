"""The parts of mangled C++ names that are in types, names and expressions alike, and how long each becomes.

What enters: a name and an offset in it. What leaves: Sizes, and the offset after
the part; ValueError for what is not understood. See cxx_sizes.
"""

from __future__ import annotations

from typing import Final

#: what is written for a part beside its own parts: "unsigned long long", " const", ", ", "{lambda(", "operator"
WORDS: Final = 24
_DEEPEST: Final = 150  # parts in parts
_STD: Final = 80  # std::basic_string<char, std::char_traits<char>, std::allocator<char> >


class Size:
    """fixed, and how often the arguments of each number are written besides.

    parameters: (number, whether in the pattern of a pack expansion) -> how often.
    """

    __slots__ = ("fixed", "parameters")

    def __init__(self, fixed: int, parameters: dict[tuple[int, bool], int] | None = None) -> None:
        self.fixed = fixed
        self.parameters = parameters or {}

    def plus(self, other: Size, times: int = 1) -> Size:
        """Both, one after the other."""
        if not other.parameters:
            return Size(self.fixed + other.fixed * times, self.parameters)
        parameters = dict(self.parameters)
        for key, count in other.parameters.items():
            parameters[key] = parameters.get(key, 0) + count * times
        return Size(self.fixed + other.fixed * times, parameters)

    def expanded(self, count: int) -> Size:
        """For each of so many elements of a pack."""
        result = Size(self.fixed * count)
        for (number, packed), often in self.parameters.items():
            result = result.plus(Size(0, {(number, True): often * (count if packed else 1)}))
        return result

    def resolved(self, arguments: list[tuple[Size, bool]], pack: int) -> Size:
        """With arguments (size, whether it is a pack) for its parameters; those that it has not stay."""
        result = Size(self.fixed)
        for (number, packed), often in self.parameters.items():
            if number < len(arguments):
                argument, is_pack = arguments[number]
                result = result.plus(argument, often * (pack if packed and not is_pack else 1))
            else:
                result = result.plus(Size(0, {(number, packed): often}))
        return result

    def without_parameters(self) -> Size:
        """What is fixed of it."""
        return Size(self.fixed)

    def swollen(self, argument: Size, pack: int) -> Size:
        """With an argument wherever a parameter stands, and the parameters still there."""
        often = sum(count * (pack if packed else 1) for (_, packed), count in self.parameters.items())
        return self.plus(argument, often)


NOTHING: Final = Size(0)
WORD: Final = Size(WORDS)


class Parts:
    """Reads one name; `pack`: how often the pattern of a pack expansion is printed."""

    def __init__(self, name: str, pack: int) -> None:
        self._name = name
        self._offset = 0
        self._pack = pack
        self._known: list[Size] = []  # substitutions
        self._last_source = 0  # constructors repeat their class's name
        self._level = 0
        self._arguments: list[tuple[Size, bool]] = []  # of the template read last, and which are packs
        self._largest = NOTHING  # of all arguments in the name that is being read
        self._conversions = 0
        self._ends_in_arguments = False  # the last name that was read
        self.longest_pack = 1
        self.expansions = 0

    def _peek(self, count: int = 1) -> str:
        return self._name[self._offset : self._offset + count]

    def _take(self, text: str) -> bool:
        found = self._name.startswith(text, self._offset)
        self._offset += len(text) * found
        return found

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
        """Over everything up to a character, and that."""
        found = self._name.index(end, self._offset)
        size = Size(found - self._offset + WORDS)
        self._offset = found + 1
        return size

    def _sequence(self) -> int:
        """The number of [<base 36>] _ : 0 for _, 1 for 0_ ..."""
        start = self._offset
        self._skip_to("_")
        text = self._name[start : self._offset - 1]
        return int(text, 36) + 1 if text else 0

    def _keep(self, size: Size) -> Size:
        self._known.append(size)
        return size

    # -- what the kinds of parts below are made of

    def _type(self) -> Size:
        raise NotImplementedError

    def _encoding(self) -> Size:
        raise NotImplementedError

    def _unqualified(self) -> Size:
        raise NotImplementedError

    def _expression(self) -> Size:
        raise NotImplementedError

    def _deeper(self) -> None:
        self._level += 1
        if self._level > _DEEPEST:
            raise ValueError("parts in parts in parts")

    def _source(self) -> Size:
        length = self._number()
        if length > len(self._name) - self._offset:
            raise ValueError("a name that is cut")
        self._offset += length
        self._last_source = max(self._last_source, length)
        return Size(max(length, 21))  # (anonymous namespace)

    def _substitution(self) -> Size:
        self._expect("S")
        kind = self._peek()
        if kind and kind in "tabsiod":
            self._offset += 1
            self._last_source = max(self._last_source, 14)
            size = Size(_STD)
            while self._take("B"):
                size = self._keep(size.plus(self._source()).plus(WORD))
            return size
        return self._known[self._sequence()]

    def _template_arguments(self) -> Size:
        self._expect("I")
        size, arguments = WORD, []
        while not self._take("E"):
            is_pack = self._peek() in {"J", "I"}
            argument = self._argument()
            arguments.append((argument, is_pack))
            self._largest = max(self._largest, argument, key=lambda size: size.fixed)
            size = size.plus(argument).plus(Size(2))
        self._arguments = arguments
        return size

    def _argument(self) -> Size:
        if self._take("Tn"):  # the type of the argument, where it is not plain
            return self._type().plus(self._argument())
        first = self._peek()
        if first in {"J", "I"}:
            return self._pack_of_arguments()
        if not self._take("X"):
            return self._literal() if first == "L" else self._type()
        size = self._expression().plus(Size(2))
        self._expect("E")
        return size

    def _pack_of_arguments(self) -> Size:
        self._offset += 1
        size, count = NOTHING, 0
        while not self._take("E"):
            size = size.plus(self._argument()).plus(Size(2))
            count += 1
        self.longest_pack = max(self.longest_pack, count)
        return size

    def _parameter(self) -> Size:
        self._expect("T")
        if self._take("L"):  # of a function type's own
            self._sequence()
            self._sequence()
            return Size(12)
        return Size(8, {(self._sequence(), False): 1})

    def _literal(self) -> Size:
        self._expect("L")
        if self._take("_Z") or self._take("Z"):
            size = self._encoding()
            self._expect("E")
            return size
        return self._type().plus(self._skip_to("E"))
