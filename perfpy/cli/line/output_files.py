"""Result files of commands, written whole or not at all; "-" is standard output.

A result is written beside its path and renamed when it is complete, so that neither Ctrl-C nor a full disk truncates an
existing file. Devices and fifos are written in place, and so are files in folders that permit no new files. Raises
OutputFailedError if the file cannot be written.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import sys
from typing import TYPE_CHECKING, Final

from perfpy.errors import OutputFailedError
from perfpy.untrusted.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_RECORDING: Final = b"PERFILE2"
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


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

    mode is the mode of a new file; an existing one keeps its mode and owner.
    """
    real = os.path.realpath(path)  # Symbolic links are kept.
    unfinished = f"{real}.{os.getpid()}"
    with _removed_by_signals(unfinished):
        if not _create(unfinished, real, mode):
            yield path
            return
        try:
            yield unfinished
            _put(unfinished, real)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(unfinished)


def _create(unfinished: str, real: str, mode: int) -> bool:
    """Create the file that will replace `real`; return False if `real` has to be written in place."""
    try:
        existing = os.stat(real)
    except OSError:
        existing = None
    if existing and (not stat.S_ISREG(existing.st_mode) or existing.st_nlink > 1 or not os.access(real, os.W_OK)):
        return False
    try:
        fd = os.open(unfinished, _NEW, mode)
    except OSError:  # Writing in place may work, or reports the reason.
        return False
    try:
        if existing:
            if (existing.st_uid, existing.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(fd, existing.st_uid, existing.st_gid)
            os.fchmod(fd, stat.S_IMODE(existing.st_mode))
    except OSError:  # The file belongs to another user, and only writing is permitted.
        os.unlink(unfinished)
        return False
    finally:
        os.close(fd)
    return True


def _put(unfinished: str, real: str) -> None:
    try:
        os.replace(unfinished, real)
    except OSError:  # another file is mounted onto this one
        shutil.copyfile(unfinished, real)


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
