"""Commands with actions: `perfpy sched latency`. Each action is a command with options of its own; those of the whole command may stand
before or after the action, as in perf.
"""

from __future__ import annotations

from perfpy.abi.light_types import TYPE_CHECKING
from perfpy.cli.line.option_parsing import CommandOptions, Option, Parser, PerfCommand
from perfpy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Final


_SHORTEST: Final = 3  # letters of an abbreviated action
USAGE_STATUS: Final = 129


class Action(PerfCommand["Any"]):
    """One action of a command.

    Args:
        options_class: its options, with those of the whole command.
        function: as of PerfCommand.
        summary: one line for the help of the command; a phrase.
    """

    def __init__(self, options_class: type[Any], function: Any, summary: str) -> None:
        super().__init__(options_class, function)
        self.summary = summary

    @property
    def all_options(self) -> list[Option]:
        """Its options, and those of another command that runs it."""
        return self.options


def respell(option: Option, value: Any) -> str:
    """Return one argument that sets an option to a text (None: negated)."""
    if value is None:
        return f"--no-{option.words[0].removeprefix('no-')}" if not option.words[0].startswith("no-") else f"--{option.words[0][3:]}"
    if not option.kind.wants_value:
        return f"--{option.words[0]}" if option.words else f"-{option.letters[0]}"
    return f"--{option.words[0]}={value}" if option.words else f"-{option.letters[0]}{value}"


def is_help(args: Sequence[str]) -> bool:
    """Whether arguments begin with a request for help."""
    return bool(args) and args[0] in ("-h", "--help")


class CommandWithActions(Action):
    """A command whose first word is the name of an action. An action can be one, too.

    Args:
        options_class: the options that may stand before the action.
        actions: by name, in the order of the help.
        help: the text of --help.
        summary: see Action.
        without_action: what the command does if no action is named; None: it prints its help. If it runs a program, the first
            word may be one.
    """

    def __init__(
        self,
        options_class: type[CommandOptions],
        actions: Mapping[str, Action],
        help: str,
        summary: str = "",
        *,
        without_action: Action | None = None,
    ) -> None:
        super().__init__(options_class, no_action, summary)
        self._without_action = without_action
        self.own_options = self.options
        self.actions = actions
        self.help = help + "".join(f"\n\n{name}: {action.summary}" for name, action in actions.items())
        self.options = without_repeated_spellings(
            [*self.own_options, *(option for action in actions.values() for option in action.options)]
        )

    @property
    def usage(self) -> str:
        """The usage line after the command's name."""
        return f"[OPTIONS] {'|'.join(self.actions)} [OPTIONS OF THE ACTION]"

    def parser(self, args: Sequence[str]) -> Parser:
        """Parse the arguments by the options of their action. Raises UsageError."""
        own, action, rest = self._divided(args)
        return self.actions[action].parser([*own, *rest]) if action else super().parser(own)

    def run(self, name: str, args: Sequence[str]) -> int:
        """Run the action that the arguments name."""
        own, action, rest = self._divided(args)
        if action:
            return self.actions[action].run(f"{name} {action}", [*own, *rest])
        if is_help(own):
            return super().run(name, own)
        if self._without_action is not None:
            return self._without_action.run(name, own)
        print(self.help_text(name))
        return USAGE_STATUS

    def _divided(self, args: Sequence[str]) -> tuple[list[str], str, list[str]]:
        """Return the arguments before the action, its name ("" without one), and those after it. Raises UsageError."""
        program = self._without_action if self._without_action and self._without_action.runs_workload else None
        options = without_repeated_spellings([*self.own_options, *program.all_options]) if program else self.own_options
        parser = Parser(options, stops_at_word=True)
        parser.parse(args)
        names = {option.name for option in self.own_options}
        is_program = program and not (self._actions_of(parser.words) and all(one.name in names for one in parser.occurrences))
        if not parser.words or is_program:
            return list(args), "", []
        spelled = {option.name: option for option in reversed(self.own_options)}
        # In full, because an action may give the same letter another meaning.
        before = [respell(spelled[occurrence.name], occurrence.value) for occurrence in parser.occurrences]
        return before, self._action(parser.words[0]), parser.words[1:]

    def _actions_of(self, words: Sequence[str]) -> list[str]:
        """Return the actions that the first word names or abbreviates."""
        word = words[0] if words else ""
        if word in self.actions:
            return [word]
        return [name for name in self.actions if name.startswith(word)] if len(word) >= _SHORTEST else []

    def _action(self, word: str) -> str:
        matches = self._actions_of([word])
        if len(matches) == 1:
            return matches[0]
        *first, last = self.actions
        raise UsageError(f"unknown action '{word}'; expected {', '.join(first)}{' or ' if first else ''}{last}")


def no_action(_options: CommandOptions) -> int:
    """Return the status of a command line without an action."""
    return USAGE_STATUS


def without_repeated_spellings(options: Sequence[Option]) -> list[Option]:
    """Return the options, each spelling once: that of the first option that has it."""
    seen_spellings: set[str] = set()
    distinct = []
    for option in options:
        spellings = [spelling for spelling in option.spellings if spelling not in seen_spellings]
        seen_spellings.update(spellings)
        if len(spellings) == len(option.spellings):
            distinct.append(option)
        elif spellings:
            copy = Option(
                ",".join(spellings), option.kind, option.help, metavar=option.metavar, hidden=option.hidden, negatable=option.negatable
            )
            copy.name = option.name
            distinct.append(copy)
    return distinct
