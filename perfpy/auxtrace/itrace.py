"""Hardware traces: where their data lie in a recording, and what to make of them (--itrace).

Pieces of AUX data follow AUXTRACE records (perfpy.abi.perf_records). The letters of --itrace are those of perf's itrace.txt.
"""

from __future__ import annotations

import os
import re
import tempfile
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import Ragged
from perfpy.abi.flags import NATIVE_ENDIAN, RecordType, SampleType
from perfpy.abi.perf_records import NO_DETAILS, Auxtrace, AuxtraceInfo, IdIndex, TraceDetails
from perfpy.abi.records import Aux
from perfpy.abi.sample_encoding import encode_sample
from perfpy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.abi.attr import EventAttr
    from perfpy.abi.columns import Columns
    from perfpy.perfdata.reader import PerfData


_RECORD_SIZE: Final = 48
_TRUNCATED: Final = 1  # PERF_AUX_FLAG_TRUNCATED
_UNKNOWN: Final = 0xFFFFFFFF  # CPU or thread


class AuxPiece(NamedTuple):
    """One contiguous piece of AUX data.

    Attributes:
        record: the AUXTRACE record in front of it.
        at_record: the record's offset in the file.
        offset: the offset of the data in the file.
        size: bytes of data in the file.
        is_sampled: whether the data are a sample's; then the offset is that in all samples' data.
    """

    record: Auxtrace
    at_record: int
    offset: int
    size: int
    is_sampled: bool = False


class AuxPieces(NamedTuple):
    """All AUX data of a recording.

    Attributes:
        infos: the AUXTRACE_INFO records.
        pieces: in the order of the file.
        lost: AUX records that report truncated data.
        records: AUX records.
        read: reads (offset, size) from the file.
        queues: the traces by the id of their samples.
        sampled: the AUX data of samples.
    """

    infos: tuple[AuxtraceInfo, ...]
    pieces: tuple[AuxPiece, ...]
    lost: int
    records: int
    read: Callable[[int, int], bytes]
    queues: dict[int, tuple[int, int, int]]
    sampled: BinaryIO | None = None

    def bytes_of(self, piece: AuxPiece) -> bytes:
        """Return the data of a piece."""
        if piece.is_sampled:
            assert self.sampled is not None
            return os.pread(self.sampled.fileno(), piece.size, piece.offset)
        return self.read(piece.offset, piece.size)


def aux_pieces(data: PerfData) -> AuxPieces:
    """Return the AUX data of a recording."""
    infos, pieces, flags = [], [], []
    queues: dict[int, tuple[int, int, int]] = {}
    for side in data.side_band([RecordType.AUXTRACE_INFO, RecordType.AUXTRACE, RecordType.AUX, RecordType.ID_INDEX]):
        record = side.record
        if isinstance(record, AuxtraceInfo):
            infos.append(record)
        elif isinstance(record, IdIndex):
            queues |= {one.id: (one.idx, one.cpu & 0xFFFFFFFF, one.tid & 0xFFFFFFFF) for one in record.entries}
        elif isinstance(record, Aux):
            flags.append(record.flags)
        else:
            begin = side.offset + _RECORD_SIZE
            pieces.append(AuxPiece(record, side.offset, begin, max(min(record.size, data.size - begin), 0)))
    pieces.sort(key=lambda piece: piece.offset)
    return AuxPieces(tuple(infos), tuple(pieces), sum(flag & _TRUNCATED for flag in flags), len(flags), data.read, queues)


def has_aux_samples(data: PerfData) -> bool:
    """Whether samples have pieces of the trace (record --aux-sample)."""
    return any(event.attr.sample_type & SampleType.AUX and event.attr.aux_sample_size for event in data.events)


