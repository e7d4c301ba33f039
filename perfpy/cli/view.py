"""`perfpy view`: show a recording, or the changes between two, as a page in the browser.

Without -o the page is a temporary file. Its path is printed on standard output.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

from perfpy.cli.line.input_recording import open_recording
from perfpy.cli.line.option_parsing import CommandOptions, Flag, PerfCommand, Value, fail, option, words
from perfpy.cli.line.perfconfig import load_config
from perfpy.cli.line.shared_options import InputOptions, QuietOptions, SymbolFileOptions, symbol_options_of
from perfpy.errors import OutputFailedError

if TYPE_CHECKING:
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions


class ViewPageOptions(CommandOptions):
    """Contents and destination of the page."""

    output: str = option("-o,--output", Value(default=""), "write the page to this file (default: a temporary one)", metavar="<file>")
    source: bool = option("--source", Flag(default=True), "include the code of hot functions (default)")
    browser: bool = option("--browser", Flag(default=True), "open the page in the browser (default)")


class ViewCommandOptions(InputOptions, ViewPageOptions, SymbolFileOptions, QuietOptions):
    """Options of `perfpy view`."""

    files: tuple[str, ...] = words("[<file> [<file>]]")


def run(options: ViewCommandOptions) -> int:
    """Show a recording, or the changes between two, as a page in the browser: time line, flame graph, tables, code."""
    from perfpy.cli.output.output_files import write_bytes

    paths = [*([options.input] if options.input else []), *options.files] or [""]
    if len(paths) > 2:
        fail("view takes one recording, or two to compare")
    with ExitStack() as opened:
        recordings = [opened.enter_context(open_recording(path, force=options.force, quiet=options.quiet)) for path in paths]
        page = _page(recordings, options)
        if not page:
            return 0
        data = page.encode(errors="replace")
        if options.output:
            write_bytes(path := options.output, data, quiet=options.quiet)
        else:
            path = _write_temporary(data, quiet=options.quiet)
    if path != "-":
        print(path)
        if options.browser:
            _show(path)
    return 0


def _page(recordings: list[Recording], options: ViewCommandOptions) -> str:
    """Return the page; print the reason and return "" if there are no samples."""
    from perfpy.analysis.filters import SampleFilter
    from perfpy.cli.line.empty_results import print_nothing_left
    from perfpy.views.page.profile_data import page_options

    symbols = [_symbols(recording, options) for recording in recordings]
    if len(recordings) == 1:
        from perfpy.views.page.page import page_of, page_parts

        parts = page_parts(recordings[0], None, symbols[0], code=options.source)
        if parts.stacks:
            return page_of(recordings[0], parts, symbols[0], None, code=options.source)
        print_nothing_left(recordings[0], SampleFilter(), symbols[0])
        return ""
    stacks = [recording.stacks(where, page_options(recording)) for recording, where in zip(recordings, symbols, strict=True)]
    for recording, of_recording, where in zip(recordings, stacks, symbols, strict=True):
        if not of_recording:
            print_nothing_left(recording, SampleFilter(), where)
            return ""
    from perfpy.cli.report.run import page_of_changes

    return page_of_changes(recordings, stacks, ignore_comm=None, full_names=False)


def _symbols(recording: Recording, options: ViewCommandOptions) -> SymbolOptions:
    return symbol_options_of(options, load_config(), recording, force=options.force, for_people=True)


def _write_temporary(data: bytes, *, quiet: bool) -> str:
    """Write a file that only the user can read, and return its path; it is not deleted."""
    import tempfile

    from perfpy.cli.output.output_files import print_written

    descriptor, path = tempfile.mkstemp(prefix="perfpy-", suffix=".html")
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
    except OSError as error:
        os.unlink(path)
        raise OutputFailedError(path, error.strerror or str(error)) from None
    if not quiet:
        print_written(path, len(data))
    return path


def _show(path: str) -> None:
    """Open the page in a browser if there is a display; browsers in a terminal run no scripts."""
    if not any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")):
        return
    import webbrowser
    from pathlib import Path

    try:
        is_open = webbrowser.open(Path(path).resolve().as_uri())
    except webbrowser.Error:
        is_open = False
    if not is_open:
        print("cannot start a browser; open the page yourself", file=sys.stderr)


command = PerfCommand(ViewCommandOptions, run)
