"""Sort keys of tasks: thread, comm, CPU, time, cgroup, and of waits: state, waker. See perfpy.analysis.sortkeys.key_columns."""

from __future__ import annotations

import re
from time import localtime, strftime
from typing import TYPE_CHECKING

import numpy as np

from perfpy.abi.python_code import GilState
from perfpy.abi.waits import WOKEN_BY_INTERRUPT, WOKEN_BY_THREAD
from perfpy.analysis.samples.locations import ranks
from perfpy.analysis.samples.time_of_day import UNKNOWN
from perfpy.analysis.samples.wait_reasons import NOTE_SHIFT, state_name
from perfpy.analysis.sortkeys.key_columns import KeyColumn, by_number, by_text, byte_width

if TYPE_CHECKING:
    from perfpy.analysis.samples.locations import Int64
    from perfpy.analysis.sortkeys.key_texts import KeyTexts


def comm(texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of comms at the samples' times."""
    return by_text([texts.tasks.comms[number] for number in values.tolist()], wide=False)


_GIL_STATES = {GilState.HOLDS: "holds", GilState.RELEASED: "released", GilState.WAITS: "waits"}
_DIGITS = re.compile("[0-9]+")


def comm_without_digits(texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of comms with <N> for each number: kworker/0:1 and kworker/1:2 share a row."""
    return by_text([_DIGITS.sub("<N>", texts.tasks.comms[number]) for number in values.tolist()])


def thread(texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of threads with their last comms."""
    tasks = values.tolist()
    return by_number(values, lambda i: f"{_tid(tasks[i]):7d}:{texts.tasks.last_comm(tasks[i])}")


def _tid(task: int) -> int:
    """Return a thread's id, without the ordinal that separates recordings."""
    return (task + (1 << 31)) % (1 << 32) - (1 << 31)


def cpu(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of CPUs."""
    cpus = values.tolist()
    return by_number(values, lambda i: _pad(cpus[i], 3))


def _pad(number: int, digits: int) -> str:
    return f"-{-number:0{digits}d}" if number < 0 else f"{number:0{digits}d}"


def socket(texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of the CPUs' sockets."""
    sockets = np.array([texts.machine.socket_of(number) for number in values.tolist()], np.int64)
    return by_number(sockets, lambda i: _pad(int(sockets[i]), 3))


def time(texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of times, rounded down to the quantum."""
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
    """Return the column of cgroups, by path."""
    names = ["N/A" if not number else texts.machine.cgroup_name(number) or "unknown" for number in values.tolist()]
    rank = ranks(values)
    return KeyColumn(rank, rank, lambda i: names[i], lambda i: byte_width(names[i]) if values[i] else 0)


def container(texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of containers, by runtime and name; "host" outside of containers."""
    paths = [texts.machine.cgroup_name(number) if number else None for number in values.tolist()]
    return by_text([_UNKNOWN if path is None else texts.machine.container_name(path) for path in paths])


_UNKNOWN = "unknown"


def cgroup_id(texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of cgroup namespaces, by device and inode."""
    namespaces = [texts.machine.cgroup_namespaces[number] for number in values.tolist()]
    rank = ranks(*np.array(namespaces, np.int64).reshape(-1, 2).T)
    return KeyColumn(rank, rank, lambda i: f"{namespaces[i][0]}/{namespaces[i][1]:#x}")


def host(texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of hosts."""
    return by_text([texts.machine.recordings[number].host for number in values.tolist()])


def recording(texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of recordings, by path."""
    return by_text([texts.machine.recordings[number].path for number in values.tolist()])


_DAY = 86400
_SECOND = 1_000_000_000


def time_of_day(texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of times of day in the local time zone, rounded down to the quantum, of any day."""
    quantum = max(texts.style.clock_quantum, 1)
    within = [_since_midnight(value) // quantum * quantum if value != UNKNOWN else _DAY * _SECOND for value in values.tolist()]
    clock_texts = [_clock_text(ns, quantum) if value != UNKNOWN else _NOT_SAID for ns, value in zip(within, values.tolist(), strict=True)]
    return by_number(np.array(within, np.int64), lambda i: clock_texts[i])._replace(wide=lambda i: len(clock_texts[i]))


def date(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of days in the local time zone."""
    numbers = values.tolist()
    return by_text([_NOT_SAID if value == UNKNOWN else strftime("%Y-%m-%d", localtime(value // _SECOND)) for value in numbers])


_NOT_SAID = "[unknown]"


def _since_midnight(wall: int) -> int:
    """Return the ns since local midnight."""
    seconds, rest = divmod(wall, _SECOND)
    local = localtime(seconds)
    return ((local.tm_hour * 60 + local.tm_min) * 60 + local.tm_sec) * _SECOND + rest


def _clock_text(within: int, quantum: int) -> str:
    """Format a time of day with the precision of the quantum: 14:00, 14:00:05, 14:00:05.250000."""
    seconds, rest = divmod(within, _SECOND)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}"
    if quantum % (60 * _SECOND):
        text += f":{seconds % 60:02d}"
    digits = len(f"{quantum % _SECOND:09d}".rstrip("0"))
    return f"{text}.{rest:09d}"[: len(text) + 1 + digits] if digits else text


def parallelism(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of the number of running threads."""
    return by_number(values, lambda i: str(int(values[i])))


def state(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of wait states, or "on CPU"."""
    return by_text([state_name(number) for number in values.tolist()])


def gil(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of the states of the GIL."""
    return by_text([_GIL_STATES.get(number, "-") for number in values.tolist()])


def waker(texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of wakers."""
    return by_text([_waker(texts, number) for number in values.tolist()])


def _waker(texts: KeyTexts, number: int) -> str:
    note, thread = number >> NOTE_SHIFT, number & (1 << NOTE_SHIFT) - 1
    if note == WOKEN_BY_INTERRUPT:
        return "[interrupt]"
    return f"{texts.tasks.last_comm(thread)}:{thread}" if note == WOKEN_BY_THREAD else "-"
