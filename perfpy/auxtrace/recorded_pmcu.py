"""A PMCU's AUX data of a recording as a table.

PmcuTrace has the header and the samples, decoded some thousands at a time. Invalid AUX data raise BadPerfDataError with the offset in the
file; a truncated end loses the last sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.perf_records.auxtrace_records import PMCU_NAME
from perfpy.auxtrace.hisi_pmcu import (
    DEFAULT_PERIOD_MS,
    DEFAULT_SAMPLES,
    AuxDataError,
    decode_header,
    decode_samples,
    find_samples,
)
from perfpy.errors import BadPerfDataError
from perfpy.perfdata.aux_pieces import AuxPiece, AuxPieces, aux_pieces

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from perfpy.auxtrace.hisi_pmcu import PmcuHeader
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
            self._find_samples(config & 0xFFFFFFFF or DEFAULT_SAMPLES)
        if aux.lost:
            self.notes.append(f"the PMCU lost data {aux.lost} times of {aux.records}; a larger AUX area (-m ,N) holds more")

    def _read_data(self, aux: AuxPieces) -> bytes:
        """Concatenate the pieces of AUX data without padding. Raises BadPerfDataError at a hole."""
        data = bytearray()
        for piece in self.pieces:
            if piece.record.offset > len(data):
                raise BadPerfDataError(self._path, self._describe_hole(len(data), piece), offset=piece.at_record)
            del data[piece.record.offset :]  # padding
            data += aux.read(piece.offset, piece.size)
        return bytes(data)

    @staticmethod
    def _describe_hole(end: int, piece: AuxPiece) -> str:
        return f"the AUX data go on at {piece.record.offset:#x}, and what is before that is there up to {end:#x} only"

    def _find_samples(self, limit: int) -> None:
        try:
            self.header = header = decode_header(self.data)
        except AuxDataError as error:
            raise BadPerfDataError(self._path, str(error), offset=self.in_file(error.offset)) from None
        samples = find_samples(header, len(self.data))
        self.offsets = samples.offsets[:limit]
        if samples.cut and len(samples.offsets) < limit:
            begin = self.in_file(len(self.data) - samples.cut)
            self.notes.append(f"offset {begin:#x}: the AUX data end inside sample {len(self.offsets)}, which is left out")

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
