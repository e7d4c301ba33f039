"""The packets of an Intel Processor Trace, one by one from its pieces.

Layout: Intel SDM, volume 3, "Intel Processor Trace: trace packets and data types"; packets have the manual's names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perfpy.auxtrace.itrace import AuxPiece, AuxPieces

PSB: Final = b"\x02\x82" * 8
_MNT: Final = b"\x02\xc3\x88"
_IP_SIZES: Final = {0: 0, 1: 2, 2: 4, 3: 6, 4: 6, 6: 8}
#: first byte -> kind, bytes of payload, detail
_SIMPLE: Final = {
    size << 5 | head: (kind, length, size)
    for head, kind in {0x0D: "TIP", 0x11: "TIP.PGE", 0x01: "TIP.PGD", 0x1D: "FUP"}.items()
    for size, length in _IP_SIZES.items()
} | {0x19: ("TSC", 7, 0), 0x59: ("MTC", 1, 0)}
_SIGN_EXTENDED: Final = 3  # IPBytes
_WHOLE: Final = 8  # bytes of an address
_TOP_16: Final = 0xFFFF << 48
_LONGEST_CYC: Final = 9  # bytes whose payload fits 64 bits
_MODES: Final = {0: "MODE.Exec", 1: "MODE.TSX"}
_BBP_IS_SHORT: Final = 0x80

#: second byte after 0x02 -> kind, bytes of payload, detail
_EXTENDED: Final = {
    0x03: ("CBR", 2, 0),
    0x12: ("PTWRITE", 4, 0),
    0x13: ("CFE", 2, 0),
    0x22: ("PWRE", 2, 0),
    0x23: ("PSBEND", 0, 0),
    0x32: ("PTWRITE", 8, 0),
    0x33: ("BEP", 0, 0),
    0x43: ("PIP", 6, 0),
    0x53: ("EVD", 9, 0),
    0x62: ("EXSTOP", 0, 0),
    0x63: ("BBP", 1, 0),
    0x73: ("TMA", 5, 0),
    0x83: ("TraceSTOP", 0, 0),
    0x92: ("PTWRITE", 4, 1),
    0xA2: ("PWRX", 5, 0),
    0xA3: ("TNT", 6, 0),
    0xB2: ("PTWRITE", 8, 1),
    0xB3: ("BEP", 0, 1),
    0xC2: ("MWAIT", 8, 0),
    0xC8: ("VMCS", 5, 0),
    0xE2: ("EXSTOP", 0, 1),
    0xF3: ("OVF", 0, 0),
}
#: packets that do not end a block of items
_WITHIN_BLOCKS: Final = {"PAD", "TSC", "TMA", "MTC", "FUP", "CYC", "CBR", "MNT", "EXSTOP", "PWRE", "PWRX", "BIP", "BBP"}


#: kinds of blocks in PEBS records (BBP), and where PtEvent.items tells whether registers have 32 bits
GENERAL_REGISTERS, BASIC, MEMORY, BRANCHES, XMM_REGISTERS, IS_32_BIT = 1, 4, 5, (8, 9, 10), 16, -1
BLOCK_KINDS: Final = frozenset((GENERAL_REGISTERS, BASIC, MEMORY, *BRANCHES, XMM_REGISTERS))


class Packet(NamedTuple):
    """A packet of a trace."""

    kind: str  #: the manual's name: "TNT", "TIP.PGE", "MODE.Exec" ...
    length: int  #: bytes, header and payload
    value: int = 0  #: the payload, little-endian; of TNT below a stop bit; of MODE without the bits of its kind
    detail: int = 0  #: IP bit of PTWRITE, BEP, EXSTOP; IPBytes of TIP, TIP.PGE, TIP.PGD, FUP; id of BIP; 1: BBP within a group of blocks


def ip_size(packet: Packet) -> int:
    """Return how many bytes of an address a TIP, TIP.PGE, TIP.PGD or FUP packet has; 0: the address is suppressed."""
    return _IP_SIZES[packet.detail]


class TracePiece(NamedTuple):
    """Bytes of trace; latest: ticks of the TSC when they were read, 0 if unknown; continues: whether they follow the piece before."""

    data: bytes
    latest: int
    continues: bool


class TracePieces:
    """The pieces of one trace, in order; of pieces that may overlap the new parts.

    Args:
        may_overlap: whether they are snapshots or those of samples.
        has_tsc: whether TSC packets tell what is new.
        left: pieces that may be read now.
    """

    def __init__(self, aux: AuxPieces, pieces: Sequence[AuxPiece], *, may_overlap: bool, has_tsc: bool, has_times: bool, left: int) -> None:
        self._aux, self._pieces, self._next = aux, pieces, 0
        self._may_overlap, self._has_tsc, self._has_times, self.left = may_overlap, has_tsc, has_times, left
        self._before: bytes | None = None

    def __iter__(self) -> TracePieces:
        return self

    def __next__(self) -> TracePiece:
        while self._next < len(self._pieces) and self.left:
            piece = self._pieces[self._next]
            self._next, self.left = self._next + 1, self.left - 1
            data, begin, continues = self._aux.bytes_of(piece), 0, self._before is not None
            if self._may_overlap and self._before is not None:
                begin, continues = new_part(self._before, data, has_tsc=self._has_tsc)
            if begin < len(data):
                self._before = data if self._may_overlap else b""
                return TracePiece(data[begin:], piece.record.reference if self._has_times else 0, continues)
        raise StopIteration


def address_in(packet: Packet, last: int) -> int:
    """Return the address of a TIP, TIP.PGE, TIP.PGD or FUP packet; last: that of the packet before, whose high bytes may be left out."""
    return whole_address(packet.value, packet.detail, last)


def whole_address(value: int, ip_bytes: int, last: int) -> int:
    """Return the address whose low bytes are given; ip_bytes: the packet's IPBytes."""
    if ip_bytes == _SIGN_EXTENDED:
        return value | (_TOP_16 if value >> 47 & 1 else 0)
    size = _IP_SIZES[ip_bytes]
    return value | last & ~((1 << 8 * size) - 1) if size < _WHOLE else value


