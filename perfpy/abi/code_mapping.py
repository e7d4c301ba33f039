"""The record of a mapping of code that was made while a program ran, which the kernel does not tell of.

What enters: whose code, where, from which file, since when. What leaves: an MMAP2, executable and private, as the kernel writes one
(struct in include/uapi/linux/perf_event.h, PERF_RECORD_MMAP2).
"""

from __future__ import annotations

from typing import Final

from perfpy.abi.flags import MISC_USER
from perfpy.abi.records import Mmap2
from perfpy.abi.sample_id import SampleId

PROT_READ_EXEC: Final = 5
MAP_PRIVATE: Final = 2


def code_mapping(
    task: tuple[int, int], code: tuple[int, int, int], filename: str, moment: int, identity: int, file: tuple[int, int, int] = (0, 0, 0)
) -> Mmap2:
    """The mapping. task: pid, tid; code: address, size, offset in the file; moment: ns; identity: the event's; file: device, inode."""
    pid, tid = task
    addr, size, offset = code
    sample_id = SampleId(pid, tid, moment, identity, 0, 0, identity)
    return Mmap2(MISC_USER, pid, tid, addr, size, offset, *file, 0, PROT_READ_EXEC, MAP_PRIVATE, filename, sample_id=sample_id)
