"""`perfpy help [COMMAND | TOPIC]`: the help of a command, a topic, or the map of the Python API."""

from __future__ import annotations

import inspect
import textwrap
from typing import TYPE_CHECKING, Any, Final

import perfpy
from perfpy.cli.commands import COMMANDS, load_command
from perfpy.cli.line.option_parsing import CommandOptions, PerfCommand, fail, word

if TYPE_CHECKING:
    from collections.abc import Iterator


class HelpCommandOptions(CommandOptions):
    """The arguments of `perfpy help`."""

    command: str | None = word("[COMMAND | TOPIC]")


def run(options: HelpCommandOptions) -> int:
    """Print the help of a command or a topic, or of perfpy itself; `help api` prints the map of the Python API."""
    from perfpy.cli import top_level
    from perfpy.cli.top_level import TOPICS, print_topic

    if options.command is None:
        return top_level.run(["--help"])
    if options.command == "api":
        print("\n".join(api_lines()))
    elif options.command in TOPICS:
        print_topic(options.command)
    elif options.command in COMMANDS:
        print(load_command(options.command).help_text(options.command))
    else:
        fail(top_level.unknown_command(options.command))
    return 0


command = PerfCommand(HelpCommandOptions, run)


_COLUMN: Final = 30  # where sentences begin
_WIDTH: Final = 110


def api_lines() -> Iterator[str]:
    """Yield the lines: functions, then classes with their members, then the errors."""
    members = {name: getattr(perfpy, name) for name in perfpy.__all__ if not name.startswith("_")}
    yield "import perfpy; `python -m pydoc perfpy.NAME` shows the full documentation of a name."
    yield "\nFunctions\n"
    for name, member_ in members.items():
        if inspect.isfunction(member_):
            yield from _entry(f"  {name}{_parameters(member_)}", member_)
    yield "\nClasses: results of functions, and counters to open"
    for name, member_ in members.items():
        if inspect.isclass(member_):
            yield ""
            yield from _entry(f"  {name}", member_)
            if fields := _fields(member_):
                yield f"    {', '.join(fields)}"
            for member, value in _members(member_):
                yield from _entry(f"    .{member}", value)
    yield "\nErrors, in perfpy.errors\n"
    tree = inspect.getdoc(perfpy.errors) or ""
    yield from (line for line in tree.splitlines() if line.startswith("    "))


def _fields(thing: Any) -> tuple[str, ...]:
    """Return the fields of a named tuple; () for other classes."""
    return tuple(thing._fields) if issubclass(thing, tuple) and hasattr(thing, "_fields") else ()


def _entry(name: str, thing: Any) -> Iterator[str]:
    sentence = (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ")
    if len(name) >= _COLUMN:
        yield from textwrap.wrap(name, _WIDTH, subsequent_indent="    ")
        name = ""
    yield from textwrap.wrap(sentence, _WIDTH, initial_indent=name.ljust(_COLUMN), subsequent_indent=" " * _COLUMN) or [name]


def _parameters(function: Any) -> str:
    parameters = inspect.signature(function).parameters.values()
    return f"({', '.join('*' * (item.kind is item.VAR_POSITIONAL) + item.name for item in parameters)})"


def _members(thing: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties that the class itself defines and documents."""
    for name, value in vars(thing).items():
        if (
            not name.startswith("_")
            and name not in _fields(thing)
            and (callable(value) or isinstance(value, (property, classmethod)) or hasattr(value, "__get__"))
        ):
            described = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
            if inspect.getdoc(described):
                yield name, described
