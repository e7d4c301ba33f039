"""Bound the length of a demangled C++ name (Itanium C++ ABI, 5.1) without demangling it.

Every part of the name is read once: a substitution S_ has the size of the part that it refers to. A template parameter T_ refers to an
argument of the function being printed, not of the one being read. Sizes therefore keep their parameters until the function's encoding ends.
Then its arguments replace them, whose own parameters belong to an enclosing function. In the pattern of a pack expansion, a parameter is
either the pack, which is written completely, or another argument, written for every element of the pack. Raises ValueError for unknown
syntax.
"""

from __future__ import annotations

import re
from typing import Final

# Sizes of parts of a demangled C++ name, with unknown template arguments as parameters.

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

# Read a mangled C++ name from its beginning to its end.

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

    def _closed(self, size: Size) -> Size:
        self._expect("_")
        return size

    def _deeper(self) -> None:
        self._level += 1
        if self._level > _DEEPEST:
            raise ValueError("nested too deeply")


_STD: Final = 80  # std::basic_string<char, std::char_traits<char>, std::allocator<char> >
_UNARY: Final = frozenset("te sz az nx ps ng ad de co nt pp mm dl da tw aw".split())
_OF_TYPES: Final = frozenset({"st", "at", "ti"})
_CALLS: Final = frozenset({"cl", "cw", "il", "tl"})
_CASTS: Final = frozenset({"dc", "sc", "cc", "rc"})
_DECLARATIONS: Final = frozenset({"Ty", "Tn", "Tk", "Tp", "Tt"})  # of a template's parameters
_BUILTIN: Final = frozenset("vwbcahstijlmxynofdegz")


def demangled_size(name: str) -> int:
    """Return an upper bound of the demangled name's length."""
    pack = 1
    while True:
        reader = _CxxReader(name, pack)
        total = reader.mangled()
        if reader.longest_pack <= pack or not reader.expansions:
            break
        pack = reader.longest_pack
    return total.fixed


