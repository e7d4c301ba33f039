"""`perfpy report --flamegraph, --folded, --speedscope, --firefox, --pprof`: write whole stacks in other formats."""

from __future__ import annotations

import os
import re
from functools import cached_property
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import PerfType, SoftwareId
from perfpy.cli.line.notes import tell
from perfpy.cli.line.options import fail
from perfpy.cli.line.output_files import write_bytes
from perfpy.unwind.truncated_stacks import note

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.abi.attr import EventAttr
    from perfpy.analysis.filters.sample_filter import SampleFilter
    from perfpy.analysis.stacks.stacks import Stacks
    from perfpy.cli.report.options import ReportCommandOptions
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions

#: Formats that do not need addresses within functions.
BY_FUNCTION: Final = ("flamegraph", "folded")
#: Characters not used in file names.
_NO_NAME: Final = re.compile(r"[^\w.:=,+-]")


def write_exports(recording: Recording, asked: ReportCommandOptions, sample_filter: SampleFilter, symbols: SymbolOptions) -> None:
    """Write every format that the options select."""
    refuse_what_stacks_have_not(asked)
    made = _WantedStacks(recording, asked, sample_filter, symbols)
    makers: dict[str, Callable[[], bytes]] = {
        "flamegraph": lambda: page(recording, made.whole, sample_filter, symbols, source=asked.source).encode(errors="replace"),
        "speedscope": lambda: _speedscope(recording, made.with_sites),
        "firefox": lambda: _firefox(recording, made.with_sites, symbols),
        "pprof": lambda: _pprof(recording, made.with_sites),
    }
    stacks: Sequence[Stacks] = ()
    for name, path in asked.exports.items():
        stacks = made.whole if name in BY_FUNCTION else made.with_sites
        if not stacks:
            from perfpy.cli.line.nothing_left import say_why_nothing  # few reports are empty

            if not asked.quiet:
                say_why_nothing(recording, sample_filter, symbols)
            return
        if name == "folded":
            write_folded(stacks, path, quiet=asked.quiet)
        else:
            write_bytes(path, makers[name](), quiet=asked.quiet)
    tell(note(stacks[0].truncated), quiet=asked.quiet, verbose=asked.verbose)


class _WantedStacks:
    """The stacks of a recording, read once for each kind of stacks that the formats need."""

    def __init__(self, recording: Recording, asked: ReportCommandOptions, sample_filter: SampleFilter, symbols: SymbolOptions) -> None:
        self._recording = recording
        self._asked = asked
        self._filter = sample_filter
        self._symbols = symbols

    @cached_property
    def whole(self) -> list[Stacks]:
        """Stacks of functions, with single samples for the page."""
        from perfpy.views.page.profile_data import MOST_ROWS

        wanted = self._asked
        timed, latency = wanted.flamegraph is not None, wanted.latency
        return self._recording.stacks(
            self._symbols, sample_filter=self._filter, timed=timed, most_samples=MOST_ROWS, latency=latency, jobs=wanted.jobs
        )

    @cached_property
    def with_sites(self) -> list[Stacks]:
        """Stacks with addresses and lines, with single samples if a format needs them."""
        wanted, timed = self._asked, self._asked.firefox is not None
        return self._recording.stacks(
            self._symbols, sample_filter=self._filter, timed=timed, latency=wanted.latency, sites=True, payloads=timed, jobs=wanted.jobs
        )


def refuse_what_stacks_have_not(asked: ReportCommandOptions) -> None:
    """Raise UsageError for options about rows, which exports do not have."""
    tables = {"--sort": asked.sort, "--fields": asked.fields, "--hierarchy": asked.hierarchy, "--percent-limit": asked.percent_limit}
    rows = {
        "--parent": asked.parent,
        "--exclude-other": asked.exclude_other,
        "--ignore-callees": asked.ignore_callees,
        "--hide-unresolved": asked.hide_unresolved,
        "--branch-stack": asked.branch_stack,
        "--mem-mode": asked.mem_mode,
    }
    lost = rows if asked.json is not None else tables | rows
    given = [spelling for spelling, value in lost.items() if value]
    if given:
        fail(f"flame graphs and other exports have no rows; drop {', '.join(given)}")