class PacketReader:
    """A reader of consecutive packets: the meaning of some bytes depends on the current block."""

    def __init__(self) -> None:
        self._item_size = 0  # bytes per item of the current block; 0: outside of blocks

    @property
    def is_in_block(self) -> bool:
        """Whether bytes that begin TNT packets elsewhere may begin items of a block."""
        return self._item_size > 0

    def packets_after(self, data: memoryview, offset: int) -> Iterator[Packet]:
        """Yield the packets that follow, without padding, up to one that is damaged; this reader does not go on."""
        reader = PacketReader()
        reader._item_size = self._item_size
        while offset < len(data):
            packet = reader.read(data, offset)
            if packet is None:
                return
            offset += packet.length
            if packet.kind != "PAD":
                yield packet

    def read(self, data: memoryview, offset: int) -> Packet | None:
        """Return the packet at an offset, or None if there is none, or only a part of one."""
        if not self._item_size and (simple := _SIMPLE.get(data[offset])) is not None:
            return _with_payload(data, offset, simple[0], 1, simple[1], simple[2])
        packet = self._decode(data, offset)
        if packet is None:
            return None
        if packet.kind == "BBP":
            self._item_size = 4 if packet.value & _BBP_IS_SHORT else 8
        elif packet.kind not in _WITHIN_BLOCKS:
            self._item_size = 0
        return packet

    def _decode(self, data: memoryview, offset: int) -> Packet | None:
        head = data[offset]
        if self._item_size and head & 7 == 4:
            return _with_payload(data, offset, "BIP", 1, self._item_size, head >> 3)
        if not head:
            return Packet("PAD", 1)
        if head == 0x02:
            packet = _decode_extended(data, offset)
            return packet._replace(detail=1) if self._item_size and packet is not None and packet.kind == "BBP" else packet
        if not head & 1:
            return Packet("TNT", 1, head >> 1)
        if head & 3 == 3:
            value, shift, length = data[offset] >> 3, 5, 1
            is_continued = data[offset] & 4
            while is_continued:
                if offset + length >= len(data) or length > _LONGEST_CYC:
                    return None
                byte = data[offset + length]
                value |= byte >> 1 << shift
                is_continued, shift, length = byte & 1, shift + 7, length + 1
            return Packet("CYC", length, value & (1 << 64) - 1)
        if (simple := _SIMPLE.get(head)) is not None:
            return _with_payload(data, offset, simple[0], 1, simple[1], simple[2])
        if head == 0x99 and offset + 1 < len(data):
            value = data[offset + 1]
            kind = _MODES.get(value >> 5)
            return Packet(kind, 2, value & 0x1F) if kind and value & 3 < 3 else None
        return None


