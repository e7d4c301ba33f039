"""Emulated machines with a PMU: a command runs there as root, with perfpy and files of a test's beside it.

Input: PERFPY_GUESTS, a folder with run-ARCH scripts and images (tests/guests/README.md). Output:
what the command said. A guest boots anew for each command, in 10 to 40 s.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

VARIABLE = "PERFPY_GUESTS"
CHECKOUT = Path(__file__).resolve().parents[2]
NEVER_RAN, OUT_OF_TIME = 125, 124
#: guest -> the image that it boots
IMAGES = {"arm64": "arm64", "ppc64el": "ppc64el", "ppc64el-pmi": "ppc64el", "riscv64": "riscv64", "s390x": "s390x"}


class Said(NamedTuple):
    """The output of a command in a guest, both streams, and its exit status."""

    text: str
    status: int

    def section(self, name: str) -> str:
        """Return the lines between `== name` and the next line of that form."""
        return self.text.split(f"== {name}\n", 1)[1].split("\n== ", 1)[0]


class Guest:
    """One machine. folder: its current directory; files written there remain."""

    def __init__(self, name: str, testbed: Path, folder: Path) -> None:
        self.name = name
        self.testbed = testbed
        self.folder = folder

    def run(self, script: str, *, seconds: int = 900) -> Said:
        """Run a bash script as root; `perfpy` is a command there."""
        (self.folder / "script").write_text(f'perfpy() {{ PYTHONPATH=/host python3 -m perfpy "$@"; }}\n{script}\n')
        command = [str(self.testbed / f"run-{self.name}"), "-t", str(seconds), "-s", str(self.folder), "bash script 2>&1"]
        process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds + 60, errors="replace")
        assert process.returncode not in (NEVER_RAN, OUT_OF_TIME), process.stdout + process.stderr
        return Said(process.stdout.replace("\r\n", "\n"), process.returncode)


def why_not(name: str) -> str:
    """Return the reason why a guest is missing; "" if it exists."""
    folder = os.environ.get(VARIABLE, "")
    if not folder:
        return f"no emulated guests: set {VARIABLE} to a folder with run-{name} (tests/guests/README.md)"
    if not (Path(folder) / f"run-{name}").exists():
        return f"{folder} has no run-{name}"
    image = Path(folder) / "images" / IMAGES[name]
    return "" if (image / "root.img").exists() else f"{image} has no root.img"


def guest(name: str, folder: Path) -> Guest:
    """Return a guest with perfpy in a new folder; call why_not() first."""
    shutil.copytree(CHECKOUT / "perfpy", folder / "perfpy", ignore=shutil.ignore_patterns("__pycache__"))
    return Guest(name, Path(os.environ[VARIABLE]).resolve(), folder)
