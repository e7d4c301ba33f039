"""Result files of commands, written whole or not at all; "-" is standard output.

perfpy.untrusted.destinations writes them. Raises OutputFailedError if a file cannot be written.
"""

from __future__ import annotations

import contextlib
import os
import sys

from perfpy.abi.light_types import TYPE_CHECKING
from perfpy.errors import OutputFailedError
from perfpy.untrusted import destinations
from perfpy.untrusted.destinations import FileDestination

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO, Final, TextIO

_RECORDING: Final = b"PERFILE2"


def write_text(path: str, pieces: Iterable[str]) -> None:
    """Write text in pieces."""
    if path == "-":
        sys.stdout.writelines(pieces)
        return
    with whole_file(path, spare_recordings=True) as file, text_of(file) as text:
        text.writelines(pieces)


def write_bytes(path: str, data: bytes, *, quiet: bool) -> None:
    """Write bytes; print the path and size on stderr unless quiet."""
    if path == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    with whole_file(path, spare_recordings=True) as file:
        file.write(data)
    if not quiet:
        print_written(path, len(data))


def print_written(path: str, size: int) -> None:
    """Print the path and the size of a result on stderr."""
    print(f"[ perfpy: wrote {path} ({size / 1e6:.3f} MB) ]", file=sys.stderr)


@contextlib.contextmanager
def whole_file(path: str, mode: int = 0o666, *, spare_recordings: bool = False) -> Iterator[BinaryIO]:
    """Yield the file to write; it replaces `path` if the context ends without an exception.

    Args:
        path: of an option.
        mode: of a new file; an existing one keeps its mode and owner.
        spare_recordings: refuse to replace a recording.
    """
    try:
        destination = FileDestination(path)
    except OSError as error:
        raise OutputFailedError(path, error.strerror or str(error), remedy="choose another output file") from None
    with destination:
        if spare_recordings:
            _spare_recording(destination)
        try:
            with destinations.whole_file(destination, mode) as file:
                yield file
        except OSError as error:
            raise OutputFailedError(path, error.strerror or str(error)) from None


@contextlib.contextmanager
def text_of(file: BinaryIO) -> Iterator[TextIO]:
    """Yield a text stream that writes to a binary file."""
    with open(os.dup(file.fileno()), "w", encoding="utf-8", errors="surrogateescape") as text:
        yield text


def _spare_recording(destination: FileDestination) -> None:
    """Raise OutputFailedError if the file is a recording: in `--json perf.data` the file was meant as input."""
    if not destination.is_regular or destination.inherited >= 0:
        return
    path = destination.path
    try:
        with open(destination.open(os.O_RDONLY), "rb") as file:
            magic = file.read(len(_RECORDING))
    except OSError:  # unreadable
        return
    if magic == _RECORDING:
        raise OutputFailedError(path, "this file is a recording", remedy=f"choose another output file; to read this one, use -i {path}")