def pebs_values(items: Mapping[int, Mapping[int, int]], registers: int) -> dict[str, Any]:
    """Return the fields of a sample that a PEBS record in the trace has, named as columns, "ticks" and "counters" (a mask).

    items: values by kind of block and number; registers: the mask of those that the samples have (sample_regs_intr).
    """
    nothing: dict[int, int] = {}
    general, basic, memory = (items.get(kind, nothing) for kind in (GENERAL_REGISTERS, BASIC, MEMORY))
    values: dict[str, Any] = {"ticks": basic.get(2, 0), "counters": basic.get(1, 0), "addr": memory.get(0, 0)}
    if (ip := basic.get(0, general.get(1))) is not None:
        values["ip"] = ip
    latency, transaction = memory.get(2, 0), memory.get(3, 0)
    values["weight"] = latency >> 32 & 0xFFFF if latency >> 32 else latency
    values["ins_lat"] = latency & 0xFFFF if latency >> 32 else 0
    values["weight"] = values["weight"] or transaction & 0xFFFFFFFF
    abort = general.get(2, 0)
    values["transaction"] = kind = transaction >> 32 & 0xFF
    if kind & _IS_TRANSACTION and abort & 1:
        values["transaction"] |= (abort >> 24 & 0xFF) << _ABORT_SHIFT
    if general or XMM_REGISTERS in items:
        wide = items.get(XMM_REGISTERS, nothing)
        present = {perf: general.get(number, 0) for number, perf in enumerate(_REGISTERS)}
        present |= {_FIRST_XMM + number: value for number, value in wide.items()}
        values["intr_regs"] = [present.get(bit, 0) for bit in range(64) if registers >> bit & 1]
        values["intr_regs_abi"] = 1 if items.get(IS_32_BIT, nothing).get(0) else 2
    values["branch_stack"] = []
    for kind in BRANCHES:
        block = items.get(kind, nothing)
        for first in range(0, _MOST_ITEMS, 3):
            if all(first + part in block for part in range(3)):
                values["branch_stack"].append((block[first], block[first + 1], _branch_flags(block[first + 2])))
    return values


def _branch_flags(info: int) -> int:
    """Return flags of struct perf_branch_entry (linux/perf_event.h) for an LBR_INFO register."""
    is_missed = info >> 63
    return is_missed | (1 - is_missed) << 1 | (info >> 62 & 1) << 2 | (info >> 61 & 1) << 3 | (info & 0xFFFF) << 4


#: PERF_REG_X86_* of the registers in a PEBS record, in order: flags, ip, ax, cx, dx, bx, sp, bp, si, di, r8 to r15
_REGISTERS: Final = (9, 8, 0, 2, 3, 1, 7, 6, 4, 5, *range(16, 24))
_FIRST_XMM, _MOST_ITEMS = 32, 32
_IS_TRANSACTION, _ABORT_SHIFT = 1 << 1, 32  # PERF_TXN_TRANSACTION and PERF_TXN_ABORT_SHIFT


def new_part(before: bytes, data: bytes, *, has_tsc: bool) -> tuple[int, bool]:
    """Return where the part begins that a snapshot has not in common with the one before, and whether it goes on from there, as in perf."""
    begin, first = data.find(PSB), before.find(PSB)
    if begin < 0:
        return len(data), False
    if first < 0:
        return begin, False
    if has_tsc:
        return _new_part_by_tsc(before, first, data, begin)
    while first >= 0 and len(data) - begin < len(before) - first:
        first = before.find(PSB, first + 1)
    view, known = memoryview(data), memoryview(before)
    for _ in range(_MOST_ATTEMPTS):
        if first < 0:
            break
        size = len(before) - first
        if view[begin : begin + size] == known[first:]:
            return _without_padding(before, len(before), data, begin + size), True
        first = before.find(PSB, first + 1)
    return begin, False


def _new_part_by_tsc(before: bytes, first: int, data: bytes, begin: int) -> tuple[int, bool]:
    end = len(before)
    last = before.rfind(PSB, first, end)
    known = _tsc_after(before, last, end)
    if known is None:  # the status is truncated
        end = last
        last = before.rfind(PSB, first, end)
        known = _tsc_after(before, last, end) if last >= 0 else None
    if known is None:
        return begin, False
    while begin >= 0:
        found = _tsc_after(data, begin, len(data))
        if found is not None:
            left = end - known[1]
            if found[0] == known[0] and len(data) - found[1] >= left:
                return _without_padding(before, end, data, found[1] + left), True
            if (found[0] - known[0]) & _MASK_56 < _HALF_56 and found[0] != known[0]:
                return begin, False
        begin = data.find(PSB, begin + 1)
    return len(data), False


