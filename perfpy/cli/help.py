"""`perfpy help [COMMAND]`: what `perfpy COMMAND --help` prints; `perfpy help api`: the map of the Python API."""

from __future__ import annotations

from perfpy.cli.line.options import CommandOptions, PerfCommand, fail, word


class HelpCommandOptions(CommandOptions):
    """What the command takes."""

    command: str | None = word("[COMMAND]")


def run(options: HelpCommandOptions) -> int:
    """Show the help of a command, or of perfpy itself; `help api`: what `import perfpy` gives."""
    from perfpy.cli import group
    from perfpy.cli.commands import COMMANDS, load

    if options.command is None:
        return group.run(["--help"])
    if options.command == "api":
        from perfpy.cli.api_map import api_lines

        print("\n".join(api_lines()))
        return 0
    if options.command not in COMMANDS:
        fail(group.unknown_command(options.command))
    print(load(options.command).help_text(options.command))
    return 0


command = PerfCommand(HelpCommandOptions, run)
