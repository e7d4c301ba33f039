"""The Python interpreters of this machine, by version, and programs run by them below perfpy's startup folder."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from perfpy.capture.runtimes.cpython_attach import STARTUP

if TYPE_CHECKING:
    from collections.abc import Sequence

#: those that get their trampolines from us
WITHOUT_TRAMPOLINES = ("3.8", "3.9", "3.10", "3.11")


@cache
def interpreter(version: str) -> str:
    """The path of a CPython, or ""."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    # HOME is another one in tests
    installed = sorted((Path(pwd.getpwuid(os.geteuid()).pw_dir) / ".pyenv" / "versions").glob(f"{version}.*/bin/python{version}"))
    return shutil.which(f"/usr/bin/python{version}") or (str(installed[0]) if installed else "") or shutil.which(f"python{version}") or ""


def run(
    python: str, program: str | Path, *arguments: str, named: bool = True, launcher: Sequence[str] = (), **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a program, with its functions named or as it is; `launcher` stands in front of the command."""
    base = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | variables
    path = ":".join([STARTUP, *filter(None, [base.get("PYTHONPATH")])])
    environ = {**base, "PYTHONPATH": path} if named else base
    command = [*launcher, python, *(["-c", program] if isinstance(program, str) else [str(program)]), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environ, timeout=120, check=False)
