"""Files that people name for a command's results; "-" is standard output.

What enters: a path and what is to stand there. What leaves: the file; an
OutputFailed where it cannot be written.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from perfpy.errors import OutputFailed

if TYPE_CHECKING:
    from collections.abc import Iterable


def write_text(path: str, pieces: Iterable[str]) -> None:
    """Write pieces of text."""
    if path == "-":
        sys.stdout.writelines(pieces)
        return
    try:
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.writelines(pieces)
    except OSError as error:
        raise OutputFailed(path, error.strerror or str(error)) from None


def write_bytes(path: str, data: bytes, *, quiet: bool) -> None:
    """Write bytes; say on standard error which file has them, unless quiet."""
    if path == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        raise OutputFailed(path, error.strerror or str(error)) from None
    if not quiet:
        print(f"[ perfpy: wrote {path} ({len(data) / 1e6:.3f} MB) ]", file=sys.stderr)
