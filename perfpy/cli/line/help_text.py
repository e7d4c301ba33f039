"""Help texts of commands in click's layout: --help, and -h WORD. Commands read their arguments without click."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from perfpy.cli.line.examples import EXAMPLES, program, use_program_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    import click


class ShownOption(Protocol):
    """The part of an option (perfpy.cli.line.options.Option) that help shows."""

    name: str
    help: str
    hidden: bool

    @property
    def spellings(self) -> list[str]:
        """All spellings, letters first."""

    def help_names(self) -> str:
        """Return the left side of the option's line."""


def as_click(name: str, help: str, options: Sequence[ShownOption], usage: str) -> click.Command:
    """Convert a command to click's, which shows its examples before the options."""
    import click  # only help needs it

    class ClickOption(click.Option):
        def __init__(self, option: ShownOption) -> None:
            super().__init__([*option.spellings, option.name], hidden=option.hidden, expose_value=False)
            self._record = (option.help_names(), option.help)

        def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
            return None if self.hidden else self._record

    class ClickCommand(click.Command):
        def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            examples = EXAMPLES.get(self.name or "", ())
            if examples:
                with formatter.section("Examples"):
                    indent = " " * formatter.current_indent
                    for wish, lines in examples:
                        formatter.write(f"{indent}# {wish}\n" + "".join(f"{indent}{line}\n" for line in lines))
            super().format_options(ctx, formatter)

    params: list[click.Parameter] = [ClickOption(option) for option in options if not option.hidden]
    return ClickCommand(name, help=help, params=params, options_metavar=usage, add_help_option=False)


def help_about(name: str, words: Sequence[str], options: Sequence[ShownOption], usage: str) -> str:
    """Return the text of -h WORD...: the options with one of the words in their spellings or help texts."""
    matches = [option for option in options if any(_is_about(option, word) for word in words)]
    if not matches:
        return use_program_name(f"Usage: {program()} {name} {usage}\n\nno option matches {' or '.join(words)}; -h lists all options")
    return _get_help(as_click("", "", matches, usage), name)


def _is_about(option: ShownOption, word: str) -> bool:
    if option.hidden:
        return False
    if word.startswith("-"):
        return any(spelling == word or (word.startswith("--") and spelling.startswith(word)) for spelling in option.spellings)
    return word.lower() in f"{option.help_names()} {option.help}".lower()


def help_text(name: str, help: str, options: Sequence[ShownOption], usage: str) -> str:
    """Return the text of --help."""
    return _get_help(as_click(name, help, options, usage), name)


def _get_help(command: click.Command, name: str) -> str:
    import click

    return use_program_name(command.get_help(click.Context(command, info_name=f"{program()} {name}", max_content_width=120)))
