"""Follow the flow of control that an Intel PT trace tells: packet by packet, through the code of the recording.

Input: the pieces of the trace of one CPU or thread. Output: see perfpy.auxtrace.pt_walk, which follows the code between packets. States and
errors are perf 6.12's, because samples have to be perf's, too.
"""

from __future__ import annotations

from operator import length_hint
from typing import TYPE_CHECKING, Any, Final

from perfpy.auxtrace.intel_pt import (
    BLOCK_KINDS,
    GENERAL_REGISTERS,
    IS_32_BIT,
    PSB,
    SHORT_TNT_ENDS,
    EndOfTraceError,
    NewTraceError,
    Packet,
    PacketStream,
    TracePiece,
    address_in,
    ip_size,
    whole_address,
)
from perfpy.auxtrace.itrace import BAD_PACKET, INTERNAL, MISMATCH, OVERFLOW, CountedCycles, Period, PtEvent
from perfpy.auxtrace.pt_code import (
    ASYNC,
    BRANCH,
    CALL,
    CONDITIONAL_END,
    DIRECT_END,
    INDIRECT_END,
    INTERRUPT,
    RETURN_END,
    TIP_KEY,
    TRACE_BEGIN,
    TRACE_END,
    TX_ABORT,
    Path,
    Way,
    joined,
)
from perfpy.auxtrace.pt_walk import (
    EVT,
    IFLAG,
    IN_SYNC,
    KERNEL_START,
    MASK_64,
    MOST_BITS,
    MWAIT,
    NO_IP,
    NO_PSB,
    PEBS,
    PSB_EVENT,
    PWRE,
    PWRX,
    RESYNC,
    TRANSACTIONS,
    CodeWalk,
    TraceError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.auxtrace.pt_clock import PtParameters
    from perfpy.auxtrace.pt_code import AddressSpace, CodeBlock, Edges, Node


_FIRST_TNT: Final = 4  # lower bytes are padding and other packets
_SHORT_TNT, _CYC = Packet("TNT", 1), Packet("CYC", 1)
_LONG_TNT, _LONG_SIZE = 0xA3, 8
_TIP, _MTC, _EXTENDED = 0x0D, 0x59, 0x02
_IP_SIZES: Final = (0, 2, 4, 6, 6, 0, 8, 0)
_NEVER_KNOWN: Final = frozenset(b"\x19\x99" + bytes(size << 5 | kind for size in range(8) for kind in (0x11, 0x01, 0x1D)))
_MOST_BRANCHES: Final = 1 << 20  # delivered at once
_WIDE, _LONGEST_RUN = 8, 64  # short TNT packets whose path is kept together; that are followed at once
#: searches of paths of several packets before they are judged, misses per hit that are worthwhile, and bytes without searches after that
_JUDGED, _WORTH, _NARROW = 1 << 14, 4, 1 << 20
_DEEPEST: Final = 1 << 16  # calls whose returns may be compressed
#: packets that the search for the next calibration of cycles passes
_NOT_PASSED: Final = frozenset(("TIP.PGD", "TraceSTOP", "EXSTOP", "MWAIT", "PWRE", "PWRX", "OVF", "TSC", "TMA"))
_ABORTED: Final = 2  # bit of MODE.TSX
_NO_CYCLES: Final = CountedCycles()
_INTERRUPTS_ON: Final = 4  # bit of MODE.Exec
_BLOCK_KIND, _EVENT_DATA_KIND, _HAS_ADDRESS = 0x1F, 0x3F, 0x80  # bits of BBP, EVD and CFE
_MOST_EVENT_DATA: Final = 16  # packets of an event


class PtFlow(CodeWalk):
    """The decoding of one trace.

    Attributes:
        ended: whether all pieces are decoded.
    """

    def __init__(
        self,
        pieces: Iterator[TracePiece],
        parameters: PtParameters,
        edges: Edges,
        space: AddressSpace,
        period: Period,
        counting: CountedCycles = _NO_CYCLES,
        quickness: int = 0,
    ) -> None:
        """quickness: 1 to note addresses of packets without following the code, 2 to note those after PSB packets only."""
        super().__init__(parameters, edges, space, Period() if quickness else period, counting)
        self._quickness = quickness
        self.ended = False
        self._packets = PacketStream(pieces)
        self._state = NO_PSB
        self._last_ip = 0
        self._has_last_ip = self._overflowed = False
        self._psb_offset = 0  # as perf tells it: where no PSB was searched
        self._block = 0  # of a PEBS record: the kind of block, and items by kind and number
        self._items: dict[int, dict[int, int]] = {}
        self._is_counting_tips = self._counts_all or (self._is_counting and parameters.has_cyc_threshold)
        self._hits = self._misses = self._left_narrow = 0  # of paths of several packets; bytes in which they are not searched

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
                if self._state == IN_SYNC:
                    if self._quickness:
                        self._hop()
                        continue
                    if self._is_plain:
                        self._walk_known()
                        if self.stamp >= until and not self._is_between:
                            break
                    self._walk_packet(self._read())
                elif self._state == NO_PSB:
                    self._synchronize()
                else:
                    self._find_ip()
            except TraceError as failure:
                self._state = failure.state
                if not failure.is_silent:
                    self._note_error(failure.number)
            except NewTraceError:
                self.traces.append((len(self.branches), self.traces[-1][1] + 1))
                self._ip, self._state = 0, NO_PSB
                self._clock.forget()
                self._clock.reference = self._packets.latest
            except EndOfTraceError:
                self.ended = True

    def _note_error(self, number: int) -> None:
        ip = self._ip
        if number == OVERFLOW:
            ip, self._ip = self._ip, 0
        self._set_stamp(self._clock.estimate(self._total - self._timed_total))
        if self._is_approximate or not self._clock.has_cyc:
            is_counted, self._clock.is_counted = self._clock.is_counted, True
            self._tell_cycles()
            self._clock.is_counted = is_counted
        self.events.append(PtEvent(len(self.branches), self._time, "error", ip, value=number))
        self._set_boundary(len(self.branches), len(self.events))  # an error does not wait for its time

    # -- packets ---------------------------------------------------------------------

    def _read(self) -> Packet:
        """Read the next packet, without padding."""
        packet = self._packets.read()
        if packet is None:
            self._transaction = 0
            self._clock.lose_tma()
            raise TraceError(BAD_PACKET, self._state)
        return packet

    def _set_last_ip(self, packet: Packet) -> None:
        self._last_ip = address_in(packet, self._last_ip)
        self._has_last_ip = True

    def _apply_time(self, packet: Packet, *, in_status: bool = False) -> bool:
        """Apply a packet of time; return whether it is one. in_status: whether it follows a PSB packet."""
        clock, kind = self._clock, packet.kind
        if kind == "CYC":
            clock.set_cyc(packet.value)
            if clock.rate is not None:
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
            clock.set_tma(packet.value, in_status=in_status)
        elif kind == "CBR":
            clock.set_cbr(packet.value)
        else:
            return False
        if self._period.is_ticks:
            self._limit = 0
        return True

    def _until_mtc(self) -> Iterator[tuple[str, int]]:
        """Yield CYC packets, which may be added up, MTC and CBR packets, and ("", 0) for others, as far as they calibrate cycles."""
        data, offset, size, cycles, is_cyc = self._packets.data, self._packets.offset, len(self._packets.data), 0, False
        size = 0 if self._packets.is_in_block else size
        while offset + _LONG_SIZE <= size:
            head = data[offset]
            if head & 3 == 3:
                if head & 4 and data[offset + 1] & 1:
                    break
                cycles += head >> 3 | (data[offset + 1] >> 1 << 5 if head & 4 else 0)
                offset, is_cyc = offset + (2 if head & 4 else 1), True
            elif head == _MTC:
                yield "CYC", cycles
                if not is_cyc:
                    yield "", 0
                yield "MTC", data[offset + 1]
                offset, cycles, is_cyc = offset + 2, 0, False
            elif not head & 1 and head >= _FIRST_TNT:
                offset, is_cyc = offset + 1, False
            elif head == _EXTENDED and data[offset + 1] == _LONG_TNT:
                offset, is_cyc = offset + _LONG_SIZE, False
            elif head & 0x1F == _TIP and _IP_SIZES[head >> 5]:
                offset, is_cyc = offset + 1 + _IP_SIZES[head >> 5], False
            else:
                break
        yield "CYC", cycles
        if not is_cyc:
            yield "", 0
        for packet in self._packets.ahead(offset):
            if packet.kind in _NOT_PASSED:
                return
            yield (packet.kind, packet.value) if packet.kind in ("CYC", "MTC", "CBR") else ("", 0)

    # -- finding the trace ---------------------------------------------------------

    def _synchronize(self) -> None:
        """Go to the next PSB packet and read the status after it."""
        self._set_on(False)
        self._last_ip = self._ip = 0
        self._packets.is_unread = False
        self._stack.clear()
        self._skip_to_psb()
        if self._quickness > 1 and self._has_last_ip:
            self._psb_offset = self._packets.before + self._packets.offset - len(PSB)
        self._has_last_ip = True
        self._state = IN_SYNC
        self._read_status(is_first=True)
        if self._quickness and self._ip:
            self._note_address()
        elif self._quickness:
            self._state = RESYNC if self._quickness == 1 else NO_PSB

    def _skip_to_psb(self) -> None:
        """Go to the next PSB packet and read it."""
        while True:
            found = self._packets.data.find(PSB, self._packets.offset)
            if found >= 0:
                break
            self._packets.offset = len(self._packets.data)
            self._packets.next_piece()
        self._packets.offset = found
        self._read()

    def _find_ip(self) -> None:  # noqa: C901, PLR0912  one branch a kind of packet
        """Go to the next packet with an address."""
        if self._state == NO_IP:
            self._has_last_ip, self._last_ip, self._ip = False, 0, 0
        self._forget_pending()
        self._overflowed = False
        while True:
            packet = self._read()
            kind = packet.kind
            if kind in ("TIP", "TIP.PGE", "TIP.PGD", "FUP"):
                if kind != "FUP":
                    self._set_on(kind != "TIP.PGD")
                if kind == "TIP.PGE":
                    self._clock.begin_cycles()
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
            elif kind == "MODE.Exec":
                self._next_iflag = bool(packet.value & _INTERRUPTS_ON)
            else:
                self._apply_time(packet)
        self._state = IN_SYNC
        flags = {"TIP.PGE": TRACE_BEGIN, "TIP.PGD": TRACE_END}.get(kind, 0)
        self._emit_begin(flags)
        if self._quickness:
            self._note_address()

    def _emit_begin(self, more: int = 0, *, is_entered: bool = False) -> None:
        """Note that the flow is known from here on; is_entered: by a TIP.PGE packet."""
        self._tell_cbr()
        self._update_time()
        if self._ip < KERNEL_START:
            self._set_stamp(self._clock.estimate(self._total - self._timed_total))
        self._tell_cycles()
        if is_entered and self._next_iflag != self._iflag:
            self._change_interrupts(0, self._ip)
        self._append(self._edges.number(0, self._ip, BRANCH | TRACE_BEGIN | more, 0))

    def _read_status(self, *, is_first: bool) -> None:  # noqa: C901, PLR0912  one branch a kind of packet
        """Read the packets from PSB to PSBEND."""
        ip = 0
        while (packet := self._read()).kind != "PSBEND":
            kind = packet.kind
            if kind == "FUP":
                self._clock.is_on = True
                if ip_size(packet):
                    self._set_last_ip(packet)
                    ip = self._last_ip
                    if is_first:
                        self._ip = ip
            elif kind == "OVF":
                self._overflow()
            elif kind == "MODE.TSX":
                self._transaction = packet.value & 1
            elif kind == "MODE.Exec":
                self._set_interrupts(are_enabled=bool(packet.value & _INTERRUPTS_ON))
            elif kind in _NOT_IN_STATUS and not (is_first and kind == "PSB"):
                if is_first and kind in ("TNT", "TraceSTOP"):
                    self._clock.lose_tma()
                    raise TraceError(MISMATCH, IN_SYNC if self._ip else RESYNC)
                if is_first:
                    raise TraceError(MISMATCH, self._state)
                self._clock.lose_tma()
                self._packets.unread()
                return
            else:
                self._apply_time(packet, in_status=True)
        self._update_time()
        has_cycles = self._clock.is_counted
        self._tell_cycles(to_branch=False)
        if self._clock.tsc > self._time:
            self._set_stamp(self._clock.tsc)
        self.events.append(PtEvent(len(self.branches), self._time, PSB_EVENT, ip, extra=self._psb_offset))
        self._tell_cbr()
        if self._quickness and ip and not is_first:
            self._ip = ip
            self._clock.is_counted = has_cycles
            self._note_address()

    def _overflow(self) -> None:
        self._transaction = 0
        self._clock.is_on = False
        self._forget_pending()
        self._overflowed = True
        self._timed_total = self._total
        raise TraceError(OVERFLOW, IN_SYNC)

    def _stop(self) -> None:
        self._set_on(False)
        self._transaction = 0
        self._clock.lose_tma()

    def _set_on(self, is_on: bool) -> None:
        """Note whether the processor traces; where it begins again, a new period of ticks begins."""
        self._clock.is_on = is_on
        if not is_on:
            self._is_continuous = False
            self._limit = 0 if self._period.is_ticks else self._limit

    # -- following packets ---------------------------------------------------------

    @property
    def _is_plain(self) -> bool:
        """Whether bytes of TNT packets mean nothing else, and nothing waits for an instruction."""
        is_special = self._is_due or self._transaction or self._next_iflag != self._iflag
        return not (is_special or self._packets.is_unread or self._packets.is_in_block)

    def _hop(self) -> None:  # noqa: C901, PLR0912  one branch a kind of packet
        """Note the address of the next packet, without following the code."""
        packet = self._read()
        if self._quickness > 1 and packet.kind != "PSB":
            self._skip_to_psb()
            packet = self._packets.packet
        kind, has_ip = packet.kind, packet.kind in ("TIP", "TIP.PGD", "FUP") and bool(ip_size(packet))
        if kind == "TIP.PGD":
            self._clock.is_on = False
        if has_ip:
            self._set_last_ip(packet)
            self._ip = self._last_ip
        if kind == "PSB":
            self._psb_offset = self._packets.before + self._packets.offset - packet.length
            self._last_ip, self._has_last_ip = 0, True
            self._read_status(is_first=False)
        elif kind == "TIP" and has_ip:
            self._note_address()
        elif kind == "TIP.PGD" and has_ip:
            self._emit_begin(TRACE_END)
        elif kind == "FUP" and has_ip:
            is_begin = self._overflowed and not self._clock.is_on and not self._pending
            if is_begin or self._tell_event(no_tip=not self._parameters.has_branches):
                if is_begin:
                    self._tell_event(no_tip=True)
                    self._note_address()
            else:
                self._walk_asynchronous()
                if self.branches and self._edges.columns[self.branches[-1]][1]:
                    self._note_address()
        elif kind not in ("TNT", "TIP", "TIP.PGD", "FUP"):
            self._walk_packet(packet)
            if kind == "TIP.PGE" and ip_size(packet):
                self._note_address()

    def _walk_packet(self, packet: Packet) -> None:  # noqa: C901, PLR0912  one branch a kind of packet
        """Follow the code as one packet tells."""
        kind = packet.kind
        if self._parameters.has_cyc_threshold and self._packets.last.kind != "CYC":
            self._clock.is_counted = False
        if kind == "TNT":
            for part in _parts_of(packet.value):
                self._walk_part(part)
        elif kind in ("TIP", "TIP.PGD"):
            self._walk_tip(packet)
        elif kind == "TIP.PGE":
            self._clock.is_on, self._overflowed = True, False
            self._clock.begin_cycles()
            if ip_size(packet):
                self._set_last_ip(packet)
                self._ip = self._last_ip
                self._emit_begin(is_entered=True)
        elif kind == "FUP":
            if ip_size(packet):
                self._walk_fup(packet, no_tip=False)
        elif self._apply_time(packet):
            if kind == "CBR" and self._clock.cbr != self._cbr_seen:
                self._update_time()
                self._tell_cycles(to_branch=False)
                self._tell_cbr()
        elif kind == "PSB":
            self._walk_psb(packet)
        elif kind == "OVF":
            self._overflow()
        else:
            self._walk_other(packet)

    def _walk_known(self) -> None:  # noqa: C901, PLR0912, PLR0915  a call would take longer than a packet
        """Follow the TNT, TIP, CYC and MTC packets that come next, as long as their ways are known."""
        packets = self._packets
        data, kinds, offset, size = packets.data, packets.kinds, packets.offset, len(packets.data) - _LONG_SIZE
        if offset >= size or data[offset] in _NEVER_KNOWN:
            return
        clock, stack, branches, is_counting, until = self._clock, self._stack, self.branches, self._is_counting, self._until
        begin = end_of_times = offset
        node, total, ticks, limit = self.space.node(self._ip), self._total, clock.ticks, self._limit
        is_wide, hits, misses = self._left_narrow <= 0 and not self._counts_all, 0, 0
        most = _WIDE if is_wide else _LONGEST_RUN
        found: Any
        while offset < size and (self.stamp < until or self._is_between):
            head = data[offset]
            if not head & 1:
                if head >= _FIRST_TNT:
                    end = offset + 1 if ticks >= until else kinds.find(SHORT_TNT_ENDS, offset, offset + most)
                    end = end if end > 0 else min(offset + most, len(data))
                elif head == _EXTENDED and data[offset + 1] == _LONG_TNT:
                    end = offset + _LONG_SIZE
                else:
                    break
                key = data[offset:end]
                found, depth = (node.get(head if end == offset + 1 else key) if is_wide else None), 0
                while found.__class__ is dict:
                    depth += 1
                    found = found.get(stack[-depth]) if depth <= len(stack) else None
                if found is not None and total + found.instructions < limit:
                    hits, total, offset = hits + 1, total + found.instructions, end
                    if ticks > self._time:
                        self._set_stamp(ticks, found.untimed)
                    if is_counting:
                        self._count_path(found, total)
                    branches.extend(found.edges)
                    del stack[len(stack) - depth :]
                    stack.extend(found.pushes)
                    node = found.after
                elif found is not None and not (is_counting or self._period.is_ticks):
                    self._follow_sampled(found, total)
                    node, offset, total, limit = found.after, end, self._total, self._limit
                else:
                    misses += found is None and end > offset + 1
                    offset, node, total = self._follow_parts(end, node, key, total, is_kept=is_wide and found is None)
                    limit = self._limit
            elif head & 0x1F == _TIP:
                end, node, total = self._follow_tip(offset, node, total)
                if end == offset:
                    break
                offset = end
            else:
                if offset not in (begin, end_of_times):
                    packets.packet = _SHORT_TNT
                end = self._follow_times(offset, total)
                if end == offset:
                    break
                offset, end_of_times, ticks, limit = end, end, clock.ticks, self._limit
        if offset not in (begin, end_of_times):
            packets.packet = _SHORT_TNT
        self._judge_width(hits, misses, offset - begin)
        self._ip, packets.offset, self._total, self._direct_branches = node.ip, offset, total, 0

    def _follow_tip(self, offset: int, node: Node, total: int) -> tuple[int, Node, int]:
        """Follow a TIP packet whose way is known; return the offset after it, the node and the instructions so far."""
        data = self._packets.data
        head, way = data[offset], node.get(TIP_KEY)
        end = offset + 1 + _IP_SIZES[head >> 5]
        if way is None or end == offset + 1 or total + way.instructions >= self._limit or self._is_counting_tips:
            return offset, node, total
        target = whole_address(int.from_bytes(data[offset + 1 : end], "little"), head >> 5, self._last_ip)
        if (edge := way.targets.get(target)) is None:
            return offset, node, total
        self.branches.extend(way.edges)
        self._stack.extend(way.pushes)
        if way.pops:
            del self._stack[-1:]
        self._update_time()
        self._tell_cycles()
        self.branches.append(edge[0])
        self._last_ip, self._has_last_ip = target, True
        return end, edge[1], total + way.instructions

    def _follow_parts(self, end: int, node: Node, key: bytes, total: int, *, is_kept: bool) -> tuple[int, Node, int]:
        """Follow TNT packets, up to six bits at once; return the offset after them, the node and the instructions so far.

        end: of the packets; is_kept: whether to keep their path together if they recur.
        """
        packets, clock, stack, branches, is_counting = self._packets, self._clock, self._stack, self.branches, self._is_counting
        start, limit, ticks, known = node, self._limit, clock.ticks, list[Path]()
        is_long = key[0] == _EXTENDED
        rest = iter(_parts_of(int.from_bytes(key[2:], "little")) if is_long else key)
        path: Any
        for head in rest:
            path, depth = node.get(head), 0
            while path.__class__ is dict:
                depth += 1
                path = path.get(stack[-depth]) if depth <= len(stack) else None
            if path is None or total + path.instructions >= limit:
                left, is_kept = 0 if is_long else length_hint(rest), False
                self._ip, self._total, packets.offset, packets.packet = node.ip, total, end - left, _SHORT_TNT
                if path is None or not (self._period.is_ticks and self._extend_limit(path.instructions)):
                    if path is None or self._period.is_ticks or is_counting:
                        self._walk_part(head)
                    else:
                        self._follow_sampled(path, total)
                    node, total, end, limit = self.space.node(self._ip), self._total, packets.offset + left, self._limit
                    continue
                limit = self._limit
            total += path.instructions
            if ticks > self._time:
                self._set_stamp(ticks, path.untimed)
            if is_counting:
                self._count_path(path, total)
            branches.extend(path.edges)
            if depth:
                del stack[-depth:]
            if path.pushes:
                stack.extend(path.pushes)
            node = path.after
            known.append(path)
        if is_kept and len(known) > 1 and self.space.is_again(start, key):
            self.space.keep_path(start.ip, key, joined(known))
        return end, node, total

    def _follow_times(self, offset: int, total: int) -> int:
        """Apply CYC and MTC packets; return the offset after them. total: instructions before."""
        data, clock, begin = self._packets.data, self._clock, offset
        rate, since, cycles, is_counting, is_fresh = None, 0, clock.cycles, self._is_counting, False
        while offset + 1 < len(data):
            head = data[offset]
            if head & 3 == 3:
                if head & 4 and data[offset + 1] & 1:
                    break
                if not is_fresh:
                    rate, since, is_fresh = clock.rate, clock.cycles_since, True
                passed = head >> 3 | (data[offset + 1] >> 1 << 5 if head & 4 else 0)
                cycles += passed
                if is_counting:
                    clock.count_cycles(passed)
                offset, self._packets.packet = offset + (2 if head & 4 else 1), _CYC
                if rate is not None:
                    clock.ticks = max(clock.ticks, min(int(since + cycles * rate), MASK_64))
                    self._timed_total = total
            elif head == _MTC and clock.has_tma:
                clock.cycles, self._timed_total = cycles, total
                if clock.set_mtc(data[offset + 1], after_cyc=self._packets.packet.kind == "CYC"):
                    self._packets.offset = offset + 2
                    clock.calibrate(self._until_mtc())
                cycles, is_fresh = clock.cycles, False
                offset, self._packets.packet = offset + 2, _SHORT_TNT
            else:
                break
        clock.cycles = cycles
        if self._parameters.has_cyc_threshold and offset != begin and self._packets.packet is not _CYC:
            clock.is_counted = False
        if self._period.is_ticks and offset != begin:
            self._set_limit_by_time(total)
        return offset

    def _judge_width(self, hits: int, misses: int, passed: int) -> None:
        """Search paths of several packets only where they recur."""
        self._left_narrow -= passed
        self._hits, self._misses = self._hits + hits, self._misses + misses
        if self._hits + self._misses > _JUDGED:
            if self._hits < self._misses // _WORTH:
                self._left_narrow = _NARROW
            self._hits = self._misses = 0

    def _read_target(self) -> int:
        packet = self._read()
        if packet.kind != "TIP" or not ip_size(packet):
            self._packets.unread()
            raise TraceError(MISMATCH, RESYNC)
        self._set_last_ip(packet)
        return self._last_ip

    def _walk_tip(self, packet: Packet) -> None:
        """Follow the code to the indirect branch of a TIP or TIP.PGD packet."""
        has_ip, is_end = bool(ip_size(packet)), packet.kind == "TIP.PGD"
        if has_ip:
            self._set_last_ip(packet)
        start, first, depth, total, events = self._ip, len(self.branches), len(self._stack), self._total, len(self.events)
        filters = self._parameters.filters if is_end else None
        block = self._walk_to_branch(filters)
        if filters is not None and block.end <= DIRECT_END and filters.leave(self.space, block.target):
            self._leave_filter(block)
            return
        way = None
        if block.end in (INDIRECT_END, RETURN_END) and not self._is_due and len(self.events) == events:
            way = self.space.node(start).get(TIP_KEY)
            if way is None:
                pushes = self._stack[depth:] + [block.after] * block.pushes
                way = Way(self.branches[first:], self._total - total, pushes, pops=block.end == RETURN_END)
                self.space.node(start)[TIP_KEY] = way
        if block.end == CONDITIONAL_END:
            self._ip = block.last
            raise TraceError(MISMATCH, RESYNC)
        if block.end == RETURN_END and self._stack:
            self._stack.pop()
        elif block.pushes:
            self._stack.append(block.after)
        self._update_time()
        self._tell_cycles()
        target = self._last_ip if has_ip else 0
        more = TRACE_END if is_end else 0
        if is_end:
            self._set_on(False)
        if self._next_iflag != self._iflag:
            self._change_interrupts(block.last, target)
        self._emit_indirect(block, target, more)
        if way is not None and not more and not self._transaction and (block.last < KERNEL_START or target >= KERNEL_START):
            way.targets[target] = self.branches[-1], self.space.node(target)
        if not has_ip:
            self._ip = block.last

    def _leave_filter(self, block: CodeBlock) -> None:
        """Follow a direct branch out of the traced addresses."""
        if block.pushes:
            self._stack.append(block.after)
        self._set_on(False)
        self._update_time()
        self._tell_cycles()
        is_passed = block.end == CONDITIONAL_END and self._last_ip == block.after  # the branch is not taken
        self._emit_indirect(block, block.after if is_passed else block.target, TRACE_END)

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
        if not self._parameters.has_branches or not self._clock.is_on:
            self._ip = self._last_ip
            self._tell_event(no_tip=no_tip)
            return
        no_tip = no_tip or MWAIT in self._pending
        self._walk_to(self._last_ip)
        if self._tell_event(no_tip=no_tip, with_branch=not no_tip) and no_tip:
            return
        if not no_tip:
            self._walk_asynchronous()

    def _walk_asynchronous(self) -> None:  # noqa: C901, PLR0912  one branch a kind of packet
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
                raise TraceError(MISMATCH, RESYNC)
        source = self._ip if kind != "TIP.PGE" else 0
        target = 0
        if ip_size(packet):
            self._set_last_ip(packet)
            self._ip = target = self._last_ip
        self._set_on(kind != "TIP.PGD")
        if kind == "TIP.PGE":
            self._clock.begin_cycles()
        if self._pending:
            self._tell_pending(source, no_tip=False)
        self._tell_cbr()
        self._update_time()
        self._tell_cycles()
        if kind == "TIP" and self._next_iflag != self._iflag:
            self._change_interrupts(source, target)
        if self._quickness and source:
            self._note_address(source)
        if aborted:
            flags = BRANCH | TX_ABORT
        elif not target:
            flags = BRANCH | ASYNC | TRACE_END
        else:
            flags = BRANCH | CALL | ASYNC | INTERRUPT
        flags |= {"TIP.PGE": TRACE_BEGIN, "TIP.PGD": TRACE_END}.get(kind, 0)
        if (source >= KERNEL_START or not source) and 0 < target < KERNEL_START:
            self._set_stamp(self._clock.estimate(self._total - self._timed_total))
        self._append(self._edges.number(source, target, flags, 0))

    def _tell_event(self, *, no_tip: bool, with_branch: bool = False) -> bool:
        """Note the events that belong to the current address; return whether there are any. with_branch: note them with the next branch."""
        pending = self._pending
        told, overflowed = bool(pending), self._overflowed
        self._overflowed = False
        if not told:
            if overflowed and not self._clock.is_on:
                self._clock.is_on = True
                self._emit_begin()
                return True
            return False
        if TRANSACTIONS in pending:
            self._transaction = pending[TRANSACTIONS]
        if EVT in pending:
            pending[EVT] = pending[EVT][0], pending[EVT][1] or self._clock.is_on
        if not with_branch:
            self._tell_pending(self._ip, no_tip=no_tip)
        return True

    def _walk_other(self, packet: Packet) -> None:  # noqa: PLR0912  one branch a kind of packet
        """Apply a packet that is rare."""
        kind = packet.kind
        if kind == "TraceSTOP":
            self._stop()
        elif kind == "MODE.TSX":
            if not self._clock.is_on:
                self._transaction = packet.value & 1
            else:
                self._with_fup(TRANSACTIONS, packet.value & 3, no_tip=not packet.value & _ABORTED)
        elif kind in ("PTWRITE", "EXSTOP"):
            name = kind.lower()
            if packet.detail:
                self._with_fup(name, packet.value)
            else:
                self._tell(name, packet.value)
        elif kind == "MWAIT":
            self._pending[MWAIT] = packet.value
        elif kind == "PWRE":
            if MWAIT in self._pending:
                self._pending[PWRE] = packet.value
            else:
                self._tell(PWRE, packet.value)
        elif kind == "PWRX":
            self._tell(PWRX, packet.value)
        elif kind == "MODE.Exec":
            self._next_iflag = bool(packet.value & _INTERRUPTS_ON)
            self._with_fup(IFLAG, 0)
        else:
            self._walk_record(packet)

    def _walk_record(self, packet: Packet) -> None:  # noqa: C901, PLR0912  one branch a kind of packet
        """Apply a packet of a PEBS record, or of an interrupt or a similar event."""
        kind = packet.kind
        if kind == "BBP":
            if not packet.detail:
                self._items = {}
            self._block = packet.value & _BLOCK_KIND
            if self._block == GENERAL_REGISTERS:
                self._items[IS_32_BIT] = {0: packet.value >> 7}
        elif kind == "BIP":
            if self._block in BLOCK_KINDS:
                self._items.setdefault(self._block, {})[packet.detail] = packet.value
        elif kind == "BEP":
            if packet.detail:
                self._with_fup(PEBS, dict(self._items))
            else:
                self._tell(PEBS, 0, dict(self._items))
        elif kind == "CFE":
            if packet.value & _HAS_ADDRESS:
                self._with_fup(EVT, (packet.value, True))
            else:
                self._pending[EVT] = packet.value, False
                if not self._clock.is_on:
                    self._tell_event(no_tip=True)
        elif kind == "EVD":
            if len(self._event_data) >= _MOST_EVENT_DATA:
                raise TraceError(INTERNAL, IN_SYNC)
            self._event_data.append((packet.value & _EVENT_DATA_KIND, packet.value >> 8))

    def _with_fup(self, name: str, value: Any, *, no_tip: bool = True) -> None:
        """Note an event at the address of the FUP packet that follows."""
        packet = self._read()
        if packet.kind == "FUP" and ip_size(packet):
            self._pending[name] = value
            if self._quickness:
                self._set_last_ip(packet)
                self._ip = self._last_ip
                self._tell_event(no_tip=True)
            else:
                self._walk_fup(packet, no_tip=no_tip)
        else:
            self._packets.unread()


def _parts_of(bits: int) -> list[int]:
    """Return the parts of a TNT packet as short TNT packets. bits: those of the packet below a one."""
    count, parts = bits.bit_length() - 1, []
    while count > 0:
        size = min(count, MOST_BITS)
        count -= size
        parts.append((1 << size | bits >> count & (1 << size) - 1) << 1)
    return parts


_AFTER_STATUS: Final = 6  # packets after PSBEND among which a TIP.PGE packet cancels the status's address
_BEFORE_TARGET: Final = frozenset(("PIP", "MODE.Exec", "VMCS", "MNT"))
_NOT_IN_STATUS: Final = frozenset("TIP.PGD TIP.PGE TIP TNT TraceSTOP PSB PTWRITE EXSTOP MWAIT PWRE PWRX BBP BIP BEP CFE EVD".split())
