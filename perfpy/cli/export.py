"""`perfpy export` and `data convert`: write recordings as Parquet tables, OpenTelemetry profiles, a Perfetto trace, or perf's JSON."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

from perfpy.cli.line.input_recording import open_recording
from perfpy.cli.line.option_parsing import CommandOptions, Counted, Flag, Listed, PerfCommand, Value, fail, option, words
from perfpy.cli.line.perfconfig import load_config
from perfpy.cli.line.shared_options import QuietOptions, SymbolFileOptions, symbol_options_of
from perfpy.errors import OutputFailedError, PerfError, plural
from perfpy.untrusted.text import one_line
from perfpy.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.analysis.stacks import Stacks
    from perfpy.recording import Recording
    from perfpy.views.parquet import Exported

_FAILED = 255
_PATIENCE = 60.0  # seconds, for a collector
_OTLP_PATH = "/v1development/profiles"
_URL = re.compile(r"https?://", re.IGNORECASE)


class ExportCommandOptions(SymbolFileOptions, QuietOptions):
    """Options of `perfpy export`."""

    parquet: str = option("-o,--parquet,--output", Value(default=""), "add the recordings to the tables in this folder", metavar="<folder>")
    otlp: str = option("--otlp", Value(default=""), "write or send OpenTelemetry profiles", metavar="<file|URL>")
    perfetto: str = option("--perfetto", Value(default=""), "write a trace for Perfetto (ui.perfetto.dev)", metavar="<file>")
    inputs: tuple[str, ...] = option(
        "-i,--input", Listed(), "input file; repeatable (default: perf.data; -: standard input)", metavar="<file>"
    )
    force: bool = option("-f,--force", Flag(), "skip the file ownership check")
    files: tuple[str, ...] = words("[<file>]...")


def run(options: ExportCommandOptions) -> int:
    """Write recordings as Parquet files, for DuckDB, Polars, Spark or BigQuery; `perfpy report -i FOLDER` reads them, too.

    --otlp writes or sends one recording as OpenTelemetry profiles instead, --perfetto writes it as a trace for Perfetto.
    """
    if options.otlp or options.perfetto:
        return _export_samples(options)
    if not options.parquet:
        fail("no output folder; usage: perfpy export --parquet FOLDER [-i FILE]... or perfpy export --otlp FILE|URL [-i FILE]")
    failed = False
    for path in (*options.inputs, *options.files) or ("",):
        try:
            exported, name = _export(path, options)
        except OutputFailedError:
            raise
        except PerfError as error:  # the other recordings are exported nevertheless
            failed = True
            print(one_line(f"perfpy export: {error}; skipped"), file=sys.stderr)
            continue
        if not options.quiet:
            size = exported.bytes / 1024 / 1024
            samples = f"{exported.samples} {plural(exported.samples, 'sample')}"
            print(one_line(f"[ perfpy export: wrote {name} as {exported.recording} ({samples}, {size:.3f} MB) ]"), file=sys.stderr)
    return _FAILED if failed else 0


def _export_samples(options: ExportCommandOptions) -> int:
    """Write one recording as OpenTelemetry profiles or a Perfetto trace to files, or send it to a collector."""
    from perfpy.analysis.filters import SampleFilter
    from perfpy.analysis.stacks import StackOptions
    from perfpy.cli.line.empty_results import print_nothing_left
    from perfpy.cli.output.output_files import write_bytes

    paths = (*options.inputs, *options.files) or ("",)
    if options.parquet or len(paths) > 1:
        fail(f"{'--otlp' if options.otlp else '--perfetto'} takes one recording, and no --parquet")
    is_url = _URL.match(options.otlp) is not None
    with open_recording(paths[0], force=options.force, quiet=options.quiet) as recording:
        symbols = symbol_options_of(options, load_config(), recording, force=options.force, for_people=True)
        stacks = recording.stacks(symbols, StackOptions(timed=True, sites=True))
        if not stacks:
            print_nothing_left(recording, SampleFilter(), symbols)
            return 0
        data = _otlp_message(recording, stacks) if options.otlp else b""
    if options.perfetto:
        from perfpy.views.stacks.protobuf_exports import perfetto

        write_bytes(options.perfetto, perfetto(stacks), quiet=options.quiet)
    if is_url:
        _send(options.otlp, data, quiet=options.quiet)
    elif options.otlp:
        write_bytes(options.otlp, data, quiet=options.quiet)
    return 0


def _otlp_message(recording: Recording, stacks: Sequence[Stacks]) -> bytes:
    from perfpy.cli.report.run import start_time
    from perfpy.views.stacks.protobuf_exports import Origin, otlp

    header, times = recording.header, recording.times()
    names = {"host.name": "hostname", "host.arch": "arch", "os.version": "osrelease"}
    resource = {key: str(header.get(name) or "") for key, name in names.items()} | {
        "os.type": "linux",
        "process.command_line": recording.command_line,
    }
    return otlp(stacks, Origin(start_time(recording), times.first, max(times.last - times.first, 0), resource, __version__))


def _send(url: str, data: bytes, *, quiet: bool) -> None:
    """Send profiles to a collector; an address without a path gets that of the protocol."""
    from urllib.parse import urlsplit

    from perfpy.untrusted.download import post

    if urlsplit(url).path in ("", "/"):
        url = f"{url.rstrip('/')}{_OTLP_PATH}"
    try:
        post(url, data, "application/x-protobuf", _PATIENCE)
    except (OSError, ValueError) as error:
        raise OutputFailedError(url, str(error)) from None
    if not quiet:
        print(one_line(f"[ perfpy export: sent {len(data) / 1e6:.3f} MB to {url} ]"), file=sys.stderr)


def _export(path: str, options: ExportCommandOptions) -> tuple[Exported, str]:
    with open_recording(path, force=options.force, quiet=options.quiet) as recording:
        symbols = symbol_options_of(options, load_config(), recording, force=options.force)
        return recording.to_parquet(options.parquet, symbols=symbols), recording.path


command = PerfCommand(ExportCommandOptions, run)


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


def convert(options: DataCommandOptions) -> None:
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
        _write_json(recording, options)


def _write_json(recording: Recording, options: DataCommandOptions) -> None:
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


data_command = PerfCommand(DataCommandOptions, convert)
