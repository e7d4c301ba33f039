"""The packets of an Intel Processor Trace, one by one from its pieces.

Layout: Intel SDM, volume 3, "Intel Processor Trace: trace packets and data types"; packets have the manual's names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

PSB: Final = b"\x02\x82" * 8
_MNT: Final = b"\x02\xc3\x88"
_IP_PACKETS: Final = {0x0D: "TIP", 0x11: "TIP.PGE", 0x01: "TIP.PGD", 0x1D: "FUP"}
_IP_SIZES: Final = {0: 0, 1: 2, 2: 4, 3: 6, 4: 6, 6: 8}
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


class Packet(NamedTuple):
    """A packet of a trace."""

    kind: str  #: the manual's name: "TNT", "TIP.PGE", "MODE.Exec" ...
    length: int  #: bytes, header and payload
    value: int = 0  #: the payload, little-endian; of TNT below a stop bit; of MODE without the bits of its kind
    detail: int = 0  #: IP bit of PTWRITE, BEP, EXSTOP; IPBytes of TIP, TIP.PGE, TIP.PGD, FUP; id of BIP


def ip_size(packet: Packet) -> int:
    """Return how many bytes of an address a TIP, TIP.PGE, TIP.PGD or FUP packet has; 0: the address is suppressed."""
    return _IP_SIZES[packet.detail]


class TracePiece(NamedTuple):
    """Bytes of trace; latest: ticks of the TSC when they were read, 0 if unknown; continues: whether they follow the piece before."""

    data: bytes
    latest: int
    continues: bool


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
            return _decode_extended(data, offset)
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
        if (kind := _IP_PACKETS.get(head & 0x1F)) is not None:
            size = _IP_SIZES.get(head >> 5)
            return _with_payload(data, offset, kind, 1, size, head >> 5) if size is not None else None
        if head == 0x19:
            return _with_payload(data, offset, "TSC", 1, 7)
        if head == 0x59:
            return _with_payload(data, offset, "MTC", 1, 1)
        if head == 0x99 and offset + 1 < len(data):
            value = data[offset + 1]
            kind = _MODES.get(value >> 5)
            return Packet(kind, 2, value & 0x1F) if kind and value & 3 < 3 else None
        return None


class EndOfTraceError(Exception):
    """There are no more packets."""


class NewTraceError(Exception):
    """The next piece of trace does not go on from the one before."""


class PacketStream:
    """The packets of consecutive pieces of trace.

    Attributes:
        data: the current piece.
        offset: of the next packet in it.
        before: bytes of the pieces before.
        latest: ticks of the TSC when the piece was read, 0 if unknown.
        packet, last: the packet that was read, and the one before it.
        is_unread: whether that packet is read again.
    """

    def __init__(self, pieces: Iterator[TracePiece]) -> None:
        self.data, self.offset, self.before, self.latest = b"", 0, 0, 0
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
        self._reader = PacketReader()
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
    raw = bytes(data[offset : offset + len(PSB)])
    if raw == PSB:
        return Packet("PSB", len(PSB))
    if raw.startswith(_MNT):
        return _with_payload(data, offset, "MNT", len(_MNT), 8)
    kind, size, detail = _EXTENDED.get(raw[1] if len(raw) > 1 else 0, ("", 0, 0))
    return _with_payload(data, offset, kind, 2, size, detail) if kind else None
