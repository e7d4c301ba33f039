"""Parse a command line by the option conventions of perf's commands, as observed from outside.

--event=X --event X -eX -e X    a required value, attached or the next argument
-gcaller  -g                    an optional value: always attached
-agF99                          bundled flags; a value may end the bundle
--rep 3                         unique prefixes of long options
--no-big-num --inherit          negation; `--inherit` undoes `--no-inherit`
record -a ls -l                 options end at the workload's first word
--                              ends the options anywhere
"""

from __future__ import annotations

import sys

from perfpy.errors import UsageError

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Final

    from perfpy.cli.line.kinds import Kind

_METAVARS: Final[dict[Any, str]] = {int: "<n>", float: "<n>"}


#: Options that perf 6.12 lacks or has dropped. A prefix that also fits an option of perf means perf's option.
_NOT_OF_PERF: Final = frozenset((
    "addr2line-style", "clang-opt", "clang-path", "compare", "data-mmap", "event-files", "fold-interpreters", "folded",
    "full-names", "keep-stacks", "max-cpu", "max-summary", "off-cpu-limit", "off-cpu-thresh", "parallelism", "self-contained",
    "show-cpu", "stdio", "summary-mode", "type-profile", "verdict",
))  # fmt: skip
#: former spellings of perfpy's own options; each works for one release and warns
_FORMER: Final = {"whole-names": "full-names", "no-whole-names": "no-full-names"}


class Option:
    """One option: its spellings (`-e,--event`), its kind, and its line in the help.

    Args:
        spellings: separated by commas.
        kind: the conversion of its text.
        help: its text in the help.
        metavar: the placeholder of its value in the help.
        hidden: leave it out of the help.
        negatable: accept `--no-X`.
    """

    name = ""

    def __init__(
        self, spellings: str, kind: Kind[Any], help: str = "", *, metavar: str = "", hidden: bool = False, negatable: bool = True
    ) -> None:
        spelt = [spelling.strip() for spelling in spellings.split(",")]
        self.words = [spelling[2:] for spelling in spelt if spelling.startswith("--")]
        self.letters = [spelling[1:] for spelling in spelt if not spelling.startswith("--")]
        self.kind = kind
        self.help = help
        self.metavar = metavar or _METAVARS.get(kind.type, "<str>")
        self.hidden = hidden or bool(kind.lacking)
        self.negatable = negatable

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @property
    def spellings(self) -> list[str]:
        """All spellings, letters first."""
        return [f"-{letter}" for letter in self.letters] + [f"--{word}" for word in self.words]

    def help_names(self) -> str:
        """Return the left side of the option's line in help: `-e, --event <event>`."""
        names = ("" if self.letters else "    ") + ", ".join(self.spellings)
        if not self.kind.wants_value:
            return names
        if self.kind.bare is None:
            return f"{names} {self.metavar}"
        separator = " " if self.kind.takes_word else "=" if self.words else ""
        return f"{names}[{separator}{self.metavar}]"


class Occurrence:
    """One occurrence of an option: its field's name and the text; True for a flag, None if negated."""

    __slots__ = ("name", "value")

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self.value = value


