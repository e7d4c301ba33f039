"""perf report's option texts -> what the library is asked for.

What enters: values of the command line and of the configuration. What leaves:
CallGraph, SampleFilter, Wanted. The syntax is that of perf-report(1).
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from perfpy.abi.cpu_list import parse_cpu_list
from perfpy.analysis.filters.sample_filter import SampleFilter
from perfpy.analysis.report.layout import Wanted
from perfpy.analysis.report.options import CallGraph
from perfpy.analysis.sortkeys.names import Mode
from perfpy.cli.line.options import fail
from perfpy.untrusted.files import read_named

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfpy.analysis.filters.event_switch import EventSwitch
    from perfpy.analysis.filters.time_ranges import TimeRanges
    from perfpy.cli.line.perfconfig import Config

_WIDEST: Final = 10_000  # columns of a terminal
_ENOUGH: Final = 1_000_000  # more than any percentage, and than the calls that anybody reads
#: in front of a path, in lists of names
_FILE: Final = "file://"
_LARGEST_LIST: Final = 64 << 20  # bytes of names
# every word of --call-graph, in perf's order of search: the first that begins with what is given is meant
_WORDS: Final = (
    ("none", "style"),
    ("graph", "style"),
    ("flat", "style"),
    ("fractal", "style"),
    ("folded", "style"),
    ("caller", "order"),
    ("callee", "order"),
    ("function", "key"),
    ("address", "key"),
    ("srcline", "key"),
    ("branch", "key"),
    ("percent", "value"),
    ("period", "value"),
    ("count", "value"),
)
_NO_KEYS: Final = {
    "branch": "needs branch records in callchains, which perfpy does not join",
    "srcline": "needs source lines, which perfpy does not read; address tells the places within a function apart",
}
_CONFIGURED: Final = (("print-type", "style"), ("order", "order"), ("sort-key", "key"))


def call_graph(values: Mapping[str, Any], *, children: bool, config: Config) -> CallGraph:
    """How callchains are shown: --call-graph's value, the configuration, -G, --children, and the limit for rows, if given.

    That limit holds for callchains too; of it and one in --call-graph's value the last one counts.
    """
    text, limit = values["call_graph"], values["percent_limit"]
    chosen: dict[str, Any] = {
        "percent": _configured_limit(config) if limit is None else limit,
        "limit": int(config.number("call-graph.print-limit", 0)),
    }
    for name, part in _CONFIGURED:
        if f"call-graph.{name}" in config:
            chosen[part] = _word(config[f"call-graph.{name}"], part)
    numbers = 0
    for token in (text or "").split(","):
        if not token:
            continue
        found = next((entry for entry in _WORDS if entry[0].startswith(token)), None)
        if found is not None:
            chosen[found[1]] = found[0]
            if found[0] == "none":
                break
        else:
            chosen["limit" if numbers else "percent"] = min(_number(token, int if numbers else float), _ENOUGH)
            numbers += 1
    if limit is not None and values["ordered"][-1].name == "percent_limit":
        chosen["percent"] = limit
    if chosen.get("key") in _NO_KEYS:
        fail(f"--call-graph ...,{chosen['key']} {_NO_KEYS[chosen['key']]}")
    if values["inverted"] or (children and "order" not in chosen):
        chosen["order"] = "caller"
    return CallGraph(**chosen)


def _configured_limit(config: Config) -> float:
    """The configuration's limit of rows is that of callers, too, whatever limit it gives these."""
    return config.number("report.percent-limit", config.number("call-graph.threshold", CallGraph().percent))


def configured_percentage(config: Config) -> str:
    """What shares are of, as the configuration has it."""
    text = config.get("hist.percentage", "absolute")
    if text not in ("absolute", "relative"):
        fail(f"configuration: hist.percentage = {text!r} is neither absolute nor relative")
    return text


def _word(text: str, part: str) -> str:
    found = next((word for word, kind in _WORDS if kind == part and word.startswith(text)), None)
    if found is None:
        fail(f"configuration: {text!r} is no {part} of call graphs")
    return found


def _number(token: str, kind: type[int] | type[float]) -> float:
    digits = re.match(r"\s*[0-9]*\.?[0-9]+", token)
    if not digits:
        fail(f"--call-graph: {token!r} is neither a word that it knows nor a number")
    return kind(float(digits[0]))


