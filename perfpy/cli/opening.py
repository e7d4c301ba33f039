"""Opening the recording that a reading command works on.

What enters: the values of -i and -f. What leaves: an open Recording; when it
is closed, what could not be read of it goes to standard error.
"""

from __future__ import annotations

import os
import stat
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from perfpy.recording import Recording

_DEFAULT_FILE = "perf.data"
_PIPE = "-"


@contextmanager
def open_recording(values: Mapping[str, Any], *, as_stored: bool = False) -> Iterator[Recording]:
    """The recording that a command's values `input`, `force` and (where it has one) `quiet` ask for.

    as_stored: its records are wanted as they stand in the file, not by time.
    Raises BadPerfData when it cannot be read, or belongs to somebody else and
    `force` is not given.
    """
    # reading is not needed for help
    from perfpy.recording import Recording

    # numpy, when it comes, need not start threads for linear algebra: they spin for 50 ms. The commands that
    # run programs of the user's do not come here
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    recording = Recording(values["input"] or default_input(), check_owner=not values["force"], as_stored=as_stored)
    try:
        with recording:
            yield recording
    finally:
        if not values.get("quiet"):
            for warning in recording.warnings:
                print(f"Warning: {recording.path}: {warning}", file=sys.stderr)


def default_input() -> str:
    """A pipe on standard input where there is one, else perf.data."""
    try:
        return _PIPE if stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode) else _DEFAULT_FILE
    except (OSError, ValueError, AttributeError):  # no standard input
        return _DEFAULT_FILE