class _CxxReader(NameReader):
    """A reader of one name. `pack`: how often the pattern of a pack expansion is printed."""

    def __init__(self, name: str, pack: int) -> None:
        super().__init__(name)
        self._pack = pack
        self._substitutions: list[Size] = []  # substitutions
        self._last_source = 0  # constructors repeat their class's name
        self._arguments: list[tuple[Size, bool]] = []  # of the last template, with whether each is a pack
        self._largest = NOTHING  # of all arguments in the current name
        self._conversions = 0
        self._ends_in_arguments = False  # whether the last name does
        self.longest_pack = 1
        self.expansions = 0

    def mangled(self) -> Size:
        """Read _Z <encoding>, and a suffix."""
        self._expect("___Z" if self._name.startswith("_", 2) else "_Z")
        size = self._encoding()
        remaining = len(self._name) - self._offset
        if remaining and self._peek() not in ".@":
            raise ValueError(f"{self._peek()!r} at {self._offset}")
        return size.plus(Size(4 * remaining + WORDS))

    # -- names

    def _encoding(self) -> Size:
        return self._special() if self._peek() in {"T", "G"} else self._function()

    def _function(self) -> Size:
        outer, self._largest = self._largest, NOTHING
        conversions, self._conversions = self._conversions, 0
        size = self._name_()
        arguments, largest = (self._arguments if self._ends_in_arguments else []), self._largest
        self._largest = outer
        while self._offset < len(self._name) and self._peek() not in {"E", ".", "@", "Q"}:
            size = size.plus(self._type())
        size = size.plus(self._constraint())
        # Types of conversion operators are printed as functions of their own, with the arguments of any template
        # around them. LLVM uses those of the class if the function has none.
        for _ in range(self._conversions + (not arguments)):
            size = size.swollen(largest, self._pack)
        self._conversions = conversions
        return size.resolved(arguments, self._pack)

    def _special(self) -> Size:
        kind = self._peek(2)
        self._offset += 2
        if kind in {"TV", "TT", "TI", "TS", "TF", "TJ"}:
            return self._type().plus(WORD)
        if kind in {"GV", "TH", "TW", "GR"}:
            size = self._name_().plus(WORD)
            if kind == "GR" and self._offset < len(self._name) and self._peek() not in ".@E":
                self._sequence()
            return size
        if kind in {"Th", "Tv", "Tc"}:
            self._offset -= kind != "Tc"
            for _ in range(1 + (kind == "Tc")):
                self._call_offset()
            return self._encoding().plus(WORD)
        if kind == "TC":
            size = self._type()
            self._number()
            self._expect("_")
            return size.plus(self._type()).plus(WORD)
        if kind == "GT":
            self._offset += 1
        if kind in {"GT", "GA"}:
            return self._encoding().plus(WORD)
        if kind == "TA":
            return self._argument().plus(WORD)
        raise ValueError(f"special name {kind}")

    def _call_offset(self) -> None:
        for _ in range(1 + (self._peek() == "v")):
            if self._peek() in {"h", "v"}:
                self._offset += 1
            self._number()
            self._expect("_")

    def _name_(self) -> Size:
        if self._take("N"):
            while self._peek() and self._peek() in "rVKROH":
                self._offset += 1
            size = WORD
            while not self._take("E"):
                size = self._prefix(size)
            return size
        if self._take("Z"):
            size = self._encoding()
            self._expect("E")
            if self._take("s"):
                size = size.plus(WORD)
            else:
                if self._take("d") and not self._take("_"):
                    self._number()
                    self._expect("_")
                size = size.plus(self._name_()).plus(WORD)
            if self._take("__"):
                self._number()
                self._expect("_")
            elif self._peek() == "_" and self._peek(2)[1:].isdigit():
                self._offset += 2
            return size
        is_substitution = self._peek() == "S" and self._peek(2) != "St"
        size = self._substitution() if is_substitution else self._unscoped()
        is_template = self._peek() == "I"
        if is_template:
            if not is_substitution:
                self._keep(size)
            size = size.plus(self._template_arguments())
        self._ends_in_arguments = is_template
        return size

    def _unscoped(self) -> Size:
        std = self._take("St")
        return self._unqualified().plus(Size(5 * std))

    def _prefix(self, size: Size) -> Size:
        """Read another component of a nested name. All but the complete name and known components can be substituted."""
        first = self._peek()
        if first == "S" and not self._name.startswith("St", self._offset):
            return size.plus(self._substitution())
        if first == "S":
            self._offset += 2
            return size.plus(Size(5))
        if first == "T":
            size = size.plus(self._parameter())
        elif first == "I":
            size = size.plus(self._template_arguments())
        elif self._peek(2) in {"Dt", "DT"}:
            size = size.plus(self._decltype())
        elif first == "M":
            self._offset += 1
            return size
        else:
            size = size.plus(self._unqualified()).plus(Size(2))
        self._ends_in_arguments = first == "I"
        if self._peek() != "E":
            self._keep(size)
        return size

    def _unqualified(self) -> Size:
        first = self._peek()
        while first and first in "LFW":  # internal linkage, friends, modules
            self._offset += 1
            if first == "W":
                self._take("P")
                self._keep(self._source())
            first = self._peek()
        if first.isdigit():
            size = self._source()
        elif first == "U":
            size = self._unnamed()
        elif first == "C" or (first == "D" and self._peek(2)[1:] in "0123456789"):
            inherited = self._peek(2) == "CI"
            self._offset += 2 + inherited
            size = Size(self._last_source + WORDS).plus(self._type() if inherited else NOTHING)
        elif self._take("DC"):
            size = WORD
            while not self._take("E"):
                size = size.plus(self._source()).plus(Size(2))
        else:
            size = self._operator()
        while self._take("B"):
            size = size.plus(self._source()).plus(WORD)
        return size

    def _unnamed(self) -> Size:
        kind = self._peek(2)
        self._offset += 2
        size = WORD
        if kind == "Ul":
            while self._peek(2) in _DECLARATIONS:  # its own parameters
                size = size.plus(self._declaration())
            size = size.plus(self._constraint())
            while not self._take("E"):
                size = size.plus(self._constraint() if self._peek() == "Q" else self._type()).plus(Size(2))
            size = size.swollen(Size(8), self._pack).without_parameters()  # they are written as auto:1
        elif kind != "Ut":
            raise ValueError(f"unnamed {kind}")
        self._sequence()
        return size

    def _declaration(self) -> Size:
        """Read the declaration of a template's parameter."""
        self._deeper()
        kind, size = self._peek(2), WORD
        self._offset += 2
        if kind == "Tn":
            size = size.plus(self._type())
        elif kind == "Tk":
            size = size.plus(self._name_())
        elif kind == "Tp":
            size = size.plus(self._declaration())
        elif kind == "Tt":
            while not self._take("E"):
                size = size.plus(self._constraint() if self._peek() == "Q" else self._declaration())
        elif kind != "Ty":
            raise ValueError(f"parameter {kind}")
        self._level -= 1
        return size

    def _constraint(self) -> Size:
        """Read a requires-clause, if there is one."""
        return self._expression().plus(WORD) if self._take("Q") else NOTHING

    def _operator(self) -> Size:
        if self._take("cv"):
            self._conversions += 1
            return self._type().plus(WORD)
        if self._take("li"):
            return self._source().plus(WORD)
        if self._peek() == "v" and self._peek(2)[1:].isdigit():
            self._offset += 2
            return self._source().plus(WORD)
        word = self._peek(2)
        if len(word) < 2 or not word[0].islower():
            raise ValueError(f"{word!r} is not a name")
        self._offset += 2
        return WORD

    # -- types

    def _type(self) -> Size:
        self._deeper()
        size = self._type_at(self._peek())
        self._level -= 1
        return size

    def _type_at(self, first: str) -> Size:
        if first in _BUILTIN:
            self._offset += 1
            return WORD
        if first and first in "rVK":
            while self._peek() and self._peek() in "rVK":
                self._offset += 1
            inner = self._function_type() if self._peek() == "F" else self._type()
            return self._keep(inner.plus(WORD))
        if first and first in "PROCG":
            self._offset += 1
            return self._keep(self._type().plus(Size(12)))
        if first == "F":
            return self._keep(self._function_type())
        if first == "T" and self._peek(2) not in {"Ts", "Tu", "Te"}:
            size = self._keep(self._parameter())
            return self._keep(size.plus(self._template_arguments())) if self._peek() == "I" else size
        if first == "S" and self._peek(2) != "St":
            size = self._substitution()
            return self._keep(size.plus(self._template_arguments())) if self._peek() == "I" else size
        if first == "D":
            return self._d_type()
        return self._rare_type(first)

    def _rare_type(self, first: str) -> Size:
        if first == "A":
            self._offset += 1
            if self._peek().isdigit():
                self._number()
            elif self._peek() != "_":
                return self._keep(self._closed(self._expression()).plus(self._type()).plus(WORD))
            self._expect("_")
            return self._keep(self._type().plus(WORD))
        if first == "M":
            self._offset += 1
            return self._keep(self._type().plus(self._type()).plus(WORD))
        if first in {"u", "U"}:
            self._offset += 1
            size = self._source()
            size = size.plus(self._template_arguments()) if self._peek() == "I" else size
            return self._keep(size.plus(self._type()) if first == "U" else size)
        if first == "T":
            self._offset += 2
        return self._keep(self._name_())

    def _function_type(self) -> Size:
        self._expect("F")
        self._take("Y")
        size = WORD
        while not self._take("E"):
            if self._peek() in {"R", "O"} and self._peek(2)[1:] == "E":
                self._offset += 1
                continue
            size = size.plus(self._type()).plus(Size(2))
        return size

    def _decltype(self) -> Size:
        self._offset += 2
        size = self._expression()
        self._expect("E")
        return size.plus(WORD)

    def _d_type(self) -> Size:
        kind = self._peek(2)[1:]
        if kind in {"t", "T"}:
            return self._keep(self._decltype())
        self._offset += 2
        if kind and kind in "defhisuacn":
            return WORD
        if kind == "p":
            self.expansions += 1
            return self._keep(self._type().plus(Size(5)).expanded(self._pack))
        if kind and kind in "FBUkK":
            return self._new_type(kind)
        if kind == "v":
            size = WORD
            if self._peek().isdigit():
                self._number()
            elif self._take("_"):
                size = self._expression()
            return self._keep(self._closed(size).plus(self._type()).plus(WORD))
        if kind in {"o", "x", "O", "w"}:
            size = WORD
            if kind == "O":
                size = self._expression()
                self._expect("E")
            elif kind == "w":
                while not self._take("E"):
                    size = size.plus(self._type())
            return self._keep(size.plus(self._function_type()))
        raise ValueError(f"type D{kind}")

    def _new_type(self, kind: str) -> Size:
        if kind == "F":
            return self._skip_to("_") if self._peek(4).find("_") >= 0 else self._half()
        if kind in "kK":  # a constrained auto
            return self._name_().plus(WORD)
        if not self._peek().isdigit():  # _BitInt
            return self._closed(self._expression()).plus(WORD)
        self._number()
        return self._closed(WORD)

    def _half(self) -> Size:
        self._number()
        self._offset += 1  # b or x
        return WORD

    # -- expressions, in decltype, noexcept and arguments of templates

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
        if word in {"fp", "fL"}:  # fp_, fp0_, fL0p_, fpT (this)
            if self._take("fpT"):
                return WORD
            return self._skip_to("_")
        if first.isdigit() or word in {"on", "dn"}:
            self._offset += 2 * (not first.isdigit())
            return self._with_arguments(self._unqualified())
        self._offset += 2
        return self._operation(word)

    def _operation(self, word: str) -> Size:
        """Read an operator and its operands."""
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
            size = self._until("_").plus(self._type())
            if self._take("pi"):
                return size.plus(self._until("E"))
            self._expect("E")
            return size
        return self._simple_operation(word)

    def _simple_operation(self, word: str) -> Size:
        if word in {"rq", "rQ"}:
            return self._requirements(word)
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

    def _requirements(self, word: str) -> Size:
        size = WORD
        while word == "rQ" and not self._take("_"):
            size = size.plus(self._type()).plus(Size(2))
        while not self._take("E"):
            size = size.plus(WORD)
            if self._take("X"):
                size = size.plus(self._expression())
                self._take("N")
                size = size.plus(self._name_()) if self._take("R") else size
            elif self._take("T"):
                size = size.plus(self._type())
            elif self._peek() == "Q":
                size = size.plus(self._constraint())
            else:
                raise ValueError(f"requirement {self._peek()!r}")
        return size

    def _until(self, end: str) -> Size:
        size = NOTHING
        while not self._take(end):
            size = size.plus(self._expression()).plus(Size(2))
        return size

    def _member(self) -> Size:
        """Read a member name after a dot."""
        if self._peek(2) == "sr" or self._peek() in {"L", "T", "f"}:
            return self._expression()
        self._take("on")
        return self._with_arguments(self._unqualified())

    def _unresolved(self) -> Size:
        """Read a name in a dependent type."""
        if self._peek().isdigit():
            start = self._offset
            first, size = len(self._substitutions), self._source()
            name, size = size, self._with_arguments(size)
            while self._peek().isdigit():
                size = size.plus(self._with_arguments(self._source()))
            text = self._name[start : self._offset]  # old, simple types only: libstdc++ 12 may read other names forever
            while text:
                match = _PLAIN.match(text)
                if match is None:
                    raise ValueError(f"{text[:2]!r} in the name of a dependent type")
                text = text[match.end() + int(match[1] or 0) :]
            if self._peek() != "E" or not (self._peek(2)[1:].isdigit() or self._peek(3)[1:] in {"on", "dn"}):
                # Older compilers wrote a type, which can be substituted, and the last one was the name already.
                self._substitutions[first:first] = [name]
                self._keep(size)
                return size
            self._offset += 1
        else:
            if self._peek().islower() or self._peek() in {"C", "U", "L"}:
                raise ValueError(f"dependent type {self._peek()!r}")
            size = self._type()
        self._take("on")
        return size.plus(self._with_arguments(self._unqualified()))

    def _with_arguments(self, size: Size) -> Size:
        return size.plus(self._template_arguments()) if self._peek() == "I" else size

    # -- parts of types, names and expressions alike

    def _source(self) -> Size:
        length = self._number()
        if length > len(self._name) - self._offset:
            raise ValueError("truncated name")
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
        return self._substitutions[self._sequence()]

    def _template_arguments(self) -> Size:
        self._expect("I")
        size, arguments = WORD, []
        while not self._take("E"):
            if self._peek() == "Q":
                size = size.plus(self._constraint())
                continue
            is_pack = self._peek() in {"J", "I"}
            argument = self._argument()
            arguments.append((argument, is_pack))
            self._largest = max(self._largest, argument, key=lambda size: size.fixed)
            size = size.plus(argument).plus(Size(2))
        self._arguments = arguments
        return size

    def _argument(self) -> Size:
        if self._peek(2) in _DECLARATIONS:  # what the argument is, unless it is a plain one
            return self._declaration().plus(self._argument())
        first = self._peek()
        if first in {"J", "I"}:
            self._offset += 1
            size, count = NOTHING, 0
            while not self._take("E"):
                size = size.plus(self._argument()).plus(Size(2))
                count += 1
            self.longest_pack = max(self.longest_pack, count)
            return size
        if not self._take("X"):
            return self._literal() if first == "L" else self._type()
        size = self._expression().plus(Size(2))
        self._expect("E")
        return size

    def _parameter(self) -> Size:
        self._expect("T")
        if self._take("L"):  # of a function type
            self._sequence()
            self._sequence()
            return Size(12)
        start = self._offset
        self._skip_to("_")
        number = self._name[start : self._offset - 1]
        if number and not number.isdigit():
            raise ValueError(f"parameter {number}")
        return Size(8, {(int(number) + 1 if number else 0, False): 1})

    def _literal(self) -> Size:
        self._expect("L")
        if self._take("_Z") or self._take("Z"):
            size = self._encoding()
            self._expect("E")
            return size
        return self._type().plus(self._skip_to("E"))

    def _keep(self, size: Size) -> Size:
        self._substitutions.append(size)
        return size
