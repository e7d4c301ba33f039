"""What the callchains of switches, wakeups and samples mean: the reason of a wait, and the function that the program's author knows.

Each distinct callchain is read once. Function numbers are indexes into `StackMeanings.functions`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import Ragged
from perfpy.abi.python_code import PYTHON_MARK
from perfpy.analysis.samples.callchains import ChainTable, frames_of
from perfpy.analysis.verdict import waits as reasons
from perfpy.analysis.verdict.categories import INTERPRETER, KERNEL, LIBRARY, OWN, UNKNOWN, category
from perfpy.analysis.why.kinds import PAGE_FAULT, ROW_LOCK
from perfpy.analysis.why.python_lines import PythonLines, is_python

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.symbols.symbolizer import Symbolizer

NO_FUNCTION: Final = -1
_FAULT: Final = r"(?:asm_)?exc_page_fault|do_user_addr_fault|handle_userfault|do_page_fault|do_mem_abort|do_translation_fault"
_ROW_LOCK: Final = r"ProcSleep|lock_wait_suspend_thread|lock_wait_timeout_thread"
_SPIN: Final = (
    r"_*pthread_spin_(?:try)?lock|(?:\w*_)?spin_?lock(?!ed|_init)\w*|native_queued_spin_lock_slowpath|_raw_spin_lock\w*|queued_(?:read|write)_lock_slowpath"
    r"|.*(?:SpinLock|Spinlock|spinlock|SpinMutex)(?:::|\b|_)?(?:lock|acquire|Lock|Acquire)?.*|s_lock|perform_spin_delay"
)
_SEND: Final = r"__sys_send(?:to|msg)|sock_(?:sendmsg|write_iter)|(?:tcp|udp|unix)\w*_sendmsg\w*|sock_def_readable"
#: bits of meanings other than reasons
_BIT_FAULT, _BIT_ROW_LOCK, _BIT_SPIN, _BIT_SEND = 1 << 24, 1 << 25, 1 << 26, 1 << 27
_BIT_GIL: Final = 1 << reasons.GIL
#: waits of the standard library that locks are made into
_OF_PYTHON: Final = (
    (1 << reasons.JOIN, PYTHON_MARK + r"Thread\.join:.*/threading\.py"),
    (1 << reasons.CONDITION, PYTHON_MARK + r"Condition\.wait:.*/threading\.py"),
)
_KINDS_OF_LOCK: Final = (
    (re.compile(r"_*pthread_rwlock_.*"), "rwlock"),
    (re.compile(r"_*pthread_mutex_.*"), "mutex"),
    (re.compile(r"_*(?:new_)?sem_.*"), "semaphore"),
    (re.compile(r"_*pthread_barrier_.*"), "barrier"),
    (re.compile(r"_*pthread_cond_.*"), "condition"),
)
_SCHEDULER: Final = re.compile(
    r"(?:__|io_|preempt_)?schedule\w*|try_to_wake_up|wake_up_\w+|__wake_up\w*|(?:auto|default|woken)\w*_wake_function"
)
_SYSTEM_CALL: Final = re.compile(r"__(?:x64|arm64|ia32|riscv|s390x?|powerpc)_sys_(\w+)")
_INTERNAL: Final = "__GI_"  # before the C library's names of its own functions
_TIMED: Final = re.compile(r"_*pthread_cond_(?:timed|clock)wait.*")  # CPython waits for its GIL by it
_LONGEST: Final = 128  # frames of a callchain that are read


class Meaning(NamedTuple):
    """The meaning of a callchain.

    Attributes:
        reason: of a wait (perfpy.analysis.why.kinds).
        function: the number of the own function, or else of the nearest known one; NO_FUNCTION: none.
        lock: "mutex", "rwlock" and so on; "": no known kind of lock.
        is_spin: whether the thread waits for a spinlock.
        is_send: whether it sends data to a socket.
        is_own: whether the function is in the program, not in a library or the kernel.
        is_python: whether the function is one of Python.
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


class StackMeanings:
    """The meanings of the callchains of a recording.

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
        self._patterns = [(1 << reason, re.compile(pattern)) for reason, pattern in reasons.FUNCTIONS.items()]
        more = ((_BIT_FAULT, _FAULT), (_BIT_ROW_LOCK, _ROW_LOCK), (_BIT_SPIN, _SPIN), (_BIT_SEND, _SEND))
        self._patterns += [(bit, re.compile(pattern)) for bit, pattern in (*more, *_OF_PYTHON)]
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
        """Read the meanings of all callchains that were added."""
        self._symbolizer.resolve()
        frames, offsets = self._table.chains()
        self._python_lines.resolve(frames)
        for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            chain = frames[begin : min(end, begin + _LONGEST)]
            self.chains.append(chain)
            self.meanings.append(self._meaning(chain.tolist()))

    def _meaning(self, chain: Sequence[int]) -> Meaning:
        bits, lock, call, best, rank, callee = 0, "", "", NO_FUNCTION, 9, ""
        order = {OWN: 0, LIBRARY: 1, INTERPRETER: 2, UNKNOWN: 4, KERNEL: 5}
        for frame in chain:
            function_bits, kind, number, name = self._function(frame)
            bits |= function_bits
            lock = lock or _kind_of_lock(name)
            if kind == INTERPRETER and callee:
                bits |= _BIT_GIL if _TIMED.fullmatch(callee) else 0
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
            self._spins(chain),
            bool(bits & _BIT_SEND),
            rank == 0,
            call,
            is_python(self.functions[best]) if best >= 0 else False,
        )

    def _spins(self, chain: Sequence[int]) -> bool:
        return any(self._function(frame)[0] & _BIT_SPIN for frame in chain[:3])

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
        bits = sum(bit for bit, pattern in self._patterns if plain and pattern.fullmatch(plain))
        number = self._number(name.removeprefix(_INTERNAL)) if name else NO_FUNCTION
        properties = self._symbols[symbol, dso] = (bits, kind, number, plain)
        return properties

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
    if bits & _BIT_ROW_LOCK:
        return ROW_LOCK
    in_futex = bits & (1 << reasons.FUTEX)
    for reason in range(reasons.OTHER):
        if bits & (1 << reason) and (in_futex or reason not in reasons.OF_FUTEX):
            if bits & _BIT_FAULT and reason in (reasons.DISK, reasons.FUTEX):
                return PAGE_FAULT
            return reason
    return PAGE_FAULT if bits & _BIT_FAULT else reasons.OTHER
