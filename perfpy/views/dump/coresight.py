"""The packets of CoreSight traces (ETMv4) as `report -D` prints them: a line for each packet.

Layouts: Arm CoreSight Architecture Specification (IHI 0029), "Formatter", and Embedded Trace Macrocell Architecture Specification ETMv4
(IHI 0064), "Trace packets". The lines are those of perf 6.12 with OpenCSD.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


_FRAME: Final = 16  # bytes
_ETMV4, _ETE = 0x4040404040404040, 0x5050505050505050  # magic numbers
_PARAMETERS_AT: Final = 3  # in AUXTRACE_INFO: of each CPU magic number, number and count of parameters
_CONFIG, _TRACE_ID, _IDR0, _IDR1, _IDR2 = range(5)  # parameters
_KINDS: Final = {_ETMV4: "ETMV4I", _ETE: "ETE"}
_FIRST_IGNORE, _FIRST_MARKER = 3, 6  # minor versions with these packets
_ASYNC_SIZE: Final = 12
_WHOLE: Final = 64  # bits of an address
_MORE: Final = 0x80  # bit of a byte that another one follows


class TraceUnit(NamedTuple):
    """A CPU's trace unit: its kind (the magic number) and the registers that decide the layout of packets."""

    kind: int
    cpu: int
    trace_id: int
    idr0: int
    idr1: int
    idr2: int

    @property
    def tells_commits(self) -> bool:
        """Whether packets of cycle counts have commits."""
        return not self.idr0 >> 29 & 1

    @property
    def has_q(self) -> bool:
        """Whether packets tell that instructions ran without their branches."""
        return bool(self.idr0 >> 15 & 3)

    @property
    def has_ignore(self) -> bool:
        """Whether a packet means nothing."""
        return self.kind == _ETE or self.idr1 >> 4 & 0xF >= _FIRST_IGNORE

    @property
    def context_size(self) -> int:
        """Bytes of a context id."""
        return 4 if self.idr2 >> 5 & 0x1F else 0

    @property
    def machine_size(self) -> int:
        """Bytes of the id of a virtual machine."""
        return {0: 0, 1: 1, 2: 2}.get(self.idr2 >> 10 & 0x1F, 4)


def trace_units(words: Sequence[int]) -> list[TraceUnit]:
    """Return the trace units that AUXTRACE_INFO describes, one for each CPU."""
    units, position = [], _PARAMETERS_AT
    while position + 2 < len(words):
        count = words[position + 2]
        values = [*words[position + 3 : position + 3 + min(count, len(words))], *[0] * 5]
        units.append(TraceUnit(words[position], words[position + 1], values[_TRACE_ID] & 0x7F, values[_IDR0], values[_IDR1], values[_IDR2]))
        position += 3 + max(count, 0)
    return units


def trace_lines(data: bytes, index: int, units: Sequence[TraceUnit], *, cpu: int = -1) -> Iterator[str]:
    """Yield the lines of a fragment of trace. index: of its first byte; cpu: whose packets it has without frames; -1: it has frames."""
    readers = {unit.trace_id: _UnitTexts(unit) for unit in units if unit.kind in _KINDS}
    if not readers:
        return
    yield f"\n. ... CoreSight {_KINDS[units[0].kind]} Trace data: size {len(data):#x} bytes\n"
    if cpu >= 0:
        for unit in units:
            if unit.cpu == cpu and unit.kind in _KINDS:
                reader = _UnitTexts(unit, is_framed=False)
                for begin in range(0, len(data), _FRAME):
                    yield from reader.lines(data[begin : begin + _FRAME], index + begin)
    else:
        last = 0
        for begin in range(0, len(data) - _FRAME + 1, _FRAME):
            parts = frame_parts(data[begin : begin + _FRAME], last)
            last = parts[-1][0]
            for source, first, part in parts:
                if source in readers:
                    yield from readers[source].lines(part, index + begin + first)


