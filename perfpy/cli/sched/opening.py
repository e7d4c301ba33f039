"""Open the recording that an action of `perfpy sched` reads."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from perfpy.cli.line.opening import open_recording
from perfpy.cli.line.options import fail

if TYPE_CHECKING:
    from perfpy.cli.line.opening import OpenRecording
    from perfpy.cli.sched.options import SchedOptions
    from perfpy.recording import Recording


def open_sched(options: SchedOptions) -> OpenRecording:
    """Return the context manager for the input."""
    return open_recording(options.input, force=options.force, verbose=options.verbose, keeps_memory=True)


def dump_records(recording: Recording, options: SchedOptions) -> None:
    """Print all records for -D."""
    if options.dump_raw_trace:
        dump_all(recording)


def dump_all(recording: Recording) -> None:
    """Print all records of a recording."""
    from perfpy.views.dump.recording import write_dump

    sys.stdout.flush()
    write_dump(recording, sys.stdout.buffer)
    sys.stdout.buffer.flush()


def chosen_cpus(text: str) -> frozenset[int] | None:
    """Return the CPUs of -C; None for all."""
    if not text:
        return None
    from perfpy.abi.cpu_list import parse_cpu_list

    try:
        return frozenset(parse_cpu_list(text))
    except ValueError as error:
        fail(f"-C {text!r}: {error}")
