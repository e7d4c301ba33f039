"""Recordings of Intel PT, made from real programs.

Every instruction is single-stepped, and the packets that hardware would have written are encoded from its addresses.

Input: a command. Output: a perf.data file that perf decodes, and the truth: each branch, thread by thread.
Layout of packets: Intel SDM, volume 3, "Intel Processor Trace", "Trace packets and data types".
"""

from __future__ import annotations

import os
import random
import struct
import subprocess
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Final, NamedTuple

import capstone

from perfpy.abi import records
from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import SampleType
from perfpy.abi.perf_records import Auxtrace, AuxtraceInfo, IdIndex, IdIndexEntry, TimeConv
from perfpy.abi.records import SampleId
from perfpy.auxtrace.intel_pt import PacketReader
from perfpy.perfdata.header import CpuCount, EventDesc, Feature
from tests.builders.elf import ALLOC, ET_EXEC, EXEC, NOTYPE, Elf
from tests.builders.perfdata import PerfDataBuilder

ANONYMOUS: Final = "//anon"
STEPPER: Final = Path(__file__).with_name("single_step.c")
STEP, MAP, COMM, FORK, EXIT, SIGNAL = range(6)
PSB: Final = b"\x02\x82" * 8
TRACE_STOP: Final = b"\x02\x83"
PSBEND, OVF, CBR, MODE_EXEC = b"\x02\x23", b"\x02\xf3", b"\x02\x03\x18\x00", b"\x99\x01"
TIP, TIP_PGE, TIP_PGD, FUP = 0x0D, 0x11, 0x01, 0x1D
TSC_BIT, MTC_BIT, NORETCOMP_BIT, CYC_BIT, MTC_FREQUENCY = 0x400, 0x200, 0x800, 0x2, 0x3C000
PT_TYPE: Final = 8
KERNEL: Final = 0xFFFFFFFF81000000
#: swapgs; call +8; jnz -11; swapgs; sysretq; dec ecx; jnz -4; ret
KERNEL_CODE: Final = bytes.fromhex("0f01f8 e808000000 75f9 0f01f8 480f07 ffc9 75fc c3")
POWER_BIT, EVENT_BIT = 1 << 4, 1 << 31
PEBS_FIELDS: Final = SampleType.ADDR | SampleType.WEIGHT | SampleType.REGS_INTR | SampleType.BRANCH_STACK | SampleType.TRANSACTION
PEBS_MASKS: Final = {"sample_regs_intr": 0xFF03FF, "branch_sample_type": 1 << 3 | 1}
_AUXTRACE_SIZE: Final = 48
_CRYSTAL: Final = 100  # ticks of the TSC for each of the crystal clock
_MTC_PERIOD: Final = 3
_SHIFT, _MULT, _ZERO = 31, 894784853, 1000  # 2.4 GHz
MTC_NANOSECONDS: Final = (_CRYSTAL << _MTC_PERIOD) * _MULT >> _SHIFT
_SAMPLE_PARTS: Final = 5
_RECORD: Final = struct.Struct("<IIQQQ")
_NEXT, _CONDITIONAL, _JUMP, _CALL, _RETURN, _INDIRECT, _INDIRECT_CALL, _SYSCALL = range(8)
_MARK: Final = 0x6A697431  # of a nop in front of each time in a jitdump, see jit.c
_LONGEST: Final = 15  # bytes of an instruction


class Steps(NamedTuple):
    """What a program did: for each record its kind, thread, three numbers and text; `code`: bytes from an address on."""

    events: list[tuple[int, int, int, int, int, str]]


def nanoseconds(ticks: int) -> int:
    """The time of a TSC, as perf converts it."""
    whole, rest = ticks >> _SHIFT, ticks & ((1 << _SHIFT) - 1)
    return _ZERO + whole * _MULT + (rest * _MULT >> _SHIFT)


def single_step(folder: Path, command: list[str], maximum: int = 2_000_000) -> Steps:
    """Run a command, or a thread that runs (-p TID), instruction by instruction."""
    stepper = folder / "single_step"
    if not stepper.exists():
        subprocess.run(["gcc", "-O1", "-o", stepper, STEPPER], check=True)
    output = folder / "steps"
    subprocess.run([stepper, output, str(maximum), *command], check=True, stdout=subprocess.DEVNULL, timeout=300)
    data, position, events = output.read_bytes(), 0, []
    while position < len(data):
        kind, tid, first, second, third = _RECORD.unpack_from(data, position)
        position += _RECORD.size
        size = {MAP: 256, COMM: 16}.get(kind, 0)
        text = data[position : position + size].split(b"\0")[0].decode()
        position += size
        events.append((kind, tid, first, second, third, text))
    return Steps(events)


class Instruction(NamedTuple):
    """One instruction: its kind, length and direct target; `marks`: whether the program writes a time to its jitdump after it."""

    kind: int
    size: int
    target: int
    marks: bool


