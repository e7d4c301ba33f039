"""Options in perf's manner: how a command declares them, and those that several commands share.

What enters: declarations on a command function. What leaves: a PerfCommand
that reads its arguments as perf does (see `perfpy.cli.line.parser`) and calls the
function. Names, letters and defaults of options are perf's: perf-stat(1),
perf-record(1), perf-report(1), perf-script(1).

    @perf_command(runs_workload=True, ordered=("event", "filter"))
    @option("-e", "--event", multiple=True, metavar="<event>", help="event selector")
    @option("-g", "call_graph", bare="fp", help="record call chains")
    @lacking_options({"--topdown": "it needs a PMU's topdown events"})
    @workload
    def command(event, call_graph, workload, ordered): ...

Declarations are plain values: importing click takes longer than all of `perf
stat -- true`, so it is left to `perfpy.cli.group`, which makes help of them.
"""

from __future__ import annotations

from perfpy.cli.line.parser import Parser
from perfpy.errors import UsageError

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Final, NoReturn, TypeVar

    _Function = TypeVar("_Function", bound=Callable[..., Any])

_PARAMETERS: Final = "__perfpy_parameters__"  # where decorators leave declarations on the function
_METAVARS: Final[dict[Any, str]] = {int: "<n>", float: "<n>"}
_EXPECTED: Final[dict[Any, str]] = {int: "a whole number", float: "a number"}
_LARGEST: Final = (1 << 31) - 1  # perf's options are C's int


def _parameter_name(declarations: Sequence[str], spelt: Sequence[str]) -> str:
    named = [name for name in declarations if not name.startswith("-")]
    return (named or spelt)[0].replace("-", "_")


class Option:
    """One option.

    declarations: its spellings, and the parameter's name where the first long
    spelling is not it. is_flag, count: takes no value; flag_value: what a flag
    gives. type: text -> value, raising ValueError. multiple: may be repeated, the
    values become a list. bare: the value when none is attached (the value is
    optional, and never the next argument); takes_word: it may be the next
    argument after all, where that is no option. default: ... for the kind's own
    (False, 0, [] or None). negatable: `--no-X` is accepted;
    negated: what that gives an option with a value (None: the default again).
    lacking: perf has this option and we do not, for this reason; `--no-X`, which asks for what we do, is accepted where `undone` is set.
    ends_line: what follows does not matter any more.
    """

    def __init__(
        self,
        *declarations: str,
        is_flag: bool = False,
        count: bool = False,
        flag_value: Any = True,
        type: Callable[[str], Any] = str,
        default: Any = ...,
        multiple: bool = False,
        bare: str | None = None,
        takes_word: bool = False,
        negatable: bool = True,
        negated: Any = None,
        lacking: str = "",
        undone: bool = False,
        metavar: str = "",
        hidden: bool = False,
        ends_line: bool = False,
        help: str = "",
    ) -> None:
        self.letters = [name[1:] for name in declarations if name.startswith("-") and not name.startswith("--")]
        self.words = [name[2:] for name in declarations if name.startswith("--")]
        self.name = _parameter_name(declarations, [*self.words, *self.letters])
        self.count = count
        self.wants_value = not (is_flag or count)
        self.flag_value = None if self.wants_value else flag_value
        self.type = type
        self.multiple = multiple
        self.bare = bare
        self.takes_word = takes_word
        self.negatable = negatable
        self.negated = 0 if count else negated
        self.lacking = lacking
        self.undone = undone
        self.metavar = metavar or _METAVARS.get(type, "<str>")
        self.hidden = hidden or bool(lacking)
        self.ends_line = ends_line
        self.help = help
        self.default = default if default is not ... else [] if multiple else 0 if count else False if is_flag else None

    def convert(self, text: Any, shown: str) -> Any:
        """The value of what was given. shown: the option as it was spelt, for the message of the UsageError."""
        if not self.wants_value or self.type is str:
            return text
        try:
            value = self.type(text)
            if self.type is int and abs(value) > _LARGEST:
                raise UsageError(f"option {shown} takes no number above {_LARGEST}: {text}")
            return value
        except ValueError as error:
            expected = _EXPECTED.get(self.type) or str(error)
            raise UsageError(f"option {shown} expects {expected}, not '{text}'") from None

    @property
    def spellings(self) -> list[str]:
        """All spellings, letters first."""
        return [f"-{letter}" for letter in self.letters] + [f"--{word}" for word in self.words]

    def help_names(self) -> str:
        """The left side of its line in help: `-e, --event <event>`."""
        names = ("" if self.letters else "    ") + ", ".join(self.spellings)
        if not self.wants_value:
            return names
        if self.bare is None:
            return f"{names} {self.metavar}"
        separator = " " if self.takes_word else "=" if self.words else ""
        return f"{names}[{separator}{self.metavar}]"


