"""Names from runtimes that were running before the recording (`record --jit -p PID`), and stacks that they describe themselves."""

from __future__ import annotations

import base64
import errno
import os
import re
import signal
import socket
import stat
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.capture.runtimes.known_runtimes import PYTHON, runtime_of
from perfpy.capture.wait_targets import sockets_of
from perfpy.kernel.procfs import ProcFs
from perfpy.symbols import dso
from perfpy.untrusted import process_files
from perfpy.untrusted.process_root import ProcessRoot

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from typing import Any

    from perfpy.capture.runtimes.known_runtimes import LanguageRuntime


JCMD: Final = "jcmd"
REMOTE_EXEC: Final = "remote_exec"  # see perfpy.capture.runtimes.cpython_attach, which reports what is missing itself
NODE: Final = "Node.js"
_LIBPYTHON: Final = b"/libpython3."  # of a program that embeds Python
_PUBLISHES: Final = b"--perf-"  # basic-prof, prof
_NODE_OPTIONS: Final = b"NODE_OPTIONS="
_HEAP_OPTION: Final = re.compile(rb"--(max[-_](?:old[-_]space|semi[-_]space|heap)[-_]size)=\d{1,9}")
_DUMPS: Final = b"--perf-prof"
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


def needs_names(pid: int) -> bool:
    """Whether a process is a Node that does not publish the names of its functions itself."""
    runtime = runtime_of_process(pid)
    if runtime is None or runtime.name != NODE:
        return False
    publishes = any(_PUBLISHES in _of_process(pid, name) for name in ("cmdline", "environ"))
    return not publishes and not any(process_files.is_younger(path, pid) for path in dso.perf_map_paths(pid))


def has_inlined_functions(pid: int) -> bool:
    """Whether a process is a Node that does not describe inlined functions in a jitdump."""
    runtime = runtime_of_process(pid)
    return runtime is not None and runtime.name == NODE and not any(_DUMPS in _of_process(pid, name) for name in ("cmdline", "environ"))


def heap_options(pid: int) -> list[str]:
    """Return the options of a Node that limit its heap, none for other processes; the last of each name counts."""
    runtime = runtime_of_process(pid)
    if runtime is None or runtime.name != NODE:
        return []
    words = [*_of_process(pid, "environ").split(b"\0"), *_of_process(pid, "cmdline").split(b"\0")]
    texts = [text for word in words for text in (word.removeprefix(_NODE_OPTIONS).split() if word.startswith(_NODE_OPTIONS) else [word])]
    found = [match for text in texts if (match := _HEAP_OPTION.fullmatch(text))]
    return [*{one[1].replace(b"_", b"-"): one[0].decode() for one in found}.values()]


def lacks(pid: int, *, unwinds: bool = False, reads_memory: bool = False) -> str:
    """Return one line about the names that a running process does not provide; "" if it provides all, or is no runtime.

    unwinds: its callchains do not need frame pointers, or there are none.
    reads_memory: its stacks are unwound while they are recorded, with data from its memory (perfpy.capture.runtimes.hotspot).
    """
    runtime = runtime_of_process(pid)
    if runtime is None or runtime.attach == REMOTE_EXEC:
        return ""
    if runtime.attach == JCMD:
        has_callers = unwinds or _FRAME_POINTERS in _of_process(pid, "cmdline") or _FRAME_POINTERS in _of_process(pid, "environ")
        return "" if has_callers else f"process {pid} is {runtime.name}; callchains require -XX:+PreserveFramePointer from its start"
    if any(process_files.is_younger(path, pid) for path in dso.perf_map_paths(pid)):
        return ""
    if reads_memory and runtime.name == NODE:
        from perfpy.capture.runtimes.v8_functions import has_readable_names  # --help needs no numpy

        if has_readable_names(pid):
            return ""
    now = f", or see what it runs now: perfpy stacks --inspect {pid}" if runtime.name == NODE else ""
    return f"process {pid} is {runtime.name}, which cannot publish names while it runs; {runtime.attach}{now}"


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


# Ask a running Node by V8's inspector, if the user allows it: SIGUSR1 makes Node listen at 127.0.0.1. The protocol (Chrome DevTools, its
# domains Debugger and Runtime) is JSON in the frames of a WebSocket (RFC 6455). Node is paused for some milliseconds, and the inspector is
# closed at the end if it was not open before.

