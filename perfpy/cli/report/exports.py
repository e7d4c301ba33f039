"""`perfpy report --flamegraph, --folded, --speedscope, --firefox, --pprof`: write whole stacks in other formats."""

from __future__ import annotations

import os
import re
from functools import cached_property
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import PerfType, SoftwareId
from perfpy.cli.line.options import fail
from perfpy.cli.output.notes import print_notes
from perfpy.cli.output.output_files import write_bytes
from perfpy.unwind.truncated_stacks import note

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.abi.attr import EventAttr
    from perfpy.analysis.filters.sample_filter import SampleFilter
    from perfpy.analysis.stacks.stacks import Stacks
    from perfpy.cli.report.options import ReportCommandOptions
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.views.page.recorded_page import PageParts

#: Formats that do not need addresses within functions.
BY_FUNCTION: Final = ("flamegraph", "folded")
#: Characters not used in file names.
_NO_NAME: Final = re.compile(r"[^\w.:=,+-]")

#: Options about tables and rows, which exports do not have; JSON beside them has tables.
_OF_TABLES: Final = ("sort", "fields", "hierarchy", "percent_limit")
_OF_ROWS: Final = ("parent", "exclude_other", "ignore_callees", "hide_unresolved", "branch_stack", "mem_mode")


def write_exports(recording: Recording, options: ReportCommandOptions, sample_filter: SampleFilter, symbols: SymbolOptions) -> None:
    """Write every format that the options select."""
    refuse_row_options(options)
    export_stacks = _ExportStacks(recording, options, sample_filter, symbols)
    makers: dict[str, Callable[[], bytes]] = {
        "flamegraph": lambda: export_stacks.page().encode(errors="replace"),
        "speedscope": lambda: _speedscope(recording, export_stacks.with_sites),
        "firefox": lambda: _firefox(recording, export_stacks.with_sites, symbols),
        "pprof": lambda: _pprof(recording, export_stacks.with_sites),
    }
    stacks: Sequence[Stacks] = ()
    with recording.shared_symbols:
        for name, path in options.exports.items():
            stacks = export_stacks.whole if name in BY_FUNCTION else export_stacks.with_sites
            if not stacks:
                from perfpy.cli.line.empty_results import print_nothing_left  # few reports are empty

                if not options.quiet:
                    print_nothing_left(recording, sample_filter, symbols)
                return
            if name == "folded":
                write_folded(stacks, path, quiet=options.quiet)
            else:
                write_bytes(path, makers[name](), quiet=options.quiet)
    print_notes(note(stacks[0].truncated), quiet=options.quiet, verbose=options.verbose)


class _ExportStacks:
    """The stacks of a recording, read once for each kind of stacks that the formats need."""

    def __init__(self, recording: Recording, options: ReportCommandOptions, sample_filter: SampleFilter, symbols: SymbolOptions) -> None:
        self._recording = recording
        self._options = options
        self._filter = sample_filter
        self._symbols = symbols

    @cached_property
    def _page_parts(self) -> PageParts:
        from perfpy.recording.page_parts import page_parts

        options = self._options
        return page_parts(self._recording, self._filter, self._symbols, latency=options.latency, code=options.source)

    def page(self) -> str:
        """Return the page."""
        from perfpy.views.page.recorded_page import page_of

        return page_of(self._recording, self._page_parts, self._symbols, self._filter, code=self._options.source)

    @cached_property
    def whole(self) -> Sequence[Stacks]:
        """Stacks of functions, with single samples for the page."""
        options = self._options
        if options.flamegraph is not None:
            return self._page_parts.stacks
        return self._recording.stacks(self._symbols, sample_filter=self._filter, latency=options.latency, jobs=options.jobs)

    @cached_property
    def with_sites(self) -> list[Stacks]:
        """Stacks with addresses and lines, with single samples if a format needs them."""
        from perfpy.views.stacks.time_order import MOST_SAMPLES

        options, has_marks = self._options, self._options.firefox is not None
        is_ordered = options.speedscope is not None and self._recording.data.sample_counts.total() <= MOST_SAMPLES
        more = {"timed": has_marks or is_ordered, "payloads": has_marks, "threads": options.pprof is not None}
        return self._recording.stacks(
            self._symbols, sample_filter=self._filter, latency=options.latency, sites=True, **more, jobs=options.jobs
        )


