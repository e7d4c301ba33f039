"""Names from runtimes that were running before the recording (`record --jit -p PID`)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from perfpy.capture.runtimes.java_attach import is_java, write_perf_map
from perfpy.capture.runtimes.programs import runtime_of
from perfpy.capture.runtimes.table import PYTHON
from perfpy.symbols.files import live_process
from perfpy.untrusted import process_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perfpy.capture.runtimes.table import LanguageRuntime

JCMD: Final = "jcmd"
REMOTE_EXEC: Final = "remote_exec"  # see perfpy.capture.runtimes.cpython.attach, which reports what is missing itself
_LIBPYTHON: Final = b"/libpython3."  # of a program that embeds Python
_FRAME_POINTERS: Final = b"+PreserveFramePointer"
_MOST_WORDS: Final = 8 << 20  # bytes of arguments and variables; execve(2) takes less, but prctl(2) can point to any memory


def runtime_of_process(pid: int) -> LanguageRuntime | None:
    """Return the runtime of a process; None if unknown."""
    if is_java(pid):
        return runtime_of("java")
    try:
        runtime = runtime_of(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return None
    return PYTHON if runtime is None and _embeds_python(pid) else runtime


def _embeds_python(pid: int) -> bool:
    try:
        return any(_LIBPYTHON in line for line in process_files.map_lines(pid))
    except OSError:
        return False


def lacks(pid: int, *, unwinds: bool = False) -> str:
    """Return one line about the names that a running process does not provide; "" if it provides all, or is no runtime.

    unwinds: its stacks are unwound while they are recorded, with data from its memory (perfpy.capture.runtimes.hotspot).
    """
    runtime = runtime_of_process(pid)
    if runtime is None or runtime.attach == REMOTE_EXEC:
        return ""
    if runtime.attach == JCMD:
        has_callers = unwinds or _FRAME_POINTERS in _of_process(pid, "cmdline") or _FRAME_POINTERS in _of_process(pid, "environ")
        return "" if has_callers else f"process {pid} is {runtime.name}; callchains require -XX:+PreserveFramePointer from its start"
    if any(process_files.is_younger(path, pid) for path in live_process.perf_map_paths(pid)):
        return ""
    return f"process {pid} is {runtime.name}, which cannot publish names while it runs; {runtime.attach}"


def ask(pids: Iterable[int]) -> Iterator[str]:
    """Request the perf maps of processes that can write them; yield a line for each failure."""
    for pid in pids:
        if is_java(pid):
            try:
                write_perf_map(pid)
            except OSError as error:
                yield f"cannot get the perf map of Java process {pid}: {error.strerror or error}"


def _of_process(pid: int, name: str) -> bytes:
    """Return the beginning of a file of a process, b"" if it has ended."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read(_MOST_WORDS)
    except OSError:
        return b""