def _tsc_after(data: bytes, offset: int, end: int) -> tuple[int, int] | None:
    """Return the payload and the offset of the TSC packet in the status after a PSB packet, None without one."""
    reader, view = PacketReader(), memoryview(data)[:end]
    for _ in range(_MOST_IN_STATUS):
        packet = reader.read(view, offset) if offset < end else None
        if packet is None or packet.kind == "PSBEND":
            break
        if packet.kind == "TSC":
            return packet.value, offset
        offset += packet.length
    return None


def _without_padding(before: bytes, end: int, data: bytes, begin: int) -> int:
    """Return where the new part begins if the last bytes of the part before may be padding."""
    first = max(begin - _MOST_PADDING, 0)
    while first < begin and data[first] == before[end - begin + first]:
        first += 1
    return first


_MOST_PADDING: Final = 7
_MOST_ATTEMPTS, _MOST_IN_STATUS = 1 << 12, 256  # to compare parts; packets after a PSB packet
_MASK_56, _HALF_56 = (1 << 56) - 1, 1 << 55


class EndOfTraceError(Exception):
    """There are no more packets."""


class NewTraceError(Exception):
    """The next piece of trace does not go on from the one before."""


SHORT_TNT_ENDS: Final = 1
_KINDS: Final = bytes(SHORT_TNT_ENDS if byte & 1 or byte < 4 else 0 for byte in range(256))


class PacketStream:
    """The packets of consecutive pieces of trace.

    Attributes:
        data: the current piece.
        kinds: SHORT_TNT_ENDS for each byte of the piece that is no short TNT packet.
        offset: of the next packet in it.
        before: bytes of the pieces before.
        latest: ticks of the TSC when the piece was read, 0 if unknown.
        packet, last: the packet that was read, and the one before it.
        is_unread: whether that packet is read again.
    """

    def __init__(self, pieces: Iterator[TracePiece]) -> None:
        self.data, self.offset, self.before, self.latest = b"", 0, 0, 0
        self.kinds = b""
        self.packet = self.last = Packet("PAD", 1)
        self.is_unread = False
        self._pieces, self._view, self._reader = pieces, memoryview(b""), PacketReader()

    @property
    def is_in_block(self) -> bool:
        """Whether bytes that begin TNT packets elsewhere may begin items of a block."""
        return self._reader.is_in_block

    def next_piece(self) -> None:
        """Go to the next piece. Raises EndOfTraceError if there is none, NewTraceError if it begins another trace."""
        self.before += len(self.data)
        piece = next(self._pieces, None)
        if piece is None:
            self.data, self._view, self.offset = b"", memoryview(b""), 0
            raise EndOfTraceError
        self.data, self._view, self.offset, self.latest = piece.data, memoryview(piece.data), 0, piece.latest
        self._reader, self.kinds = PacketReader(), piece.data.translate(_KINDS)
        if not piece.continues:
            raise NewTraceError

    def read(self) -> Packet | None:
        """Return the next packet that is no padding; None for a byte that begins none, which is passed."""
        if self.is_unread:
            self.is_unread = False
            return self.packet
        self.last = self.packet
        while True:
            if self.offset >= len(self.data):
                self.next_piece()
                continue
            packet = self._reader.read(self._view, self.offset)
            if packet is None:
                self.offset += 1
                return None
            self.offset += packet.length
            if packet.kind != "PAD":
                self.packet = packet
                return packet

    def unread(self) -> None:
        """Let the packet be read again."""
        self.is_unread = True

    def ahead(self, offset: int = -1) -> Iterator[Packet]:
        """Yield the packets that follow in this piece; offset: of the first one, that of the next packet by default."""
        return self._reader.packets_after(self._view, self.offset if offset < 0 else offset)


def _with_payload(data: memoryview, offset: int, kind: str, before: int, size: int, detail: int = 0) -> Packet | None:
    """Return a packet with `before` bytes of header and `size` bytes of payload."""
    length = before + size
    if offset + length > len(data):
        return None
    return Packet(kind, length, int.from_bytes(data[offset + before : offset + length], "little"), detail)


def _decode_extended(data: memoryview, offset: int) -> Packet | None:
    """Return a packet whose header has two bytes or more."""
    kind, size, detail = _EXTENDED.get(data[offset + 1] if offset + 1 < len(data) else 0, ("", 0, 0))
    if not kind:
        raw = bytes(data[offset : offset + len(PSB)])
        if raw == PSB:
            return Packet("PSB", len(PSB))
        if raw.startswith(_MNT):
            return _with_payload(data, offset, "MNT", len(_MNT), 8)
    return _with_payload(data, offset, kind, 2, size, detail) if kind else None
