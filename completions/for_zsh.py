"""The completion for zsh, as text.

What enters: the commands' declarations. What leaves: a function for compsys (#compdef).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from values import DYNAMIC, actions, only_attached, short_help, shown, values

from perfpy.cli.commands import COMMANDS, load_command
from perfpy.cli.top_level import TOPICS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.cli.line.option_parsing import Option, PerfCommand


ZSH = """\
#compdef perfpy
# zsh completion for perfpy; written by completions/generate.py

# what perfpy knows of $1
_perfpy_ask() {{
    local kind=$1
    local -a lines names
    shift
    lines=(${{(f)"$(command perfpy complete $kind 2>/dev/null)"}})
    names=(${{lines%%$'\t'*}})
    lines=(${{lines//$'\t'/  -- }})
    compadd "$@" -l -d lines -a names
}}

_perfpy_recordings() {{
    local -a names
    names=(${{(f)"$(command perfpy complete recordings "${{(Q)PREFIX}}" 2>/dev/null)"}})
    compadd -f -a names || _files
}}

_perfpy() {{
    local curcontext=$curcontext state line
    local -a summaries
    summaries=(
{summaries}
    )
    _arguments -C '(-h --help)'{{-h,--help}}'[show help]' '(-v --version)'{{-v,--version}}'[show the version]' \\
        '1: :->command' '*:: :->rest'
    case $state in
    command) _describe command summaries ;;
    rest)
        case $words[1] in
{cases}
        esac
        ;;
    esac
}}

_perfpy "$@"
"""


def zsh() -> str:
    """The completion for zsh."""
    summaries = "\n".join(f"        '{name}:{_quoted(entry.help)}'" for name, entry in COMMANDS.items())
    cases = "\n".join(_zsh_case(name, load_command(name)) for name in COMMANDS)
    return ZSH.format(summaries=summaries, cases=cases)


def _quoted(text: str) -> str:
    """Text inside single quotes."""
    return text.replace("'", "'\\''")


def _explanation(option: Option) -> str:
    """An option's help inside the brackets of _arguments."""
    return _quoted(re.sub(r"[\\\[\]:]", r"\\\g<0>", short_help(option)))


_ZSH_WORDS = {
    "diff": "'*:recording:_perfpy_recordings'",
    "list": "'*:event:{ compadd hw sw cache tracepoint pmu sdt metric metricgroup; _perfpy_ask events }'",
}


def _zsh_case(name: str, command: PerfCommand) -> str:
    specifications = [specification for option in shown(command) for specification in _zsh_option(option)]
    if name == "help":
        specifications.append(f"'1:command:({' '.join((*COMMANDS, *TOPICS))})'")
    elif command.runs_workload:
        specifications += ["'(-)1:program: _command_names -e'", "'*::arguments:_normal'"]
    elif actions(command):
        specifications += [f"'1:action:({' '.join(actions(command))})'", "'*:file:_files'"]
    else:
        specifications.append(_ZSH_WORDS.get(name, "'*:file:_files'"))
    body = " \\\n".join(f"                {text}" for text in specifications)
    return f"        {name})\n            _arguments -s -S \\\n{body}\n            ;;"


def _zsh_option(option: Option) -> Iterator[str]:
    kind, attached = values(option).source, only_attached(option)
    action = f"{':' if option.kind.bare is None else '::'}{_zsh_action(option)}" if kind else ""
    short, long = ("", "") if not kind else ("-", "=-") if attached else ("+", "=")
    names = [f"-{letter}{short}" for letter in option.letters] + [f"--{word}{long}" for word in option.words]
    for name in names:
        yield f"'*{name}[{_explanation(option)}]{action}'"


_ZSH_ACTIONS = {
    "text": "value: ",
    "file": "file:_files",
    "directory": "directory: _files -/",
    "user": "user:_users",
    "program": "program: _command_names -e",
    "recordings": "recording:_perfpy_recordings",
}


def _zsh_action(option: Option) -> str:
    """What is offered; after a blank zsh calls a function with no more arguments than stand there."""
    source, words, listed = values(option)
    if words:
        escaped = words.replace(":", "\\:")
        return f"value: _sequence compadd - {escaped}" if listed else f"value:({escaped})"
    if source in DYNAMIC and source not in _ZSH_ACTIONS:
        return f"{source}: {'_sequence ' if listed else ''}_perfpy_ask {source}{' -' if listed else ''}"
    return _ZSH_ACTIONS[source]
