"""Files that people name for a command's results; "-" is standard output.

What enters: a path and what is to stand there. What leaves: the file, whole or
not at all; an OutputFailedError where it cannot be written.

A result is written beside its path and renamed when it is complete, so that
neither Ctrl-C nor a full disk leaves half a page where a whole one may have
stood. What is no regular file (a device, a fifo) is written as it is, and so
is a file in a folder where nothing may be made.
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
    """Write pieces of text."""
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
    """Write bytes; say on standard error which file has them, unless quiet."""
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
    """`--json perf.data` was meant for a file to read: a page or a table does not take a recording's place."""
    try:
        with open_regular(path) as file:
            begins = file.read(len(_RECORDING))
    except OSError:  # none, or no plain file
        return
    if begins == _RECORDING:
        raise OutputFailedError(path, "a recording stands there", remedy=f"name another file; to read this one say -i {path}")


@contextlib.contextmanager
def whole_file(path: str, mode: int = 0o666) -> Iterator[str]:
    """Where to write what is to stand at `path` when the context ends without an exception.

    mode: of a file that is not there yet; one that is keeps its own, and its owner.
    """
    real = os.path.realpath(path)  # a link stays one
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
    """Make the file that will take the place of `real`; False where it has to be written where it is."""
    try:
        there = os.stat(real)
    except OSError:
        there = None
    if there and (not stat.S_ISREG(there.st_mode) or there.st_nlink > 1 or not os.access(real, os.W_OK)):
        return False
    try:
        fd = os.open(unfinished, _NEW, mode)
    except OSError:  # writing it where it is may work, or says why not
        return False
    try:
        if there:
            if (there.st_uid, there.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(fd, there.st_uid, there.st_gid)
            os.fchmod(fd, stat.S_IMODE(there.st_mode))
    except OSError:  # another's file, to which we may only write
        os.unlink(unfinished)
        return False
    finally:
        os.close(fd)
    return True


def _put(unfinished: str, real: str) -> None:
    try:
        os.replace(unfinished, real)
    except OSError:  # where another file is mounted onto this one
        shutil.copyfile(unfinished, real)


@contextlib.contextmanager
def _removed_by_signals(path: str) -> Iterator[None]:
    """Signals that would end the process here and now remove a file first. Others raise, or are not ours."""

    def end(number: int, _frame: object) -> None:
        with contextlib.suppress(OSError):
            os.unlink(path)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    caught = []
    with contextlib.suppress(ValueError):  # another thread than the main one: no handler can be set
        for number in _ENDING:
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, end)
                caught.append(number)
    try:
        yield
    finally:
        for number in caught:
            signal.signal(number, signal.SIG_DFL)
