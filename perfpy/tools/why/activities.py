"""What each thread does in each segment of its time: kinds, functions, locks and wakers as columns."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import Ragged
from perfpy.abi.flags import CONTEXT_USER
from perfpy.abi.perfpy_encodings import PYTHON_MARK
from perfpy.abi.system_calls import has_table, numbers_by_name
from perfpy.analysis.callchains import ChainTable, frames_of
from perfpy.analysis.verdict import wait_reasons as reasons
from perfpy.analysis.verdict.categories import INTERPRETER, KERNEL, LIBRARY, OWN, UNKNOWN, category
from perfpy.debuginfo.debug_info import lines_of
from perfpy.scheduling.segments import BLOCKED, READY, SegmentIndex, Segments, SwitchColumns, WakeupColumns, make_segments
from perfpy.scheduling.transitions import has_user_part
from perfpy.tools.why.tasks import PAGE_FAULT, RUNNING, STOPPED, WITH_FUTEX, first_arguments, numbers_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.tools.why.tasks import WhyEvents

    Int64 = NDArray[np.int64]


_NONE: Final = -1
_STOPPED_BITS: Final = 4 | 8
#: reasons by system call, for recordings without the kernel's symbols
OF_CALLS: Final = {
    reasons.FUTEX: ("futex",),
    reasons.SLEEP: ("nanosleep", "clock_nanosleep"),
    reasons.CHILD: ("wait4", "waitid", "waitpid"),
    reasons.DISK: ("fsync", "fdatasync", "sync", "syncfs", "msync", "sync_file_range"),
    reasons.FILE_LOCK: ("flock",),
    reasons.EVENTS: ("poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2"),
    reasons.NETWORK: ("recvfrom", "recvmsg", "recvmmsg", "sendto", "sendmsg", "sendmmsg", "connect"),
    reasons.CLIENT: ("accept", "accept4"),
    reasons.MESSAGE: ("msgrcv", "mq_timedreceive"),
    reasons.SIGNAL: ("pause", "rt_sigsuspend", "rt_sigtimedwait"),
}


class Activities(NamedTuple):
    """The segments of all threads, with what happens in each.

    Attributes:
        segments: sorted by thread and time.
        kind: int64[n], see perfpy.tools.why.tasks.
        function: int64[n], the function that waits; NO_FUNCTION: unknown.
        lock: uint64[n], the address of the lock; 0: none.
        chain: int64[n], the callchain of a wait; -1: none.
        waker: int64[n], the thread that ended a blocked segment; -1: unknown, or an interrupt.
        by_interrupt: bool[n], whether an interrupt ended it.
        waker_chain: int64[n], the callchain of the waker; -1: none.
        priorities: thread -> its last priority.
        meanings: of the callchains.
        samples: of running threads.
    """

    segments: Segments
    kind: Int64
    function: Int64
    lock: NDArray[np.uint64]
    chain: Int64
    waker: Int64
    by_interrupt: NDArray[np.bool_]
    waker_chain: Int64
    priorities: dict[int, int]
    meanings: StackMeanings
    samples: RunningSamples


class RunningSamples(NamedTuple):
    """Samples of running threads, sorted by thread and time.

    Attributes:
        tid, time: int64[n].
        function: int64[n], the own function.
        spins: bool[n], whether the thread waited for a spinlock.
    """

    tid: Int64
    time: Int64
    function: Int64
    spins: NDArray[np.bool_]


def make_activities(events: WhyEvents, symbolizer: Symbolizer, machine: str, tids: Collection[int] | None = None) -> Activities:
    """Return the activities of all threads.

    Args:
        events: of the recording.
        symbolizer: of the recording.
        machine: its architecture, for the numbers of system calls.
        tids: the threads whose waits are to be explained. Callchains of threads that are not concerned are not read. None for all.
    """
    switches, wakeups, samples = events.switches, events.wakeups, events.samples
    prev, state = numbers_of(switches, "prev_pid"), numbers_of(switches, "prev_state")
    segments = _segments(events, prev, state)
    meanings = StackMeanings(symbolizer)
    concerned = None if tids is None else concerned_threads(events, segments, np.array(sorted(tids), np.int64))
    of_switches = _added(meanings, switches.chains, switches.pid, switches.key, prev, concerned, completes=True)
    of_wakeups = _added(meanings, wakeups.chains, wakeups.pid, wakeups.key, numbers_of(wakeups, "pid"), concerned)
    of_samples = _added(meanings, samples.chains, samples.pid, samples.key, samples.tid, concerned)
    meanings.resolve()
    departure, wakeup = segments.departure, segments.wakeup
    chain = values_of(of_switches, departure)
    kind, is_blocked = np.where(segments.kind == READY, reasons.CPU, RUNNING), segments.kind == BLOCKED
    reason = np.where(chain >= 0, meanings.column("reason", np.maximum(chain, 0)), reasons.OTHER)
    reason = np.where(values_of(state, departure) & _STOPPED_BITS & (departure >= 0) * 0xFF, STOPPED, reason)
    kind = np.where(is_blocked, reason, kind)
    call, address = _last_calls(events, segments, machine)
    kind = np.where(is_blocked & (kind == reasons.OTHER) & (call != reasons.OTHER), call, kind)
    # Each wait for a condition of Python has a lock of its own, and each thread of a JVM one, so that the address says nothing.
    is_private = (chain >= 0) & (sum(meanings.column(name, np.maximum(chain, 0)) for name in ("is_python", "is_parked")) > 0)
    has_address = is_blocked & (call == reasons.FUTEX) & ~is_private
    lock = np.where(has_address & np.isin(kind, WITH_FUTEX), address, np.uint64(0))
    waker_chain = np.where(is_blocked, values_of(of_wakeups, wakeup), _NONE)
    waker, by_interrupt = find_wakers(events, wakeup, waker_chain, meanings, is_blocked)
    function = np.where(chain >= 0, meanings.column("function", np.maximum(chain, 0)), NO_FUNCTION)
    priorities = dict(zip(prev.tolist(), numbers_of(switches, "prev_prio").tolist(), strict=True))
    read = np.flatnonzero(of_samples >= 0)
    order = read[np.lexsort((samples.time[read], samples.tid[read]))]
    numbers = of_samples[order]
    running = RunningSamples(
        samples.tid[order], samples.time[order], meanings.column("function", numbers), meanings.column("is_spin", numbers) > 0
    )
    return Activities(segments, kind, function, lock, chain, waker, by_interrupt, waker_chain, priorities, meanings, running)


def _added(
    meanings: StackMeanings,
    chains: Ragged | None,
    pid: NDArray[Any],
    key: NDArray[np.uint64],
    tid: Int64,
    concerned: Int64 | None,
    *,
    completes: bool = False,
) -> Int64:
    """Return the numbers of the callchains of threads; -1 for threads that are not concerned. completes: add stacks of similar ones."""
    rows = np.arange(len(tid)) if concerned is None else np.flatnonzero(np.isin(tid, concerned))
    numbers = np.full(len(tid), _NONE, np.int64)
    chosen = None if chains is None else chains.take(rows)
    if chosen is not None and completes:
        chosen = with_similar_stacks(chosen, tid[rows])
    numbers[rows] = meanings.add(chosen, pid[rows].astype(np.int64), key[rows])
    return numbers


_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
_ALIKE: Final = 0.9  # the least share of equal stacks, among those of a thread in the same kernel functions, that completes the others


def with_similar_stacks(chains: Ragged, tid: Int64) -> Ragged:
    """Return callchains in order; those without a user part get the one that their thread has in the same functions of the kernel.

    Busy machines copy a part of the stacks. A thread that comes to these functions in several ways gets none: a wait without a place is
    better than a wait in the wrong place.
    """
    has_user = has_user_part(chains)
    if has_user.all() or not has_user.any():
        return chains
    row = np.repeat(np.arange(len(tid)), chains.lengths)
    first = chains.offsets[:-1]
    depth = (np.arange(len(row)) - first[row]).astype(np.uint64)
    mixed = (chains.values ^ depth * _MULTIPLIER) * _MULTIPLIER
    mixed ^= mixed >> np.uint64(29)
    in_user = np.cumsum(chains.values == np.uint64(CONTEXT_USER))
    is_kernel = in_user == np.append(0, in_user)[first][row]
    way, path = (np.append(np.uint64(0), np.cumsum(part, dtype=np.uint64)) for part in (mixed, np.where(is_kernel, mixed, np.uint64(0))))
    way, path = (total[chains.offsets[1:]] - total[first] for total in (way, path))
    order = np.lexsort((way, ~has_user, path, tid))
    group = np.cumsum(np.append(True, (tid[order][1:] != tid[order][:-1]) | (path[order][1:] != path[order][:-1]))) - 1
    known, of_known = order[has_user[order]], group[has_user[order]]
    begins = np.flatnonzero(np.append(True, (of_known[1:] != of_known[:-1]) | (way[known][1:] != way[known][:-1])))
    count = np.diff(np.append(begins, len(known)))
    is_usual = count >= np.bincount(of_known)[of_known[begins]] * _ALIKE
    source = np.full(int(group[-1]) + 1, _NONE, np.int64)
    source[of_known[begins[is_usual]]] = known[begins[is_usual]]
    chosen = np.arange(len(tid))
    chosen[order] = np.where(has_user[order] | (source[group] < 0), order, source[group])
    return chains.take(np.where(chains.lengths == 0, np.arange(len(tid)), chosen))


def _segments(events: WhyEvents, prev: Int64, state: Int64) -> Segments:
    switches, wakeups, samples = events.switches, events.wakeups, events.samples
    times = np.concatenate([switches.time, wakeups.time, samples.time])
    return make_segments(
        SwitchColumns(switches.time, switches.order, switches.cpu.astype(np.int64), prev, numbers_of(switches, "next_pid"), state),
        WakeupColumns(wakeups.time, wakeups.order, numbers_of(wakeups, "pid"), events.is_new),
        int(times.min(initial=np.iinfo(np.int64).max)) if len(times) else 0,
        int(times.max(initial=0)),
    )


def _last_calls(events: WhyEvents, segments: Segments, machine: str) -> tuple[Int64, NDArray[np.uint64]]:
    """Return the reason and the first argument of the last system call before each departure."""
    none, no_address = np.full(len(segments.tid), reasons.OTHER, np.int64), np.zeros(len(segments.tid), np.uint64)
    calls = events.calls
    if not len(calls.order) or not has_table(machine):
        return none, no_address
    numbers = numbers_by_name(machine)
    of_call = {numbers[name]: reason for reason, names in OF_CALLS.items() for name in names if name in numbers}
    ids = numbers_of(calls, "id")
    reason_of = np.full(len(ids), reasons.OTHER, np.int64)
    for number, reason in of_call.items():
        reason_of[ids == number] = reason
    by_thread = np.lexsort((calls.order, calls.tid))
    own, when = calls.tid[by_thread].astype(np.int64), calls.time[by_thread]
    index = SegmentIndex(own, when, when)
    first, count = index.overlapping(segments.tid, segments.begin, segments.begin)
    last = np.maximum(first + count - 1, 0)
    row = by_thread[np.minimum(last, len(by_thread) - 1)]
    has_call = (count > 0) & (calls.time[row] <= segments.begin) & (calls.tid[row] == segments.tid) & (segments.departure >= 0)
    return np.where(has_call, reason_of[row], reasons.OTHER), np.where(has_call, first_arguments(calls)[row], np.uint64(0))


NO_FUNCTION: Final = -1
_FAULT: Final = r"(?:asm_)?exc_page_fault|do_user_addr_fault|handle_userfault|do_page_fault|do_mem_abort|do_translation_fault"
_SPIN: Final = (
    r"_*pthread_spin_(?:try)?lock|(?:\w*_)?spin_?lock(?!ed|_init)\w*|native_queued_spin_lock_slowpath|_raw_spin_lock\w*|queued_(?:read|write)_lock_slowpath"
    r"|.*(?:SpinLock|Spinlock|spinlock|SpinMutex)(?:::|\b|_)?(?:lock|acquire|Lock|Acquire)?.*|s_lock|perform_spin_delay"
)
_SEND: Final = r"__sys_send(?:to|msg)|sock_(?:sendmsg|write_iter)|(?:tcp|udp|unix)\w*_sendmsg\w*|sock_def_readable"
#: bits of meanings other than reasons
_BIT_FAULT, _BIT_SPIN, _BIT_SEND = (1 << reasons.OTHER_BITS + number for number in range(3))
_KINDS_OF_LOCK: Final = (
    (re.compile(r"_*pthread_rwlock_.*"), "rwlock"),
    (re.compile(r"_*pthread_mutex_.*"), "mutex"),
    (re.compile(r"_*(?:new_)?sem_.*"), "semaphore"),
    (re.compile(r"_*pthread_barrier_.*"), "barrier"),
    (re.compile(r"_*pthread_cond_.*"), "condition"),
    (re.compile(r"ObjectMonitor::[Ee]nter\b.*|ObjectSynchronizer::enter\b.*"), "monitor"),
    (re.compile(r".*java\.util\.concurrent\.locks\.[\w$.]*[Ll]ock\(.*"), "lock"),
)
#: functions in which runtimes let a thread sleep, at an address of its own, whatever it waits for
_PARKS: Final = re.compile(
    r"os::(?:Posix::)?Platform(?:Event|Monitor|Parker)\b.*|Parker::park\b.*|runtime\.(?:notet?sleepg?|futexsleep)\b.*"
)
_SCHEDULER: Final = re.compile(
    r"(?:__|io_|preempt_)?schedule\w*|try_to_wake_up|wake_up_\w+|__wake_up\w*|(?:auto|default|woken)\w*_wake_function"
)
_SYSTEM_CALL: Final = re.compile(r"__(?:x64|arm64|ia32|riscv|s390x?|powerpc)_sys_(\w+)")
_INTERNAL: Final = "__GI_"  # before the C library's names of its own functions
_LONGEST: Final = 128  # frames of a callchain that are read


class Meaning(NamedTuple):
    """The meaning of a callchain.

    Attributes:
        reason: of a wait (perfpy.tools.why.tasks).
        function: the number of the own function, or else of the nearest known one; NO_FUNCTION: none.
        lock: "mutex", "rwlock" and so on; "": no known kind of lock.
        is_spin: whether the thread waits for a spinlock.
        is_send: whether it sends data to a socket.
        is_own: whether the function is in the program, not in a library or the kernel.
        is_python: whether the function is one of Python.
        is_parked: whether a runtime lets the thread sleep at an address of its own, which is no lock.
        call: the system call, "" outside of system calls.
    """

    reason: int
    function: int
    lock: str
    is_spin: bool
    is_send: bool
    is_own: bool
    call: str
    is_python: bool = False
    is_parked: bool = False


class StackMeanings:
    """The meanings of the callchains of a recording.

    Each distinct callchain is read once. Function numbers are indexes into `functions`.

    Args:
        symbolizer: of the recording.

    Attributes:
        functions: names by number.
        meanings: of each distinct callchain.
        chains: frame ids of each distinct callchain.
    """

    def __init__(self, symbolizer: Symbolizer) -> None:
        self._symbolizer = symbolizer
        self._table = ChainTable()
        self._symbols: dict[tuple[int, int], tuple[int, int, int, str]] = {}
        self._rules = reasons.RuleBits()
        self._patterns = [(bit, re.compile(pattern)) for bit, pattern in ((_BIT_FAULT, _FAULT), (_BIT_SPIN, _SPIN), (_BIT_SEND, _SEND))]
        self._numbers: dict[str, int] = {}
        self._python_lines = PythonLines(symbolizer)
        self.functions: list[str] = []
        self.meanings: list[Meaning] = []
        self.chains: list[NDArray[np.int32]] = []

    def add(self, chains: Ragged | None, pid: NDArray[np.int64], key: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the number of each callchain, an index of `meanings` after resolve()."""
        if chains is None:
            chains = Ragged.empty(len(pid), np.uint64)
        ids, counts = frames_of(chains, pid.astype(np.int32), key, self._symbolizer)
        return self._table.add(ids, counts).astype(np.int64)

    def resolve(self) -> None:
        """Read the meanings of all callchains that were added, with the inlined calls that reports show."""
        self._symbolizer.resolve()
        frames, offsets = self._table.chains()
        frames, counts = self._symbolizer.expand(frames, np.diff(offsets))
        offsets = np.concatenate([[0], np.cumsum(counts)])
        self._python_lines.resolve(frames)
        for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            chain = frames[begin : min(end, begin + _LONGEST)]
            self.chains.append(chain)
            self.meanings.append(self._meaning(chain.tolist()))

    def _meaning(self, chain: Sequence[int]) -> Meaning:
        bits, lock, call, best, rank, callee = 0, "", "", NO_FUNCTION, 9, ""
        is_parked = False
        order = {OWN: 0, LIBRARY: 1, INTERPRETER: 2, UNKNOWN: 4, KERNEL: 5}
        for frame in chain:
            function_bits, kind, number, name = self._function(frame)
            bits |= function_bits
            if not is_parked and _PARKS.fullmatch(name):
                is_parked, lock = True, ""
            lock = lock or _kind_of_lock(name)
            if kind == INTERPRETER and callee:
                bits |= reasons.bits_of_python_call(callee) if self._is_python(frame) else 0
                lock = "lock" if _kind_of_lock(callee) == "semaphore" else lock
            callee = name
            call = call or _system_call(name)
            if number != NO_FUNCTION and order.get(kind, 3) < rank and not _SCHEDULER.fullmatch(name):
                best, rank = number, order.get(kind, 3)
        python_call = self._python_lines.of(chain)
        if python_call:
            best, rank = self._number(python_call), 0
        return Meaning(
            _reason(bits),
            best,
            lock,
            any(self._function(frame)[0] & _BIT_SPIN for frame in chain[:3]),
            bool(bits & _BIT_SEND),
            rank == 0,
            call,
            is_python(self.functions[best]) if best >= 0 else False,
            is_parked,
        )

    def _function(self, frame: int) -> tuple[int, int, int, str]:
        """Return the bits of a frame's function, its category, its number and its name."""
        frames = self._symbolizer.frames
        symbol, dso = int(frames.symbol[frame]), int(frames.dso[frame])
        stored = self._symbols.get((symbol, dso))
        if stored is not None:
            return stored
        name = self._symbolizer.symbols.name(symbol) if symbol >= 0 else ""
        kind = category(self._symbolizer.dsos[dso] if dso >= 0 else None, name)
        plain = name.partition("@")[0]
        bits = sum(bit for bit, pattern in self._patterns if plain and pattern.fullmatch(plain)) | self._rules.of(name)
        bits |= reasons.KERNEL_BIT if kind == KERNEL else 0
        number = self._number(name.removeprefix(_INTERNAL)) if name else NO_FUNCTION
        properties = self._symbols[symbol, dso] = (bits, kind, number, plain)
        return properties

    def _is_python(self, frame: int) -> bool:
        return "python" in self._symbolizer.dsos[int(self._symbolizer.frames.dso[frame])].short_name

    def _number(self, name: str) -> int:
        number = self._numbers.setdefault(name, len(self.functions))
        if number == len(self.functions):
            self.functions.append(name)
        return number

    def names_of(self, chain: int) -> list[str]:
        """Return the functions of a callchain, the innermost first, those of Python with lines; "[unknown]" without a symbol."""
        return [self._python_lines.name_of(frame) or self._function(frame)[3] or "[unknown]" for frame in self.chains[chain].tolist()]

    def column(self, field: str, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a numeric field of the meaning of each callchain."""
        values = np.array([int(getattr(meaning, field)) for meaning in self.meanings], np.int64)
        return values[numbers] if len(values) else np.zeros(len(numbers), np.int64)


def _kind_of_lock(name: str) -> str:
    return next((kind for pattern, kind in _KINDS_OF_LOCK if pattern.fullmatch(name)), "")


def _system_call(name: str) -> str:
    match = _SYSTEM_CALL.fullmatch(name)
    return match[1] if match else ""


def _reason(bits: int) -> int:
    reason = int(reasons.reasons_of(np.array([bits], np.int64))[0])
    return PAGE_FAULT if bits & _BIT_FAULT and reason in (reasons.DISK, reasons.FUTEX, reasons.OTHER) else reason


_IMPORTING: Final = "<frozen importlib"
#: [GIL held by ...] is no function, and C functions do not say which Python function waits
_NAME: Final = re.compile(PYTHON_MARK + r"(?!\[)([^:]+):(?!:|<built-in)(.+)", re.DOTALL)


class _PythonCall(NamedTuple):
    """A Python frame.

    Attributes:
        function: its qualified name, of functions of libraries with the module.
        path: its file.
        line: the line; 0: unknown.
        kind: the category of its code.
    """

    function: str
    path: str
    line: int
    kind: int

    @property
    def name(self) -> str:
        return f"{PYTHON_MARK}{self.function}:{self.path}:{self.line}" if self.line else f"{PYTHON_MARK}{self.function}:{self.path}"


class PythonLines:
    """The Python frames among the frames of a recording.

    A name such as `py::Queue.get:/srv/worker.py:41` has the function that the program calls, or its own one if no library is in between,
    with the file and line of the program's own code.

    Args:
        symbolizer: of the recording.
    """

    def __init__(self, symbolizer: Symbolizer) -> None:
        self._symbolizer = symbolizer
        self._calls: dict[int, _PythonCall] = {}

    def resolve(self, frames: NDArray[np.int32]) -> None:
        """Look the calls of frames up, once for each distinct frame."""
        table, symbols, dsos = self._symbolizer.frames, self._symbolizer.symbols, self._symbolizer.dsos
        distinct = np.unique(frames).astype(np.int64)
        distinct = distinct[table.symbol[distinct] >= 0]
        numbers, which = np.unique(table.symbol[distinct].astype(np.int64), return_inverse=True)
        matches = [_NAME.fullmatch(symbols.name(number)) for number in numbers.tolist()]
        of_python = distinct[np.array([match is not None for match in matches], bool)[which.ravel()]] if len(distinct) else distinct
        if not len(of_python):
            return
        lines = lines_of(self._symbolizer).code_lines(of_python)
        match_of = dict(zip(numbers.tolist(), matches, strict=True))
        for frame, line in zip(of_python.tolist(), lines.line.tolist(), strict=True):
            match = match_of[int(table.symbol[frame])]
            if match is not None:
                dso = int(table.dso[frame])
                kind = category(dsos[dso] if dso >= 0 else None, match[0])
                self._calls[frame] = _PythonCall(match[1], match[2], line, kind)

    def name_of(self, frame: int) -> str:
        """Return the name of a Python frame with its line; "" for other frames."""
        call = self._calls.get(frame)
        return call.name if call is not None else ""

    def of(self, chain: Sequence[int]) -> str:
        """Return the function that the program's own Python code called, with the line of the call; "" without Python frames.

        The result is the own function if the own code calls no library, and the innermost function if there is no own code.
        """
        called: _PythonCall | None = None
        for call in (self._calls[frame] for frame in chain if frame in self._calls):
            if call.kind == OWN:
                return call._replace(function=_function_of_module(called) if called else call.function).name
            if call.path.startswith(_IMPORTING):
                called = None
            elif called is None or call.kind == LIBRARY:
                called = call
        return called.name if called else ""


def _function_of_module(call: _PythonCall) -> str:
    """Return the function as its callers write it: subprocess.run, but Queue.get."""
    if "." in call.function:
        return call.function
    folder, file = os.path.split(call.path)
    module = os.path.basename(folder) if file == "__init__.py" else file.removesuffix(".py")
    return f"{module}.{call.function}" if module.isidentifier() else call.function


def is_python(name: str) -> bool:
    """Return whether a name is one of a Python function."""
    return name.startswith(PYTHON_MARK)


def chains_of_locks(lock: NDArray[np.uint64], chain: NDArray[np.int64], chains: list[NDArray[np.int32]]) -> dict[int, NDArray[np.int32]]:
    """Return a callchain for each lock.

    Args:
        lock, chain: of each wait; 0 and -1 for none.
        chains: the frames of each callchain.
    """
    rows = np.flatnonzero((lock != 0) & (chain >= 0))
    distinct, first = np.unique(lock[rows], return_index=True)
    return {address: chains[int(chain[rows[row]])] for address, row in zip(distinct.tolist(), first.tolist(), strict=True)}


_HARD_INTERRUPT: Final = 0x08  # common_flags (Documentation/trace/events.rst)
_SOFT_INTERRUPT: Final = 0x10
_DEEPEST: Final = 12  # threads in a row that end each other's waits


def values_of(values: Int64, rows: Int64) -> Int64:
    """Return the values of rows; -1 for row -1."""
    if not len(values):
        return np.full(len(rows), _NONE, np.int64)
    return np.where(rows >= 0, values[np.maximum(rows, 0)], _NONE)


def concerned_threads(events: WhyEvents, segments: Segments, tids: Int64) -> Int64:
    """Return the threads, the threads that ended their waits, and all further wakers."""
    waker = np.where(segments.kind == BLOCKED, values_of(events.wakeups.tid.astype(np.int64), segments.wakeup), _NONE)
    waits = np.flatnonzero(waker > 0)
    concerned, newest = tids, tids
    for _ in range(_DEEPEST):
        wakers = np.unique(waker[waits[np.isin(segments.tid[waits], newest)]])
        newest = wakers[~np.isin(wakers, concerned)]
        if not len(newest):
            break
        concerned = np.concatenate([concerned, newest])
    return concerned


def find_wakers(
    events: WhyEvents, wakeup: Int64, chain: Int64, meanings: StackMeanings, is_blocked: NDArray[np.bool_]
) -> tuple[Int64, NDArray[np.bool_]]:
    """Return the thread that ended each blocked segment, and whether an interrupt did.

    A thread that sends data over the loopback device wakes the receiver in a soft interrupt of its own.
    """
    woken = is_blocked & (wakeup >= 0)
    flags = np.where(woken, values_of(numbers_of(events.wakeups, "common_flags"), wakeup), 0)
    tid = np.where(woken, values_of(events.wakeups.tid.astype(np.int64), wakeup), _NONE)
    sends = (chain >= 0) & (meanings.column("is_send", np.maximum(chain, 0)) > 0)
    by_interrupt = woken & (((flags & _HARD_INTERRUPT) != 0) | (((flags & _SOFT_INTERRUPT) != 0) & ~sends) | (tid == 0))
    return np.where(by_interrupt, _NONE, tid), by_interrupt


def follows_waker(segments: Segments, waker: Int64) -> NDArray[np.bool_]:
    """Return which segments are waits that a thread ended."""
    follows: NDArray[np.bool_] = (segments.kind == BLOCKED) & (waker > 0)
    return follows
