"""Kinds of options in perf's manner: convert the text of a command line to the values of a command's fields.

    Flag()  Flag(default=None)       --all-cpus; None distinguishes an absent option from --no-X
    Counted()                        -vv
    Value(int, default=1)  Value()   --repeat 3; without a default: None
    Attached("fp")                   -g, -gdwarf: the text is optional
    Listed()                         -e cycles -e instructions: a tuple
    Lacking("it needs a PMU")        an option that only perf has

Each is a Kind[T]. T is the type of the field, which mypy compares with its annotation.
"""

from __future__ import annotations

from perfpy.errors import UsageError

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final, Generic, TypeVar, overload

    _T = TypeVar("_T")
    _V = TypeVar("_V")
else:
    _T = None

    class Generic:
        """Stands in for typing.Generic without importing typing."""

        def __class_getitem__(cls, _: object) -> type:
            return cls


_EXPECTED: Final[dict[Any, str]] = {int: "a whole number", float: "a number"}
_LARGEST: Final = (1 << 31) - 1  # perf's options are C ints.
_MOST_DIGITS: Final = 4_300  # Python refuses to convert more.


class Kind(Generic[_T]):
    """The text that an option takes, and its conversion; the base of the kinds below.

    Attributes:
        default: the value if the option is absent.
        wants_value: whether the option takes text.
        negated: the value of `--no-X`; None: the default.
        ends_line: whether the rest of the line is ignored.
    """

    default: _T
    wants_value = False
    type: Callable[[str], object] = str
    negated: object = None
    bare: str | None = None
    takes_word = False
    lacking = ""
    undone = False
    ends_line = False

    def convert(self, text: str, typed: str) -> object:
        """Return the value of the text. typed is the option as typed, for the message of the UsageError."""
        if len(text) > _MOST_DIGITS and _has_endless_number(text):
            raise UsageError(f"option {typed}: a number has more than {_MOST_DIGITS} digits; the largest number is {_LARGEST}")
        if self.type is str:
            return text
        try:
            value = self.type(text)
        except ValueError as error:
            expected = _EXPECTED.get(self.type) or str(error)
            raise UsageError(f"option {typed} expects {expected}, not '{text}'") from None
        if self.type is int and abs(int(text)) > _LARGEST:
            raise UsageError(f"option {typed}: {text} is too large; the largest number is {_LARGEST}")
        return value

    def join(self, before: Any, value: object) -> object:
        """Return the field's value after one more occurrence; before is its value until now, or None."""
        return value


def _has_endless_number(text: str) -> bool:
    return any(len(digits) > _MOST_DIGITS for digits in "".join(letter if letter.isdecimal() else " " for letter in text).split())


class Flag(Kind[_T]):
    """An option without a value: True if given, False if negated. The default is False, True, or None to distinguish an absent option."""

    negated = False

    if TYPE_CHECKING:

        @overload
        def __init__(self: Flag[bool], default: bool = ...) -> None: ...
        @overload
        def __init__(self: Flag[bool | None], default: None) -> None: ...

    def __init__(self, default: Any = False) -> None:
        self.default = default


class Counted(Kind[int]):
    """An option without a value, with the number of its occurrences."""

    default = 0
    negated = 0

    def join(self, before: int | None, value: object) -> int:
        """Add one."""
        return (before or 0) + 1


class Value(Kind[_T]):
    """Text, attached or as the next argument. type converts it and raises ValueError; the default is None unless given."""

    wants_value = True

    if TYPE_CHECKING:

        @overload
        def __init__(self: Value[str | None], *, negated: str | None = None) -> None: ...
        @overload
        def __init__(self: Value[str], *, default: str, negated: str | None = None) -> None: ...
        @overload
        def __init__(self: Value[_V | None], type: Callable[[str], _V | None], *, negated: _V | None = None) -> None: ...
        @overload
        def __init__(self: Value[_V], type: Callable[[str], _V], *, default: _V, negated: _V | None = None) -> None: ...

    def __init__(self, type: Any = str, *, default: Any = None, negated: object = None) -> None:
        self.type = type
        self.default = default
        self.negated = negated


class Attached(Kind[_T]):
    """Optional text, attached (`-gX`, `--graph=X`); `bare` without it. takes_word: the next argument may be the text if it is no option."""

    wants_value = True

    if TYPE_CHECKING:

        @overload
        def __init__(self: Attached[str | None], bare: str, *, takes_word: bool = False, negated: str | None = None) -> None: ...
        @overload
        def __init__(self: Attached[str], bare: str, *, default: str, takes_word: bool = False, negated: str | None = None) -> None: ...
        @overload
        def __init__(
            self: Attached[_V | None], bare: str, type: Callable[[str], _V], *, takes_word: bool = False, negated: _V | None = None
        ) -> None: ...
        @overload
        def __init__(
            self: Attached[_V], bare: str, type: Callable[[str], _V], *, default: _V, takes_word: bool = False, negated: _V | None = None
        ) -> None: ...

    def __init__(self, bare: str, type: Any = str, *, default: Any = None, takes_word: bool = False, negated: object = None) -> None:
        self.bare = bare
        self.type = type
        self.default = default
        self.takes_word = takes_word
        self.negated = negated


class Listed(Kind["tuple[_T, ...]"]):
    """Text; repeatable. The value is a tuple of all texts."""

    wants_value = True

    if TYPE_CHECKING:

        @overload
        def __init__(self: Listed[str]) -> None: ...
        @overload
        def __init__(self: Listed[_V], type: Callable[[str], _V]) -> None: ...

    def __init__(self, type: Any = str) -> None:
        self.type = type
        self.default = ()

    def join(self, before: tuple[Any, ...] | None, value: object) -> tuple[Any, ...]:
        """Append the value."""
        return *(before or ()), value


class Lacking(Flag[bool]):
    """An option of perf that perfpy lacks, and the reason. undone: `--no-X` is accepted, because it requests what perfpy does."""

    def __init__(self, reason: str, *, undone: bool = False) -> None:
        self.default = False
        self.lacking = reason
        self.undone = undone


class Choice:
    """A type whose values are a few words."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def __call__(self, text: str) -> str:
        """Return the text if it is one of the words."""
        if text not in self.words:
            raise ValueError(" or ".join(self.words))
        return text


class WordList:
    """A type whose values are some of a few words, separated by commas."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def __call__(self, text: str) -> str:
        """Return the text if all its words are among them."""
        if set(text.split(",")) - set(self.words):
            raise ValueError(" or ".join(self.words))
        return text


#: perf's libraries for unwinding; perfpy unwinds without either
UNWIND_STYLES: Final = WordList("libdw", "libunwind")


def percent(text: str) -> float:
    """Convert a share: "3%" and "3" are 0.03."""
    try:
        share = float(text.removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not 0 <= share < 1e6:
        raise ValueError("a share of 0 % or more, such as 3%")
    return share


def parse_unsigned(text: str) -> int:
    """Convert a whole number that is not negative."""
    if not text.isdecimal() or int(text) > _LARGEST:
        raise ValueError(f"a whole number up to {_LARGEST}")
    return int(text)
