"""`perfpy data convert`: convert a recording to perf's JSON."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from perfpy.cli.line.input_recording import open_recording
from perfpy.cli.line.option_parsing import CommandOptions, Counted, Flag, PerfCommand, Value, fail, option, words
from perfpy.cli.line.perfconfig import load_config
from perfpy.errors import PerfError

if TYPE_CHECKING:
    from perfpy.recording import Recording


class DataCommandOptions(CommandOptions, lacks={"--to-ctf": "it needs babeltrace's library; use --to-json"}):
    """Options of `perfpy data`."""

    input: str = option("-i,--input", Value(default=""), "input file (default: perf.data; -: standard input)", metavar="<file>")
    to_json: str = option("--to-json", Value(default=""), "write JSON to this file (-: standard output)", metavar="<file>")
    force: bool = option("-f,--force", Flag(), "overwrite the output, skip the file ownership check")
    time: str = option("--time", Value(default=""), "only this time: start,stop, 10%-20%, 10%/2", metavar="<str>")
    tod: bool = option("--tod", Flag(), "for CTF only", hidden=True)
    all: bool = option("--all", Flag(), "for CTF only", hidden=True)
    verbose: int = option("-v,--verbose", Counted(), "print more details", hidden=True)
    action: tuple[str, ...] = words("convert")


def run(options: DataCommandOptions) -> None:
    """Convert a recording: `data convert --to-json FILE`."""
    if options.action != ("convert",):
        fail("no action; usage: perfpy data convert --to-json FILE")
    if not options.to_json:
        raise PerfError("no output format; give --to-json FILE")
    for name, is_given in (("--all", options.all), ("--tod", options.tod)):
        if is_given:
            raise PerfError(f"{name} applies to CTF only; JSON has all events and the recorded times")
    if options.to_json != "-" and os.path.exists(options.to_json) and not options.force:
        raise PerfError(f"{options.to_json}: file exists; --force overwrites it")
    with open_recording(options.input, force=options.force, verbose=options.verbose) as recording:
        _convert(recording, options)


def _convert(recording: Recording, options: DataCommandOptions) -> None:
    from perfpy.cli.output.output_files import write_text
    from perfpy.symbols.files.debug_files import Inline, SymbolOptions
    from perfpy.views.sample_json import SampleJson

    config = load_config()
    symbolizer = recording.symbolizer(
        SymbolOptions(
            force=options.force,
            buildid_dir=config.build_id_folder,
            debuginfod=bool(os.environ.get("DEBUGINFOD_URLS")),
            os_release=recording.data.features.get("osrelease", ""),
            inline=Inline.NONE,
        )
    )
    from perfpy.analysis.callchains import user_callchains

    ranges = None
    if options.time:
        from perfpy.analysis.filters import ranges_of

        ranges = ranges_of(options.time, recording.times())
    text = SampleJson(recording, symbolizer, unwound=user_callchains(recording.data, symbolizer), ranges=ranges)
    write_text(options.to_json, text.pieces())
    if options.to_json != "-":
        size = os.path.getsize(options.to_json) / 1024 / 1024
        print(f"[ perf data convert: Converted '{recording.path}' into JSON data '{options.to_json}' ]", file=sys.stderr)
        print(f"[ perf data convert: Converted and wrote {size:.3f} MB ({text.samples} samples) ]", file=sys.stderr)


command = PerfCommand(DataCommandOptions, run)
