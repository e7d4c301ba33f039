"""How a report shows callchains: --call-graph, -G, --percent-limit and the configuration.

What enters: the command's options and perfconfig's settings. What leaves: a
CallGraph. The syntax of --call-graph is that of perf-report(1).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from perfpy.analysis.report.options import CallGraph
from perfpy.cli.line.options import fail

if TYPE_CHECKING:
    from perfpy.cli.line.perfconfig import Config
    from perfpy.cli.report.options import ReportCommandOptions

_ENOUGH: Final = 1_000_000  # more than any percentage, and than the calls that anybody reads
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
    ("branch", "branches"),
    ("percent", "value"),
    ("period", "value"),
    ("count", "value"),
)
_CONFIGURED: Final = (("print-type", "style"), ("order", "order"), ("sort-key", "key"))


def call_graph_words() -> list[str]:
    """Every word of --call-graph that there is."""
    return [word for word, _ in _WORDS]


def call_graph(asked: ReportCommandOptions, *, children: bool, config: Config) -> CallGraph:
    """How callchains are shown: --call-graph's value, the configuration, -G, --children, and the limit for rows, if given.

    That limit holds for callchains too; of it and one in --call-graph's value the last one counts.
    """
    limit = asked.percent_limit
    chosen = _configured(config) | _parts(asked.call_graph or "")
    if limit is None:
        chosen.setdefault("percent", _configured_limit(config))
    elif "percent" not in chosen or asked.gives_row_limit_last:
        chosen["percent"] = limit
    chosen.pop("branches", "")  # counts of the branches within callchains: those that perfpy shows have none
    if asked.inverted or (children and "order" not in chosen):
        chosen["order"] = "caller"
    return CallGraph(**chosen)


def check(text: str) -> None:
    """Raises UsageError for what -g cannot take."""
    _parts(text)


def _configured(config: Config) -> dict[str, Any]:
    """The parts of a CallGraph that the configuration gives, but for the limit of callers."""
    parts: dict[str, Any] = {"limit": int(config.number("call-graph.print-limit", 0))}
    for name, part in _CONFIGURED:
        if f"call-graph.{name}" in config:
            parts[part] = _word(config[f"call-graph.{name}"], part)
    return parts


def _parts(text: str) -> dict[str, Any]:
    """The parts of a CallGraph that --call-graph's value gives: words in any order, a percentage, then a number of callers."""
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
    """The configuration's limit of rows is that of callers, too, whatever limit it gives these."""
    return config.number("report.percent-limit", config.number("call-graph.threshold", CallGraph().percent))


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
