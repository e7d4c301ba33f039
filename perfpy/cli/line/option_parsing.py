"""Options in perf's manner: a command's options are a frozen class, whose fields are declared by `option(...)`.

A PerfCommand reads its arguments as perf does and calls a function with an instance of the class.
Names, letters and defaults of options are perf's: perf-stat(1), perf-record(1), perf-report(1), perf-script(1).

    class SampleCommandOptions(InputOptions, VerboseOptions, lacks={"-T,--topdown": "it needs a PMU's topdown events"}):
        event: tuple[str, ...] = option("-e,--event", Listed(), "event selector", metavar="<event>", negatable=False)
        repeat: int = option("-r,--repeat", Value(int, default=1), "run it n times")
        pid: str = option("-p,--pid", Value(default=""), "these processes", metavar="<pid>")
        call_graph: str | None = option("-g", Attached("fp"), "record callchains")
        big_num: bool | None = option("-B,--big-num", Flag(default=None), "thousands' separators")
        workload: tuple[str, ...] = program_to_run()


    def run(options: SampleCommandOptions) -> int: ...  # its docstring is the help


    command = PerfCommand(SampleCommandOptions, run)

The annotation and the kind have the same type, which mypy checks. The field's name is free; the spellings are perf's. Groups of
options are base classes (those of `perfpy.cli.line.shared_options`, or a command's own, by topic). Help shows the options of the bases in
order, then the class's own. Instances are immutable; `replaced(repeat=3)` returns a changed copy. The class called with values
has defaults for the others (for tests, and for commands that call another's functions). `in_order("event", "filter")` returns the
order of options on the line. `lacks` has perf's options that perfpy does not have: using one is an error with the reason. An
option whose default comes from the configuration (~/.perfconfig) is None, and the function that uses it reads the configuration.

Declarations are plain values: importing click takes longer than all of `perf stat -- true`, so only
`perfpy.cli.line.help_text` imports it.
"""

from __future__ import annotations

import os
import sys

from perfpy.abi.light_types import TYPE_CHECKING, Generic, TypeVar, cached_property
from perfpy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, ClassVar, Final, NoReturn, Self, overload

_K = TypeVar("_K")
_V = TypeVar("_V")
_EXPECTED: Final[dict[Any, str]] = {int: "a whole number", float: "a number"}
_LARGEST: Final = (1 << 31) - 1  # perf's options are C ints.
_MOST_DIGITS: Final = 4_300  # Python refuses to convert more.


class Kind(Generic[_K]):
    """The text that an option takes, and its conversion; the base of the kinds below.

    T in Kind[T] is the type of the field, which mypy compares with its annotation.

        Flag()  Flag(default=None)       --all-cpus; None distinguishes an absent option from --no-X
        Counted()                        -vv
        Value(int, default=1)  Value()   --repeat 3; without a default: None
        Attached("fp")                   -g, -gdwarf: the text is optional
        Listed()                         -e cycles -e instructions: a tuple
        Lacking("it needs a PMU")        an option that only perf has

    Attributes:
        default: the value if the option is absent.
        wants_value: whether the option takes text.
        negated: the value of `--no-X`; None: the default.
        ends_line: whether the rest of the line is ignored.
    """

    default: _K
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
        numbers = "".join(letter if letter.isdecimal() else " " for letter in text).split() if len(text) > _MOST_DIGITS else ()
        if any(len(digits) > _MOST_DIGITS for digits in numbers):
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


class Flag(Kind[_K]):
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


class Value(Kind[_K]):
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


class Attached(Kind[_K]):
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


class Listed(Kind["tuple[_K, ...]"]):
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


def split_names(text: str) -> tuple[str, ...]:
    """Convert a list of names."""
    return tuple(filter(None, text.split(",")))


_METAVARS: Final[dict[Any, str]] = {int: "<n>", float: "<n>"}


