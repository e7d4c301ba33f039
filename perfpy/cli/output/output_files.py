"""Result files of commands, written whole or not at all; "-" is standard output.

A result is written beside its path and renamed when it is complete, so that neither Ctrl-C nor a full disk truncates an
existing file. Devices and fifos are written in place, and so are files in folders that permit no new files. Raises
OutputFailedError if the file cannot be written.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import stat
import sys
from typing import TYPE_CHECKING, Final

from perfpy.errors import OutputFailedError
from perfpy.untrusted.files import open_regular, trusted_target

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_RECORDING: Final = b"PERFILE2"
_MODES: Final = 0o777
_MOST_LINKS: Final = 8
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write_text(path: str, pieces: Iterable[str]) -> None:
    """Write text in pieces."""
    if path == "-":
        sys.stdout.writelines(pieces)
        return
    _spare_recording(path)
    try:
        with whole_file(path) as unfinished, open(unfinished, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.writelines(pieces)
    except OSError as error:
        raise OutputFailedError(path, error.strerror or str(error)) from None


def write_bytes(path: str, data: bytes, *, quiet: bool) -> None:
    """Write bytes; print the path and size on stderr unless quiet."""
    if path == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    _spare_recording(path)
    try:
        with whole_file(path) as unfinished, open(unfinished, "wb") as file:
            file.write(data)
    except OSError as error:
        raise OutputFailedError(path, error.strerror or str(error)) from None
    if not quiet:
        print(f"[ perfpy: wrote {path} ({len(data) / 1e6:.3f} MB) ]", file=sys.stderr)


def _spare_recording(path: str) -> None:
    """Raise OutputFailedError if the path is a recording: in `--json perf.data` the file was meant as input."""
    try:
        with open_regular(path) as file:
            magic = file.read(len(_RECORDING))
    except OSError:  # missing, or no regular file
        return
    if magic == _RECORDING:
        raise OutputFailedError(path, "this file is a recording", remedy=f"choose another output file; to read this one, use -i {path}")


@contextlib.contextmanager
def whole_file(path: str, mode: int = 0o666) -> Iterator[str]:
    """Yield the path to write; the file replaces `path` if the context ends without an exception.

    mode is the mode of a new file; an existing one keeps its mode and owner. The yielded path leads to a descriptor, because in a folder
    of another user that user can replace names.
    """
    try:
        real = _resolve_links(path)
    except OSError as error:
        raise OutputFailedError(path, error.strerror or str(error), remedy="choose another output file") from None
    unfinished = f"{real}.{os.getpid()}-{os.urandom(4).hex()}"
    with _removed_by_signals(unfinished), contextlib.ExitStack() as opened:
        existing = _status(real)
        fd = _create(unfinished, real, existing, mode)
        if fd is None:
            yield _in_place(real, path, opened)
            return
        opened.callback(os.close, fd)
        try:
            yield _path_of(fd, unfinished)
            _put(unfinished, real)
            if existing and existing.st_uid != os.geteuid():
                _restore(fd, existing)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(unfinished)


def _resolve_links(path: str) -> str:
    """Return the path after its links, which stay. The last ones must be root's or ours. Raises OSError."""
    links = 0
    while os.path.islink(path) and not path.startswith(("/dev/", "/proc/")) and links < _MOST_LINKS:
        path, links = trusted_target(path), links + 1
    return os.path.realpath(path)


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _create(unfinished: str, real: str, existing: os.stat_result | None, mode: int) -> int | None:
    """Create and open the file that will replace `real`; return None if `real` has to be written in place."""
    if existing and (not stat.S_ISREG(existing.st_mode) or existing.st_nlink > 1 or not os.access(real, os.W_OK)):
        return None
    if existing and os.geteuid() not in (0, existing.st_uid):  # only root can restore the owner
        return None
    is_foreign = existing is not None and existing.st_uid != os.geteuid()
    try:
        fd = os.open(unfinished, _NEW, 0o600 if is_foreign else mode)
    except OSError:  # Writing in place may work, or reports the reason.
        return None
    try:
        if existing and not is_foreign:
            if existing.st_gid != os.fstat(fd).st_gid:
                os.fchown(fd, -1, existing.st_gid)
            os.fchmod(fd, existing.st_mode & _MODES)
    except OSError:  # a group that only root can give
        os.close(fd)
        os.unlink(unfinished)
        return None
    return fd


def _in_place(real: str, path: str, opened: contextlib.ExitStack) -> str:
    """Return a path that leads to the file itself, whoever replaces its name; of fifos and devices their own."""
    try:
        fd = os.open(real, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise
        return path  # Opening it reports the reason.
    opened.callback(os.close, fd)
    return _path_of(fd, path) if stat.S_ISREG(os.fstat(fd).st_mode) else path


def _path_of(fd: int, path: str) -> str:
    descriptor = f"/proc/self/fd/{fd}"
    return descriptor if os.path.exists(descriptor) else path


def _put(unfinished: str, real: str) -> None:
    try:
        os.replace(unfinished, real)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        shutil.copyfile(unfinished, real)  # another file is mounted onto this one


def _restore(fd: int, existing: os.stat_result) -> None:
    """Give the file the owner of the replaced one, now that no name leads root to it any more."""
    with contextlib.suppress(OSError):  # a user namespace may not have this owner
        os.fchown(fd, existing.st_uid, existing.st_gid)
    os.fchmod(fd, existing.st_mode & _MODES)


@contextlib.contextmanager
def _removed_by_signals(path: str) -> Iterator[None]:
    """Remove a file if a signal ends the process. Signals that have a handler are left alone."""

    def end(number: int, _frame: object) -> None:
        with contextlib.suppress(OSError):
            os.unlink(path)
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
