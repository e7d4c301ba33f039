"""The sizes of ring buffers: as large as the events need, within what the user may lock."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import PerfType, SampleType, SoftwareId
from perfpy.abi.samples.pace import is_sampled_each_time
from perfpy.kernel.ring import PAGE_SIZE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.abi.attr import EventAttr
    from perfpy.kernel.procfs import ProcFs

_MLOCK_SETTING: Final = "kernel.perf_event_mlock_kb"
_DEFAULT_MLOCK_KB: Final = 516
_PARANOID: Final = "kernel.perf_event_paranoid"
_CAP_IPC_LOCK: Final = 14
_ROOMY: Final = 8 << 20  # bytes: a quarter of a second of stacks of 16 kB at 2 kHz
_FOR_BURSTS: Final = 32 << 20  # bytes: page faults with stacks fill 8 MB within some milliseconds
_ALL_RINGS: Final = 256 << 20
_HURRY: Final = 10_000  # Hz


def default_pages(procfs: ProcFs) -> int:
    """Return perf's default pages of a ring buffer: as many as a user may lock, rounded down to 2^n."""
    allowed = procfs.setting(_MLOCK_SETTING) or _DEFAULT_MLOCK_KB
    pages = max(allowed * 1024 // PAGE_SIZE - 1, 1)
    return 1 << (pages.bit_length() - 1)


def pages_for(attrs: Sequence[EventAttr], procfs: ProcFs, capabilities: int, *, rewritten: bool = False) -> int:
    """Return the pages of a ring by how fast these events fill it; perf's number where the user may not lock more.

    rewritten: whether another process takes the records, as with --unwind.
    """
    if any(_comes_in_bursts(attr) for attr in attrs):
        return roomy_pages(procfs, capabilities, _FOR_BURSTS)
    if rewritten or any(map(_fills_ring_quickly, attrs)):
        return roomy_pages(procfs, capabilities, _ROOMY)
    return default_pages(procfs)


def roomy_pages(procfs: ProcFs, capabilities: int, size: int) -> int:
    """Return the pages of a ring of some bytes, fewer on machines with many CPUs; perf's number where the user may not lock more."""
    may_lock = capabilities >> _CAP_IPC_LOCK & 1 or (procfs.setting(_PARANOID) or 0) < 0
    each = min(size, _ALL_RINGS // (os.cpu_count() or 1))
    return max(default_pages(procfs), 1 << (each // PAGE_SIZE).bit_length() - 1 if may_lock else 0)


def _comes_in_bursts(attr: EventAttr) -> bool:
    """Whether each occurrence of an event writes a copy of the stack."""
    return bool(attr.sample_type & SampleType.STACK_USER) and is_sampled_each_time(attr)


def _fills_ring_quickly(attr: EventAttr) -> bool:
    """Whether an event may fill an ordinary ring before the recorder runs again: within some hundredths of a second."""
    if attr.type == PerfType.SOFTWARE and attr.config in (SoftwareId.DUMMY, SoftwareId.BPF_OUTPUT):
        return False
    if attr.sample_type & SampleType.STACK_USER:
        return True
    return attr.sample_freq >= _HURRY if attr.freq else is_sampled_each_time(attr)