class _Code:
    """Instructions by address, from the mapped files; capstone says what they are."""

    def __init__(self) -> None:
        self._maps: dict[int, tuple[int, bytes]] = {}
        self.ranges: list[tuple[str, int, int]] = []  # traced addresses
        self._known: dict[int | tuple[int, int, int], Instruction] = {}
        self._reader = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        self._reader.detail = True

    def map(self, start: int, size: int, offset: int, path: str) -> None:
        """Map a file."""
        content = _own_vdso() if path == "[vdso]" else b"" if path == ANONYMOUS else _content(path)[offset : offset + size]
        if self._maps.get(start) != (size, content):
            self._known = {}
        self._maps = {one: value for one, value in self._maps.items() if one + value[0] <= start or one >= start + size}
        self._maps[start] = size, content

    def at(self, address: int, unnamed: tuple[int, int] = (0, 0)) -> Instruction:
        """The instruction at an address; unnamed: its bytes as two words if they are in no file."""
        key = (address, *unnamed) if any(unnamed) else address
        one = self._known.get(key)
        if one is None:
            one = self._known[key] = self._decode(address, struct.pack("<2Q", *unnamed)[:_LONGEST] if any(unnamed) else b"")
        return one

    def _decode(self, address: int, code: bytes) -> Instruction:
        start = max(start for start in self._maps if start <= address)
        code = code or self._maps[start][1][address - start : address - start + _LONGEST]
        one = next(self._reader.disasm(code, address, 1), None)
        assert one, (hex(address), code)
        groups, name = set(one.groups), one.mnemonic
        direct = one.operands[0].imm if one.operands and one.operands[0].type == capstone.x86.X86_OP_IMM else 0
        kind = _NEXT
        if name in ("syscall", "sysenter"):
            kind = _SYSCALL
        elif capstone.CS_GRP_RET in groups:
            kind = _RETURN
        elif capstone.CS_GRP_CALL in groups:
            kind = _CALL if direct else _INDIRECT_CALL
        elif capstone.CS_GRP_JUMP in groups or name.startswith("loop"):
            kind = (_JUMP if direct else _INDIRECT) if name in ("jmp", "ljmp", "notrack jmp", "bnd jmp") else _CONDITIONAL
        marks = name == "nop" and bool(one.operands) and one.operands[0].value.mem.disp == _MARK
        return Instruction(kind, one.size, direct, marks)


@cache
def _content(path: str) -> bytes:
    return Path(path).read_bytes()


@cache
def _own_vdso() -> bytes:
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith("[vdso]"):
            begin, end = (int(part, 16) for part in line.split()[0].split("-"))
            with open("/proc/self/mem", "rb") as memory:
                memory.seek(begin)
                return memory.read(end - begin)
    return b""


@dataclass
class Options:
    """What the hardware writes.

    Attributes:
        psb_bytes: of trace between two PSB packets.
        compresses_returns: False for the noretcomp term.
        long_tnt: share of TNT packets that are long.
        interrupts: share of instructions that the kernel interrupts.
        overflows: share of instructions after which trace is lost.
        mtc, cyc, tsc: whether the packets are written.
        cyc_thresh: of CYC packets: they are written after 2 ** (cyc_thresh - 1) cycles.
        per_thread: a trace for each thread, without CPUs.
        cpus: CPUs to run on.
        slice: instructions that a thread runs before another's turn.
        ptwrites, power: share of instructions with PTWRITE packets, and with packets of power states.
        switches: how context switches are recorded: 2 by the task, 3 by the CPU.
        kernel: whether the kernel's code is traced: each system call runs KERNEL_CODE.
        filters: filter or stop, file, offset and size there, of the addresses that are traced, or end it until the next slice.
        runs_of_bytes: repeat the trace of one CPU, each time later, until it has so many bytes; 0: once. Its truth is that of one run.
        jitdump: of the program: its records get the times of the program's marks.
        events: share of instructions with packets of Event Trace: interrupts, and changes of the interrupt flag.
        pebs: share of instructions with records of PEBS in the trace.
        pebs_calls: whether samples of PEBS have callchains.
        samples: instructions between samples of an event with samples of its own, 0 for none.
        aux_samples: whether these samples have the trace, and its bytes in each; 0: the trace is in AUXTRACE records.
    """

    seed: int = 1
    psb_bytes: int = 2048
    compresses_returns: bool = True
    long_tnt: float = 0.3
    interrupts: float = 0.0005
    overflows: float = 0.0
    mtc: bool = True
    cyc: bool = False
    cyc_thresh: int = 0
    tsc: bool = True
    per_thread: bool = False
    cpus: int = 2
    slice: int = 3000
    switches: int = 2
    ptwrites: float = 0.0
    power: float = 0.0
    piece: int = 0
    pgd_ip: bool = False
    lost: bool = False
    kernel: bool = False
    jitdump: Path | None = None
    events: float = 0.0
    pebs: float = 0.0
    pebs_calls: bool = False
    samples: int = 0
    runs_of_bytes: int = 0
    aux_samples: int = 0
    filters: tuple[tuple[str, str, int, int], ...] = ()


