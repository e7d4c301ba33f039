"""Options declared by decorators on a command's function: the way that `perfpy.cli.line.options` takes the place of.

What enters: declarations on a function. What leaves: a PerfCommand that calls it with keywords.
"""

from __future__ import annotations

from perfpy.cli.line.kinds import Attached, Choice, Counted, Flag, Kind, Lacking, Listed, Value
from perfpy.cli.line.options import Argument, CommandOptions, Option, PerfCommand
from perfpy.errors import UsageError

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Final, TypeVar

    from perfpy.cli.line.parser import Parser

    _Function = TypeVar("_Function", bound=Callable[..., Any])

_PARAMETERS: Final = "__perfpy_parameters__"


def old_option(*declarations: str, negatable: bool = True, metavar: str = "", hidden: bool = False, help: str = "", **taken: Any) -> Option:
    """An option, in the words of the decorators."""
    spelt = [name for name in declarations if name.startswith("-")]
    option = Option(",".join(spelt), _kind(taken), help, metavar=metavar, hidden=hidden, negatable=negatable)
    named = [name for name in declarations if not name.startswith("-")]
    option.name = (named or [*option.words, *option.letters])[0].replace("-", "_")
    return option


def _kind(taken: Mapping[str, Any]) -> Kind[Any]:
    kind: Kind[Any]
    if taken.get("lacking"):
        kind = Lacking(taken["lacking"], undone=taken.get("undone", False))
    elif taken.get("count"):
        kind = Counted()
    elif taken.get("is_flag"):
        kind = Flag(taken.get("default", False))
    elif taken.get("multiple"):
        kind = Listed(taken.get("type", str))
    elif "bare" in taken:
        kind = Attached(
            taken["bare"],
            taken.get("type", str),
            default=taken.get("default"),
            takes_word=taken.get("takes_word", False),
            negated=taken.get("negated"),
        )
    else:
        kind = Value(taken.get("type", str), default=taken.get("default"), negated=taken.get("negated"))
    return kind


class DecoratedCommand(PerfCommand[CommandOptions]):
    """A command whose function gets keywords."""

    def __init__(self, function: Callable[..., Any], ordered: Sequence[str] = ()) -> None:
        super().__init__(CommandOptions, function)
        declared = list(reversed(getattr(function, _PARAMETERS, [])))
        self._called = function
        self._ordered = ordered
        self._own = [item for item in declared if isinstance(item, Option)]
        self.options = self._own + self.options
        self.arguments = [item for item in declared if isinstance(item, Argument)]

    def call(self, parser: Parser) -> int:
        """Call the function with what was read."""
        values = {option.name: option.kind.default for option in self._own if not option.kind.lacking}
        values.update(parser.values)
        words = list(parser.words)
        values.update({argument.name: argument.taken_from(words) for argument in self.arguments})
        if words:
            raise UsageError(f"unexpected argument '{words[0]}'")
        if self._ordered:
            values["ordered"] = [given for given in parser.given if given.name in self._ordered]
        return self._called(**values) or 0


def perf_command(*, ordered: Sequence[str] = ()) -> Callable[[Callable[..., Any]], DecoratedCommand]:
    """Make a function a command."""
    return lambda function: DecoratedCommand(function, ordered=ordered)


def _declare(function: _Function, parameter: Option | Argument) -> _Function:
    vars(function).setdefault(_PARAMETERS, []).append(parameter)
    return function


def option(*declarations: str, **attributes: Any) -> Callable[[_Function], _Function]:
    """Declare an option."""
    return lambda function: _declare(function, old_option(*declarations, **attributes))


def argument(name: str, *, nargs: int = 1, metavar: str = "") -> Callable[[_Function], _Function]:
    """Declare a positional parameter."""
    made = Argument(metavar, rest=nargs == -1)
    made.name = name
    return lambda function: _declare(function, made)


def choice(*words: str) -> Choice:
    """The type of an option that takes one of these words."""
    return Choice(*words)


def workload(function: _Function) -> _Function:
    """Declare `workload`: the program to run and its arguments."""
    made = Argument(rest=True, to_run=True)
    made.name = "workload"
    return _declare(function, made)


def lacking_options(reasons: Mapping[str, str]) -> Callable[[_Function], _Function]:
    """Options of perf that the command does not have: "-b,--branch-any" -> why."""

    def declare(function: _Function) -> _Function:
        for names, reason in reasons.items():
            _declare(function, old_option(*names.replace(" ", "").split(","), lacking=reason))
        return function

    return declare


def together(*options: Option) -> Callable[[_Function], _Function]:
    """Several options as one decorator, shown in the order given."""

    def declare(function: _Function) -> _Function:
        for item in reversed(options):
            _declare(function, item)
        return function

    return declare


input_options = together(
    old_option("-i", "--input", metavar="<file>", default="", help="input file name (default: perf.data; - reads a pipe)"),
    old_option("-f", "--force", is_flag=True, help="read the file although somebody else owns it"),
)
"""-i and -f: parameters `input` (str, "" where not given) and `force`."""

symbol_options = together(
    old_option("--symfs", metavar="<directory>", default="", help="look for files with symbols below this directory"),
    old_option("--kallsyms", metavar="<file>", default="", help="read the kernel's symbols from this copy of /proc/kallsyms"),
    old_option("-k", "--vmlinux", metavar="<file>", default="", help="read the kernel's symbols from this ELF file"),
    old_option("--demangle", is_flag=True, default=True, help="demangle C++ and Rust names (default)"),
    old_option("--demangle-kernel", is_flag=True, help="demangle the kernel's names too"),
    old_option("--fold-interpreters", is_flag=True, help="leave the frames of interpreters out where they named their functions"),
)
"""Where symbols come from: parameters `symfs`, `kallsyms`, `vmlinux`, `demangle`, `demangle_kernel`, `fold_interpreters`."""

header_options = together(
    old_option("--header", is_flag=True, help="show what the file says about the recording, too"),
    old_option("--header-only", is_flag=True, help="show only what the file says about the recording"),
)
"""--header and --header-only: parameters `header`, `header_only`."""

verbose_option = option("-v", "--verbose", count=True, help="say more; may be repeated")
"""-v: parameter `verbose` (int)."""

quiet_option = option("-q", "--quiet", is_flag=True, help="print no warnings or messages")
"""-q: parameter `quiet`."""

stdio_option = option("--stdio", is_flag=True, help="plain text in perf's layout, on a terminal too")
"""--stdio: parameter `stdio`; see `perfpy.cli.line.terminal`."""
