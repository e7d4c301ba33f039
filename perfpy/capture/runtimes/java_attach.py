"""Asking a running Java for its perf map: HotSpot's attach protocol, as `jcmd PID Compiler.perfmap` speaks it.

What enters: a pid. What leaves: nothing; the JVM has written /tmp/perf-PID.map
when it has answered. The protocol (OpenJDK, attachListener_posix.cpp): a file
/tmp/.attach_pidN and SIGQUIT make the JVM open the socket /tmp/.java_pidN; it
takes a version, a command and three arguments, each ended by NUL, and answers
with a number (0: done) and text. N and /tmp are those that the JVM sees.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import stat
import time
from typing import Final

from perfpy.symbols.files import live_process
from perfpy.untrusted import paths

_REQUEST: Final = b"1\0jcmd\0Compiler.perfmap\0\0\0"
_LIBRARY: Final = "/libjvm.so"
_PATIENCE: Final = 5.0  # seconds for a JVM to open its socket, and to answer
_PAUSE: Final = 0.02
_LONGEST_ANSWER: Final = 1 << 16
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def is_java(pid: int) -> bool:
    """Whether a running process has a JVM in it."""
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
            return any(line.rstrip("\n").endswith(_LIBRARY) for line in maps)
    except OSError:
        return False


def write_perf_map(pid: int) -> None:
    """Have a JVM write its perf map. Raises OSError where it does not: of another owner, too old, without the protocol."""
    inner = live_process.innermost_pid(pid) or pid
    path = paths.in_process(pid, f"/tmp/.java_pid{inner}")
    if not os.path.exists(path):
        _wake(pid, inner, path)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_PATIENCE)
        _require_its_own(path, pid)
        connection.connect(path)
        connection.sendall(_REQUEST)
        answer = b""
        while len(answer) < _LONGEST_ANSWER and (piece := connection.recv(4096)):
            answer += piece
    code, _, text = answer.partition(b"\n")
    if code.strip() != b"0":
        raise OSError(errno.EPROTO, text.decode("utf-8", "replace").strip().partition("\n")[0] or "it has no perf map (older than 17)")


def _wake(pid: int, inner: int, socket_path: str) -> None:
    """Make a JVM open its socket; a process that would die of the signal is left alone."""
    if not live_process.catches(pid, signal.SIGQUIT):
        raise OSError(errno.EAGAIN, "it does not listen (yet)")
    path = paths.in_process(pid, f"/tmp/.attach_pid{inner}")
    fd = os.open(path, _FLAGS, 0o600)
    try:
        owner = os.stat(f"/proc/{pid}")
        if owner.st_uid != os.geteuid():
            os.fchown(fd, owner.st_uid, owner.st_gid)
        os.kill(pid, signal.SIGQUIT)
        end = time.monotonic() + _PATIENCE
        while not os.path.exists(socket_path):
            if time.monotonic() > end:
                raise TimeoutError(errno.ETIMEDOUT, "it does not answer")
            time.sleep(_PAUSE)
    finally:
        os.close(fd)
        os.unlink(path)


def _require_its_own(path: str, pid: int) -> None:
    """Everybody can make a socket in /tmp."""
    state = os.lstat(path)
    if not stat.S_ISSOCK(state.st_mode) or state.st_uid not in live_process.believed(pid):
        raise PermissionError(errno.EACCES, "its socket is another user's")