#: Options that perf 6.12 lacks or has dropped. A prefix that also fits an option of perf means perf's option.
_NOT_OF_PERF: Final = frozenset((
    "addr2line-style", "calls", "calls-from", "clang-opt", "clang-path", "compare", "data-mmap", "event-files", "fold-interpreters",
    "folded", "full-names", "keep-stacks", "max-cpu", "max-summary", "off-cpu-limit", "off-cpu-thresh", "parallelism", "self-contained",
    "show-cpu", "stdio", "summary-mode", "type-profile", "verdict",
))  # fmt: skip


class Option:
    """One option: its spellings (`-e,--event`), its kind, and its line in the help.

    Args:
        spellings: separated by commas.
        kind: the conversion of its text.
        help: its text in the help.
        metavar: the placeholder of its value in the help.
        hidden: leave it out of the help.
        negatable: accept `--no-X`.
    """

    name = ""

    def __init__(
        self, spellings: str, kind: Kind[Any], help: str = "", *, metavar: str = "", hidden: bool = False, negatable: bool = True
    ) -> None:
        self.words: list[str] = []
        self.letters: list[str] = []
        for spelling in spellings.split(","):
            if spelling[:2] == "--":
                self.words.append(spelling[2:])
            else:
                self.letters.append(spelling[1:])
        self.kind = kind
        self.help = help
        self.metavar = metavar or _METAVARS.get(kind.type, "<str>")
        self.hidden = hidden or bool(kind.lacking)
        self.negatable = negatable

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @property
    def spellings(self) -> list[str]:
        """All spellings, letters first."""
        return [f"-{letter}" for letter in self.letters] + [f"--{word}" for word in self.words]

    def help_names(self) -> str:
        """Return the left side of the option's line in help: `-e, --event <event>`."""
        names = ("" if self.letters else "    ") + ", ".join(self.spellings)
        if not self.kind.wants_value:
            return names
        if self.kind.bare is None:
            return f"{names} {self.metavar}"
        separator = " " if self.kind.takes_word else "=" if self.words else ""
        return f"{names}[{separator}{self.metavar}]"


class Occurrence:
    """One occurrence of an option: its field's name and the text; True for a flag, None if negated."""

    __slots__ = ("name", "value")

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self.value = value