_INSPECTOR: Final = 9229  # its usual port
_OPENS: Final = 3.0  # seconds for Node to listen
_PAUSES: Final = 1.0  # seconds for JavaScript code to run
_LONGEST_MESSAGE: Final = 64 << 20  # bytes: Debugger.enable describes each script
_PATH: Final = re.compile(r"/[\w-]{8,64}")
_CLOSE: Final = "(process.getBuiltinModule ? process.getBuiltinModule('inspector') : require('inspector')).close()"


class JavaScriptFrame(NamedTuple):
    """A function of JavaScript, its file ("" if unknown) and line."""

    function: str
    file: str
    line: int


def script_stack(pid: int) -> list[JavaScriptFrame]:
    """Return the functions that a Node process runs, innermost first; none if it runs no JavaScript. Raises OSError."""
    runtime, status = runtime_of_process(pid), ProcFs().status(pid)
    if runtime is None or runtime.name != NODE:
        raise OSError(errno.EINVAL, "it is not Node.js")
    if status is None or status.uid != os.geteuid():
        raise PermissionError(errno.EACCES, "it belongs to another user")
    before = _listening_ports(pid)
    port = _open_inspector(pid, before)
    inspector = _Inspector(port)
    try:
        return inspector.stack()
    finally:
        inspector.end(closes=port not in before)


def _listening_ports(pid: int) -> set[int]:
    """Return the ports of 127.0.0.1 at which a process listens."""
    ports, sockets, link = set(), sockets_of(pid), ""
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        with suppress(OSError):  # closed meanwhile
            link = os.readlink(f"/proc/{pid}/fd/{descriptor}")
        text = sockets.get(link.removeprefix("socket:[").removesuffix("]"), "")
        if text.startswith("127.0.0.1:") and text.endswith(" (listening)"):
            ports.add(int(text.split(":")[1].split()[0]))
    return ports


def _open_inspector(pid: int, before: Collection[int]) -> int:
    """Make Node listen, and return the port."""
    if _INSPECTOR in before:
        return _INSPECTOR
    if not dso.catches(pid, signal.SIGUSR1):
        raise OSError(errno.EAGAIN, "it does not handle SIGUSR1 (--disable-sigusr1)")
    os.kill(pid, signal.SIGUSR1)
    end = time.monotonic() + _OPENS
    while not (new := _listening_ports(pid) - {*before}):
        if time.monotonic() > end:
            raise TimeoutError(errno.ETIMEDOUT, f"its inspector does not open; another process may use port {_INSPECTOR}")
        time.sleep(_PAUSE)
    return min(new)


