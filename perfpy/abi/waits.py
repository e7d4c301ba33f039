"""Samples of time off the CPU: how an event `offcpu-time` says why a thread waited.

What enters and leaves: numbers. The event is perf's own (record --off-cpu, of
which perf needs BPF for): a software event bpf-output of that name, whose
samples have the nanoseconds off the CPU as their period. What perf does not
record stands in PERF_SAMPLE_WEIGHT_STRUCT, a field that every perf reads past:

    { u32 waker; u16 state; u16 notes; }

waker: the thread that woke the waiting one, where notes say that it is known;
state: the letter that stands for it in /proc/PID/stat, R where the thread
could have run but another one did, - where it waited and the kernel did not say how.
"""

from __future__ import annotations

from typing import Final

OFF_CPU_EVENT: Final = "offcpu-time"

#: notes: the sample is one of a wait; a thread woke it; an interrupt did
IS_WAIT: Final = 1 << 15
WOKEN_BY_THREAD: Final = 1
WOKEN_BY_INTERRUPT: Final = 2

READY: Final = ord("R")
UNKNOWN_STATE: Final = ord("-")
#: bit of task_struct's state, as sched_switch has it since Linux 4.14 -> letter
STATE_BITS: Final = ((1, "S"), (2, "D"), (4, "T"), (8, "t"), (16, "X"), (32, "Z"), (64, "P"), (128, "I"))
#: threads in these states never come back
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