class Parser:
    """One parsed command line.

    The conventions are those of perf's commands, as observed from outside:

        --event=X --event X -eX -e X    a required value, attached or the next argument
        -gcaller  -g                    an optional value: always attached
        -agF99                          bundled flags; a value may end the bundle
        --rep 3                         unique prefixes of long options
        --no-big-num --inherit          negation; `--inherit` undoes `--no-inherit`
        record -a ls -l                 options end at the workload's first word
        --                              ends the options anywhere
        trace -s 12                     -p 12, if the process runs (commands that take processes)

    Attributes:
        values: parameter name -> converted value, for options on the line.
        words: the arguments that are no options.
        given: the options in the order of the line.

    Args:
        stops_at_word: options end at the first word (commands that run a workload).
        takes_processes: the first word may be the number of a running process, or several numbers, which is the value of `pid`.
    """

    def __init__(self, options: Sequence[Option], *, stops_at_word: bool, takes_processes: bool = False) -> None:
        self._stops_at_word = stops_at_word
        self._takes_processes = takes_processes
        self._options = options
        self.values: dict[str, Any] = {}
        self.words: list[str] = []
        self.occurrences: list[Occurrence] = []

    @cached_property
    def _letters(self) -> dict[str, Option]:
        return {letter: option for option in self._options for letter in option.letters}

    @cached_property
    def _spellings(self) -> dict[str, tuple[Option, bool]]:
        """Map every spelling of a long option to (option, is negation). An option's own name wins over a negation."""
        spellings = {word: (option, False) for option in self._options for word in option.words}
        for option in self._options:
            for word in option.words:
                opposite = word.removeprefix("no-") if word.startswith("no-") else f"no-{word}"
                spellings.setdefault(opposite, (option, True))
        return spellings

    def parse(self, args: Sequence[str]) -> None:
        """Parse all arguments. Raises UsageError for the first wrong one."""
        waiting = list(reversed(args))
        while waiting:
            argument = waiting.pop()
            if argument == "--":
                break
            if self._takes_processes and not self.words and "pid" not in self.values and _runs(argument):
                self._bundle("p", [argument])
            elif len(argument) < 2 or argument[0] != "-":
                self.words.append(argument)
                if self._stops_at_word:
                    break
            elif argument.startswith("--"):
                self._long(argument[2:], waiting)
            else:
                self._bundle(argument[1:], waiting)
        self.words.extend(reversed(waiting))

    def _long(self, text: str, waiting: list[str]) -> None:
        word, equals, attached = text.partition("=")
        option, negated = self._find(word)
        typed = f"--{word}"
        if not (negated and option.kind.undone):
            _refuse_lacking(option, typed)
        if negated and not option.negatable:
            raise UsageError(f"option {typed} cannot be negated")
        if equals and (negated or not option.kind.wants_value):
            raise UsageError(f"option {typed} takes no value")
        if negated:
            self._negate(option)
        elif equals:
            self._give(option, typed, attached, waiting)
        else:
            self._give(option, typed, self._value_apart(option, typed, waiting), waiting)

    def _bundle(self, letters: str, waiting: list[str]) -> None:
        while letters:
            letter, letters = letters[0], letters[1:]
            option = self._letters.get(letter)
            typed = f"-{letter}"
            if option is None:
                raise UsageError(f"unknown option {typed}; -h lists the options")
            _refuse_lacking(option, typed)
            if option.kind.wants_value and letters:
                self._give(option, typed, letters, waiting)
                return
            self._give(option, typed, self._value_apart(option, typed, waiting), waiting)

    @staticmethod
    def _value_apart(option: Option, typed: str, waiting: list[str]) -> Any:
        """Return the value of an option that has none attached."""
        if not option.kind.wants_value:
            return True
        if option.kind.bare is not None:
            word = waiting[-1] if waiting else ""
            follows = word == option.kind.bare == "-" if not option.kind.takes_word else word and (word == "-" or word[0] != "-")
            return waiting.pop() if follows else option.kind.bare
        if not waiting:
            raise UsageError(f"option {typed} requires a value {option.metavar}")
        return waiting.pop()

    def _give(self, option: Option, typed: str, text: Any, waiting: list[str]) -> None:
        value = option.kind.convert(text, typed) if option.kind.wants_value else True
        self.values[option.name] = option.kind.join(self.values.get(option.name), value)
        self.occurrences.append(Occurrence(option.name, text))
        if option.kind.ends_line:
            waiting.clear()

    def _negate(self, option: Option) -> None:
        """Apply `--no-X`: drop earlier occurrences, and set the kind's `negated` value or the default."""
        self.occurrences = [occurrence for occurrence in self.occurrences if occurrence.name != option.name]
        self.occurrences.append(Occurrence(option.name, None))
        if option.kind.negated is not None:
            self.values[option.name] = option.kind.negated
        else:
            self.values.pop(option.name, None)

    def _find(self, word: str) -> tuple[Option, bool]:
        exact = self._spellings.get(word)
        if exact:
            return exact
        matches = {spelling: entry for spelling, entry in self._spellings.items() if spelling.startswith(word)}
        matches = {spelling: entry for spelling, entry in matches.items() if spelling.removeprefix("no-") not in _NOT_OF_PERF} or matches
        if len({(id(option), negated) for option, negated in matches.values()}) == 1:
            return next(iter(matches.values()))
        if matches:
            positive = [spelling for spelling, (_, negated) in matches.items() if not negated]
            typed = [f"--{spelling}" for spelling in (positive or matches)]
            raise UsageError(f"option --{word} is ambiguous: it may be {_join_alternatives(typed)}")
        raise UsageError(f"unknown option --{word}{self._suggestion(word)}")

    def _suggestion(self, word: str) -> str:
        import difflib  # only a mistyped option pays for it

        likely = [spelling for spelling, (_, negated) in self._spellings.items() if not negated or word.startswith("no-")]
        close = difflib.get_close_matches(word, likely, n=2, cutoff=0.6)
        return f"; did you mean {' or '.join('--' + name for name in close)}?" if close else "; -h lists the options"


