"""A perf that waits for addr2line, for comparisons of inlined calls and source lines."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: milliseconds. perf waits for an answer for a few seconds; on a busy machine it then shows no inlined calls and no line.
PATIENCE = 120_000


def patient(folder: Path) -> dict[str, str]:
    """Return the environment of a perf that waits long for addr2line; its configuration is written into the folder."""
    configuration = folder / "patient.perfconfig"
    configuration.write_text(f"[core]\n\taddr2line-timeout = {PATIENCE}\n")
    return {**os.environ, "PERF_CONFIG": str(configuration)}
