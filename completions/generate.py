"""Write the completions for bash, zsh and fish, from the commands' declarations.

    python completions/generate.py          writes completions/perfpy.{bash,zsh,fish}
    python completions/generate.py --check  exits 1 when one is not up to date

Event names are those of the machine: `perfpy list --raw-dump`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from perfpy.cli.commands import COMMANDS, load
from perfpy.cli.line.kinds import Choice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.cli.line.options import Option, PerfCommand

HERE = Path(__file__).resolve().parent
EVENTS = "perfpy list --raw-dump 2>/dev/null"


def value_kind(option: Option) -> str:
    """What follows an option: "" nothing, "event", "file", "directory", "words" of a choice, or any "text"."""
    if not option.kind.wants_value:
        return ""
    if isinstance(option.kind.type, Choice):
        return "words"
    kinds = [kind for kind in ("event", "file", "directory") if option.metavar.startswith(f"<{kind}")]
    return kinds[0] if kinds else "text"


def values(option: Option) -> str:
    """The words that an option takes."""
    return " ".join(option.kind.type.words) if isinstance(option.kind.type, Choice) else ""


def only_attached(option: Option) -> bool:
    """Whether the value is never the next word."""
    return option.kind.bare is not None and not option.kind.takes_word


def shown(command: PerfCommand) -> list[Option]:
    """The options that help shows."""
    return [option for option in command.options if not option.hidden]


def short_help(option: Option) -> str:
    """An option's help without asides."""
    return option.help.split(";")[0].split(" (")[0]


# -- bash ---------------------------------------------------------------------

BASH = """\
# bash completion for perfpy; written by completions/generate.py

_perfpy()
{{
    local cur prev words cword
    if declare -F _get_comp_words_by_ref >/dev/null; then
        _get_comp_words_by_ref -n =: cur prev words cword
    else
        cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} words=("${{COMP_WORDS[@]}}") cword=$COMP_CWORD
    fi
    COMPREPLY=()
    if ((cword == 1)); then
        COMPREPLY=($(compgen -W "{commands} --help --version" -- "$cur"))
        return
    fi
    local options="" events="" files="" directories="" texts="" workload=""
    case ${{words[1]}} in
{cases}
    help)
        COMPREPLY=($(compgen -W "{commands}" -- "$cur"))
        return
        ;;
    esac
    if [[ -n $workload ]] && declare -F _command_offset >/dev/null; then
        local index
        for ((index = 2; index < cword; index++)); do
            [[ ${{words[index]}} == -- ]] && _command_offset $((index + 1)) && return
        done
    fi
    if [[ $prev == -?* ]]; then
        case " $events " in *" $prev "*)
            # a list: complete what follows the last comma
            local before=""
            [[ $cur == *,* ]] && before=${{cur%,*}},
            COMPREPLY=($(compgen -P "$before" -W "$({events})" -- "${{cur##*,}}"))
            declare -F __ltrim_colon_completions >/dev/null && __ltrim_colon_completions "$cur"
            return
            ;;
        esac
        case " $files " in *" $prev "*) COMPREPLY=($(compgen -f -- "$cur")); return ;; esac
        case " $directories " in *" $prev "*) COMPREPLY=($(compgen -d -- "$cur")); return ;; esac
        case " $texts " in *" $prev "*) return ;; esac
    fi
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$options --help" -- "$cur"))
    elif [[ -n $workload ]]; then
        COMPREPLY=($(compgen -c -- "$cur") $(compgen -f -- "$cur"))
    else
        COMPREPLY=($(compgen -f -- "$cur"))
    fi
}}

complete -o filenames -o bashdefault -F _perfpy perfpy
"""


def bash() -> str:
    """The completion for bash."""
    cases = "\n".join(_bash_case(name, load(name)) for name in COMMANDS if name != "help")
    return BASH.format(commands=" ".join(COMMANDS), cases=cases, events=EVENTS)


def _bash_case(name: str, command: PerfCommand) -> str:
    options = shown(command)

    def spelt(*kinds: str) -> str:
        """The options of which the next word may be such a value."""
        chosen = [option for option in options if value_kind(option) in kinds and not only_attached(option)]
        return " ".join(spelling for option in chosen for spelling in option.spellings)

    fields = {
        "options": " ".join(spelling for option in options for spelling in option.spellings),
        "events": spelt("event"),
        "files": spelt("file"),
        "directories": spelt("directory"),
        "texts": spelt("text", "words"),
        "workload": "yes" if command.runs_workload else "",
    }
    lines = "\n".join(f'        {key}="{value}"' for key, value in fields.items() if value)
    return f"    {name})\n{lines}\n        ;;"


# -- zsh ----------------------------------------------------------------------

