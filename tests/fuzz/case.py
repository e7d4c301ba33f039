"""Case: what one run gets, and cases in a folder.

Input: a target's arguments and files. Output: a folder with an
index.json and the files' bytes, and cases again.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

INDEX = "index.json"


@dataclass(frozen=True)
class Case:
    """One run. target: of tests.fuzz.targets; args: of the command; files: relative path -> bytes; stdin: a file that is piped in."""

    target: str
    args: tuple[str, ...]
    files: dict[str, bytes]
    stdin: str = ""
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """The command line, for people."""
        return " ".join([self.target, *map(repr, self.args)]) + (f" < {self.stdin}" if self.stdin else "")


def save(folder: Path, name: str, case: Case, failure: str) -> None:
    """Add a case to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {path: f"{name}-{re.sub(r'[^A-Za-z0-9.]+', '-', path)}.bin" for path in case.files}
    for path, data in case.files.items():
        (folder / files[path]).write_bytes(data)
    index = _index(folder)
    index[name] = {
        "failure": failure, "target": case.target, "args": case.args, "stdin": case.stdin, "environ": case.environ, "files": files,
    }  # fmt: skip
    (folder / INDEX).write_text(json.dumps(index, indent=1) + "\n")


def saved(folder: Path) -> dict[str, Case]:
    """The cases of a folder."""
    return {
        name: Case(
            entry["target"], tuple(entry["args"]), {path: (folder / file).read_bytes() for path, file in entry["files"].items()},
            entry["stdin"], entry["environ"],
        )
        for name, entry in _index(folder).items()
    }  # fmt: skip


def _index(folder: Path) -> dict[str, Any]:
    index = folder / INDEX
    result: dict[str, Any] = json.loads(index.read_text()) if index.exists() else {}
    return result
