"""`perfpy report --flamegraph, --folded, --speedscope, --firefox, --pprof`: whole stacks in other formats.

What enters: an open recording and the command's values. What leaves: files; a
line on standard error says which.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from perfpy.errors import OutputFailed, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfpy.analysis.selection import Selection
    from perfpy.analysis.stacks import Stacks
    from perfpy.recording import Recording
    from perfpy.symbols.debugfiles import SymbolOptions

#: what is written where no file is named
_DEFAULT_FILES: Final = {
    "flamegraph": "flamegraph.html",
    "folded": "-",
    "speedscope": "perf.speedscope.json",
    "firefox": "perf.firefox.json",
    "pprof": "perf.pb.gz",
}


def write_exports(recording: Recording, values: Mapping[str, Any], selection: Selection, symbols: SymbolOptions) -> int:
    """Write every format that is asked for; the exit status."""
    stacks = recording.stacks(symbols, selection=selection, timed=values["firefox"] is not None)
    if not stacks:
        print(f"Error:\nThe {recording.path} data has no samples!", file=sys.stderr)
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


def write_bytes(path: str, data: bytes, *, quiet: bool) -> None:
    """Write a file, or to standard output for "-"."""
    if path == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        raise OutputFailed(path, error.strerror or str(error)) from None
    if not quiet:
        print(f"[ perfpy report: wrote {path} ({len(data) / 1e6:.1f} MB) ]", file=sys.stderr)


def flame_graph(recording: Recording, stacks: Sequence[Stacks], after: Sequence[Stacks] | None = None) -> str:
    """The page; after: the stacks of a second recording, to show what changed."""
    from perfpy.views.flamegraph import render

    return render(stacks, title=_title(recording), facts=recording_facts(recording), after=after)


def _title(recording: Recording) -> str:
    command = recording.header.get("cmdline")
    return " ".join(command) if isinstance(command, (tuple, list)) else str(command or recording.path)


def recording_facts(recording: Recording) -> list[str]:
    """Short phrases on a recording: where, on what, how long."""
    header = recording.header
    found = [str(header[name]) for name in ("hostname", "os_release", "arch") if header.get(name)]
    span = header.get("sample_time")
    if span is not None and span.last > span.first:
        found.append(f"{(span.last - span.first) / 1e9:.3g} s")
    return found


def _folded(stacks: Sequence[Stacks]) -> bytes:
    from perfpy.views.exports import folded

    return "".join(f"{line}\n" for line in folded(stacks)).encode(errors="surrogateescape")


def _speedscope(recording: Recording, stacks: Sequence[Stacks]) -> bytes:
    from perfpy.views.exports import speedscope

    return speedscope(stacks, _title(recording)).encode(errors="replace")


def _firefox(recording: Recording, stacks: Sequence[Stacks]) -> bytes:
    from perfpy.views.exports import firefox

    if len(stacks) > 1:
        names = ", ".join(part.event for part in stacks)
        raise UsageError(f"--firefox: a profile holds one event, the recording has {names}; record them apart")
    return firefox(stacks[0], _title(recording)).encode(errors="replace")


def _pprof(stacks: Sequence[Stacks]) -> bytes:
    from perfpy.views.exports import pprof

    return pprof(stacks)