def frame_parts(frame: bytes, source: int) -> list[tuple[int, int, bytes]]:
    """Return the bytes of a frame: their source, the index of the first one, and the bytes. source: of the frame before.

    Bytes at even positions are data without their lowest bit, which is in the last byte, or the number of another source. Then that bit
    tells whether the byte after it still belongs to the source before.
    """
    parts, flags = [(source, 0, bytearray())], frame[-1]
    for position in range(0, _FRAME - 1, 2):
        first, second, flag = frame[position], frame[position + 1 : position + 2], flags >> (position >> 1) & 1
        second = second if position + 1 < _FRAME - 1 else b""
        if not first & 1:
            parts[-1][2].extend(bytes([first | flag]) + second)
            continue
        if flag:
            parts[-1][2].extend(second)
            second = b""
        if first >> 1 != parts[-1][0]:
            parts.append((first >> 1, position, bytearray()))
        parts[-1][2].extend(second)
    return [(ident, first, bytes(part)) for ident, first, part in parts]


class _NeedsMoreError(Exception):
    """The packet goes on in bytes that follow."""


class _PacketBytes:
    """The bytes of a packet."""

    def __init__(self, data: bytearray) -> None:
        self._data, self.used = data, 0

    def one(self) -> int:
        """Return the next byte."""
        if self.used >= len(self._data):
            raise _NeedsMoreError
        self.used += 1
        return self._data[self.used - 1]

    def several(self, count: int) -> bytes:
        """Return the next bytes."""
        return bytes(self.one() for _ in range(count))

    def number(self, most: int, bits: int) -> tuple[int, int]:
        """Return a number in groups of 7 bits, and its size in bits. most: bytes, of which the last one has 8 bits; bits: of the number."""
        value = count = 0
        while True:
            byte = self.one()
            count += 1
            is_last = count == most
            value |= (byte if is_last else byte & 0x7F) << 7 * (count - 1)
            if is_last or not byte & _MORE:
                return value & (1 << bits) - 1, 7 * count + is_last

    def numbers(self, most: list[int]) -> list[int]:
        """Return numbers that follow each other; most: bytes that count of each. If one has more, the next one begins in them."""
        begin = self.used
        for _ in most:
            while self.one() & _MORE:
                pass
        end, self.used, values = self.used, begin, []
        for size in most:
            first = self.used
            while self.one() & _MORE and self.used - first < size:
                pass
            groups = self._data[first : self.used]
            values.append(sum((byte & 0x7F) << 7 * index for index, byte in enumerate(groups)) & 0xFFFFFFFF)
        self.used = end
        return values


