"""What a command's options are for the shells: which help shows, and what may follow each.

What enters: a command's and its options' declarations. What leaves: texts,
and Values: the words of perfpy's own tables, or who knows them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from perfpy.analysis.sort_keys import names as sort_keys
from perfpy.capture import record_options
from perfpy.cli.line.option_parsing import Choice
from perfpy.cli.line.subcommands import CommandWithActions
from perfpy.cli.report.run import call_graph_words
from perfpy.errors import UsageError
from perfpy.views.script.fields import FIELDS

if TYPE_CHECKING:
    from perfpy.cli.line.option_parsing import Option, PerfCommand


class Values(NamedTuple):
    """What follows an option. source: "" nothing, "words", "text" (anything), "file", "directory", "user", "program",
    or what `perfpy complete` is asked for; words: those it takes; listed: several, with commas between them.
    """

    source: str
    words: str = ""
    listed: bool = False


#: kinds of `perfpy complete`: what the shells ask for when somebody types
DYNAMIC = ("events", "metrics", "pids", "tids", "pmus", "recordings")


def only_attached(option: Option) -> bool:
    """Whether the value is never the next word."""
    return option.kind.bare is not None and not option.kind.takes_word


def shown(command: PerfCommand) -> list[Option]:
    """The options that help shows."""
    return [option for option in command.options if not option.hidden]


def actions(command: PerfCommand) -> list[str]:
    """The words that may be the first one of a command with actions; none for others."""
    return list(command.actions) if isinstance(command, CommandWithActions) else []


def short_help(option: Option) -> str:
    """An option's help without asides."""
    return option.help.split(";")[0].split(" (")[0]


def values(option: Option) -> Values:
    """What may follow an option."""
    if not option.kind.wants_value:
        return Values("")
    if isinstance(option.kind.type, Choice):
        return Values("words", " ".join(option.kind.type.words))
    if "input" in option.words or "missing" in option.words:
        return Values("recordings")
    if option.help.startswith(_SORT_BY):  # sched, kwork and kmem have keys of their own
        return Values("words", option.help.removeprefix(_SORT_BY).replace(",", ""), listed=True)
    exact = _BY_METAVAR.get(option.metavar)
    if exact:
        return exact
    begins = [found for start, found in _BY_START.items() if option.metavar.startswith(start)]
    return begins[0] if begins else Values("text")


def _is_mode(mode: str) -> bool:
    try:
        return bool(record_options.parse_callchain(mode))
    except UsageError:
        return False


_CALL_GRAPH_MODES = " ".join(mode for mode in ("dwarf", "fp", "lbr") if _is_mode(mode))
_SORT_BY = "sort by: "
_SORT_KEYS = Values("words", " ".join(dict.fromkeys(sort_keys())), listed=True)
_BY_METAVAR = {
    "<pid>": Values("pids", listed=True),
    "<tid>": Values("tids", listed=True),
    "<metric>": Values("metrics", listed=True),
    "<PMU>": Values("pmus"),
    "<key[,key2...]>": _SORT_KEYS,
    "<key[,keys...]>": _SORT_KEYS,
    "<[type:]field,...>": Values("words", " ".join(FIELDS), listed=True),
    "<mode[,size]>": Values("words", _CALL_GRAPH_MODES),
    "<print_type,...>": Values("words", " ".join(call_graph_words()), listed=True),
    "<filter,...>": Values("words", " ".join(record_options.branch_filters()), listed=True),
    "<clock>": Values("words", " ".join(record_options.clocks())),
    "<no|all|task|mmap|cgroup>": Values("words", "no all task mmap cgroup", listed=True),
    "<kind>": Values("words", "delta delta-abs ratio wdiff:"),
    "<freq or 'max'>": Values("words", "max 99 997"),
    "<user>": Values("user"),
    "<command>": Values("program"),
}
_BY_START = {
    "<event": Values("events", listed=True),
    "<file": Values("file"),
    "<folder": Values("directory"),
    "<directory": Values("directory"),
}
