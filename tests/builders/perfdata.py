"""perf.data files of any shape, built in memory.

Input: events, records, samples, features. Output: the bytes of a
file or of a pipe, of either byte order, version and attr size.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perfpy.abi import perf_records, records
from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import SampleType
from perfpy.abi.perf_records import NewerRecord
from perfpy.abi.records import Aux, IdLayout, SampleId
from perfpy.abi.sample_encoding import encode_sample
from perfpy.perfdata.header import HEADER_SIZE, AttrEntry, Feature, FileHeader, FileSection, PipeHeader, encode_feature
from perfpy.untrusted.expansion import zstd_library
from tests.builders import traces

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

USUAL = SampleType.IP | SampleType.TID | SampleType.TIME | SampleType.PERIOD


def usual_attr(sample_type: int = USUAL, **changes: int) -> EventAttr:
    """cpu-clock:u as perf record opens it."""
    values = {"type": 1, "sample_period": 4000, "freq": 1, "sample_id_all": 1, "exclude_kernel": 1, "exclude_hv": 1, **changes}
    return EventAttr(sample_type=sample_type, **values)


@dataclass
class PerfDataBuilder:
    """Collects records, then gives the bytes of a file or a pipe.

    attrs, ids: of the events; without ids the events have none.
    """

    attrs: list[EventAttr] = field(default_factory=lambda: [usual_attr()])
    ids: list[tuple[int, ...]] = field(default_factory=list)
    endian: str = "<"
    version: int = 2
    features: dict[int, bytes] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)

    def sample(self, event: int = 0, **values: Any) -> PerfDataBuilder:
        """A sample of one of the events; its id fields are filled in."""
        if self.ids and self.ids[event]:
            values = {"id": self.ids[event][0], "identifier": self.ids[event][0], **values}
        return self.raw(encode_sample(self.attrs[event], values, self.endian))

    def record(self, record: Any, event: int = 0) -> PerfDataBuilder:
        """A value of perfpy.abi.records or user_records."""
        if isinstance(record, perf_records.UserRecord | NewerRecord) and not isinstance(record, records.Unknown):
            return self.raw(perf_records.encode(record, self.endian))
        attr = self.attrs[event]
        return self.raw(records.encode(record, IdLayout.of(attr, self.endian), self.endian))

    def round(self) -> PerfDataBuilder:
        """A FINISHED_ROUND."""
        return self.record(perf_records.FinishedRound(0))

    def raw(self, data: bytes) -> PerfDataBuilder:
        """Bytes as they are."""
        self.body += data
        return self

    def compressed(self, pieces: int = 1, *, second_form: bool = False) -> PerfDataBuilder:
        """Replace what was collected by as many COMPRESSED (or COMPRESSED2) records of one zstd stream."""
        plain, self.body = bytes(self.body), bytearray()
        zstd = zstd_library().ZstdCompressor()
        size = -(-len(plain) // pieces)
        for start in range(0, len(plain), size):
            data = zstd.compress(plain[start : start + size], zstd.FLUSH_BLOCK)
            kind = perf_records.Compressed2 if second_form else perf_records.Compressed
            self.record(kind(0, data))
        return self

    def feature(self, feature: int, value: Any) -> PerfDataBuilder:
        """A feature section."""
        self.features[feature] = encode_feature(feature, value, self.endian)
        return self

    def file(self, *, attr_size: int | None = None, data_size: int | None = None) -> bytes:
        """The bytes of a file. attr_size: of the attrs in its table; data_size: what the header says (0: killed)."""
        ids = self.ids or [()] * len(self.attrs)
        id_bytes = [struct.pack(f"{self.endian}{len(group)}Q", *group) for group in ids]
        at = HEADER_SIZE
        table = b""
        for attr, group in zip(self.attrs, id_bytes, strict=True):
            packed = attr.copy(size=attr_size) if attr_size else attr
            table += AttrEntry(packed, FileSection(at, len(group))).encode(self.endian)
            at += len(group)
        attrs = FileSection(at, len(table))
        data = FileSection(attrs.end, len(self.body) if data_size is None else data_size)
        numbers = tuple(sorted(self.features))
        header = FileHeader(self.endian, self.version, len(table) // len(self.attrs), attrs, data, FileSection(0, 0), numbers)
        return header.encode() + b"".join(id_bytes) + table + bytes(self.body) + self._sections(data.offset + len(self.body), numbers)

    def _sections(self, offset: int, numbers: Iterable[int]) -> bytes:
        sections = [self.features[number] for number in numbers]
        at = offset + 16 * len(sections)
        table = b""
        for section in sections:
            table += struct.pack(f"{self.endian}2Q", at, len(section))
            at += len(section)
        return table + b"".join(sections)

    def pipe(self) -> bytes:
        """The bytes of a pipe: attrs and features as records in front."""
        ids = self.ids or [()] * len(self.attrs)
        front = PipeHeader(self.endian).encode()
        for attr, group in zip(self.attrs, ids, strict=True):
            front += perf_records.encode(perf_records.HeaderAttr(0, attr, group), self.endian)
        for number, data in sorted(self.features.items()):
            front += perf_records.encode(perf_records.HeaderFeature(0, number, data), self.endian)
        return front + bytes(self.body)


def header_of(kind: int, size: int, misc: int = 0, endian: str = "<") -> bytes:
    """A record's header alone, whatever its size claims."""
    return struct.pack(f"{endian}IHH", kind, misc, size)