_HELP_STATUS: Final = {"usage": 129, "show_help": 0}  # perf's -h exits 129
_HELP_OPTIONS: Final = (
    Option("-h", "usage", is_flag=True, hidden=True, ends_line=True),
    Option("--help", "show_help", is_flag=True, ends_line=True, negatable=False, help="show this text"),
)


class Argument:
    """A positional parameter: `nargs` words, -1 for all that are left. metavar: how help shows it."""

    def __init__(self, name: str, *, nargs: int = 1, metavar: str = "") -> None:
        self.name = name
        self.nargs = nargs
        self.metavar = metavar or f"[{name.upper()}]" + ("..." if nargs == -1 else "")


class PerfCommand:
    """A command that reads its arguments as perf does.

    function: gets the parameters as keywords, returns the exit status or None;
    its docstring is the help. runs_workload: options end at the first word, and
    everything from there on belongs to the program to run. ordered: names of
    parameters of which the function gets the `Given`s in order, as keyword `ordered`.
    """

    def __init__(self, function: Callable[..., Any], *, runs_workload: bool = False, ordered: Sequence[str] = ()) -> None:
        declared = list(reversed(getattr(function, _PARAMETERS, [])))
        self.function = function
        self.help = function.__doc__ or ""
        self.runs_workload = runs_workload
        self.ordered = ordered
        self.options = [item for item in declared if isinstance(item, Option)] + list(_HELP_OPTIONS)
        self.arguments = [item for item in declared if isinstance(item, Argument)]

    @property
    def usage(self) -> str:
        """What may follow the command's name."""
        if self.runs_workload:
            return "[OPTIONS] [--] [COMMAND [ARGS]...]"
        return " ".join(["[OPTIONS]", *(argument.metavar for argument in self.arguments)])

    def run(self, name: str, args: Sequence[str]) -> int:
        """Read the arguments, call the function; the exit status. name: what the command is called, for its help."""
        parser = Parser(self.options, stops_at_word=self.runs_workload)
        parser.parse(args)
        for asked, status in _HELP_STATUS.items():
            if asked in parser.values:
                from perfpy.cli.group import help_text  # click formats it

                print(help_text(name, self))
                return status
        return self.function(**self._parameters(parser)) or 0

    def _parameters(self, parser: Parser) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for option in self.options:
            if not option.lacking and option not in _HELP_OPTIONS and values.get(option.name) in (None, False):
                values[option.name] = option.default
        values.update(parser.values)
        words = parser.words
        for argument in self.arguments:
            if argument.nargs == -1:
                values[argument.name], words = tuple(words), []
            else:
                values[argument.name], words = (words[0] if words else None), words[1:]
        if words:
            raise UsageError(f"unexpected argument '{words[0]}'")
        if self.ordered:
            values["ordered"] = [given for given in parser.given if given.name in self.ordered]
        return values


