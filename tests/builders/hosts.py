"""Recordings of several hosts, with a chosen number of samples for each thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.abi.records import Comm, SampleId
from perfpy.fleet.merging import Merging
from perfpy.perfdata.header import Feature
from tests.builders.perfdata import PerfDataBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from perfpy.fleet.portable_profile import PortableProfile

MILLISECOND = 1_000_000


def host_recording(path: Path, host: str, counts: Mapping[str, int]) -> str:
    """Write the recording of one host. counts: command -> samples of a millisecond of CPU time."""
    built = PerfDataBuilder()
    if host:
        built.feature(Feature.HOSTNAME, host)
    for number, comm in enumerate(counts):
        tid = 100 + number
        built.record(Comm(0, tid, tid, comm, SampleId(pid=tid, tid=tid, time=1)))
        for time in range(counts[comm]):
            built.sample(pid=tid, tid=tid, time=10 + time * MILLISECOND, period=MILLISECOND)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(built.file())
    return str(path)


def group(folder: Path, hosts: Mapping[str, Mapping[str, int]]) -> Path:
    """Create a folder with a recording of each host."""
    for host, counts in hosts.items():
        host_recording(folder / f"{host}.data", host, counts)
    return folder


def merge_profiles(parts: Iterable[PortableProfile]) -> PortableProfile:
    """Merge at least one part."""
    merging = Merging()
    for part in parts:
        merging.add(part)
    return merging.result()
