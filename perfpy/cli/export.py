"""`perfpy export`: write recordings as Parquet tables (see perfpy.views.parquet)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from perfpy.cli.line.kinds import Flag, Listed, Value
from perfpy.cli.line.options import PerfCommand, fail, option, words
from perfpy.cli.line.shared import QuietOptions, SymbolFileOptions
from perfpy.errors import OutputFailedError, PerfError
from perfpy.plurals import plural
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from perfpy.views.parquet.export import Exported

_FAILED = 255


class ExportCommandOptions(SymbolFileOptions, QuietOptions):
    """Options of `perfpy export`."""

    parquet: str = option("-o,--parquet,--output", Value(default=""), "add the recordings to the tables in this folder", metavar="<folder>")
    inputs: tuple[str, ...] = option(
        "-i,--input", Listed(), "input file; repeatable (default: perf.data; -: standard input)", metavar="<file>"
    )
    force: bool = option("-f,--force", Flag(), "skip the file ownership check")
    files: tuple[str, ...] = words("[<file>]...")


def run(options: ExportCommandOptions) -> int:
    """Write recordings as Parquet files, for DuckDB, Polars, Spark or BigQuery; `perfpy report -i FOLDER` reads them, too."""
    if not options.parquet:
        fail("no output folder; usage: perfpy export --parquet FOLDER [-i FILE]...")
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


def _export(path: str, options: ExportCommandOptions) -> tuple[Exported, str]:
    from perfpy.cli.line.opening import open_recording
    from perfpy.cli.line.perfconfig import load
    from perfpy.cli.line.symbol_values import symbol_options_of

    with open_recording(path, force=options.force, quiet=options.quiet) as recording:
        symbols = symbol_options_of(options, load(), recording, force=options.force)
        return recording.to_parquet(options.parquet, symbols=symbols), recording.path


command = PerfCommand(ExportCommandOptions, run)
