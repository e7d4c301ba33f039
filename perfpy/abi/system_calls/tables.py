"""Read the tables beside this module: lines of words between tabs; lines that begin with # are comments."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_FOLDER = os.path.dirname(__file__)


def read_rows(name: str) -> Iterator[list[str]]:
    """Yield the rows of a table."""
    with open(os.path.join(_FOLDER, name), encoding="utf-8") as table:
        for line in table:
            if not line.isspace() and not line.startswith("#"):
                yield line.rstrip("\n").split("\t")