def with_aux_samples(data: PerfData, aux: AuxPieces, ticks: Callable[[int], int]) -> AuxPieces:
    """Return the AUX data with those in samples, in the order of the file. ticks: those of a time."""
    file = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the decoding
    pieces, offset = [], 0
    for batch in data.stored_batches(("aux", "time", "id", "identifier")):
        columns = batch.columns.gather()
        if "aux" not in columns:
            continue
        parts = columns["aux"]
        zeros = np.zeros(len(parts), np.uint64)
        idents = columns.get("identifier", columns.get("id", zeros)).tolist()
        times = columns.get("time", zeros).tolist()
        for row in np.flatnonzero(np.diff(parts.offsets)).tolist():
            index, cpu, tid = aux.queues.get(idents[row], (0, _UNKNOWN, _UNKNOWN))
            part = parts[row].tobytes()
            file.write(part)
            record = Auxtrace(0, len(part), 0, ticks(times[row]) if times[row] else 0, index, tid, cpu)
            pieces.append(AuxPiece(record, 0, offset, len(part), is_sampled=True))
            offset += len(part)
    file.flush()
    return aux._replace(pieces=(*aux.pieces, *pieces), sampled=file)


class OwnSample:
    """A sample that the recording itself has.

    Attributes:
        event: the number of its event.
    """

    __slots__ = ("_columns", "event")

    def __init__(self, event: int, columns: Columns) -> None:
        """columns: one row."""
        self.event, self._columns = event, columns

    def number(self, name: str) -> int:
        """Return a field, -1 if the sample does not have it."""
        return int(self._columns[name][0]) if name in self._columns else -1

    @property
    def has_aux(self) -> bool:
        """Whether the sample has a piece of the trace."""
        return "aux" in self._columns and len(self._columns["aux"].values) > 0

    def encode(self, attr: EventAttr, more: dict[str, Any]) -> bytes:
        """Return the sample as a record with further fields."""
        values: dict[str, Any] = {}
        for name, column in self._columns.items():
            if not isinstance(column, Ragged):
                values[name] = int(column[0])
            elif name == "branch_stack":
                values[name] = np.ascontiguousarray(column.values).view(np.uint64).reshape(-1, 3).tolist()
            else:
                values[name] = column.values.tobytes() if name == "raw" else column.values.tolist()
        return encode_sample(attr, values | more, NATIVE_ENDIAN)


#: kinds of samples that other hardware than a tracer may have, too
MEMORY_LETTERS: Final = frozenset("fmtaM")
_FRAMES, _BRANCHES = 16, 64  # of callchains and branch stacks, unless the user chooses
_MOST_FRAMES: Final = 1024
_DIGITS: Final = 20  # of the largest period
_MASK_64: Final = (1 << 64) - 1
_UNITS: Final = {"i": 0, "t": 0, "ns": 1, "us": 1000, "ms": 1_000_000}  # nanoseconds, 0: no time
DEFAULT_PERIOD: Final = 100_000
_DEFAULT_LETTERS: Final = "iybxwpoIeftaMm"


class Itrace(NamedTuple):
    """The samples to make of a hardware trace (perf's itrace.txt).

    Attributes:
        letters: of the kinds of samples.
        period: instructions or other units from sample to sample.
        unit: of the period: i, t, ns, us or ms.
        errors_left_out: letters of the errors that are not reported: o, overflows; l, lost data.
        skipped: how many samples to leave out at first.
        is_default: whether the user has not chosen.
        frames: of a callchain at most.
        branches: of a branch stack at most.
        quickness: of decoding: 1, addresses of packets only; 2, those after PSB packets only.
        details: what the command needs besides.
    """

    letters: frozenset[str] = frozenset(_DEFAULT_LETTERS)
    period: int = DEFAULT_PERIOD
    unit: str = "ns"
    errors_left_out: str = ""
    skipped: int = 0
    is_default: bool = False
    frames: int = _FRAMES
    branches: int = _BRANCHES
    quickness: int = 0
    details: TraceDetails = NO_DETAILS

    @property
    def nanoseconds(self) -> int:
        """The period, if its unit is one of time."""
        return self.period * _UNITS[self.unit]


