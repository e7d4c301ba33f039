"""Threads that sleep as a recording begins: what /proc says of them becomes the records of a switch."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import CONTEXT_KERNEL, CONTEXT_USER, MISC_SWITCH_OUT, NATIVE_ENDIAN, RecordType, SampleType
from perfpy.abi.sample_decoding import SampleLayout
from perfpy.abi.sample_layout import REGISTERS, user_registers
from perfpy.capture import sleeping_threads
from perfpy.capture.off_cpu_events import RawField
from perfpy.capture.sleeping_threads import DepartureRecords, Sleeper, find_frame_pointer, sleepers
from perfpy.capture.unwinding.serving import chunk_of
from perfpy.kernel.procfs import ProcFs
from perfpy.scheduling.intervals import IntervalPairing
from perfpy.scheduling.transitions import stack_transitions, switch_transitions

if TYPE_CHECKING:
    from pathlib import Path

TYPES = SampleType.IDENTIFIER | SampleType.IP | SampleType.TID | SampleType.TIME | SampleType.CPU | SampleType.PERIOD | SampleType.CALLCHAIN
STACKS = SampleType.REGS_USER | SampleType.STACK_USER
SYSCALL = "202 0x1000 0x80 0x2 0x0 0x0 0x0 0x7f0000001000 0x7f0000002000\n"
STATE = RawField(32, 8)
NOW = 1_000_000
FIELDS = ("ip", "pid", "tid", "time", "cpu", "callchain", "raw", "user_regs", "user_regs_abi", "user_stack")


def task(folder: Path, pid: int, tid: int, letter: str = "S", *, syscall: str = SYSCALL, stack: str = "", comm: str = "worker") -> None:
    """Write a thread's files."""
    of_thread = folder / f"{pid}/task/{tid}"
    of_thread.mkdir(parents=True)
    (folder / str(tid)).mkdir(exist_ok=True)
    (folder / f"{tid}/status").write_text(f"Name:\t{comm}\nTgid:\t{pid}\nPPid:\t1\nUid:\t0\t0\t0\t0\nVmPeak:\t1 kB\n")
    after = [letter, *["0"] * 35, "3", *["0"] * 13]
    (of_thread / "stat").write_text(f"{tid} ({comm}) {' '.join(after)}\n")
    (of_thread / "schedstat").write_text("1 2 3\n")
    (of_thread / "syscall").write_text(syscall)
    (of_thread / "stack").write_text(stack)


class Memory:
    """The memory of a process: every address has the byte 7."""

    opened = 0

    def __init__(self, pid: int) -> None:
        Memory.opened += 1

    def some(self, address: int, most: int) -> bytes:
        return b"\7" * min(most, 100)

    def close(self) -> None:
        Memory.opened -= 1


@pytest.fixture(autouse=True)
def memory(monkeypatch):
    monkeypatch.setattr(sleeping_threads, "ProcessMemory", Memory)
    yield
    assert not Memory.opened


def test_a_sleeping_thread_is_read_with_its_call_and_stack(tmp_path):
    task(tmp_path, 10, 11, stack="[<0>] futex_wait+0x46/0x90\n[<0>] do_syscall_64+0x71/0x280\n", comm="a) R 1 (b")
    (sleeper,) = sleepers([11], ProcFs(str(tmp_path)), 1024)
    assert sleeper[:4] == (10, 11, "S", 3)
    assert sleeper.words == (202, 0x1000, 0x80, 2, 0, 0, 0, 0x7F0000001000, 0x7F0000002000)
    assert sleeper.kernel_frames == (("futex_wait", 0x46), ("do_syscall_64", 0x71))
    assert sleeper.stack == b"\7" * 96


@pytest.mark.parametrize("letter", ["R", "Z", "?", ""])
def test_threads_that_run_or_have_ended_are_left_out(tmp_path, letter):
    task(tmp_path, 10, 11, letter)
    assert not [*sleepers([11, 12], ProcFs(str(tmp_path)), 1024)]


def test_a_thread_that_ran_during_the_reading_is_left_out(tmp_path, monkeypatch):
    task(tmp_path, 10, 11)

    class Waking(Memory):
        def some(self, address: int, most: int) -> bytes:
            (tmp_path / "10/task/11/schedstat").write_text("1 2 4\n")
            return super().some(address, most)

    monkeypatch.setattr(sleeping_threads, "ProcessMemory", Waking)
    assert not [*sleepers([11], ProcFs(str(tmp_path)), 1024)]


@pytest.mark.parametrize("syscall", ["running\n", "", "-1 0x7f00 0x55\n"])
def test_what_is_not_readable_is_missing(tmp_path, syscall):
    task(tmp_path, 10, 11, syscall=syscall, stack="nothing of use\n[<0>] +0x/\n")
    (sleeper,) = sleepers([11], ProcFs(str(tmp_path)), 1024)
    assert sleeper.kernel_frames == ()
    assert len(sleeper.words) in (0, 3)
    assert bool(sleeper.stack) == bool(sleeper.words)


def attr(kinds: int, **fields: int) -> EventAttr:
    return EventAttr(sample_type=int(TYPES | kinds), sample_id_all=1, **fields)


