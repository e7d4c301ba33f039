"""What others control passes through the doors: nothing else of the package does what they are for."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pytest

PACKAGE: Final = Path(__file__).resolve().parents[1] / "perfpy"
MODULES: Final = {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}

# -- terminals: perfpy.untrusted.terminal stands before standard output and standard error

#: who may name descriptors 1 and 2 past the streams: to throw away what cannot be written, to write a recording to a pipe
PAST_THE_STREAMS: Final = {"cli/__init__.py", "capture/stat/count_file.py", "untrusted/terminal.py", "capture/record/output.py"}
#: who makes a rich console
CONSOLES: Final = {"cli/screen_console.py"}


def attribute(node: ast.AST) -> str:
    return ast.unparse(node) if isinstance(node, ast.Attribute) else ""


@pytest.mark.parametrize("module", MODULES)
def test_nobody_goes_past_the_streams(module: str) -> None:
    """sys.__stdout__, a duplicate of the descriptor, os.write to 1 or 2: none of them is cleaned."""
    found = []
    for node in ast.walk(MODULES[module]):
        if attribute(node) in ("sys.__stdout__", "sys.__stderr__", "sys.stdout.fileno", "sys.stderr.fileno"):
            found.append(f"line {node.lineno}: {attribute(node)}")  # type: ignore[attr-defined]
        if (
            isinstance(node, ast.Call)
            and attribute(node.func) in ("os.write", "os.writev", "os.sendfile", "os.fdopen", "open")
            and node.args
        ):
            first = node.args[0]
            if isinstance(first, ast.Constant) and first.value in (1, 2):
                found.append(f"line {node.lineno}: {ast.unparse(node)}")
    assert not found or module in PAST_THE_STREAMS, found


@pytest.mark.parametrize("module", MODULES)
def test_control_sequences_are_written_by_the_door_alone(module: str) -> None:
    """A literal with ESC or a carriage return goes out through `control`, or it would be shown."""
    tree = MODULES[module]
    trusted = {
        id(part) for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "control" for part in ast.walk(node)
    }
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = [
        f"line {node.lineno}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\x1b" in node.value
        if id(node) not in trusted and id(node) not in docs
    ]
    assert not found or module == "untrusted/terminal.py", found


@pytest.mark.parametrize("module", MODULES)
def test_consoles_are_made_in_one_place(module: str) -> None:
    made = [node.lineno for node in ast.walk(MODULES[module]) if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Console")]
    allowed = {"cli/screen_console.py", "cli/terminal.py"}
    assert not made or module in allowed, made


def test_the_screen_console_is_the_only_one_of_rich() -> None:
    users = {
        module
        for module, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "rich.console" and not _for_types(tree, node)
    }
    assert users == CONSOLES


def _for_types(tree: ast.Module, wanted: ast.AST) -> bool:
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    return any(wanted is node for block in blocks for node in ast.walk(block))
