"""The completion for bash, as text.

What enters: the commands' declarations. What leaves: a script of functions for complete -F.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from values import actions, only_attached, shown, values

from perfpy.cli.commands import COMMANDS, load_command
from perfpy.cli.top_level import TOPICS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.cli.line.option_parsing import Option, PerfCommand


BASH = """\
# bash completion for perfpy; written by completions/generate.py

# sets words and cword: bash parts words at = and :, here they are whole again
_perfpy_words()
{
    local rest=$COMP_LINE word index before last
    words=() cword=0
    for index in "${!COMP_WORDS[@]}"; do
        word=${COMP_WORDS[index]}
        before=${rest%%"$word"*} rest=${rest#*"$word"}
        last=$((${#words[@]} - 1))
        if ((last >= 0)) && [[ -z $before && ( $word == [=:]* || ${words[last]} == *[=:] ) ]]; then
            words[last]+=$word
        else
            words+=("$word")
        fi
        ((index == COMP_CWORD)) && cword=$((${#words[@]} - 1))
    done
}

# offers those of the words that begin as cur does; $1: "," when cur is a list, of which the last is meant
_perfpy_offer()
{
    local separator=$1 before="" word
    shift
    [[ -n $separator && $cur == *"$separator"* ]] && before=${cur%"$separator"*}$separator
    for word in "$@"; do
        word=$before${word%%$'\t'*}
        [[ $word == "$cur"* ]] && COMPREPLY+=("$word")
    done
}

# the same of what perfpy knows: $2
_perfpy_ask()
{
    local found
    mapfile -t found < <(command perfpy complete "$2" "${cur##*"$1"}" 2>/dev/null)
    _perfpy_offer "$1" "${found[@]}"
}

_perfpy_recordings()
{
    local found
    cur=${cur//\\/}
    mapfile -t COMPREPLY < <(command perfpy complete recordings "$cur" 2>/dev/null)
    compopt -o filenames 2>/dev/null
    ((${#COMPREPLY[@]})) || mapfile -t COMPREPLY < <(compgen -f -- "$cur")
}

# what stands before the last = or : of cur is no part of the word that bash replaces
_perfpy_cut()
{
    local breaks=${COMP_WORDBREAKS//[^=:]/} lead index
    [[ -n $breaks && $cur == *[$breaks]* ]] || return
    lead=${cur%"${cur##*[$breaks]}"}
    for index in "${!COMPREPLY[@]}"; do
        COMPREPLY[index]=${COMPREPLY[index]#"$lead"}
    done
}

# what may follow option $2 of command $1: 1 when the word is none of its
_perfpy_value()
{
    case "$1 $2" in
@values@
    *) return 1 ;;
    esac
    return 0
}

_perfpy()
{
    local cur prev words cword attached=""
    _perfpy_words
    cur=${words[cword]} prev=${words[cword-1]}
    COMPREPLY=()
    if ((cword == 1)); then
        _perfpy_offer "" @commands@ --help --version
        return
    fi
    local options="" workload="" actions=""
    case ${words[1]} in
@cases@
    help)
        _perfpy_offer "" @commands@ @topics@
        return
        ;;
    esac
    if [[ -n $workload ]] && declare -F _command_offset >/dev/null; then
        local index
        for ((index = 2; index < cword; index++)); do
            [[ ${words[index]} == -- ]] && _command_offset $((index + 1)) && return
        done
    fi
    [[ $cur == --?*=* ]] && prev=${cur%%=*} cur=${cur#*=} attached="="
    if [[ $prev == -?* ]] && _perfpy_value "${words[1]}" "$attached$prev"; then
        _perfpy_cut
        return
    fi
    if [[ $cur == -* ]]; then
        _perfpy_offer "" $options --help
    elif [[ -n $actions ]] && ((cword == 2)); then
        _perfpy_offer "" $actions
    elif [[ -n $workload ]]; then
        mapfile -t COMPREPLY < <(compgen -c -- "$cur"; compgen -f -- "$cur")
        compopt -o filenames 2>/dev/null
    elif [[ ${words[1]} == diff ]]; then
        _perfpy_recordings
    elif [[ ${words[1]} == list ]]; then
        _perfpy_offer "" hw sw cache tracepoint pmu sdt metric metricgroup
        _perfpy_ask "" events
        _perfpy_cut
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        compopt -o filenames 2>/dev/null
    fi
}

complete -o bashdefault -F _perfpy perfpy
"""

_BASH_ACTIONS = {
    "text": ":",
    "file": 'mapfile -t COMPREPLY < <(compgen -f -- "$cur"); compopt -o filenames 2>/dev/null',
    "directory": 'mapfile -t COMPREPLY < <(compgen -d -- "$cur"); compopt -o filenames 2>/dev/null',
    "user": 'mapfile -t COMPREPLY < <(compgen -u -- "$cur")',
    "program": 'mapfile -t COMPREPLY < <(compgen -c -- "$cur")',
    "recordings": "_perfpy_recordings",
}


def bash() -> str:
    """The completion for bash."""
    names = [name for name in COMMANDS if name != "help"]
    return (
        BASH.replace("@commands@", " ".join(COMMANDS))
        .replace("@topics@", " ".join(TOPICS))
        .replace("@cases@", "\n".join(_bash_case(name, load_command(name)) for name in names))
        .replace("@values@", "\n".join(line for name in names for line in _bash_values(name, load_command(name))))
    )


def _bash_case(name: str, command: PerfCommand) -> str:
    options = " ".join(spelling for option in shown(command) for spelling in option.spellings)
    workload = '        workload="yes"\n' if command.runs_workload else ""
    names = actions(command)
    words = f'        actions="{" ".join(names)}"\n' if names else ""
    return f'    {name})\n        options="{options}"\n{workload}{words}        ;;'


def _bash_values(name: str, command: PerfCommand) -> Iterator[str]:
    """A line a kind of value: the options of a command that take it, by their spellings (=--word: attached)."""
    takers: dict[str, list[str]] = {}
    for option in shown(command):
        if values(option).source:
            spelt = [] if only_attached(option) else option.spellings
            takers.setdefault(_bash_action(option), []).extend([*spelt, *(f"=--{word}" for word in option.words)])
    for action, spellings in takers.items():
        wanted = " | ".join(f'"{name} {spelling}"' for spelling in spellings)
        yield f"    {wanted}) {action} ;;"


def _bash_action(option: Option) -> str:
    source, words, listed = values(option)
    separator = '","' if listed else '""'
    if words:
        return f"_perfpy_offer {separator} {words}"
    return _BASH_ACTIONS.get(source) or f"_perfpy_ask {separator} {source}"
