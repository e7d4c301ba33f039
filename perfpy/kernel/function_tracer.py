"""The kernel's function tracers in tracefs: set up for one measurement, and restored afterwards, also after SIGKILL.

The tracer `function` works in an instance of its own (instances/perfpy_PID), which others do not see; all instances share the options
of the tracer itself (func_stack_trace), and kernels before 6.7 leave the global buffer at its smallest size after the first use of an
instance. `function_graph` has only the global state on kernels before 6.13: it is used only while no other tracer is active. Each file
that is changed and shared is saved first, and a second process puts everything back if this one dies.
Files: Documentation/trace/ftrace.rst.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from perfpy.errors import KernelRefusedError, PerfError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

GRAPH: Final = "function_graph"
FUNCTION: Final = "function"
_NO_TRACER: Final = "nop"
#: lists: writing replaces them, and each line is an entry
_LISTS: Final = frozenset(("set_ftrace_filter", "set_ftrace_notrace", "set_graph_function", "set_graph_notrace", "set_ftrace_pid"))
_DEFAULTS: Final = {
    FUNCTION: {"options/func_stack_trace": "0", "options/irq-info": "0", "options/function-fork": "0"},
    GRAPH: {
        **dict.fromkeys(sorted(_LISTS), ""), "tracing_thresh": "0", "max_graph_depth": "0", "options/sleep-time": "1",
        "options/funcgraph-irqs": "1", "options/funcgraph-proc": "0", "options/funcgraph-abstime": "0", "options/funcgraph-tail": "0",
        "options/latency-format": "0", "options/function-fork": "0",
    },
}  # fmt: skip
_RETRIES: Final = 40  # while the output of a process that has just died is being closed
_RETRY_AFTER: Final = 0.05  # seconds
_LONGEST_NAME: Final = 256  # of a function, with its module
_BUFFER: Final = "buffer_size_kb"
_UNUSED_BUFFER: Final = re.compile(r"\d+ \(expanded: (\d+)\)")  # its size at its first use
_OPTIONS: Final = "options/"


class FunctionTracer:
    """One use of a function tracer; a context manager.

    Args:
        root: of tracefs.
        tracer: GRAPH or FUNCTION.

    Attributes:
        folder: where its files are: the root, or the instance.
        missing: files that this kernel lacks.
    """

    def __init__(self, root: str, tracer: str) -> None:
        self.folder = root
        self.missing: list[str] = []
        self._root = root
        self._tracer = tracer
        self._saved: dict[str, str] = {}
        self._guard_pipe = -1
        self._guard = 0

    def __enter__(self) -> Self:
        if self._tracer == FUNCTION:
            path = f"{self._root}/instances/perfpy_{os.getpid()}"
            if _UNUSED_BUFFER.match(self.read(_BUFFER)):
                self._save(_BUFFER)
            self._start_guard()
            try:
                os.mkdir(path)
            except OSError as error:
                self.restore()
                raise _refusal(error, path) from None
            self.folder = path
            os.write(self._guard_pipe, _packed("", path))
        else:
            active = self.read("current_tracer").strip()
            if active != _NO_TRACER:
                raise PerfError(f"the tracer '{active}' is active; stop it first: echo nop > {self._root}/current_tracer")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.restore()

    def read(self, name: str) -> str:
        """Return the text of a file. Raises KernelRefusedError."""
        path = f"{self.folder}/{name}"
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                return file.read()
        except OSError as error:
            raise _refusal(error, path) from None

    def set(self, name: str, text: str) -> None:
        """Replace the content of a file, which is restored later. Raises KernelRefusedError, PerfError for a text that the file refuses."""
        path = f"{self.folder}/{name}"
        if not os.path.exists(path):
            self.missing.append(name)
            return
        if name not in _LISTS and name not in self._saved and self.read(name).split() == [text]:
            return
        if self.folder == self._root or name.startswith(_OPTIONS):
            self._save(name)  # the rest of an instance goes with it
        try:
            _write(path, text.split("\n") if name in _LISTS else [text])
        except OSError as error:
            if error.errno == errno.EINVAL and name in _LISTS:
                raise PerfError(f"no function matches '{' '.join(text.split())}'; perfpy ftrace -F lists them") from None
            raise _refusal(error, path) from None

    def _save(self, name: str) -> None:
        if name in self._saved:
            return
        self._saved[name] = self.read(name)
        self._start_guard()
        os.write(self._guard_pipe, _packed(name, self._saved[name]))

    def set_defaults(self) -> None:
        """Set the files that others may have changed to their defaults, as far as this kernel has them. Raises KernelRefusedError."""
        for name, text in _DEFAULTS[self._tracer].items():
            if os.path.exists(f"{self.folder}/{name}"):
                self.set(name, text)

    def choose(self) -> None:
        """Choose the tracer, which is impossible while its output is open. Raises KernelRefusedError."""
        self.set("tracing_on", "0")
        self.set("current_tracer", self._tracer)

    def start(self) -> None:
        """Turn the tracer on. Raises KernelRefusedError."""
        self.set("tracing_on", "1")

    def stop(self) -> None:
        """Turn the tracer off; what it wrote can still be read."""
        _write(f"{self.folder}/tracing_on", ["0"])

    def restore(self) -> None:
        """Put the former state back."""
        _put_back(self.folder, self._root, self._saved)
        self._saved.clear()
        if self._guard_pipe >= 0:
            os.write(self._guard_pipe, b"done\0\0")
            os.close(self._guard_pipe)
            os.waitpid(self._guard, 0)
            self._guard_pipe = -1

    def _start_guard(self) -> None:
        """Fork the process that puts the state back if this one dies."""
        if self._guard_pipe >= 0:
            return
        reading, self._guard_pipe = os.pipe()
        self._guard = os.fork()
        if self._guard:
            os.close(reading)
            return
        try:
            os.close(self._guard_pipe)
            os.setsid()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            _guard(reading, self._root)
        finally:
            os._exit(0)


def _guard(reading: int, root: str) -> None:
    data = b""
    while piece := os.read(reading, 1 << 16):
        data += piece
    entries = data.split(b"\0\0")
    if b"done" in entries:
        return
    saved = dict(entry.decode("utf-8", "surrogateescape").split("\0", 1) for entry in entries if b"\0" in entry)
    _put_back(saved.pop("", root), root, saved)


def _packed(name: str, text: str) -> bytes:
    return f"{name}\0{text}".encode("utf-8", "surrogateescape") + b"\0\0"


def _put_back(folder: str, root: str, saved: dict[str, str]) -> None:
    """Write saved files, the tracer first; remove an instance. Failures do not keep the others from being written."""
    for name in sorted(saved, key=lambda name: (name == "tracing_on", name != "current_tracer")):
        if name != _BUFFER or _UNUSED_BUFFER.match(saved[name]) is None:
            lines = _entries(saved[name]) if name in _LISTS else saved[name].split()[:1]
            _retry(partial(_write, f"{folder}/{name}", lines))
    if folder != root:
        _retry(lambda: _write(f"{folder}/current_tracer", [_NO_TRACER]))
        _retry(lambda: os.rmdir(folder))
    _retry(lambda: _expand(root, saved.get(_BUFFER, "")))


def _expand(root: str, saved: str) -> None:
    """Give the global buffer the size that it would have got at its first use, if this use has changed that."""
    unused = _UNUSED_BUFFER.match(saved)
    if unused:
        with open(f"{root}/{_BUFFER}", encoding="ascii") as file:
            is_unused = bool(_UNUSED_BUFFER.match(file.read()))
        if not is_unused:
            _write(f"{root}/{_BUFFER}", [unused[1]])


def _retry(action: Callable[[], None]) -> None:
    """Call an action again while the kernel answers that its file is busy; other failures end it silently."""
    for _ in range(_RETRIES):
        try:
            action()
        except OSError as error:
            if error.errno != errno.EBUSY:
                return
            time.sleep(_RETRY_AFTER)
        else:
            return


def _entries(text: str) -> list[str]:
    """Return the entries of a list, without the kernel's remarks ("#### all functions enabled ####", "no pid") and commands."""
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("#") and line != "no pid" and ":" not in line]


def _write(path: str, lines: list[str]) -> None:
    """Write each line by a call of its own, as these files want it; the first one empties the file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        for line in lines:
            if line:
                os.write(descriptor, line.encode("utf-8", "surrogateescape") + b"\n")
    finally:
        os.close(descriptor)


def _refusal(error: OSError, path: str) -> KernelRefusedError:
    if error.errno in (errno.EPERM, errno.EACCES):
        cause = "the kernel does not let this process use its function tracers (a container, a lockdown, or no root)"
        remedy = "run as root on the host; perfpy record -g and perfpy trace work without"
    elif error.errno == errno.ENOENT:
        cause, remedy = "the kernel was built without function tracers", "perfpy record -g and perfpy trace work without"
    else:
        cause, remedy = f"{path}: {os.strerror(error.errno or 0)}", ""
    return KernelRefusedError("tracefs", error.errno or 0, cause=cause, remedy=remedy)


def function_names(root: str) -> list[str]:
    """Return the functions that can be traced. Raises KernelRefusedError."""
    path = f"{root}/available_filter_functions"
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return [line.split(" ")[0].rstrip("\n")[:_LONGEST_NAME] for line in file]
    except OSError as error:
        raise _refusal(error, path) from None
