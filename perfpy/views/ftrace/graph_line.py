"""One line of the tracer function_graph.

    0)   0.768 us    |    irq_enter_rcu();                 a call without traced calls
    0)               |    getname() {                      the begin of a call
    0) + 82.272 us   |    } /* getname */                  its end, with its duration and (option funcgraph-tail) its name

Signs before the duration mark long ones ($ @ * # ! +).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_LINE: Final = re.compile(
    r"^.*?[\d>]\)(?:\s|[$@*#!+])*(?P<duration>[\d.]+) us\s+\|\s+"
    r"(?:(?P<leaf>[^\s;{}()]+)\(.*\);|\}(?:\s*/\*\s*(?P<name>[^\s*]+).*\*/)?)",
    re.ASCII,
)


class Duration(NamedTuple):
    """A finished call: name ("" if the line lacks it) and microseconds."""

    name: str
    microseconds: float


def duration_of(line: str) -> Duration | None:
    """Return the call that a line finishes, or None."""
    match = _LINE.match(line)
    if match is None or len(match["duration"]) > 16 or match["duration"].count(".") > 1:
        return None
    return Duration(match["leaf"] or match["name"] or "", float(match["duration"]))
