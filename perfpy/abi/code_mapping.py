"""Make the MMAP2 record for code that a program generated at run time, which the kernel does not report.

Layout: PERF_RECORD_MMAP2 in include/uapi/linux/perf_event.h.
"""

from __future__ import annotations

from typing import Final

from perfpy.abi.flags import MISC_USER
from perfpy.abi.records import Mmap2
from perfpy.abi.sample_id import SampleId

PROT_EXEC: Final = 4
PROT_READ_EXEC: Final = 5
MAP_PRIVATE: Final = 2


def code_mapping(
    task: tuple[int, int], code: tuple[int, int, int], filename: str, moment: int, identity: int, file: tuple[int, int, int] = (0, 0, 0)
) -> Mmap2:
    """Return an executable, private mapping.

    Args:
        task: pid, tid
        code: address, size, offset in the file
        moment: time in ns
        identity: the id of the event
        file: device (major, minor) and inode
    """
    pid, tid = task
    addr, size, offset = code
    sample_id = SampleId(pid, tid, moment, identity, 0, 0, identity)
    return Mmap2(MISC_USER, pid, tid, addr, size, offset, *file, 0, PROT_READ_EXEC, MAP_PRIVATE, filename, sample_id=sample_id)
