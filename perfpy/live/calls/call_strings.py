"""The strings and structures of system calls' arguments: load the BPF programs, and read what they copy."""

from __future__ import annotations

import contextlib
import os
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import PerfType
from perfpy.abi.system_calls.arguments import arguments_of
from perfpy.abi.system_calls.numbers import names_by_number
from perfpy.abi.system_calls.structures import structures_of
from perfpy.errors import KernelRefusedError
from perfpy.kernel.bpf import loading as bpf_loading
from perfpy.live.calls.copied_texts import WaitingTexts
from perfpy.live.calls.text_program import (
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


class CallStrings:
    """The programs and their maps. Raises OSError or KernelRefusedError if the kernel does not permit them.

    The kernel removes the programs with the descriptors of this process, also if it is killed.

    Args:
        tracepoints: ids of raw_syscalls:sys_enter and sys_exit.
        machine: as uname(2) has it.
        open_counter: opens a counter of this process.
        processes: whose calls are traced; None for all.
        numbers: of the calls whose strings are read; None for all.
    """

    def __init__(
        self,
        tracepoints: tuple[int, int],
        machine: str,
        open_counter: Callable[[EventAttr], Counter],
        processes: TracedProcesses | None = None,
        numbers: frozenset[int] | None = None,
    ) -> None:
        with contextlib.ExitStack() as opened:
            wanted = _create_map(opened, bpf_loading.ARRAY, WANTED.size, _CALLS)
            pending = _create_map(opened, bpf_loading.LRU_HASH, PENDING_SIZE, _PENDING)
            scratch = _create_map(opened, bpf_loading.ARRAY, SCRATCH_SIZE, os.cpu_count() or 1)
            ring = bpf_loading.create_map(bpf_loading.RINGBUF, 0, 0, _RING_SIZE)
            opened.callback(os.close, ring)
            for number, words in wanted_calls(machine, numbers).items():
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
        self._texts = WaitingTexts(machine)

    def close(self) -> None:
        """Detach the programs."""
        self._opened.close()

    def take(self) -> bytes:
        """Take what the programs copied out of the ring, in any thread."""
        return self._ring.take()

    def add(self, data: bytes) -> None:
        """Add what take() returned."""
        self._texts.add(data)

    def texts_of(self, events: CallEvents) -> dict[int, dict[int, str]]:
        """Return row of an entry -> index of the argument -> its string; later strings wait for later batches."""
        return self._texts.of(events)


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


def wanted_calls(machine: str, numbers: frozenset[int] | None = None) -> dict[int, list[int]]:
    """Return number of a call -> the words of WANTED. numbers: of the calls that count; None for all."""
    wanted = {}
    for number, name in names_by_number(machine).items():
        if numbers is not None and number not in numbers:
            continue
        words = [0] * (1 + MOST_ARGUMENTS)
        words[0] = sum(1 << index for index, argument in enumerate(arguments_of(name) or ()) if argument.kind == "text")
        for pointed in structures_of(name, machine):
            moments = pointed.at_entry | pointed.at_return << RETURN_SHIFT
            words[0] |= moments << pointed.argument
            words[1 + pointed.argument] = element_word(pointed)
        if words[0] and number < _CALLS:
            wanted[number] = words
    return wanted


def open_strings(
    tracepoints: tuple[int, int],
    machine: str,
    open_counter: Callable[[EventAttr], Counter],
    processes: TracedProcesses | None = None,
    numbers: frozenset[int] | None = None,
) -> CallStrings | str:
    """Return the strings' source, or the reason why there is none; see CallStrings."""
    try:
        if os.stat("/proc/self/ns/pid").st_ino != _INITIAL_PID_NAMESPACE:
            return "in a container, BPF programs see the pids of the host"
        return CallStrings(tracepoints, machine, open_counter, processes, numbers)
    except KernelRefusedError as error:
        return str(error)
    except OSError as error:
        return f"BPF programs are refused ({error.strerror}); run as root"
