"""Events against the kernel that runs here."""

from __future__ import annotations

import ctypes
import os

import pytest

import perfpy
from perfpy.events import parse_events
from perfpy.events.event import SOFTWARE
from perfpy.events.listing import Checker, Selector
from perfpy.events.machine import this_machine
from perfpy.kernel import this_kernel

pytestmark = pytest.mark.live


@pytest.mark.kernel_too
def test_every_software_event_opens():
    machine = this_machine()
    checker = Checker(machine, this_kernel())
    offers = list(Selector(machine, "/nonexistent").select("sw").infos)
    assert len(offers) == len(SOFTWARE) + 3
    assert {offer.name: checker.check(offer) for offer in offers} == dict.fromkeys((offer.name for offer in offers), "")


def test_a_breakpoint_counts_the_accesses_to_its_address():
    cell = ctypes.c_uint32(0)
    with perfpy.count(f"mem:{ctypes.addressof(cell):#x}/4:w") as counts:
        for number in range(20):
            cell.value = number
    (count,) = counts.values()
    assert count.value == 20


def test_a_pattern_opens_every_tracepoint_that_it_names(tmp_path):
    try:
        events = parse_events("raw_syscalls:*")
    except perfpy.errors.KernelRefusedError as error:
        pytest.skip(str(error))
    assert {event.tracepoint for event in events} == {("raw_syscalls", "sys_enter"), ("raw_syscalls", "sys_exit")}
    with perfpy.count("raw_syscalls:sys_enter") as counts:
        for _ in range(50):
            os.getppid()
    assert (counts["raw_syscalls:sys_enter"].value or 0) >= 50


def test_a_uprobe_counts_the_calls_of_a_function():
    if this_machine().sysfs.pmu("uprobe") is None or os.geteuid():
        pytest.skip("no uprobe PMU, or no right to use it")
    libc = ctypes.CDLL("libc.so.6")
    path, offset = file_and_offset(ctypes.cast(libc.getppid, ctypes.c_void_p).value or 0)
    with perfpy.count(f'uprobe/path="{path}",offset={offset:#x},name=calls/') as counts:
        for _ in range(30):
            libc.getppid()
    assert (counts["calls"].value or 0) >= 30


def file_and_offset(address: int) -> tuple[str, int]:
    """The file that the code at an address of this process comes from, and where it is there.

    By address: other mappings may have a name like that of libc (a copy that an earlier test read).
    """
    with open("/proc/self/maps", errors="surrogateescape") as maps:
        for line in maps:
            area, _, offset, _, _, *path = line.rstrip("\n").split(maxsplit=5)
            start, end = (int(text, 16) for text in area.split("-"))
            if start <= address < end:
                return path[0], address - start + int(offset, 16)
    raise AssertionError(f"nothing is mapped at {address:#x}")
