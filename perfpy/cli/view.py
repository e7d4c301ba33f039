"""`perfpy view`: a recording, or what changed between two, as a page in the browser.

What enters: one recording or two. What leaves: a page in a file, in a temporary one where none is named; the browser shows it
where there is one, and standard output has its path.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

from perfpy.cli.line.kinds import Flag, Value
from perfpy.cli.line.options import CommandOptions, PerfCommand, fail, option, words
from perfpy.cli.line.shared import InputOptions, QuietOptions, SymbolFileOptions

if TYPE_CHECKING:
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions


class ViewPageOptions(CommandOptions):
    """What is in the page, and where it goes."""

    output: str = option("-o,--output", Value(default=""), "write the page to this file (default: a temporary one)", metavar="<file>")
    source: bool = option("--source", Flag(default=True), "include the code of hot functions (default)")
    browser: bool = option("--browser", Flag(default=True), "open the page in the browser (default)")


class ViewCommandOptions(InputOptions, ViewPageOptions, SymbolFileOptions, QuietOptions):
    """What the command takes."""

    files: tuple[str, ...] = words("[<file> [<file>]]")


def run(asked: ViewCommandOptions) -> int:
    """Show a recording as a page in the browser: time line, flame graph, tables, code; of two recordings what changed."""
    from perfpy.cli.line.opening import open_recording
    from perfpy.cli.line.output_files import write_bytes

    paths = [*([asked.input] if asked.input else []), *asked.files] or [""]
    if len(paths) > 2:
        fail("view shows one recording, or compares two")
    with ExitStack() as opened:
        recordings = [opened.enter_context(open_recording(path, force=asked.force, quiet=asked.quiet)) for path in paths]
        page = _page(recordings, asked)
        if not page:
            return 0
        path = asked.output or _temporary()
        write_bytes(path, page.encode(errors="replace"), quiet=asked.quiet)
    if path != "-":
        print(path)
        if asked.browser:
            _show(path)
    return 0


def _page(recordings: list[Recording], asked: ViewCommandOptions) -> str:
    """The page; "" where there are no samples, which is told."""
    from perfpy.analysis.filters.sample_filter import SampleFilter
    from perfpy.cli.line.nothing_left import say_why_nothing
    from perfpy.views.page.profile_data import MOST_ROWS

    symbols = [_symbols(recording, asked) for recording in recordings]
    stacks = [recording.stacks(where, timed=True, most_samples=MOST_ROWS) for recording, where in zip(recordings, symbols, strict=True)]
    for recording, parts, where in zip(recordings, stacks, symbols, strict=True):
        if not parts:
            say_why_nothing(recording, SampleFilter(), where)
            return ""
    if len(recordings) == 1:
        return recordings[0].page(stacks[0], symbols=symbols[0], code=asked.source)
    from perfpy.cli.report.exports import page_of_changes

    return page_of_changes(recordings, stacks, ignore_comm=None, full_names=False)


def _symbols(recording: Recording, asked: ViewCommandOptions) -> SymbolOptions:
    from perfpy.cli.line.perfconfig import load
    from perfpy.cli.line.symbol_values import symbol_options_of

    return symbol_options_of(asked, load(), recording, force=asked.force)


def _temporary() -> str:
    """A new file that nobody else can read; it stays."""
    import tempfile

    descriptor, path = tempfile.mkstemp(prefix="perfpy-", suffix=".html")
    os.close(descriptor)
    return path


def _show(path: str) -> None:
    """Open the browser, if there is a screen for one; those for terminals run no scripts."""
    if not any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")):
        return
    import webbrowser
    from pathlib import Path

    try:
        shown = webbrowser.open(Path(path).resolve().as_uri())
    except webbrowser.Error:
        shown = False
    if not shown:
        print("no browser could be started: open the page with yours", file=sys.stderr)


command = PerfCommand(ViewCommandOptions, run)
