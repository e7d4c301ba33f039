"""Options in perf's manner: a command's options are a frozen class, whose fields are declared by `option(...)`.

A PerfCommand reads its arguments as perf does (see `perfpy.cli.line.parser`) and calls a function with an instance of the class.
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
options are base classes (those of `perfpy.cli.line.shared`, or a command's own, by topic). Help shows the options of the bases in
order, then the class's own. Instances are immutable; `replaced(repeat=3)` returns a changed copy. The class called with values
has defaults for the others (for tests, and for commands that call another's functions). `in_order("event", "filter")` returns the
order of options on the line. `lacks` has perf's options that perfpy does not have: using one is an error with the reason. An
option whose default comes from the configuration (~/.perfconfig) is None, and the function that uses it reads the configuration.

Declarations are plain values: importing click takes longer than all of `perf stat -- true`, so only `perfpy.cli.line.help_text`
imports it.
"""

from __future__ import annotations

import sys

from perfpy.cli.line.kinds import Flag, Lacking
from perfpy.cli.line.parser import Occurrence, Option, Parser
from perfpy.errors import UsageError

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import ClassVar, Final, Generic, NoReturn, Self, TypeVar

    from perfpy.cli.line.kinds import Kind

    _T = TypeVar("_T")
    _O = TypeVar("_O", bound="CommandOptions")
else:
    from perfpy.cli.line.kinds import Generic

    _O = None


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
            from perfpy.cli.line.opening import input_hint  # Only for wrong command lines, where time does not matter.

            raise UsageError(f"unexpected argument '{words_left[0]}'" + (input_hint(words_left[0]) if "input" in cls._options else ""))
        return cls(**parser.values, **words, _occurrences=tuple(parser.occurrences))

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


class _Help(Flag[bool]):
    """A request for help, which ignores the rest of the line."""

    ends_line = True


class _HelpOptions(CommandOptions):
    usage: bool = option("-h", _Help(), "show this text; -h <word>: only the options about it", negatable=False)
    show_help: bool = option("--help", _Help(), "show this text", negatable=False)


class PerfCommand(Generic[_O]):
    """A command that reads its arguments as perf does.

    Args:
        options_class: the command's options.
        function: gets an instance, and returns the exit status or None; its docstring is the help.
    """

    def __init__(self, options_class: type[_O], function: Callable[[_O], int | None]) -> None:
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
        parser = Parser(self.options, stops_at_word=self.runs_workload)
        parser.parse(args)
        return parser

    def run(self, name: str, args: Sequence[str]) -> int:
        """Read the arguments, call the function, and return the exit status. name is the command's name in its help."""
        parser = self.parser(args)
        for field, status in _HELP_STATUS.items():
            if parser.values.pop(field, False):
                _page(name)
                print(self.help_text(name, args[args.index("-h") + 1 :] if "-h" in args else ()))
                return status
        return self.function(self.options_class.read(parser)) or 0

    def help_text(self, name: str, about: Sequence[str] = ()) -> str:
        """Return the text of --help; about has the words after -h, to search in options' spellings and texts."""
        from perfpy.cli.line.help_text import help_about, help_text  # click formats it

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
