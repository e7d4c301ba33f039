"""Options before the command, for example `perfpy --buildid-dir ids record ...`, and requests that need no command.

The options set environment variables, for example the build-id cache's folder. perf's debug options are accepted and ignored.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from perfpy.cli.dispatch.commands import COMMANDS, load
from perfpy.cli.line.options import fail

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


def _no_pager(_value: str) -> None:
    from perfpy.cli.line.pager import never

    never()


def _build_id_dir(value: str) -> None:
    os.environ["PERF_BUILDID_DIR"] = value


def _debugfs_dir(value: str) -> None:
    os.environ["PERF_DEBUGFS_DIR"] = value


def _exec_path(value: str) -> None:
    os.environ["PERF_EXEC_PATH"] = value


def _debug(value: str) -> None:
    if value.partition("=")[0] not in _DEBUG_WORDS:
        fail(f"--debug: unknown option {value!r}; expected one of {', '.join(sorted(_DEBUG_WORDS))}")


def _nothing(_value: str) -> None:
    pass


_FLAGS: Final[dict[str, Callable[[str], None]]] = {"-p": _nothing, "--paginate": _nothing, "--no-pager": _no_pager}
_VALUED: Final[dict[str, Callable[[str], None]]] = {
    "--buildid-dir": _build_id_dir,
    "--debugfs-dir": _debugfs_dir,
    "--debug": _debug,
    "--debug-file": _nothing,
}


def read(args: Sequence[str]) -> tuple[list[str], int | None]:
    """Return the arguments from the command on, and the exit status if the line needs no command. Raises UsageError."""
    remaining = list(args)
    while remaining and remaining[0].startswith("-"):
        word, equals, value = remaining[0].partition("=")
        if not equals and word in _ANSWERS:
            print(_ANSWERS[word]())
            return [], 0
        if word == "--exec-path" and equals:
            _exec_path(value)
        elif word in _FLAGS and not equals:
            _FLAGS[word]("")
        elif word in _VALUED:
            if not equals:
                del remaining[0]
                if not remaining:
                    fail(f"option {word} requires a value")
                value = remaining[0]
            _VALUED[word](value)
        else:
            break
        del remaining[0]
    return remaining, None


def list_options(name: str) -> int:
    """Print a command's options for shell completion, as perf does; return the exit status."""
    print("".join(f"--{option.words[0]} " for option in load(name).options if option.words and not option.hidden))
    return _LISTED


def _path_of_perf_core() -> str:
    """Return the folder of perf's scripts, where other programs look for them."""
    return os.environ.get("PERF_EXEC_PATH") or "/usr/lib/perf-core"


def _commands() -> str:
    return " ".join(COMMANDS) + " "


def _html_path() -> str:
    return "/usr/share/doc/perf-doc"


def _options() -> str:
    return _SPELLINGS + " "


_ANSWERS: Final[dict[str, Callable[[], str]]] = {
    "--exec-path": _path_of_perf_core,
    "--html-path": _html_path,
    "--list-cmds": _commands,
    "--list-opts": _options,
}
