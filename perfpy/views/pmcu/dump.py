"""`report -D` of a PMCU's AUX data: the header, then every number with its offset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.auxtrace.hisi_pmcu import fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.auxtrace.hisi_pmcu import Field, PmcuHeader
    from perfpy.auxtrace.recorded_pmcu import PmcuTrace
    from perfpy.perfdata.aux_pieces import AuxPiece

_ROW: Final = 16
#: the names of the two context ids in the recorder's own dump
_LABELS: Final = {"CID1SR": "PMCID0SR", "CID2SR": "PMCID1SR", "cycles": "Cycle count"}


def piece_texts(trace: PmcuTrace, piece: AuxPiece) -> Iterator[str]:
    """Yield the samples that this piece completes, and before the first one the header."""
    begin, end = piece.record.offset, piece.record.offset + piece.size
    yield f".\n. ... HISI PMCU data: size {piece.size:#x} bytes\n"
    header = trace.header
    if header is None:
        return
    if not begin:
        yield "".join(_header_lines(trace, header))
    ends = trace.offsets + header.sample_size
    for number in np.flatnonzero((ends > begin) & (ends <= end)).tolist():
        yield f". Sample {number}\n" + "".join(_sample_lines(trace, header, int(trace.offsets[number])))


def _header_lines(trace: PmcuTrace, header: PmcuHeader) -> Iterator[str]:
    for offset in range(0, header.size, _ROW):
        yield f".  {offset:08x}: {trace.data[offset : offset + _ROW].hex(' ')}\n"
    words = {
        "AUX buffer size": header.buffer_size,
        "Counters in parallel": header.counters,
        "Monitored CPUs": header.cpus,
        "Compatible mode": "yes" if header.compatible else "no",
        "Subsample size": header.subsample_size,
        "Subsamples a sample": header.subsamples,
        "Events": len(header.events),
    }
    for name, value in words.items():
        yield f". {name}: {value}\n"
    yield "".join(f". Event {number}: {event:#06x}\n" for number, event in enumerate(header.events))


def _sample_lines(trace: PmcuTrace, header: PmcuHeader, begin: int) -> Iterator[str]:
    for subsample in range(header.subsamples):
        yield f". Subsample {subsample}\n"
        offset = begin + subsample * header.subsample_size
        for field in fields(header, subsample):
            yield _field_lines(trace, header, field, offset + field.offset)


def _field_lines(trace: PmcuTrace, header: PmcuHeader, field: Field, offset: int) -> str:
    label = _LABELS.get(field.name) or f"Event {field.event:04x}"
    values = np.frombuffer(trace.data, f"<u{field.width}", header.cpus, offset).tolist()
    rows = enumerate(zip(header.cpu_order.tolist(), values, strict=True))
    return "".join(
        [f".  {offset + index * field.width:08x}: {value:0{2 * field.width}x} {label} CPU {cpu}\n" for index, (cpu, value) in rows]
    )
