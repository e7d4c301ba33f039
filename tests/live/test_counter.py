"""Counters of this machine's software events do what their methods promise, also for a while."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import perfpy
from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import PerfType, SampleType
from perfpy.abi.ring_records import RingSample
from perfpy.errors import KernelRefusedError

# Counters of this machine's software events do what their methods promise.


pytestmark = pytest.mark.live

FAULTS = 50
WRITES = 2  # HW_BREAKPOINT_W


def touch(pages: int = FAULTS) -> None:
    """So many page faults, in fresh memory."""
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for i in range(pages):
            memory[i * mmap.PAGESIZE] = 1


def faults(**fields: int) -> perfpy.Counter:
    return perfpy.Counter.open("page-faults:u", **fields)


def test_read_user_is_read_for_software_events_and_reports_it():
    with faults() as counter:
        touch()
        reading = counter.read_user()
        assert reading.value >= FAULTS
        assert not reading.from_page
        assert "cap_user_rdpmc" in reading.why_read


def test_a_counter_that_children_inherit_has_no_page():
    with faults(inherit=1) as counter:
        reading = counter.read_user()
        assert not reading.from_page
        assert "does not map" in reading.why_read


def test_refresh_adds_overflows():
    with faults(sample_period=1, disabled=1) as counter:
        counter.refresh(3)
        touch()
        assert counter.read().value == 3
        counter.refresh(2)
        touch()
        assert counter.read().value == 5


def test_poll_waits_for_the_requested_number_of_records():
    with faults(sample_period=1, wakeup_events=20, disabled=1) as counter:
        ring = counter.ring()
        assert not counter.poll(0)
        counter.refresh(19)
        touch()
        assert not counter.poll(0)
        counter.refresh(1)
        touch()
        assert counter.poll(1)
        assert sum(map(len, ring.pending())) > 0


def test_poll_gives_up_in_time():
    with faults(sample_period=1, disabled=1) as counter:
        started = time.monotonic()
        assert not counter.poll(0.05)
        assert 0.04 < time.monotonic() - started < 60


def test_all_counters_of_this_thread_stop_and_go_on():
    with faults() as counter, perfpy.Counter.open("task-clock:u") as clock:
        perfpy.disable_all()
        held, time_held = counter.read(), clock.read()
        touch()
        assert counter.read() == held
        assert clock.read() == time_held
        perfpy.enable_all()
        touch()
        assert counter.read().value >= held.value + FAULTS


def test_a_breakpoint_moves():
    words = (ctypes.c_int64 * 2)()
    first = EventAttr(
        type=PerfType.BREAKPOINT, bp_type=WRITES, config1=ctypes.addressof(words), config2=8, exclude_kernel=1, sample_period=1
    )
    with perfpy.Counter(first, event="mem:write") as counter:
        words[0] = 1
        words[1] = 1
        assert counter.read().value == 1
        counter.modify_attributes(first.copy(config1=first.config1 + 8))
        words[0] = 2
        words[1] = 2
        words[1] = 3
        assert counter.read().value == 3


def test_only_breakpoints_take_new_attributes():
    with faults() as counter, pytest.raises(KernelRefusedError, match="modify"):
        counter.modify_attributes(EventAttr(type=PerfType.SOFTWARE, config=2))


def test_a_group_counts_the_same_stretch():
    with perfpy.CounterGroup.open(["page-faults:u", "minor-faults:u"]) as group:
        touch()
        group.disable()
        counts = group.read()
    assert counts["page-faults:u"].value == counts["minor-faults:u"].value >= FAULTS
    assert counts["page-faults:u"].enabled == counts["minor-faults:u"].enabled


def test_a_counter_that_came_over_a_socket_is_a_counter():
    ours, theirs = socket.socketpair()
    with ours, theirs, faults() as counter:
        socket.send_fds(ours, [b"counter"], [counter.fileno()])
        _, (fd,), _, _ = socket.recv_fds(theirs, 16, 1)
        with perfpy.Counter.from_fd(fd) as received:
            touch()
            assert received.read().value >= FAULTS
    with pytest.raises(perfpy.errors.UsageError, match="is not a perf event"):
        perfpy.Counter.from_fd(os.open("/dev/null", os.O_RDONLY))


def has_tsc() -> bool:
    return os.path.exists("/sys/bus/event_source/devices/msr/events/tsc")


@pytest.mark.particular
@pytest.mark.skipif(not has_tsc(), reason="no PMU here counts the time stamp counter")
@pytest.mark.kernel_too
def test_a_pmu_that_refuses_to_leave_anything_out_is_opened_as_stat_opens_it():
    with perfpy.Counter.open("msr/tsc/") as counter:
        assert 0 < counter.read().value < counter.read().value
    with perfpy.CounterGroup.open(["msr/tsc/", "task-clock"]) as group:
        assert all(member.value for member in group.read())


def test_a_ring_hands_out_its_records_decoded():
    fields = int(SampleType.IDENTIFIER | SampleType.IP | SampleType.TID | SampleType.READ)
    with (
        faults(sample_period=1, sample_type=fields, comm=1, sample_id_all=1, disabled=1) as counter,
        perfpy.Counter.open("minor-faults:u", sample_period=1, sample_type=fields | SampleType.ADDR, sample_id_all=1, disabled=1) as other,
    ):  # another event: where two count the same, this kernel says of both samples that they are the first one's
        ring = counter.ring(64)
        other.set_output(counter)
        counter.refresh(3)
        other.refresh(2)
        touch()
        results = [record for record in ring if isinstance(record, RingSample)]
        tid = threading.get_native_id()
        assert sorted(sample.identifier == counter.id for sample in results) == [False] * 2 + [True] * 3
        assert [sample.read[0].value for sample in results if sample.identifier == counter.id] == [1, 2, 3]
        assert {sample.tid for sample in results} == {tid}
        assert all(sample.addr for sample in results if sample.identifier == other.id)
        other.set_output(None)
        other.ring()
        other.refresh(1)
        touch()
        assert not list(ring)
        assert len(list(other.ring())) == 1


def test_an_event_without_traces_has_no_aux_area():
    with faults(sample_period=1) as counter, pytest.raises(KernelRefusedError, match="writes no AUX data"):
        counter.aux()


# Counters for a while: a twentieth of tests/bench/soak.py, which says what it does.


SOAK = Path(__file__).parents[1] / "bench" / "soak.py"


def test_nothing_leaks_is_lost_or_waits_forever() -> None:
    process = subprocess.run(
        [sys.executable, "-W", "error", SOAK, "--scale", "0.05"], capture_output=True, text=True, timeout=400, check=False
    )
    assert (process.returncode, process.stderr) == (0, "")
    lines = process.stdout.splitlines()
    assert [int(match[0]) for line in lines if (match := re.match(r"\d+", line))][::2] == [500, 10]
    assert "each told once" in lines[1]
