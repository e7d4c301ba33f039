"""Records of switches, wakeups and exits as rows of one table.

Each row is a thread that left a CPU, resumed, was woken or ended. The input is the records of a piece, and the callchains of sampled
switches.

Layouts: SWITCH and EXIT in include/uapi/linux/perf_event.h; the raw data of tracepoints begins with
{ u16 type; u8 flags; u8 preempt_count; s32 pid; } (Documentation/trace/events.rst).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import Ragged
from perfpy.abi.flags import CONTEXT_USER, MISC_SWITCH_OUT, MISC_SWITCH_OUT_PREEMPT, NATIVE_ENDIAN, RecordType
from perfpy.abi.perfpy_encodings import READY, STATE_BITS, UNKNOWN_STATE, WOKEN_BY_INTERRUPT, WOKEN_BY_THREAD

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.abi.columns import Columns
    from perfpy.perfdata.records.stream import Chunk

# Kinds of transitions. Rows of one thread and time are sorted by kind.
STACK: Final = 0  #: a sample of the callchain of a thread that leaves its CPU
OUT: Final = 1  #: the thread left its CPU
WOKEN: Final = 2  #: another thread or an interrupt woke the thread
IN: Final = 3  #: the thread came to a CPU
END: Final = 4  #: the thread ended

NOTE_SHIFT: Final = 32
TRANSITION: Final = np.dtype(
    [
        ("tid", "i4"),  # the thread
        ("pid", "i4"),  # its process; of WOKEN the process of the waker
        ("time", "u8"),  # nanoseconds, on the clock of the recording
        ("kind", "u1"),  # STACK, OUT, WOKEN, IN or END
        ("cpu", "i4"),  # where the record was written
        (
            "detail",
            "u8",
        ),  # of STACK and OUT the letter of the state; of WOKEN: waker's tid | note << NOTE_SHIFT (perfpy.abi.perfpy_encodings)
        ("stack", "i8"),  # index of its callchain in Transitions.stacks; -1: none
    ]
)

_TRAILER_WORDS: Final = 4  # { u32 pid, tid; u64 time; u32 cpu, res; u64 identifier; }
_EXIT_TID: Final = 4  # which half of a word of an EXIT record it is
_COMMON_FLAGS: Final = 2
_IN_INTERRUPT: Final = 0x08 | 0x10  # common_flags: in an interrupt, in a softirq
_STATE_MASK: Final = 0xFF

_LETTERS: Final = np.full(256, UNKNOWN_STATE, np.uint64)
_LETTERS[0] = READY
for _bit, _letter in STATE_BITS:
    for _bits in range(256):
        if _bits & _bit and not _bits & (_bit - 1):
            _LETTERS[_bits] = ord(_letter)


class Transitions(NamedTuple):
    """Transitions of threads, with the callchains of those that have one."""

    rows: NDArray[np.void]  #: TRANSITION[n]
    stacks: Ragged  #: callchains, by the column `stack` of the rows

    @classmethod
    def none(cls) -> Transitions:
        """Return an empty table."""
        return cls(np.zeros(0, TRANSITION), Ragged.empty(0, np.uint64))

    def with_more(self, other: Transitions) -> Transitions:
        """Return these transitions and others in one table."""
        rows = other.rows.copy()
        rows["stack"][rows["stack"] >= 0] += len(self.stacks)
        return Transitions(np.concatenate([self.rows, rows]), Ragged.concat([self.stacks, other.stacks]))

    def take(self, chosen: NDArray[np.bool_]) -> Transitions:
        """Select rows, with the callchains that they refer to."""
        rows = self.rows[chosen]
        has = rows["stack"] >= 0
        stacks = self.stacks.take(rows["stack"][has])
        rows["stack"][has] = np.arange(int(has.sum()))
        return Transitions(rows, stacks)


def switch_transitions(chunk: Chunk, times: NDArray[np.uint64]) -> NDArray[np.void]:
    """Decode SWITCH records."""
    rows = _empty(times)
    halves = chunk.data[: len(chunk.data) & ~7].view(np.int32)
    trailer = 2 * ((chunk.starts >> 3) + (chunk.sizes >> 3).astype(np.int64) - _TRAILER_WORDS)
    rows["pid"], rows["tid"], rows["cpu"] = halves[trailer], halves[trailer + 1], halves[trailer + 4]
    leaves = (chunk.miscs & MISC_SWITCH_OUT) != 0
    rows["kind"] = np.where(leaves, OUT, IN)
    rows["detail"] = np.where(chunk.miscs & MISC_SWITCH_OUT_PREEMPT, READY, UNKNOWN_STATE)
    rows["time"] = without_switches(rows)
    return rows


_LONGEST_SWITCH: Final = 10_000  # nanoseconds; a CPU is not idle between two threads for less


def without_switches(rows: NDArray[np.void]) -> NDArray[np.uint64]:
    """Return the times of rows of OUT and IN, where a thread begins to run when the one before it on the CPU leaves.

    The kernel counts the switch itself to the next thread's time on the CPU (schedstat, getrusage), but writes its record at the end of the
    switch: at 100,000 switches a second, the difference is a quarter of the time off the CPU.
    """
    times: NDArray[np.uint64] = rows["time"].copy()
    order = np.lexsort((times, rows["cpu"]))
    last, here = order[:-1], order[1:]
    follows = (rows["cpu"][last] == rows["cpu"][here]) & (rows["kind"][last] == OUT) & (rows["kind"][here] == IN)
    follows &= (rows["tid"][last] != rows["tid"][here]) & (times[here] - times[last] <= _LONGEST_SWITCH)
    times[here[follows]] = times[last[follows]]
    return times


def end_transitions(chunk: Chunk, times: NDArray[np.uint64]) -> NDArray[np.void]:
    """Decode EXIT records."""
    rows = _empty(times)
    rows["tid"] = chunk.data[: len(chunk.data) & ~7].view(np.int32)[(chunk.starts >> 2) + _EXIT_TID]
    rows["kind"] = END
    return rows


def stack_transitions(columns: Columns, chains: Ragged, state: tuple[int, int] | None) -> Transitions:
    """Make the transitions of samples that were taken when a thread left its CPU.

    Args:
        columns: of the samples: tid, pid, time, cpu, and raw if `state` is given.
        chains: their callchains.
        state: offset and size of the thread's state in the raw data; None if the event has none.
    """
    rows = _of_samples(columns)
    rows["kind"] = STACK
    rows["stack"] = np.arange(len(rows))
    if state is None:
        rows["detail"] = UNKNOWN_STATE
    else:
        rows["detail"] = _LETTERS[_numbers(columns["raw"], *state) & _STATE_MASK]
    return Transitions(rows, chains)


def woken_transitions(columns: Columns, woken: tuple[int, int]) -> NDArray[np.void]:
    """Make the transitions of samples of sched_waking: one of each woken thread.

    Args:
        columns: of the samples: tid, pid, time, cpu, raw.
        woken: offset and size of the woken thread's tid in the raw data.
    """
    rows = _of_samples(columns)
    flags = _numbers(columns["raw"], _COMMON_FLAGS, 1)
    note = np.where(flags & _IN_INTERRUPT, WOKEN_BY_INTERRUPT, WOKEN_BY_THREAD).astype(np.uint64)
    rows["detail"] = rows["tid"].astype(np.uint64) | note << np.uint64(NOTE_SHIFT)
    rows["tid"] = _numbers(columns["raw"], *woken)
    rows["kind"] = WOKEN
    return rows


def has_user_part(chains: Ragged) -> NDArray[np.bool_]:
    """Tell which callchains continue in user space."""
    counts = np.concatenate([[0], np.cumsum(chains.values == np.uint64(CONTEXT_USER))])
    inside: NDArray[np.bool_] = counts[chains.offsets[1:]] > counts[chains.offsets[:-1]]
    return inside


def are_switches(types: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Tell which record types are switches."""
    mask: NDArray[np.bool_] = (types == RecordType.SWITCH) | (types == RecordType.SWITCH_CPU_WIDE)
    return mask


def _empty(times: NDArray[np.uint64]) -> NDArray[np.void]:
    rows = np.zeros(len(times), TRANSITION)
    rows["time"], rows["stack"] = times, -1
    return rows


def _of_samples(columns: Columns) -> NDArray[np.void]:
    rows = _empty(columns["time"])
    for name in ("pid", "tid", "cpu"):
        rows[name] = columns[name]
    return rows


def _numbers(raw: Ragged, offset: int, size: int) -> NDArray[np.int64]:
    """Read a number at an offset of each row of raw data, or 0 if the row is too short."""
    begin = raw.offsets[:-1] + offset
    inside = raw.lengths >= offset + size
    index = np.where(inside, begin, 0)[:, None] + np.arange(size)
    if not len(raw.values):
        return np.zeros(len(raw), np.int64)
    code = {1: "u1", 2: "u2", 4: "i4", 8: "i8"}[size]
    numbers = raw.values[index].copy().view(NATIVE_ENDIAN + code if size > 1 else code).ravel().astype(np.int64)
    return np.where(inside, numbers, 0)
