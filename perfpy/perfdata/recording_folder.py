"""Recordings that are folders (perf record --threads): a main file, and one file for each recording thread.

Layout: perf.data-directory-format.txt in the documentation of perf.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Final

MAIN_FILE: Final = "data"


def main_file(folder: str) -> str:
    """Return the path of the main file of a recording in a folder."""
    return os.path.join(folder, MAIN_FILE)
