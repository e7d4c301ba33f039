"""Names of probe groups and events, by perf's rules.

The group is probe_ and the program's name up to its first character that is no letter, digit or '_'. The event is the function's name,
with _L2 for its line 2 and __return for its return. An existing name gets a number: cost_1.
"""

from __future__ import annotations

import errno
import os
import re
from typing import TYPE_CHECKING, Final

from perfpy.probing.grammar.words import without_parameters
from perfpy.probing.problems import ProbeError

if TYPE_CHECKING:
    from collections.abc import Collection

    from perfpy.probing.grammar.points import ProbePoint

#: the kernel's limit, with the final NUL
LONGEST: Final = 63
#: the usual group of kernel probes
KERNEL_GROUP: Final = "probe"
_NUMBERS_MOST: Final = 1 << 15
_NO_NAME: Final = re.compile(r"\W", re.ASCII)


def group_of(path: str) -> str:
    """Return the usual group of a program's probes."""
    name = re.split(r"\W", os.path.basename(path), maxsplit=1, flags=re.ASCII)[0]
    return f"probe_{name}"[:LONGEST]


def event_of(function: str, point: ProbePoint) -> str:
    """Return the usual name of an event."""
    name = as_event(function)
    if point.function and point.line:
        name += f"_L{point.line}" if point.line > 0 else f"_L_{-point.line}"
    return name


def as_event(function: str) -> str:
    """Return a function's name as the name of an event: without the suffix of clones, other characters as '_'."""
    plain = without_parameters(function.split("(", 1)[0])
    if "::" in plain:
        plain = [part for part in plain.split("::") if part][-1] if plain.strip(":") else plain
    plain = plain.split(".", 1)[0] if not plain.startswith(".") else plain.lstrip(".")
    plain = plain.split("@", 1)[0]
    name = _NO_NAME.sub("_", plain)
    if not name or name[0].isdigit():
        name = f"_{name}"
    return name[:LONGEST]


def unused_name(name: str, group: str, used_names: Collection[str], *, may_number: bool) -> str:
    """Return the name, or with a number if the group has it already. Raises ProbeError unless that is permitted."""
    if name not in used_names:
        return name
    if not may_number:
        raise ProbeError(
            f"the event {group}:{name} exists; -d {group}:{name} deletes it, -f adds another one, {name}2=POINT names it", errno.EEXIST
        )
    for number in range(1, _NUMBERS_MOST):
        numbered = f"{name[: LONGEST - 6]}_{number}"
        if numbered not in used_names:
            return numbered
    raise ProbeError(f"the group {group} has too many events named {name}", errno.ERANGE)
