"""Warnings about recordings of a group that could not be read, and the exit status for them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.fleet.portable.profile import RecordingProblem
    from perfpy.fleet.recordings import Recordings

#: Exit status of a command whose result lacks some of its recordings.
SOME_FAILED: Final = 91


def warn_of_failed_recordings(groups: Sequence[Recordings], *, quiet: bool) -> int:
    """Print a line on stderr for each recording that could not be read, wholly or in part. Return the exit status: 0 if all were read."""
    for recordings in () if quiet else groups:
        for path, text in _merge_equal(recordings.warnings):
            print(one_line(f"Warning: {path}: {text}"), file=sys.stderr)
        for path, reason in recordings.failed:
            print(one_line(f"Warning: {path}: skipped: {reason}"), file=sys.stderr)
    return SOME_FAILED if any(recordings.failed for recordings in groups) else 0


def _merge_equal(warnings: Sequence[RecordingProblem]) -> Iterator[tuple[str, str]]:
    """Yield each different warning once, with the first path and the number of others."""
    paths_of_text: dict[str, list[str]] = {}
    for path, text in warnings:
        paths_of_text.setdefault(text, []).append(path)
    for text, paths in paths_of_text.items():
        yield paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more", text
