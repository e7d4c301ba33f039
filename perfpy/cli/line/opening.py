"""Opening the recording that a reading command works on.

What enters: what -i, -f and -q say. What leaves: an open Recording; when it
is closed, what could not be read of it goes to standard error.
"""

from __future__ import annotations

import os
import stat
import sys

from perfpy.untrusted.text import one_line

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from perfpy.recording import Recording

_DEFAULT_FILE = "perf.data"
_PIPE = "-"


def open_recording(path: str, *, force: bool, quiet: bool = False, verbose: int = 0, as_stored: bool = False) -> OpenRecording:
    """The recording at a path; "": the default.

    force: whoever owns it; quiet: nothing is said of what could not be read; verbose: its build-ids are, as by perf's -v;
    as_stored: its records are wanted as they stand in the file, not by time.
    The `with` statement raises BadPerfDataError when it cannot be read, or belongs
    to somebody else and `force` is not given.
    """
    return OpenRecording(path, force=force, quiet=quiet, verbose=verbose, as_stored=as_stored)


class OpenRecording:
    """Opens a recording for a `with` statement. (No contextmanager: see perfpy.cli.)"""

    __slots__ = ("_as_stored", "_force", "_path", "_quiet", "_recording", "_verbose")

    def __init__(self, path: str, *, force: bool, quiet: bool, verbose: int, as_stored: bool) -> None:
        self._path = path
        self._force = force
        self._quiet = quiet
        self._verbose = verbose
        self._as_stored = as_stored

    def __enter__(self) -> Recording:
        # reading is not needed for help
        from perfpy.recording import Recording

        without_idle_threads()
        self._recording = Recording(self._path or default_input(), check_owner=not self._force, as_stored=self._as_stored)
        self._recording.data.watch_cuts()
        if self._verbose and not self._quiet:
            _say_build_ids(self._recording)
        return self._recording

    def __exit__(self, *error: object) -> None:
        self._recording.close()
        if not self._quiet:
            for warning in self._recording.warnings:
                print(one_line(f"Warning: {self._recording.path}: {warning}"), file=sys.stderr)


def without_idle_threads() -> None:
    """numpy, when it comes, need not start threads for linear algebra: they spin for 50 ms.

    The commands that run programs of the user's do not come here.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _say_build_ids(recording: Recording) -> None:
    """What the file says of files and PMUs, in perf's words: people paste it into bug reports."""
    features = recording.data.features
    for entry in features.get("build_id", ()):
        print(one_line(f"build id event received for {entry.filename}: {entry.build_id.hex()} [{len(entry.build_id)}]"), file=sys.stderr)
    for name, words in (("cpu_pmu_caps", "cpu pmu capabilities"), ("pmu_caps", "pmu capabilities")):
        if name in features and not features[name]:
            print(f"{words} not available", file=sys.stderr)


def default_input() -> str:
    """A pipe on standard input where there is one, else perf.data."""
    try:
        return _PIPE if stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode) else _DEFAULT_FILE
    except (OSError, ValueError, AttributeError):  # no standard input
        return _DEFAULT_FILE


def input_hint(word: str) -> str:
    """What to say of a word that names a file, where no file was expected; "" for other words."""
    return f"; did you mean -i {word}?" if os.path.isfile(word) else ""
