"""Ring buffers that fill up while they are read."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import PerfType, RecordType, SampleType
from perfpy.capture.opening import OpenEvent
from perfpy.capture.output.draining import Drain
from perfpy.capture.session.own_samples import OwnSamples
from perfpy.events.event import Event
from perfpy.kernel.ring import Ring

PAGE = 4096
HEAD, TAIL = 1024, 1032
SIZE = 64
OTHER = 1


class Kernel:
    """Ring buffers that record every write to the output."""

    def __init__(self, rings: int = 2, *, feeds: int = PAGE, tid: int = OTHER) -> None:
        self._memory = [bytearray(2 * PAGE) for _ in range(rings)]
        self.rings = [Ring(memory, page_size=PAGE) for memory in self._memory]
        self.aux = None
        self.feeds = feeds
        self.tid = tid
        self.written = 0
        self.rounds = 0

    def fill(self, size: int, tid: int = OTHER) -> None:
        """Add samples, as far as there is room."""
        for memory in self._memory:
            head, tail = (struct.unpack_from("=Q", memory, at)[0] for at in (HEAD, TAIL))
            for at in range(head, min(head + size, tail + PAGE), SIZE):
                memory[PAGE + at % PAGE : PAGE + at % PAGE + SIZE] = sample(tid)
                head = at + SIZE
            struct.pack_into("=Q", memory, HEAD, head)

    def pause(self, paused: bool) -> None:
        pass

    # as an Output

    def write_ring(self, slices) -> None:
        self.written += sum(map(len, slices))
        self.fill(self.feeds, self.tid)

    def end_round(self) -> None:
        self.rounds += 1


def sample(tid: int, size: int = SIZE) -> bytes:
    return struct.pack("=IHHQII", RecordType.SAMPLE, 0, size, 0xF00, tid, tid).ljust(size, b"\0")


def event(
    fields: int = SampleType.IP | SampleType.TID, *, tracepoint: tuple[str, str] | None = ("raw_syscalls", "sys_enter"), filter: str = ""
) -> OpenEvent:
    return OpenEvent(Event("e", EventAttr(type=PerfType.TRACEPOINT, sample_type=fields), tracepoint=tracepoint, filter=filter))


def drain_of(kernel: Any, **options: Any) -> Drain:
    """Counters and output in one: its ring buffers are written to itself."""
    return Drain(kernel, kernel, **options)


def test_the_last_pass_writes_the_rest_of_the_rings():
    """Each write fills all ring buffers again; records that arrive during the last pass are not read."""
    kernel = Kernel(feeds=PAGE // 2)
    kernel.fill(PAGE // 2)
    assert drain_of(kernel).rest() == PAGE
    assert (kernel.written, kernel.rounds) == (PAGE, 1)


def test_a_pass_reads_no_ring_twice():
    kernel = Kernel()
    kernel.fill(PAGE)
    assert drain_of(kernel).forward() == 2 * PAGE


def test_a_pass_ends_between_two_rings_where_it_is_to_stop():
    """An interrupted pass is no round: the unread ring buffer may contain older records."""
    kernel = Kernel(feeds=0)
    kernel.fill(SIZE)
    drain = drain_of(kernel, stop=lambda: kernel.written > 0)
    assert (drain.forward(), kernel.rounds) == (SIZE, 0)
    assert (drain.rest(), kernel.rounds) == (SIZE, 1)


def test_little_waits_for_more_except_at_the_end():
    kernel = Kernel(feeds=0)
    kernel.fill(SIZE)
    drain = drain_of(kernel, flush=SIZE + 1)
    assert (drain.forward(), drain.rest()) == (0, 2 * SIZE)


def looks(own: OwnSamples, kernel: Kernel, passes: int) -> bool:
    """Passes over the rings, with so much written between them that each is looked at: do our own samples prevail now?"""
    drain = drain_of(kernel)
    for number in range(1, passes + 2):
        drain.inspect = own.inspect if own.due(number << 24) else None
        drain.forward()
    return own.prevail


def test_a_recorder_that_feeds_itself_leaves_itself_out():
    own = OwnSamples([event()])
    kernel = Kernel(tid=own.tid)
    kernel.fill(PAGE, own.tid)
    assert not looks(own, kernel, 2)
    assert looks(own, kernel, 2)
    (selection,) = own.leave_out()
    assert selection.filter == f"common_pid != {own.tid}"
    assert not own.prevail  # said once
    assert not looks(own, kernel, 9)


@pytest.mark.parametrize(
    "events",
    [
        [event(tracepoint=None)],  # has no filter
        [event(SampleType.IP)],  # does not tell whose samples they are
        [event(), event(SampleType.IDENTIFIER | SampleType.IP | SampleType.TID)],
    ],
)
def test_processes_that_cannot_be_filtered_are_not_read(events):
    assert not OwnSamples(events).due(1 << 40)


def test_samples_of_others_stay_unchanged():
    own = OwnSamples([event()])
    kernel = Kernel()
    kernel.fill(PAGE)
    assert not looks(own, kernel, 20)


def test_an_event_with_a_filter_keeps_it():
    """The kernel refuses a second filter for a counter with EEXIST."""
    filtered, other = event(filter="id == 1"), event()
    assert OwnSamples([filtered, other]).leave_out() == [other]
    assert filtered.filter == "id == 1"


def test_own_samples_are_counted_rarely():
    own = OwnSamples([event()])
    assert [own.due(written) for written in (0, 1 << 20, 8 << 20, 9 << 20, 16 << 20)] == [False, False, True, False, True]
    assert own.due(0), "another file has begun"


def test_a_ring_that_ends_within_a_header_is_read_as_far_as_it_goes():
    own = OwnSamples([event()])
    for data in (b"", b"\0" * 5, b"\0" * 64, sample(own.tid) + b"\t\0"):
        own.inspect((memoryview(data),))
    assert own._all == SIZE
