"""What perfpy alone writes into samples: the reasons of waits, and the addresses of Python functions.

The event `offcpu-time` is perf's own (record --off-cpu, for which perf needs BPF): a software event bpf-output whose samples have the
nanoseconds off the CPU as their period. perfpy adds PERF_SAMPLE_WEIGHT_STRUCT, a field that every perf skips:

    { u32 waker; u16 state; u16 notes; }

waker: the thread that ended the wait, valid if notes have WOKEN_BY_THREAD; state: the letter in /proc/PID/stat, R for a thread that
waited for a CPU, - for a wait of unknown kind; notes with LIKE_OTHERS: the stack and the state are those of a similar wait of the thread.
"""

from __future__ import annotations

from enum import IntEnum

from perfpy.abi.light_types import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Final

OFF_CPU_EVENT: Final = "offcpu-time"

#: bits of notes
IS_WAIT: Final = 1 << 15
WOKEN_BY_THREAD: Final = 1
WOKEN_BY_INTERRUPT: Final = 2
LIKE_OTHERS: Final = 4

READY: Final = ord("R")
UNKNOWN_STATE: Final = ord("-")
#: bit of task_struct's state in sched_switch since Linux 4.14 -> letter
STATE_BITS: Final = ((1, "S"), (2, "D"), (4, "T"), (8, "t"), (16, "X"), (32, "Z"), (64, "P"), (128, "I"))
#: threads in these states never run again
DEAD: Final = (ord("X"), ord("Z"))

STATE_NAMES: Final = {
    0: "on CPU",
    READY: "R (ready)",
    ord("S"): "S (sleeping)",
    ord("D"): "D (disk sleep)",
    ord("T"): "T (stopped)",
    ord("t"): "t (tracing stop)",
    ord("P"): "P (parked)",
    ord("I"): "I (idle)",
    UNKNOWN_STATE: "- (waiting)",
}


# Addresses of Python functions in callchains: what recorder and reports share.
#
# The ranges of all functions are mapped once for each GilState.


#: the beginning of the names of Python functions, as CPython writes them into perf maps: py::NAME:PATH
PYTHON_MARK: Final = "py::"


#: instead of the file of a Python function: a C function that a Python function called, with the name in a method table, and one with the
#: name that was loaded for the call
BUILT_IN: Final = "<built-in>"
BUILT_IN_BY_CALL: Final = "<built-in, by its call>"


def is_called_c_function(name: str) -> bool:
    """Whether the name of a function is that of a C function that a Python function called.

    >>> is_called_c_function("py::sorted:<built-in>"), is_called_c_function("py::main:/srv/app.py")
    (True, False)
    """
    return name.startswith(PYTHON_MARK) and name.endswith((f":{BUILT_IN}", f":{BUILT_IN_BY_CALL}"))


def module_of_c_function(name: str) -> str:
    """Return the module of a C function that a Python function called.

    The name of a built-in type has no module (CPython's tp_name), and a name that was loaded for the call tells none unless it is built in.

    >>> module_of_c_function("py::re.Pattern.sub:<built-in>"), module_of_c_function("py::str.join:<built-in>")
    ('re', 'builtins')
    >>> module_of_c_function("py::sorted:<built-in>"), module_of_c_function("py::add:<built-in, by its call>")
    ('builtins', 'unknown module')
    """
    import builtins
    import types

    function, _, kind = name.removeprefix(PYTHON_MARK).rpartition(":")
    first, dot, _ = function.partition(".")
    is_of_type = any(isinstance(one, type) and one.__name__ == first for one in vars(types).values())
    if hasattr(builtins, first) or is_of_type or not (dot or kind == BUILT_IN_BY_CALL):
        return "builtins"
    return first if dot else "unknown module"


#: where the addresses begin: what no program maps, between the heap of position-dependent programs and libraries
FIRST_ADDRESS: Final = 0x3E00_0000_0000


#: the name of the function that stands in callchains between an event loop and the callbacks of a turn that lasts long
BLOCKED_LOOP: Final = "[event loop blocked for over 100 ms]"


#: the function in callchains between an asyncio task and the coroutines that await it
AWAITED_BY: Final = "[awaited by]"


MAPPED_SIZE: Final = 1 << 30  #: bytes of one mapping


class GilState(IntEnum):
    """Whether a thread has the global interpreter lock, at the moment of a sample."""

    UNKNOWN = 0
    HOLDS = 1
    RELEASED = 2
    WAITS = 3


def mapping_of(state: int) -> int:
    """Return where the mapping of a state begins."""
    return FIRST_ADDRESS + state * MAPPED_SIZE
