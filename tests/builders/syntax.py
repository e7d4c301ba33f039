"""Syntax trees of the source, parsed once for all tests that hold a rule over it."""

from __future__ import annotations

import ast
import gc
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@cache
def syntax_of(path: Path) -> ast.Module:
    """Return the tree of one file. It is shared: do not change it."""
    was_enabled = gc.isenabled()
    gc.disable()  # a tree has no garbage, and the collector would walk all trees again and again
    try:
        return ast.parse(path.read_text())
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of one file, each before its children."""
    return tuple(ast.walk(syntax_of(path)))
