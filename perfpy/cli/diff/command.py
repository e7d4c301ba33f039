"""`perfpy diff`: compare recordings, or two groups of them.

The first recording is the baseline. The output is perf's plain text; on a terminal, or with --noise, changes beyond sampling
noise are marked. Other formats are JSON and a flame graph of the differences.
"""

from __future__ import annotations

import errno
import os
from contextlib import ExitStack
from typing import Final

from perfpy.cli.diff.options import DiffCommandOptions
from perfpy.cli.line.options import PerfCommand, fail
from perfpy.errors import PerfError
from perfpy.perfdata.recording_folder import main_file
from perfpy.perfdata.tables_folder import recordings_in

_DEFAULT_FILES: Final = ("perf.data.old", "perf.data")


def run(options: DiffCommandOptions) -> int:
    """Compare recordings (default: perf.data.old and perf.data)."""
    # everything after the options needs numpy
    from perfpy.cli.diff.run import DiffRun
    from perfpy.cli.line.opening import open_recording

    if options.field_separator == ".":
        fail("-t .: numbers contain dots; choose another separator")
    if groups := _groups(options):
        from perfpy.cli.diff.groups import GroupDiffRun

        return GroupDiffRun(groups, options).show()
    paths = _paths(options.files)
    _refuse_missing_baseline(options.files)
    with ExitStack() as stack:
        recordings = [
            stack.enter_context(open_recording(path, force=options.force, quiet=options.quiet, verbose=options.verbose)) for path in paths
        ]
        if options.with_off_cpu:
            for recording in recordings:
                recording.merge_off_cpu()
        return DiffRun(recordings, paths, options).show()


def _paths(recordings: tuple[str, ...]) -> list[str]:
    """Return the recordings to compare: a single one is compared with perf.data.old."""
    return list(recordings) if len(recordings) > 1 else [_DEFAULT_FILES[0], recordings[0] if recordings else _DEFAULT_FILES[1]]


def _refuse_missing_baseline(recordings: tuple[str, ...]) -> None:
    """Raise PerfError with advice if the implied perf.data.old is missing, because its name is not on the command line."""
    old = _DEFAULT_FILES[0]
    if len(recordings) < 2 and not os.path.exists(old):
        other = recordings[0] if recordings else _DEFAULT_FILES[1]
        advice = f"name two recordings: perfpy diff BASELINE {other}"
        raise PerfError(f"{old}: cannot open: {os.strerror(errno.ENOENT)}; it is the default baseline for {other}; {advice}")


def _groups(options: DiffCommandOptions) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the names of both groups' recordings; None to compare single recordings."""
    if options.before or options.after:
        if options.files:
            fail(f"{options.files[0]}: excess argument; quote patterns, and repeat --before and --after")
        if not (options.before and options.after):
            fail("--before and --after require each other")
        return options.before, options.after
    if not any(map(_is_group, options.files)):
        return None
    if len(options.files) != 2:
        fail("expected two groups, each a folder or a quoted pattern; for more files repeat --before and --after")
    return options.files[:1], options.files[1:]


def _is_group(name: str) -> bool:
    """Whether the name is a pattern, or a folder of recordings."""
    if exported := recordings_in(name):
        return len(exported) > 1
    if os.path.isdir(name):
        return not os.path.exists(main_file(name))  # otherwise it is one recording (record --threads)
    return not os.path.exists(name) and any(letter in name for letter in "*?[")


command = PerfCommand(DiffCommandOptions, run)
