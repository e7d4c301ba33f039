"""What an option takes: the kinds of options in perf's manner, as small typed values.

What enters: the declarations of `perfpy.cli.line.options`, then the texts of a
command line. What leaves: the values of a command's fields, or a UsageError.

    Flag()  Flag(default=None)       --all-cpus; with None, not given and --no-X are told apart
    Counted()                        -vv
    Value(int, default=1)  Value()   --repeat 3; without a default: None
    Attached("fp")                   -g, -gdwarf: the text may be left out
    Listed()                         -e cycles -e instructions: a tuple
    Lacking("it needs a PMU")        perf's only

Each is a Kind[T]: the type of the field, which mypy compares with its annotation.
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
        """What it is in typing, without importing that."""

        def __class_getitem__(cls, _: object) -> type:
            return cls


_EXPECTED: Final[dict[Any, str]] = {int: "a whole number", float: "a number"}
_LARGEST: Final = (1 << 31) - 1  # perf's options are C's int


class Kind(Generic[_T]):
    """What an option takes, and what comes of it: one of the kinds below. default: its value where it is not given.

    wants_value: text belongs to it. negated: what `--no-X` gives; None: the
    default again. ends_line: what follows does not matter any more.
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

    def convert(self, text: str, shown: str) -> object:
        """The value of the text. shown: the option as it was spelt, for the message of the UsageError."""
        if self.type is str:
            return text
        try:
            value = self.type(text)
        except ValueError as error:
            expected = _EXPECTED.get(self.type) or str(error)
            raise UsageError(f"option {shown} expects {expected}, not '{text}'") from None
        if self.type is int and abs(int(text)) > _LARGEST:
            raise UsageError(f"option {shown} takes no number above {_LARGEST}: {text}")
        return value

    def joined(self, before: Any, value: object) -> object:
        """The field's value, now that the option is given (once more); before: its value until now, or None."""
        return value


class Flag(Kind[_T]):
    """Takes no value: True where it is given, False where it is negated; default: False, True, or None to tell all apart."""

    negated = False

    if TYPE_CHECKING:

        @overload
        def __init__(self: Flag[bool], default: bool = ...) -> None: ...
        @overload
        def __init__(self: Flag[bool | None], default: None) -> None: ...

    def __init__(self, default: Any = False) -> None:
        self.default = default


class Counted(Kind[int]):
    """Takes no value; how often it is given."""

    default = 0
    negated = 0

    def joined(self, before: int | None, value: object) -> int:
        """One more."""
        return (before or 0) + 1


class Value(Kind[_T]):
    """Takes text, attached or the next argument. type: text -> value, raising ValueError; default: None where none is given."""

    wants_value = True

    if TYPE_CHECKING:

        @overload
        def __init__(self: Value[str | None], *, negated: str | None = None) -> None: ...
        @overload
        def __init__(self: Value[str], *, default: str, negated: str | None = None) -> None: ...
        @overload
        def __init__(self: Value[_V | None], type: Callable[[str], _V], *, negated: _V | None = None) -> None: ...
        @overload
        def __init__(self: Value[_V], type: Callable[[str], _V], *, default: _V, negated: _V | None = None) -> None: ...

    def __init__(self, type: Any = str, *, default: Any = None, negated: object = None) -> None:
        self.type = type
        self.default = default
        self.negated = negated


class Attached(Kind[_T]):
    """Takes text or not, and then is `bare`; the text is attached (`-gX`, `--graph=X`).

    takes_word: it may also be the next argument, where that is no option.
    """

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
    """Takes text, and may be repeated: a tuple of all values."""

    wants_value = True

    if TYPE_CHECKING:

        @overload
        def __init__(self: Listed[str]) -> None: ...
        @overload
        def __init__(self: Listed[_V], type: Callable[[str], _V]) -> None: ...

    def __init__(self, type: Any = str) -> None:
        self.type = type
        self.default = ()

    def joined(self, before: tuple[Any, ...] | None, value: object) -> tuple[Any, ...]:
        """One more."""
        return *(before or ()), value


class Lacking(Flag[bool]):
    """An option that perf has and we do not, for this reason. undone: `--no-X` is accepted, for it asks for what we do."""

    def __init__(self, reason: str, *, undone: bool = False) -> None:
        self.default = False
        self.lacking = reason
        self.undone = undone


class Choice:
    """A type of which the values are some words."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def __call__(self, text: str) -> str:
        """The word itself."""
        if text not in self.words:
            raise ValueError(" or ".join(self.words))
        return text


def percent(text: str) -> float:
    """The type of an option that takes a share: "3%" or "3" is 0.03."""
    try:
        share = float(text.removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not 0 <= share < 1e6:
        raise ValueError("a share of 0 % or more, such as 3%")
    return share


def unsigned(text: str) -> int:
    """The type of an option that takes a number, but none below 0."""
    if not text.isdecimal() or int(text) > _LARGEST:
        raise ValueError(f"a whole number up to {_LARGEST}")
    return int(text)
