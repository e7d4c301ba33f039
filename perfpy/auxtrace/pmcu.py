"""A PMCU's AUX data of a recording as a table.

PmcuTrace has the header and the samples, decoded some thousands at a time. Invalid AUX data raise BadPerfDataError with the offset in the
file; a truncated end loses the last sample.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.flags import PMCU_NAME
from perfpy.auxtrace.itrace import AuxPieces, aux_pieces
from perfpy.errors import BadPerfDataError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from perfpy.perfdata.reader import PerfData


_AT_ONCE: Final = 1 << 22  # bytes of samples per batch
_SECOND: Final = 1000  # ms


def pmcu_trace(data: PerfData) -> PmcuTrace | None:
    """Return the trace of a PMCU, None if the recording has none. Raises BadPerfDataError."""
    if not data.has_pmcu:
        return None
    return PmcuTrace(data, aux_pieces(data))


class PmcuTrace:
    """The samples of a PMCU.

    Attributes:
        name: the PMU's name.
        header: the hardware's header; None without AUX data.
        pieces: the AUX data in the file.
        offsets: of the samples in the AUX data.
        period_ms: time between samples.
        notes: a line for each loss of data.

    >>> import perfpy
    >>> with perfpy.open("perf.data") as recording:
    ...     if recording.pmcu:
    ...         counts = recording.pmcu.to_dict()["count"]
    """

    def __init__(self, data: PerfData, aux: AuxPieces) -> None:
        self._path = data.path
        kind = aux.infos[0].priv[0]
        self.name = next((pmu.name for pmu in data.features.get("pmu_mappings", ()) if pmu.type == kind), PMCU_NAME)
        config = next((event.attr.config for event in data.events if event.attr.type == kind), 0)
        self.period_ms = config >> 32 or DEFAULT_PERIOD_MS
        self.pieces = aux.pieces
        self.notes: list[str] = []
        self.data = self._read_data(aux)
        self.header: PmcuHeader | None = None
        self.offsets: NDArray[np.int64] = np.zeros(0, np.int64)
        if self.data:
            limit = config & 0xFFFFFFFF or DEFAULT_SAMPLES
            try:
                self.header = header = decode_header(self.data)
            except AuxDataError as error:
                raise BadPerfDataError(self._path, str(error), offset=self.in_file(error.offset)) from None
            samples = find_samples(header, len(self.data))
            self.offsets = samples.offsets[:limit]
            if samples.cut and len(samples.offsets) < limit:
                begin = self.in_file(len(self.data) - samples.cut)
                self.notes.append(f"offset {begin:#x}: the AUX data end inside sample {len(self.offsets)}, which is left out")
        if aux.lost:
            self.notes.append(f"the PMCU lost data {aux.lost} times of {aux.records}; a larger AUX area (-m ,N) holds more")

    def _read_data(self, aux: AuxPieces) -> bytes:
        """Concatenate the pieces of AUX data without padding. Raises BadPerfDataError at a hole."""
        data = bytearray()
        for piece in self.pieces:
            if piece.record.offset > len(data):
                raise BadPerfDataError(
                    self._path,
                    f"the AUX data go on at {piece.record.offset:#x}, and what is before that is there up to {len(data):#x} only",
                    offset=piece.at_record,
                )
            del data[piece.record.offset :]  # padding
            data += aux.read(piece.offset, piece.size)
        return bytes(data)

    def in_file(self, offset: int) -> int:
        """Convert an offset in the AUX data to one in the file."""
        piece = next((p for p in reversed(self.pieces) if p.record.offset <= offset), self.pieces[0])
        return piece.offset + offset - piece.record.offset

    def __len__(self) -> int:
        return len(self.offsets)

    def batches(self, samples: range | None = None) -> Iterator[dict[str, NDArray[Any]]]:
        """Yield the values as columns, a row for each sample, event and CPU, some thousands of samples at a time.

        Columns:
            sample: from 0 on.
            time: seconds since the first sample.
            cpu: number in the die.
            pid: of the running task, if the kernel passes it to the hardware.
            event: the event's number.
            count: the counter's value.
            cycles: 0 in compatible mode.
        """
        if self.header is None:
            return
        numbers = range(len(self.offsets)) if samples is None else samples
        step = max(_AT_ONCE // self.header.sample_size, 1)
        for first in range(numbers.start, numbers.stop, step):
            part = decode_samples(self.header, self.data, self.offsets[first : min(first + step, numbers.stop)])
            sample = part["sample"] + first
            yield {"sample": sample, "time": sample * self.period_ms / _SECOND} | {name: part[name] for name in part if name != "sample"}

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """Return all columns."""
        parts = list(self.batches())
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}


# The AUX data of a HiSilicon PMCU: counters of a die's CPUs, read by the hardware itself. Decodes the header, the offsets of samples, and
# their values as columns. Layout (little-endian; RFC "HiSilicon Performance Monitor Control Unit" v1, 2023-02-06):
#
#     header      u32 buffer size, counters in parallel, CPUs, compatible mode,
#                 subsample size, subsamples per sample, number of events;
#                 u32 for each event; padding to 16 bytes
#     samples     each `subsamples` subsamples; a sample lies in one buffer, and
#                 the remainder of a buffer is a gap
#     subsample   u32 CID1SR and u32 CID2SR of each CPU; u64 of each CPU for each
#                 counter; u64 cycles of each CPU, not in compatible mode
#
# In each field the CPUs are ordered by their number in the cluster, then by cluster. The first buffer begins with the header.

PADDING_EVENT: Final = 0xC000
DEFAULT_PERIOD_MS: Final = 3
DEFAULT_SAMPLES: Final = 128

_WORDS: Final = struct.Struct("<7I")
_ALIGNMENT: Final = 16
_CLUSTER: Final = 8
_MOST_COUNTERS: Final = 8
_MOST_EVENTS: Final = 240


class AuxDataError(ValueError):
    """AUX data that cannot be decoded; `offset` is the position in the AUX data."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset


