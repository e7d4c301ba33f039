"""`perfpy help [COMMAND]`: what `perfpy COMMAND --help` prints."""

from __future__ import annotations

from perfpy.cli.line.decorators import argument, perf_command
from perfpy.cli.line.options import fail


@perf_command()
@argument("command", metavar="[COMMAND]")
def command(command: str | None) -> int:
    """Show the help of a command, or of perfpy itself."""
    from perfpy.cli import group
    from perfpy.cli.commands import COMMANDS, load

    if command is None:
        return group.run(["--help"])
    if command not in COMMANDS:
        fail(group.unknown_command(command))
    print(group.help_text(command, load(command)))
    return 0
