"""Follow the code of the recording between the packets of an Intel PT trace: branches, instructions, and the samples that are due on them.

Input: bits, targets and addresses from packets (perfpy.auxtrace.pt_flow), and blocks of code (perfpy.auxtrace.pt_code). Output: the numbers
of the branches in order, the times at which the clock advances, and the other events between branches. Errors are perf 6.12's.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.auxtrace.itrace import ENDLESS, MISMATCH, NO_INSTRUCTION, CountedCycles, Period, PtEvent
from perfpy.auxtrace.pt_clock import PtClock, PtParameters
from perfpy.auxtrace.pt_code import (
    DIRECT_END,
    IN_TX,
    INDIRECT_END,
    MISSING_FILE,
    NO_CODE,
    RETURN_END,
    Path,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.auxtrace.pt_code import AddressFilters, AddressSpace, CodeBlock, Edges


_MOST_LOOPS: Final = 100_000  # direct branches without a packet
KERNEL_START: Final = 1 << 63
INTERRUPTS_OFF, INTERRUPTS_TOGGLED = 1 << 13, 1 << 14  # bits of flags (PERF_IP_FLAG_INTR_* in perf's event.h)
NEVER: Final = 1 << 65
MASK_64: Final = (1 << 64) - 1
MOST_BITS: Final = 6  # of a short TNT packet
#: states of the decoder: the flow is known, no PSB packet is known, no address is known, the next address is searched after an error
IN_SYNC, NO_PSB, NO_IP, RESYNC = range(4)
#: whose cycles a packet has told: of the next branch, of all branches that follow, of another event
_OF_BRANCH, _OF_ALL, _OF_EVENT = range(3)


#: kinds of events that are no branches
CBR, PTWRITE, MWAIT, PWRE, EXSTOP, PWRX, PSB_EVENT = "cbr", "ptwrite", "mwait", "pwre", "exstop", "pwrx", "psb"
PEBS, EVT, IFLAG, TRANSACTIONS = "pebs", "evt", "iflag", "transactions"


class TraceError(Exception):
    """An error in the trace: its number, the state to go on in, and whether perf reports it."""

    def __init__(self, number: int, state: int, *, is_silent: bool = False) -> None:
        super().__init__(number)
        self.number, self.state, self.is_silent = number, state, is_silent


def _without_first(changes: list[tuple[int, int]], branches: int) -> list[tuple[int, int]]:
    """Return the positions of changes, with their values, without the first branches."""
    if len(changes) == 1 and not changes[0][0]:
        return changes
    first = max(bisect_right(changes, (branches, NEVER)) - 1, 0)
    return [(max(position - branches, 0), value) for position, value in changes[first:]]


class CodeWalk:
    """The walk of one trace through the code.

    Attributes:
        branches: numbers of branches, see pt_code.Edges; the caller empties it.
        stamps: (number of branches before, ticks) where the time of events changes.
        events: the other events.
        space: the address space of the running thread.
        stamp: ticks of the next event.
        boundary: the numbers of branches and of other events before the first event of that time.
        counts: instructions up to each branch, if they are counted.
        cycles: (number of branches before, cycles, whose they are) where the cycles of branches change, if they are counted.
        interrupts: (number of branches before, bits of flags) where the bits about interrupts change.
        traces: (number of branches before, number of the trace) where pieces begin that do not go on from those before.
    """

    def __init__(self, parameters: PtParameters, edges: Edges, space: AddressSpace, period: Period, counting: CountedCycles) -> None:
        self.branches, self.counts = array("i"), array("Q")
        self.cycles: list[tuple[int, int, int]] = []
        self.stamps: list[tuple[int, int]] = []
        self.events: list[PtEvent] = []
        self.space = space
        self.stamp = 0
        self.boundary = (0, 0)
        self._parameters, self._edges, self._period = parameters, edges, period
        self._is_counting, self._counts_all = counting.by_event or counting.by_branch, counting.by_branch
        self._is_approximate = self._is_counting and counting.approximately
        self._told_cycles, self._told_at = 0, (-1, -1)  # the last cycles, and the branch and the event that have them
        self._clock = PtClock(parameters, counts_cycles=self._is_counting)
        self._ip = 0
        self._stack: list[int] = []
        self._direct_branches = self._stuck_ip = self._stuck_period = self._stuck_left = 0
        self._time = self._until = 0  # of the events that are decoded next; of the current run
        self._later: list[tuple[int, int, int]] = []  # boundaries of branches and events after that of `stamp`, and their times
        self._total = self._timed_total = self._period_total = self._sampled_total = 0
        self._limit = 0 if period.length else NEVER
        self._last_masked, self._is_continuous = 0, False
        self._ticks_of_period = 1 << max(period.length.bit_length() - 1, 0)
        self._is_due = self._is_deferred = False
        self._lowest = self._untimed = 0
        self._blocks: list[tuple[int, int, CodeBlock]] = []  # of the current path: instructions up to its end, branches before its own
        self._transaction = 0
        self._quickness = 0
        self._cbr_seen, self._cbr_told = 0, -1
        self._pending: dict[str, Any] = {}  # events at the address of the FUP packet that comes next
        self._event_data: list[tuple[int, int]] = []  # kinds and payloads of EVD packets
        self._iflag = self._next_iflag = False
        self._interrupt_bits = INTERRUPTS_OFF if parameters.tells_interrupts else 0
        self.interrupts: list[tuple[int, int]] = [(0, self._interrupt_bits)]
        self.traces: list[tuple[int, int]] = [(0, 0)]

    def take(self, branches: int, events: int) -> None:
        """Forget the first branches and other events."""
        del self.branches[:branches], self.events[:events]
        self.stamps = _without_first(self.stamps, branches)
        self.interrupts, self.traces = _without_first(self.interrupts, branches), _without_first(self.traces, branches)
        self._told_at = (self._told_at[0] - branches, self._told_at[1] - events)
        if self._counts_all:
            del self.counts[:branches]
            first = max(bisect_right(self.cycles, (branches, NEVER)) - 1, 0)
            self.cycles = [(max(position - branches, -1), cycles, owner) for position, cycles, owner in self.cycles[first:]]
        self.events = [event._replace(position=event.position - branches) for event in self.events]
        self.boundary = (max(self.boundary[0] - branches, 0), max(self.boundary[1] - events, 0))
        self._later = [(max(position - branches, 0), max(number - events, 0), ticks) for position, number, ticks in self._later]

    # -- time ------------------------------------------------------------------------

    @property
    def _is_between(self) -> bool:
        """Whether nothing has happened yet at the last time."""
        return self.boundary == (len(self.branches), len(self.events))

    def _set_stamp(self, ticks: int, after: int = 0) -> None:
        """Let events have a time after some more branches."""
        self._time = min(ticks, MASK_64)
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

    def _tell_cycles(self, after: int = 0, *, to_branch: bool = True) -> None:
        """Let the next event have the cycles that a packet has told. after: branches before it; to_branch: whether it is a branch."""
        clock, is_approximate = self._clock, self._is_approximate
        if not (clock.is_counted or is_approximate):
            return
        clock.is_counted = False
        self._told_cycles, self._told_at = clock.total_cycles, (len(self.branches) + after, len(self.events))
        if self._counts_all:
            owner = _OF_ALL if is_approximate or not clock.has_cyc else _OF_BRANCH if to_branch else _OF_EVENT
            self.cycles.append((self._told_at[0], self._told_cycles, owner))

    def _cycles_here(self) -> int:
        """Return the cycles up to the next event, -1 if they are unknown."""
        is_told = self._is_approximate or not self._clock.has_cyc or self._told_at == (len(self.branches), len(self.events))
        return self._told_cycles if is_told else -1

    def branch_cycles(self, rows: NDArray[np.intp]) -> NDArray[np.uint64]:
        """Return the cycles up to branches by number, 2**64 - 1 where they are unknown."""
        positions, cycles, owners = np.array([(0, 0, _OF_ALL), *self.cycles], np.int64).T
        index = np.searchsorted(positions, rows, "right") - 1
        is_known = (owners[index] == _OF_ALL) | ((owners[index] == _OF_BRANCH) & (positions[index] == rows))
        return np.where(is_known, cycles[index], -1).astype(np.uint64)

    # -- interrupts --------------------------------------------------------------------

    def _change_interrupts(self, source: int, target: int, *, is_branch: bool = True) -> None:
        """Note that interrupts are enabled or disabled, by the branch that comes next or at an instruction."""
        before, self._iflag = self._iflag, self._next_iflag
        position, after = len(self.branches), 0 if self._iflag else INTERRUPTS_OFF
        event = PtEvent(position, self._time, "iflag", source, target, value=int(self._iflag), extra=int(is_branch))
        self.events.append(event)
        if not self._parameters.tells_interrupts:
            return
        self._interrupt_bits = after
        if is_branch:
            self._interrupt_bits = (0 if before else INTERRUPTS_OFF) | (INTERRUPTS_TOGGLED if before != self._iflag else 0)
            self.interrupts.append((position, self._interrupt_bits))
        self.interrupts.append((position + is_branch, after))

    def _set_interrupts(self, *, are_enabled: bool) -> None:
        """Apply what the status after a PSB packet tells."""
        self._iflag = self._next_iflag = are_enabled
        if self._parameters.tells_interrupts:
            self._interrupt_bits = 0 if are_enabled else INTERRUPTS_OFF
            self.interrupts.append((len(self.branches), self._interrupt_bits))

    def interrupt_bits(self, rows: NDArray[np.intp]) -> NDArray[np.uint64]:
        """Return the bits about interrupts in the flags of branches by number."""
        positions, bits = np.array(self.interrupts, np.int64).T
        found: NDArray[np.uint64] = bits[np.searchsorted(positions, rows, "right") - 1].astype(np.uint64)
        return found

    # -- walking code ------------------------------------------------------------------

    def _walk_part(self, head: int) -> None:
        """Follow the branches of up to six bits, as a short TNT packet has them, and keep their path."""
        start, first, total = self._ip, len(self.branches), self._total
        depth, events = len(self._stack), len(self.events)
        tail = self._stack[-MOST_BITS:]
        self._lowest, self._untimed = depth, -1
        self._is_deferred = False
        self._blocks.clear()
        self._walk_bits(head >> 1, head.bit_length() - 2)
        if len(self.events) == events and not self._transaction and self._untimed >= 0 and not self._is_deferred:
            needs = tail[len(tail) - (depth - self._lowest) :]
            pushes, instructions = self._stack[self._lowest :], self._total - total
            path = Path(self.branches[first:], self.space.node(self._ip), instructions, needs, pushes, self._untimed - first)
            path.ends = [end - total for end, _, _ in self._blocks]
            path.before = [before - first for _, before, _ in self._blocks]
            path.blocks = [block for _, _, block in self._blocks]
            path.is_taken = bool(head >> head.bit_length() - 2 & 1)
            path.counts = [count - total for count in self.counts[first:]]
            self.space.keep_path(start, head, path)

    def _count_path(self, path: Path, total: int) -> None:
        """Count the cycles and instructions of a known path. total: instructions up to its end."""
        if (self._clock.is_counted and path.is_taken) or self._is_approximate:
            self._tell_cycles(path.untimed)
        self._clock.is_counted = False
        if self._counts_all:
            self.counts.extend([total - path.instructions + count for count in path.counts])

    def _follow_sampled(self, path: Path, total: int) -> None:
        """Follow a known path on which instructions are sampled by their number. total: instructions before."""
        if not path.blocks:
            path.join_blocks()
        length, edges, is_timed = self._period.length, path.edges, self._clock.ticks <= self._time
        limit = self._period_total + length
        while limit - total <= path.instructions:
            row = bisect_left(path.ends, limit - total)
            block, before = path.blocks[row], path.before[row]
            number = limit - total - path.ends[row] + block.count
            ip, target, flags, size = block.last, 0, block.flags, block.length
            if number < block.count:
                ip, flags, size = block.starts[number - 1], 0, block.starts[number] - block.starts[number - 1]
            else:
                source, to, _, _ = self._edges.columns[edges[before]] if before < len(edges) else (0, 0, 0, 0)
                target = to if source == ip else 0
            if not is_timed and row >= (telling := path.telling) and (row > telling or number == block.count):
                self._set_stamp(self._clock.ticks, path.untimed)
                is_timed = True
            self._total = self._period_total = limit
            self._add_sample(ip, target, flags, size, before)
            limit += length
        if not is_timed:
            self._set_stamp(self._clock.ticks, path.untimed)
        self.branches.extend(edges)
        del self._stack[len(self._stack) - len(path.needs) :]
        self._stack.extend(path.pushes)
        self._total, self._limit = total + path.instructions, limit
        self._ip, self._direct_branches = path.after.ip, 0

    def _walk_bits(self, bits: int, count: int) -> None:
        """Follow some branches of a TNT packet, whose bits are below a one."""
        stack = self._stack
        while count:
            block = self.space.blocks.get(self._ip) or self._fetch()
            if self._total + block.count >= self._limit and self._sample(block):
                continue
            self._total += block.count
            self._blocks.append((self._total, len(self.branches), block))
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
                if taken or self._is_due or self._is_approximate:
                    self._tell_cycles(to_branch=bool(taken))
                self._clock.is_counted = False
            if end == RETURN_END:
                self._emit_indirect(block, target)
                continue
            if self._is_due:
                self._sample_branch(block.last, target if taken else 0, block.flags, block.length)
            if taken:
                self._append(block.edge)
            self._ip = target if taken else block.after

    def _append(self, edge: int) -> None:
        """Add a branch."""
        self.branches.append(edge)
        if self._counts_all:
            self.counts.append(self._total)

    def _compressed_return(self, block: CodeBlock, *, taken: bool) -> int:
        """Return where a RET instruction goes that is a bit of a TNT packet."""
        target = self._stack.pop() if self._stack else 0
        self._lowest = min(self._lowest, len(self._stack))
        self._ip = block.last
        if not (self._parameters.returns_are_compressed and target and taken):
            raise TraceError(MISMATCH, RESYNC)
        return target

    def _walk_deferred(self, block: CodeBlock) -> None:
        """Follow an indirect branch whose TIP packet comes after a TNT packet with later branches."""
        if block.pushes:
            self._stack.append(block.after)
        self._ip = block.last
        self._is_deferred = True
        target = self._read_target()
        if self._next_iflag != self._iflag:
            self._change_interrupts(block.last, target)
        self._emit_indirect(block, target)

    def _read_target(self) -> int:
        """Read the address of a TIP packet that comes next. Raises TraceError."""
        raise NotImplementedError

    def _walk_to_branch(self, edge: AddressFilters | None = None) -> CodeBlock:
        """Follow direct branches up to another one, or to the first one that leaves the traced addresses (edge), which is not followed."""
        while True:
            block = self.space.blocks.get(self._ip) or self._fetch()
            if self._total + block.count >= self._limit and self._sample(block):
                continue
            self._total += block.count
            if block.end != DIRECT_END or (edge is not None and edge.leave(self.space, block.target)):
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
                raise TraceError(MISMATCH, RESYNC)
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
                raise TraceError(ENDLESS, RESYNC)
            else:
                self._stuck_left -= 1
                if not self._stuck_left:
                    self._stuck_period += 1
                    self._stuck_left, self._stuck_ip = self._stuck_period, target
        self._append(block.edge)

    def _fetch(self, address: int = -1) -> CodeBlock:
        """Return the block at the current address, which is not kept yet; raise TraceError if there is no code up to `address`."""
        block = self.space.block(self._ip)
        if block.end >= NO_CODE and not self._ip < address <= block.last:
            self._fail(block)
        return block

    def _fail(self, block: CodeBlock) -> None:
        self._ip = block.last if block.count else self._ip
        self._direct_branches = 0
        raise TraceError(NO_INSTRUCTION, NO_IP, is_silent=block.end == MISSING_FILE)

    def _emit_indirect(self, block: CodeBlock, target: int, more: int = 0) -> None:
        edge = block.targets.get(target) if not more and not self._transaction else None
        if edge is None:
            flags = block.flags | more | (IN_TX if self._transaction & 1 else 0)
            edge = self._edges.number(block.last, target, flags, block.length)
            if not more and not self._transaction:
                block.targets[target] = edge
        if block.last >= KERNEL_START > target > 0:
            self._set_stamp(self._clock.estimate(self._total - self._timed_total))
        if self._is_due:
            self._sample_branch(block.last, target, block.flags | more, block.length)
        self._append(edge)
        self._ip = target
        self._interrupt_bits = self.interrupts[-1][1]

    # -- samples of instructions -----------------------------------------------------

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

    def _set_limit_by_time(self, total: int) -> None:
        """Set the limit after a packet of time, if samples are taken by ticks. total: instructions before."""
        left = self._last_masked + self._ticks_of_period - (self._clock.ticks + total - self._timed_total)
        if left > self._ticks_of_period:  # the last sample was early
            left = min(left - self._ticks_of_period, self._ticks_of_period)
        self._limit = total + left - 1 if self._is_continuous and left > 0 else 0

    def _extend_limit(self, instructions: int) -> bool:
        """Set the limit beyond the next instructions if none of them is sampled by ticks; return whether that is so."""
        ticks, period = self._clock.ticks + self._total - self._timed_total, self._ticks_of_period
        since_last = not self._is_continuous
        masked, last = ticks + since_last & -period, self._last_masked
        if self._is_continuous and masked > last:
            return False
        is_continuous, last = self._is_continuous or masked > last, max(masked, last)
        left = period if masked < last else period - (ticks + since_last - masked)
        limit = self._total + left + (-1 if last <= ticks else min(last - ticks - 1 - left, -1))
        if left <= instructions or self._total + instructions >= limit:
            return False
        self._is_continuous, self._last_masked, self._limit = is_continuous, last, limit
        return True

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

    def _sample_first(self) -> None:
        """Sample the instruction at the current address if it is due and no branch."""
        if self._period.length and self._parameters.has_branches and self._clock.is_on and self._instructions_left() == 1:
            block = self.space.block(self._ip)
            if block.count > 1:
                self._sample_at(block, 1)

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

    def _add_sample(self, ip: int, target: int, flags: int, length: int, after: int = 0) -> None:
        """Note the sample of an instruction. after: branches before it that are still to be added."""
        since, self._sampled_total = self._total - self._sampled_total, self._total
        branches, cycles, flags = len(self.branches) + after, self._cycles_here(), flags | self._interrupt_bits
        self.events.append(PtEvent(branches, self._time, "instructions", ip, target, flags, length, since, 0, self._total, cycles))

    # -- events at addresses -------------------------------------------------------

    def _tell_cbr(self) -> None:
        self._cbr_seen = self._clock.cbr
        if self._cbr_told != self._clock.cbr:
            self._cbr_told = self._clock.cbr
            self.events.append(PtEvent(len(self.branches), self._time, CBR, self._ip, value=self._clock.cbr_payload))

    def _note_address(self, ip: int = 0) -> None:
        """Note an address as that of an instruction; by default, the current one."""
        self._update_time()
        self._tell_cycles(to_branch=False)
        position, cycles = len(self.branches), self._cycles_here()
        self.events.append(PtEvent(position, self._time, "instructions", ip or self._ip, value=1, total=self._total, cycles=cycles))

    def _forget_pending(self) -> None:
        self._pending.clear()
        self._event_data = []
        self._iflag = self._next_iflag

    def _tell_pending(self, ip: int, *, no_tip: bool) -> None:
        """Note the events at an address, in perf's order."""
        self._update_time()
        pending, has_cycles, is_sampled = self._pending, self._clock.is_counted, no_tip and IFLAG in self._pending
        if no_tip:
            self._tell_cycles(to_branch=False)
        for name in (PEBS, EVT, IFLAG, CBR, MWAIT, PWRE, EXSTOP, "", TRANSACTIONS, PTWRITE):
            if name == CBR:
                self._tell_cbr()
            elif not name and self._quickness:
                self._clock.is_counted = has_cycles
                self._note_address()
            elif not name and is_sampled:
                self._sample_first()
            elif name == IFLAG and name in pending:
                self._change_interrupts(ip, 0, is_branch=False)
            elif name in pending:
                value, extra = pending[name], 1
                items: Any = None
                if name == PEBS:
                    value, items = 0, value
                elif name == EVT:
                    value, extra, items = value[0], int(value[1]), self._event_data
                    self._event_data = []
                self.events.append(PtEvent(len(self.branches), self._time, name, ip, value=value, extra=extra, items=items))
        pending.clear()

    def _tell(self, name: str, value: int, items: Any = None) -> None:
        self._update_time()
        self._tell_cbr()
        self._tell_cycles(to_branch=False)
        self.events.append(PtEvent(len(self.branches), self._time, name, self._ip, value=value, items=items))
