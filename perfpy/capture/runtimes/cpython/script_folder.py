"""The folder that passes lines of code to a running Python, and its answers back.

The process may belong to another user. The folder and its contents belong to perfpy's user. Others may enter the folder, read the
lines, whose names they cannot list, and write to the FIFO of an answer. So no name in it can lead elsewhere, and no user gets
a file from perfpy.
"""

from __future__ import annotations

import os
import select
import stat
import tempfile
import time
from contextlib import suppress
from typing import Final

from perfpy.untrusted.process_root import ProcessRoot

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
                theirs = root.open_regular(path, follow=False)
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
