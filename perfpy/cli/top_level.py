"""Options before the command, the help of perfpy itself, topics, and lines without a known command."""

from __future__ import annotations

import os
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perfpy.cli.commands import COMMANDS, load_command
from perfpy.cli.line.examples import program, version_line
from perfpy.cli.line.help_text import help_text
from perfpy.cli.line.option_parsing import CommandOptions, Flag, fail, option
from perfpy.cli.line.pager import never, page
from perfpy.errors import PerfError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_SPELLINGS: Final = (
    "--help --version --exec-path --html-path --paginate --no-pager --debugfs-dir --buildid-dir"
    " --list-cmds --list-opts --debug --debug-file"
)
_LISTED: Final = 130
_DEBUG_WORDS: Final = frozenset(
    "verbose ordered-events stderr data-convert perf-event-open kmaps type-profile".split()  # --debug NAME[=N]
)
_VARIABLES: Final = {"--buildid-dir": "PERF_BUILDID_DIR", "--debugfs-dir": "PERF_DEBUGFS_DIR", "--exec-path": "PERF_EXEC_PATH"}
_ANSWERS: Final[dict[str, Callable[[], str]]] = {
    "--exec-path": lambda: os.environ.get("PERF_EXEC_PATH") or "/usr/lib/perf-core",  # where other programs look for perf's scripts
    "--html-path": lambda: "/usr/share/doc/perf-doc",
    "--list-cmds": lambda: " ".join(COMMANDS) + " ",
    "--list-opts": lambda: _SPELLINGS + " ",
}


def read(args: Sequence[str]) -> tuple[list[str], int | None]:
    """Return the arguments from the command on, and the exit status if the line needs no command. Raises UsageError.

    The options set environment variables, for example the build-id cache's folder. perf's debug options are accepted and ignored.
    """
    remaining = list(args)
    while remaining and remaining[0].startswith("-"):
        word, equals, value = remaining[0].partition("=")
        if not equals and word in _ANSWERS:
            print(_ANSWERS[word]())
            return [], 0
        takes_value = word in _VARIABLES or word in ("--debug", "--debug-file")
        if not takes_value and (equals or word not in ("-p", "--paginate", "--no-pager")):
            break
        if takes_value and not equals:
            del remaining[0]
            if not remaining:
                fail(f"option {word} requires a value")
            value = remaining[0]
        if word in _VARIABLES:
            os.environ[_VARIABLES[word]] = value
        elif word == "--no-pager":
            never()
        elif word == "--debug" and value.partition("=")[0] not in _DEBUG_WORDS:
            fail(f"--debug: unknown option {value!r}; expected one of {', '.join(sorted(_DEBUG_WORDS))}")
        del remaining[0]
    return remaining, None


def list_options(name: str) -> int:
    """Print a command's options for shell completion, as perf does; return the exit status."""
    print("".join(f"--{option.words[0]} " for option in load_command(name).options if option.words and not option.hidden))
    return _LISTED


#: name -> what the page is about; the text is in man/topics/NAME.md
TOPICS: Final = {
    "guide": "how to count, sample, report and compare, by example",
    "screens": "what colours, words and numbers of reports and pages mean",
    "compatibility": "what perfpy has of perf, and what differs",
    "performance": "CPU time and memory beside perf's",
    "python": "the Python API",
    "many": "many recordings as one report",
    "continuous": "continuous profiling across hosts",
    "cluster": "reports made by a Dask cluster",
}

_WIDEST: Final = 120  # columns; longer lines are hard to read
_PACKAGE: Final = Path(__file__).resolve().parents[1]
#: the folder of an installed package, then that of a checkout
_FOLDERS: Final = (_PACKAGE / "topics", _PACKAGE.parent / "man" / "topics")


def topic_text(name: str) -> str:
    """Return the Markdown text of a topic. Raises PerfError if the installation lacks the file."""
    for folder in _FOLDERS:
        path = folder / f"{name}.md"
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise PerfError(f"the text of {name!r} is missing from this installation; install perfpy again, or read man/topics/{name}.md online")


def print_topic(name: str) -> None:
    """Print a topic: laid out on a terminal, as Markdown in a pipe."""
    from perfpy.cli.output.terminal import console, is_terminal, width

    text = topic_text(name)
    if not is_terminal():
        print(text, end="")
        return
    import re  # rarely needed

    from rich.markdown import Markdown

    text = re.sub(r"!\[([^\]]*)\]\([^)]*\)", r"(picture in the manual: \1)", text)
    console().print(Markdown(text, hyperlinks=False), width=min(width(), _WIDEST), soft_wrap=False)


def unknown_command(name: str) -> str:
    """Return the message for a word that is no command."""
    if name.startswith("-"):
        return f"unknown option {name}; perfpy --help lists the options"
    if name in ALTERNATIVES:
        return refusal(name)
    import difflib  # only needed for mistyped commands

    close = difflib.get_close_matches(name, COMMANDS, n=2, cutoff=0.6)
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else "perfpy --help lists the commands"
    return f"'{name}' is not a {program()} command; {hint}"


class PerfpyOptions(CommandOptions):
    """The options of a line without a command."""

    version: bool = option("-v,--version", Flag(), "show the version")
    no_pager: bool = option("--no-pager", Flag(), "show text that is longer than the screen without a pager")
    show_help: bool = option("-h,--help", Flag(), "show the commands")


USAGE: Final = "[OPTIONS] [COMMAND] [ARGS]..."
_HELP: Final = """Count, record and report what programs do on Linux: perf, in Python.

'perfpy ./program ARGS' records a program and reports it. 'perfpy PID' does the same for a running process.
"""


def run(args: list[str]) -> int:
    """Run a line without a known command; return the exit status."""
    if args and args[0] == "-vv":
        return load_command("version").run("version", ["--build-options"])
    page("")
    options = list(takewhile(lambda word: word.startswith("-") and word != "--", args))
    asked = next((word for word in options if word in ("-v", "--version", "-h", "--help")), "")
    if asked in ("-v", "--version"):
        print(version_line())
    elif args and not asked:
        raise UsageError(unknown_command(next((word for word in args if word != "--"), "--")))
    else:
        commands = [(name, entry.help) for name, entry in COMMANDS.items()]
        topics = f"'perfpy COMMAND --help' shows the options of a command. 'perfpy help TOPIC' shows a topic: {', '.join(TOPICS)}."
        print(help_text("", _HELP, PerfpyOptions.declared_options(), USAGE, commands, topics))
    return 0 if args else 1  # perf's status for a line without a command


#: command -> the lines to type instead; () if nothing takes its place
ALTERNATIVES: Final[dict[str, tuple[str, ...]]] = {
    "bench": (),
    "daemon": ("perfpy record -a --switch-output=1m --switch-max-files=60",),
    "iostat": ("perfpy record -a -e 'block:*' -- sleep 1", "perfpy script"),
    "kallsyms": (),
    "test": (),
}


def refusal(name: str) -> str:
    """Return the message for a command that only perf has."""
    lines = ALTERNATIVES[name]
    remedy = f"use {' && '.join(lines)}" if lines else "perfpy help compatibility says why"
    return f"perfpy does not have perf's command '{name}'; {remedy}"
