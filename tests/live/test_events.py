"""Events against the kernel that runs here."""

from __future__ import annotations

import ctypes
import os
import time

import pytest

import perfpy
from perfpy.events import parse_events
from perfpy.events.availability import Checker
from perfpy.events.catalog import SOFTWARE
from perfpy.events.list_filter import Selector
from perfpy.events.machine import this_machine
from perfpy.kernel import this_kernel

pytestmark = pytest.mark.live


def test_every_software_event_opens():
    machine = this_machine()
    checker = Checker(machine, this_kernel())
    offers = list(Selector(machine, "/nonexistent").select("sw").offers)
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
    except perfpy.errors.KernelRefused as error:
        pytest.skip(str(error))
    assert {event.tracepoint for event in events} == {("raw_syscalls", "sys_enter"), ("raw_syscalls", "sys_exit")}
    with perfpy.count("raw_syscalls:sys_enter") as counts:
        for _ in range(50):
            os.getppid()
    assert (counts["raw_syscalls:sys_enter"].value or 0) >= 50


def test_a_uprobe_counts_the_calls_of_a_function():
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    if this_machine().sysfs.pmu("uprobe") is None or os.geteuid():
        pytest.skip("no uprobe PMU, or no right to use it")
    libc = ctypes.CDLL("libc.so.6")
    with open("/proc/self/maps", errors="surrogateescape") as maps:
        path = next(line.split()[-1] for line in maps if "/libc.so.6" in line)
    with open(path, "rb") as file:
        symbols = ELFFile(file).get_section_by_name(".dynsym")
        assert isinstance(symbols, SymbolTableSection)
        (symbol,) = (symbols.get_symbol_by_name("getppid") or [])[:1]
        address = symbol["st_value"]
        offset = next(
            address - segment["p_vaddr"] + segment["p_offset"]
            for segment in ELFFile(file).iter_segments("PT_LOAD")
            if segment["p_vaddr"] <= address < segment["p_vaddr"] + segment["p_memsz"]
        )
    for number in range(12):  # with many other measurements beside it, the kernel counts none now and then
        time.sleep(number / 10)
        with perfpy.count(f'uprobe/path="{path}",offset={offset:#x},name=calls/') as counts:
            for _ in range(30):
                libc.getppid()
        if counts["calls"].value:
            break
    assert (counts["calls"].value or 0) >= 30