@dataclass
class Writer:
    """The packets of one trace, and the branches that they tell."""

    options: Options
    draw: random.Random
    out: bytearray = field(default_factory=bytearray)
    last_ip: int = 0
    bits: list[int] = field(default_factory=list)
    stack: list[int] = field(default_factory=list)
    ticks: int = 0
    cycles: int = 0
    mtc: int = -1
    last_psb: int = 0
    on: bool = False
    stopped: bool = False
    has_gap: bool = False
    first_tick: int = 0

    def ip(self, head: int, address: int) -> None:
        """An IP packet, as short as the last IP allows."""
        self.flush()
        last = self.last_ip
        if address >> 16 == last >> 16:
            kind, size = 1, 2
        elif address >> 32 == last >> 32:
            kind, size = 2, 4
        elif address >> 48 == last >> 48 and self.draw.random() < 0.5:
            kind, size = 4, 6
        else:
            kind, size = (3, 6) if self.draw.random() < 0.9 else (6, 8)
        self.cyc()
        self.out += bytes([head | kind << 5]) + (address & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        self.last_ip = address

    def flush(self) -> None:
        """The pending conditional branches as TNT packets."""
        while self.bits:
            most = 47 if self.draw.random() < self.options.long_tnt else 6
            part, self.bits = self.bits[:most], self.bits[most:]
            value = 1
            for bit in part:
                value = value << 1 | bit
            self.cyc()
            self.out += bytes([value << 1]) if len(part) <= 6 else b"\x02\xa3" + value.to_bytes(6, "little")

    def cyc(self) -> None:
        """The cycles since the last CYC packet, before packets that need it."""
        if not self.options.cyc or self.cycles < max(1, 1 << self.options.cyc_thresh >> 1):
            return
        value, self.cycles = self.cycles, 0
        more = value >> 5
        self.out.append(value << 3 & 0xF8 | (4 if more else 0) | 3)
        while more:
            self.out.append(more << 1 & 0xFE | (1 if more >> 7 else 0))
            more >>= 7

    def bit(self, taken: bool) -> None:
        """A conditional branch."""
        self.bits.append(int(taken))
        if len(self.bits) >= (47 if self.options.long_tnt else 6):
            self.flush()

    def tick(self, ticks: int) -> None:
        """Let time pass."""
        self.ticks += ticks
        self.cycles += ticks
        if not self.options.mtc or not self.out or self.has_gap:
            return
        clock = self.ticks // _CRYSTAL >> _MTC_PERIOD
        if self.mtc >= 0 and clock != self.mtc:
            for value in range(max(self.mtc + 1, clock - 255), clock + 1):
                self.flush_all_before()
                self.out += bytes([0x59, value & 0xFF])
        self.mtc = clock

    def flush_all_before(self) -> None:
        """Packets that come before a packet of time."""
        if self.draw.random() < 0.5:
            self.flush()
        self.cyc()

    def clock(self) -> None:
        """TSC and TMA packets."""
        if not self.options.tsc:
            return
        self.out += b"\x19" + (self.ticks & (1 << 56) - 1).to_bytes(7, "little")
        if self.options.mtc:
            self.out += b"\x02\x73" + struct.pack("<HBH", self.ticks // _CRYSTAL & 0xFFFF, 0, self.ticks % _CRYSTAL)
            self.mtc = self.ticks // _CRYSTAL >> _MTC_PERIOD

    def psb(self, address: int | None) -> None:
        """PSB and its status packets; address: of the next instruction while tracing."""
        self.flush()
        self.cyc()
        self.out += PSB
        self.last_ip = 0
        self.clock()
        self.out += CBR
        if address is not None:
            self.out += MODE_EXEC
            self.ip(FUP, address)
        self.out += PSBEND
        self.stack.clear()
        self.last_psb = len(self.out)

    def begin(self, address: int) -> None:
        """Tracing begins or goes on at an address."""
        if not self.out:
            self.first_tick = self.ticks
            self.psb(None)
        elif self.draw.random() < 0.3 or not self.options.mtc or self.has_gap:
            self.clock()
        self.has_gap = False
        self.ip(TIP_PGE, address)
        self.on = True

    def leave(self, address: int, *, stops: bool) -> None:
        """A branch leaves the traced addresses; stops: for longer."""
        self.ip(TIP_PGD, address)
        if stops:
            self.out += TRACE_STOP
        self.on, self.stopped = False, stops

    def end(self, address: int | None = None) -> None:
        """Tracing ends, in the kernel; address: of the interrupted instruction."""
        if address is not None:
            self.ip(FUP, address)
        self.flush()
        self.cyc()
        self.out += bytes([TIP_PGD])
        self.stack.clear() if self.draw.random() < 0.1 else None
        self.on = False


Branch = tuple[int, int]


@dataclass
class _Task:
    """A thread: what it has still to do."""

    tid: int
    pid: int
    steps: list[tuple[int, int, int, int, str]] = field(default_factory=list)
    position: int = 0
    alive: bool = False
    since: int = 0
    code: _Code = field(default_factory=_Code)
    comm: str = ""


class Machine:
    """Runs the recorded threads on CPUs and writes traces and side-band."""

    def __init__(self, steps: Steps, options: Options) -> None:
        self.options = options
        self.draw = random.Random(options.seed)
        self.tasks: dict[int, _Task] = {}
        self.truth: dict[int, list[Branch]] = {}
        self.side: list[tuple[int, Any, _Task, int]] = []  # time, record, tid, cpu
        self.marks: list[int] = []  # ticks at marks
        self.own: list[tuple[int, _Task, int, int, int]] = []  # samples: time, task, cpu, address, bytes of trace before
        self._until_sample = options.samples
        first = steps.events[0][1]
        for kind, tid, one, two, three, text in steps.events:
            if kind == FORK and one not in self.tasks:
                self.tasks[one] = _Task(one, one if two else self.tasks[tid].pid)
            if tid not in self.tasks:
                self.tasks[tid] = _Task(tid, tid)
            task = self.tasks[tid]
            task.steps.append((kind, one, two, three, text))
        self.tasks[first].alive = True
        self.writers: dict[int, Writer] = {}
        self.current: dict[int, int] = {}
        self.pieces: dict[int, list[tuple[int, bytes]]] = {}

    def run(self) -> None:
        """Run everything."""
        cpus = 1 if self.options.per_thread else self.options.cpus
        clocks = [1_000_000 + 7 * cpu for cpu in range(cpus)]
        turn = dict.fromkeys(range(cpus), 0)
        while True:
            if not any(task.alive for task in self.tasks.values()):
                break
            cpu = min(range(cpus), key=clocks.__getitem__)
            mine = [task for number, task in enumerate(self.tasks.values()) if number % cpus == cpu and self._can_run(task)]
            if not mine:
                clocks[cpu] = min(clock for one, clock in enumerate(clocks) if one != cpu) + 1
                continue
            turn[cpu] += 1
            task = mine[turn[cpu] % len(mine)]
            clocks[cpu] = self._run_slice(task, cpu, clocks[cpu])
        for writer in self.writers.values():
            writer.flush()

    def _can_run(self, task: _Task) -> bool:
        """Whether a thread can run: the last instructions of a process wait for its threads."""
        is_last = len(task.steps) - task.position < 3 * self.options.slice
        return task.alive and not (
            is_last
            and any(one.alive and one.pid == task.pid and one is not task and one.tid != one.pid for one in self.tasks.values())
            and task.tid == task.pid
        )

    def _run_slice(self, task: _Task, cpu: int, clock: int) -> int:
        key = task.tid if self.options.per_thread else cpu
        writer = self.writers.setdefault(key, Writer(self.options, random.Random(self.options.seed + key % 7)))
        moment = max(clock, writer.ticks, task.since) + 50
        if writer.out:
            writer.tick(moment - writer.ticks)
        writer.ticks = moment
        before = self.current.get(cpu)
        if before != task.tid:
            if before is None:
                self._note(records.ItraceStart(0, task.pid, task.tid), writer, task, cpu)
            else:
                old = self.tasks[before]
                self._switch(old, writer, cpu, True)
                writer.tick(400)
                self._switch(task, writer, cpu, False, old)
            writer.tick(40)
            self.current[cpu] = task.tid
        writer.stopped = False
        left = self.options.slice // 2 + self.draw.randrange(self.options.slice)
        truth = self.truth.setdefault(task.tid, [])
        steps, position = task.steps, task.position
        while left > 0 and position < len(steps):
            kind, one, two, three, text = steps[position]
            position += 1
            if kind == STEP:
                following = self._next_step(task, position)
                self._step(task, writer, one, (two, three), following, truth, steps[position : position + 1])
                left -= 1
                self._until_sample -= 1
                if self.options.samples and self._until_sample <= 0 and following:
                    self._until_sample = self.options.samples
                    writer.flush()
                    if writer.on:
                        writer.end(following)
                        truth.append((following, 0))
                    self.own.append((nanoseconds(writer.ticks), task, cpu, following, len(writer.out)))
                    writer.tick(60)
                if not writer.on and not following:
                    continue
                if not writer.on:
                    left -= 20
            else:
                self._event(task, writer, cpu, kind, one, two, three, text)
        task.position = position
        if position >= len(steps):
            task.alive = False
        elif writer.on:
            following = self._next_step(task, position)
            writer.end(following)
            truth.append((following, 0))
        return writer.ticks

    def _next_step(self, task: _Task, position: int) -> int:
        for kind, one, *_ in task.steps[position : position + 50]:
            if kind == STEP:
                return one
        return 0

    def _step(  # noqa: C901  one branch a kind of instruction
        self, task: _Task, writer: Writer, at: int, unnamed: tuple[int, int], following: int, truth: list[Branch], after: list[Any]
    ) -> None:
        """One instruction, and where the next one of the thread is."""
        options, draw = self.options, self.draw
        if not writer.on and (writer.stopped or not self._is_traced(task, at)):
            writer.ticks += 2  # without packets
            writer.has_gap = True
            return
        if not writer.on:
            writer.begin(at)
            truth.append((0, at))
        elif len(writer.out) - writer.last_psb > options.psb_bytes:
            writer.psb(at)
        one = task.code.at(at, unnamed)
        if one.marks:
            self.marks.append(writer.ticks)
        writer.tick(draw.randrange(1, 4))
        if options.overflows and draw.random() < options.overflows and following:
            self._overflow(writer, following, truth)
            return
        end = at + one.size
        signalled = bool(after) and after[0][0] == SIGNAL
        if one.kind == _SYSCALL and options.kernel and following:
            self._run_kernel(writer, at, following, truth)
            return
        if one.kind == _SYSCALL:
            writer.end()
            truth.append((at, 0))
            writer.tick(500)
            return
        if not following:
            return
        if signalled and one.kind == _NEXT:
            writer.end(end if following != at else at)
            truth.append((end if following != at else at, 0))
            return
        if one.kind == _NEXT:
            if following not in (end, at):  # a fault or a signal
                writer.end(at)
                truth.append((at, 0))
                writer.tick(300)
                return
        elif one.kind == _CONDITIONAL:
            if following not in (end, one.target):
                writer.end(at)
                truth.append((at, 0))
                return
            if self._leaves(task, writer, at, following, truth):
                return
            writer.bit(following == one.target)
            if following == one.target:
                truth.append((at, following))
        elif one.kind in (_JUMP, _CALL):
            if one.kind == _CALL and one.target != end:
                self._push(writer, end)
            if self._leaves(task, writer, at, following, truth):
                return
            truth.append((at, following))
        elif one.kind == _RETURN:
            top = writer.stack.pop() if writer.stack else 0
            if self._leaves(task, writer, at, following, truth):
                return
            if options.compresses_returns and top == following:
                writer.bit(True)
            else:
                writer.ip(TIP, following)
            truth.append((at, following))
        else:
            if one.kind == _INDIRECT_CALL:
                self._push(writer, end)
            if self._leaves(task, writer, at, following, truth):
                return
            writer.ip(TIP, following)
            truth.append((at, following))
        if options.ptwrites and draw.random() < options.ptwrites:
            writer.flush()
            writer.cyc()
            writer.out += b"\x02\xb2" + draw.getrandbits(64).to_bytes(8, "little")
            writer.ip(FUP, following)
        if options.power and draw.random() < options.power:
            self._change_power(writer, following)
        if options.events and draw.random() < options.events:
            self._tell_events(writer, following)
        if options.pebs and draw.random() < options.pebs:
            self._record(writer, following)
        if draw.random() < options.interrupts:
            if options.events:
                writer.flush()
                writer.cyc()
                writer.out += b"\x02\x53" + draw.randbytes(9) if draw.random() < 0.5 else b""
                writer.out += b"\x02\x13\x01" + draw.randbytes(1)
            writer.end(following)
            truth.append((following, 0))
            writer.tick(600)

    def _is_traced(self, task: _Task, address: int) -> bool:
        """Whether an instruction is traced: it is in a filter, if there are some, and does not stop tracing."""
        ranges = task.code.ranges
        hits = [action for action, begin, end in ranges if begin <= address < end]
        return "stop" not in hits and ("filter" in hits or all(action != "filter" for action, *_ in self.options.filters))

    def _leaves(self, task: _Task, writer: Writer, at: int, following: int, truth: list[Branch]) -> bool:
        """End tracing if a branch leads to where nothing is traced."""
        if not self.options.filters or self._is_traced(task, following):
            return False
        stops = any(action == "stop" and begin <= following < end for action, begin, end in task.code.ranges)
        writer.leave(following, stops=stops)
        truth.append((at, following))
        return True

    def _change_power(self, writer: Writer, following: int) -> None:
        """MWAIT, the entry of a power state, its exit, a stop of the core, with an address or without, or a PTWRITE without one."""
        draw = self.draw
        writer.flush()
        writer.cyc()
        kind = draw.randrange(6)
        if kind <= 1:
            writer.out += b"\x02\xc2" + draw.randbytes(4) + b"\1\0\0\0" + (b"\x02\x22" + draw.randbytes(2) if kind else b"")
        else:
            writer.out += (b"\x02\xe2", b"\x02\x62", b"\x02\xa2" + draw.randbytes(5), b"\x02\x12" + draw.randbytes(4))[kind - 2]
        if kind <= 2:
            writer.ip(FUP, following)

    def _tell_events(self, writer: Writer, following: int) -> None:
        """A change of the interrupt flag at an instruction or by the next branch with a TIP packet, or an event with an address."""
        draw = self.draw
        writer.flush()
        writer.cyc()
        kind = draw.randrange(4)
        if kind <= 1:
            writer.out += b"\x99" + bytes([1 | draw.randrange(2) << 2])
        else:
            for _ in range(draw.randrange(3)):
                writer.out += b"\x02\x53" + bytes([draw.randrange(5)]) + draw.randbytes(8)
            writer.out += b"\x02\x13" + bytes([0x80 | draw.randrange(1, 13), draw.randrange(256)])
        if kind:
            writer.ip(FUP, following)

    def _record(self, writer: Writer, following: int) -> None:
        """A record of PEBS: blocks of values, with an address or without."""
        draw = self.draw
        writer.flush()
        writer.cyc()
        basic = {0: following, 1: draw.choice((1, 2, 3)), 2: writer.ticks}
        blocks = {4: {one: value for one, value in basic.items() if draw.random() < 0.8}}
        if draw.random() < 0.7:
            blocks[1] = {one: draw.getrandbits(64) for one in range(18)}
        if draw.random() < 0.7:
            blocks[5] = {0: draw.getrandbits(47), 1: draw.getrandbits(8), 2: draw.choice((draw.getrandbits(12), draw.getrandbits(44)))}
            blocks[5][3] = draw.getrandbits(40)
        if draw.random() < 0.5:
            blocks[8] = {one: draw.getrandbits(47) for one in range(3 * draw.randrange(1, 10))}
        for kind, items in blocks.items():
            writer.out += b"\x02\x63" + bytes([kind])
            for one, value in items.items():
                writer.out += bytes([one << 3 | 4]) + value.to_bytes(8, "little")
        has_address = draw.random() < 0.5
        writer.out += b"\x02\xb3" if has_address else b"\x02\x33"
        if has_address:
            writer.ip(FUP, following)

    def _run_kernel(self, writer: Writer, at: int, following: int, truth: list[Branch]) -> None:
        """A system call in the synthetic kernel: calls of a function with a loop, and the return to the program."""
        draw, base = self.draw, KERNEL
        writer.ip(TIP, base)
        truth.append((at, base))
        is_again = True
        while is_again:
            self._push(writer, base + 0x08)
            truth.append((base + 0x03, base + 0x10))
            for taken in [True] * draw.randrange(4) + [False]:
                writer.bit(taken)
                truth.extend([(base + 0x12, base + 0x10)] if taken else [])
                writer.tick(draw.randrange(1, 4))
            writer.stack.pop()
            writer.bit(True) if self.options.compresses_returns else writer.ip(TIP, base + 0x08)
            truth.append((base + 0x14, base + 0x08))
            is_again = draw.random() < 0.6
            writer.bit(is_again)
            truth.extend([(base + 0x08, base + 0x03)] if is_again else [])
        writer.tick(30)
        writer.ip(TIP, following)
        truth.append((base + 0x0D, following))

    @staticmethod
    def _push(writer: Writer, address: int) -> None:
        writer.stack.append(address)
        del writer.stack[:-64]

    def _overflow(self, writer: Writer, following: int, truth: list[Branch]) -> None:
        writer.flush()
        writer.out += OVF
        writer.last_ip = 0
        writer.stack.clear()
        writer.tick(1)
        writer.ip(FUP, following)
        truth.append((0, following))

    def _event(self, task: _Task, writer: Writer, cpu: int, kind: int, one: int, two: int, three: int, text: str) -> None:
        if kind == MAP:
            path = text or ANONYMOUS
            if path.startswith("/") or path == "[vdso]":
                for other in self.tasks.values():
                    if other.pid == task.pid:
                        other.code = task.code
                task.code.map(one, two, three, path)
                for action, file, offset, size in self.options.filters:
                    if file == path and three <= offset < three + two:
                        begin = one + offset - three
                        task.code.ranges.append((action, begin, begin + size))
                self._note(records.Mmap2(2, task.pid, task.tid, one, two, three, 8, 1, len(path), 0, 5, 2, path, b""), writer, task, cpu)
        elif kind == COMM:
            task.comm = text
            self._note(records.Comm(0x2000, task.pid, task.tid, text), writer, task, cpu)
        elif kind == FORK:
            child = self.tasks[one]
            child.alive = True
            child.comm = task.comm
            child.since = writer.ticks + 100
            if two:
                child.code._maps = dict(task.code._maps)
            else:
                child.code = task.code
            self._note(records.Fork(0, child.pid, task.pid, one, task.tid, nanoseconds(writer.ticks)), writer, task, cpu)
        elif kind == EXIT:
            self._note(records.Exit(0, task.pid, task.pid, task.tid, task.tid, nanoseconds(writer.ticks)), writer, task, cpu)

    def _switch(self, task: _Task, writer: Writer, cpu: int, out: bool, other: _Task | None = None) -> None:
        misc = 0x2000 if out else 0
        if self.options.per_thread:
            return
        if self.options.switches == 3:
            other = other or task
            self._note(records.SwitchCpuWide(misc, other.pid, other.tid), writer, task, cpu)
        elif self.options.switches == 2:
            self._note(records.Switch(misc), writer, task, cpu)

    def _note(self, record: Any, writer: Writer, task: _Task, cpu: int) -> None:
        self.side.append((nanoseconds(writer.ticks), record, task, cpu))


def kernel_file() -> bytes:
    """The synthetic kernel as a vmlinux."""
    elf = Elf(type=ET_EXEC).section(".text", KERNEL_CODE.ljust(0x1000, b"\x90"), flags=ALLOC | EXEC, addr=KERNEL, offset=0x1000)
    elf.segment(KERNEL, 0x1000, 0x1000).symbol("_text", KERNEL, type=NOTYPE)
    return elf.symbol("entry", KERNEL, 0x10).symbol("work", KERNEL + 0x10, 5).symbol("_etext", KERNEL + 0x1000, type=NOTYPE).build()


def pt_recording(  # noqa: C901  one branch a part of the file
    steps: Steps, options: Options | None = None
) -> tuple[bytes, dict[int, list[Branch]]]:
    """A perf.data of a command's steps, and its branches by thread."""
    options = options or Options()
    machine = Machine(steps, options)
    machine.run()
    if options.runs_of_bytes:
        _repeat(machine, options.runs_of_bytes)
    cpu = 0 if options.per_thread else SampleType.CPU
    time = SampleType.TIME if options.tsc else 0
    fields = SampleType.IP | SampleType.TID | time | cpu | SampleType.IDENTIFIER
    config = 0x2001 | (TSC_BIT if options.tsc else 0) | (0 if options.compresses_returns else NORETCOMP_BIT)
    config |= (POWER_BIT if options.power else 0) | (EVENT_BIT if options.events else 0)
    config |= (MTC_BIT | _MTC_PERIOD << 14 if options.mtc else 0) | (CYC_BIT | options.cyc_thresh << 19 if options.cyc else 0)
    shared: dict[str, Any] = {"sample_id_all": 1, "freq": 0, "exclude_kernel": int(not options.kernel), "exclude_hv": 1}
    tracer = EventAttr(type=PT_TYPE, config=config, sample_type=fields, sample_period=1, **shared)
    dummy = EventAttr(type=1, config=9, sample_type=fields, mmap=1, comm=1, task=1, mmap2=1, context_switch=1, sample_period=1, **shared)
    own = SampleType.IP | SampleType.TID | time | cpu | SampleType.PERIOD | SampleType.IDENTIFIER
    with_aux = SampleType.AUX if options.aux_samples else 0
    counter = EventAttr(type=0, sample_type=own | with_aux, sample_period=1000, aux_sample_size=options.aux_samples, **shared)
    pebs = EventAttr(
        type=0,
        config=1,
        sample_period=77,
        precise_ip=2,
        aux_output=1,
        sample_type=own | PEBS_FIELDS | (SampleType.CALLCHAIN if options.pebs_calls else 0),
        **PEBS_MASKS,
        **shared,
    )
    attrs, names = [tracer, dummy], ["intel_pt//", "dummy:"] if options.kernel else ["intel_pt//u", "dummy:u"]
    if options.samples:
        attrs.append(counter)
        names.append("cycles:u")
    if options.pebs:
        attrs += [pebs, pebs.copy(sample_period=99)]
        names += ["instructions:u", "instructions:uP"]
    idents = [tuple(101 * (number + 1) + 1000 * cpu for cpu in range(len(machine.writers))) for number in range(len(attrs))]
    built = PerfDataBuilder(attrs, idents)
    if options.samples or options.pebs:
        keys = sorted(machine.writers)
        places_of = [(-1, key) if options.per_thread else (key, -1) for key in keys]
        entries = []
        for ids in idents:
            for index, ident in enumerate(ids):
                entries.append(IdIndexEntry(ident, index, *(number & (1 << 64) - 1 for number in places_of[index])))
        built.record(IdIndex(0, tuple(entries)))
    switches = 0 if options.per_thread else options.switches
    words: tuple[int, ...] = (PT_TYPE, _SHIFT, _MULT, _ZERO, 1, TSC_BIT, NORETCOMP_BIT, switches, 0, int(not options.per_thread))
    words += (MTC_BIT, MTC_FREQUENCY, _CRYSTAL, 1, CYC_BIT, 24)
    words += (*filter_words(options)[:-1], int(bool(options.events)))
    built.record(AuxtraceInfo(0, 1, words))
    if options.jitdump:
        built.record(TimeConv(0, _SHIFT, _MULT, _ZERO))
        _stamp(options.jitdump, machine.marks)
    if options.kernel:
        stamp = SampleId(pid=0, tid=0, time=0, cpu=0, identifier=202, id=202)
        kernel = records.Mmap(1, 0xFFFFFFFF, 0, KERNEL, 0x200000, KERNEL, "[kernel.kallsyms]_text")
        built.record(kernel._replace(sample_id=stamp), event=1)
    if options.pebs:
        for number, event in enumerate((len(attrs) - 2, len(attrs) - 1)):
            for key, ident in zip(sorted(machine.writers), idents[event], strict=True):
                stamp = SampleId(pid=0, tid=0, time=2000, cpu=0 if options.per_thread else key, identifier=ident, id=ident)
                built.record(records.AuxOutputHwId(0, number)._replace(sample_id=stamp), event=event)
    noted: list[tuple[int, int, Any]] = [(one[0], index, one) for index, one in enumerate(machine.side)]
    noted += [(one[0], len(noted) + index, one) for index, one in enumerate(machine.own)]
    for _, _, one in sorted(noted, key=lambda one: one[:2]):
        if len(one) == _SAMPLE_PARTS:
            moment, task, number, address, end = one
            key = task.tid if options.per_thread else number
            ident = idents[2][sorted(machine.writers).index(key)]
            before = bytes(machine.writers[key].out[max(end - options.aux_samples, 0) : end]) if options.aux_samples else b""
            values = {"ip": address, "pid": task.pid, "tid": task.tid, "time": moment, "cpu": number, "period": 1000}
            built.sample(2, **values, identifier=ident, id=ident, aux=before, misc=2)
            continue
        moment, record, task, number = one
        stamp = SampleId(pid=task.pid, tid=task.tid, time=moment, cpu=number, identifier=202, id=202)
        built.record(record._replace(sample_id=stamp), event=1)
    places: list[int] = []  # of the AUXTRACE records in the data section
    for index, (key, writer) in enumerate(sorted(machine.writers.items())):
        trace = b"" if options.aux_samples else bytes(writer.out)
        offset = 0
        while offset < len(trace):
            end = trace.find(PSB, offset + options.piece) if options.piece else -1  # packets are never split
            part = trace[offset : end if end > 0 else len(trace)]
            size = len(part)
            part += bytes(-size % 8)
            tid, number = (key, 0xFFFFFFFF) if options.per_thread else (0xFFFFFFFF, key)
            places.append(len(built.body))
            built.record(Auxtrace(0, len(part), offset, writer.first_tick, index, tid, number)).raw(part)
            offset += size
    built.feature(Feature.ARCH, "x86_64").feature(Feature.NRCPUS, CpuCount(options.cpus, options.cpus))
    described = [EventDesc(attr, name, ids) for attr, name, ids in zip(built.attrs, names, built.ids, strict=True)]
    built.feature(Feature.EVENT_DESC, described)
    begin = built.file().index(bytes(built.body[:_AUXTRACE_SIZE]))
    index_bytes = b"".join(struct.pack("<2Q", begin + at, _AUXTRACE_SIZE) for at in places)
    built.features[Feature.AUXTRACE] = struct.pack("<Q", len(places)) + index_bytes
    return built.file(), machine.truth


def _repeat(machine: Machine, size: int) -> None:
    """Let the trace of the only CPU go on with copies, as many ticks later as keep the payloads of TMA and MTC packets."""
    (writer,) = machine.writers.values()
    trace, offset, stamps, reader = bytes(writer.out), 0, [], PacketReader()
    while offset < len(trace):
        packet = reader.read(memoryview(trace), offset)
        assert packet is not None
        if packet.kind == "TSC":
            stamps.append((offset + 1, packet.value))
        offset += packet.length
    step, count = _CRYSTAL << 16, 1
    step *= (writer.ticks - writer.first_tick) // step + 1
    while len(writer.out) < size:
        part = bytearray(trace)
        for position, ticks in stamps:
            part[position : position + 7] = (ticks + count * step).to_bytes(7, "little")
        writer.out += part
        count += 1
    later = nanoseconds(count * step) - nanoseconds(0)
    machine.side = [(time + (later if isinstance(record, records.Exit) else 0), record, *rest) for time, record, *rest in machine.side]


def filter_words(options: Options) -> tuple[int, ...]:
    """The end of AUXTRACE_INFO: the size of the filter's text, the text in words, and whether the tracer has events."""
    text = ",".join(f"{action} {offset:#x}/{size:#x}@{file}" for action, file, offset, size in options.filters).encode()
    padded = text + bytes(8 - len(text) % 8) if text else b""
    return len(text), *struct.unpack(f"<{len(padded) // 8}Q", padded), 0


def _stamp(path: Path, times: list[int]) -> None:
    """Give times to the records of a jitdump; the last one to those without."""
    data, offset = bytearray(path.read_bytes()), _DUMP_HEADER
    for time in chain(times, repeat(times[-1] if times else _EARLY)):
        if offset + _DUMP_PREFIX > len(data):
            break
        struct.pack_into("<Q", data, offset + 8, time)
        offset += max(struct.unpack_from("<I", data, offset + 4)[0], _DUMP_PREFIX)
    struct.pack_into("<Q", data, _DUMP_HEADER - 8, 1)  # times are ticks
    path.write_bytes(data)


_DUMP_HEADER, _DUMP_PREFIX = 40, 16
_EARLY: Final = 1_000_090  # ticks of the first mappings

# -- a small program

BASE = 0x401000
#: mov ecx,3; dec ecx; jnz; call; jmp; nop; ret; nop; nop; lea rax,[rip]; jmp rax ... syscall
CODE = bytes.fromhex("b903000000 ffc9 75fc e802000000 eb04 90c3 9090 488d0502000000 ffe0 0f05 ebfe")
#: an ELF file for x86-64 without segments, up to its code
HEAD = struct.pack("<4s3B9x2HI3QI6H", b"\x7fELF", 2, 1, 1, 2, 62, 1, BASE, 0, 0, 0, 64, 56, 0, 64, 0, 0).ljust(0x1000, b"\0")


def run_once() -> list[int]:
    """Offsets of the instructions of one run."""
    return [0, *[5, 7] * 3, 9, 0x10, 0x11, 0xE, 0x14, 0x1B, 0x1D]


def steps_of(folder: Path, runs: int = 40, code: bytes = CODE) -> Steps:
    """The steps of a program that runs its code again and again; the kernel jumps back."""
    path, new = folder / "prog", folder / f"prog-{os.getpid()}"
    new.write_bytes(HEAD + code)
    new.replace(path)  # whole at any time: campaigns of fuzzing that run beside each other share it
    events = [(COMM, 7, 0, 0, 0, "prog"), (MAP, 7, BASE, 0x1000, 0x1000, str(path))]
    events += [(STEP, 7, BASE + offset, 0, 0, "") for _ in range(runs) for offset in run_once()]
    return Steps([*events, (EXIT, 7, 0, 0, 0, "")])
