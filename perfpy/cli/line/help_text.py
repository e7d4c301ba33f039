"""Help texts of commands in click's layout. Commands read their arguments without click."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perfpy.cli.line.examples import EXAMPLES
from perfpy.cli.line.program_name import program, use_program_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.cli.line.parser import Option


class _ShownOption(click.Option):
    """An option as a line of click's help."""

    def __init__(self, option: Option) -> None:
        super().__init__([*option.spellings, option.name], hidden=option.hidden, expose_value=False)
        self._record = (option.help_names(), option.help)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        return None if self.hidden else self._record


class _ShownCommand(click.Command):
    """A command with examples before the options in its help."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        examples = EXAMPLES.get(self.name or "", ())
        if examples:
            with formatter.section("Examples"):
                indent = " " * formatter.current_indent
                for wish, lines in examples:
                    formatter.write(f"{indent}# {wish}\n" + "".join(f"{indent}{line}\n" for line in lines))
        super().format_options(ctx, formatter)


def as_click(name: str, help: str, options: Sequence[Option], usage: str) -> click.Command:
    """Convert a command to click's."""
    params: list[click.Parameter] = [_ShownOption(option) for option in options if not option.hidden]
    return _ShownCommand(name, help=help, params=params, options_metavar=usage, add_help_option=False)


def help_about(name: str, words: Sequence[str], options: Sequence[Option], usage: str) -> str:
    """Return the text of -h WORD...: the options with one of the words in their spellings or help texts."""
    matches = [option for option in options if any(_is_about(option, word) for word in words)]
    if not matches:
        return use_program_name(f"Usage: {program()} {name} {usage}\n\nno option matches {' or '.join(words)}; -h lists all options")
    click_command = as_click("", "", matches, usage)
    return use_program_name(click_command.get_help(click.Context(click_command, info_name=f"{program()} {name}", max_content_width=120)))


def _is_about(option: Option, word: str) -> bool:
    if option.hidden:
        return False
    if word.startswith("-"):
        return any(spelling == word or (word.startswith("--") and spelling.startswith(word)) for spelling in option.spellings)
    return word.lower() in f"{option.help_names()} {option.help}".lower()


def help_text(name: str, help: str, options: Sequence[Option], usage: str) -> str:
    """Return the text of --help."""
    click_command = as_click(name, help, options, usage)
    text = click_command.get_help(click.Context(click_command, info_name=f"{program()} {name}", max_content_width=120))
    return use_program_name(text)