def simple_recording(samples: int = 10, **builder: Any) -> PerfDataBuilder:
    """A process that maps a file and is sampled."""
    built = PerfDataBuilder(**builder)
    ids = {"pid": 7, "tid": 7, "time": 100}
    built.record(records.Comm(0, 7, 7, "busy", SampleId(**ids)))
    built.record(records.Mmap2(2, 7, 7, 0x1000, 0x1000, 0, 8, 1, 99, 0, 5, 2, "/bin/busy", b"", SampleId(**ids)))
    for number in range(samples):
        built.sample(misc=2, ip=0x1000 + number, pid=7, tid=7, time=200 + 10 * number, period=1000)
    return built


def out_of_order() -> PerfDataBuilder:
    """Samples of two CPUs' buffers, one buffer after the other, and rounds between; the second names its task late."""
    built = PerfDataBuilder()
    for cycle in range(3):
        for first in (0, 50):
            for number in range(first, first + 100, 10):
                time = 1_000_000_000 + cycle * 1_000_000 + number * 1000
                built.sample(ip=0x1000 + number, pid=7, tid=7 + (first > 0), time=time, period=1, misc=2)
            if first and not cycle:
                late = SampleId(pid=7, tid=7, time=1_000_021_000)
                built.record(records.Comm(0, 7, 7, "late", late))
                built.record(records.Mmap2(2, 7, 7, 0x1000, 0x1000, 0, 8, 1, 5, 0, 5, 2, "/bin/late", b"", late))
        built.round()
    return built


def values_of(columns: Mapping[str, Any], name: str) -> list[Any]:
    """A column as a list, rows of a Ragged as lists."""
    return [row.tolist() for row in columns[name]]


def coresight_recording(kind: int, data: Sequence[bytes], seed: int = 0, *, is_raw: bool = False) -> bytes:
    """A recording of CoreSight: for each CPU a piece of trace, which two AUX records tell. is_raw: without frames."""
    fields = USUAL | SampleType.CPU | SampleType.IDENTIFIER
    built = PerfDataBuilder([usual_attr(fields, type=9, freq=0, sample_period=1, sample_id_all=1)], [(1,)])
    built.record(perf_records.AuxtraceInfo(0, 3, traces.coresight_words(kind, len(data), seed)))
    places = []
    for cpu, part in enumerate(data):
        trace = part + bytes(-len(part) % 16)
        half = len(trace) // 32 * 16
        for offset, size in ((0, half), (half, len(trace) - half)):
            stamp = SampleId(pid=1, tid=1, time=offset + 5, cpu=cpu, identifier=1, id=1)
            built.record(Aux(0, offset, size, 0x100 if is_raw else 0, stamp))
        places.append(len(built.body))
        built.record(perf_records.Auxtrace(0, len(trace), 0, cpu + 1, cpu, 0xFFFFFFFF, cpu)).raw(trace)
    begin = built.file().index(bytes(built.body))
    index = [word for offset in places for word in (begin + offset, 48)]  # of the records, without the trace
    built.features[Feature.AUXTRACE] = struct.pack(f"<{1 + len(index)}Q", len(places), *index)
    return built.file()


def traced(kind: int, words: tuple[int, ...], trace: bytes) -> PerfDataBuilder:
    """A recording of a hardware tracer: AUXTRACE_INFO of a kind with its words, and one piece of AUX data, padded to 8 bytes."""
    fields = USUAL | SampleType.CPU | SampleType.IDENTIFIER
    built = PerfDataBuilder([usual_attr(fields, type=9, freq=0, sample_period=1)], [(1,)])
    built.record(perf_records.AuxtraceInfo(0, kind, words))
    padded = trace + bytes(-len(trace) % 8)
    return built.record(perf_records.Auxtrace(0, len(padded), 0, 0, 0, 0xFFFFFFFF, 0)).raw(padded)
