"""The columns of a report, from the options and the configuration: sort keys, fields, the base of percentages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perfpy.analysis.entries.layout import ColumnOptions
from perfpy.analysis.sortkeys.sort_key import Mode
from perfpy.cli.line.options import fail

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.analysis.filters.sample_filter import SampleFilter
    from perfpy.cli.line.perfconfig import Config
    from perfpy.cli.report.options import ReportCommandOptions

_ADDRESS: Final = re.compile("0x[0-9a-fA-F]{1,16}")


def configured_percentage(config: Config) -> str:
    """Return the configured base of percentages: "absolute" or "relative"."""
    text = config.get("hist.percentage", "absolute")
    if text not in ("absolute", "relative"):
        fail(f"configuration: hist.percentage = {text!r}: expected absolute or relative")
    return text


def hidden_keys(chosen: SampleFilter) -> tuple[tuple[str, str, str], ...]:
    """Return the keys that a filter restricts to one value: (key, perf's name of the filter, the value)."""
    names = [name for name in chosen.symbols or () if not _ADDRESS.fullmatch(name)]  # perf handles addresses separately
    lists = (("dso", "dso", chosen.dsos), ("comm", "comm", chosen.comms), ("symbol", "symbol", names))
    return tuple((key, name, next(iter(values))) for key, name, values in lists if values and len(values) == 1)


def sort_order(options: ReportCommandOptions, config: Config, mode: Mode) -> str | None:
    """Return the sort keys of the command line, or else of the configuration; None for the default."""
    sort = config.get("report.sort_order") if options.sort is None else options.sort
    if sort and "symbol" in sort:
        # perf adds this column itself: instructions per cycle, dashes without branch records.
        sort += ",ipc_lbr" if mode is Mode.BRANCH else ",ipc_null"
    return sort


def requested_columns(options: ReportCommandOptions, chosen: SampleFilter, *, children: bool, config: Config, mode: Mode) -> ColumnOptions:
    """Return the columns of a command line."""
    if options.fields and not options.fields.replace(",", ""):
        fail(f"--fields {options.fields!r}: no field")
    return options.fill(
        ColumnOptions,
        sort=sort_order(options, config, mode),
        children=children,
        mode=mode,
        metrics=tuple(_metrics(options)),
        parent=bool(options.parent),
        hidden=() if options.hierarchy else tuple(key for key, _, _ in hidden_keys(chosen)),
    )


def _metrics(options: ReportCommandOptions) -> Iterator[str]:
    if options.show_cpu_utilization:
        yield from ("overhead_sys", "overhead_us")
    if options.show_nr_samples:
        yield "sample"
    if options.show_total_period:
        yield "period"
