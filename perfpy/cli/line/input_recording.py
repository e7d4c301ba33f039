"""Open the recording that a command or tool reads, for -i, -f and -v. Its warnings are printed on stderr when it is closed."""

from __future__ import annotations

import os
import stat
import sys

from perfpy.abi.flags import MISC_LOST_SAMPLES_BPF, RecordType
from perfpy.errors import PerfError, plural
from perfpy.untrusted.text import one_line

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from perfpy.abi.perf_records import TraceDetails
    from perfpy.perfdata.reader import PerfData
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions

_DEFAULT_FILE = "perf.data"
_PIPE = "-"
LOSSES = (RecordType.LOST, RecordType.LOST_SAMPLES)
_FEW_LOST = 0.05  # as in perf, a smaller share of lost samples is not told
_SMALL = 4 << 20  # a file in bytes: its columns are too few for the allocator's settings to matter


def open_recording(
    path: str,
    *,
    force: bool,
    quiet: bool = False,
    verbose: int = 0,
    as_stored: bool = False,
    keeps_memory: bool = False,
    losses: Collection[int] = LOSSES,
    itrace: str | None = None,
    trace_details: TraceDetails | None = None,
    code: SymbolOptions | None = None,
) -> OpenRecording:
    """Open the recording at a path; "" is the default input.

    The `with` statement raises BadPerfDataError if the file is unreadable, or belongs to another user without `force`.

    Args:
        force: skip the ownership check.
        quiet: print no warnings.
        verbose: print build-ids, as perf's -v does.
        as_stored: keep the records in file order instead of sorting them by time.
        keeps_memory: keep freed memory in this process, which is faster for many large columns that are used briefly.
        losses: types of the records of losses to warn of if the command has read the records; the command shows the others itself.
        itrace: decode a hardware trace into these kinds of samples, "" for perf's default; None to read what was recorded.
        trace_details: what the command needs of that trace besides.
        code: where to look for the code that the trace ran through.
    """
    return OpenRecording(
        path,
        force=force,
        quiet=quiet,
        verbose=verbose,
        as_stored=as_stored,
        keeps_memory=keeps_memory,
        losses=losses,
        itrace=itrace,
        trace_details=trace_details,
        code=code,
    )


class OpenRecording:
    """A context manager for a recording. (contextlib's is too slow to import, see perfpy.cli.)"""

    __slots__ = (
        "_as_stored", "_code", "_details", "_force", "_itrace", "_keeps_memory", "_losses", "_path", "_quiet", "_recording", "_verbose",
    )  # fmt: skip

    def __init__(
        self,
        path: str,
        *,
        force: bool,
        quiet: bool,
        verbose: int,
        as_stored: bool,
        keeps_memory: bool,
        losses: Collection[int],
        itrace: str | None,
        trace_details: TraceDetails | None,
        code: SymbolOptions | None,
    ) -> None:
        self._path = path
        self._force = force
        self._quiet = quiet
        self._verbose = verbose
        self._as_stored = as_stored
        self._keeps_memory = keeps_memory
        self._losses = losses
        self._itrace, self._details, self._code = itrace, trace_details, code

    def __enter__(self) -> Recording:
        # --help does not read recordings.
        from perfpy.cli.line.numpy_start import prepare_numpy

        prepare_numpy()
        from perfpy.recording import Recording

        path = self._path or default_input()
        self._recording = Recording(
            path,
            check_owner=not self._force,
            as_stored=self._as_stored,
            itrace=self._itrace,
            trace_details=self._details,
            symbols=self._code,
        )
        self._recording.data.watch_cuts()
        if self._keeps_memory and self._recording.data.size > _SMALL:
            from perfpy.workers import keep_freed_memory

            keep_freed_memory()
        if self._verbose and not self._quiet:
            _print_build_ids(self._recording)
        return self._recording

    def __exit__(self, *error: object) -> None:
        self._recording.close()
        if not self._quiet:
            for warning in [*self._recording.warnings, *_loss_warnings(self._recording.data, self._losses)]:
                print(one_line(f"Warning: {self._recording.path}: {warning}"), file=sys.stderr)


def _loss_warnings(data: PerfData, types: Collection[int]) -> Iterator[str]:
    """Yield a line about what the kernel lost, by perf's rules and numbers. Nothing is read for it."""
    if not types or not data.is_indexed:
        return
    index = data.record_index
    lost = []
    if RecordType.LOST in types and (chunks := index.type_counts[RecordType.LOST]):
        lost.append(f"{chunks} {plural(chunks, 'chunk')} of events beside {index.type_counts.total()} records")
    if RecordType.LOST_SAMPLES in types and index.type_counts[RecordType.LOST_SAMPLES]:
        records = (side.record for side in data.side_band([RecordType.LOST_SAMPLES]))
        count = sum(record.lost for record in records if not record.misc & MISC_LOST_SAMPLES_BPF)
        all_samples = index.type_counts[RecordType.SAMPLE] + count
        if count > _FEW_LOST * all_samples:
            lost.append(f"{100 * count / all_samples:.2f}% of {all_samples} samples")
    if lost:
        yield f"lost {' and '.join(lost)}; record with a larger buffer (-m)"


def _print_build_ids(recording: Recording) -> None:
    """Print the file's build-ids and PMU capabilities in perf's words, because people paste them into bug reports."""
    features = recording.data.features
    for entry in features.get("build_id", ()):
        print(one_line(f"build id event received for {entry.filename}: {entry.build_id.hex()} [{len(entry.build_id)}]"), file=sys.stderr)
    for name, words in (("cpu_pmu_caps", "cpu pmu capabilities"), ("pmu_caps", "pmu capabilities")):
        if name in features and not features[name]:
            print(f"{words} not available", file=sys.stderr)


def refuse_call_stacks_of_branches(recording: Recording) -> None:
    """Carry out --stitch-lbr: raise PerfError if callchains are call stacks of branch records, else warn that it has no effect."""
    from perfpy.analysis.callchains import has_callstacks

    if any(has_callstacks(event.attr) for event in recording.events):
        raise PerfError(f"{recording.path}: perfpy does not join call stacks of branch records; drop --stitch-lbr")
    print("no call stacks of branch records (record --call-graph lbr); --stitch-lbr has no effect", file=sys.stderr)


def default_input() -> str:
    """Return "-" if standard input is a pipe, else perf.data."""
    try:
        return _PIPE if stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode) else _DEFAULT_FILE
    except (OSError, ValueError, AttributeError):  # no standard input
        return _DEFAULT_FILE


def input_hint(word: str) -> str:
    """Return a hint to use -i if a misplaced word is the name of a file, else ""."""
    return f"; did you mean -i {word}?" if os.path.isfile(word) else ""