class Choice:
    """A type of which the values are some words."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)

    def __call__(self, text: str) -> str:
        """The word itself."""
        if text not in self.words:
            raise ValueError(" or ".join(self.words))
        return text


def unsigned(text: str) -> int:
    """The type of an option that takes a number, but none below 0."""
    if not text.isdecimal() or int(text) > _LARGEST:
        raise ValueError(f"a whole number up to {_LARGEST}")
    return int(text)


def perf_command(*, runs_workload: bool = False, ordered: Sequence[str] = ()) -> Callable[[Callable[..., Any]], PerfCommand]:
    """Make a function a command; see PerfCommand."""
    return lambda function: PerfCommand(function, runs_workload=runs_workload, ordered=ordered)


def _declare(function: _Function, parameter: Option | Argument) -> _Function:
    vars(function).setdefault(_PARAMETERS, []).append(parameter)
    return function


def option(*declarations: str, **attributes: Any) -> Callable[[_Function], _Function]:
    """Declare an option; see Option."""
    return lambda function: _declare(function, Option(*declarations, **attributes))


def argument(name: str, *, nargs: int = 1, metavar: str = "") -> Callable[[_Function], _Function]:
    """Declare a positional parameter; see Argument. None, or an empty tuple for all words, where none is given."""
    return lambda function: _declare(function, Argument(name, nargs=nargs, metavar=metavar))


def choice(*words: str) -> Choice:
    """The type of an option that takes one of these words."""
    return Choice(words)


def workload(function: _Function) -> _Function:
    """Declare `workload`: the program to run and its arguments, untouched, as a tuple; may be empty."""
    return _declare(function, Argument("workload", nargs=-1))


def lacking_options(reasons: Mapping[str, str]) -> Callable[[_Function], _Function]:
    """Options of perf that the command does not have: "-b,--branch-any" -> why. Using one is an error that says so."""

    def declare(function: _Function) -> _Function:
        for names, reason in reasons.items():
            _declare(function, Option(*names.replace(" ", "").split(","), is_flag=True, lacking=reason))
        return function

    return declare


def fail(text: str) -> NoReturn:
    """Refuse the command line: one line, exit status 129."""
    raise UsageError(text)


def together(*options: Option) -> Callable[[_Function], _Function]:
    """Several options as one decorator, shown in the order given."""

    def declare(function: _Function) -> _Function:
        for item in reversed(options):
            _declare(function, item)
        return function

    return declare


input_options = together(
    Option("-i", "--input", metavar="<file>", default="", help="input file name (default: perf.data; - reads a pipe)"),
    Option("-f", "--force", is_flag=True, help="read the file although somebody else owns it"),
)
"""-i and -f: parameters `input` (str, "" where not given) and `force`."""

symbol_options = together(
    Option("--symfs", metavar="<directory>", default="", help="look for files with symbols below this directory"),
    Option("--kallsyms", metavar="<file>", default="", help="read the kernel's symbols from this copy of /proc/kallsyms"),
    Option("-k", "--vmlinux", metavar="<file>", default="", help="read the kernel's symbols from this ELF file"),
    Option("--demangle", is_flag=True, default=True, help="demangle C++ and Rust names (default)"),
    Option("--demangle-kernel", is_flag=True, help="demangle the kernel's names too"),
    Option("--fold-interpreters", is_flag=True, help="leave the frames of interpreters out where they named their functions"),
)
"""Where symbols come from: parameters `symfs`, `kallsyms`, `vmlinux`, `demangle`, `demangle_kernel`, `fold_interpreters`."""

header_options = together(
    Option("--header", is_flag=True, help="show what the file says about the recording, too"),
    Option("--header-only", is_flag=True, help="show only what the file says about the recording"),
)
"""--header and --header-only: parameters `header`, `header_only`."""

verbose_option = option("-v", "--verbose", count=True, help="say more; may be repeated")
"""-v: parameter `verbose` (int)."""

quiet_option = option("-q", "--quiet", is_flag=True, help="print no warnings or messages")
"""-q: parameter `quiet`."""

stdio_option = option("--stdio", is_flag=True, help="plain text in perf's layout, on a terminal too")
"""--stdio: parameter `stdio`; see `perfpy.cli.line.terminal`."""
