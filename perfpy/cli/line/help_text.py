"""Help texts of commands in click's layout: --help, and -h WORD. Commands read their arguments without click."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from perfpy.cli.line.examples import EXAMPLES, program, use_program_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    import click


class ShownOption(Protocol):
    """The part of an option (perfpy.cli.line.option_parsing.Option, which imports this module) that help shows."""

    name: str
    help: str
    hidden: bool

    @property
    def spellings(self) -> list[str]:
        """All spellings, letters first."""

    def help_names(self) -> str:
        """Return the left side of the option's line."""


_WIDEST = 120  # columns


def help_text(
    name: str, help: str, options: Sequence[ShownOption], usage: str, commands: Sequence[tuple[str, str]] = (), epilog: str = ""
) -> str:
    """Return the text of --help.

    Args:
        name: of the command; "" for perfpy itself.
        help: what the command does; "": the options alone, without examples.
        options: of the command.
        usage: what follows the name in the first line.
        commands: (name, help) of each command to list.
        epilog: the last lines.
    """
    import click  # only help needs it

    class ClickOption(click.Option):
        def __init__(self, option: ShownOption) -> None:
            super().__init__([*option.spellings, option.name], expose_value=False)
            self._record = (option.help_names(), option.help)

        def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
            return self._record

    class ClickCommand(click.Command):
        def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            if help and name in EXAMPLES:
                with formatter.section("Examples"):
                    indent = " " * formatter.current_indent
                    for wish, lines in EXAMPLES[name]:
                        formatter.write(f"{indent}# {wish}\n" + "".join(f"{indent}{line}\n" for line in lines))
            super().format_options(ctx, formatter)
            if commands:
                with formatter.section("Commands"):
                    formatter.write_dl(commands)

    params: list[click.Parameter] = [ClickOption(option) for option in options if not option.hidden]
    command = ClickCommand(name, help=help, params=params, options_metavar=usage, add_help_option=False, epilog=epilog)
    context = click.Context(command, info_name=f"{program()} {name}".strip(), max_content_width=_WIDEST)
    return use_program_name(command.get_help(context))


def help_about(name: str, words: Sequence[str], options: Sequence[ShownOption], usage: str) -> str:
    """Return the text of -h WORD...: the options with one of the words in their spellings or help texts."""
    matches = [option for option in options if any(_is_about(option, word) for word in words)]
    if not matches:
        return use_program_name(f"Usage: {program()} {name} {usage}\n\nno option matches {' or '.join(words)}; -h lists all options")
    return help_text(name, "", matches, usage)


def _is_about(option: ShownOption, word: str) -> bool:
    if option.hidden:
        return False
    if word.startswith("-"):
        return any(spelling == word or (word.startswith("--") and spelling.startswith(word)) for spelling in option.spellings)
    return word.lower() in f"{option.help_names()} {option.help}".lower()
