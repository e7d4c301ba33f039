"""Definitions of probes: the lines that the kernel's uprobe_events and kprobe_events take and show.

    p:GROUP/EVENT PATH:0xOFFSET[(0xSEMAPHORE)] [ARGUMENT ...]     uprobes
    p:GROUP/EVENT [MODULE:]SYMBOL+OFFSET [ARGUMENT ...]           kprobes; r: at the return

Layout: Documentation/trace/uprobetracer.rst and kprobetrace.rst.
"""

from __future__ import annotations

import errno
import os
import re
from typing import Final

from perfpy.abi.startup import NamedTuple
from perfpy.probing.problems import ProbeError

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
