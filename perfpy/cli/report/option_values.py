"""Convert texts of perf report's options to the library's values. The syntax is that of perf-report(1)."""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Final

from perfpy.abi.cpu_list import parse_cpu_list
from perfpy.analysis.entries.layout import ColumnOptions
from perfpy.analysis.filters.sample_filter import SampleFilter
from perfpy.analysis.sortkeys.sort_key import Mode
from perfpy.cli.line.options import fail
from perfpy.untrusted.files import read_named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.analysis.filters.event_switch import EventSwitch
    from perfpy.analysis.filters.time_ranges import TimeRanges
    from perfpy.cli.line.perfconfig import Config
    from perfpy.cli.report.options import ReportCommandOptions

_ADDRESS: Final = re.compile("0x[0-9a-fA-F]{1,16}")
_WIDEST: Final = 10_000  # columns of a terminal
#: Prefix of a path in lists of names.
_FILE: Final = "file://"
_LARGEST_LIST: Final = 64 << 20  # bytes of names


def configured_percentage(config: Config) -> str:
    """Return the configured base of percentages: "absolute" or "relative"."""
    text = config.get("hist.percentage", "absolute")
    if text not in ("absolute", "relative"):
        fail(f"configuration: hist.percentage = {text!r}: expected absolute or relative")
    return text


def words(text: str) -> tuple[str, ...] | None:
    """Return a list of names, None if there is none; file://PATH means the lines of a file."""
    names = (_lines(name[len(_FILE) :]) if name.startswith(_FILE) else [name] for name in text.split(",") if name)
    return tuple(chain.from_iterable(names)) or None


def _lines(path: str) -> list[str]:
    try:
        return read_named(path, limit=_LARGEST_LIST).decode("utf-8", "surrogateescape").splitlines()
    except OSError as error:
        fail(f"{_FILE}{path}: {error.strerror}; expected a file with one name per line")


def pattern(text: str, option: str) -> str:
    """Return a regular expression. Raises UsageError for an invalid one."""
    try:
        re.compile(text)
    except re.error as error:
        fail(f"{option} {text!r}: invalid regular expression: {error}")
    return text


def numbers(text: str, option: str) -> tuple[int, ...] | None:
    """Return a list of numbers, None if there is none."""
    try:
        return tuple(int(number) for number in text.split(",") if number) or None
    except ValueError:
        fail(f"{option} {text!r}: expected a list of numbers, for example 1,2")


def ranges(text: str, option: str) -> tuple[int, ...] | None:
    """Return a list of numbers such as 0-2,5; None if there is none."""
    try:
        return parse_cpu_list(text) if text else None
    except ValueError as error:
        fail(f"{option} {text!r}: {error}")


def sample_filter(options: ReportCommandOptions, times: TimeRanges | None, switch: EventSwitch | None) -> SampleFilter:
    """Return the filters of a command line."""
    return SampleFilter(
        comms=words(options.comms),
        pids=numbers(options.pid, "--pid"),
        tids=numbers(options.tid, "--tid"),
        dsos=words(options.dsos),
        symbols=words(options.symbols),
        symbol_part=options.symbol_part,
        cpus=ranges(options.cpu, "-C"),
        times=times,
        switch=switch,
        parallelism=ranges(options.parallelism, "--parallelism"),
    )


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
    return ColumnOptions(
        sort=sort_order(options, config, mode),
        fields=options.fields,
        children=children,
        mode=mode,
        raw_trace=options.raw_trace,
        metrics=tuple(_metrics(options)),
        parent=bool(options.parent),
        latency=options.latency,
        hidden=() if options.hierarchy else tuple(key for key, _, _ in hidden_keys(chosen)),
    )


def _metrics(options: ReportCommandOptions) -> Iterator[str]:
    if options.show_cpu_utilization:
        yield from ("overhead_sys", "overhead_us")
    if options.show_nr_samples:
        yield "sample"
    if options.show_total_period:
        yield "period"


def widths(text: str) -> tuple[int, ...]:
    """Parse the numbers of -w."""
    try:
        return tuple(min(int(width), _WIDEST) for width in text.split(",") if width)
    except ValueError:
        fail(f"-w {text!r}: expected a list of widths, for example 10,20")


_UNITS: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}


def quantum(text: str) -> int:
    """Convert a time with its unit to nanoseconds."""
    parts = re.fullmatch(r"(\d+)(s|ms|us|ns)", text)
    if not parts:
        fail(f"--time-quantum {text!r}: expected a number with s, ms, us or ns, for example 100ms")
    return int(parts[1]) * _UNITS[parts[2]]
