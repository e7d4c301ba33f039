"""Recognize folders of tables (perfpy export --parquet), and list the recordings in them."""

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
    """Return the paths of the recordings in a folder of tables, or of the one recording that `origin` names; [] for anything else."""
    if not isinstance(origin, (str, os.PathLike)):
        return []
    path = os.fspath(origin)
    if path.endswith(SUFFIX):
        folder, name = os.path.split(os.path.abspath(path))
        is_recording = os.path.basename(folder) == RECORDINGS and os.path.isfile(os.path.join(os.path.dirname(folder), MARKER))
        return [os.path.join(folder, name)] if is_recording else []
    folder = os.path.join(path, RECORDINGS)
    if not (os.path.isdir(folder) and os.path.isfile(os.path.join(path, MARKER))):
        return []
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(SUFFIX))
