"""`perfpy complete KIND [START]`: print candidates for the shell scripts in completions/. Hidden in the help.

KIND is events, metrics, pids, tids, pmus or recordings; START is the word's start. Each line is a candidate, with a tab and a
description if there is one. Errors are ignored silently, because the user is typing.

Other users choose names of processes, files and events, and shells insert the output into command lines. Events with shell
metacharacters are therefore dropped, and so are paths that a terminal would not show unchanged (shells quote the others).
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from perfpy.cli.line.option_parsing import CommandOptions, PerfCommand, word
from perfpy.errors import PerfError
from perfpy.untrusted.files import open_regular
from perfpy.untrusted.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterator


_HARMLESS = re.compile(r"[\w.,:/=@%+-]+", re.ASCII)
_MAGIC = (b"PERFILE2", b"2ELIFREP")
_MOST_FILES = 2000  # opened files of a folder, at most
_COMMAND_LINE = 60  # characters of a command line


class CompleteCommandOptions(CommandOptions):
    """Arguments of `perfpy complete`."""

    kind: str | None = word("[KIND]")
    start: str | None = word("[START]")


def run(options: CompleteCommandOptions) -> None:
    """Print the candidates for a word."""
    start = options.start or ""
    try:
        for name, about in _KINDS[options.kind or ""](start):
            if name.startswith(start):
                print(f"{name}\t{visible(about)}" if about else name)
    except (KeyError, OSError, PerfError):
        return


def _events(_start: str) -> Iterator[tuple[str, str]]:
    """Yield every event that -e accepts by name."""
    from perfpy.events.listing import Selector, default_cache_folder
    from perfpy.events.machine import this_machine

    for info in Selector(this_machine(), default_cache_folder()).everything().infos:
        for name in (info.name, info.alias):
            if _HARMLESS.fullmatch(name) and not info.kind.startswith("Raw"):
                yield name, info.description or info.kind


def _metrics(_start: str) -> Iterator[tuple[str, str]]:
    """Yield metrics and their groups."""
    from perfpy.events.listing import Selector, default_cache_folder
    from perfpy.events.machine import this_machine

    metrics = Selector(this_machine(), default_cache_folder()).select("metric").metrics
    descriptions = {group: "group of metrics" for metric in metrics for group in metric.groups} | {
        metric.name: metric.description for metric in metrics
    }
    yield from ((name, about) for name, about in sorted(descriptions.items()) if _HARMLESS.fullmatch(name))


def _pids(_start: str) -> Iterator[tuple[str, str]]:
    """Yield every process, with its command line."""
    from perfpy.kernel.procfs import ProcFs

    proc = ProcFs()
    for pid in proc.processes():
        if pid != os.getpid():
            yield str(pid), proc.command_line(pid)[:_COMMAND_LINE]


def _tids(_start: str) -> Iterator[tuple[str, str]]:
    """Yield every thread, with its name."""
    from perfpy.kernel.procfs import ProcFs

    proc = ProcFs()
    for pid in proc.processes():
        if pid != os.getpid():
            for tid in proc.threads(pid):
                status = proc.status(tid)
                yield str(tid), status.comm if status else ""


def _pmus(_start: str) -> Iterator[tuple[str, str]]:
    """Yield the PMUs of this machine."""
    from perfpy.events.machine import this_machine

    yield from ((pmu.name, "") for pmu in this_machine().pmus)


def _recordings(start: str) -> Iterator[tuple[str, str]]:
    """Yield the recordings and folders in the folder of the word; a ~ in the word stays."""
    prefix = start[: start.rfind("/") + 1]
    folder = os.path.expanduser(prefix) or "."
    with os.scandir(folder) as entries:
        chosen = sorted((entry for entry in entries if (prefix + entry.name).startswith(start)), key=lambda entry: entry.name)
    for entry in chosen[:_MOST_FILES]:
        if visible(entry.name) != entry.name or (entry.name.startswith(".") and start == prefix):
            continue
        if entry.is_dir():
            yield f"{prefix}{entry.name}/", ""
        elif _is_recording(entry.path):
            yield prefix + entry.name, ""


def _is_recording(path: str) -> bool:
    try:
        with open_regular(path) as file:
            return file.read(8) in _MAGIC
    except OSError:
        return False


_KINDS = {"events": _events, "metrics": _metrics, "pids": _pids, "tids": _tids, "pmus": _pmus, "recordings": _recordings}

command = PerfCommand(CompleteCommandOptions, run)