def refuse_row_options(options: ReportCommandOptions) -> None:
    """Raise UsageError for options about rows, which exports do not have."""
    excluded = options.given(*(() if options.json is not None else _OF_TABLES), *_OF_ROWS)
    if excluded:
        fail(f"flame graphs and other exports have no rows; drop {', '.join(excluded)}")


def page_of_changes(
    recordings: Sequence[Recording], stacks: Sequence[Sequence[Stacks]], *, ignore_comm: bool | None, full_names: bool
) -> str:
    """Return the page of changes from the first to the second recording."""
    from perfpy.analysis.stacks.matching import match_names
    from perfpy.symbols.demangling.short_names import without_instance

    before, after = recordings
    return before.page_of_changes(after, match_names(*stacks, ignore_comm=ignore_comm, name=str if full_names else without_instance))


def write_folded(stacks: Sequence[Stacks], path: str, *, quiet: bool) -> None:
    """Write the stacks of one event to a file, because the format has no units, and those of other events to files beside it."""
    from perfpy.views.stacks.exports import folded_lines

    first, *others = stacks
    file_of = {path: first}
    if path != "-":
        for part in others:
            file_of.setdefault(_beside(path, part.event), part)
    elif others:
        names = ", ".join(part.event for part in others)
        print_notes([f"writing the stacks of {first.event} only; select other events with --event: {names}"], quiet=quiet)
    for file, part in file_of.items():
        write_bytes(file, "".join(f"{line}\n" for line in folded_lines(part)).encode(errors="surrogateescape"), quiet=quiet)


def _beside(path: str, event: str) -> str:
    """Return a name such as stacks-page-faults.txt for stacks.txt."""
    stem, extension = os.path.splitext(path)
    return f"{stem}-{_NO_NAME.sub('_', event)[:100]}{extension}"


def _speedscope(recording: Recording, stacks: Sequence[Stacks]) -> bytes:
    from perfpy.views.stacks.exports import speedscope

    return speedscope(stacks, recording.title).encode(errors="replace")


def _firefox(recording: Recording, stacks: Sequence[Stacks], symbols: SymbolOptions) -> bytes:
    from perfpy.views.page.marks import make_marks
    from perfpy.views.stacks.firefox import Heading, firefox

    header = recording.header
    system = " ".join(str(header[name]) for name in ("osrelease", "arch") if header.get(name))
    count = header.get("nrcpus")
    heading = Heading(recording.title, start_time(recording) / 1e9, system, str(header.get("cpudesc") or ""), count.online if count else 0)
    words = recording.payload_texts(symbols) if any(part.tracepoint for part in stacks) else None
    marks = make_marks(recording, [part for part in stacks if not part.tracepoint], symbols, sampled_only=True)
    return firefox(stacks, heading, words, marks.rows).encode(errors="replace")


def _pprof(recording: Recording, stacks: Sequence[Stacks]) -> bytes:
    from perfpy.analysis.report.report import cgroup_names
    from perfpy.views.stacks.pprof import Metadata, pprof

    times = recording.times()
    metadata = Metadata(
        start=start_time(recording),
        duration=max(times.last - times.first, 0),
        period=_period(recording.events[0].attr),
        comments=[recording.title, ", ".join(recording.environment)],
        host=str(recording.header.get("hostname") or ""),
        cgroups=cgroup_names(recording.data) if any(part.cgroup is not None for part in stacks) else {},
    )
    return pprof(stacks, metadata)


def start_time(recording: Recording) -> int:
    """Return the first sample's time in ns since 1970, from the recorded clock, or else from the file's modification time."""
    times, clocks = recording.times(), recording.header.get("clock_data")
    if clocks is not None:
        return max(int(clocks.wall_clock_ns + times.first - clocks.clockid_ns), 0)
    return max(int(recording.data.modification_time * 1e9) - max(times.last - times.first, 0), 0)


def _period(attr: EventAttr) -> int:
    """Return the period between samples; ns for clocks sampled by frequency, 0 for other frequencies."""
    if not attr.freq:
        return attr.sample_period
    is_clock = attr.type == PerfType.SOFTWARE and attr.config in (SoftwareId.CPU_CLOCK, SoftwareId.TASK_CLOCK)
    return round(1e9 / attr.sample_freq) if is_clock and attr.sample_freq else 0
