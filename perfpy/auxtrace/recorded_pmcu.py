"""A PMCU's AUX data of a recording as a table.

What enters: an open PerfData. What leaves: PmcuTrace: its header, its samples, and
their numbers, some thousands at a time. Raises BadPerfDataError, with the offset in the
file, where the AUX data make no sense; a cut end costs the last sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.auxtrace_records import PMCU_NAME
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

_AT_ONCE: Final = 1 << 22  # bytes of samples that are decoded together
_SECOND: Final = 1000  # ms


def pmcu_trace(data: PerfData) -> PmcuTrace | None:
    """What a PMCU wrote; None where the recording is of something else. Raises BadPerfDataError."""
    if not data.has_pmcu:
        return None
    return PmcuTrace(data, aux_pieces(data))


class PmcuTrace:
    """The samples of a PMCU.

    name: the PMU's; header: as the hardware wrote it (None: there are no AUX data); pieces: where the AUX data are in
    the file; offsets: of the samples in the AUX data; period_ms: from one sample to the next; notes: what is missing, a
    line each.

    >>> import perfpy
    >>> with perfpy.open("perf.data") as recording:
    ...     if recording.pmcu:
    ...         counts = recording.pmcu.to_dict()["count"]
    """

    def __init__(self, data: PerfData, found: AuxPieces) -> None:
        self._path = data.path
        kind = found.infos[0].priv[0]
        self.name = next((pmu.name for pmu in data.features.get("pmu_mappings", ()) if pmu.type == kind), PMCU_NAME)
        config = next((event.attr.config for event in data.events if event.attr.type == kind), 0)
        self.period_ms = config >> 32 or DEFAULT_PERIOD_MS
        self.pieces = found.pieces
        self.notes: list[str] = []
        self.data = self._joined(found)
        self.header: PmcuHeader | None = None
        self.offsets: NDArray[np.int64] = np.zeros(0, np.int64)
        if self.data:
            self._find(config & 0xFFFFFFFF or DEFAULT_SAMPLES)
        if found.lost:
            self.notes.append(f"the PMCU lost data {found.lost} times of {found.records}; a larger AUX area (-m ,N) holds more")

    def _joined(self, found: AuxPieces) -> bytes:
        """The AUX data, piece after piece; padding, and what comes after a hole, is left out."""
        joined = bytearray()
        for piece in self.pieces:
            if piece.record.offset > len(joined):
                raise BadPerfDataError(self._path, self._hole(len(joined), piece), offset=piece.at_record)
            del joined[piece.record.offset :]  # padding
            joined += found.read(piece.offset, piece.size)
        return bytes(joined)

    @staticmethod
    def _hole(end: int, piece: AuxPiece) -> str:
        return f"the AUX data go on at {piece.record.offset:#x}, and what is before that is there up to {end:#x} only"

    def _find(self, wanted: int) -> None:
        try:
            self.header = header = decode_header(self.data)
        except AuxDataError as error:
            raise BadPerfDataError(self._path, str(error), offset=self.in_file(error.offset)) from None
        found = find_samples(header, len(self.data))
        self.offsets = found.offsets[:wanted]
        if found.cut and len(found.offsets) < wanted:
            begin = self.in_file(len(self.data) - found.cut)
            self.notes.append(f"offset {begin:#x}: the AUX data end inside sample {len(self.offsets)}, which is left out")

    def in_file(self, offset: int) -> int:
        """Where in the file a byte of the AUX data stands."""
        piece = next((p for p in reversed(self.pieces) if p.record.offset <= offset), self.pieces[0])
        return piece.offset + offset - piece.record.offset

    def __len__(self) -> int:
        return len(self.offsets)

    def batches(self, samples: range | None = None) -> Iterator[dict[str, NDArray[Any]]]:
        """The numbers as columns, a row for each sample, event and CPU, some thousands of samples at a time.

        sample: from 0 on; time: of it, in seconds after the first one's; cpu: its number in the die; pid: of the task
        there, where the kernel tells the hardware; event; count; cycles: 0 in compatible mode.
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
        """All of the columns."""
        parts = list(self.batches())
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}