class PmcuHeader(NamedTuple):
    """The header of the AUX data. `counters` run in parallel on each of `cpus`."""

    buffer_size: int
    counters: int
    cpus: int
    compatible: int
    subsample_size: int
    subsamples: int
    events: tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes of the header with its padding."""
        return -(-(_WORDS.size + 4 * len(self.events)) // _ALIGNMENT) * _ALIGNMENT

    @property
    def sample_size(self) -> int:
        """Bytes of one sample."""
        return self.subsamples * self.subsample_size

    def event(self, subsample: int, counter: int) -> int:
        """Return the event of a counter in a subsample."""
        number = subsample * self.counters + counter
        return self.events[number] if number < len(self.events) else PADDING_EVENT

    @property
    def cpu_order(self) -> NDArray[np.int64]:
        """The CPU numbers in the order of each field."""
        return np.arange(self.cpus).reshape(-1, _CLUSTER).T.ravel()


class PmcuSamples(NamedTuple):
    """The offsets of complete samples. `cut`: bytes of a truncated last sample."""

    offsets: NDArray[np.int64]
    cut: int


class Field(NamedTuple):
    """One field of a subsample: name, event (-1: none), offset in the subsample, bytes per CPU."""

    name: str
    event: int
    offset: int
    width: int


def decode_header(data: bytes | memoryview) -> PmcuHeader:
    """Decode the header of AUX data. Raises AuxDataError if it is invalid."""
    if len(data) < _WORDS.size:
        raise AuxDataError(len(data), f"the PMCU's header is cut: {len(data)} bytes of {_WORDS.size}")
    number = _WORDS.unpack_from(data)[-1]
    if not 0 < number <= _MOST_EVENTS:
        raise AuxDataError(24, f"{number} events; a PMCU counts 1 to {_MOST_EVENTS}")
    end = _WORDS.size + 4 * number
    if len(data) < end:
        raise AuxDataError(len(data), f"the PMCU's header is cut: {len(data)} bytes of {end}")
    header = PmcuHeader._make((*_WORDS.unpack_from(data)[:6], struct.unpack_from(f"<{number}I", data, _WORDS.size)))
    if not 0 < header.counters <= _MOST_COUNTERS:
        raise AuxDataError(4, f"{header.counters} counters in parallel; a CPU has 1 to {_MOST_COUNTERS}")
    if not header.cpus or header.cpus % _CLUSTER:
        raise AuxDataError(8, f"{header.cpus} CPUs, not a multiple of {_CLUSTER}")
    if header.compatible > 1:
        raise AuxDataError(12, f"compatible mode {header.compatible}; expected 0 or 1")
    size = (header.counters + (1 if header.compatible else 2)) * 8 * header.cpus
    if header.subsample_size != size:
        raise AuxDataError(16, f"subsamples of {header.subsample_size} bytes, where {header.cpus} CPUs need {size}")
    subsamples = -(-len(header.events) // header.counters)
    if header.subsamples != subsamples:
        raise AuxDataError(20, f"{header.subsamples} subsamples a sample, where {len(header.events)} events need {subsamples}")
    if header.buffer_size < header.sample_size:
        raise AuxDataError(0, f"a buffer of {header.buffer_size} bytes, too small for a sample of {header.sample_size}")
    return header


def find_samples(header: PmcuHeader, size: int) -> PmcuSamples:
    """Return the offsets of the samples in `size` bytes of AUX data, header included, without the gaps of buffers."""
    length, buffer = header.sample_size, header.buffer_size
    first = np.arange(header.size, min(size, buffer) - length + 1, length)
    starts = np.arange(buffer, size, buffer)  # starts of the later buffers
    in_buffer = np.arange(0, buffer - length + 1, length) if len(starts) else np.zeros(0, np.int64)
    later_samples = (starts[:, None] + in_buffer[None, : size // length + 1]).ravel()
    offsets = np.concatenate([first, later_samples[later_samples + length <= size]]).astype(np.int64)
    begin = int(offsets[-1]) + header.sample_size if len(offsets) else header.size
    room = header.buffer_size - begin % header.buffer_size
    if room < header.sample_size:  # a gap: the next sample begins at the next buffer
        begin += room
    return PmcuSamples(offsets, max(size - begin, 0))


def fields(header: PmcuHeader, subsample: int) -> Iterator[Field]:
    """Yield the fields of a subsample, in order."""
    cpus = header.cpus
    yield Field("CID1SR", -1, 0, 4)
    yield Field("CID2SR", -1, 4 * cpus, 4)
    offset = 8 * cpus
    for counter in range(header.counters):
        yield Field("event", header.event(subsample, counter), offset, 8)
        offset += 8 * cpus
    if not header.compatible:
        yield Field("cycles", -1, offset, 8)


def decode_samples(header: PmcuHeader, data: bytes | memoryview, offsets: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Return samples as columns, a row for each sample, event and CPU.

    Columns:
        sample: from 0 on.
        cpu: number in the die.
        pid: from CID1SR.
        event: the event's number.
        count: the counter's value.
        cycles: counted at the same time as the event; 0 in compatible mode.
    """
    cpu = header.cpu_order
    order = np.argsort(cpu)
    raw = np.frombuffer(data, np.uint8)
    samples = len(offsets)
    parts_by_column: dict[str, list[NDArray[Any]]] = {"pid": [], "event": [], "count": [], "cycles": []}
    for subsample in range(header.subsamples):
        begins = offsets + subsample * header.subsample_size
        values = {}
        for field in fields(header, subsample):
            span = begins[:, None] + field.offset + np.arange(field.width * header.cpus)
            numbers = raw[span].view(f"<u{field.width}")[:, order]
            if field.name == "event":
                if field.event != PADDING_EVENT:
                    parts_by_column["event"].append(np.full((samples, header.cpus), field.event, np.uint32))
                    parts_by_column["count"].append(numbers)
            else:
                values[field.name] = numbers
        for _ in range(len(parts_by_column["event"]) - len(parts_by_column["pid"])):
            parts_by_column["pid"].append(values["CID1SR"])
            parts_by_column["cycles"].append(values.get("cycles", np.zeros((samples, header.cpus), np.uint64)))
    events = len(parts_by_column["event"])
    columns: dict[str, NDArray[Any]] = {
        "sample": np.repeat(np.arange(samples), events * header.cpus),
        "cpu": np.tile(np.arange(header.cpus), samples * events),
    }
    for name, parts in parts_by_column.items():
        stacked = np.stack(parts, 1) if parts else np.zeros((samples, 0, header.cpus), np.uint64)
        columns[name] = stacked.ravel()
    return columns
