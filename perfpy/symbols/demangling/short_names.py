"""Abbreviate long C++ and Rust names for screens.

Long lists of template arguments and parameters become …, return types of templates are omitted, and std::string has its short name:

    void std::__introsort_loop<int*, long, Less>(int*, int*, long, Less)
    std::__introsort_loop<…>(…)

Short lists remain (`fib(int)`), as do names of operators, closures and anonymous namespaces, Rust's `<T as Trait>` around its own long
lists, and names of other languages. Time and memory are linear in the name's length.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

#: replaces an omitted list
CUT: Final = "…"
_KEPT: Final = 16  # characters of a list short enough to keep
_STRINGS = re.compile(
    r"std::(?:__cxx11::|__1::)?basic_(string|string_view|ostream|istream|iostream|[io]?stringstream)"
    r"<char, std::char_traits<char>(?:, std::allocator<char> ?)? ?>"
)
# Signs that structure a name; "operator" with its sign, which may consist of the others.
_SIGN = re.compile(
    r"\boperator\b(?: ?(?:\(\)|\[\]|->\*?|<=>|<<=?|>>=?|[<>]=?|&&|\|\||\+\+|--|,|[-+*/%^&|!=]=?|~)|\"\"[ \w]*| (?:new|delete)\b(?:\[\])?)?"
    r"|[<>()\[\]{} ]"
)
_CLOSERS: Final = {"<": ">", "(": ")", "[": "]", "{": "}"}
# Words before a name that are not a type.
_ABOUT = re.compile(
    r"(?:(?:construction )?vtable|VTT|typeinfo(?: name| fn)?|guard variable|(?:non-)?virtual thunk|covariant return thunk|transaction clone"
    r"|non-transaction clone|TLS (?:init|wrapper) function|reference temporary #\d+|template parameter object|hidden alias) (?:for|to) "
)
#: division operators, which are not a path as in other languages' names
_SLASH: Final = "operator/"


class _Open(NamedTuple):
    """An open bracket: its sign, its piece, the length before it, and whether its contents may be dropped."""

    sign: str
    piece: int
    before: int
    is_list: bool


@lru_cache(maxsize=1 << 14)
def shorten_name(name: str) -> str:
    """Abbreviate a name for a narrow column; short names stay.

    >>> shortened("void sort<std::vector<int, std::allocator<int> > >(std::vector<int, std::allocator<int> >&)")
    'sort<std::vector<…>>(std::vector<…>&)'
    """
    if name.startswith("__pyx_"):
        return name_in_cython(name)
    return _with_less(name, of_all=False) if "<" in name or "(" in name else name


_OF_CYTHON = re.compile(r"__pyx_(?:pw|pf|f|gb)_(?=\d)(.+)", re.DOTALL)
_LENGTH = re.compile(r"\d{1,4}")


def name_in_cython(name: str) -> str:
    """Return the name in Cython of a C function that Cython generated, other names as they are.

    Its parts are after their lengths; the number before the last part may count the functions of a module instead.

    >>> name_in_cython("__pyx_pw_5cyext_1heavy"), name_in_cython("__pyx_f_3pkg_3mod_5Shape_area"), name_in_cython("__pyx_pymod_exec_a")
    ('cyext.heavy', 'pkg.mod.Shape.area', '__pyx_pymod_exec_a')
    """
    match = _OF_CYTHON.fullmatch(name)
    rest, parts = match[1] if match else "", []
    while (length := _LENGTH.match(rest)) and (end := length.end() + int(length[0])) < len(rest) and rest[end] == "_":
        parts.append(rest[length.end() : end])
        rest = rest[end + 1 :]
    return ".".join([*parts, rest.lstrip("0123456789")]) if parts else name


@lru_cache(maxsize=1 << 14)
def without_instance(name: str) -> str:
    """Return the common short name of all instances of a template.

    >>> without_instance("long fill<int>(int*, long)"), without_instance("long fill<double>(double*, long)"), without_instance("f(int)")
    ('fill<…>(…)', 'fill<…>(…)', 'f(int)')
    """
    return _with_less(name, of_all=True) if "<" in name else shorten_name(name)


def _with_less(name: str, *, of_all: bool) -> str:
    if "/" in name and _SLASH not in name:
        return name  # a path, for example of a script's function
    about = _ABOUT.match(name)
    words = about[0] if about else ""
    return words + _Shortening(_STRINGS.sub(r"std::\1", name[len(words) :]), of_all=of_all).result()


class _Shortening:
    """One pass over a name. `of_all`: omit everything in which instances of a template differ, however short."""

    def __init__(self, name: str, *, of_all: bool) -> None:
        self._name = name
        self._of_all = of_all
        self._pieces: list[str] = []
        self._length = 0
        self._open: list[_Open] = []
        self._depths = dict.fromkeys(_CLOSERS, 0)
        self._joined: set[int] = set()  # the open brackets with " as " or " impl " inside
        self._previous = ""  # the last sign or text, which determines the meaning of a bracket
        self._start = 0  # the piece at which the function's name begins, after a return type
        self._has_parameters = self._is_template = self._converts = False
        self._spaced = False  # after "operator " or an operator's sign

    def result(self) -> str:
        """Return the short name."""
        end = 0
        for match in _SIGN.finditer(self._name):
            if match.start() > end:
                self._text(self._name[end : match.start()])
            end = match.end()
            sign = match[0]
            start = match.start()
            if sign.startswith("operator"):
                self._write(sign)
                self._spaced = True
                self._converts |= sign == "operator" and not self._open  # a conversion to a type, which may contain spaces
            elif sign == " ":
                self._write(" ")
                if self._open:
                    if self._open[-1].sign == "<" and self._name.startswith("as ", start + 1):
                        self._joined.add(len(self._open))
                elif not (self._has_parameters or self._converts or self._spaced):
                    self._start = len(self._pieces)
            elif sign in _CLOSERS:
                self._open_bracket(sign, start)
            else:
                self._close_bracket(sign)
        self._text(self._name[end:])
        # Only names of templates include the return type.
        return "".join(self._pieces[self._start if self._is_template else 0 :])

    def _text(self, text: str) -> None:
        if text:
            self._write(text)
            self._spaced = False

    def _write(self, piece: str) -> None:
        self._pieces.append(piece)
        self._length += len(piece)
        self._previous = piece

    def _open_bracket(self, sign: str, start: int) -> None:
        previous, spaced = self._previous, self._spaced
        self._spaced = False
        if sign == "<" and previous.endswith(")") and not spaced:
            self._write(sign)  # less than
            return
        is_list = spaced or previous[-1:].isalnum() or previous.endswith(("_", "$", ">", "]", "}", CUT))
        if sign == "<" and previous.endswith("::"):
            is_list = not self._name.startswith("impl ", start + 1)
        elif sign in "[{" or previous == "decltype":
            is_list = False
        elif sign == "(" and is_list and not self._open:
            self._has_parameters, self._is_template = True, previous.endswith(">") and not spaced
        self._open.append(_Open(sign, len(self._pieces), self._length, is_list))
        self._depths[sign] += 1
        self._write(sign)

    def _close_bracket(self, sign: str) -> None:
        if sign == ">" and (self._previous.endswith(("-", "=")) or not (self._open and self._open[-1].sign == "<")):
            self._write(sign)  # an arrow, or greater than
            return
        opener = next(bracket for bracket, closer in _CLOSERS.items() if closer == sign)
        if not self._depths[opener]:
            self._write(sign)
            return
        while self._open[-1].sign != opener:  # brackets that never close: truncated names, comparisons
            self._drop()
        opened = self._open[-1]
        is_list = opened.is_list and len(self._open) not in self._joined
        self._drop()
        limit = 0 if self._of_all and (sign == ">" or self._is_template) else _KEPT
        if is_list and self._length - opened.before - 1 > limit:
            del self._pieces[opened.piece + 1 :]
            self._length = opened.before + 1
            self._write(CUT)
        self._write(sign)

    def _drop(self) -> None:
        self._joined.discard(len(self._open))
        self._depths[self._open.pop().sign] -= 1
