"""The arguments of system calls: their names as the kernel's tracepoints have them, and their kinds.

arguments.tsv has a row for each call: its name, then NAME=KIND for each argument, in order. Kinds:

    int, long        signed numbers of 32 and 64 bits
    hex              addresses and other words
    text             the address of a string; its low 32 bits are printed, as perf does without BPF
    buffer           the address of bytes that the call writes
    fd, dirfd        a descriptor; of a folder, or AT_FDCWD
    long_fd          a descriptor that the tracepoint declares as a number of 64 bits
    pid              a process or thread
    others           tables of constants.tsv, and the kinds of perfpy.views.trace.arguments.special_texts
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from perfpy.abi.system_calls.tables import read_rows


class CallArgument(NamedTuple):
    """One argument of a call."""

    name: str
    kind: str


@cache
def _table() -> dict[str, tuple[CallArgument, ...]]:
    return {row[0]: tuple(CallArgument(*word.split("=")) for word in row[1:]) for row in read_rows("arguments.tsv")}


def arguments_of(name: str) -> tuple[CallArgument, ...] | None:
    """Return the arguments of a call; None if they are unknown."""
    return _table().get(name)
