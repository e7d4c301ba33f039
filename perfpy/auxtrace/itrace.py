"""Hardware traces: where their data lie in a recording, and what to make of them (--itrace).

Pieces of AUX data follow AUXTRACE records (perfpy.abi.perf_records). The letters of --itrace are those of perf's itrace.txt.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi.flags import RecordType
from perfpy.abi.perf_records import NO_DETAILS, AuxtraceInfo, TraceDetails
from perfpy.abi.records import Aux
from perfpy.errors import UsageError

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


#: kinds of samples that other hardware than a tracer may have, too
MEMORY_LETTERS: Final = frozenset("fmtaM")
_FRAMES, _BRANCHES = 16, 64  # of callchains and branch stacks, unless the user chooses
_MOST_FRAMES: Final = 1024
_DIGITS: Final = 20  # of the largest period
_MASK_64: Final = (1 << 64) - 1
_UNITS: Final = {"i": 0, "t": 0, "ns": 1, "us": 1000, "ms": 1_000_000}  # nanoseconds, 0: no time
DEFAULT_PERIOD: Final = 100_000
_DEFAULT_LETTERS: Final = "iybxwpoeftaMm"


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
BAD_PACKET, NO_INSTRUCTION, MISMATCH, OVERFLOW, LOST, ENDLESS = 3, 5, 6, 7, 8, 10
ERRORS: Final = {
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
