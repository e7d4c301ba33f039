"""How a report shows callchains: --call-graph, -G, --percent-limit and the configuration.

The syntax of --call-graph is that of perf-report(1).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from perfpy.analysis.entries.options import CallGraph
from perfpy.cli.line.options import fail

if TYPE_CHECKING:
    from perfpy.cli.line.perfconfig import Config
    from perfpy.cli.report.options import ReportCommandOptions

_ENOUGH: Final = 1_000_000  # more than any percentage or useful number of callers
# Every word of --call-graph, in perf's search order: an abbreviation means the first word that begins with it.
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
    ("branch", "branches"),
    ("percent", "value"),
    ("period", "value"),
    ("count", "value"),
)
_CONFIGURED: Final = (("print-type", "style"), ("order", "order"), ("sort-key", "key"))


def call_graph_words() -> list[str]:
    """Return every word of --call-graph."""
    return [word for word, _ in _WORDS]


def call_graph(options: ReportCommandOptions, *, children: bool, config: Config) -> CallGraph:
    """Return how callchains are shown, by --call-graph, the configuration, -G, --children, and the limit for rows.

    The limit for rows also applies to callchains; the last one of it and a limit in --call-graph wins.
    """
    limit = options.percent_limit
    chosen = _read_configuration(config) | call_graph_parts(options.call_graph or "")
    if limit is None:
        chosen.setdefault("percent", _configured_limit(config))
    elif "percent" not in chosen or options.gives_row_limit_last:
        chosen["percent"] = limit
    chosen.pop("branches", "")  # Counts of branches within callchains are not supported; perf shows none without branch records.
    if options.inverted or (children and "order" not in chosen):
        chosen["order"] = "caller"
    return CallGraph(**chosen)


def check(text: str) -> None:
    """Raise UsageError for an invalid value of -g."""
    call_graph_parts(text)


def _read_configuration(config: Config) -> dict[str, Any]:
    """Return the parts of a CallGraph from the configuration, without the limit of callers."""
    parts: dict[str, Any] = {"limit": int(config.number("call-graph.print-limit", 0))}
    for name, part in _CONFIGURED:
        if f"call-graph.{name}" in config:
            parts[part] = _word(config[f"call-graph.{name}"], part)
    return parts


def call_graph_parts(text: str) -> dict[str, Any]:
    """Return the parts of a CallGraph from --call-graph: words in any order, a percentage, then a number of callers."""
    parts: dict[str, Any] = {}
    numbers = iter((("percent", float), ("limit", int)))
    for token in filter(None, text.split(",")):
        word, part = next((entry for entry in _WORDS if entry[0].startswith(token)), ("", ""))
        if word:
            parts[part] = word
        else:
            part, kind = next(numbers, ("limit", int))
            parts[part] = min(_number(token, kind), _ENOUGH)
        if word == "none":
            break
    return parts


def _configured_limit(config: Config) -> float:
    """Return the limit of callers: as in perf, the configured limit of rows takes precedence."""
    return config.number("report.percent-limit", config.number("call-graph.threshold", CallGraph().percent))


def _word(text: str, part: str) -> str:
    match = next((word for word, kind in _WORDS if kind == part and word.startswith(text)), None)
    if match is None:
        fail(f"configuration: unknown {part} {text!r} of call graphs")
    return match


def _number(token: str, kind: type[int] | type[float]) -> float:
    digits = re.match(r"\s*[0-9]*\.?[0-9]+", token)
    if not digits:
        fail(f"--call-graph: {token!r} is neither a known word nor a number")
    return kind(float(digits[0]))
