"""AUX data of a HiSilicon PMCU, made byte for byte; the numbers are those of the stand-in module (tests/guests/pmcu_standin)."""

from __future__ import annotations

import struct

from perfpy.abi.flags import SampleType
from perfpy.abi.perf_records import HISI_PMCU, Auxtrace, AuxtraceInfo
from perfpy.abi.records import Aux, SampleId
from perfpy.perfdata.header import Feature, PmuMapping
from tests.builders.perfdata import PerfDataBuilder, usual_attr

PADDING_EVENT = 0xC000


def value_of(sample: int, cpu: int, event: int) -> int:
    """What the stand-in counts."""
    return 0 if event == PADDING_EVENT else 1_000_000 * event + 64 * sample + cpu


def cycles_of(sample: int, cpu: int, subsample: int) -> int:
    """Its cycle counter."""
    return 5_000_000_000 + 1000 * sample + 100 * subsample + cpu


def cpus_in_order(cpus: int) -> list[int]:
    """By the id within the cluster of eight, then by cluster."""
    return [cluster * 8 + number for number in range(8) for cluster in range(cpus // 8)]


def header(events: list[int], *, buffer_size: int, counters: int, cpus: int, compatible: int = 0, **words: int) -> bytes:
    """The header; words: other values for single words, by number (w4=0)."""
    subsamples = -(-len(events) // counters)
    size = (counters + (1 if compatible else 2)) * 8 * cpus
    values = [buffer_size, counters, cpus, compatible, size, subsamples, len(events)]
    for name, value in words.items():
        values[int(name[1:])] = value
    data = struct.pack(f"<{7 + len(events)}I", *values, *events)
    return data + bytes(-len(data) % 16)


def sample(number: int, events: list[int], *, counters: int, cpus: int, compatible: int = 0) -> bytes:
    """One sample."""
    order = cpus_in_order(cpus)
    parts = []
    for subsample in range(-(-len(events) // counters)):
        parts += [struct.pack("<I", 1000 + cpu) for cpu in order]
        parts += [struct.pack("<I", 2000 + cpu) for cpu in order]
        for event in events[subsample * counters : (subsample + 1) * counters]:
            parts += [struct.pack("<Q", value_of(number, cpu, event)) for cpu in order]
        if not compatible:
            parts += [struct.pack("<Q", cycles_of(number, cpu, subsample)) for cpu in order]
    return b"".join(parts)


def aux_data(events: list[int], samples: int, *, buffer_size: int = 4096, counters: int = 0, cpus: int = 8, compatible: int = 0) -> bytes:
    """Header and samples, with a gap at the end of each buffer but the last."""
    counters = counters or min(len(events), 8)
    events = events + [PADDING_EVENT] * (-len(events) % counters)
    data = header(events, buffer_size=buffer_size, counters=counters, cpus=cpus, compatible=compatible)
    for number in range(samples):
        new = sample(number, events, counters=counters, cpus=cpus, compatible=compatible)
        room = buffer_size - len(data) % buffer_size
        if room < len(new):
            data += bytes(room)
        data += new
    return data


PMU_TYPE = 30


def recording(data: bytes, *, cuts: tuple[int, ...] = (), lost: int = 0, config: int = 2 << 32, mapping: str = "hisi_pmcu_sccl0") -> bytes:
    """A perf.data with these AUX data, in pieces that end at `cuts`; lost: how many AUX records say that data was lost."""
    tracked = usual_attr(type=1, config=9, sample_period=1, freq=0)
    built = PerfDataBuilder([usual_attr(type=PMU_TYPE, config=config, sample_period=1, freq=0), tracked])
    built.ids = [(1,), (2,)]
    built.attrs = [attr.copy(sample_type=attr.sample_type | SampleType.IDENTIFIER | SampleType.CPU) for attr in built.attrs]
    built.feature(Feature.PMU_MAPPINGS, (PmuMapping(PMU_TYPE, mapping),))
    built.record(AuxtraceInfo(0, HISI_PMCU, (PMU_TYPE,)))
    begins = (0, *cuts)
    for number, begin in enumerate(begins):
        piece = data[begin : begins[number + 1] if number + 1 < len(begins) else None]
        built.record(Aux(0, begin, len(piece), int(number < lost), SampleId(pid=0, tid=0, time=100 + number, cpu=0, id=1, identifier=1)))
        padded = piece + bytes(-len(piece) % 8)
        built.record(Auxtrace(0, len(padded), begin, 0, 0, 0xFFFFFFFF, 0)).raw(padded)
    return built.file()
