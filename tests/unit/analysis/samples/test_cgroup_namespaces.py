"""The cgroup namespace of a thread at the time of a sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.abi.records import Namespaces
from perfpy.abi.sample_id import SampleId
from perfpy.recording import Recording
from tests.builders.perfdata import PerfDataBuilder

if TYPE_CHECKING:
    from pathlib import Path

MAIN, OTHER = 7, 8


def test_the_newest_namespace_of_a_thread_counts(tmp_path: Path) -> None:
    built = PerfDataBuilder()
    for time, tid, inode in ((10, MAIN, 0xA0), (30, MAIN, 0xB0), (5, OTHER, 0xA0)):
        stamp = SampleId(pid=MAIN, tid=tid, time=time, cpu=0)
        built.record(Namespaces(0, MAIN, tid, ((3, 1),) * 6 + ((4, inode),), stamp))
    for time, tid in ((20, MAIN), (40, MAIN), (50, MAIN), (60, OTHER), (70, 9), (1, MAIN)):
        built.sample(pid=MAIN, tid=tid, time=time, ip=0x1000, period=1)
    (tmp_path / "perf.data").write_bytes(built.file())
    with Recording(tmp_path / "perf.data") as recording:
        rows = recording.report("cgroup_id").top()
    assert {row.texts["cgroup_id"]: row.values["samples"][0] for row in rows} == {"4/0xa0": 2, "4/0xb0": 2, "0/0x0": 2}
