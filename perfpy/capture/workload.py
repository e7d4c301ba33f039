"""The command to measure: forked at once, held at a pipe until its counters are open, then executed.

The program keeps its own standard streams, signals and exit status.
"""

from __future__ import annotations

import errno
import os
import time

from perfpy.abi.startup import signal
from perfpy.errors import WorkloadFailedError

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    import resource
    from collections.abc import Mapping, Sequence

_SHELL = "/bin/sh"
_ERRNO_BYTES = 4


class WorkloadEnd:
    """The end of a program: its status as of wait(2), and rusage, the kernel's account of it and its children."""

    __slots__ = ("rusage", "status")

    def __init__(self, status: int, rusage: resource.struct_rusage) -> None:
        self.status = status
        self.rusage = rusage

    @property
    def signal(self) -> int:
        """The signal that ended it, or 0."""
        return os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else 0

    @property
    def exit_code(self) -> int:
        """Its exit status, or 128 + the signal's number."""
        return 128 + self.signal if self.signal else os.WEXITSTATUS(self.status)


class Workload:
    """One run of a command.

    The child exists from the constructor on, but executes the command only at start(): counters opened on `.pid` with
    enable_on_exec count the program and nothing of perfpy. Use it as a context manager, so that an error in between does not leave
    a zombie.

    Args:
        stdout_to_stderr: redirect the program's output, because perfpy needs standard output.
        environment: variables to set for the program.
    """

    def __init__(self, command: Sequence[str], *, stdout_to_stderr: bool = False, environment: Mapping[str, str] | None = None) -> None:
        self.command = tuple(command)
        self.ended: WorkloadEnd | None = None
        self.started_ns = 0
        go_read, self._go = os.pipe()
        self._failure, failure_write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._go)
            if stdout_to_stderr:
                os.dup2(2, 1)
            if environment:
                os.environ.update(environment)
            _run_child(self.command, go_read, failure_write)
        os.close(go_read)
        os.close(failure_write)

    def start(self) -> None:
        """Let the child execute the command; return once it does. Raises WorkloadFailedError if that fails."""
        self.started_ns = time.monotonic_ns()
        os.write(self._go, b"g")
        self._close_go()
        answer = os.read(self._failure, _ERRNO_BYTES)  # the pipe closes at exec
        os.close(self._failure)
        self._failure = -1
        if answer:
            self.wait()
            raise WorkloadFailedError(self.command[0], os.strerror(int.from_bytes(answer, "little")))

    def wait(self) -> WorkloadEnd:
        """Wait for the program's end."""
        while self.ended is None:
            self._collect(0)
        return self.ended

    def poll(self) -> WorkloadEnd | None:
        """Return how the program ended, or None while it runs."""
        if self.ended is None:
            self._collect(os.WNOHANG)
        return self.ended

    def kill(self, signum: int = signal.SIGTERM) -> None:
        """Send the program a signal, unless it has ended."""
        if self.ended is None:
            os.kill(self.pid, signum)

    def _collect(self, options: int) -> None:
        pid, status, rusage = os.wait4(self.pid, options)
        if pid:
            self.ended = WorkloadEnd(status, rusage)

    def _close_go(self) -> None:
        if self._go >= 0:
            os.close(self._go)
            self._go = -1

    def __enter__(self) -> Workload:
        return self

    def __exit__(self, *exc: object) -> None:
        """End a child that was never started; terminate a running one, and wait for it."""
        self._close_go()  # a held child reads the end of file, and exits
        if self.ended is None:
            if self._failure < 0:
                self.kill()
            self.wait()
        if self._failure >= 0:
            os.close(self._failure)
            self._failure = -1


def _run_child(command: tuple[str, ...], go: int, failure: int) -> None:
    """Run in the child: wait for the parent, then execute the command, or report the errno. Never returns."""
    try:
        # Python ignores these; programs expect the default.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        candidates = _search_path(command[0])
        if os.read(go, 1):
            _execute(candidates, command)
    except OSError as error:
        _tell(failure, error.errno or errno.EINVAL)
    except ValueError:  # execv rejects an empty name, or a NUL in a word, without asking the kernel
        _tell(failure, errno.EINVAL if command[0] else errno.ENOENT)
    finally:
        os._exit(127)


def _tell(failure: int, number: int) -> None:
    os.write(failure, number.to_bytes(_ERRNO_BYTES, "little"))


def _search_path(name: str) -> list[str]:
    """Return the candidate paths of a program by PATH; os.execvp would search, and import modules, while the clock runs."""
    if "/" in name or not name:
        return [name]
    return [os.path.join(folder, name) for folder in os.environ.get("PATH", os.defpath).split(os.pathsep)]


def _execute(candidates: Sequence[str], command: tuple[str, ...]) -> None:
    """Execute the first executable path, as execvp(3); files that the kernel cannot execute are scripts for the shell."""
    refused: OSError | None = None
    for path in candidates:
        try:
            os.execv(path, command)
        except (FileNotFoundError, NotADirectoryError) as error:
            refused = refused or error
        except OSError as error:
            if error.errno == errno.ENOEXEC:
                os.execv(_SHELL, (_SHELL, path, *command[1:]))
            if refused is None or refused.errno != errno.EACCES:
                refused = error
    if refused:
        raise refused
