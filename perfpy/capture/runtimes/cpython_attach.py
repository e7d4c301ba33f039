"""Names of Python functions in a running process: CPython 3.14 and later enable their trampolines on request.

The process executes a few lines of code, as with sys.remote_exec (PEP 768), at the next point where it could run a signal handler.
The request is made by its own interpreter, because only the same version can. Functions that are running at that moment get
their names at their next call.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import stat
import subprocess
import tempfile
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.errors import PerfError
from perfpy.kernel.procfs import ProcFs
from perfpy.symbols import dso
from perfpy.untrusted.destinations import trusted_program
from perfpy.untrusted.files import is_file, open_regular_beneath
from perfpy.untrusted.process_root import ProcessRoot
from perfpy.untrusted.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterable


_PROGRAM: Final = re.compile(r"(?:lib)?python(\d)\.(\d+)[a-z]*(?:\.so[\d.]*)?")
_CAN_BE_ASKED: Final = (3, 14)
_HAS_TRAMPOLINES: Final = (3, 12)
_PATIENCE: Final = 3.0  # seconds for the process to run the lines
_STARTING: Final = 3.0  # seconds for a starting process to get a main thread
_ASKING: Final = 20.0  # seconds for its interpreter to start
#: Run by the process in its own namespace, because __main__ is the program's. The reader of the answer may be gone.
_LINES: Final = """\
exec('''
import os, sys
try:
    {action}
except Exception as error:
    said = f"{{type(error).__name__}}: {{error}}"
try:
    pipe = os.open({answer!r}, os.O_WRONLY | os.O_NONBLOCK)
    os.write(pipe, said.encode("utf-8", "replace")[:900] + bytes(1))
    os.close(pipe)
except OSError:
    pass
''', {{}})
"""
_ON: Final = """said = "already" if sys.is_stack_trampoline_active() else "on"
    sys.activate_stack_trampoline("perf")"""
_OFF: Final = """sys.deactivate_stack_trampoline()
    said = "off\""""


class NoNamesError(PerfError):
    """A process whose functions cannot be named, with the reason and a remedy."""

    def __init__(self, pid: int, reason: str) -> None:
        self.pid = pid
        self.reason = reason
        super().__init__(f"process {pid}: no names of Python functions: {reason}")


class RunningPython(NamedTuple):
    """The CPython in a process: its version, the file that contains it, and whether that is a program (else a library)."""

    version: tuple[int, int]
    path: str
    is_program: bool


def interpreter_of(pid: int, proc: ProcFs | None = None) -> RunningPython | None:
    """Return the CPython that a process runs; None if there is none."""
    interpreters = []
    for mapping in (proc or ProcFs()).maps(pid):
        name = os.path.basename(mapping.path)
        if match := _PROGRAM.fullmatch(name):
            interpreters.append(RunningPython((int(match[1]), int(match[2])), mapping.path, not name.startswith("lib")))
    return min(interpreters, key=lambda interpreter: interpreter.is_program, default=None)  # the library has the exact version