ZSH = """\
#compdef perfpy
# zsh completion for perfpy; written by completions/generate.py

_perfpy_events() {{
    local -a events
    events=(${{=$({events})}})
    _sequence compadd - $events
}}

_perfpy() {{
    local curcontext=$curcontext state line
    local -a commands
    commands=(
{summaries}
    )
    _arguments -C '(-h --help)'{{-h,--help}}'[show help]' '(-v --version)'{{-v,--version}}'[show the version]' \\
        '1: :->command' '*:: :->rest'
    case $state in
    command) _describe command commands ;;
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
    cases = "\n".join(_zsh_case(name, load(name)) for name in COMMANDS)
    return ZSH.format(summaries=summaries, cases=cases, events=EVENTS)


def _zsh_case(name: str, command: PerfCommand) -> str:
    specifications = [specification for option in shown(command) for specification in _zsh_option(option)]
    if name == "help":
        specifications.append(f"'1:command:({' '.join(COMMANDS)})'")
    elif command.runs_workload:
        specifications += ["'(-)1:program:_command_names -e'", "'*::arguments:_normal'"]
    else:
        specifications.append("'*:file:_files'")
    body = " \\\n".join(f"                {text}" for text in specifications)
    return f"        {name})\n            _arguments -s -S \\\n{body}\n            ;;"


def _zsh_option(option: Option) -> Iterator[str]:
    kind = value_kind(option)
    attached = only_attached(option)
    colon = ":" if option.kind.bare is None else "::"
    action = {
        "": "",
        "event": f"{colon}event:_perfpy_events",
        "file": f"{colon}file:_files",
        "directory": f"{colon}directory:_files -/",
        "words": f"{colon}value:({values(option)})",
        "text": f"{colon}value: ",
    }[kind]
    short, long = ("", "") if not kind else ("-", "=-") if attached else ("+", "=")
    names = [f"-{letter}{short}" for letter in option.letters] + [f"--{word}{long}" for word in option.words]
    for name in names:
        yield f"'*{name}[{_quoted(short_help(option))}]{action}'"


def _quoted(text: str) -> str:
    """Text inside zsh's and fish's single quotes, where a [, ] or : has no meaning."""
    return text.replace("'", "").replace("[", "(").replace("]", ")").replace(":", " ")


# -- fish ---------------------------------------------------------------------

FISH = """\
# fish completion for perfpy; written by completions/generate.py

function __perfpy_events
    {events} | string split ' '
end

complete -c perfpy -n __fish_use_subcommand -f -s v -l version -d 'show the version'
complete -c perfpy -n __fish_use_subcommand -f -s h -l help -d 'show help'
{lines}
"""


def fish() -> str:
    """The completion for fish."""
    lines = []
    for name, entry in COMMANDS.items():
        command = load(name)
        lines.append(f"\ncomplete -c perfpy -n __fish_use_subcommand -f -a {name} -d '{_quoted(entry.help)}'")
        seen = f"-n '__fish_seen_subcommand_from {name}'"
        lines += [f"complete -c perfpy {seen} {_fish_option(option)}" for option in shown(command)]
        if name == "help":
            lines.append(f"complete -c perfpy {seen} -f -a '{' '.join(COMMANDS)}'")
        if command.runs_workload:
            lines.append(f"complete -c perfpy {seen} -x -a '(__fish_complete_subcommand --fcs-skip=2)'")
    return FISH.format(events=EVENTS, lines="\n".join(lines))


def _fish_option(option: Option) -> str:
    parts = [f"-s {letter}" for letter in option.letters] + [f"-l {word}" for word in option.words]
    if option.kind.bare is None:
        parts.append({
            "": "-f",
            "event": "-x -a '(__fish_complete_list , __perfpy_events)'",
            "file": "-r -F",
            "directory": "-x -a '(__fish_complete_directories)'",
            "words": f"-x -a '{values(option)}'",
            "text": "-x",
        }[value_kind(option)])  # fmt: skip
    return " ".join([*parts, f"-d '{_quoted(short_help(option))}'"])


# -- all ----------------------------------------------------------------------


def scripts() -> dict[Path, str]:
    """Every script: the file's path -> its text."""
    return {HERE / "perfpy.bash": bash(), HERE / "perfpy.zsh": zsh(), HERE / "perfpy.fish": fish()}


def main(arguments: list[str]) -> int:
    """Write the scripts, or check them."""
    made = scripts()
    if arguments == ["--check"]:
        stale = [path.name for path, text in made.items() if not path.exists() or path.read_text() != text]
        if stale:
            print("not up to date:", *stale, file=sys.stderr)
        return 1 if stale else 0
    for path, text in made.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
