"""Names from runtimes that were running before the recording (`record --jit -p PID`)."""

from __future__ import annotations

import errno
import os
import signal
import socket
import stat
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from perfpy.capture.runtimes.known_runtimes import PYTHON, runtime_of
from perfpy.symbols import dso
from perfpy.untrusted import process_files
from perfpy.untrusted.process_root import ProcessRoot

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from perfpy.capture.runtimes.known_runtimes import LanguageRuntime


JCMD: Final = "jcmd"
REMOTE_EXEC: Final = "remote_exec"  # see perfpy.capture.runtimes.cpython_attach, which reports what is missing itself
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
    if any(process_files.is_younger(path, pid) for path in dso.perf_map_paths(pid)):
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


# Ask a running JVM by HotSpot's attach protocol: for its perf map, like `jcmd PID Compiler.perfmap`, or for the stacks of its threads,
# like `jstack -l PID`. The JVM has written /tmp/perf-PID.map when it answers. The protocol (OpenJDK, attachListener_posix.cpp): a file
# /tmp/.attach_pidN and SIGQUIT make the JVM open the socket /tmp/.java_pidN; it reads a version, a command and three arguments, each ended
# by NUL, and answers with a number (0: success) and text. N and /tmp are those of the JVM's namespaces.

_PERF_MAP: Final = b"1\0jcmd\0Compiler.perfmap\0\0\0"
_THREADS: Final = b"1\0threaddump\0-l\0\0\0"
_LIBRARY: Final = b"/libjvm.so"
_PATIENCE: Final = 5.0  # seconds for a JVM to open its socket, and to answer
_LONGEST_TIME: Final = 20.0  # seconds for an answer in pieces
_PAUSE: Final = 0.02
_LONGEST_ANSWER: Final = 1 << 16
_LONGEST_DUMP: Final = 64 << 20  # bytes: of some 10,000 threads
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def is_java(pid: int) -> bool:
    """Whether a running process contains a JVM."""
    try:
        return any(line.endswith(_LIBRARY) for line in process_files.map_lines(pid))
    except OSError:
        return False


def write_perf_map(pid: int) -> None:
    """Make a JVM write its perf map. Raises OSError if it belongs to another user, is too old, or does not answer."""
    code, text = _ask_jvm(pid, _PERF_MAP, _LONGEST_ANSWER)
    if code:
        raise OSError(errno.EPROTO, text.strip().partition("\n")[0] or "it has no perf map (older than 17)")


def thread_dump(pid: int) -> str:
    """Return the text in which a JVM describes its threads. It stops them meanwhile, for some milliseconds. Raises OSError."""
    code, text = _ask_jvm(pid, _THREADS, _LONGEST_DUMP)
    if code:
        raise OSError(errno.EPROTO, text.strip().partition("\n")[0] or "it refuses")
    return text


def _ask_jvm(pid: int, request: bytes, most: int) -> tuple[bool, str]:
    """Return whether a JVM failed to do what it was asked for, and at most a number of bytes of its answer. Raises OSError.

    All accesses to its /tmp have the rights of its user, and are relative to one descriptor of that folder.
    """
    inner = dso.innermost_pid(pid) or pid
    name = f".java_pid{inner}"
    with ProcessRoot(pid) as root, _open_folder(root) as folder:
        if not _has(folder, name):
            _wake(pid, root, folder, inner)
        with root.run(lambda _: _connect(folder, name, process_files.trusted_owners(pid))) as connection:
            connection.sendall(request)
            answer, end = bytearray(), time.monotonic() + _LONGEST_TIME
            while len(answer) < most and time.monotonic() < end and (piece := connection.recv(1 << 16)):
                answer += piece
    code, _, text = answer.partition(b"\n")
    return code.strip() != b"0", text.decode("utf-8", "replace")


@contextmanager
def _open_folder(root: ProcessRoot) -> Iterator[int]:
    fd = root.open("/tmp", os.O_PATH | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def _has(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def _connect(folder: int, name: str, owners: Collection[int]) -> socket.socket:
    """Connect to a socket by its descriptor: any user can create files in /tmp, and replace links."""
    node = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        state = os.fstat(node)
        if not stat.S_ISSOCK(state.st_mode) or state.st_uid not in owners:
            raise PermissionError(errno.EACCES, "its socket is another user's")
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(_PATIENCE)
            connection.connect(f"/proc/self/fd/{node}")
        except BaseException:
            connection.close()
            raise
        return connection
    finally:
        os.close(node)


def _wake(pid: int, root: ProcessRoot, folder: int, inner: int) -> None:
    """Make a JVM open its socket; a process that would die of the signal is left alone."""
    if not dso.catches(pid, signal.SIGQUIT):
        raise OSError(errno.EAGAIN, "it does not listen yet")
    request = f".attach_pid{inner}"
    os.close(root.run(lambda _: os.open(request, _FLAGS, 0o600, dir_fd=folder)))
    try:
        root.run(lambda _: os.kill(pid, signal.SIGQUIT))
        end = time.monotonic() + _PATIENCE
        while not _has(folder, f".java_pid{inner}"):
            if time.monotonic() > end:
                raise TimeoutError(errno.ETIMEDOUT, "it does not answer")
            time.sleep(_PAUSE)
    finally:
        root.run(lambda _: os.unlink(request, dir_fd=folder))