class _Inspector:
    """A connection to the inspector at a port of this machine."""

    def __init__(self, port: int) -> None:
        import json  # rarely needed

        self._json = json
        self._end = time.monotonic() + _PATIENCE
        self._number = 0
        self._files: dict[str, str] = {}  # of scripts, by their ids
        self._socket = socket.create_connection(("127.0.0.1", port), _PATIENCE)
        self._data = bytearray()
        self._socket.sendall(b"GET /json/list HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        length = re.search(rb"(?i)content-length: ?(\d{1,6})", self._head())
        targets = json.loads(self._take(int(length[1]) if length else 0))
        path = str(targets[0]["webSocketDebuggerUrl"]).rpartition("/")
        if not _PATH.fullmatch(f"/{path[2]}"):
            raise OSError(errno.EPROTO, "its inspector has an unknown address")
        self._socket.close()
        self._socket, self._data = socket.create_connection(("127.0.0.1", port), _PATIENCE), bytearray()
        key = base64.b64encode(os.urandom(16)).decode()
        upgrade = f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13"
        self._socket.sendall(f"GET /{path[2]} HTTP/1.1\r\nHost: 127.0.0.1\r\n{upgrade}\r\n\r\n".encode())
        if b" 101 " not in self._head().split(b"\r\n")[0]:
            raise OSError(errno.EPROTO, "its inspector refuses the connection")

    def stack(self) -> list[JavaScriptFrame]:
        """Pause Node for a moment, and return the functions that it runs."""
        self._ask("Debugger.enable")
        self._ask("Debugger.pause")
        end = time.monotonic() + _PAUSES
        frames: list[dict[str, Any]] = []
        with suppress(TimeoutError):  # it waits for events, or runs native code
            while not frames:
                self._socket.settimeout(max(end - time.monotonic(), 0.001))
                message = self._message()
                if message.get("method") == "Debugger.paused":
                    frames = message["params"]["callFrames"]
        self._socket.settimeout(_PATIENCE)
        self._ask("Debugger.disable")  # which also resumes it, or cancels the pause
        return [self._frame(frame) for frame in frames]

    def _frame(self, frame: Mapping[str, Any]) -> JavaScriptFrame:
        location = frame["location"]
        file = self._files.get(str(location["scriptId"]), "") or str(frame.get("url", ""))
        return JavaScriptFrame(str(frame["functionName"]) or "(anonymous)", file.removeprefix("file://"), int(location["lineNumber"]) + 1)

    def end(self, *, closes: bool) -> None:
        """End the connection; closes: the inspector, too."""
        self._end = time.monotonic() + _PATIENCE
        with suppress(OSError):
            if closes:  # Node ends the connection before it answers
                self._ask("Runtime.evaluate", {"expression": _CLOSE, "includeCommandLineAPI": True})
        self._socket.close()

    def _ask(self, method: str, parameters: Mapping[str, object] | None = None) -> None:
        """Send a request and wait for its answer; messages before it are dropped."""
        self._number += 1
        data = self._json.dumps({"id": self._number, "method": method, "params": parameters or {}}).encode()
        mask = os.urandom(4)  # clients must mask
        head = bytes([0x81, 0x80 | len(data)]) if len(data) < 126 else bytes([0x81, 0x80 | 126]) + len(data).to_bytes(2, "big")
        self._socket.sendall(head + mask + bytes(byte ^ mask[number & 3] for number, byte in enumerate(data)))
        while self._message().get("id") != self._number:
            pass

    def _message(self) -> dict[str, Any]:
        """Return the next message."""
        data = b""
        while True:
            begin = self._peek(2)
            extra = {126: 2, 127: 8}.get(begin[1] & 0x7F, 0)
            head = self._peek(2 + extra)
            size = int.from_bytes(head[2:], "big") if extra else begin[1] & 0x7F
            if size + len(data) > _LONGEST_MESSAGE:
                raise OSError(errno.EMSGSIZE, "its inspector sends too long a message")
            self._peek(2 + extra + size)
            part = self._take(2 + extra + size)[2 + extra :]
            kind = begin[0] & 15
            if kind == 8:
                raise ConnectionResetError(errno.ECONNRESET, "its inspector ends the connection")
            data += part if kind < 3 else b""
            if begin[0] & 0x80 and kind < 3:
                message: dict[str, Any] = self._json.loads(data)
                if not isinstance(message, dict):
                    raise OSError(errno.EPROTO, "its inspector answers nonsense")
                if message.get("method") == "Debugger.scriptParsed":
                    self._files[str(message["params"]["scriptId"])] = str(message["params"]["url"])
                return message

    def _head(self) -> bytes:
        """Return the head of an HTTP answer."""
        while b"\r\n\r\n" not in self._data:
            if len(self._data) > _LONGEST_ANSWER:
                raise OSError(errno.EPROTO, "its inspector answers nonsense")
            self._peek(len(self._data) + 1)
        return self._take(self._data.index(b"\r\n\r\n") + 4)

    def _peek(self, size: int) -> bytes:
        """Return the next bytes, which stay. A time limit loses none."""
        if time.monotonic() > self._end:  # it sends, but no answer
            raise TimeoutError(errno.ETIMEDOUT, "its inspector does not answer")
        while len(self._data) < size:
            piece = self._socket.recv(1 << 16)
            if not piece:
                raise ConnectionResetError(errno.ECONNRESET, "its inspector ended the connection")
            self._data += piece
        return bytes(self._data[:size])

    def _take(self, size: int) -> bytes:
        """Return the next bytes, which go."""
        data = self._peek(size)
        del self._data[:size]
        return data