class _UnitTexts:
    """The lines of one trace unit's packets; state that later packets refer to is kept between pieces."""

    def __init__(self, unit: TraceUnit, *, is_framed: bool = True) -> None:
        self._unit, self._is_framed = unit, is_framed
        self._rest = bytearray()  # of a packet that goes on
        self._indexes: list[int] = []
        self._is_synchronous = self._has_told = False
        self._zeros = self._begin = 0  # zero bytes that may begin an A-sync packet: how many, and the index of the first one
        self._passed = self._first = 0  # bytes before that packet: how many, and the index of the first one
        self._addresses = [(0, 64)] * 3  # the last ones, and how many bits of each its packet had
        self._time = self._threshold = self._told_threshold = 0
        self._is_64_bit = False

    def lines(self, data: bytes, index: int) -> Iterator[str]:
        """Yield the lines of the packets that end in some bytes. index: of the first byte."""
        begin = 0
        if not self._is_synchronous:
            begin, texts = self._synchronize(data, index)
            yield from texts
        self._rest += data[begin:]
        self._indexes += range(index + begin, index + len(data))
        while self._rest:
            first = self._indexes[0]
            packet, state = _PacketBytes(self._rest), (self._addresses, self._is_64_bit)
            try:
                text = self._packet(packet)
            except _NeedsMoreError:
                self._addresses, self._is_64_bit = state
                break
            del self._rest[: packet.used], self._indexes[: packet.used]
            if text:
                yield from self._with_error(first, text)
        if len(self._rest) > _LONGEST:
            self._rest.clear()
            self._indexes.clear()
            self._is_synchronous, self._passed, self._zeros = False, 0, 0

    def _with_error(self, index: int, text: str) -> Iterator[str]:
        ident = self._unit.trace_id
        if text.startswith("I_RESERVED"):
            error = "0x0014 (OCSD_ERR_INVALID_PCKT_HDR) [Invalid packet header]"
            name = f"_{ident:04d}" if self._is_framed else ""
            yield f"\tPKTP_ETMV4I{name} : {error}; TrcIdx={index}; CS ID={ident:02x}; \n"
        yield f"\tIdx:{index}; ID:{ident:x};\t{text}\n"

    def _synchronize(self, data: bytes, index: int) -> tuple[int, list[str]]:
        """Return where the first packet after an A-sync packet begins, and the lines before it."""
        texts = []
        for number, byte in enumerate(data):
            if not self._passed:
                self._first = index + number
            if not self._zeros:
                self._begin = index + number
            self._passed += 1
            if not byte:
                self._zeros += 1
                if self._zeros == _ASYNC_SIZE and not self._has_told:  # perf takes too many for the packet, and tells it again
                    texts += self._tell(_NOT_SYNCHRONOUS if self._begin > self._first else _SYNCHRONOUS)
                continue
            self._is_synchronous = byte == _MORE and self._zeros >= _ASYNC_SIZE - 1
            if (self._is_synchronous and self._begin > self._first) or (not self._is_synchronous and self._passed >= _UNTOLD):
                texts += self._tell(_NOT_SYNCHRONOUS)
            self._zeros = 0
            if self._is_synchronous:
                return number + 1, [*texts, *self._with_error(self._begin, _SYNCHRONOUS)]
        return len(data), texts

    def _tell(self, text: str) -> list[str]:
        """Return the line of the bytes before an A-sync packet; they have one only."""
        has_told, self._has_told = self._has_told, True
        return [] if has_told else list(self._with_error(self._first, text))

    def _packet(self, packet: _PacketBytes) -> str:
        head, unit = packet.one(), self._unit
        read = _READERS.get(head)
        if unit.kind == _ETE or (head == _MARKER and unit.idr1 >> 4 & 0xF >= _FIRST_MARKER):
            read = read or _READERS_OF_ETE.get(head)
        if head in _Q_PACKETS and unit.has_q:
            return self._q_text(head, packet)
        if read is not None and (head != _IGNORE or unit.has_ignore) and (head != _RETURN or unit.kind != _ETE):
            return read(self, head, packet)
        if head >= _FIRST_ATOM:
            return _ATOMS[head - _FIRST_ATOM]
        name = next((name for name, heads in _OF_OTHERS.items() if head in heads), "") or ("I_EXCEPT_RTN" if head == _RETURN else "")
        return f"I_RESERVED_CFG : Reserved header for current configuration.[{name}]" if name else "I_RESERVED : Reserved Packet Header"

    # -- packets by their headers

    def extension(self, _head: int, packet: _PacketBytes) -> str:
        kind = packet.one()
        if kind:
            return {3: "I_DISCARD : Discard.", 5: "I_OVERFLOW : Overflow."}.get(kind, _BAD.format("I_EXTENSION"))
        while packet.used < _ASYNC_SIZE:
            byte = packet.one()
            if byte or packet.used == _ASYNC_SIZE:
                is_whole = byte == _MORE and packet.used == _ASYNC_SIZE
                return _SYNCHRONOUS if is_whole else _BAD.format("I_ASYNC")
        return ""

    def trace_info(self, _head: int, packet: _PacketBytes) -> str:
        first = byte = packet.one()
        while byte & _MORE:
            byte = packet.one()
        numbers = [bit for bit in range(5) if first >> bit & 1]
        values = dict(zip(numbers, packet.numbers([5] * len(numbers)), strict=True))
        info, threshold = values.get(0, 0), values.get(3, 0)
        self._threshold, self._time = threshold, 0
        if first >> 3 & 1:
            self._told_threshold = threshold
        self._addresses = [(0, 64)] * 3
        state = f", TSTATE.{info >> 6 & 1}" if self._unit.kind == _ETE else ""
        text = f"I_TRACE_INFO : Trace Info.; INFO={info:#x} {{ CC.{info & 1}{state} }}"
        return f"{text}; CC_THRESHOLD={self._told_threshold:#x}" if info & 1 else text

    def timestamp(self, head: int, packet: _PacketBytes) -> str:
        value, bits = packet.number(9, 64)
        bits = min(bits, 64)
        self._time = self._time >> bits << bits | value
        text = f"I_TIMESTAMP : Timestamp.; Updated val = {self._time:#x}"
        return f"{text}; CC={packet.number(99, 12)[0]:#x}" if head & 1 else text

    def exception(self, _head: int, packet: _PacketBytes) -> str:
        first = packet.one()
        kind = first >> 1 & 0x1F
        if first & _MORE:
            kind |= (packet.one() & 0x1F) << 5
        elif self._unit.kind == _ETE and kind in _OF_ETE:
            packet.one()
        if self._unit.kind == _ETE and kind in _OF_ETE:
            self._push(0, _WHOLE)
            return _OF_ETE[kind]
        address = {1: " Ret Addr Follows;", 0x40: " Ret Addr Follows, Match Prev;"}.get(first & 0x41, "")
        return f"I_EXCEPT : Exception.;  {_EXCEPTIONS.get(kind, 'Reserved')};{address}"

    def cycles_1(self, head: int, packet: _PacketBytes) -> str:
        has_count = not head & 1
        sizes = [5] * self._unit.tells_commits + [3] * has_count
        numbers = packet.numbers(sizes)
        count = numbers[-1] + self._threshold if has_count else 0
        return f"I_CCNT_F1 : Cycle Count format 1.; Count={count:#x}"

    def cycles_2(self, head: int, packet: _PacketBytes) -> str:
        byte = packet.one()
        count = (byte & 0xF) + self._threshold
        del head
        return f"I_CCNT_F2 : Cycle Count format 2.; Count={count:#x}"

    def cycles_3(self, head: int, _packet: _PacketBytes) -> str:
        return f"I_CCNT_F3 : Cycle Count format 3.; Count={(head & 3) + self._threshold:#x}"

    def commit(self, _head: int, packet: _PacketBytes) -> str:
        return f"I_COMMIT : Commit; Commit({packet.number(99, 32)[0]})"

    def cancel(self, head: int, packet: _PacketBytes) -> str:
        count = packet.number(99, 32)[0]
        if head & 1:
            return f"I_CANCEL_F1_MISPRED : Cancel Format 1 + Mispredict.; Cancel({count}), Mispredict"
        return f"I_CANCEL_F1 : Cancel Format 1.; Cancel({count})"

    def context_packet(self, head: int, packet: _PacketBytes) -> str:
        return "I_CTXT : Context Packet.; " + (self._context_text(packet) if head & 1 else "Ctxt: Same")

    def _context_text(self, packet: _PacketBytes) -> str:
        info = packet.one()
        machine = packet.several(self._unit.machine_size) if info & 0x40 else b""
        context = packet.several(self._unit.context_size) if info & 0x80 else b""
        self._is_64_bit = bool(info & 0x10)
        text = f"Ctxt: {'AArch64,' if info & 0x10 else 'AArch32, '}EL{info & 3}, {'NS' if info & 0x20 else 'S'}; "
        if info & 0x80:
            text += f"CID=0x{int.from_bytes(context, 'little'):08x}; "
        return text + (f"VMID=0x{int.from_bytes(machine, 'little'):04x}; " if info & 0x40 else "")

    def address(self, head: int, packet: _PacketBytes) -> str:
        name, bits, shift, has_context = _ADDRESSES[head]
        value, shown = self._read_address(packet, bits, shift)
        text = f"{name}; Addr=0x{value:016X}{shown or '; '}"
        return text + (self._context_text(packet) if has_context else "")

    def _q_text(self, head: int, packet: _PacketBytes) -> str:
        """Return the line of a packet that tells how many instructions ran."""
        text = ""
        if head == _Q_UNKNOWN:
            return "I_Q : Q Packet.; Count(Unknown)"
        if head in _Q_ADDRESSES:
            bits, shift = _Q_ADDRESSES[head]
            value, shown = self._read_address(packet, bits, shift)
            text = f"; Addr=0x{value:016X}{shown or f' ~[0x{value & 0xFFFFFFFF:X}]'}"
        count = packet.number(99, 32)[0]
        if head < _Q_PACKETS[3]:
            value, bits = self._addresses[head & 3]
            self._push(value, bits)
            shown = f" ~[0x{value & (1 << bits) - 1:X}]" if bits < _WHOLE else ""
            text = f"; [{head & 3}]; Addr=0x{value:016X}{shown}"
        return f"I_Q : Q Packet.; Count({count}){text}"

    def _read_address(self, packet: _PacketBytes, bits: int, shift: int) -> tuple[int, str]:
        """Return an address, and the text of its bits in a short packet; bits: 0 for such a packet; shift: bits that are not in packets."""
        shown = ""
        if not bits:
            value, known = packet.one(), 7
            if value & _MORE:
                value, known = value & 0x7F | packet.one() << 7, 15
            value, bits = value << shift, known + shift
            shown = f" ~[0x{value:X}]"
            value |= self._addresses[0][0] >> bits << bits
        else:
            raw = packet.several(bits // 8)
            value = (raw[0] & 0x7F) << shift | (raw[1] << 8 if shift == 1 else (raw[1] & 0x7F) << 7 + shift)
            value |= int.from_bytes(raw[2:], "little") << 16
            if bits < _WHOLE and self._is_64_bit:
                value |= self._addresses[0][0] >> bits << bits
        self._push(value, bits)
        return value, shown

    def source(self, head: int, packet: _PacketBytes) -> str:
        name, bits, shift = _SOURCES[head]
        value, shown = self._read_address(packet, bits, shift)
        return f"{name}; Addr=0x{value:016X}{shown or '; '}"

    def source_match(self, head: int, _packet: _PacketBytes) -> str:
        address, bits = self._addresses[head & 3]
        self._push(address, bits)
        return f"I_SRC_ADDR_MATCH : Exact Source Address Match., [{head & 3}]; Addr=0x{address:016X}; "

    def _push(self, address: int, bits: int) -> None:
        self._addresses = [(address, bits), *self._addresses[:2]]

    def exact_match(self, head: int, _packet: _PacketBytes) -> str:
        address, bits = self._addresses[head & 3]
        self._push(address, bits)
        return f"I_ADDR_MATCH : Exact Address Match., [{head & 3}]; Addr=0x{address:016X}; "


_LONGEST: Final = 256  # bytes of a packet
_UNTOLD: Final = 8  # bytes that are no packets, before these are told
_SYNCHRONOUS: Final = "I_ASYNC : Alignment Synchronisation."
_NOT_SYNCHRONOUS: Final = "I_NOT_SYNC : I Stream not synchronised"
_BAD: Final = "I_BAD_SEQUENCE : Invalid Sequence in packet.[{}]"
_EXCEPTIONS: Final = {
    0: "PE Reset", 1: "Debug Halt", 2: "Call", 3: "Trap", 4: "System Error", 6: "Inst Debug", 7: "Data Debug", 10: "Alignment",
    11: "Inst Fault", 12: "Data Fault", 14: "IRQ", 15: "FIQ",
}  # fmt: skip
#: packets of conditional instructions and of data trace, which no core has that Linux traces
_OF_OTHERS: Final[dict[str, frozenset[int]]] = {
    "I_NUM_DS_MKR": frozenset(range(0x20, 0x28)),
    "I_UNNUM_DS_MKR": frozenset(range(0x28, 0x2D)),
    "I_COND_I_F2": frozenset(range(0x40, 0x43)),
    "I_COND_FLUSH": frozenset((0x43,)),
    "I_COND_RES_F4": frozenset(range(0x44, 0x47)),
    "I_COND_RES_F2": frozenset((*range(0x48, 0x4B), *range(0x4C, 0x4F))),
    "I_COND_RES_F3": frozenset(range(0x50, 0x60)),
    "I_COND_RES_F1": frozenset((*range(0x68, 0x6C), 0x6E, 0x6F)),
    "I_COND_I_F1": frozenset((0x6C,)),
    "I_COND_I_F3": frozenset((0x6D,)),
}
#: header -> line, bits (0: a short address), bits below those of the payload, whether a context follows
_ADDRESSES: Final = {
    0x82: ("I_ADDR_CTXT_L_32IS0 : Address & Context, Long, 32 bit, IS0.", 32, 2, True),
    0x83: ("I_ADDR_CTXT_L_32IS1 : Address & Context, Long, 32 bit, IS0.", 32, 1, True),
    0x85: ("I_ADDR_CTXT_L_64IS0 : Address & Context, Long, 64 bit, IS0.", 64, 2, True),
    0x86: ("I_ADDR_CTXT_L_64IS1 : Address & Context, Long, 64 bit, IS1.", 64, 1, True),
    0x95: ("I_ADDR_S_IS0 : Address, Short, IS0.", 0, 2, False),
    0x96: ("I_ADDR_S_IS1 : Address, Short, IS1.", 0, 1, False),
    0x9A: ("I_ADDR_L_32IS0 : Address, Long, 32 bit, IS0.", 32, 2, False),
    0x9B: ("I_ADDR_L_32IS1 : Address, Long, 32 bit, IS1.", 32, 1, False),
    0x9D: ("I_ADDR_L_64IS0 : Address, Long, 64 bit, IS0.", 64, 2, False),
    0x9E: ("I_ADDR_L_64IS1 : Address, Long, 64 bit, IS1.", 64, 1, False),
}


_SOURCES: Final = {
    0xB4: ("I_SRC_ADDR_S_IS0 : Source Address, Short, IS0.", 0, 2),
    0xB5: ("I_SRC_ADDR_S_IS1 : Source Address, Short, IS1.", 0, 1),
    0xB6: ("I_SCR_ADDR_L_32IS0 : Source Address, Long, 32 bit, IS0.", 32, 2),
    0xB7: ("I_SRC_ADDR_L_32IS1 : Source Address, Long, 32 bit, IS1.", 32, 1),
    0xB8: ("I_SRC_ADDR_L_64IS0 : Source Address, Long, 64 bit, IS0.", 64, 2),
    0xB9: ("I_SRC_ADDR_L_64IS1 : Source Address, Long, 64 bit, IS1.", 64, 1),
}
_OF_ETE: Final = {0: "I_PE_RESET : PE Reset.", 24: "I_TRANS_FAIL : Transaction Fail."}  # exceptions
_RETURN, _IGNORE, _MARKER, _Q_UNKNOWN = 0x07, 0x70, 0x88, 0xAF
_Q_ADDRESSES: Final = {0xA5: (0, 2), 0xA6: (0, 1), 0xAA: (32, 2), 0xAB: (32, 1)}
_Q_PACKETS: Final = (0xA0, 0xA1, 0xA2, *_Q_ADDRESSES, 0xAC, _Q_UNKNOWN)


def _line(text: str) -> Callable[[_UnitTexts, int, _PacketBytes], str]:
    return lambda _lines, _head, _packet: text


def _mispredicted(head: int) -> str:
    """Return the line of a packet that tells a wrong prediction."""
    atoms = {1: "Atom: E, ", 2: "Atom: EE, ", 3: "Atom: N, "}
    if head < 0x34:
        return f"I_MISPREDICT : Mispredict.; {atoms.get(head & 3, '')}Mispredict"
    if head < 0x38:
        return f"I_CANCEL_F2 : Cancel Format 2.; {atoms.get(head & 3, '')}Cancel(1), Mispredict"
    return f"I_CANCEL_F3 : Cancel Format 3.; {'Atom: E, ' if head & 1 else ''}Cancel({(head >> 1 & 3) + 2}), Mispredict"


_READERS: Final[dict[int, Callable[[_UnitTexts, int, _PacketBytes], str]]] = {
    0x00: _UnitTexts.extension,
    0x01: _UnitTexts.trace_info,
    **dict.fromkeys((0x02, 0x03), _UnitTexts.timestamp),
    0x04: _line("I_TRACE_ON : Trace On."),
    0x06: _UnitTexts.exception,
    0x07: _line("I_EXCEPT_RTN : Exception Return."),
    **dict.fromkeys((0x0C, 0x0D), _UnitTexts.cycles_2),
    **dict.fromkeys((0x0E, 0x0F), _UnitTexts.cycles_1),
    **dict.fromkeys(range(0x10, 0x20), _UnitTexts.cycles_3),
    0x2D: _UnitTexts.commit,
    **dict.fromkeys((0x2E, 0x2F), _UnitTexts.cancel),
    **{head: _line(_mispredicted(head)) for head in range(0x30, 0x40)},
    0x70: _line("I_IGNORE : Ignore."),
    **dict.fromkeys(range(0x71, 0x80), _line("I_EVENT : Trace Event.")),
    **dict.fromkeys((0x80, 0x81), _UnitTexts.context_packet),
    **dict.fromkeys(_ADDRESSES, _UnitTexts.address),
    **dict.fromkeys(range(0x90, 0x93), _UnitTexts.exact_match),
}
_READERS_OF_ETE: Final[dict[int, Callable[[_UnitTexts, int, _PacketBytes], str]]] = {
    0x0A: _line("I_TRANS_ST : Transaction Start."),
    0x0B: _line("I_TRANS_COMMIT : Transaction Commit."),
    _MARKER: _line("I_TS_MARKER : Timestamp Marker"),
    **dict.fromkeys(range(0xB0, 0xB3), _UnitTexts.source_match),
    **dict.fromkeys(_SOURCES, _UnitTexts.source),
}
_FIRST_ATOM: Final = 0xC0


def _atoms(head: int) -> str:
    """Return the line of a packet of atoms: branches that are taken (E) or not (N), the first one at first."""
    if 0xD5 <= head <= 0xD7 or head == 0xF5:
        number, atoms = 5, {0xD5: "NNNNN", 0xD6: "NENEN", 0xD7: "ENENE", 0xF5: "NEEEE"}[head]
    elif 0xD8 <= head <= 0xDB:
        number, atoms = 2, "".join("E" if head >> bit & 1 else "N" for bit in range(2))
    elif 0xDC <= head <= 0xDF:
        number, atoms = 4, ("NEEE", "NNNN", "NENE", "ENEN")[head & 3]
    elif head in (0xF6, 0xF7):
        number, atoms = 1, "NE"[head & 1]
    elif head >= 0xF8:
        number, atoms = 3, "".join("E" if head >> bit & 1 else "N" for bit in range(3))
    else:
        number, atoms = 6, "E" * ((head & 0x1F) + 3) + ("N" if head & 0x20 else "E")
    return f"I_ATOM_F{number} : Atom format {number}.; {atoms}"


_ATOMS: Final = [_atoms(head) for head in range(_FIRST_ATOM, 0x100)]


# The registers of trace units in AUXTRACE_INFO.


_INFO_HEADER: Final = ("Header version", "PMU type/num cpus", "Snapshot")
_UNIT_WORDS: Final = ("Magic number", "CPU", "NR_TRC_PARAMS")
_NAMES: Final = ("TRCCONFIGR", "TRCTRACEIDR", "TRCIDR0", "TRCIDR1", "TRCIDR2", "TRCIDR8", "TRCAUTHSTATUS")
_SOURCE: Final = "TS_SOURCE"  # of times, a decimal number
_TABBED: Final = 24  # the column of numbers
#: magic of a trace unit -> names of its parameters
_PARAMETERS: Final[dict[int, Sequence[str]]] = {
    0x3030303030303030: ("ETMCR", "ETMTRACEIDR", "ETMCCER", "ETMIDR"),
    0x4040404040404040: (*_NAMES, _SOURCE),
    0x5050505050505050: (*_NAMES, "TRCDEVARCH".ljust(_TABBED), _SOURCE.ljust(_TABBED)),  # perf pads the other labels with tabs
}
_MOST_PARAMETERS: Final = 1 << 13  # the most that fit into a record
_MOST_OF_VERSION_0: Final = 7
_TAB_STOP: Final = 8


def unit_lines(words: Sequence[int]) -> str:
    """Return the lines of a record, up to the first unknown trace unit."""
    return "".join(_label_line(label, value) for label, value in _labelled_values(iter(words)))


def _labelled_values(words: Iterator[int]) -> Iterator[tuple[str, int]]:
    head = tuple(islice(words, len(_INFO_HEADER)))
    yield from zip(_INFO_HEADER, head, strict=False)
    labels = _UNIT_WORDS if head[:1] != (0,) else _UNIT_WORDS[:-1]
    while len(unit := tuple(islice(words, len(labels)))) == len(labels):
        names = _PARAMETERS.get(unit[0])
        if names is None:
            return
        count = min(unit[2], _MOST_PARAMETERS) if len(unit) == len(_UNIT_WORDS) else min(len(names), _MOST_OF_VERSION_0)
        yield from zip(labels, unit, strict=True)
        for number, value in enumerate(islice(words, count)):
            yield names[number] if number < len(names) else f"Unknown parameter [{len(labels) + number}]", value


def _label_line(label: str, value: int) -> str:
    tabs = "\t" * ((_TABBED - len(label) + _TAB_STOP - 1) // _TAB_STOP)
    return f"\t{label}{tabs}       {value if label.rstrip() in ('CPU', _SOURCE) else f'{value:x}'}\n"