def _runs(word: str) -> bool:
    """Return whether a word is the number of a running process, or several numbers."""
    return all(pid.isdecimal() and os.path.exists(f"/proc/{pid}") for pid in word.split(","))


def _refuse_lacking(option: Option, typed: str) -> None:
    if option.kind.lacking:
        raise UsageError(f"perfpy does not have perf's option {typed}: {option.kind.lacking}")


def _join_alternatives(names: Sequence[str]) -> str:
    typed = list(names[:6]) + (["..."] if len(names) > 6 else [])
    return ", ".join(typed[:-1]) + " or " + typed[-1] if len(typed) > 1 else typed[0]


_T = TypeVar("_T")
_O = TypeVar("_O", bound="CommandOptions")


_NOTHING: Final[dict[str, str]] = {}


class Argument:
    """Words that are no options: one (None if absent), or with `rest` all remaining ones as a tuple.

    Args:
        metavar: the text in the help.
        rest: take all remaining words.
        to_run: the words are a program and its arguments, unparsed; options end at the first of them.
    """

    name = ""

    def __init__(self, metavar: str = "", *, rest: bool = False, to_run: bool = False) -> None:
        self._metavar = metavar
        self.rest = rest
        self.to_run = to_run

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @property
    def metavar(self) -> str:
        """The text in the help."""
        if self.to_run and not self._metavar:
            return "[--] [COMMAND [ARGS]...]"
        return self._metavar or f"[{self.name.upper()}]" + ("..." if self.rest else "")

    def taken_from(self, words: list[str]) -> object:
        """Remove the argument's words from the list, and return its value."""
        if not self.rest:
            return words.pop(0) if words else None
        values = tuple(words)
        words.clear()
        return values


if TYPE_CHECKING:

    def option(spellings: str, kind: Kind[_T], help: str = "", *, metavar: str = "", hidden: bool = False, negatable: bool = True) -> _T:
        """Declare a field and its option; see Option."""

    def word(metavar: str = "") -> str | None:
        """Declare a field for one word that is no option."""

    def words(metavar: str = "") -> tuple[str, ...]:
        """Declare a field for all words that are no options."""

    def program_to_run(metavar: str = "") -> tuple[str, ...]:
        """Declare a field for a program to run and its arguments."""

else:
    option = Option
    word = Argument

    def words(metavar: str = "") -> Argument:
        """Declare a field for all words that are no options."""
        return Argument(metavar, rest=True)

    def program_to_run(metavar: str = "") -> Argument:
        """Declare a field for a program to run and its arguments."""
        return Argument(metavar, rest=True, to_run=True)


