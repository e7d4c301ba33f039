"""`perfpy report --flamegraph, --folded, --speedscope, --firefox, --pprof`: whole stacks in other formats.

What enters: an open recording and the command's values. What leaves: files; a
line on standard error says which.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from perfpy.cli.line.options import fail
from perfpy.cli.line.output_files import write_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfpy.analysis.filters.sample_filter import SampleFilter
    from perfpy.analysis.stacks.stacks import Stacks
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions

#: what is written where no file is named
_DEFAULT_FILES: Final = {
    "flamegraph": "flamegraph.html",
    "folded": "-",
    "speedscope": "perf.speedscope.json",
    "firefox": "perf.firefox.json",
    "pprof": "perf.pb.gz",
}


#: options that make tables what they are
_OF_TABLES: Final = {"sort": "--sort", "fields": "--fields", "hierarchy": "--hierarchy", "percent_limit": "--percent-limit"}
#: options that change what is under a row
_OF_ROWS: Final = {
    "parent": "--parent",
    "exclude_other": "--exclude-other",
    "ignore_callees": "--ignore-callees",
    "hide_unresolved": "--hide-unresolved",
    "branch_stack": "--branch-stack",
    "mem_mode": "--mem-mode",
}


def write_exports(recording: Recording, values: Mapping[str, Any], selection: SampleFilter, symbols: SymbolOptions) -> int:
    """Write every format that is asked for; the exit status."""
    _refuse_what_stacks_have_not(values)
    stacks = recording.stacks(symbols, selection=selection, timed=values["firefox"] is not None, latency=values["latency"])
    if not stacks:
        print(f"Error:\nThe {recording.path} data has no samples, or the filters leave none!", file=sys.stderr)
        return 0
    makers: dict[str, Callable[[], bytes]] = {
        "flamegraph": lambda: flame_graph(recording, stacks).encode(errors="replace"),
        "folded": lambda: _folded(stacks),
        "speedscope": lambda: _speedscope(recording, stacks),
        "firefox": lambda: _firefox(recording, stacks),
        "pprof": lambda: _pprof(stacks),
    }
    for name, make in makers.items():
        if values[name] is not None:
            write_bytes(values[name] or _DEFAULT_FILES[name], make(), quiet=values["quiet"])
    return 0


def _refuse_what_stacks_have_not(values: Mapping[str, Any]) -> None:
    tables = {} if values["json"] is not None else _OF_TABLES
    asked = [option for name, option in (tables | _OF_ROWS).items() if values[name]]
    if asked:
        fail(f"flame graphs and other exports have whole stacks, not rows: leave {', '.join(asked)} out")


def flame_graph(recording: Recording, stacks: Sequence[Stacks]) -> str:
    """The page."""
    from perfpy.views.stacks.flamegraph import render

    samples = f"{sum(int(part.count.sum()) for part in stacks):,} samples"
    return render(stacks, title=recording.title, circumstances=[samples, *recording.circumstances])


def flame_graph_of_changes(recordings: Sequence[Recording], stacks: Sequence[Sequence[Stacks]]) -> str:
    """The page that shows what changed from the first to the second recording."""
    from perfpy.views.stacks.flamegraph import render

    before, after = recordings
    circumstances = [f"{recording.path}: {', '.join([recording.title, *recording.circumstances])}" for recording in recordings]
    return render(stacks[0], title=f"{before.path} \N{RIGHTWARDS ARROW} {after.path}", circumstances=circumstances, after=stacks[1])


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
