"""A mangled C++ name -> how long its demangled form can become, without making it.

What enters: a name (Itanium C++ ABI, 5.1.) What leaves: a bound of its size;
ValueError for what is not understood. Every part of the name is read once: a
substitution S_ stands for the size of what it refers to. A template parameter T_
stands for an argument of whichever function is being printed, wherever it was
read. So sizes keep their parameters until the function's encoding ends; then
its arguments take their places, whose own parameters are those of a function
further out. In the pattern of a pack expansion a parameter is either the pack,
all of which is written, or something else, for every element of the pack.
"""

from __future__ import annotations

from typing import Final

from perfpy.symbols.demangling.cxx_expressions import Expressions
from perfpy.symbols.demangling.cxx_parts import NOTHING, WORD, WORDS, Size

_BUILTIN: Final = frozenset("vwbcahstijlmxynofdegz")


def demangled_size(name: str) -> int:
    """The most characters that the demangled name can have."""
    pack = 1
    while True:
        reader = _CxxReader(name, pack)
        whole = reader.mangled()
        if reader.longest_pack <= pack or not reader.expansions:
            break
        pack = reader.longest_pack
    return whole.fixed


class _CxxReader(Expressions):
    """Reads one name."""

    def mangled(self) -> Size:
        """_Z <encoding>, and a suffix."""
        self._expect("___Z" if self._name.startswith("_", 2) else "_Z")
        size = self._encoding()
        rest = len(self._name) - self._offset
        if rest and self._peek() not in ".@":
            raise ValueError(f"{self._peek()!r} at {self._offset}")
        return size.plus(Size(4 * rest + WORDS))

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
        # the types of conversion operators are printed as functions of their own, with the arguments of any
        # template around them; and LLVM takes those of the class, where the function has none
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
            return self._nested()
        if self._take("Z"):
            return self._local()
        known = self._peek() == "S" and self._peek(2) != "St"
        size = self._substitution() if known else self._unscoped()
        is_template = self._peek() == "I"
        if is_template:
            if not known:
                self._keep(size)
            size = size.plus(self._template_arguments())
        self._ends_in_arguments = is_template
        return size

    def _unscoped(self) -> Size:
        std = self._take("St")
        return self._unqualified().plus(Size(5 * std))

    def _nested(self) -> Size:
        while self._peek() and self._peek() in "rVKROH":
            self._offset += 1
        size = WORD
        while not self._take("E"):
            size = self._prefix(size)
        return size

    def _prefix(self, size: Size) -> Size:
        """One more component of a nested name; all but the whole, and what is known already, can be substituted."""
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

    def _local(self) -> Size:
        size = self._encoding()
        self._expect("E")
        if self._take("s"):
            size = size.plus(WORD)
        else:
            if self._take("d") and not self._take("_"):
                self._number()
                self._expect("_")
            size = size.plus(self._name_()).plus(WORD)
        self._discriminator()
        return size

    def _discriminator(self) -> None:
        if self._take("__"):
            self._number()
            self._expect("_")
        elif self._peek() == "_" and self._peek(2)[1:].isdigit():
            self._offset += 2

    def _unqualified(self) -> Size:
        first = self._peek()
        while first and first in "LF":  # internal linkage, friends
            self._offset += 1
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
            while self._peek(2) in {"Ty", "Tn"}:  # its own parameters
                size = size.plus(self._type() if self._take("Tn") else WORD)
                self._take("Ty")
            while not self._take("E"):
                size = size.plus(self._type()).plus(Size(2))
            size = size.swollen(Size(8), self._pack).without_parameters()  # they are written as auto:1
        elif kind != "Ut":
            raise ValueError(f"unnamed {kind}")
        self._sequence()
        return size

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
            raise ValueError(f"{word!r} is no name")
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

    def _closed(self, size: Size) -> Size:
        self._expect("_")
        return size

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
        if kind == "F":
            return self._skip_to("_") if self._peek(4).find("_") >= 0 else self._half()
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

    def _half(self) -> Size:
        self._number()
        self._offset += 1  # b or x
        return WORD