def words(text: str) -> tuple[str, ...] | None:
    """A list of names, None if none is given; file://PATH stands for the lines of a file."""
    found = (_lines(name[len(_FILE) :]) if name.startswith(_FILE) else [name] for name in text.split(",") if name)
    return tuple(chain.from_iterable(found)) or None


def _lines(path: str) -> list[str]:
    try:
        return read_named(path, limit=_LARGEST_LIST).decode("utf-8", "surrogateescape").splitlines()
    except OSError as error:
        fail(f"{_FILE}{path}: {error.strerror}; a file with a name on each line is needed")


def pattern(text: str, option: str) -> str:
    """A regular expression."""
    try:
        re.compile(text)
    except re.error as error:
        fail(f"{option} {text!r} is no regular expression: {error}")
    return text


def numbers(text: str, option: str) -> tuple[int, ...] | None:
    """A list of numbers, None if none is given."""
    try:
        return tuple(int(number) for number in text.split(",") if number) or None
    except ValueError:
        fail(f"{option} {text!r}: a list of numbers is needed, such as 1,2")


def ranges(text: str, option: str) -> tuple[int, ...] | None:
    """A list of numbers such as 0-2,5, None if none is given."""
    try:
        return parse_cpu_list(text) if text else None
    except ValueError as error:
        fail(f"{option} {text!r}: {error}")


def selection(values: Mapping[str, Any], times: TimeRanges | None, switch: EventSwitch | None) -> SampleFilter:
    """The filters of a command line."""
    return SampleFilter(
        comms=words(values["comms"]),
        pids=numbers(values["pid"], "--pid"),
        tids=numbers(values["tid"], "--tid"),
        dsos=words(values["dsos"]),
        symbols=words(values["symbols"]),
        symbol_part=values["symbol_filter"] or None,
        cpus=ranges(values["cpu"], "-C"),
        times=times,
        switch=switch,
        parallelism=ranges(values["parallelism"], "--parallelism"),
    )


def hidden_keys(chosen: SampleFilter) -> tuple[tuple[str, str, str], ...]:
    """Keys that a filter leaves one value: (key, perf's name of the filter, the value)."""
    lists = (("dso", "dso", chosen.dsos), ("comm", "comm", chosen.comms), ("symbol", "symbol", chosen.symbols))
    return tuple((key, name, next(iter(values))) for key, name, values in lists if values and len(values) == 1)


def sort_order(values: Mapping[str, Any], config: Config, mode: Mode) -> str | None:
    """The sort keys of a command line, or else of the configuration; None where neither says."""
    sort: str | None = config.get("report.sort_order") if values["sort"] is None else values["sort"]
    if sort and "symbol" in sort:
        # perf's own addition: instructions per cycle, a column of dashes without branch records
        sort += ",ipc_lbr" if mode is Mode.BRANCH else ",ipc_null"
    return sort


def wanted(values: Mapping[str, Any], chosen: SampleFilter, *, children: bool, config: Config, mode: Mode) -> Wanted:
    """The columns of a command line."""
    if values["fields"] and not values["fields"].replace(",", ""):
        fail(f"--fields {values['fields']!r} names no field")
    metrics = []
    if values["show_cpu_utilization"]:
        metrics += ["overhead_sys", "overhead_us"]
    if values["show_nr_samples"]:
        metrics.append("sample")
    if values["show_total_period"]:
        metrics.append("period")
    return Wanted(
        sort=sort_order(values, config, mode),
        fields=values["fields"],
        children=children,
        mode=mode,
        raw_trace=values["raw_trace"],
        metrics=tuple(metrics),
        parent=bool(values["parent"]),
        latency=values["latency"],
        hidden=() if values["hierarchy"] else tuple(key for key, _, _ in hidden_keys(chosen)),
    )


def widths(text: str) -> tuple[int, ...]:
    """The numbers of -w."""
    try:
        return tuple(min(int(width), _WIDEST) for width in text.split(",") if width)
    except ValueError:
        fail(f"-w {text!r}: a list of widths is needed, such as 10,20")


_UNITS: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}


def quantum(text: str) -> int:
    """A time with its unit, in nanoseconds."""
    parts = re.fullmatch(r"(\d+)(s|ms|us|ns)", text)
    if not parts:
        fail(f"--time-quantum {text!r}: a number and s, ms, us or ns are needed, such as 100ms")
    return int(parts[1]) * _UNITS[parts[2]]
