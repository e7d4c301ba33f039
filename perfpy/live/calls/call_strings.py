"""The strings and structures of system calls' arguments: load the BPF programs, read what they copy, and find the call of each text."""

from __future__ import annotations

import contextlib
import os
import struct
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.attr import EventAttr
from perfpy.abi.columns import rows_where
from perfpy.abi.flags import PerfType
from perfpy.abi.system_calls.arguments import arguments_of
from perfpy.abi.system_calls.numbers import names_by_number
from perfpy.abi.system_calls.structures import structures_of
from perfpy.errors import KernelRefusedError
from perfpy.kernel.bpf import loading as bpf_loading
from perfpy.live.calls.text_program import (
    HEAD,
    MOST_ARGUMENTS,
    PENDING_SIZE,
    RETURN_SHIFT,
    SCRATCH_SIZE,
    WANTED,
    element_word,
    enter_program,
    exit_program,
    fork_program,
)
from perfpy.tracing.events import ENTER
from perfpy.views.trace.arguments.structure_text import structure_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.capture.counter import Counter
    from perfpy.tracing.events import CallEvents

_KEY: Final = struct.Struct("=I")
_CALLS: Final = 1024  # numbers of calls
_PENDING: Final = 16384  # threads
_PROCESSES: Final = 1 << 16  # beyond it, the processes whose last call is oldest are dropped
_RING_SIZE: Final = 1 << 24
_INITIAL_PID_NAMESPACE: Final = 0xEFFFFFFC
_MOST_WAITING: Final = 1 << 18  # strings whose call has not been seen
_MOST_BYTES: Final = 1 << 24  # of them


class TracedProcesses(NamedTuple):
    """The processes whose calls are traced, so that the strings of others are not copied.

    Attributes:
        pids: processes.
        fork_tracepoint: id of sched:sched_process_fork; their children are traced, too. None: their children are not.
        child_offset: of the child's pid in its raw data.
    """

    pids: tuple[int, ...]
    fork_tracepoint: int | None
    child_offset: int = 0


class CopiedText(NamedTuple):
    """A string or structure. Most of those of a busy machine are never printed, so they become text when they are.

    Attributes:
        time: CLOCK_MONOTONIC, ns.
        tid: the thread.
        number: of the call.
        argument: its index.
        at_return: whether it was read when the call returned.
        data: its bytes.
    """

    time: int
    tid: int
    number: int
    argument: int
    at_return: bool
    data: bytes


class CallStrings:
    """The programs and their maps. Raises OSError or KernelRefusedError if the kernel does not permit them.

    The kernel removes the programs with the descriptors of this process, also if it is killed.

    Args:
        tracepoints: ids of raw_syscalls:sys_enter and sys_exit.
        machine: as uname(2) has it.
        open_counter: opens a counter of this process.
        processes: whose calls are traced; None for all.
    """

    def __init__(
        self,
        tracepoints: tuple[int, int],
        machine: str,
        open_counter: Callable[[EventAttr], Counter],
        processes: TracedProcesses | None = None,
    ) -> None:
        with contextlib.ExitStack() as opened:
            wanted = _create_map(opened, bpf_loading.ARRAY, WANTED.size, _CALLS)
            pending = _create_map(opened, bpf_loading.LRU_HASH, PENDING_SIZE, _PENDING)
            scratch = _create_map(opened, bpf_loading.ARRAY, SCRATCH_SIZE, os.cpu_count() or 1)
            ring = bpf_loading.create_map(bpf_loading.RINGBUF, 0, 0, _RING_SIZE)
            opened.callback(os.close, ring)
            for number, words in wanted_calls(machine).items():
                bpf_loading.update(wanted, _KEY.pack(number), WANTED.pack(*words))
            traced = _traced_map(opened, processes) if processes is not None else None
            maps = wanted, pending, scratch, ring
            codes = {
                tracepoints[0]: enter_program(*maps, os.getpid(), traced),
                tracepoints[1]: exit_program(*maps, os.getpid()),
            }
            if processes is not None and traced is not None and processes.fork_tracepoint is not None:
                codes[processes.fork_tracepoint] = fork_program(traced, processes.child_offset)
            for tracepoint, code in codes.items():
                _attach(opened, tracepoint, code, open_counter)
            self._ring = bpf_loading.BpfRing(ring, _RING_SIZE)
            opened.callback(self._ring.close)
            self._opened = opened.pop_all()
        self._structures = structure_texts(machine)
        self._waiting: list[CopiedText] = []
        self._bytes = 0

    def close(self) -> None:
        """Detach the programs."""
        self._opened.close()

    def drain(self) -> None:
        """Take the strings out of the ring."""
        unpack, size = HEAD.unpack_from, HEAD.size
        texts = []
        for record in self._ring.records():
            time, tid, _, number, argument, at_return = unpack(record)
            texts.append(CopiedText(time, tid, number, argument, bool(at_return), record[size:]))
        self.add(texts)

    def add(self, texts: list[CopiedText]) -> None:
        """Add strings, and drop the oldest if there are too many: other tasks that are not traced make them without end."""
        self._waiting += texts
        self._bytes += sum(len(one.data) for one in texts)
        dropped = max(len(self._waiting) - _MOST_WAITING, 0)
        self._bytes -= sum(len(one.data) for one in self._waiting[:dropped])
        while self._bytes > _MOST_BYTES:
            self._bytes -= len(self._waiting[dropped].data)
            dropped += 1
        del self._waiting[:dropped]

    def texts_of(self, events: CallEvents) -> dict[int, dict[int, str]]:
        """Return row of an entry -> index of the argument -> its string; later strings wait for later batches."""
        ready, self._waiting = self._split(int(events.time[-1]) if events.size else 0)
        self._bytes -= sum(len(one.data) for one in ready)
        by_thread: dict[int, list[CopiedText]] = {}
        for text in ready:
            by_thread.setdefault(text.tid, []).append(text)
        found: dict[int, dict[int, str]] = {}
        if not by_thread:
            return found
        rows = rows_where(events.kind == ENTER)
        rows = rows[np.isin(events.tid[rows], list(by_thread))]
        of_thread: dict[int, list[int]] = {}
        for row, tid in zip(rows.tolist(), events.tid[rows].tolist(), strict=True):
            of_thread.setdefault(tid, []).append(row)
        for tid, texts in by_thread.items():
            self._assign(texts, of_thread.get(tid, []), events, found)
        return found

    def _split(self, until: int) -> tuple[list[CopiedText], list[CopiedText]]:
        """Return the strings up to a time, and the later ones."""
        ready, later = list[CopiedText](), list[CopiedText]()
        for text in self._waiting:
            (ready if text.time <= until else later).append(text)
        return ready, later

    def _assign(self, texts: list[CopiedText], rows: list[int], events: CallEvents, found: dict[int, dict[int, str]]) -> None:
        """Give each string of a thread to its entry.

        The program for entries runs just before the entry's sample, so a string belongs to the next entry of its call, and one that was
        read at the return to the last entry before it.
        """
        if not rows:
            return
        times, numbers = events.time[rows].tolist(), events.number[rows].tolist()
        for text in texts:
            position = bisect_right(times, text.time) - 1 if text.at_return else bisect_left(times, text.time)
            if 0 <= position < len(rows) and numbers[position] == text.number:
                as_text = self._structures.get((text.number, text.argument), _string)
                found.setdefault(rows[position], {})[text.argument] = as_text(text.data)