class CommandOptions:
    """The base of every command's options, and of groups of options; an instance has a value for each field."""

    _options: ClassVar[dict[str, Option]] = {}
    _arguments: ClassVar[dict[str, Argument]] = {}

    def __init_subclass__(cls, *, lacks: Mapping[str, str] = _NOTHING) -> None:
        own = vars(cls)
        cls._options = {name: declared for base in cls.__bases__ for name, declared in getattr(base, "_options", {}).items()}
        cls._options.update({name: declared for name, declared in own.items() if isinstance(declared, Option)})
        cls._options.update({spelt: Option(spelt, Lacking(reason)) for spelt, reason in lacks.items()})
        cls._arguments = {name: declared for base in cls.__bases__ for name, declared in getattr(base, "_arguments", {}).items()}
        cls._arguments.update({name: declared for name, declared in own.items() if isinstance(declared, Argument)})

    def __init__(self, **values: object) -> None:
        """Set the fields to these values, and the others to their defaults."""
        fields = self.__dict__
        fields["_occurrences"] = ()
        for name, declared in self._options.items():
            if declared.name:
                fields[name] = declared.kind.default
        for argument in self._arguments.values():
            fields[argument.name] = argument.taken_from([])
        for name in values:
            if name not in fields:
                raise TypeError(f"{type(self).__name__} has no field {name}")
        fields.update(values)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is read once: {name} cannot be set")

    @classmethod
    def declared_options(cls) -> list[Option]:
        """Return all options, in the order of the help."""
        return list(cls._options.values())

    @classmethod
    def arguments(cls) -> list[Argument]:
        """Return the arguments that are no options."""
        return list(cls._arguments.values())

    @classmethod
    def read(cls, parser: Parser) -> Self:
        """Return an instance with a parser's values. Raises UsageError for excess words."""
        words_left = list(parser.words)
        words = {name: argument.taken_from(words_left) for name, argument in cls._arguments.items()}
        if words_left:
            from perfpy.cli.line.input_recording import input_hint  # Only for wrong command lines, where time does not matter.

            raise UsageError(f"unexpected argument '{words_left[0]}'" + (input_hint(words_left[0]) if "input" in cls._options else ""))
        return cls(**parser.values, **words, _occurrences=tuple(parser.occurrences))

    def prepare(self) -> None:
        """Prepare this process for the command, before its function imports anything."""

    def replace(self, **changes: object) -> Self:
        """Return a copy with these values changed."""
        return type(self)(**{**self.__dict__, **changes})

    def fill(self, kind: Callable[..., _T], **changes: object) -> _T:
        """Return a value of the library: a named tuple whose fields have the values of the options with these names.

        changes: fields whose values are not those of options. Other fields have their defaults.
        """
        fields = self.__dict__
        return kind(**{**{name: fields[name] for name in vars(kind)["_fields"] if name in fields}, **changes})

    def given(self, *names: str) -> list[str]:
        """Return the long spellings of those of these options that are given and not negated."""
        declared = ((self._options[name], self.__dict__[name]) for name in names)
        return [option.spellings[-1] for option, value in declared if value != option.kind.default and value is not False]

    def replace_texts(self, name: str, texts: Sequence[str]) -> Self:
        """Return a copy in which a repeatable option has other texts, one for each occurrence in the order of the line."""
        rest, parameter = list(texts), self._options[name].name
        occurrences = tuple(
            Occurrence(parameter, rest.pop(0)) if one.name == parameter and one.value is not None else one for one in self._occurrences
        )
        return self.replace(**{name: tuple(texts), "_occurrences": occurrences})

    def in_order(self, *names: str) -> list[Occurrence]:
        """Return the occurrences of these options, in the order of the line. Raises KeyError for an unknown field."""
        parameters = {self._options[name].name for name in names}
        return [occurrence for occurrence in self._occurrences if occurrence.name in parameters]

    _occurrences: tuple[Occurrence, ...]


_HELP_STATUS: Final = {"usage": 129, "show_help": 0}  # perf's -h exits with 129.


def events_with_filters(options: CommandOptions) -> tuple[list[str], list[tuple[int, str]]]:
    """Return the -e texts, and each --filter with the number of -e options before it."""
    events: list[str] = []
    filters: list[tuple[int, str]] = []
    for occurrence in options.in_order("event", "filter"):
        if occurrence.name == "event":
            events.append(occurrence.value)
        elif not events:
            raise UsageError(f"--filter {occurrence.value}: no event before it; put -e with a tracepoint first")
        else:
            filters.append((len(events), occurrence.value))
    return events, filters


class _Help(Flag[bool]):
    """A request for help, which ignores the rest of the line."""

    ends_line = True


