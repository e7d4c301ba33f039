"""Options as plain data, for commands that must start at once: they are parsed without click.

What enters: `Declared` options and the arguments. What leaves: the values by
parameter name. `click_command` makes the click command of the same options,
for help, manual pages and completions; it takes 40 ms to load what it needs,
perfpy itself takes less to count a program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from perfpy.cli.parser import Given, Parser
from perfpy.errors import UsageError

if TYPE_CHECKING:
    import click

    from perfpy.cli.options import PerfOption


class Declared:
    """One option; the arguments are those of `perfpy.cli.options.option`.

    declarations: "-e", "--event", and the parameter's name where it is not
    the long option's. flag: takes no value; count: may be repeated, counts;
    multiple: may be repeated, collects; number: the value is one.
    """

    is_eager = False

    def __init__(
        self,
        *declarations: str,
        help: str = "",  # noqa: A002  # click's name
        metavar: str = "",
        default: Any = None,
        flag: bool = False,
        count: bool = False,
        multiple: bool = False,
        number: bool = False,
        bare: str | None = None,
        negatable: bool = True,
        lacking: str = "",
    ) -> None:
        self.declarations = declarations
        self.letters = [text[1:] for text in declarations if text[0] == "-" and text[1] != "-"]
        self.words = [text[2:] for text in declarations if text.startswith("--")]
        named = [text for text in declarations if text[0] != "-"] or self.words or self.letters
        self.name = named[0].replace("-", "_")
        self.help = help
        self.metavar = metavar
        self.default = default
        self.is_flag = self.is_bool_flag = self.when_given = flag
        self.count = count
        self.multiple = multiple
        self.number = number
        self.bare = bare
        self.negatable = negatable
        self.negated: str | None = None
        self.lacking = lacking

    @property
    def wants_value(self) -> bool:
        """Whether a value belongs to the option."""
        return not (self.is_flag or self.count)

    def make_value_name(self) -> str:
        """What stands for the value in errors."""
        return self.metavar

    def value(self, text: Any) -> Any:
        """The value for what stood on the command line. Raises UsageError."""
        if not self.number or text is None:
            return text
        try:
            return int(text)
        except ValueError:
            raise UsageError(f"option --{self.words[0]} takes a whole number, not '{text}'") from None

    def when_absent(self) -> Any:
        """The value of an option that is not given."""
        if self.multiple:
            return ()
        if self.count:
            return 0
        return self.default if self.default is not None or not self.is_flag else False


class _Workload(NamedTuple):
    """The positional parameter: the program and its arguments."""

    name: str = "workload"
    nargs: int = -1


class Parsed(NamedTuple):
    """values by parameter name (`workload` among them); given: the options in their order; wants_help: -h or --help."""

    values: dict[str, Any]
    given: Sequence[Given]
    wants_help: bool


_HELP = (Declared("-h", "usage", flag=True), Declared("--help", "show_help", flag=True))


def parse(options: Sequence[Declared], args: Sequence[str]) -> Parsed:
    """Read the arguments of a command that runs a workload. Raises UsageError."""
    parser = Parser(cast("Sequence[PerfOption]", (*options, *_HELP)), cast("Any", (_Workload(),)), stops_at_word=True)
    found, _, _ = parser.parse_args(list(args))
    values = {o.name: o.value(found[o.name]) if o.name in found else o.when_absent() for o in options}
    values["workload"] = found.get("workload", ())
    return Parsed(values, parser.given, "usage" in found or "show_help" in found)


def click_command(
    name: str, options: Sequence[Declared], callback: Callable[[Mapping[str, Any], Sequence[Given]], int], help_text: str
) -> click.Command:
    """The click command of the same options; callback gets the values and the options in their order."""
    import click

    from perfpy.cli.options import PerfCommand, given, workload

    names = [declared.name for declared in options]

    def run(ctx: click.Context, **values: Any) -> int:
        return callback(values, list(given(ctx, *names)))

    params: list[click.Parameter] = [_click_option(declared) for declared in options if not declared.lacking]
    command = PerfCommand(
        name, runs_workload=True, callback=click.pass_context(run), params=params, help=help_text
    )
    command.params += [_click_option(declared) for declared in options if declared.lacking]
    workload(command)  # type: ignore[type-var]  # click's decorators take commands as well as functions
    return command


def _click_option(declared: Declared) -> PerfOption:
    from perfpy.cli.options import PerfOption

    attrs: dict[str, Any] = {"help": declared.help, "metavar": declared.metavar or None, "negatable": declared.negatable}
    if declared.is_flag:
        attrs |= {"is_flag": True, "default": declared.default or False}
    elif declared.count:
        attrs["count"] = True
    else:
        attrs |= {"multiple": declared.multiple, "bare": declared.bare, "type": int if declared.number else str}
        attrs["default"] = None if declared.multiple else declared.default
    if declared.lacking:
        attrs |= {"hidden": True, "expose_value": False, "lacking": declared.lacking}
    return PerfOption([*declared.declarations, *([] if "-" not in declared.name else [declared.name])], **attrs)
