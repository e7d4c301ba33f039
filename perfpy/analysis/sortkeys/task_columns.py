"""Sort keys of tasks and of where and when they ran: thread, command, CPU, time, cgroup.

As perfpy.analysis.sortkeys.key_columns.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from perfpy.analysis.samples.locations import ranks
from perfpy.analysis.sortkeys.key_columns import KeyColumn, by_number, by_text, byte_width

if TYPE_CHECKING:
    from perfpy.analysis.samples.locations import Int64
    from perfpy.analysis.sortkeys.key_texts import KeyTexts


def comm(texts: KeyTexts, values: Int64) -> KeyColumn:
    """The command at the time of the sample."""
    return by_text([texts.tasks.comms[number] for number in values.tolist()], wide=False)


_DIGITS = re.compile("[0-9]+")


def comm_without_digits(texts: KeyTexts, values: Int64) -> KeyColumn:
    """The command with <N> for each of its numbers: kworker/0:1 and kworker/1:2 are one row."""
    return by_text([_DIGITS.sub("<N>", texts.tasks.comms[number]) for number in values.tolist()])


def thread(texts: KeyTexts, values: Int64) -> KeyColumn:
    """The thread, and the command that it had last."""
    tids = values.tolist()
    return by_number(values, lambda i: f"{tids[i]:7d}:{texts.tasks.last_comm(tids[i])}")


def cpu(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """The CPU."""
    cpus = values.tolist()
    return by_number(values, lambda i: _padded(cpus[i], 3))


def _padded(number: int, digits: int) -> str:
    return f"-{-number:0{digits}d}" if number < 0 else f"{number:0{digits}d}"


def socket(texts: KeyTexts, values: Int64) -> KeyColumn:
    """The CPU's socket."""
    sockets = np.array([texts.machine.socket_of(number) for number in values.tolist()], np.int64)
    return by_number(sockets, lambda i: _padded(int(sockets[i]), 3))


def time(texts: KeyTexts, values: Int64) -> KeyColumn:
    """The time, rounded down to the quantum."""
    raw = values.view(np.uint64)
    grain = np.uint64(texts.style.quantum or 1)
    rounded = raw // grain * grain

    def text(i: int) -> str:
        seconds, rest = divmod(int(rounded[i]), 1_000_000_000)
        return f"{seconds}.{rest:09d}" if texts.style.nanoseconds else f"{seconds}.{rest // 1000:06d}"

    column = by_number(rounded.view(np.int64), text)
    return column._replace(wide=lambda _i: _NANOSECOND_WIDTH) if texts.style.nanoseconds else column


_NANOSECOND_WIDTH = 16


def cgroup(texts: KeyTexts, values: Int64) -> KeyColumn:
    """The cgroup, by its path."""
    names = ["N/A" if not number else texts.machine.cgroup_name(number) or "unknown" for number in values.tolist()]
    rank = ranks(values)
    return KeyColumn(rank, rank, lambda i: names[i], lambda i: byte_width(names[i]) if values[i] else 0)


def cgroup_id(texts: KeyTexts, values: Int64) -> KeyColumn:
    """The cgroup namespace, by its device and inode."""
    known = [texts.machine.cgroup_namespaces[number] for number in values.tolist()]
    rank = ranks(*np.array(known, np.int64).reshape(-1, 2).T)
    return KeyColumn(rank, rank, lambda i: f"{known[i][0]}/{known[i][1]:#x}")


def host(texts: KeyTexts, values: Int64) -> KeyColumn:
    """The machine that was recorded."""
    return by_text([texts.machine.recordings[number].host for number in values.tolist()])


def recording(texts: KeyTexts, values: Int64) -> KeyColumn:
    """The recording, by its path."""
    return by_text([texts.machine.recordings[number].path for number in values.tolist()])


def parallelism(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """How many threads ran."""
    return by_number(values, lambda i: str(int(values[i])))
