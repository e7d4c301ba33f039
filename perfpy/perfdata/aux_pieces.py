"""AUX data in a recording: the bytes that follow AUXTRACE records, which nobody here decodes.

What enters: the side-band and the file. What leaves: where each piece stands,
and its bytes. Layout of the record: perfpy.abi.auxtrace_records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi.auxtrace_records import AuxtraceInfo
from perfpy.abi.flags import RecordType
from perfpy.abi.records import Aux

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.abi.auxtrace_records import Auxtrace
    from perfpy.perfdata.reader import PerfData

_RECORD_SIZE: Final = 48
_TRUNCATED: Final = 1  # PERF_AUX_FLAG_TRUNCATED


class AuxPiece(NamedTuple):
    """AUX data that was written at once.

    record: its AUXTRACE record, at the offset `at_record`; offset: of the bytes in the file, of which there are `size`.
    """

    record: Auxtrace
    at_record: int
    offset: int
    size: int


class AuxPieces(NamedTuple):
    """All AUX data of a recording. infos: what was traced; read: (offset, size) -> bytes of the file; lost: how often the
    hardware had no room, of how many AUX records.
    """

    infos: tuple[AuxtraceInfo, ...]
    pieces: tuple[AuxPiece, ...]
    lost: int
    records: int
    read: Callable[[int, int], bytes]


def aux_pieces(data: PerfData) -> AuxPieces:
    """The AUX data of a recording, in the order of the file."""
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