def _create_map(opened: contextlib.ExitStack, kind: int, value_size: int, entries: int) -> int:
    """Create a map with numbers as keys, which the stack closes."""
    descriptor = bpf_loading.create_map(kind, _KEY.size, value_size, entries)
    opened.callback(os.close, descriptor)
    return descriptor


def _traced_map(opened: contextlib.ExitStack, processes: TracedProcesses) -> int:
    """Create the map of the traced processes."""
    traced = _create_map(opened, bpf_loading.LRU_HASH, _KEY.size, _PROCESSES)
    for pid in processes.pids:
        bpf_loading.update(traced, _KEY.pack(pid), _KEY.pack(1))
    return traced


def _attach(opened: contextlib.ExitStack, tracepoint: int, code: bytes, open_counter: Callable[[EventAttr], Counter]) -> None:
    """Load a program, and let a tracepoint run it as long as a counter is open, which the stack closes."""
    program = bpf_loading.load_program(bpf_loading.TRACEPOINT, code)
    try:
        counter = open_counter(EventAttr(type=PerfType.TRACEPOINT, config=tracepoint, disabled=1))
        opened.callback(counter.close)
        counter.set_bpf(program)
    finally:
        os.close(program)


def _string(data: bytes) -> str:
    """Return a string that ends with a NUL."""
    return data.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")


def wanted_calls(machine: str) -> dict[int, list[int]]:
    """Return number of a call -> the words of WANTED."""
    wanted = {}
    for number, name in names_by_number(machine).items():
        words = [0] * (1 + MOST_ARGUMENTS)
        words[0] = sum(1 << index for index, argument in enumerate(arguments_of(name) or ()) if argument.kind == "text")
        for pointed in structures_of(name, machine):
            moments = pointed.at_entry | pointed.at_return << RETURN_SHIFT
            words[0] |= moments << pointed.argument
            words[1 + pointed.argument] = element_word(pointed)
        if words[0] and number < _CALLS:
            wanted[number] = words
    return wanted


def structure_texts(machine: str) -> dict[tuple[int, int], Callable[[bytes], str]]:
    """Return (number of a call, index of an argument) -> the function from the bytes of its structure to text."""
    return {
        (number, pointed.argument): structure_text(pointed.structure, machine)
        for number, name in names_by_number(machine).items()
        for pointed in structures_of(name, machine)
    }


def open_strings(
    tracepoints: tuple[int, int],
    machine: str,
    open_counter: Callable[[EventAttr], Counter],
    processes: TracedProcesses | None = None,
) -> CallStrings | str:
    """Return the strings' source, or the reason why there is none."""
    try:
        if os.stat("/proc/self/ns/pid").st_ino != _INITIAL_PID_NAMESPACE:
            return "in a container, BPF programs see the pids of the host"
        return CallStrings(tracepoints, machine, open_counter, processes)
    except KernelRefusedError as error:
        return str(error)
    except OSError as error:
        return f"BPF programs are refused ({error.strerror}); run as root"
