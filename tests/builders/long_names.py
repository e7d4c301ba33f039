"""A recording of a program whose functions have names of templates.

Input: a folder. Output: the recording in it, beside the program that it names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.abi.flags import SampleType
from perfpy.abi.records import Mmap2, SampleId
from tests.builders.elf import Elf
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

#: name as linkers know it, as perf prints it, as a screen shows it
SORT = (
    "_ZSt16__introsort_loopIPilN9__gnu_cxx5__ops15_Iter_less_iterEEvT_S4_T0_T1_",
    "void std::__introsort_loop<int*, long, __gnu_cxx::__ops::_Iter_less_iter>(int*, int*, long, __gnu_cxx::__ops::_Iter_less_iter)",
    "std::__introsort_loop<…>(…)",
)
OWNER = (
    "_ZN5TableISsSaISsEE4fillERKSs",
    "Table<std::string, std::allocator<std::string> >::fill(std::string const&)",
    "Table<…>::fill(…)",
)


def recording_with_long_names(folder: Path) -> Path:
    """Three samples in one function that another calls."""
    elf = Elf().text(0x1000, size=0x1000).segment(0x1000, 0x1000, 0x1000)
    (folder / "app").write_bytes(elf.symbol(SORT[0], 0x1000, 0x20).symbol(OWNER[0], 0x1020, 0x20).build())
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | SampleType.CALLCHAIN)])
    built.record(Mmap2(2, 7, 7, 0x401000, 0x1000, 0x1000, 0, 0, 0, 0, 5, 2, "/app", b"", SampleId(pid=7, tid=7, time=1)))
    for moment in range(3):
        built.sample(pid=7, tid=7, time=5 + moment, ip=0x401004, period=1, misc=2, callchain=[0x401004, 0x401028])
    path = folder / "perf.data"
    path.write_bytes(built.file())
    return path
