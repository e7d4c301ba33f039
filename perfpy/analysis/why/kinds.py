"""The kinds of what a thread does: it runs, or it waits for a reason.

The reasons of waits are those of perfpy.analysis.verdict.waits; the kinds here continue their numbers. Each kind belongs to a column of the
table of threads.
"""

from __future__ import annotations

from typing import Final

from perfpy.analysis.verdict import waits as reasons

RUNNING: Final = 18
SPINNING: Final = 19  #: running in a function that waits for a spinlock
PAGE_FAULT: Final = 20  #: blocked in a page fault
ROW_LOCK: Final = 21  #: blocked for a lock of a database
STOPPED: Final = 22  #: stopped by a signal or a debugger
KINDS: Final = 23

#: the columns of the table of threads, and the kinds in each
COLUMNS: Final[dict[str, tuple[int, ...]]] = {
    "running": (RUNNING, SPINNING),
    "runnable": (reasons.CPU,),
    "disk": (reasons.DISK,),
    "lock": (reasons.LOCK, reasons.GIL, reasons.FILE_LOCK, reasons.KERNEL_LOCK, reasons.FUTEX, ROW_LOCK),
    "pipe/socket": (reasons.PIPE, reasons.NETWORK, reasons.EVENTS, reasons.TERMINAL),
    "sleep": (reasons.SLEEP,),
    "page fault": (PAGE_FAULT,),
    "child": (reasons.CHILD,),
    "thread": (reasons.JOIN, reasons.BARRIER, reasons.CONDITION),
    "other": (reasons.SIGNAL, STOPPED, reasons.OTHER),
}

#: kinds whose object is the address of a futex
WITH_FUTEX: Final = (reasons.LOCK, reasons.GIL, reasons.CONDITION, reasons.BARRIER, reasons.FUTEX)
#: waits for what another thread does, which are explained by that thread's own waits
FOR_OTHERS: Final = (
    *(reasons.JOIN, reasons.CHILD, reasons.PIPE, reasons.NETWORK, reasons.EVENTS, reasons.CONDITION, reasons.BARRIER, reasons.TERMINAL),
    *(reasons.FUTEX, reasons.SIGNAL),
)
#: waits for resources
FOR_RESOURCES: Final = (
    *(reasons.LOCK, reasons.GIL, reasons.FILE_LOCK, reasons.KERNEL_LOCK, ROW_LOCK),
    *(reasons.DISK, reasons.CPU, PAGE_FAULT, SPINNING),
)
LOCKS: Final = (reasons.LOCK, reasons.GIL, reasons.FILE_LOCK, reasons.KERNEL_LOCK, ROW_LOCK)
