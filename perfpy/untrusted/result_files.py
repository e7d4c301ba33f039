"""Write result files whole or not at all.

A result is written to a new file beside its destination, through one descriptor, and renamed when it is complete, so that neither
Ctrl-C nor a full disk truncates an existing file. Devices and fifos are written in place, and so are files in folders that permit no new
files, and files onto which another one is mounted. See perfpy.untrusted.destinations for what is refused.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import stat
from typing import TYPE_CHECKING, Final

from perfpy.errors import OutputFailedError
from perfpy.untrusted.destinations import FileDestination

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_MODES: Final = 0o777
_PIECE: Final = 1 << 20  # bytes that are copied at once


class UnfinishedFile:
    """A file that takes its destination's name when it is complete. Raises OSError if none can be created there.

    Attributes:
        fd: its descriptor, for reading and writing.
    """

    def __init__(self, destination: FileDestination, mode: int) -> None:
        self._destination = destination
        self._name = destination.unfinished_name()
        self.fd = destination.create(mode, self._name)

    def put(self) -> None:
        """Give the file its name. Raises OSError, with EBUSY if another file is mounted onto the existing one."""
        self._destination.rename_entry(self._name, self._destination.name)

    def remove(self) -> None:
        """Remove the file if it has not got its name."""
        with contextlib.suppress(OSError):
            self._destination.remove_entry(self._name)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.fd)


@contextlib.contextmanager
def whole_file(destination: FileDestination, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Yield the file to write; it gets its name if the context ends without an exception. Raises OSError.

    mode is the mode of a new file; an existing one keeps its mode and owner.
    """
    new = None if destination.inherited >= 0 else _replacement(destination, mode)
    if new is None:
        with open(destination.open(os.O_WRONLY | os.O_TRUNC), "wb") as file:
            yield file
        return
    with _removed_by_signals(new):
        try:
            with open(new.fd, "wb", closefd=False) as file:
                yield file
            _put(new, destination)
        finally:
            new.remove()
            new.close()


def write_whole(path: str, data: bytes, mode: int = 0o666) -> None:
    """Write a result file. Raises OutputFailedError."""
    try:
        with FileDestination(path) as destination, whole_file(destination, mode) as file:
            file.write(data)
    except OSError as error:
        raise OutputFailedError(path, error.strerror or str(error)) from None


def _replacement(destination: FileDestination, mode: int) -> UnfinishedFile | None:
    """Create the file that will replace the existing one; return None if that has to be written in place."""
    existing = destination.state
    if existing is None:
        return UnfinishedFile(destination, mode)
    if not stat.S_ISREG(existing.st_mode) or not os.access(destination.name, os.W_OK, dir_fd=destination.folder):
        return None
    has_links = existing.st_nlink > 1
    if has_links and destination.has_safe_names:  # all names keep leading to one file
        return None
    is_foreign = existing.st_uid != os.geteuid()
    if is_foreign and os.geteuid() != 0:  # only root can restore the owner
        return None
    try:
        new = UnfinishedFile(destination, 0o600 if is_foreign else mode)
    except OSError:  # Writing in place may work, or reports the reason.
        return None
    try:
        if not is_foreign and not has_links:
            if existing.st_gid != os.fstat(new.fd).st_gid:
                os.fchown(new.fd, -1, existing.st_gid)
            os.fchmod(new.fd, existing.st_mode & _MODES)
    except OSError:  # a group that only root can give
        new.remove()
        new.close()
        return None
    return new


def _put(new: UnfinishedFile, destination: FileDestination) -> None:
    """Give the new file its name, or copy it into the file that another one is mounted onto; restore the owner."""
    existing = destination.state
    try:
        new.put()
    except OSError as error:
        if error.errno != errno.EBUSY or existing is None:
            raise
        _copy(new.fd, destination.open(os.O_WRONLY | os.O_TRUNC))
        return
    if existing and existing.st_uid != os.geteuid() and existing.st_nlink == 1:
        _restore(new.fd, existing)


def _copy(source: int, target: int) -> None:
    """Copy a whole file, and close the target."""
    os.lseek(source, 0, os.SEEK_SET)
    with open(target, "wb") as out:
        while piece := os.read(source, _PIECE):
            out.write(piece)


def _restore(fd: int, existing: os.stat_result) -> None:
    """Give the file the owner of the replaced one, now that it is complete."""
    with contextlib.suppress(OSError):  # a user namespace may not have this owner
        os.fchown(fd, existing.st_uid, existing.st_gid)
    os.fchmod(fd, existing.st_mode & _MODES)


@contextlib.contextmanager
def _removed_by_signals(new: UnfinishedFile) -> Iterator[None]:
    """Remove the new file if a signal ends the process. Signals that have a handler are left alone."""

    def end(number: int, _frame: object) -> None:
        new.remove()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    caught = []
    with contextlib.suppress(ValueError):  # Only the main thread can set handlers.
        for number in _ENDING:
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, end)
                caught.append(number)
    try:
        yield
    finally:
        for number in caught:
            signal.signal(number, signal.SIG_DFL)
