"""A command line, read by perf's option conventions.

What enters: the options of a command (`PerfOption`) and the arguments after
its name. What leaves: the value given for every parameter, what is left over,
and the options in the order in which they were given. The conventions are
those of perf's own commands (seen from outside):

    --event=X --event X -eX -e X    a required value, attached or the next argument
    -gcaller  -g                    an optional value: only ever attached
    -agF99                          flags bundled, a value may end the bundle
    --rep 3                         unique prefixes of long options
    --no-big-num --inherit          negation; `--inherit` undoes `--no-inherit`
    record -a ls -l                 a workload command ends at the first word
    --                              ends the options anywhere
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from perfpy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from click import Parameter

    from perfpy.cli.options import PerfOption


class Given(NamedTuple):
    """One option as it was given: the parameter's name and the text or flag value (None: negated)."""

    name: str
    value: Any


class Parser:
    """Reads one command line. `make_parser` of a click command returns it, in place of click's own.

    options: what may be given; arguments: (name, how many: -1 for all) of the
    positional parameters; stops_at_word: options end at the first argument
    that is none (commands that run a workload).
    """

    def __init__(self, options: Sequence[PerfOption], arguments: Sequence[Parameter], *, stops_at_word: bool) -> None:
        self._options = options
        self._arguments = arguments
        self._stops_at_word = stops_at_word
        self._letters = {letter: option for option in options for letter in option.letters}
        self._words = _long_spellings(options)
        self._opt_prefixes = {"-", "--"}  # click asks its parsers for this
        self.values: dict[str, Any] = {}
        self.given: list[Given] = []
        self._order: list[Parameter] = []

    def parse_args(self, args: list[str]) -> tuple[dict[str, Any], list[str], list[Parameter]]:
        """The values by parameter name, the words that no parameter took, and the parameters in the order given."""
        waiting = list(reversed(args))
        words: list[str] = []
        while waiting:
            argument = waiting.pop()
            if argument == "--":
                break
            if len(argument) < 2 or argument[0] != "-":
                words.append(argument)
                if self._stops_at_word:
                    break
            elif argument.startswith("--"):
                self._long(argument[2:], waiting)
            else:
                self._bundle(argument[1:], waiting)
        words.extend(reversed(waiting))
        return self.values, self._take_arguments(words), self._order

    def _long(self, text: str, waiting: list[str]) -> None:
        word, equals, attached = text.partition("=")
        option, negated = self._find(word)
        shown = f"--{word}"
        if option.lacking:
            raise UsageError(f"option {shown} is perf's, but not perfpy's: {option.lacking}")
        if negated and not option.negatable:
            raise UsageError(f"option {shown} cannot be negated")
        if equals and (negated or not option.wants_value):
            raise UsageError(f"option {shown} takes no value")
        if negated:
            self._negate(option)
        elif not option.wants_value:
            self._give(option, option.when_given, waiting)
        elif equals:
            self._give(option, attached, waiting)
        else:
            self._give(option, self._detached(option, shown, waiting), waiting)

    def _bundle(self, letters: str, waiting: list[str]) -> None:
        while letters:
            letter, letters = letters[0], letters[1:]
            option = self._letters.get(letter)
            shown = f"-{letter}"
            if option is None:
                raise UsageError(f"unknown option {shown}; -h lists the options")
            if option.lacking:
                raise UsageError(f"option {shown} is perf's, but not perfpy's: {option.lacking}")
            if not option.wants_value:
                self._give(option, option.when_given, waiting)
            elif letters:
                self._give(option, letters, waiting)
                return
            else:
                self._give(option, self._detached(option, shown, waiting), waiting)

    @staticmethod
    def _detached(option: PerfOption, shown: str, waiting: list[str]) -> Any:
        """The value of an option that has none attached."""
        if option.bare is not None:
            return option.bare
        if not waiting:
            raise UsageError(f"option {shown} requires a value {option.make_value_name()}")
        return waiting.pop()

    def _give(self, option: PerfOption, value: Any, waiting: list[str]) -> None:
        name = option.name or ""
        if option.count:
            self.values[name] = self.values.get(name, 0) + 1
        elif option.multiple:
            self.values.setdefault(name, []).append(value)
        else:
            self.values[name] = value
        self._order.append(option)
        self.given.append(Given(name, value))
        if option.is_eager:  # --help: whatever follows does not matter any more
            waiting.clear()

    def _negate(self, option: PerfOption) -> None:
        """`--no-X`: what was given before is forgotten; a flag becomes False, a value the option's `negated`."""
        name = option.name or ""
        self.given = [given for given in self.given if given.name != name]
        self.given.append(Given(name, None))
        if option.count:
            self.values[name] = 0
        elif option.is_bool_flag:
            self.values[name] = False
        elif option.negated is not None:
            self.values[name] = option.negated
        else:
            self.values.pop(name, None)

    def _find(self, word: str) -> tuple[PerfOption, bool]:
        exact = self._words.get(word)
        if exact:
            return exact
        near = {spelling: found for spelling, found in self._words.items() if spelling.startswith(word)}
        if len({(id(option), negated) for option, negated in near.values()}) == 1:
            return next(iter(near.values()))
        if near:
            positive = [spelling for spelling, (_, negated) in near.items() if not negated]
            shown = [f"--{spelling}" for spelling in (positive or near)]
            raise UsageError(f"option --{word} is ambiguous: it may be {_listed(shown)}")
        raise UsageError(f"unknown option --{word}{self._suggestion(word)}")

    def _suggestion(self, word: str) -> str:
        import difflib  # only a mistyped option pays for it

        likely = [spelling for spelling, (_, negated) in self._words.items() if not negated or word.startswith("no-")]
        close = difflib.get_close_matches(word, likely, n=2, cutoff=0.7)
        return f"; did you mean {' or '.join('--' + name for name in close)}?" if close else "; -h lists the options"

    def _take_arguments(self, words: list[str]) -> list[str]:
        for argument in self._arguments:
            if not words:
                break
            name = argument.name or ""
            if argument.nargs == -1:
                self.values[name], words = tuple(words), []
            else:
                self.values[name] = words.pop(0)
            self._order.append(argument)
        return words


def _long_spellings(options: Iterable[PerfOption]) -> dict[str, tuple[PerfOption, bool]]:
    """Every way to spell a long option -> (the option, whether that negates it). Its own name wins over a negation."""
    spellings = {word: (option, False) for option in options for word in option.words}
    for option in options:
        for word in option.words:
            opposite = word.removeprefix("no-") if word.startswith("no-") else f"no-{word}"
            spellings.setdefault(opposite, (option, True))
    return spellings


def _listed(names: Sequence[str]) -> str:
    shown = list(names[:6]) + (["..."] if len(names) > 6 else [])
    return ", ".join(shown[:-1]) + " or " + shown[-1] if len(shown) > 1 else shown[0]