class Parser:
    """One parsed command line.

    Attributes:
        values: parameter name -> converted value, for options on the line.
        words: the arguments that are no options.
        given: the options in the order of the line.

    stops_at_word: options end at the first word (commands that run a workload).
    """

    def __init__(self, options: Sequence[Option], *, stops_at_word: bool) -> None:
        self._stops_at_word = stops_at_word
        self._letters = {letter: option for option in options for letter in option.letters}
        self._spellings = _long_spellings(options)
        self.values: dict[str, Any] = {}
        self.words: list[str] = []
        self.occurrences: list[Occurrence] = []

    def parse(self, args: Sequence[str]) -> None:
        """Parse all arguments. Raises UsageError for the first wrong one."""
        waiting = list(reversed(args))
        while waiting:
            argument = waiting.pop()
            if argument == "--":
                break
            if len(argument) < 2 or argument[0] != "-":
                self.words.append(argument)
                if self._stops_at_word:
                    break
            elif argument.startswith("--"):
                self._long(argument[2:], waiting)
            else:
                self._bundle(argument[1:], waiting)
        self.words.extend(reversed(waiting))

    def _long(self, text: str, waiting: list[str]) -> None:
        word, equals, attached = text.partition("=")
        option, negated = self._find(word)
        typed = f"--{word}"
        if not (negated and option.kind.undone):
            _refuse_lacking(option, typed)
        if negated and not option.negatable:
            raise UsageError(f"option {typed} cannot be negated")
        if equals and (negated or not option.kind.wants_value):
            raise UsageError(f"option {typed} takes no value")
        if negated:
            self._negate(option)
        elif equals:
            self._give(option, typed, attached, waiting)
        else:
            self._give(option, typed, self._value_apart(option, typed, waiting), waiting)

    def _bundle(self, letters: str, waiting: list[str]) -> None:
        while letters:
            letter, letters = letters[0], letters[1:]
            option = self._letters.get(letter)
            typed = f"-{letter}"
            if option is None:
                raise UsageError(f"unknown option {typed}; -h lists the options")
            _refuse_lacking(option, typed)
            if option.kind.wants_value and letters:
                self._give(option, typed, letters, waiting)
                return
            self._give(option, typed, self._value_apart(option, typed, waiting), waiting)

    @staticmethod
    def _value_apart(option: Option, typed: str, waiting: list[str]) -> Any:
        """Return the value of an option that has none attached."""
        if not option.kind.wants_value:
            return True
        if option.kind.bare is not None:
            follows = option.kind.takes_word and waiting and not waiting[-1].startswith("-")
            return waiting.pop() if follows else option.kind.bare
        if not waiting:
            raise UsageError(f"option {typed} requires a value {option.metavar}")
        return waiting.pop()

    def _give(self, option: Option, typed: str, text: Any, waiting: list[str]) -> None:
        value = option.kind.convert(text, typed) if option.kind.wants_value else True
        self.values[option.name] = option.kind.join(self.values.get(option.name), value)
        self.occurrences.append(Occurrence(option.name, text))
        if option.kind.ends_line:
            waiting.clear()

    def _negate(self, option: Option) -> None:
        """Apply `--no-X`: drop earlier occurrences, and set the kind's `negated` value or the default."""
        self.occurrences = [occurrence for occurrence in self.occurrences if occurrence.name != option.name]
        self.occurrences.append(Occurrence(option.name, None))
        if option.kind.negated is not None:
            self.values[option.name] = option.kind.negated
        else:
            self.values.pop(option.name, None)

    def _find(self, word: str) -> tuple[Option, bool]:
        exact = self._spellings.get(word)
        if exact:
            return exact
        matches = {spelling: entry for spelling, entry in self._spellings.items() if spelling.startswith(word)}
        matches = {spelling: entry for spelling, entry in matches.items() if spelling.removeprefix("no-") not in _NOT_OF_PERF} or matches
        if len({(id(option), negated) for option, negated in matches.values()}) == 1:
            return next(iter(matches.values()))
        if matches:
            positive = [spelling for spelling, (_, negated) in matches.items() if not negated]
            typed = [f"--{spelling}" for spelling in (positive or matches)]
            raise UsageError(f"option --{word} is ambiguous: it may be {_join_alternatives(typed)}")
        former = self._spellings.get(_FORMER.get(word, ""))
        if former is None:
            raise UsageError(f"unknown option --{word}{self._suggestion(word)}")
        print(f"warning: --{word} is called --{_FORMER[word]} now", file=sys.stderr)
        return former

    def _suggestion(self, word: str) -> str:
        import difflib  # only a mistyped option pays for it

        likely = [spelling for spelling, (_, negated) in self._spellings.items() if not negated or word.startswith("no-")]
        close = difflib.get_close_matches(word, likely, n=2, cutoff=0.6)
        return f"; did you mean {' or '.join('--' + name for name in close)}?" if close else "; -h lists the options"


def _refuse_lacking(option: Option, typed: str) -> None:
    if option.kind.lacking:
        raise UsageError(f"perfpy does not have perf's option {typed}: {option.kind.lacking}")


def _long_spellings(options: Iterable[Option]) -> dict[str, tuple[Option, bool]]:
    """Map every spelling of a long option to (option, is negation). An option's own name wins over a negation."""
    spellings = {word: (option, False) for option in options for word in option.words}
    for option in options:
        for word in option.words:
            opposite = word.removeprefix("no-") if word.startswith("no-") else f"no-{word}"
            spellings.setdefault(opposite, (option, True))
    return spellings


def _join_alternatives(names: Sequence[str]) -> str:
    typed = list(names[:6]) + (["..."] if len(names) > 6 else [])
    return ", ".join(typed[:-1]) + " or " + typed[-1] if len(typed) > 1 else typed[0]