def parse_itrace(text: str) -> Itrace:
    """Parse the value of --itrace; "" for the default.

    Raises UsageError.

    >>> sorted(parse_itrace("i10im").letters), parse_itrace("i10im").period
    (['i', 'm'], 10)
    """
    if not text:
        return Itrace(is_default=True)
    letters: set[str] = set()
    period, unit, position, left_out, skipped = DEFAULT_PERIOD, "ns", 0, "", 0
    most = {"g": _FRAMES, "l": _BRANCHES}
    while position < len(text):
        letter = text[position]
        position += 1
        if letter in " ,":
            continue
        if letter not in "iybxwpoIedcrGglLsfmtaMqAZTv":
            raise UsageError(f"--itrace={text}: unknown letter '{letter}'; for Arm SPE: i, b, f, m, t, a, M")
        letters.add(letter)
        found = re.compile(r"(?:\s*[+-]\s*[a-z]|\s)*" if letter in "ed" else r"[0-9]*").match(text, position)
        end = found.end() if found else position
        if letter in "iy" and end > position:
            period = min(int(text[position:end][:_DIGITS]), _MASK_64)
            unit = next((name for name in ("ns", "us", "ms", "i", "t") if text.startswith(name, end)), "ns")
            if not text.startswith(unit, end) and end < len(text):
                raise UsageError(f"--itrace={text}: the period needs a unit: i, t, ns, us or ms")
            end += len(unit)
        if letter == "e":
            left_out = "".join(re.findall(r"-\s*([a-z])", text[position:end]))
        elif letter == "s" and end > position:
            skipped = int(text[position:end][:_DIGITS])
        elif letter in "gGlL" and end > position:
            most[letter.lower()] = int(text[position:end][:_DIGITS])
            if not 0 < most[letter.lower()] <= _MOST_FRAMES:
                raise UsageError(f"--itrace={text}: {letter} needs a number from 1 to {_MOST_FRAMES}")
        position = end
    quickness = min(text.count("q"), 2)
    return Itrace(frozenset(letters), period, unit, left_out, skipped, frames=most["g"], branches=most["l"], quickness=quickness)


#: perf's numbers of errors, and their texts
INTERNAL, BAD_PACKET, NO_INSTRUCTION, MISMATCH, OVERFLOW, LOST, ENDLESS = 2, 3, 5, 6, 7, 8, 10
ERRORS: Final = {
    INTERNAL: "Internal error",
    BAD_PACKET: "Bad packet",
    NO_INSTRUCTION: "Failed to get instruction",
    MISMATCH: "Trace doesn't match instruction",
    OVERFLOW: "Overflow packet",
    LOST: "Lost trace data",
    ENDLESS: "Never-ending loop (refer perf config intel-pt.max-loops)",
}


class Period(NamedTuple):
    """When to sample an instruction: after each `length` instructions or ticks of the TSC; 0: never."""

    length: int = 0
    is_ticks: bool = False


class PtEvent(NamedTuple):
    """What is not only a branch.

    Attributes:
        position: the number of branches before it.
        ticks: its time.
        kind: "error", "instructions", "transactions" or the name of another event of perf's.
        ip, target: addresses.
        flags, length: as of a branch.
        value: the payload of a packet, the number of an error, or instructions since the last sample.
        extra: whether the packet has an address; bytes of trace before a PSB.
        total, cycles: instructions and cycles up to here; -1: unknown. Only of instructions.
        items: of PEBS records the values of their blocks; of interrupts the kinds and payloads of EVD packets.
    """

    position: int
    ticks: int
    kind: str
    ip: int
    target: int = 0
    flags: int = 0
    length: int = 0
    value: int = 0
    extra: int = 0
    total: int = 0
    cycles: int = -1
    items: Any = None


class CountedCycles(NamedTuple):
    """What to count besides branches.

    Attributes:
        by_event: whether cycles are counted for the events at instructions.
        by_branch: whether instructions and cycles are counted for each branch.
        approximately: whether cycles are those of the time, not those of a packet at an instruction (--itrace=A).
    """

    by_event: bool = False
    by_branch: bool = False
    approximately: bool = False
