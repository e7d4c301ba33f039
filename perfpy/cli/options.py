"""Options in perf's manner, and those that several commands share.

What enters: declarations on a command function. What leaves: a click command
that reads its arguments as perf does (see `perfpy.cli.parser`) and prints help
in perf's layout. Option names, letters and defaults are perf's, see the manual
pages perf-stat(1), perf-record(1), perf-report(1), perf-script(1).

    @click.command(cls=PerfCommand, runs_workload=True)
    @option("-e", "--event", multiple=True, metavar="<event>", help="event selector")
    @option("-g", "call_graph", bare="fp", help="record call chains")
    @lacking_options({"--topdown": "it needs a PMU's topdown events"})
    @workload
    def command(event, call_graph, workload): ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn, TypeVar

import click

from perfpy.cli.parser import Given, Parser

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Decorator = Callable[[_Function], _Function]

_GIVEN = "perfpy.cli.given"  # the key in click's ctx.meta


class PerfOption(click.Option):
    """An option that follows perf's conventions.

    bare: the value when none is attached (the option's value is optional and
    never the next argument). negatable: `--no-X` is accepted. negated: what
    `--no-X` gives an option with a value (None: the default again). lacking:
    perf has this option and we do not; using it is an error with this reason.
    when_given: the value of a flag that is given.
    """

    def __init__(
        self,
        param_decls: Any = None,
        *,
        bare: str | None = None,
        negatable: bool = True,
        negated: str | None = None,
        lacking: str = "",
        **attrs: Any,
    ) -> None:
        super().__init__(param_decls, **attrs)
        self.bare = bare
        self.negatable = negatable
        self.negated = negated
        self.lacking = lacking
        self.when_given = attrs.get("flag_value", True)
        names = [*self.opts, *self.secondary_opts]
        self.letters = [name[1:] for name in names if not name.startswith("--")]
        self.words = [name[2:] for name in names if name.startswith("--")]

    @property
    def wants_value(self) -> bool:
        """Whether a value belongs to the option, required or optional."""
        return not (self.is_flag or self.count)

    def make_value_name(self) -> str:
        """What stands for the value in help and errors: `<n>`, `<file>`."""
        return self.metavar or f"<{self.type.name.replace('integer', 'n').replace('text', 'str')}>"

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The option's line in help: names, value, text."""
        if self.hidden:
            return None
        names = ", ".join(name for name in self.opts)
        if not self.letters:
            names = "    " + names
        if self.wants_value:
            value = self.make_value_name()
            separator = "=" if self.words else ""
            names += f"[{separator}{value}]" if self.bare is not None else f" {value}"
        return names, self.help or ""


class PerfCommand(click.Command):
    """A command that reads its arguments as perf does.

    runs_workload: options end at the first word, and everything from there on
    belongs to the program to run.
    """

    def __init__(self, name: str | None, *, runs_workload: bool = False, **attrs: Any) -> None:
        super().__init__(name, **(attrs | {"add_help_option": False}))
        self.runs_workload = runs_workload
        show: dict[str, Any] = {"is_flag": True, "is_eager": True, "expose_value": False, "callback": _show_help}
        self.params.append(PerfOption(["-h", "usage"], hidden=True, **show))
        self.params.append(PerfOption(["--help", "show_help"], help="show this text", **show))

    def make_parser(self, ctx: click.Context) -> Parser:  # type: ignore[override]  # click only calls parse_args
        """perf's conventions in place of click's."""
        params = self.get_params(ctx)
        options = [param for param in params if isinstance(param, PerfOption)]
        arguments = [param for param in params if isinstance(param, click.Argument)]
        parser = Parser(options, arguments, stops_at_word=self.runs_workload)
        ctx.meta[_GIVEN] = parser
        return parser

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """`[OPTIONS] [-- COMMAND...]` for a command with a workload."""
        if not self.runs_workload:
            return super().collect_usage_pieces(ctx)
        return ["[OPTIONS] [--] [COMMAND [ARGS]...]"]


def _show_help(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        click.echo(ctx.get_help())
        ctx.exit(129 if param.name == "usage" else 0)  # perf's -h exits 129


def option(*declarations: str, **attrs: Any) -> _Decorator[Any]:
    """`click.option` with perf's conventions; takes the extra attributes of `PerfOption`."""
    return click.option(*declarations, cls=PerfOption, **attrs)


def workload(function: _Function) -> _Function:
    """The parameter `workload`: the program to run and its arguments, untouched, as a tuple; may be empty."""
    return click.argument("workload", nargs=-1, type=click.UNPROCESSED)(function)


def lacking_options(reasons: Mapping[str, str]) -> _Decorator[Any]:
    """Options of perf that the command does not have: "-b,--branch-any" -> why. Using one is an error that says so."""

    def declare(function: _Function) -> _Function:
        for number, (names, reason) in enumerate(reasons.items()):
            function = option(
                *names.split(","), f"lacking_{number}", is_flag=True, hidden=True, expose_value=False, lacking=reason
            )(function)
        return function

    return declare


def given(ctx: click.Context, *names: str) -> Iterator[Given]:
    """The options of these parameter names in the order in which they stood on the command line.

    Values are the texts as given, before type conversion. For options whose
    meaning depends on what stands before them (`--filter` after an `-e`).
    """
    parser: Parser = ctx.meta[_GIVEN]
    return (item for item in parser.given if item.name in names)


def fail(text: str) -> NoReturn:
    """Refuse the command line: one line, exit status 129."""
    from perfpy.errors import UsageError

    raise UsageError(text)


def _together(*decorators: _Decorator[Any]) -> _Decorator[Any]:
    """Several options as one decorator, shown in the order given."""

    def declare(function: _Function) -> _Function:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return declare


input_options = _together(
    option("-i", "--input", metavar="<file>", default="", help="input file name (default: perf.data; - reads a pipe)"),
    option("-f", "--force", is_flag=True, help="read the file although somebody else owns it"),
)
"""-i and -f: parameters `input` (str, "" where not given) and `force`."""

symbol_options = _together(
    option("--symfs", metavar="<directory>", default="", help="look for files with symbols below this directory"),
    option("--kallsyms", metavar="<file>", default="", help="read the kernel's symbols from this copy of /proc/kallsyms"),
    option("-k", "--vmlinux", metavar="<file>", default="", help="read the kernel's symbols from this ELF file"),
    option("--demangle", is_flag=True, default=True, help="demangle C++ and Rust names (default)"),
    option("--demangle-kernel", is_flag=True, help="demangle the kernel's names too"),
)
"""Where symbols come from: parameters `symfs`, `kallsyms`, `vmlinux`, `demangle`, `demangle_kernel`."""

header_options = _together(
    option("--header", is_flag=True, help="show what the file says about the recording, too"),
    option("--header-only", is_flag=True, help="show only what the file says about the recording"),
)
"""--header and --header-only: parameters `header`, `header_only`."""

verbose_option = option("-v", "--verbose", count=True, help="say more; may be repeated")
"""-v: parameter `verbose` (int)."""

quiet_option = option("-q", "--quiet", is_flag=True, help="print no warnings or messages")
"""-q: parameter `quiet`."""

stdio_option = option("--stdio", is_flag=True, help="plain text in perf's layout, on a terminal too")
"""--stdio: parameter `stdio`; see `perfpy.cli.terminal`."""
