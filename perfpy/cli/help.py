"""`perfpy help [COMMAND | TOPIC]`: the help of a command, a topic, or the map of the Python API."""

from __future__ import annotations

from perfpy.cli.line.options import CommandOptions, PerfCommand, fail, word


class HelpCommandOptions(CommandOptions):
    """The arguments of `perfpy help`."""

    command: str | None = word("[COMMAND | TOPIC]")


def run(options: HelpCommandOptions) -> int:
    """Print the help of a command or a topic, or of perfpy itself; `help api` prints the map of the Python API."""
    from perfpy.cli import group
    from perfpy.cli.commands import COMMANDS, load
    from perfpy.cli.topics import TOPICS, print_topic

    if options.command is None:
        return group.run(["--help"])
    if options.command == "api":
        from perfpy.cli.api_map import api_lines

        print("\n".join(api_lines()))
    elif options.command in TOPICS:
        print_topic(options.command)
    elif options.command in COMMANDS:
        print(load(options.command).help_text(options.command))
    else:
        fail(group.unknown_command(options.command))
    return 0


command = PerfCommand(HelpCommandOptions, run)
