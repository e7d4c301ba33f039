"""Definitions of probes: the lines that the kernel's uprobe_events and kprobe_events take and show.

    p:GROUP/EVENT PATH:0xOFFSET[(0xSEMAPHORE)] [ARGUMENT ...]     uprobes
    p:GROUP/EVENT [MODULE:]SYMBOL+OFFSET [ARGUMENT ...]           kprobes; r: at the return

Layout: Documentation/trace/uprobetracer.rst and kprobetrace.rst.
"""

from __future__ import annotations

import errno
import os
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.probing.grammar import without_parameters
from perfpy.probing.problems import ProbeError

if TYPE_CHECKING:
    from collections.abc import Collection

    from perfpy.probing.grammar import ProbeArgument, ProbePoint, ProbeRequest
    from perfpy.untrusted.pinned_files import PinnedFile


#: bytes at which the kernel splits its input (isspace() of lib/ctype.c), and the beginning of a comment
_SEPARATORS: Final = re.compile(rb"[\x00-\x20\x7f\xa0#]")
_SHOWN: Final = re.compile(
    r"(?P<kind>[pr])\d*:(?P<group>[^/\s]+)/(?P<event>\S+) (?P<target>.+?):(?P<offset>0x[0-9a-fA-F]+)"
    r"(?:\(0x[0-9a-fA-F]+\))?(?: (?P<args>.*))?\Z"
)
_SHOWN_KERNEL: Final = re.compile(r"(?P<kind>[pr])\d*:(?P<group>[^/\s]+)/(?P<event>\S+) (?P<symbol>\S+)(?: (?P<args>.*))?\Z")


class Definition(NamedTuple):
    """One probe.

    Attributes:
        is_return: whether it is at a function's return.
        group: the event's group.
        event: the event's name.
        target: PATH:0xOFFSET, or SYMBOL+OFFSET.
        arguments: the arguments' texts.
        is_kernel: whether it is a kprobe.
    """

    is_return: bool
    group: str
    event: str
    target: str
    arguments: tuple[str, ...] = ()
    is_kernel: bool = False

    @property
    def text(self) -> str:
        """The definition for the kernel. Raises ProbeError for words that the kernel would take apart.

        Paths and names of variables are others' data: a line feed in one would begin a second definition.
        """
        words = (f"{'r' if self.is_return else 'p'}:{self.group}/{self.event}", self.target, *self.arguments)
        for word in words:
            if _SEPARATORS.search(os.fsencode(word)):
                raise ProbeError(
                    f"the kernel's probes cannot have spaces, control characters or '#' in names and paths: '{word}'", errno.EINVAL
                )
        return " ".join(words)

    @property
    def name(self) -> str:
        """GROUP:EVENT."""
        return f"{self.group}:{self.event}"


class ShownProbe(NamedTuple):
    """One line of uprobe_events or kprobe_events.

    Attributes:
        is_return: whether it is at a function's return.
        group: the event's group.
        event: the event's name.
        path: the probed file, "" for the kernel.
        offset: of the probed file.
        symbol: the kernel's symbol with an offset, "" for files.
        arguments: the names of the arguments.
    """

    is_return: bool
    group: str
    event: str
    path: str
    offset: int
    symbol: str
    arguments: tuple[str, ...]


def parse_shown(line: str, *, is_kernel: bool) -> ShownProbe | None:
    """Parse a line of the kernel's list, None if it has another form."""
    match = (_SHOWN_KERNEL if is_kernel else _SHOWN).match(line)
    if match is None:
        return None
    names = tuple(word.split("=", 1)[0] for word in (match["args"] or "").split(" ") if word)
    path, offset, symbol = ("", 0, match["symbol"]) if is_kernel else (match["target"], int(match["offset"], 16), "")
    return ShownProbe(match["kind"] == "r", match["group"], match["event"], path, offset, symbol, names)


# Names of probe groups and events, by perf's rules. The group is probe_ and the program's name up to its first character that is no
# letter, digit or '_'. The event is the function's name, with _L2 for its line 2 and __return for its return. An existing name gets a
# number: cost_1.

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


# The definitions of a request, and its description.
class Planned(NamedTuple):
    """The definitions of one request.

    Attributes:
        definitions: one for each site.
        described: the point and the arguments, for the message about the new event.
        notes: what a user should know.
        file: the program that was read, None for the kernel.
    """

    definitions: list[Definition]
    described: str
    notes: list[str]
    file: PinnedFile | None = None


def describe(request: ProbeRequest, arguments: list[ProbeArgument]) -> str:
    """Return perf's description of a request: use:2@a.c with v=l->v."""
    point = request.point
    text = point.function
    if point.address is not None:
        text = f"{point.address:#x}"
    elif point.offset:
        text += f"+{point.offset}"
    elif point.is_return:
        text += "%return"
    elif point.function and point.line:
        text += f":{point.line}"
    if point.source:
        text += f"@{point.source}"
    if not point.function and point.line is not None:
        text += f":{point.line}"
    described = []
    for argument in arguments:
        members = [argument.variable, *(field.member for field in argument.fields if field.member)]
        described.append(f"{members[-1]}={argument.text}" if argument.fields and not argument.name else argument.text)
    return text + (f" with {' '.join(described)}" if described else "")