def page(recording: Recording, stacks: Sequence[Stacks], sample_filter: SampleFilter, symbols: SymbolOptions, *, source: bool) -> str:
    """Return the page of one recording."""
    return recording.page(stacks, sample_filter=sample_filter, symbols=symbols, code=source)


def page_of_changes(
    recordings: Sequence[Recording], stacks: Sequence[Sequence[Stacks]], *, ignore_comm: bool | None, full_names: bool
) -> str:
    """Return the page of changes from the first to the second recording."""
    from perfpy.analysis.stacks.matching import matched
    from perfpy.symbols.demangling.short_names import without_instance

    before, after = recordings
    return before.page_of_changes(after, matched(*stacks, ignore_comm=ignore_comm, name=str if full_names else without_instance))


def write_folded(stacks: Sequence[Stacks], path: str, *, quiet: bool) -> None:
    """Write the stacks of one event to a file, because the format has no units, and those of other events to files beside it."""
    from perfpy.views.stacks.exports import folded

    first, *others = stacks
    named = {path: first}
    if path != "-":
        for part in others:
            named.setdefault(_beside(path, part.event), part)
    elif others:
        more = ", ".join(part.event for part in others)
        tell([f"writing the stacks of {first.event} only; select other events with --event: {more}"], quiet=quiet)
    for file, part in named.items():
        write_bytes(file, "".join(f"{line}\n" for line in folded(part)).encode(errors="surrogateescape"), quiet=quiet)


def _beside(path: str, event: str) -> str:
    """Return a name such as stacks-page-faults.txt for stacks.txt."""
    stem, extension = os.path.splitext(path)
    return f"{stem}-{_NO_NAME.sub('_', event)[:100]}{extension}"


def _speedscope(recording: Recording, stacks: Sequence[Stacks]) -> bytes:
    from perfpy.views.stacks.exports import speedscope

    return speedscope(stacks, recording.title).encode(errors="replace")


def _firefox(recording: Recording, stacks: Sequence[Stacks], symbols: SymbolOptions) -> bytes:
    from perfpy.views.stacks.firefox import Heading, firefox

    said = recording.header
    system = " ".join(str(said[name]) for name in ("osrelease", "arch") if said.get(name))
    count = said.get("nrcpus")
    heading = Heading(recording.title, _started(recording) / 1e9, system, str(said.get("cpudesc") or ""), count.online if count else 0)
    words = recording.payload_texts(symbols) if any(part.tracepoint for part in stacks) else None
    return firefox(stacks, heading, words).encode(errors="replace")


def _pprof(recording: Recording, stacks: Sequence[Stacks]) -> bytes:
    from perfpy.views.stacks.pprof import Metadata, pprof

    times = recording.times()
    said = Metadata(
        start=_started(recording),
        duration=max(times.last - times.first, 0),
        period=_period(recording.events[0].attr),
        comments=[recording.title, ", ".join(recording.environment)],
    )
    return pprof(stacks, said)


def _started(recording: Recording) -> int:
    """Return the first sample's time in ns since 1970, from the recorded clock, or else from the file's modification time."""
    times, clocks = recording.times(), recording.header.get("clock_data")
    if clocks is not None:
        return max(int(clocks.wall_clock_ns + times.first - clocks.clockid_ns), 0)
    return max(int(recording.data.modified * 1e9) - max(times.last - times.first, 0), 0)


def _period(attr: EventAttr) -> int:
    """Return the period between samples; ns for clocks sampled by frequency, 0 for other frequencies."""
    if not attr.freq:
        return attr.sample_period
    is_clock = attr.type == PerfType.SOFTWARE and attr.config in (SoftwareId.CPU_CLOCK, SoftwareId.TASK_CLOCK)
    return round(1e9 / attr.sample_freq) if is_clock and attr.sample_freq else 0
