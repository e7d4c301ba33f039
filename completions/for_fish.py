"""The completion for fish, as text.

What enters: the commands' declarations. What leaves: a row of `complete` lines.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from values import DYNAMIC, actions, short_help, shown, values

from perfpy.cli.commands import COMMANDS, load_command
from perfpy.cli.top_level import TOPICS

if TYPE_CHECKING:
    from perfpy.cli.line.option_parsing import Option


FISH = """\
# fish completion for perfpy; written by completions/generate.py

# what perfpy knows of $argv
function __perfpy_ask
    command perfpy complete $argv 2>/dev/null
end

# the arguments as what may follow the last comma of the word
function __perfpy_list
    set -l word (string replace -r -- '^--[^=]*=' '' (commandline -ct))
    set -l before (string match -r -- '.*,' $word)
    for candidate in $argv
        echo "$before$candidate"
    end
end

function __perfpy_recordings
    __perfpy_ask recordings (string replace -r -- '^--[^=]*=' '' (commandline -ct))
end

complete -c perfpy -n __fish_use_subcommand -f -s v -l version -d 'show the version'
complete -c perfpy -n __fish_use_subcommand -f -s h -l help -d 'show help'
{lines}
"""


def _quoted(text: str) -> str:
    """Text inside single quotes, where a backslash stands before another one and before a quote."""
    return re.sub(r"['\\]", r"\\\g<0>", text)


def fish() -> str:
    """The completion for fish."""
    lines = []
    for name, entry in COMMANDS.items():
        command = load_command(name)
        lines.append(f"\ncomplete -c perfpy -n __fish_use_subcommand -f -a {name} -d '{_quoted(entry.help)}'")
        seen = f"-n '__fish_seen_subcommand_from {name}'"
        lines += [f"complete -c perfpy {seen} {_fish_option(option)}" for option in shown(command)]
        if name == "help":
            lines.append(f"complete -c perfpy {seen} -f -a '{' '.join((*COMMANDS, *TOPICS))}'")
        if name in _FISH_WORDS:
            lines.append(f"complete -c perfpy {seen} {_FISH_WORDS[name]}")
        if names := actions(command):
            lines.append(f"complete -c perfpy {seen} -a '{' '.join(names)}'")
        if command.runs_workload:
            lines.append(f"complete -c perfpy {seen} -x -a '(__fish_complete_subcommand --fcs-skip=2)'")
    return FISH.format(lines="\n".join(lines))


_FISH_WORDS = {
    "diff": "-f -a '(__perfpy_recordings)'",
    "list": "-f -a 'hw sw cache tracepoint pmu sdt metric metricgroup (__perfpy_ask events)'",
}
_FISH_ACTIONS = {
    "": "-f",
    "text": "-x",
    "file": "-r -F",
    "directory": "-x -a '(__fish_complete_directories)'",
    "user": "-x -a '(__fish_complete_users)'",
    "program": "-x -a '(complete -C (commandline -ct))'",
    "recordings": "-x -a '(__perfpy_recordings)'",
}


def _fish_option(option: Option) -> str:
    parts = [f"-s {letter}" for letter in option.letters] + [f"-l {word}" for word in option.words]
    if option.kind.bare is None or values(option).words:
        parts.append(_fish_action(option))
    return " ".join([*parts, f"-d '{_quoted(short_help(option))}'"])


def _fish_action(option: Option) -> str:
    source, words, listed = values(option)
    optional = "-f" if option.kind.bare is not None else "-x"
    if words:
        return f"{optional} -a '{f'(__perfpy_list {words})' if listed else words}'"
    if source in DYNAMIC and source not in _FISH_ACTIONS:
        asked = f"(__perfpy_ask {source})"
        return f"-x -a '{f'(__perfpy_list {asked})' if listed else asked}'"
    return _FISH_ACTIONS[source]
