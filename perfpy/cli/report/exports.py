"""`perfpy report --flamegraph, --folded, --speedscope, --firefox, --pprof`: whole stacks in other formats.

What enters: an open recording and the command's options. What leaves: files; a
line on standard error says which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.cli.line.notes import tell
from perfpy.cli.line.options import fail
from perfpy.cli.line.output_files import write_bytes
from perfpy.unwind.cut_stacks import note

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.analysis.filters.sample_filter import SampleFilter
    from perfpy.analysis.stacks.stacks import Stacks
    from perfpy.cli.report.options import ReportCommandOptions
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions


def write_exports(recording: Recording, asked: ReportCommandOptions, sample_filter: SampleFilter, symbols: SymbolOptions) -> None:
    """Write every format that is asked for."""
    _refuse_what_stacks_have_not(asked)
    timed = asked.firefox is not None or (asked.flamegraph is not None and not asked.latency)  # shares of the wall clock are of stacks
    stacks = recording.stacks(symbols, sample_filter=sample_filter, timed=timed, latency=asked.latency)
    if not stacks:
        from perfpy.cli.line.nothing_left import say_why_nothing  # few reports are empty

        if not asked.quiet:
            say_why_nothing(recording, sample_filter, symbols)
        return
    makers: dict[str, Callable[[], bytes]] = {
        "flamegraph": lambda: page(recording, stacks, sample_filter, symbols, source=asked.source).encode(errors="replace"),
        "folded": lambda: _folded(stacks),
        "speedscope": lambda: _speedscope(recording, stacks),
        "firefox": lambda: _firefox(recording, stacks),
        "pprof": lambda: _pprof(stacks),
    }
    for name, path in asked.exports.items():
        write_bytes(path, makers[name](), quiet=asked.quiet)
    tell(note(stacks[0].cut), quiet=asked.quiet, verbose=asked.verbose)


def _refuse_what_stacks_have_not(asked: ReportCommandOptions) -> None:
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
        fail(f"flame graphs and other exports have whole stacks, not rows: leave {', '.join(given)} out")


def page(recording: Recording, stacks: Sequence[Stacks], sample_filter: SampleFilter, symbols: SymbolOptions, *, source: bool) -> str:
    """The page."""
    return recording.page(stacks, sample_filter=sample_filter, symbols=symbols, source=source)


def page_of_changes(
    recordings: Sequence[Recording], stacks: Sequence[Sequence[Stacks]], *, ignore_comm: bool | None, whole_names: bool
) -> str:
    """The page that shows what changed from the first to the second recording."""
    from perfpy.analysis.stacks.matching import matched
    from perfpy.symbols.demangling.short_names import without_instance

    before, after = recordings
    return before.page_of_changes(after, matched(*stacks, ignore_comm=ignore_comm, name=str if whole_names else without_instance))


def _folded(stacks: Sequence[Stacks]) -> bytes:
    from perfpy.views.stacks.exports import folded

    return "".join(f"{line}\n" for line in folded(stacks)).encode(errors="surrogateescape")


def _speedscope(recording: Recording, stacks: Sequence[Stacks]) -> bytes:
    from perfpy.views.stacks.exports import speedscope

    return speedscope(stacks, recording.title).encode(errors="replace")


def _firefox(recording: Recording, stacks: Sequence[Stacks]) -> bytes:
    from perfpy.views.stacks.exports import firefox

    return firefox(stacks, recording.title).encode(errors="replace")


def _pprof(stacks: Sequence[Stacks]) -> bytes:
    from perfpy.views.stacks.exports import pprof

    return pprof(stacks)
