"""The source lines of a program: the file that its debug information names, read as data."""

from __future__ import annotations

import os
import re
from fnmatch import translate
from typing import TYPE_CHECKING, Final

from perfpy.untrusted.files import read_regular
from perfpy.untrusted.paths import UnsafeNameError, below

if TYPE_CHECKING:
    from collections.abc import Iterator

_FILE_MOST: Final = 64 << 20


def source_path(path: str, folder: str, root: str = "") -> str:
    """Return the path of a source file that exists, "" without one.

    Args:
        path: as the debug information names it.
        folder: the folder of sources (--source), "" for the recorded one.
        root: the folder that stands for /.
    """
    return next((candidate for candidate in _candidates(path, folder, root) if os.path.isfile(candidate)), "")


def _candidates(path: str, folder: str, root: str) -> Iterator[str]:
    """Yield the paths to try: the recorded one, and its last parts below the folder of sources, the longest first."""
    if not folder:
        try:
            yield below(root, path) if root else path
        except UnsafeNameError:
            return
        return
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    for first in range(len(parts)):
        try:
            yield below(os.path.abspath(folder), "/".join(parts[first:]))
        except UnsafeNameError:
            continue


def read_lines(path: str) -> list[str]:
    """Return the lines of a source file without line ends; empty if it cannot be read."""
    try:
        text = read_regular(path, limit=_FILE_MOST).decode("utf-8", "surrogateescape")
    except (OSError, ValueError):
        return []
    lines = text.split("\n")
    return lines[:-1] if lines and not lines[-1] else lines


def matching_lines(lines: list[str], pattern: str) -> list[int]:
    """Return the numbers of the lines that match a glob pattern, counted from 1. Spaces do not count in either."""
    match = re.compile(translate(re.sub(r"\s", "", pattern))).match
    return [number for number, line in enumerate(lines, 1) if match(re.sub(r"\s", "", line))]
