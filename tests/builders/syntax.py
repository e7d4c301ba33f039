"""Syntax trees of the source, parsed once for all tests that hold a rule over it."""

from __future__ import annotations

import ast
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@cache
def syntax_of(path: Path) -> ast.Module:
    """Return the tree of one file. It is shared: do not change it."""
    return ast.parse(path.read_text())
