"""Locate AUX data in a recording: the bytes that follow AUXTRACE records.

The record's layout: perfpy.abi.perf_records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi.flags import RecordType
from perfpy.abi.perf_records import AuxtraceInfo
from perfpy.abi.records import Aux

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.abi.perf_records import Auxtrace
    from perfpy.perfdata.reader import PerfData


_RECORD_SIZE: Final = 48
_TRUNCATED: Final = 1  # PERF_AUX_FLAG_TRUNCATED


class AuxPiece(NamedTuple):
    """One contiguous piece of AUX data.

    Attributes:
        record: the AUXTRACE record in front of it.
        at_record: the record's offset in the file.
        offset: the offset of the data in the file.
        size: bytes of data in the file.
    """

    record: Auxtrace
    at_record: int
    offset: int
    size: int


class AuxPieces(NamedTuple):
    """All AUX data of a recording.

    Attributes:
        infos: the AUXTRACE_INFO records.
        pieces: in the order of the file.
        lost: AUX records that report truncated data.
        records: AUX records.
        read: reads (offset, size) from the file.
    """

    infos: tuple[AuxtraceInfo, ...]
    pieces: tuple[AuxPiece, ...]
    lost: int
    records: int
    read: Callable[[int, int], bytes]


def aux_pieces(data: PerfData) -> AuxPieces:
    """Return the AUX data of a recording."""
    infos, pieces, flags = [], [], []
    for side in data.side_band([RecordType.AUXTRACE_INFO, RecordType.AUXTRACE, RecordType.AUX]):
        record = side.record
        if isinstance(record, AuxtraceInfo):
            infos.append(record)
        elif isinstance(record, Aux):
            flags.append(record.flags)
        else:
            begin = side.offset + _RECORD_SIZE
            pieces.append(AuxPiece(record, side.offset, begin, max(min(record.size, data.size - begin), 0)))
    pieces.sort(key=lambda piece: piece.offset)
    return AuxPieces(tuple(infos), tuple(pieces), sum(flag & _TRUNCATED for flag in flags), len(flags), data.read)
