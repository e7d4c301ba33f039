"""What a run may take, and what it may do: set in the child before the case runs.

Input: Limits, the run's folder. Output: a child that is ended at its
limits with a traceback on stderr, and a list of what it did that it must not:
files written elsewhere, programs started, servers asked, text made code.
"""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Limits:
    """cpu_seconds: of processor time; wall_seconds; memory: resident bytes; output: bytes of one file."""

    cpu_seconds: int = 10
    wall_seconds: float = 40
    memory: int = 1024 * MEGABYTE
    output: int = 512 * MEGABYTE


#: name of the audit event -> which of its arguments are paths that are changed
_CHANGES = {
    "os.mkdir": (0,), "os.rename": (0, 1), "os.link": (1,), "os.symlink": (1,), "os.remove": (0,), "os.rmdir": (0,), "os.chmod": (0,),
    "os.chown": (0,), "os.truncate": (0,), "os.utime": (0,), "shutil.rmtree": (0,),
}  # fmt: skip
_PROGRAMS = ("subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn")
_SERVERS = ("socket.connect", "socket.bind", "socket.getaddrinfo", "urllib.Request")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def limit(limits: Limits) -> None:
    """End this process where it takes too much; stderr then has the traceback."""
    memory = _address_space() + 2 * limits.memory
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu_seconds, limits.cpu_seconds + 2))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits.output, limits.output))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable()
    faulthandler.register(signal.SIGXCPU, chain=True)


def _address_space() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[0]) * resource.getpagesize()


def watch(folder: str, tell: Callable[[str], None]) -> None:
    """Tell of everything that a run must not do outside of its folder. Cannot be undone: the process is the run's own."""
    real = os.path.realpath(folder) + "/"

    def outside(path: Any) -> bool:
        if not isinstance(path, (str, bytes)):
            return False
        name = _followed(os.fsdecode(path))
        whole = os.path.join(os.path.realpath(os.path.dirname(name) or "."), os.path.basename(name))
        return not (whole + "/").startswith(real) and whole not in ("/dev/null", "/dev/tty")

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = args
            if (flags & _WRITES or (mode and set(mode) & set("wax+"))) and outside(path):
                tell(f"writes outside: {path!r}")
        elif event in _CHANGES:
            for at in _CHANGES[event]:
                if outside(args[at]):
                    tell(f"changes outside: {event} {args[at]!r}")
        elif event in _PROGRAMS:
            tell(f"starts a program: {event}")
        elif event in _SERVERS:
            tell(f"asks a server: {event}")
        elif event == "compile" and args[0] is not None and not os.path.exists(os.fsdecode(args[1] or "")):
            tell(f"makes code of a text: in {_caller()}")

    sys.addaudithook(hook)


def _followed(name: str) -> str:
    """Where a descriptor's name in /proc leads; any other name as it is."""
    return os.readlink(name) if name.startswith("/proc/self/fd/") else name


def _caller() -> str:
    frame = sys._getframe(2)
    return f"{frame.f_code.co_filename.rpartition('/perfpy/')[2]}:{frame.f_code.co_name}"
