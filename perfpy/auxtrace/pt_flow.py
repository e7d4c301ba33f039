"""Follow the flow of control that an Intel PT trace tells through the code of the recording.

Input: the pieces of the trace of one CPU or thread, and the code (perfpy.auxtrace.pt_code). Output: the numbers of the branches in order,
the times at which the clock advances, and the other events between branches. States and errors are perf 6.12's, because samples have to be
perf's, too.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from perfpy.auxtrace.intel_pt import (
    PSB,
    EndOfTraceError,
    NewTraceError,
    Packet,
    PacketStream,
    TracePiece,
    address_in,
    ip_size,
    whole_address,
)
from perfpy.auxtrace.itrace import BAD_PACKET, ENDLESS, MISMATCH, NO_INSTRUCTION, OVERFLOW, Period, PtEvent
from perfpy.auxtrace.pt_clock import PtClock, PtParameters
from perfpy.auxtrace.pt_code import (
    ASYNC,
    BRANCH,
    CALL,
    CONDITIONAL_END,
    DIRECT_END,
    IN_TX,
    INDIRECT_END,
    INTERRUPT,
    MISSING_FILE,
    NO_CODE,
    RETURN_END,
    TRACE_BEGIN,
    TRACE_END,
    TX_ABORT,
    Path,
    Way,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.auxtrace.pt_code import AddressSpace, CodeBlock, Edges


_MOST_LOOPS: Final = 100_000  # direct branches without a packet
_KERNEL: Final = 1 << 63
_MASK_64: Final = (1 << 64) - 1
_NEVER: Final = 1 << 65
_IN_SYNC, _NO_PSB, _NO_IP, _RESYNC = range(4)
_FIRST_TNT: Final = 4  # lower bytes are padding and other packets
_MOST_BITS: Final = 6  # of a short TNT packet
_SHORT_TNT, _CYC = Packet("TNT", 1), Packet("CYC", 1)
_LONG_TNT, _LONG_SIZE = b"\x02\xa3", 8
_TIP_HEAD, _SHORT_CYC = 0x0D, 3  # of the lowest five and three bits
_IP_SIZES: Final = {1: 2, 2: 4, 3: 6, 4: 6, 6: 8}
_MOST_BRANCHES: Final = 1 << 20  # delivered at once
_DEEPEST: Final = 1 << 16  # calls whose returns may be compressed
#: packets that the search for the next calibration of cycles passes
_NOT_PASSED: Final = frozenset(("TIP.PGD", "TraceSTOP", "EXSTOP", "MWAIT", "PWRE", "PWRX", "OVF", "TSC", "TMA"))
_ABORTED: Final = 2  # bit of MODE.TSX
_CBR, _PTWRITE, _MWAIT, _PWRE, _EXSTOP, _PWRX, _PSB = "cbr", "ptwrite", "mwait", "pwre", "exstop", "pwrx", "psb"


class _TraceError(Exception):
    """An error in the trace: its number, the state to go on in, and whether perf reports it."""

    def __init__(self, number: int, state: int, *, is_silent: bool = False) -> None:
        super().__init__(number)
        self.number, self.state, self.is_silent = number, state, is_silent


class PtFlow:
    """The decoding of one trace.

    Attributes:
        branches: numbers of branches, see pt_code.Edges; the caller empties it.
        stamps: (number of branches before, ticks) where the time of events changes.
        events: the other events.
        space: the address space of the running thread.
        stamp: ticks of the next event.
        boundary: the numbers of branches and of other events before the first event of that time.
        ended: whether all pieces are decoded.
    """

    def __init__(self, pieces: Iterator[TracePiece], parameters: PtParameters, edges: Edges, space: AddressSpace, period: Period) -> None:
        self.branches = array("i")
        self.stamps: list[tuple[int, int]] = []
        self.events: list[PtEvent] = []
        self.space = space
        self.stamp = 0
        self.boundary = (0, 0)
        self.ended = False
        self._parameters, self._edges, self._period = parameters, edges, period
        self._clock = PtClock(parameters)
        self._packets = PacketStream(pieces)
        self._state = _NO_PSB
        self._ip = self._last_ip = 0
        self._has_last_ip = self._is_on = self._overflowed = False
        self._stack: list[int] = []
        self._direct_branches = self._stuck_ip = self._stuck_period = self._stuck_left = 0
        self._time = self._until = 0  # of the events that are decoded next; of the current run
        self._later: list[tuple[int, int, int]] = []  # boundaries of branches and events after that of `stamp`, and their times
        self._total = self._timed_total = self._period_total = self._sampled_total = 0
        self._limit = 0 if period.length else _NEVER
        self._last_masked, self._is_continuous = 0, False
        self._ticks_of_period = 1 << max(period.length.bit_length() - 1, 0)
        self._is_due = False
        self._lowest = self._untimed = 0
        self._psb_offset = 0  # as perf tells it: where no PSB was searched
        self._transaction = 0
        self._pending: dict[str, int] = {}
        self._cbr_seen = self._cbr_told = -1
        self._cbr_seen = 0

    # -- decoding as far as a time -------------------------------------------------

    def run(self, until: int) -> None:
        """Decode until the next event has this time, in ticks, or a later one, or there are very many branches."""
        del self._stack[:-_DEEPEST]
        self._until = until
        while self._later and self.stamp < until:
            *boundary, self.stamp = self._later.pop(0)
            self.boundary = boundary[0], boundary[1]
        while not self.ended and (self.stamp < until or self._is_between) and len(self.branches) < _MOST_BRANCHES:
            try:
                if self._state == _IN_SYNC:
                    if self._is_plain:
                        self._walk_known()
                        if self.stamp >= until and not self._is_between:
                            break
                    self._walk_packet()
                elif self._state == _NO_PSB:
                    self._synchronize()
                else:
                    self._find_ip()
            except _TraceError as failure:
                self._state = failure.state
                if not failure.is_silent:
                    self._note_error(failure.number)
            except NewTraceError:
                self._ip, self._state = 0, _NO_PSB
                self._clock.forget()
                self._clock.reference = self._packets.latest
            except EndOfTraceError:
                self.ended = True

    def take(self, branches: int, events: int) -> None:
        """Forget the first branches and other events."""
        del self.branches[:branches], self.events[:events]
        first = max(bisect_right(self.stamps, (branches, _NEVER)) - 1, 0)
        self.stamps = [(max(position - branches, 0), ticks) for position, ticks in self.stamps[first:]]
        self.events = [event._replace(position=event.position - branches) for event in self.events]
        self.boundary = (max(self.boundary[0] - branches, 0), max(self.boundary[1] - events, 0))
        self._later = [(max(position - branches, 0), max(number - events, 0), ticks) for position, number, ticks in self._later]

    def _note_error(self, number: int) -> None:
        ip = self._ip
        if number == OVERFLOW:
            ip, self._ip = self._ip, 0
        self._set_stamp(self._clock.estimate(self._total - self._timed_total))
        self.events.append(PtEvent(len(self.branches), self._time, "error", ip, value=number))
        self._set_boundary(len(self.branches), len(self.events))  # an error does not wait for its time

    def _set_stamp(self, ticks: int, after: int = 0) -> None:
        """Let events have a time after some more branches."""
        self._time = min(ticks, _MASK_64)
        branches, events = len(self.branches) + after, len(self.events)
        self.stamps.append((branches, self._time))
        self._set_boundary(branches, events)

    def _set_boundary(self, branches: int, events: int) -> None:
        """Let the current time begin after some branches and other events; an earlier time that is still to come stays the next one."""
        if self._later or (self.stamp >= self._until and self.boundary != (branches, events)):
            self._later.append((branches, events, self._time))
        else:
            self.boundary, self.stamp = (branches, events), self._time

    def _update_time(self) -> None:
        """Let the next event have the current time."""
        if self._clock.ticks > self._time:
            self._set_stamp(self._clock.ticks)

    # -- packets ---------------------------------------------------------------------

    def _read(self) -> Packet:
        """Read the next packet, without padding."""
        packet = self._packets.read()
        if packet is None:
            self._transaction = 0
            self._clock.lose_tma()
            raise _TraceError(BAD_PACKET, self._state)
        return packet

    def _set_last_ip(self, packet: Packet) -> None:
        self._last_ip = address_in(packet, self._last_ip)
        self._has_last_ip = True

    def _apply_time(self, packet: Packet) -> bool:
        """Apply a packet of time; return whether it is one."""
        clock, kind = self._clock, packet.kind
        if kind == "CYC":
            clock.set_cyc(packet.value)
            if clock.has_rate:
                self._timed_total = self._total
        elif kind == "MTC":
            if clock.has_tma:
                self._timed_total = self._total
            if clock.set_mtc(packet.value, after_cyc=self._packets.last.kind == "CYC"):
                clock.calibrate(self._until_mtc())
        elif kind == "TSC":
            if clock.reference or clock.ticks:
                self._timed_total = self._total
            clock.set_tsc(packet.value, self._packets.latest, after_cyc=self._packets.last.kind == "CYC")
        elif kind == "TMA":
            clock.set_tma(packet.value)
        elif kind == "CBR":
            clock.set_cbr(packet.value)
        else:
            return False
        if self._period.is_ticks:
            self._limit = 0
        return True

    def _until_mtc(self) -> Iterator[tuple[str, int]]:
        for packet in self._packets.ahead():
            if packet.kind in _NOT_PASSED:
                return
            if packet.kind in ("CYC", "MTC", "CBR"):
                yield packet.kind, packet.value
            else:
                yield "", 0

    # -- finding the trace ---------------------------------------------------------

    def _synchronize(self) -> None:
        """Go to the next PSB packet and read the status after it."""
        self._set_on(False)
        self._last_ip = self._ip = 0
        self._packets.is_unread = False
        self._stack.clear()
        while True:
            found = self._packets.data.find(PSB, self._packets.offset)
            if found >= 0:
                break
            self._packets.offset = len(self._packets.data)
            self._packets.next_piece()
        self._packets.offset = found
        self._read()
        self._has_last_ip = True
        self._state = _IN_SYNC
        self._read_status(is_first=True)

    def _find_ip(self) -> None:
        """Go to the next packet with an address."""
        if self._state == _NO_IP:
            self._has_last_ip, self._last_ip, self._ip = False, 0, 0
        self._pending.clear()
        self._overflowed = False
        while True:
            packet = self._read()
            kind = packet.kind
            if kind in ("TIP", "TIP.PGE", "TIP.PGD", "FUP"):
                if kind != "FUP":
                    self._set_on(kind != "TIP.PGD")
                if ip_size(packet) and (self._has_last_ip or packet.detail in (3, 6)):
                    self._set_last_ip(packet)
                    self._ip = self._last_ip
                if self._ip:
                    break
            elif kind == "PSB":
                self._last_ip, self._has_last_ip = 0, True
                self._stack.clear()
                self._psb_offset = self._packets.before + self._packets.offset - packet.length
                self._read_status(is_first=True)
                if not self._ip:
                    return
                kind = ""
                break
            elif kind == "OVF":
                self._overflow()
            elif kind == "MODE.TSX":
                self._transaction = packet.value & 1
            elif kind == "TraceSTOP":
                self._stop()
            else:
                self._apply_time(packet)
        self._state = _IN_SYNC
        flags = {"TIP.PGE": TRACE_BEGIN, "TIP.PGD": TRACE_END}.get(kind, 0)
        self._emit_begin(flags)

    def _emit_begin(self, more: int = 0) -> None:
        """Note that the flow is known from here on."""
        self._tell_cbr()
        self._update_time()
        if self._ip < _KERNEL:
            self._set_stamp(self._clock.estimate(self._total - self._timed_total))
        self.branches.append(self._edges.number(0, self._ip, BRANCH | TRACE_BEGIN | more, 0))

    def _read_status(self, *, is_first: bool) -> None:
        """Read the packets from PSB to PSBEND."""
        ip = 0
        while (packet := self._read()).kind != "PSBEND":
            kind = packet.kind
            if kind == "FUP":
                self._is_on = True
                if ip_size(packet):
                    self._set_last_ip(packet)
                    ip = self._last_ip
                    if is_first:
                        self._ip = ip
            elif kind == "OVF":
                self._overflow()
            elif kind == "MODE.TSX":
                self._transaction = packet.value & 1
            elif kind in _NOT_IN_STATUS and not (is_first and kind == "PSB"):
                if is_first and kind in ("TNT", "TraceSTOP"):
                    self._clock.lose_tma()
                    raise _TraceError(MISMATCH, _IN_SYNC if self._ip else _RESYNC)
                if is_first:
                    raise _TraceError(MISMATCH, self._state)
                self._clock.lose_tma()
                self._packets.unread()
                return
            else:
                self._apply_time(packet)
        self._update_time()
        if self._clock.tsc > self._time:
            self._set_stamp(self._clock.tsc)
        self.events.append(PtEvent(len(self.branches), self._time, _PSB, ip, extra=self._psb_offset))
        self._tell_cbr()

    def _tell_cbr(self) -> None:
        self._cbr_seen = self._clock.cbr
        if self._cbr_told != self._clock.cbr:
            self._cbr_told = self._clock.cbr
            self.events.append(PtEvent(len(self.branches), self._time, _CBR, self._ip, value=self._clock.cbr_payload))

    def _overflow(self) -> None:
        self._transaction = 0
        self._is_on = False
        self._pending.clear()
        self._overflowed = True
        self._timed_total = self._total
        raise _TraceError(OVERFLOW, _IN_SYNC)

    def _stop(self) -> None:
        self._set_on(False)
        self._transaction = 0
        self._clock.lose_tma()

    # -- walking code --------------------------------------------------------------

    @property
    def _is_between(self) -> bool:
        """Whether nothing has happened yet at the last time."""
        return self.boundary == (len(self.branches), len(self.events))

    @property
    def _is_plain(self) -> bool:
        """Whether bytes of TNT packets mean nothing else, and nothing waits for an instruction."""
        return not (self._packets.is_unread or self._is_due or self._transaction or self._packets.is_in_block)

    def _walk_packet(self) -> None:
        """Follow the code as one packet tells."""
        packet = self._read()
        kind = packet.kind
        if kind == "TNT":
            count = packet.value.bit_length() - 1
            if count > 0:
                self._walk_tnt(packet.value, count)
        elif kind in ("TIP", "TIP.PGD"):
            self._walk_tip(packet)
        elif kind == "TIP.PGE":
            self._is_on, self._overflowed = True, False
            if ip_size(packet):
                self._set_last_ip(packet)
                self._ip = self._last_ip
                self._emit_begin()
        elif kind == "FUP":
            if ip_size(packet):
                self._walk_fup(packet, no_tip=False)
        elif self._apply_time(packet):
            if kind == "CBR" and self._clock.cbr != self._cbr_seen:
                self._update_time()
                self._tell_cbr()
        elif kind == "PSB":
            self._walk_psb(packet)
        elif kind == "OVF":
            self._overflow()
        else:
            self._walk_other(packet)

    def _walk_known(self) -> None:  # noqa: C901, PLR0912, PLR0915  a call would take longer than a packet
        """Follow the TNT, TIP and CYC packets that come next, as long as their paths are known."""
        data, offset, size, clock = self._packets.data, self._packets.offset, len(self._packets.data), self._clock
        paths, stack, branches, tips = self.space.paths, self._stack, self.branches, self.space.tips
        ip, total, limit, ticks, until = self._ip, self._total, self._limit, clock.ticks, self._until
        packet, stamp = self._packets.packet, self.stamp
        while offset < size and (stamp < until or self._is_between):
            head = data[offset]
            if not head & 1 and head >= _FIRST_TNT:
                path = paths.get((ip, head, stack[-1] if stack else 0))
                if path is None or total + path.instructions >= limit or (path.popped > 1 and tuple(stack[-path.popped :]) != path.needs):
                    break
                if ticks > self._time:
                    self._set_stamp(ticks, path.untimed)
                    stamp = self.stamp
                branches.extend(path.edges)
                if path.popped:
                    del stack[-path.popped :]
                if path.pushes:
                    stack.extend(path.pushes)
                ip, offset, total, packet = path.end, offset + 1, total + path.instructions, _SHORT_TNT
            elif head & 0x1F == _TIP_HEAD:
                end = offset + 1 + _IP_SIZES.get(head >> 5, 0)
                way = tips.get(ip)
                if way is None or end > size or end == offset + 1 or total + way.instructions >= limit:
                    break
                target = whole_address(int.from_bytes(data[offset + 1 : end], "little"), head >> 5, self._last_ip)
                edge = way.block.targets.get(target)
                if edge is None:
                    break
                branches.extend(way.edges)
                stack.extend(way.pushes)
                if way.block.end == RETURN_END:
                    del stack[-1:]
                elif way.block.pushes:
                    stack.append(way.block.after)
                if ticks > self._time:
                    self._set_stamp(ticks)
                    stamp = self.stamp
                branches.append(edge)
                ip, offset, total, packet = target, end, total + way.instructions, _SHORT_TNT
                self._last_ip, self._has_last_ip = target, True
            elif head & 7 == _SHORT_CYC:
                clock.set_cyc(head >> 3)
                offset, ticks, packet = offset + 1, clock.ticks, _CYC
                if clock.has_rate:
                    self._timed_total = total
                if self._period.is_ticks:
                    limit = self._limit = 0
            else:
                break
        if offset != self._packets.offset:
            self._ip, self._packets.offset, self._total = ip, offset, total
            self._packets.packet, self._direct_branches = packet, 0
        if data[offset : offset + 2] == _LONG_TNT and offset + _LONG_SIZE <= size and (stamp < until or self._is_between):
            bits = int.from_bytes(data[offset + 2 : offset + _LONG_SIZE], "little")
            self._packets.offset, self._packets.packet = offset + _LONG_SIZE, _SHORT_TNT
            self._walk_tnt(bits, max(bits.bit_length() - 1, 0))

    def _walk_tnt(self, bits: int, count: int) -> None:
        """Follow the branches of a TNT packet, `count` bits, the first one highest, and keep the paths of some bits each."""
        while count:
            part = min(count, _MOST_BITS)
            count -= part
            head = (1 << part | bits >> count & (1 << part) - 1) << 1
            start, stack = self._ip, self._stack
            key = start, head, stack[-1] if stack else 0
            if (known := self.space.paths.get(key)) is not None and self._follow(known):
                continue
            first, total, tail = len(self.branches), self._total, stack[-_MOST_BITS:]
            self._lowest, self._untimed = len(stack), -1
            depth, events, offset = len(stack), len(self.events), self._packets.offset
            self._walk_bits(head >> 1, part)
            popped = depth - self._lowest
            if len(self.events) == events and not self._transaction and self._untimed >= 0 and self._packets.offset == offset:
                needs, pushes = tuple(tail[len(tail) - popped :]), stack[self._lowest :]
                path = Path(self.branches[first:], self._ip, self._total - total, popped, needs, pushes, self._untimed - first)
                self.space.keep_path(key, path)

    def _follow(self, path: Path) -> bool:
        """Follow a path if its returns lead where they led and no sample is due on it; return whether that is so."""
        stack, popped = self._stack, path.popped
        is_known = self._total + path.instructions < self._limit and not (popped > 1 and tuple(stack[-popped:]) != path.needs)
        if not is_known or self._is_due or self._transaction:
            return False
        if self._clock.ticks > self._time:
            self._set_stamp(self._clock.ticks, path.untimed)
        self.branches.extend(path.edges)
        if popped:
            del stack[-popped:]
        stack.extend(path.pushes)
        self._ip, self._total, self._direct_branches = path.end, self._total + path.instructions, 0
        return True

    def _walk_bits(self, bits: int, count: int) -> None:
        """Follow some branches of a TNT packet, whose bits are below a one."""
        stack = self._stack
        while count:
            block = self.space.blocks.get(self._ip) or self._fetch()
            if self._total + block.count >= self._limit and self._sample(block):
                continue
            self._total += block.count
            end = block.end
            if end == DIRECT_END:
                if block.pushes:
                    stack.append(block.after)
                self._go_directly(block)
                continue
            self._direct_branches = 0
            if end > RETURN_END:
                self._fail(block)
            if end == INDIRECT_END:
                self._walk_deferred(block)
                continue
            count -= 1
            taken = bits >> count & 1
            target = self._compressed_return(block, taken=bool(taken)) if end == RETURN_END else block.target
            if self._untimed < 0:
                self._untimed = len(self.branches)
                self._update_time()
            if end == RETURN_END:
                self._emit_indirect(block, target)
                continue
            if self._is_due:
                self._sample_branch(block.last, target if taken else 0, block.flags, block.length)
            if taken:
                self.branches.append(block.edge)
            self._ip = target if taken else block.after

    def _compressed_return(self, block: CodeBlock, *, taken: bool) -> int:
        """Return where a RET instruction goes that is a bit of a TNT packet."""
        target = self._stack.pop() if self._stack else 0
        self._lowest = min(self._lowest, len(self._stack))
        self._ip = block.last
        if not (self._parameters.returns_are_compressed and target and taken):
            raise _TraceError(MISMATCH, _RESYNC)
        return target

    def _walk_deferred(self, block: CodeBlock) -> None:
        """Follow an indirect branch whose TIP packet comes after a TNT packet with later branches."""
        if block.pushes:
            self._stack.append(block.after)
        self._ip = block.last
        packet = self._read()
        if packet.kind != "TIP" or not ip_size(packet):
            self._packets.unread()
            raise _TraceError(MISMATCH, _RESYNC)
        self._set_last_ip(packet)
        self._emit_indirect(block, self._last_ip)

    def _walk_tip(self, packet: Packet) -> None:
        """Follow the code to the indirect branch of a TIP or TIP.PGD packet."""
        has_ip, is_end = bool(ip_size(packet)), packet.kind == "TIP.PGD"
        if has_ip:
            self._set_last_ip(packet)
        start, first, depth, total, events = self._ip, len(self.branches), len(self._stack), self._total, len(self.events)
        block = self._walk_to_branch()
        if block.end in (INDIRECT_END, RETURN_END) and block.last < _KERNEL and not self._is_due and len(self.events) == events:
            self.space.keep_way(start, Way(self.branches[first:], self._total - total, self._stack[depth:], block))
        if block.end == CONDITIONAL_END:
            self._ip = block.last
            raise _TraceError(MISMATCH, _RESYNC)
        if block.end == RETURN_END and self._stack:
            self._stack.pop()
        elif block.pushes:
            self._stack.append(block.after)
        self._update_time()
        target = self._last_ip if has_ip else 0
        more = TRACE_END if is_end else 0
        if is_end:
            self._set_on(False)
        self._emit_indirect(block, target, more)
        if not has_ip:
            self._ip = block.last

    def _walk_to_branch(self) -> CodeBlock:
        """Follow direct branches up to another one."""
        while True:
            block = self.space.blocks.get(self._ip) or self._fetch()
            if self._total + block.count >= self._limit and self._sample(block):
                continue
            self._total += block.count
            if block.end != DIRECT_END:
                self._direct_branches = 0
                return block
            if block.pushes:
                self._stack.append(block.after)
            self._go_directly(block)

    def _walk_to(self, address: int) -> None:
        """Follow direct branches up to an address."""
        while self._ip != address:
            block = self.space.blocks.get(self._ip) or self._fetch(address)
            if self._ip < address <= block.last:
                index = bisect_left(block.starts, address)
                if index < len(block.starts) and block.starts[index] == address:
                    if self._sample_before(block, index):
                        continue
                    self._total += index
                    break
            if block.end >= NO_CODE:
                self._fail(block)
            if self._total + block.count >= self._limit and self._sample(block):
                continue
            self._total += block.count
            if block.end != DIRECT_END:
                self._ip = block.last
                raise _TraceError(MISMATCH, _RESYNC)
            if block.pushes:
                self._stack.append(block.after)
            self._go_directly(block)
        self._ip = address
        self._direct_branches = 0

    def _go_directly(self, block: CodeBlock) -> None:
        """Follow a direct branch, but not for ever."""
        target = block.target
        if self._is_due:
            self._sample_branch(block.last, target, block.flags, block.length)
        count, self._direct_branches = self._direct_branches, self._direct_branches + 1
        self._ip = target
        if count:
            if count == 1:
                self._stuck_ip, self._stuck_period, self._stuck_left = target, 1, 1
            elif count > _MOST_LOOPS or target == self._stuck_ip:
                self._direct_branches = 0
                raise _TraceError(ENDLESS, _RESYNC)
            else:
                self._stuck_left -= 1
                if not self._stuck_left:
                    self._stuck_period += 1
                    self._stuck_left, self._stuck_ip = self._stuck_period, target
        self.branches.append(block.edge)

    def _fetch(self, address: int = -1) -> CodeBlock:
        """Return the block at the current address, which is not kept yet; raise _TraceError if there is no code up to `address`."""
        block = self.space.block(self._ip)
        if block.end >= NO_CODE and not self._ip < address <= block.last:
            self._fail(block)
        return block

    def _fail(self, block: CodeBlock) -> None:
        self._ip = block.last if block.count else self._ip
        self._direct_branches = 0
        raise _TraceError(NO_INSTRUCTION, _NO_IP, is_silent=block.end == MISSING_FILE)

    def _emit_indirect(self, block: CodeBlock, target: int, more: int = 0) -> None:
        edge = block.targets.get(target) if not more and not self._transaction else None
        if edge is None:
            flags = block.flags | more | (IN_TX if self._transaction & 1 else 0)
            edge = self._edges.number(block.last, target, flags, block.length)
            if not more and not self._transaction:
                block.targets[target] = edge
        if self._is_due:
            self._sample_branch(block.last, target, block.flags | more, block.length)
        if block.last >= _KERNEL > target > 0:
            self._set_stamp(self._clock.estimate(self._total - self._timed_total))
        self.branches.append(edge)
        self._ip = target

    def _walk_psb(self, packet: Packet) -> None:
        """Follow the code up to the address in the status, then read it."""
        self._psb_offset = self._packets.before + self._packets.offset - packet.length
        if self._parameters.has_branches and (status := self._status_ip()) is not None:
            self._set_last_ip(status)
            if self._ip != self._last_ip:
                self._walk_to(self._last_ip)
        self._last_ip, self._has_last_ip = 0, True
        self._stack.clear()
        self._read_status(is_first=False)

    def _status_ip(self) -> Packet | None:
        """Return the FUP packet before the PSBEND packet that follows; None if tracing begins after it."""
        found, left = None, -1
        for packet in self._packets.ahead():
            kind = packet.kind
            if kind == "FUP":
                if left >= 0 or found is not None or not ip_size(packet):
                    return found
                found = packet
            elif kind == "PSBEND":
                if found is None:
                    return None
                left = _AFTER_STATUS
            elif kind == "TIP.PGE":
                return None if left >= 0 else found
            elif kind in ("OVF", "TNT", "TIP", "TIP.PGD", "PSB", "TraceSTOP") or (left < 0 and kind in _NOT_IN_STATUS):
                return found
            elif left >= 0:
                left -= 1
                if not left:
                    return found
        return found

    # -- events at addresses -------------------------------------------------------

    def _walk_fup(self, packet: Packet, *, no_tip: bool) -> None:
        """Follow the code to the address of an event."""
        self._set_last_ip(packet)
        if not self._parameters.has_branches or not self._is_on:
            self._ip = self._last_ip
            self._tell_event(no_tip=no_tip)
            return
        no_tip = no_tip or _MWAIT in self._pending
        self._walk_to(self._last_ip)
        if self._tell_event(no_tip=no_tip) and no_tip:
            return
        if not no_tip:
            self._walk_asynchronous()

    def _walk_asynchronous(self) -> None:
        """Follow an interrupt or another asynchronous event: the packet after FUP has the target."""
        aborted, self._transaction = self._transaction & _ABORTED, self._transaction & 1
        if aborted:
            self._transaction = 0
        while True:
            packet = self._read()
            kind = packet.kind
            if kind in ("TIP", "TIP.PGD", "TIP.PGE"):
                break
            if kind == "OVF":
                self._overflow()
            if kind in ("TSC", "TMA") or (not self._apply_time(packet) and kind not in _BEFORE_TARGET):
                self._packets.unread()
                raise _TraceError(MISMATCH, _RESYNC)
        source = self._ip if kind != "TIP.PGE" else 0
        target = 0
        if ip_size(packet):
            self._set_last_ip(packet)
            self._ip = target = self._last_ip
        self._set_on(kind != "TIP.PGD")
        self._tell_cbr()
        self._update_time()
        if aborted:
            flags = BRANCH | TX_ABORT
        elif not target:
            flags = BRANCH | ASYNC | TRACE_END
        else:
            flags = BRANCH | CALL | ASYNC | INTERRUPT
        flags |= {"TIP.PGE": TRACE_BEGIN, "TIP.PGD": TRACE_END}.get(kind, 0)
        if (source >= _KERNEL or not source) and 0 < target < _KERNEL:
            self._set_stamp(self._clock.estimate(self._total - self._timed_total))
        self.branches.append(self._edges.number(source, target, flags, 0))

    def _tell_event(self, *, no_tip: bool) -> bool:
        """Note the events that belong to the current address; return whether there are any."""
        pending = self._pending
        told, overflowed = bool(pending), self._overflowed
        self._overflowed = False
        if not told:
            if overflowed and not self._is_on:
                self._is_on = True
                self._emit_begin()
                return True
            return False
        self._update_time()
        self._tell_cbr()
        if "transactions" in pending:
            self._transaction = pending["transactions"]
        for name in ("mwait", "pwre", "exstop", "transactions", "ptwrite"):
            if name in pending:
                self.events.append(PtEvent(len(self.branches), self._time, name, self._ip, value=pending[name], extra=1))
        pending.clear()
        return True

    def _walk_other(self, packet: Packet) -> None:
        """Apply a packet that is rare."""
        kind = packet.kind
        if kind == "TraceSTOP":
            self._stop()
        elif kind == "MODE.TSX":
            if not self._is_on:
                self._transaction = packet.value & 1
            else:
                self._with_fup("transactions", packet.value & 3, no_tip=not packet.value & _ABORTED)
        elif kind in ("PTWRITE", "EXSTOP"):
            name = kind.lower()
            if packet.detail:
                self._with_fup(name, packet.value)
            else:
                self._tell(name, packet.value)
        elif kind == "MWAIT":
            self._pending[_MWAIT] = packet.value
        elif kind == "PWRE":
            if _MWAIT in self._pending:
                self._pending[_PWRE] = packet.value
            else:
                self._tell(_PWRE, packet.value)
        elif kind == "PWRX":
            self._tell(_PWRX, packet.value)

    def _tell(self, name: str, value: int) -> None:
        self._update_time()
        self._tell_cbr()
        self.events.append(PtEvent(len(self.branches), self._time, name, self._ip, value=value))

    def _with_fup(self, name: str, value: int, *, no_tip: bool = True) -> None:
        """Note an event at the address of the FUP packet that follows."""
        packet = self._read()
        if packet.kind == "FUP" and ip_size(packet):
            self._pending[name] = value
            self._walk_fup(packet, no_tip=no_tip)
        else:
            self._packets.unread()

    # -- samples of instructions -----------------------------------------------------

    def _set_on(self, is_on: bool) -> None:
        """Note whether the processor traces; where it begins again, a new period of ticks begins."""
        self._is_on = is_on
        if not is_on:
            self._is_continuous = False
            self._limit = 0 if self._period.is_ticks else self._limit

    def _instructions_left(self) -> int:
        """Return how many instructions there are up to the next sample, with the sampled one."""
        if not self._period.is_ticks:
            return self._period.length - (self._total - self._period_total)
        ticks, period = self._clock.ticks + self._total - self._timed_total, self._ticks_of_period
        masked = ticks & -period
        if self._is_continuous:
            if masked > self._last_masked:
                return 1
        else:
            ticks += 1
            masked = ticks & -period
            if masked > self._last_masked:
                self._last_masked, self._is_continuous = masked, True
        return period if masked < self._last_masked else period - (ticks - masked)

    def _sample(self, block: CodeBlock) -> bool:
        """Sample an instruction of a block if one is due; return whether that is in front of the branch, which is then still to follow."""
        left = self._instructions_left()
        if left > block.count:
            self._limit = self._total + left
            if self._period.is_ticks:
                ticks = self._clock.ticks + self._total - self._timed_total
                ahead = self._last_masked - ticks  # of the time until when nothing is sampled
                self._limit += -1 if ahead <= 0 else min(ahead - 1 - left, -1)
            return False
        if left < block.count:
            self._sample_at(block, left)
            return True
        self._total += left
        self._note_sample()
        self._total -= left
        self._is_due = True
        return False

    def _sample_before(self, block: CodeBlock, end: int) -> bool:
        """Sample one of the first `end` instructions of a block if one is due; return whether it was."""
        if self._total + end < self._limit:
            return False
        left = self._instructions_left()
        if left > end or not self._period.length:
            return False
        self._sample_at(block, left)
        return True

    def _sample_at(self, block: CodeBlock, left: int) -> None:
        self._total += left
        self._note_sample()
        ip = block.starts[left - 1]
        self._direct_branches = 0
        self._add_sample(ip, 0, 0, block.starts[left] - ip if left < len(block.starts) else block.last - ip)
        self._ip = block.starts[left] if left < len(block.starts) else block.last

    def _note_sample(self) -> None:
        """Begin the next period."""
        if self._period.is_ticks:
            masked = (self._clock.ticks + self._total - self._timed_total) & -self._ticks_of_period
            self._last_masked = masked if masked > self._last_masked else self._last_masked + self._ticks_of_period
            self._limit = 0
        else:
            self._period_total = self._total
            self._limit = self._total + self._period.length

    def _sample_branch(self, ip: int, target: int, flags: int, length: int) -> None:
        self._is_due = False
        self._add_sample(ip, target, flags, length)

    def _add_sample(self, ip: int, target: int, flags: int, length: int) -> None:
        since, self._sampled_total = self._total - self._sampled_total, self._total
        self.events.append(PtEvent(len(self.branches), self._time, "instructions", ip, target, flags, length, since))


_AFTER_STATUS: Final = 6  # packets after PSBEND among which a TIP.PGE packet cancels the status's address
_BEFORE_TARGET: Final = frozenset(("PIP", "MODE.Exec", "VMCS", "MNT"))
_NOT_IN_STATUS: Final = frozenset("TIP.PGD TIP.PGE TIP TNT TraceSTOP PSB PTWRITE EXSTOP MWAIT PWRE PWRX BBP BIP BEP CFE EVD".split())