class Trampolines:
    """The trampolines of a process, enabled until off(). late: it has not answered yet, and will switch later."""

    def __init__(self, pid: int, program: str) -> None:
        self.pid = pid
        self.late = False
        self._program = program
        try:
            self._folder = ScriptFolder(pid)
        except OSError as error:
            raise NoNamesError(pid, f"no access to the process ({error.strerror}); record as its user, or as root") from error
        self._ours = True

    def on(self) -> None:
        """Enable the trampolines. Raises NoNamesError if the process refuses."""
        answer = self._ask(_ON)
        self._ours = answer != "already"
        self.late = answer is None
        if answer not in ("on", "already", None):
            raise NoNamesError(self.pid, f"it answers {visible(answer)}")

    def off(self) -> None:
        """Disable the trampolines, unless they were enabled before. The lines stay if the process has yet to read them."""
        try:
            waits = self._ours and self._ask(_OFF) is None
        except NoNamesError:  # it has ended
            waits = False
        if waits:
            self._folder.close()
        else:
            self._folder.remove()

    def _ask(self, action: str) -> str | None:
        """Return the answer of the process; None after a timeout."""
        try:
            with self._folder.answer() as answer:
                lines = self._folder.write(_LINES.format(action=action, answer=answer.path))
                self._require_seen(lines)
                self._run(f"import sys; sys.remote_exec({self.pid}, {lines!r})")
                return answer.read(_PATIENCE)
        except OSError as error:
            raise NoNamesError(self.pid, f"{self._folder.path}: {error.strerror}") from error

    def _require_seen(self, lines: str) -> None:
        """Raise NoNamesError unless the process sees the lines under the same path."""
        try:
            is_seen = self._folder.is_seen(lines)
        except PermissionError as error:
            raise NoNamesError(
                self.pid, f"its user cannot read {self._folder.path}; set TMPDIR to a folder that all users can enter"
            ) from error
        except OSError as error:
            raise NoNamesError(self.pid, f"no access to the process ({error.strerror})") from error
        if not is_seen:
            raise NoNamesError(self.pid, "it runs in a container with other files; record inside the container")

    def _run(self, line: str) -> None:
        """Make the request with an interpreter like the process's; retry for a while if the process is still starting."""
        end = time.monotonic() + _STARTING
        while reply := self._run_once(line):
            if not reply.startswith("RuntimeError") or time.monotonic() > end:
                raise NoNamesError(self.pid, f"the request failed: {visible(reply)}")
            time.sleep(0.05)

    def _run_once(self, line: str) -> str:
        """Return the error, "" for none."""
        command = (self._program, "-I", "-S", "-c", line)
        try:
            result = subprocess.run(command, capture_output=True, timeout=_ASKING, stdin=subprocess.DEVNULL, check=False)
        except (OSError, subprocess.SubprocessError) as error:
            raise NoNamesError(self.pid, f"cannot run {visible(self._program)}: {error}") from error
        if not result.returncode:
            return ""
        return (result.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit status {result.returncode}"])[-1]


def attach(pid: int, proc: ProcFs | None = None) -> Trampolines | None:
    """Name the functions of a process; None if it runs no CPython, or names them already. Raises NoNamesError if it cannot."""
    interpreter = interpreter_of(pid, proc)
    if interpreter is None:
        return None
    if interpreter.version < _CAN_BE_ASKED:
        if any(is_file(path) for path in dso.perf_map_paths(pid)):
            return None  # it names them already
        raise NoNamesError(pid, _what_to_type(interpreter.version, ".".join(map(str, interpreter.version))))
    switch = Trampolines(pid, _program(pid, interpreter))
    try:
        switch.on()
    except BaseException:
        switch.off()
        raise
    return switch


def attach_all(pids: Iterable[int], proc: ProcFs | None = None) -> tuple[list[Trampolines], list[NoNamesError]]:
    """Attach to several processes; return those switched on, and the failures."""
    switches, refused = [], []
    for pid in pids:
        try:
            switch = attach(pid, proc)
        except NoNamesError as error:
            refused.append(error)
        else:
            switches += [switch] if switch is not None else []
    return switches, refused


def _what_to_type(version: tuple[int, int], name: str) -> str:
    """Return a remedy for an interpreter without remote_exec."""
    start = "start the program with perfpy record --jit -- COMMAND"
    if version < (3, 8):
        return f"CPython {name} cannot name them; 3.8 and later can"
    if version >= _HAS_TRAMPOLINES:
        start += ", or with PYTHONPERFSUPPORT=1 in its environment"
    return f"CPython {name} names them from its start only (3.14 also later); {start}"


def _program(pid: int, interpreter: RunningPython) -> str:
    """Return an interpreter of the same version for the request. It must belong to root or the user, because perfpy runs it."""
    name = "python{}.{}".format(*interpreter.version)
    path = interpreter.path if interpreter.is_program else os.path.realpath(f"/proc/{pid}/exe")
    program = path if _PROGRAM.fullmatch(os.path.basename(path)) else shutil.which(name)
    if program is None:
        raise NoNamesError(pid, f"the request needs a {name}, and there is none in PATH")
    try:
        return trusted_program(program)
    except OSError as error:
        raise NoNamesError(
            pid, f"{visible(program)} does not belong to root or you ({error.strerror}); record as the user who runs it"
        ) from error


# The folder that passes lines of code to a running Python, and its answers back. The process may belong to another user. The folder and
# its contents belong to perfpy's user. Others may enter the folder, read the lines, whose names they cannot list, and write to the FIFO
# of an answer. So no name in it can lead elsewhere, and no user gets a file from perfpy.

_LONGEST_ANSWER: Final = 1000  # bytes
_END: Final = b"\0"
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FIFO: Final = os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC  # both ends, so that opening does not wait for a writer
#: Modes of (folder, lines, answer): for a process of the same user, and of another one.
_OURS: Final = (0o700, 0o600, 0o600)
_SHARED: Final = (0o711, 0o644, 0o622)


class ScriptFolder:
    """A new temporary folder for one process. Raises OSError if the process is inaccessible."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        with ProcessRoot(pid) as root:
            is_shared = os.geteuid() == 0 and root.rights.uid != 0
        self._modes = _SHARED if is_shared else _OURS
        self.path = tempfile.mkdtemp(prefix="perfpy-")
        self._fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        state = os.fstat(self._fd)
        if state.st_uid != os.geteuid() or stat.S_IMODE(state.st_mode) != 0o700:
            raise PermissionError(f"{self.path}: meanwhile replaced by another folder")
        os.fchmod(self._fd, self._modes[0])
        self._names: list[str] = []

    def write(self, lines: str) -> str:
        """Write lines to a new file; return its path."""
        name = self._new_name(".py")
        with open(os.open(name, _NEW, 0o600, dir_fd=self._fd), "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), self._modes[1])
            file.write(lines)
        return f"{self.path}/{name}"

    def is_seen(self, path: str) -> bool:
        """Whether the process finds a file by its path: it has the same root, and its user may read the file."""
        with ProcessRoot(self._pid) as root:
            try:
                theirs = root.run(lambda folder: open_regular_beneath(folder, path, follow=False))
            except (FileNotFoundError, NotADirectoryError):
                return False
        try:
            return os.path.samestat(os.fstat(theirs), os.stat(os.path.basename(path), dir_fd=self._fd))
        finally:
            os.close(theirs)

    def answer(self) -> ScriptAnswer:
        """Create a FIFO for an answer."""
        name = self._new_name(".answer")
        os.mkfifo(name, 0o600, dir_fd=self._fd)
        fd = os.open(name, _FIFO, dir_fd=self._fd)
        os.fchmod(fd, self._modes[2])
        return ScriptAnswer(f"{self.path}/{name}", fd)

    def close(self) -> None:
        """Close the folder without removing it, because the process has yet to read it."""
        os.close(self._fd)

    def remove(self) -> None:
        """Remove the folder."""
        for name in self._names:
            with suppress(OSError):
                os.unlink(name, dir_fd=self._fd)
        os.close(self._fd)
        with suppress(OSError):
            os.rmdir(self.path)

    def _new_name(self, ending: str) -> str:
        """Return an unpredictable name."""
        self._names.append(os.urandom(16).hex() + ending)
        return self._names[-1]


class ScriptAnswer:
    """A FIFO to which the process writes one text, ended by NUL. A context manager."""

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd

    def __enter__(self) -> ScriptAnswer:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def read(self, patience: float) -> str | None:
        """Return the text from the process, truncated to the limit; None after `patience` seconds."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        text, end = b"", time.monotonic() + patience
        while _END not in text and len(text) < _LONGEST_ANSWER:
            if not poll.poll(max(end - time.monotonic(), 0) * 1000):
                return None
            text += os.read(self._fd, _LONGEST_ANSWER)
        return text.partition(_END)[0][:_LONGEST_ANSWER].decode("utf-8", "replace")


# Names of Python functions in CPython, for started commands and running processes. CPython 3.8 to 3.11 with STARTUP first on PYTHONPATH
# runs `cpython_startup/sitecustomize.py`, and its children inherit that, as they inherit PYTHONPERFSUPPORT of 3.12; other versions ignore
# it. Function names then are in /tmp/perf-PID.map, where 3.12 and later write theirs. `cpython_startup/` runs in other interpreters: it
# is not imported here, and imports nothing of perfpy.

#: The folder to put first on PYTHONPATH of profiled programs.
STARTUP: Final = f"{os.path.dirname(os.path.abspath(__file__))}/cpython_startup"