def decoded(records: bytes, event: EventAttr):
    """The columns of the samples, and the transitions of all records."""
    chunk = chunk_of(np.frombuffer(records, np.uint8))
    samples = chunk.rows(np.flatnonzero(chunk.types == RecordType.SAMPLE))
    others = chunk.rows(chunk.others)
    columns = SampleLayout(event, NATIVE_ENDIAN).decode(samples.data, samples.starts, FIELDS)
    assert columns.damaged is None or not columns.damaged.any()
    times = np.full(len(others), NOW, np.uint64)
    return columns, switch_transitions(others, times)


def sleeper(**fields) -> Sleeper:
    whole = Sleeper(10, 11, "D", 3, (202, 1, 2, 3, 4, 5, 6, 0x7F0000001000, 0x7F0000002000), (("futex_wait", 0x46),), b"\7" * 96)
    return whole._replace(**fields)


def test_the_records_have_state_registers_and_stack(tmp_path):
    (tmp_path / "kallsyms").write_text("ffffffff81000000 T _text\nffffffff81000100 t futex_wait\n")
    mask = user_registers("x86_64")
    event = attr(SampleType.RAW | STACKS, sample_regs_user=mask, sample_stack_user=1024, exclude_callchain_user=1)
    records = DepartureRecords(event, 5, 6, STATE, "x86_64").of([sleeper(), sleeper(tid=12)], NOW, ProcFs(str(tmp_path)))
    columns, switches = decoded(records, event)
    assert columns["tid"].tolist() == [11, 12]
    assert columns["time"].tolist() == [NOW, NOW]
    assert columns["callchain"].gather().values[:2].tolist() == [CONTEXT_KERNEL, 0xFFFFFFFF81000146]
    registers = dict(zip([bit for bit in range(24) if mask >> bit & 1], columns["user_regs"].gather().values.tolist(), strict=False))
    named = {name: registers[REGISTERS["x86_64"].index(name)] for name in ("AX", "DI", "SP", "IP", "BP")}
    assert named == {"AX": 202, "DI": 1, "SP": 0x7F0000001000, "IP": 0x7F0000002000, "BP": 0}
    assert columns["user_regs_abi"].tolist() == [2, 2]
    assert columns["user_stack"].gather().lengths.tolist() == [96, 96]
    transitions = stack_transitions(columns, columns["callchain"].gather(), STATE)
    assert [chr(letter) for letter in transitions.rows["detail"]] == ["D", "D"]
    assert switches["tid"].tolist() == [11, 12]
    pairing = IntervalPairing()
    pairing.take_ended(NOW, transitions.with_more(transitions._replace(rows=switches)))
    pairing.newest = NOW + 500
    assert pairing.take_unfinished().rows["duration"].tolist() == [500, 500]


def test_samples_of_the_tracepoint_alone_have_the_thread_and_no_switch(tmp_path):
    event = attr(SampleType.RAW)
    event = event.copy(sample_type=event.sample_type & ~SampleType.PERIOD)  # as with a fixed period
    records = DepartureRecords(event, 5, 0, STATE, "x86_64", task=RawField(24, 4)).of([sleeper()], NOW, ProcFs(str(tmp_path)))
    assert chunk_of(np.frombuffer(records, np.uint8)).types.tolist() == [RecordType.SAMPLE]
    columns, _ = decoded(records, event)
    raw = columns["raw"].gather().values.tobytes()
    assert (int.from_bytes(raw[24:28], "little"), int.from_bytes(raw[32:40], "little")) == (11, 2)  # TASK_UNINTERRUPTIBLE


def test_frame_pointer_chains_have_the_known_address(tmp_path):
    event = attr(0)
    columns, _ = decoded(DepartureRecords(event, 5, 6, None, "x86_64").of([sleeper()], NOW, ProcFs(str(tmp_path))), event)
    assert columns["callchain"].gather().values.tolist() == [CONTEXT_USER, 0x7F0000002000]


def test_threads_of_32_bits_have_their_abi(tmp_path):
    event = attr(STACKS, sample_regs_user=user_registers("x86_64"), sample_stack_user=1024)
    words = (0, 1, 2, 3, 4, 5, 6, 0xFFF01000, 0x8049000)
    columns, _ = decoded(DepartureRecords(event, 5, 6, None, "x86_64").of([sleeper(words=words)], NOW, ProcFs(str(tmp_path))), event)
    assert columns["user_regs_abi"].tolist() == [1]


@pytest.mark.parametrize("machine", ["riscv64", "unknown"])
def test_other_machines_have_waits_without_registers(tmp_path, machine):
    event = attr(STACKS, sample_regs_user=0xFF, sample_stack_user=1024)
    departures = DepartureRecords(event, 5, 6, None, machine)
    assert departures.stack_size == 0
    columns, switches = decoded(departures.of([sleeper(stack=b"")], NOW, ProcFs(str(tmp_path))), event)
    assert columns["tid"].tolist() == switches["tid"].tolist() == [11]