class _HelpOptions(CommandOptions):
    usage: bool = option("-h", _Help(), "show this text; -h <word>: only the options about it", negatable=False)
    show_help: bool = option("--help", _Help(), "show this text", negatable=False)


# Groups of options that quick commands share; perfpy.cli.line.shared_options has those of commands that read recordings.


class StdioOptions(CommandOptions):
    """Whether to print perf's text on a terminal; see `perfpy.cli.output.terminal`."""

    stdio: bool = option("--stdio", Flag(), "print perf's plain text, also on a terminal")


class TaskOptions(CommandOptions):
    """The tasks and CPUs to measure, for `perfpy.capture.targets`."""

    pid: str = option("-p,--pid", Value(default=""), "only these processes (comma-separated)", metavar="<pid>")
    tid: str = option("-t,--tid", Value(default=""), "only these threads (comma-separated)", metavar="<tid>")
    user: str = option("-u,--uid", Value(default=""), "only the threads of this user", metavar="<user>")
    cpu: str = option("-C,--cpu", Value(default=""), "only these CPUs, such as 0-2,5", metavar="<cpu>")


class PerfCommand(Generic[_O]):
    """A command that reads its arguments as perf does.

    Args:
        options_class: the command's options.
        function: gets an instance, and returns the exit status or None; its docstring is the help.
        takes_processes: the number of a running process may stand without -p.
    """

    def __init__(self, options_class: type[_O], function: Callable[[_O], int | None], *, takes_processes: bool = False) -> None:
        self._takes_processes = takes_processes
        self.options_class = options_class
        self.function = function
        self.help = function.__doc__ or ""
        self.options = options_class.declared_options() + _HelpOptions.declared_options()
        self.arguments = options_class.arguments()

    @property
    def runs_workload(self) -> bool:
        """Whether the command runs a program; its options end at the first word."""
        return any(argument.to_run for argument in self.arguments)

    @property
    def usage(self) -> str:
        """The usage line after the command's name."""
        return " ".join(["[OPTIONS]", *(argument.metavar for argument in self.arguments)])

    def parser(self, args: Sequence[str]) -> Parser:
        """Parse the arguments. Raises UsageError."""
        parser = Parser(self.options, stops_at_word=self.runs_workload, takes_processes=self._takes_processes)
        parser.parse(args)
        return parser

    def run(self, name: str, args: Sequence[str]) -> int:
        """Read the arguments, call the function, and return the exit status. name is the command's name in its help."""
        return self.run_parsed(name, args, self.parser(args))

    def run_parsed(self, name: str, args: Sequence[str], parser: Parser) -> int:
        """Call the function with arguments that the parser has read, and return the exit status."""
        status = self.print_help(name, args, parser)
        if status is not None:
            return status
        options = self.options_class.read(parser)
        options.prepare()
        return self.function(options) or 0

    def print_help(self, name: str, args: Sequence[str], parser: Parser) -> int | None:
        """Print the help if the parsed arguments ask for it, and return its exit status."""
        for field, status in _HELP_STATUS.items():
            if parser.values.pop(field, False):
                _page(name)
                print(self.help_text(name, args[args.index("-h") + 1 :] if "-h" in args else ()))
                return status
        return None

    def help_text(self, name: str, about: Sequence[str] = ()) -> str:
        """Return the text of --help; about has the words after -h, to search in options' spellings and texts."""
        from perfpy.cli.line.help_text import help_about, help_text

        if about:
            return help_about(name, about, self.options, self.usage)
        return help_text(name, self.help, self.options, self.usage)


def _page(name: str) -> None:
    """Start a pager on a terminal, because help is longer than most screens."""
    if sys.stdout.isatty():
        from perfpy.cli.line.pager import page

        page(name)


def fail(text: str) -> NoReturn:
    """Reject the command line: one line, exit status 129."""
    raise UsageError(text)
