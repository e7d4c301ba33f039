"""Decode an Arm SPE trace: packets to records of sampled operations, as columns, and records to the words that perf's samples have.

Layout: Arm Architecture Reference Manual (DDI 0487), "Statistical Profiling Extension sample record specification". A record is a
sequence of packets that ends with a timestamp packet or an end packet. The values of samples are perf 6.12's (perf-arm-spe(1)).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import rows_where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Words = NDArray[np.uint64]


_ALIGNMENT: Final = 64  # bytes that hardware aligns records to
_ALIGNED_WINDOW: Final = 1 << 22  # bytes decoded at once
_WINDOW: Final = 1 << 20  # the same if the records are not aligned
_MOST_SHAPES: Final = 256  # of records in a trace
_LANE: Final = 1 << 11  # bytes that one lane of a window walks
_ATTEMPTS: Final = 4  # to guess where the packets of each lane begin
_LONGEST: Final = 16  # bytes after a header that a packet may have
_END, _TIMESTAMP = 0x01, 0x71
_BAD: Final = 0  # length of a byte that begins no packet
_ADDRESS, _COUNTER, _CONTEXT, _OPERATION, _EVENTS, _SOURCE = 0xB0, 0x98, 0x64, 0x48, 0x42, 0x43
_LOAD_STORE: Final = 1  # class of an operation packet
_TOTAL: Final = 0  # index of the counter with the whole latency

#: bits of an events packet
L1_ACCESS, L1_MISS, TLB_ACCESS, TLB_MISS, MISPREDICTED, LLC_ACCESS, LLC_MISS, REMOTE = (1 << bit for bit in (2, 3, 4, 5, 7, 8, 9, 10))
#: those of SPE version 1.4
L2_ACCESS, L2_MISS, MODIFIED, RECENTLY_FETCHED, SNOOPED = (1 << bit for bit in range(19, 24))
LOAD, STORE = 1, 2  #: bits of SpeRecords.operation


class SpeRecords(NamedTuple):
    """The records of a trace, a row each. Values that a record does not have are 0.

    Attributes:
        timestamp: uint64[n], the hardware's ticks.
        ip, target, address, physical: uint64[n], the instruction, the branch's target and the data, as perf extends them to 64 bits.
        latency: uint16[n], cycles from dispatch to completion.
        context: int64[n], the thread's id, -1 if unknown.
        operation: uint8[n], LOAD or STORE.
        events: uint32[n], the bits of its events.
        source: uint16[n], the data source.
    """

    timestamp: Words
    ip: Words
    target: Words
    address: Words
    physical: Words
    latency: NDArray[np.uint16]
    context: NDArray[np.int64]
    operation: NDArray[np.uint8]
    events: NDArray[np.uint32]
    source: NDArray[np.uint16]

    def take(self, rows: NDArray[np.intp]) -> SpeRecords:
        """Select records."""
        return SpeRecords._make([column[rows] for column in self])

    @classmethod
    def concat(cls, parts: list[SpeRecords]) -> SpeRecords:
        """Concatenate records."""
        kinds = (*[np.uint64] * 5, np.uint16, np.int64, np.uint8, np.uint32, np.uint16)
        nothing = cls._make([np.zeros(0, kind) for kind in kinds])
        return cls._make([np.concatenate(columns) for columns in zip(nothing, *parts, strict=True)])


def decode_records(
    read: Callable[[int, int], bytes], begin: int, size: int, shapes: dict[int, RecordShape] | None = None
) -> Iterator[tuple[SpeRecords, int]]:
    """Yield the records of one piece of AUX data, some at a time, and the number of bytes before them that are no packets.

    A record with a damaged packet is left out, as is one that the end of the piece cuts off.

    Args:
        read: reads (offset, size) from the file.
        begin: the piece's offset in the file, which decides how long alignment packets are.
        size: of the piece in bytes.
        shapes: of records in other pieces, by their signatures; those of this piece are added.
    """
    position, is_aligned = 0, True
    shapes = {} if shapes is None else shapes
    while position < size:
        length = min(_ALIGNED_WINDOW, size - position)
        data = np.frombuffer(read(begin + position, length), np.uint8)
        if len(data) < length:  # the file was truncated
            size = position + len(data)
        if not len(data):
            return
        whole = len(data) // _ALIGNMENT * _ALIGNMENT if is_aligned else 0
        aligned = _aligned_records(data[:whole], shapes) if whole else None
        if aligned is not None:
            yield aligned, 0
            position += whole
            continue
        is_aligned = False
        data = data[:_WINDOW]
        packets = _Packets(data, begin + position)
        ends = np.flatnonzero((packets.header == _END) | (packets.header == _TIMESTAMP))
        ends = ends[packets.after[ends] <= len(data)]
        used = len(data)
        if len(ends):
            yield packets.records(ends)
            if position + len(data) < size:
                used = int(packets.after[ends[-1]])
        elif packets.is_bad.any():
            yield SpeRecords.concat([]), int(packets.is_bad.sum())
        position += used


# Records as hardware writes them: each at a multiple of 64 bytes. Few combinations of packets, the shapes, make up a trace.


class RecordShape(NamedTuple):
    """The packets of a record of 64 bytes: all records of one shape have their headers, and zeros, at the same offsets.

    Attributes:
        masks, values: of each of its 8 words, the bits that all records of the shape share. Words without any are not listed.
        packets: header, index, offset and size of each payload.
    """

    masks: dict[int, np.uint64]
    values: dict[int, np.uint64]
    packets: list[tuple[int, int, int, int]]


def _aligned_records(data: NDArray[np.uint8], shapes: dict[int, RecordShape]) -> SpeRecords | None:
    """Return the records of a trace, or None if it has other than single records at multiples of 64 bytes.

    shapes: those that were seen before, by their records' signatures; new ones are added.
    """
    is_used = data[::_ALIGNMENT] != 0
    if len(others := np.flatnonzero(~is_used)):
        is_used[others] = data.view("<u8").reshape(-1, _ALIGNMENT >> 3)[others].any(axis=1)
    used = np.flatnonzero(is_used)
    signatures = _signatures(data, used * _ALIGNMENT)
    if signatures is None:
        return None
    # sorting by 16 bits takes a tenth of the time; two shapes seldom share them
    order = np.argsort((signatures >> np.uint64(48)).astype(np.uint16), kind="stable")
    groups = _runs(signatures[order])
    if len(groups) > _MOST_SHAPES:
        order = np.argsort(signatures, kind="stable")
        groups = _runs(signatures[order])
    words = data.view(f"V{_ALIGNMENT}").take(used[order]).view("<u8").reshape(-1, _ALIGNMENT >> 3).T
    kinds = (*[np.uint64] * 5, np.uint16, np.int64, np.uint8, np.uint32, np.uint16)
    records = SpeRecords._make([np.zeros(len(used), kind) for kind in kinds])
    records.context.fill(-1)
    for begin, end in groups:
        mine, signature = words[:, begin:end], int(signatures[order[begin]])
        shape = shapes.get(signature) or (_shape_of(mine[:, 0].tobytes()) if len(shapes) < _MOST_SHAPES else None)
        if shape is None or any(((mine[word] & mask) != shape.values[word]).any() for word, mask in shape.masks.items()):
            return None
        shapes[signature] = shape
        _read_shape(shape, mine, order[begin:end], records)
    return records


def _runs(values: Words) -> list[tuple[int, int]]:
    """Return where each run of equal numbers begins and ends."""
    begins = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist()] if len(values) else []
    return list(zip(begins, [*begins[1:], len(values)], strict=True)) if begins else []


def _signatures(data: NDArray[np.uint8], begins: NDArray[np.intp]) -> Words | None:
    """Return a number for each record that depends on its headers and their offsets only; None if a record is not over after 64 bytes."""
    signatures, offsets = np.zeros(len(begins), np.uint64), np.zeros(len(begins), np.int64)
    while True:
        headers = data.take(begins + offsets)
        strides = _TO_NEXT.take(headers)
        if not strides.any():
            return signatures + headers * _POWERS.take(offsets)
        signatures += _WALKED.take(headers) * _POWERS.take(offsets)
        offsets += strides
        if int(offsets.max()) >= _ALIGNMENT:
            return None


def _shape_of(record: bytes) -> RecordShape | None:
    """Return the shape of 64 bytes; None if they are not one record with padding after it."""
    fixed, packets, position = dict[int, int](), list[tuple[int, int, int, int]](), 0
    while position < _ALIGNMENT:
        header, more = record[position], 0
        fixed[position] = header
        if header & 0xFC == 0x20 and position + 1 < _ALIGNMENT and _MAY_BE_LONG[record[position + 1]]:
            more, position = header & 3, position + 1
            header = fixed[position] = record[position]
        elif not header:
            position += 1
            continue
        size = int(_LENGTHS[header]) - 1
        if size < 0 or position + 1 + size > _ALIGNMENT:
            return None
        packets.append((header, more << 3 | header & 7, position + 1, size))
        position += 1 + size
        if header in (_END, _TIMESTAMP):
            break
    else:
        return None
    if any(record[position:]):
        return None
    fixed |= dict.fromkeys(range(position, _ALIGNMENT), 0)
    masks, values = dict[int, int](), dict[int, int]()
    for offset, byte in fixed.items():
        masks[offset >> 3] = masks.get(offset >> 3, 0) | 0xFF << 8 * (offset & 7)
        values[offset >> 3] = values.get(offset >> 3, 0) | byte << 8 * (offset & 7)
    return RecordShape(
        {word: np.uint64(mask) for word, mask in masks.items()}, {word: np.uint64(one) for word, one in values.items()}, packets
    )


def _read_shape(shape: RecordShape, words: Words, rows: NDArray[np.intp], records: SpeRecords) -> None:
    """Write the payloads of records of one shape, uint64[8, n], to their rows."""
    for header, index, offset, size in shape.packets:
        kind = header & 0xF8
        if (kind == _COUNTER and index != _TOTAL) or (kind == _ADDRESS and index > 3) or header == _END:
            continue
        word, bits = offset >> 3, 8 * (offset & 7)
        payload = words[word] >> np.uint64(bits)
        if bits + 8 * size > 64:
            payload |= words[word + 1] << np.uint64(64 - bits)
        payload &= np.uint64((1 << 8 * size) - 1)
        if header == _TIMESTAMP:
            records.timestamp[rows] = payload
        elif kind == _ADDRESS:
            records[1 + index][rows] = _ADDRESSES[index](payload)
        elif kind == _COUNTER:
            records.latency[rows] = payload
        elif header & 0xFC == _CONTEXT:
            records.context[rows] = payload
        elif header & 0xFC == _OPERATION:
            if header & 3 == _LOAD_STORE:
                records.operation[rows] |= np.where(payload & np.uint64(1), np.uint8(STORE), np.uint8(LOAD))
        elif header & 0xCF == _EVENTS:
            records.events[rows] |= payload.astype(np.uint32)
        else:
            records.source[rows] = payload


# Records of any length, at any offset.


class _Packets:
    """The packets of a window of trace, without padding.

    Attributes:
        header: uint8[n], a byte that begins no packet is a packet of its own, with length 0.
        index: uint8[n], the low bits of the header, with those of a long header.
        payload: uint64[n].
        after: int64[n], the offset after each packet.
    """

    def __init__(self, data: NDArray[np.uint8], address: int) -> None:
        padded = np.concatenate([data, np.zeros(2 * _LONGEST, np.uint8)])
        self._words: Words = np.ndarray((len(data) + _LONGEST,), "<u8", padded, strides=(1,))
        self._data = padded
        self._address = address
        starts = self._starts(len(data))
        header = padded[starts]
        is_long = (header & 0xFC) == 0x20
        more = header & 3
        header = np.where(is_long, padded[starts + 1], header)
        length = _LENGTHS[header].astype(np.int64)
        length[is_long & ~_MAY_BE_LONG[header]] = _BAD
        before = 1 + is_long.astype(np.int64)
        payload = self._words[starts + before] & _MASKS[header]
        self.header, self.payload = header, payload
        self.index = np.where(is_long, more << 3 | header & 7, header & 7)
        self.is_bad = length == _BAD
        self.after = starts + np.where(self.is_bad, 1, length + is_long)

    def _starts(self, size: int) -> NDArray[np.int64]:
        """Return the offset of each packet below `size`, in order.

        Each packet is as long as its first bytes say, so that one leads to the next. Many lanes walk at once, each from a guess: those
        that a lane before it does not lead to walk again from where that one ends.
        """
        begins = np.arange(0, size, _LANE, dtype=np.int64)
        limits = np.minimum(begins + _LANE, size)
        ends = np.zeros(len(begins), np.int64)
        walks = np.full((len(begins), 0), -1, np.int64)
        again = np.arange(len(begins))
        for _ in range(_ATTEMPTS):
            walked, ends[again] = self._walk_lanes(begins[again], limits[again])
            missing = walked.shape[1] - walks.shape[1]
            walks = np.pad(walks, ((0, 0), (0, max(missing, 0))), constant_values=-1)
            walks[again] = np.pad(walked, ((0, 0), (0, max(-missing, 0))), constant_values=-1)
            expected = np.append(0, ends[:-1])
            again = np.flatnonzero(begins != expected)
            if not len(again):
                break
            begins[again] = expected[again]
        first = int(again[0]) if len(again) else len(begins)
        starts = walks[:first].ravel()
        starts = starts[starts >= 0]
        rest = self._walk(int(begins[first]), size) if len(again) else starts[:0]
        return np.concatenate([starts[self._data[starts] != 0], rest])

    def _walk_lanes(self, position: NDArray[np.int64], limits: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Walk lanes to their limits; return their packets (one row each, -1 for none), and the offset after the last one of each."""
        columns = []
        active = np.flatnonzero(position < limits)
        while len(active):
            here = position[active]
            column = np.full(len(position), -1, np.int64)
            column[active] = here
            columns.append(column)
            position[active] = here + self._lengths(here)
            active = active[position[active] < limits[active]]
        return np.array(columns, np.int64).reshape(-1, len(position)).T, position

    def _lengths(self, position: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bytes from each packet to the next."""
        words = self._words[position]
        header = words & np.uint64(0xFF)
        strides = _STRIDES[header.view(np.int64)]
        special = np.flatnonzero(strides <= 0)
        if len(special):
            rest = words[special]
            zeros = np.where(rest == 0, 64, np.frexp((rest & (~rest + np.uint64(1))).astype(np.float64))[1] - 1) >> 3
            second = (rest >> np.uint64(8) & np.uint64(0xFF)).astype(np.int64)
            alignment = np.int64(2) << (rest & np.uint64(3)).astype(np.int64)
            to_aligned = alignment - (self._address + position[special]) % alignment
            long = np.where(_MAY_BE_LONG[second], _LENGTHS[second].astype(np.int64) + 1, np.where(second == 0, to_aligned, 1))
            strides[special] = np.where(rest & np.uint64(0xFF) == 0, zeros, long)
        return strides

    def _walk(self, position: int, size: int) -> NDArray[np.int64]:
        """Return the offset of each packet from a position on, one after the other: for traces that no guess fits."""
        data, address = self._data.tobytes(), self._address
        strides, lengths, may_be_long = _STRIDES.tolist(), _LENGTHS.tolist(), _MAY_BE_LONG.tolist()
        starts = []
        while position < size:
            header = data[position]
            stride = strides[header]
            if header:
                starts.append(position)
            if stride <= 0:
                second = data[position + 1]
                if not header:
                    stride = 1
                elif may_be_long[second]:
                    stride = lengths[second] + 1
                elif second:
                    stride = 1
                else:
                    alignment = 2 << (header & 3)
                    stride = alignment - (address + position) % alignment
            position += stride
        return np.array(starts, np.int64)

    def records(self, ends: NDArray[np.intp]) -> tuple[SpeRecords, int]:
        """Return the records whose last packets these are, and the number of bytes that are no packets."""
        count = len(ends)
        used = int(ends[-1]) + 1
        header, index, payload = self.header[:used], self.index[:used], self.payload[:used]
        number = np.repeat(np.arange(count), np.diff(np.append(-1, ends)))
        bad = np.flatnonzero(self.is_bad[:used])

        def last(mask: NDArray[np.bool_], change: Callable[[Words], Words] | None = None) -> Words:
            values = np.zeros(count, np.uint64)
            rows = np.flatnonzero(mask)
            values[number[rows]] = change(payload[rows]) if change else payload[rows]
            return values

        kind, class_ = header & 0xF8, header & 0xFC
        is_address = kind == _ADDRESS
        context = np.full(count, -1, np.int64)
        rows = np.flatnonzero(class_ == _CONTEXT)
        context[number[rows]] = payload[rows].astype(np.int64)
        accesses = (class_ == _OPERATION) & ((header & 3) == _LOAD_STORE)
        kinds = np.where(payload & np.uint64(1), np.uint64(STORE), np.uint64(LOAD))
        records = SpeRecords(
            last(header == _TIMESTAMP),
            last(is_address & (index == 0), _instruction_address),
            last(is_address & (index == 1), _instruction_address),
            last(is_address & (index == 2), _data_address),
            last(is_address & (index == 3), lambda values: values & _LOW_56),
            last((kind == _COUNTER) & (index == _TOTAL)).astype(np.uint16),
            context,
            _joined(number, kinds, accesses, count).astype(np.uint8),
            _joined(number, payload, (header & 0xCF) == _EVENTS, count).astype(np.uint32),
            last((header & 0xCF) == _SOURCE).astype(np.uint16),
        )
        if not len(bad):
            return records, 0
        good = np.ones(count, bool)
        good[number[bad]] = False
        return records.take(np.flatnonzero(good)), len(bad)


def _joined(number: NDArray[np.intp], payload: Words, mask: NDArray[np.bool_], count: int) -> Words:
    """Return the bits that the packets of each record have together."""
    values = np.zeros(count, np.uint64)
    rows = np.flatnonzero(mask)
    owners = number[rows]
    if bool((owners[1:] == owners[:-1]).any()):
        np.bitwise_or.at(values, owners, payload[rows])
    else:
        values[owners] = payload[rows]
    return values


def _header_tables() -> tuple[NDArray[np.uint8], NDArray[np.bool_], NDArray[np.int64], Words]:
    """Return for each header its packet's length, whether it may follow a long header, its length in a walk, and its payload's mask."""
    lengths, may_be_long = np.zeros(256, np.uint8), np.zeros(256, bool)
    masks = np.zeros(256, np.uint64)
    for header in range(256):
        size = 1 << (header >> 4 & 3)
        is_indexed = header & 0xF8 in (_ADDRESS, _COUNTER)
        if is_indexed or header == _TIMESTAMP or header & 0xCF in (_EVENTS, _SOURCE) or header & 0xFC in (_CONTEXT, _OPERATION):
            lengths[header], masks[header] = 1 + size, (1 << 8 * size) - 1
        may_be_long[header] = is_indexed
    lengths[_END] = 1
    strides = np.where(lengths == _BAD, 1, lengths.astype(np.int64))
    strides[[0, 0x20, 0x21, 0x22, 0x23]] = 0  # the bytes that follow decide
    return lengths, may_be_long, strides, masks


_LENGTHS, _MAY_BE_LONG, _STRIDES, _MASKS = _header_tables()
#: bytes from a header to the next one, 0 for the last one of a record; its number in signatures, 0 for the last one
_TO_NEXT: Final = np.where(np.isin(np.arange(256), (_END, _TIMESTAMP)), 0, np.maximum(_LENGTHS, 1)).astype(np.int64)
_WALKED: Final = np.where(_TO_NEXT > 0, np.arange(256), 0).astype(np.uint64)
_POWERS: Final = np.array([pow(0x9E3779B97F4A7C15, offset + 1, 1 << 64) for offset in range(_ALIGNMENT)], np.uint64)
_LOW_56: Final = np.uint64((1 << 56) - 1)
_TOP: Final = np.uint64(0xFF << 56)


def _instruction_address(values: Words) -> Words:
    """Return addresses of instructions: those of the kernel (EL1, EL2, not secure) have their top byte set."""
    level = values >> np.uint64(61)  # NS, and two bits of the exception level
    in_kernel = (level == 0b101) | (level == 0b110)
    return np.where(in_kernel, values | _TOP, values & _LOW_56)


def _data_address(values: Words) -> Words:
    """Return addresses of data without their tags: those of the kernel have their top byte set."""
    return np.where(values >> np.uint64(52) & np.uint64(0xF) == 0xF, values | _TOP, values & _LOW_56)


#: of the index of an address packet: PC, target, data, physical
_ADDRESSES: Final = (_instruction_address, _instruction_address, _data_address, lambda values: values & _LOW_56)


# Where the accesses of records went, as union perf_mem_data_src (include/uapi/linux/perf_event.h).

_OP_LOAD, _OP_STORE = 0x2, 0x4
_HIT, _MISS, _NOT_AVAILABLE = 0x2, 0x4, 0x1
_LEVEL, _SNOOP, _TLB, _NUMBER, _IS_REMOTE, _PEER = (1 << bit for bit in (5, 19, 26, 33, 37, 39))
_L1, _L2, _L3, _RAM, _WALKER = 0x8, 0x20, 0x40, 0x80, 0x20
_NO_NUMBER, _RAM_NUMBER = 0xF, 0xD
_SNOOP_NONE, _SNOOP_HIT = 0x2, 0x4

_SNOOP_NOT_AVAILABLE, _SNOOP_MODIFIED = 0x1, 0x10
_OTHER_CACHE, _FAR_CACHE, _FAR_RAM, _IO = 0x400, 0x800, 0x100, 0x1000  # remote, one and two hops away
_IO_NUMBER, _ANY_CACHE_NUMBER = 0xA, 0xB


class CoreSources(NamedTuple):
    """What the data sources of a kind of cores mean.

    Attributes:
        words: data source -> level, snoop and more of a load.
        is_complete: loads with other sources have no level; otherwise their events tell it.
        hides_stores: no store has a level; otherwise only stores with one of the sources have none.
    """

    words: dict[int, int]
    is_complete: bool
    hides_stores: bool


#: of the Neoverse cores (Arm Neoverse N1 TRM, "Data Source packet")
_NEOVERSE_SOURCES: Final = CoreSources(
    {
        0x0: (_L1 | _HIT) * _LEVEL | 1 * _NUMBER | _SNOOP_NONE * _SNOOP,
        0x8: (_L2 | _HIT) * _LEVEL | 2 * _NUMBER | _SNOOP_NONE * _SNOOP,
        0x9: (_L2 | _HIT) * _LEVEL | 2 * _NUMBER | _PEER,
        0xA: (_L3 | _HIT) * _LEVEL | 3 * _NUMBER | _PEER,
        0xB: (_L3 | _HIT) * _LEVEL | 3 * _NUMBER | _SNOOP_HIT * _SNOOP,
        0xC: (_L3 | _HIT) * _LEVEL | 3 * _NUMBER | _PEER,
        0xD: _NOT_AVAILABLE * _LEVEL | _NO_NUMBER * _NUMBER | _IS_REMOTE | _PEER,
        0xE: (_RAM | _HIT) * _LEVEL | _RAM_NUMBER * _NUMBER | _SNOOP_NONE * _SNOOP,
    },
    is_complete=True,
    hides_stores=True,
)
#: of AmpereOneX, as the output of perf 7.3 shows them
_AMPERE_SOURCES: Final = CoreSources(
    {
        0x0: (_L2 | _HIT) * _LEVEL | 2 * _NUMBER | _SNOOP_NOT_AVAILABLE * _SNOOP | _PEER,
        0x3: (_L3 | _HIT) * _LEVEL | 3 * _NUMBER | _SNOOP_HIT * _SNOOP,
        0x5: _NOT_AVAILABLE * _LEVEL | _NO_NUMBER * _NUMBER | _SNOOP_NOT_AVAILABLE * _SNOOP | _IS_REMOTE | _PEER,
        0x7: (_RAM | _HIT) * _LEVEL | _RAM_NUMBER * _NUMBER | _SNOOP_NONE * _SNOOP,
        0x8: (_L1 | _HIT) * _LEVEL | 1 * _NUMBER | _SNOOP_NONE * _SNOOP,
        0x9: (_L2 | _HIT) * _LEVEL | 2 * _NUMBER | _SNOOP_NONE * _SNOOP,
    },
    is_complete=False,
    hides_stores=False,
)
#: of HiSilicon's HIP12, as the output of perf 7.3 shows them
_HIP12_SOURCES: Final = CoreSources(
    {
        0x00: (_L2 | _HIT) * _LEVEL | 2 * _NUMBER | _SNOOP_NOT_AVAILABLE * _SNOOP | _PEER,
        0x01: (_L2 | _HIT) * _LEVEL | 2 * _NUMBER | _SNOOP_MODIFIED * _SNOOP | _PEER,
        0x02: (_L3 | _HIT) * _LEVEL | 3 * _NUMBER | _SNOOP_HIT * _SNOOP,
        0x03: (_L3 | _HIT) * _LEVEL | 3 * _NUMBER | _SNOOP_MODIFIED * _SNOOP,
        0x04: (_OTHER_CACHE | _HIT) * _LEVEL | 3 * _NUMBER | _SNOOP_NOT_AVAILABLE * _SNOOP | _PEER,
        0x05: (_OTHER_CACHE | _HIT) * _LEVEL | 3 * _NUMBER | _SNOOP_MODIFIED * _SNOOP | _PEER,
        0x06: _FAR_CACHE * _LEVEL | _ANY_CACHE_NUMBER * _NUMBER | _SNOOP_NOT_AVAILABLE * _SNOOP | _IS_REMOTE | _PEER,
        0x07: _FAR_CACHE * _LEVEL | _ANY_CACHE_NUMBER * _NUMBER | _SNOOP_MODIFIED * _SNOOP | _IS_REMOTE | _PEER,
        0x08: (_RAM | _HIT) * _LEVEL | _RAM_NUMBER * _NUMBER | _SNOOP_NONE * _SNOOP,
        0x09: (_FAR_RAM | _HIT) * _LEVEL | _RAM_NUMBER * _NUMBER | _SNOOP_NOT_AVAILABLE * _SNOOP | _IS_REMOTE,
        0x0D: (_IO | _HIT) * _LEVEL | _IO_NUMBER * _NUMBER | _SNOOP_NONE * _SNOOP,
        0x10: (_L2 | _HIT) * _LEVEL | 2 * _NUMBER | _SNOOP_NONE * _SNOOP,
        0x11: (_L2 | _HIT) * _LEVEL | 2 * _NUMBER | _SNOOP_MODIFIED * _SNOOP,
        0x12: (_L1 | _HIT) * _LEVEL | 1 * _NUMBER | _SNOOP_NONE * _SNOOP,
    },
    is_complete=False,
    hides_stores=True,
)
_UNKNOWN_STORE: Final = np.uint64(_NOT_AVAILABLE * _LEVEL | _NO_NUMBER * _NUMBER | _NOT_AVAILABLE * _SNOOP)

_ARM, _HISILICON, _NVIDIA, _AMPERE = 0x41, 0x48, 0x4E, 0xC0  # implementers
#: implementer -> part number (MIDR_EL1, arch/arm64/include/asm/cputype.h) -> data sources. Neoverse N1, N2 and V1 as in perf 6.12; as
#: the output of perf 7.3 shows, V2 and V3, Cortex-A78C, A715, A720, A720AE, A725, X1, X1C, X3, X4 and X925, NVIDIA's Olympus and the others
_CORES: Final = {
    _ARM: dict.fromkeys(
        (0xD0C, 0xD49, 0xD40, 0xD4F, 0xD84, 0xD4B, 0xD4D, 0xD81, 0xD89, 0xD87, 0xD44, 0xD4C, 0xD4E, 0xD82, 0xD85), _NEOVERSE_SOURCES
    ),
    _HISILICON: {0xD06: _HIP12_SOURCES},
    _NVIDIA: {0x010: _NEOVERSE_SOURCES},
    _AMPERE: {0xAC4: _AMPERE_SOURCES},
}


def sources_of_core(midr: int) -> CoreSources | None:
    """Return the meaning of the data sources of a CPU with this MIDR_EL1; None if only events tell where accesses went."""
    return _CORES.get(midr >> 24 & 0xFF, {}).get(midr >> 4 & 0xFFF)


def data_sources(records: SpeRecords, core: CoreSources | None) -> Words:
    """Return where each access went; 0 for records that are no accesses."""
    is_load, is_store = (records.operation & LOAD) != 0, (records.operation & STORE) != 0
    events = records.events
    told = np.zeros(len(events), np.uint64) if core is not None and core.is_complete else _told_by_events(events)
    if len(newer := rows_where(events & _OF_VERSION_1_4 if core is None else np.zeros(0))):
        told[newer] = _told_by_newer_events(events[newer], is_load[newer])
    if core is not None:
        words, has_word = np.zeros(0x10000, np.uint64), np.zeros(0x10000, bool)
        sources = list(core.words)
        words[sources], has_word[sources] = list(core.words.values()), True
        is_known = has_word[records.source]
        told = np.where(is_known, words[records.source], told)
        told = np.where(is_store & (is_known | core.hides_stores), _UNKNOWN_STORE, told)
    word = np.where(is_load, np.uint64(_OP_LOAD), np.uint64(_OP_STORE)) | told
    walked = (events & (TLB_ACCESS | TLB_MISS)) != 0
    tlb = np.where(walked, _WALKER | np.where(events & TLB_MISS, _MISS, _HIT), 0)
    word |= tlb.astype(np.uint64) * np.uint64(_TLB)
    return np.where(is_load | is_store, word, np.uint64(0))


def _told_by_events(events: NDArray[np.uint32]) -> Words:
    """Return the level that the events of records tell."""
    in_llc, in_l1 = (events & (LLC_ACCESS | LLC_MISS)) != 0, (events & (L1_ACCESS | L1_MISS)) != 0
    missed = np.where(in_llc, (events & LLC_MISS) != 0, (events & L1_MISS) != 0)
    level = np.where(in_llc, _L3, np.where(in_l1, _L1, 0)) | np.where(in_llc | in_l1, np.where(missed, _MISS, _HIT), 0)
    remote = np.where(events & REMOTE, np.uint64(_IS_REMOTE), np.uint64(0))
    return level.astype(np.uint64) * np.uint64(_LEVEL) | remote


_OF_VERSION_1_4: Final = L2_ACCESS | L2_MISS | MODIFIED | RECENTLY_FETCHED | SNOOPED
_FILL_BUFFER, _FILL_BUFFER_NUMBER = 0x10, 0xC
#: level, its number, and the events that tell an access and a miss
_CACHES: Final = ((_L1, 1, L1_ACCESS, L1_MISS), (_L2, 2, L2_ACCESS, L2_MISS), (_L3, 3, LLC_ACCESS, LLC_MISS))


def _told_by_newer_events(events: NDArray[np.uint32], is_load: NDArray[np.bool_]) -> Words:
    """Return the level and the state in other caches that events of SPE version 1.4 tell, as the output of perf 7.3 shows.

    A load has hit in the first cache that was accessed without a miss, or has missed in the last one. For a store the last cache counts.
    """
    nothing = _NOT_AVAILABLE * _LEVEL | _NO_NUMBER * _NUMBER
    of_load, of_store = np.full(len(events), nothing, np.uint64), np.full(len(events), nothing, np.uint64)
    for level, number, access, miss in _CACHES:
        hit_word, miss_word = (np.uint64((level | outcome) * _LEVEL | number * _NUMBER) for outcome in (_HIT, _MISS))
        has_missed = (events & miss) != 0
        of_load = np.where(has_missed, miss_word, of_load)
        of_store = np.where((events & (access | miss)) != 0, np.where(has_missed, miss_word, hit_word), of_store)
    for level, number, access, miss in reversed(_CACHES):
        if level == _L1:
            fetched = np.uint64((_FILL_BUFFER | _HIT) * _LEVEL | _FILL_BUFFER_NUMBER * _NUMBER)
            of_load = np.where(events & RECENTLY_FETCHED, fetched, of_load)
        of_load = np.where((events & (access | miss)) == access, np.uint64((level | _HIT) * _LEVEL | number * _NUMBER), of_load)
    snoop = np.where(events & SNOOPED, np.where(events & MODIFIED, _SNOOP_MODIFIED, _SNOOP_HIT), _SNOOP_NOT_AVAILABLE)
    remote = np.where(events & REMOTE, np.uint64(_IS_REMOTE), np.uint64(0))
    told: Words = np.where(is_load, of_load, of_store) | snoop.astype(np.uint64) * np.uint64(_SNOOP) | remote
    return told