def test_without_an_event_of_stacks_there_are_switches_only(tmp_path):
    records = DepartureRecords(None, 0, 6, None, "x86_64").of([sleeper()], NOW, ProcFs(str(tmp_path)))
    chunk = chunk_of(np.frombuffer(records, np.uint8))
    assert chunk.types.tolist() == [RecordType.SWITCH]
    assert chunk.miscs.tolist() == [MISC_SWITCH_OUT]


STACK, WAIT, LIBRARY, CALLER = 0x7F0000001000, 0x401000, 0x7F0000200000, 0x405000
WITH_FRAME = b"\xf3\x0f\x1e\xfa\x55\x49\x89\xf3\x48\x89\xe5"  # endbr64; push %rbp; mov %rsi,%r11; mov %rsp,%rbp


def frame_pointer(code: bytes = WITH_FRAME, call: int = WAIT, *, back: int = WAIT + 0x80, machine: str = "x86_64", **frame: int) -> int:
    """The frame pointer of a thread in the C library, called from a function at WAIT, which was called from CALLER.

    Args:
        code: of the function.
        call: what the code before CALLER calls.
        back: the address in the function to return to.
        machine: as in uname.
        frame: "at": the word of the stack with the caller's %rbp; "saved": that; "pointer": where the address of the called function is;
            "register": the %r12 that it has saved, by which it was called.
    """
    words = [0, back, frame.get("register", 0), *[0] * (frame.get("at", 6) - 3), frame.get("saved", STACK + 0x100), CALLER, *[0] * 40]
    pointer = frame.get("pointer", 0)
    distance = ((pointer or call) - CALLER).to_bytes(4, "little", signed=True)
    call_code = (b"\xff\x15" if pointer else b"\x00\xe8") + distance if "register" not in frame else b"\x48\x89\xde\x41\xff\xd4"
    memory = {CALLER - 6: call_code, WAIT: code, pointer: call.to_bytes(8, "little")}
    stack = struct.pack(f"={len(words)}Q", *words)
    return find_frame_pointer(STACK, LIBRARY, stack, lambda address, most: memory.get(address, b"")[:most], machine)


def test_the_frame_pointer_of_a_sleeping_thread_is_found_on_its_stack():
    assert frame_pointer() == STACK + 48
    assert frame_pointer(WITH_FRAME[4:]) == STACK + 48


@pytest.mark.parametrize("saved", [0, 1, 0x7F0000000000, (1 << 64) - 1])
def test_the_caller_of_a_function_with_a_frame_may_have_none(saved):
    assert frame_pointer(saved=saved) == STACK + 48


def test_functions_that_are_called_by_a_register_have_frames_if_they_have_saved_it():
    assert frame_pointer(register=WAIT) == STACK + 48
    assert frame_pointer(register=WAIT + 0x10) == frame_pointer(register=0) == 0


def test_a_frame_of_an_earlier_call_is_none():
    """Another function begins between the called one and the address to return to."""
    between = WITH_FRAME + b"\x90" * 40 + b"\xc3\x55\x48\x89\xe5" + b"\x90" * 80
    assert frame_pointer(between) == 0
    assert frame_pointer(between.replace(b"\xc3\x55", b"\xc3\x54")) == STACK + 48


def test_functions_that_are_called_through_a_table_of_addresses_have_frames():
    assert frame_pointer(pointer=WAIT + 0x1000) == STACK + 48
    assert frame_pointer(pointer=WAIT + 0x1000, call=WAIT + 0x10) == 0


@pytest.mark.parametrize(
    "options",
    [
        {"code": b"\x48\x83\xec\x18"},  # a function without a frame pointer
        {"code": b""},
        {"call": WAIT + 0x10},  # another function is called
        {"call": CALLER + 0x7FFF0000},
        {"back": LIBRARY},  # the thread does not return to the function
        {"at": 7},  # frames begin at multiples of 16
        {"machine": "aarch64"},
    ],
)
def test_an_uncertain_frame_pointer_is_unknown(options):
    assert frame_pointer(**options) == 0


@pytest.mark.parametrize("word", [0, 5, 1 << 63, (1 << 64) - 1])
def test_damaged_stacks_have_no_frame_pointer(word):
    for stack in (struct.pack("=64Q", *[word] * 64), struct.pack("=64Q", *[STACK + 0x80, word] * 32), b"\1" * 7, b""):
        assert find_frame_pointer(STACK, 5, stack, lambda _address, most: b"\xe8" * most, "x86_64") == 0


def test_the_frame_pointer_is_in_the_sample():
    whole = Sleeper(10, 11, "S", 3, (202, 1, 2, 3, 4, 5, 6, STACK, LIBRARY), (), b"\7" * 96, STACK + 48)
    attr = EventAttr(sample_type=TYPES | STACKS, sample_regs_user=0xFF0FFF, sample_stack_user=4096)
    records = DepartureRecords(attr, 1, 2, None, "x86_64").of([whole], NOW, ProcFs("/nowhere"))
    assert (STACK + 48).to_bytes(8, "little") in records
    assert (STACK + 48).to_bytes(8, "little") not in DepartureRecords(attr, 1, 2, None, "x86_64").of(
        [whole._replace(frame_pointer=0)], NOW, ProcFs("/nowhere")
    )
