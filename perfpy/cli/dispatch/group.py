"""The click group: help for perfpy and its commands, and lines without a known command.

Commands read their arguments without click (see `perfpy.cli.line.options`).
"""

from __future__ import annotations

import click

from perfpy.cli.dispatch.commands import COMMANDS, load
from perfpy.cli.dispatch.missing_commands import ALTERNATIVES, refusal
from perfpy.cli.dispatch.topics import TOPICS
from perfpy.cli.line.help_text import as_click
from perfpy.cli.line.pager import page
from perfpy.cli.line.program_name import program
from perfpy.errors import UsageError


class LazyGroup(click.Group):
    """`perfpy COMMAND ...`, from the table of commands; --help imports none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the table's order."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command of this name."""
        return _as_click(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first argument names. Raises UsageError for an unknown one."""
        if args[0] not in COMMANDS:
            raise UsageError(unknown_command(args[0]))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands in the help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


def _as_click(name: str) -> click.Command:
    command = load(name)
    return as_click(name, command.help, command.options, command.usage)


def unknown_command(name: str) -> str:
    """Return the message for a word that is no command."""
    if name.startswith("-"):
        return f"unknown option {name}; perfpy --help lists the options"
    if name in ALTERNATIVES:
        return refusal(name)
    import difflib  # only needed for mistyped commands

    close = difflib.get_close_matches(name, COMMANDS, n=2, cutoff=0.6)
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else "perfpy --help lists the commands"
    return f"'{name}' is not a {program()} command; {hint}"


def _print_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        from perfpy.cli.line.program_name import version_line

        click.echo(version_line())
        ctx.exit()


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "ignore_unknown_options": True},
    epilog=f"'perfpy COMMAND --help' shows the options of a command. 'perfpy help TOPIC' shows a topic: {', '.join(TOPICS)}.",
)
@click.option("-v", "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="show the version")
@click.option("--no-pager", is_flag=True, expose_value=False, help="show text that is longer than the screen without a pager")
@click.pass_context
def root(ctx: click.Context) -> int | None:
    """Count, record and report what programs do on Linux: perf, in Python.

    'perfpy ./program ARGS' records a program and reports it. 'perfpy PID' does the same for a running process.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        return 1  # perf's status for a line without a command
    return None


def run(args: list[str]) -> int:
    """Run a line without a known command; return the exit status."""
    if args and args[0] == "-vv":
        return load("version").run("version", ["--build-options"])
    page("")
    try:
        with root.make_context(program(), args) as context:
            return root.invoke(context) or 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        raise UsageError(error.format_message()) from None
