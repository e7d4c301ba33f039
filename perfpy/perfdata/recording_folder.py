"""Recordings that are folders (perf record --threads): a main file, and beside it those of the recording threads.

What enters: a folder's name. What leaves: the path of its main file. Layout: perf.data-directory-format.txt in the documentation of perf.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Final

MAIN_FILE: Final = "data"


def main_file(folder: str) -> str:
    """The path of the main file that a recording in a folder has."""
    return os.path.join(folder, MAIN_FILE)
