"""The samples of time off the CPU, and how they encode the reason of a wait.

The event `offcpu-time` is perf's own (record --off-cpu, for which perf needs BPF): a software event bpf-output whose samples have the
nanoseconds off the CPU as their period. perfpy adds PERF_SAMPLE_WEIGHT_STRUCT, a field that every perf skips:

    { u32 waker; u16 state; u16 notes; }

waker: the thread that ended the wait, valid if notes have WOKEN_BY_THREAD; state: the letter in /proc/PID/stat, R for a thread that
waited for a CPU, - for a wait of unknown kind.
"""

from __future__ import annotations

from typing import Final

OFF_CPU_EVENT: Final = "offcpu-time"

#: bits of notes
IS_WAIT: Final = 1 << 15
WOKEN_BY_THREAD: Final = 1
WOKEN_BY_INTERRUPT: Final = 2

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
