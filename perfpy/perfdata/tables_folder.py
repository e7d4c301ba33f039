"""Folders of tables (perfpy export --parquet): how they are known, and which recordings are in them.

What enters: a path. What leaves: whether it is one, and the paths of the recordings in it, by which each can be opened.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Any, Final

MARKER: Final = "perfpy.json"
VERSION: Final = 1
RECORDINGS: Final = "recordings"
SUFFIX: Final = ".parquet"


def recordings_in(origin: Any) -> list[str]:
    """The recordings of a folder of tables, or the one recording of such a folder that a path names; [] for anything else."""
    if not isinstance(origin, (str, os.PathLike)):
        return []
    path = os.fspath(origin)
    if path.endswith(SUFFIX):
        folder, name = os.path.split(os.path.abspath(path))
        known = os.path.basename(folder) == RECORDINGS and os.path.isfile(os.path.join(os.path.dirname(folder), MARKER))
        return [os.path.join(folder, name)] if known else []
    folder = os.path.join(path, RECORDINGS)
    if not (os.path.isdir(folder) and os.path.isfile(os.path.join(path, MARKER))):
        return []
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(SUFFIX))
