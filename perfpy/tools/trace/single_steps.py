"""The calls of a program that is single-stepped: the third source of `perfpy trace --calls`, without Intel PT and without root.

Each thread stops after each instruction, or after each taken branch on CPUs that can do that (PTRACE_SINGLEBLOCK of ptrace(2)). The
instruction before a stop and the stack pointer tell calls, returns and jumps to other functions apart. Threads and children are followed.
"""

from __future__ import annotations

import ctypes
import errno
import fnmatch
import os
import re
import signal
import time
from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.capture.process_memory import ProcessMemory
from perfpy.capture.session.inputs import Wakeups
from perfpy.capture.targets import Workload, WorkloadEnd
from perfpy.cli.line.option_parsing import fail
from perfpy.disassembly.x86_lengths import LONGEST, BranchKind, branch_of
from perfpy.errors import PerfError, plural
from perfpy.kernel.procfs import PROT_WRITE, ProcFs
from perfpy.symbols.demangling.demangle import demangle
from perfpy.symbols.dso import Dso, DsoKind, user_kind
from perfpy.symbols.files import debug_files, elf_symbols
from perfpy.symbols.files.elf import DAMAGE, read_mini_debug_info
from perfpy.symbols.symbol_table import EMPTY, SymbolTable
from perfpy.tools.trace.function_calls import ENDING, show_calls, status_of, tell
from perfpy.views.readable import command_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.kernel.procfs import ProcMapping
    from perfpy.tools.trace.function_calls import CallLog, CallOptions
    from perfpy.tools.trace.options import TraceCommandOptions


_MOST_TASKS: Final = 256  # followed at a time
_MOST_RUNS: Final = 1 << 20  # kept of a process
_AHEAD: Final = 512  # bytes of code that are read at once
_LONGEST_RUN: Final = 64  # instructions
_MOST_RUNS_IN_A_STEP: Final = 4096
_TICK: Final = 0.1  # seconds between two looks at the limit while the program waits
_MOST_NOTES: Final = 10
_MOST_FRAME: Final = 64 << 10  # bytes of a signal's frame
_KILLED: Final = 128


_INTEL_PT: Final = "/sys/bus/event_source/devices/intel_pt"


def trace_single_steps(options: TraceCommandOptions, chosen: CallOptions) -> int:
    """Show the calls of a command that is single-stepped; return its exit status."""
    if not options.workload:
        fail("single-stepping (--calls without functions, or --calls-from steps) needs a command to run")
    if os.path.exists(_INTEL_PT):
        tell("note: perfpy record -e intel_pt//u, then perfpy trace --calls -i perf.data, hardly slows the program down")
    stepper = SingleSteps(chosen.log, chosen.patterns, chosen.limit)
    with Wakeups((*ENDING, signal.SIGUSR2, signal.SIGALRM)) as signals, Workload(options.workload) as workload:
        ended = stepper.follow(workload, signals, (*ENDING, signal.SIGUSR2)) & set(ENDING)
        title = f"perfpy trace --calls {command_text(options.workload)}"
        show_calls(options, chosen.log, chosen.log.finish(chosen.length), title, [f"from {stepper.source}", *stepper.notes])
        return status_of(workload, ended)


# -- ptrace(2) -----------------------------------------------------------------------------
#
# Numbers and registers: include/uapi/linux/ptrace.h, arch/x86/include/uapi/asm/ptrace-abi.h and sys/user.h.

_POKEDATA, _POKEUSER, _CONT, _STEP, _GETREGS, _DETACH, _SYSCALL, _BLOCK = 5, 6, 7, 9, 12, 17, 24, 33
_GETEVENTMSG, _GETSIGINFO, _SEIZE, _INTERRUPT, _LISTEN, _GETSIGMASK = 0x4201, 0x4202, 0x4206, 0x4207, 0x4208, 0x420A
_FORK, _VFORK, _CLONE, _EXEC, _STOP = 1, 2, 3, 4, 128  # events
_FOLLOW: Final = 1 | sum(1 << event for event in (_FORK, _VFORK, _CLONE, _EXEC))  # 1: stops at system calls have a signal of their own
_CALL_STOP: Final = signal.SIGTRAP | 0x80
_ALL_CHILDREN: Final = 0x40000000  # __WALL

_R10, _RAX, _RDX, _RSI, _RDI, _CALL, _IP, _CS, _SP = 7, 10, 12, 13, 14, 15, 16, 17, 19  # in user_regs_struct
_REGISTERS: Final = 27
_CODE_64: Final = 0x33  # CS of 64-bit code
_TRAP: Final = 0x100  # TF of the flags
_DEBUG_REGISTERS: Final = 848  # in struct user
_OF_CALL, _OF_STEP, _OF_BRANCH, _OF_BREAKPOINT, _OF_HANDLER = 1, 2, 3, 4, int(signal.SIGTRAP)  # si_code of a stop's SIGTRAP
_TRAP_BIT: Final = 1 << signal.SIGTRAP - 1  # of masks of signals
_GROUP_STOPS: Final = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


class _Tracer:
    """The calls of ptrace(2). Those on threads that were killed have no effect: the end of the thread is reported by wait().

    Attributes:
        registers: of the last stopped thread that read_registers() was called for.
    """

    def __init__(self) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        self._ptrace, self._waitpid = library.ptrace, library.waitpid
        self._ptrace.restype = ctypes.c_long
        self._ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self._waitpid.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
        self.registers = (ctypes.c_uint64 * _REGISTERS)()
        self._information = (ctypes.c_int * 32)()  # siginfo_t
        self._message, self._status = ctypes.c_uint64(), ctypes.c_int()
        self._addresses = [ctypes.addressof(one) for one in (self.registers, self._information, self._message, self._status)]
        self._request = _BLOCK

    def seize(self, pid: int) -> None:
        """Trace a process. Raises PerfError."""
        if self._ptrace(_SEIZE, pid, 0, _FOLLOW):
            problem = os.strerror(ctypes.get_errno())
            scope = ProcFs().setting("kernel.yama.ptrace_scope")
            remedy = f"kernel.yama.ptrace_scope is {scope}" if scope else "a container's or sandbox's filter may forbid ptrace"
            raise PerfError(f"cannot single-step the program: {problem}; {remedy}; --calls=FUNCTIONS needs probes instead, as root")

    def wait(self) -> tuple[int, int]:
        """Wait for a stop or an end; return the thread and its status, (0, 0) if a signal arrived, (-1, 0) if there is no thread left."""
        tid = self._waitpid(-1, self._addresses[3], _ALL_CHILDREN)
        if tid < 0:
            return (0 if ctypes.get_errno() == errno.EINTR else -1), 0
        return tid, self._status.value

    def step(self, tid: int, number: int = 0, *, by_instruction: bool = False) -> None:
        """Resume a thread up to its next instruction or taken branch; number: a signal that it gets."""
        if by_instruction:
            self._ptrace(_STEP, tid, 0, number)
        elif self._ptrace(self._request, tid, 0, number) and ctypes.get_errno() == errno.EIO:  # this kernel or CPU cannot stop at branches
            self._request = _STEP
            self._ptrace(_STEP, tid, 0, number)

    def resume(self, tid: int, number: int = 0, *, to_call: bool = False) -> None:
        """Resume a thread at full speed; to_call: up to the begin or end of a system call."""
        self._ptrace(_SYSCALL if to_call else _CONT, tid, 0, number)

    def listen(self, tid: int) -> None:
        """Leave a thread stopped until its process continues."""
        self._ptrace(_LISTEN, tid, 0, 0)

    def interrupt(self, tid: int) -> None:
        """Stop a thread that waits in the kernel."""
        self._ptrace(_INTERRUPT, tid, 0, 0)

    def detach(self, tid: int, number: int = 0) -> None:
        """Leave a stopped thread alone; number: a signal that it gets."""
        self._ptrace(_DETACH, tid, 0, number)

    def read_registers(self, tid: int) -> None:
        """Read the registers of a stopped thread."""
        self._ptrace(_GETREGS, tid, 0, self._addresses[0])

    def message(self, tid: int) -> int:
        """Return the number that belongs to an event: of the new thread, or of the thread that executed a program."""
        return 0 if self._ptrace(_GETEVENTMSG, tid, 0, self._addresses[2]) else self._message.value

    def signal_code(self, tid: int) -> int:
        """Return si_code of the signal that stopped a thread."""
        return 0 if self._ptrace(_GETSIGINFO, tid, 0, self._addresses[1]) else self._information[2]

    def blocks_trap(self, tid: int) -> bool:
        """Whether a stopped thread blocks SIGTRAP."""
        return not self._ptrace(_GETSIGMASK, tid, 8, self._addresses[2]) and bool(self._message.value & _TRAP_BIT)

    def write(self, tid: int, address: int, word: int) -> None:
        """Write a word of a stopped thread's memory."""
        self._ptrace(_POKEDATA, tid, address, word)

    def set_breakpoint(self, tid: int, address: int) -> bool:
        """Set the only breakpoint of a thread in its debug registers, 0: remove it. Return whether the CPU can."""
        if address and self._ptrace(_POKEUSER, tid, _DEBUG_REGISTERS, address):
            return False
        return not self._ptrace(_POKEUSER, tid, _DEBUG_REGISTERS + 7 * 8, 1 if address else 0)


# -- code ----------------------------------------------------------------------------------


class _StraightRun:
    """Consecutive instructions up to the first branch.

    Attributes:
        last, after: addresses of the last instruction and of the next one.
        kind: of the branch; NONE if the run ends without one.
        target: of a direct branch.
        pushes_flags, pops_flags: whether the last instruction writes the flags to the stack, or takes them from there.
        start, text: the bytes of code that a program can change; None for other code.
        needs_care: whether each of its instructions is stepped.
    """

    __slots__ = ("after", "kind", "last", "needs_care", "pops_flags", "pushes_flags", "start", "target", "text")

    def __init__(self, start: int, last: int, code: bytes, branch: tuple[BranchKind, int], *, can_change: bool) -> None:
        """code: the bytes; branch: its kind and displacement; can_change: whether the program can change the code."""
        self.start, self.last, self.after = start, last, start + len(code)
        self.kind, self.target = branch[0], (self.after + branch[1]) & _MASK
        self.text = code if can_change else None
        self.pushes_flags, self.pops_flags = code[last - start :] in _PUSHF, code[last - start :] in _POPF
        self.needs_care = self.pushes_flags or self.pops_flags or can_change


_MASK: Final = (1 << 64) - 1
_PUSHF, _POPF = (b"\x9c", b"\x66\x9c"), (b"\x9d", b"\x66\x9d")
_MAP_FIXED, _PROT_EXEC = 0x10, 4
_SIGACTION, _SIGRETURN = 13, 15
_NOT_YET: Final = (1 << 64) - errno.ENOSYS  # the result at the begin of a system call
_MMAP, _MPROTECT, _MUNMAP, _MREMAP, _SHMAT, _SHMDT, _PKEY_MPROTECT = 9, 10, 11, 25, 30, 67, 329  # numbers of system calls
_DEFAULT, _IGNORED = 0, 1  # SIG_DFL, SIG_IGN


class _FunctionAtAddress(NamedTuple):
    """A function that is called or left.

    Attributes:
        number: in CallLog.names; -1 if the patterns leave it out.
        begin: its address; 0 if there is no symbol.
        is_stub: whether it is an entry of the procedure linkage table.
    """

    number: int
    begin: int
    is_stub: bool


class _FunctionNames:
    """The symbols of mapped files. patterns: of the functions to show; none for all."""

    def __init__(self, log: CallLog, patterns: Sequence[str]) -> None:
        self._log = log
        self._test = re.compile("|".join(map(fnmatch.translate, patterns))).match if patterns else None
        self._tables: dict[tuple[str, int, int, int], SymbolTable] = {}

    def number(self, name: str) -> int:
        """Return the number of a function; -1 if the patterns leave it out."""
        return self._log.number(name) if self._test is None or self._test(name) else -1

    def find(self, mapping: ProcMapping, pid: int, address: int) -> tuple[str, int]:
        """Return the name of the function at an address, and its begin, 0 if it is unknown."""
        offset = address - mapping.start + mapping.offset
        table = self._table(mapping, pid)
        row = int(table.find(np.array([offset], np.uint64))[0]) if len(table) else -1
        if row >= 0:
            return table.name(row), int(table.symbols.start[row]) - offset + address
        file = mapping.path.rpartition("/")[2]
        return f"{file}+{offset:#x}" if file else f"{address:#x}", 0

    def _table(self, mapping: ProcMapping, pid: int) -> SymbolTable:
        key = mapping.path, mapping.major, mapping.minor, mapping.inode
        table = self._tables.get(key)
        if table is None:
            table, kind = SymbolTable(EMPTY), user_kind(mapping.path)
            if kind in (DsoKind.FILE, DsoKind.VDSO):
                dso = Dso(mapping.path, kind, identity=(*key[1:], 0) if kind is DsoKind.FILE else None)
                dso.pids.add(pid)
                files = debug_files.find(dso, debug_files.SymbolOptions(live=True))
                if files.symbols is not None and files.runtime is not None:
                    try:
                        mini = None if elf_symbols.has_symtab(files.symbols) else read_mini_debug_info(files.runtime)
                        symbols = debug_files.symbols_of(files.symbols, files.runtime, None)
                        table = elf_symbols.table_of(symbols, files.runtime, demangle, mini)
                    except DAMAGE:
                        pass  # its functions have no names
            self._tables[key] = table
        return table


class _SteppedCode:
    """The code of a process, read from its memory.

    Attributes:
        pid: the process.
        runs: address -> run, and the instructions from there to its end.
        handler: what the process does on SIGTRAP: the address of a handler, _DEFAULT or _IGNORED.
    """

    def __init__(self, pid: int, names: _FunctionNames) -> None:
        self.pid, self._names = pid, names
        self.handler = _IGNORED if _mask_of(pid, b"SigIgn") & _TRAP_BIT else _DEFAULT
        self.runs: dict[int, tuple[_StraightRun, int]] = {}
        self._functions: dict[int, _FunctionAtAddress] = {}
        self._mappings: list[ProcMapping] = []
        self._starts: list[int] = []
        self._memory: ProcessMemory | None = None
        try:
            self._memory = ProcessMemory(pid)
        except OSError:
            return  # it has ended
        self._read_mappings()

    def child(self, pid: int) -> _SteppedCode:
        """Return the address space of a forked process."""
        copy = _SteppedCode(pid, self._names)
        copy.runs, copy._functions, copy.handler = self.runs.copy(), self._functions.copy(), self.handler
        return copy

    def close(self) -> None:
        """Close the memory."""
        if self._memory is not None:
            self._memory.close()

    def _read_mappings(self) -> None:
        before = self._mappings
        self._mappings = list(ProcFs().maps(self.pid))
        self._starts = [mapping.start for mapping in self._mappings]
        if not set(before) <= set(self._mappings):
            self.runs.clear()
            self._functions.clear()

    def _mapping(self, address: int) -> ProcMapping | None:
        for attempt in range(2):
            index = bisect_right(self._starts, address) - 1
            if index >= 0 and address < self._mappings[index].end:
                return self._mappings[index]
            if not attempt:
                self._read_mappings()
        return None

    def apply_call(self, registers: ctypes.Array[ctypes.c_uint64]) -> None:
        """Read the mappings again if a system call may have changed those of code; follow what the process does on SIGTRAP."""
        number = registers[_CALL]
        if number == _SIGACTION and registers[_RDI] == signal.SIGTRAP and registers[_RSI] and not registers[_RAX]:
            self.handler = self.word(registers[_RSI])
        if number == _MMAP:
            is_change = bool(registers[_RDX] & _PROT_EXEC or registers[_R10] & _MAP_FIXED)
        elif number in (_MPROTECT, _PKEY_MPROTECT):
            is_change = bool(registers[_RDX] & _PROT_EXEC)
        elif number in (_MUNMAP, _MREMAP):
            end = registers[_RDI] + registers[_RSI]
            is_change = any(mapping.start < end and mapping.end > registers[_RDI] for mapping in self._mappings)
        else:
            is_change = number in (_SHMAT, _SHMDT)
        if is_change:
            self._read_mappings()

    def word(self, address: int) -> int:
        """Return a word of memory, 0 if it is not readable."""
        return int.from_bytes(self._memory.some(address, 8), "little") if self._memory is not None else 0

    def run(self, address: int) -> tuple[_StraightRun, int] | None:
        """Return the run that contains an instruction, and the instructions from there to its end; None if there is no code."""
        known = self.runs.get(address)
        if known is not None:
            run = known[0]
            if run.text is None or (self._memory and self._memory.some(address, run.after - address) == run.text[address - run.start :]):
                return known
        mapping, memory = self._mapping(address), self._memory
        if mapping is None or memory is None:
            return None
        code, position = memory.some(address, _AHEAD), 0
        starts: list[int] = []
        kind, displacement, uses_flags = BranchKind.NONE, 0, False
        while len(starts) < _LONGEST_RUN and not kind and not uses_flags:
            size, kind, displacement = branch_of(code[position : position + LONGEST])
            if not size:
                break
            starts.append(address + position)
            uses_flags = code[position : position + size] in (*_PUSHF, *_POPF)
            position += size
        if not starts:
            return None
        can_change = not mapping.path.startswith("/") or bool(mapping.prot & PROT_WRITE)
        run = _StraightRun(address, starts[-1], code[:position], (kind, displacement), can_change=can_change)
        if len(self.runs) >= _MOST_RUNS:
            self.runs.clear()
        for index, start in enumerate(starts):
            self.runs[start] = run, len(starts) - index
        return self.runs[address]

    def function(self, address: int) -> _FunctionAtAddress:
        """Return the function at an address."""
        known = self._functions.get(address)
        if known is None:
            mapping = self._mapping(address)
            name, begin = (f"{address:#x}", 0) if mapping is None else self._names.find(mapping, self.pid, address)
            is_stub = name.endswith("@plt") or name.startswith(".plt")
            known = self._functions[address] = _FunctionAtAddress(self._names.number(name.removesuffix("@plt")), begin, is_stub)
        return known


# -- threads -------------------------------------------------------------------------------


class _Task:
    """A traced thread.

    Attributes:
        tid, space: the thread and the code of its process.
        ip, sp: where it stopped last.
        executed: the number of instructions.
        is_before_entry: whether it runs to the entry point of a new program.
        has_breakpoint: whether the entry point, or the instruction after the next one, has a breakpoint.
        is_blind: whether it runs from system call to system call: a step while it blocks SIGTRAP would reset its handler (signal(7)).
        stub: the stack pointer and the function of a call to an entry of the procedure linkage table that has not led there yet.
        shifts: of handlers of signals on stacks of their own: what is subtracted from stack pointers, and the stack pointer at their begin.
    """

    def __init__(self, tid: int, space: _SteppedCode) -> None:
        self.tid, self.space = tid, space
        self.ip = self.sp = self.executed = 0
        self.is_before_entry = self.has_breakpoint = self.is_blind = False
        self.stub: tuple[int, int] = (0, -1)
        self.shifts: list[tuple[int, int]] = []


class SingleSteps:
    """A program that is single-stepped.

    Args:
        log: gets the calls.
        patterns: of functions to show; none for all.
        limit: nanoseconds, after which the program runs at full speed.

    Attributes:
        notes: on what is missing.
    """

    def __init__(self, log: CallLog, patterns: Sequence[str], limit: int) -> None:
        if os.uname().machine != "x86_64":
            raise PerfError(f"single-stepping knows the code of x86-64 only; {os.uname().machine} has probes: --calls=FUNCTIONS, as root")
        self._log, self._names, self._limit = log, _FunctionNames(log, patterns), limit
        self._tracer = _Tracer()
        self._tasks: dict[int, _Task] = {}
        self._is_ending = False
        self._first = self._before = self._stepping = self._executed = 0
        self.notes: list[str] = []

    def follow(self, workload: Workload, signals: Wakeups, ending: Sequence[int]) -> set[int]:
        """Step the program up to its end, a signal, the call of --when or the limit; return the signals that arrived."""
        self._tracer.seize(workload.pid)
        self._tasks[workload.pid] = task = _Task(workload.pid, _SteppedCode(workload.pid, self._names))
        task.is_before_entry = True
        signal.setitimer(signal.ITIMER_REAL, _TICK, _TICK)
        arrived: set[int] = set()
        try:
            workload.release()
            while self._tasks:
                if signals.arrived:
                    arrived |= signals.read() & set(ending)
                if not self._is_ending and (arrived or self._log.cause is not None or self._is_over()):
                    self._hand_over()
                tid, status = self._tracer.wait()
                if tid < 0:
                    break
                if not tid:
                    continue
                if status & 0xFF == 0x7F:
                    self._stopped(tid, status)
                else:
                    self._ended(tid)
                    if tid == workload.pid:
                        workload.ended = WorkloadEnd(status, 0.0, 0.0)
                        self._hand_over()  # its children that are left
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for task in self._tasks.values():
                task.space.close()
        workload.confirm()
        return arrived

    @property
    def source(self) -> str:
        """How the calls were found."""
        count = self._executed + sum(task.executed for task in self._tasks.values())
        slower = float(f"{self._stepping / max(count, 1):.1g}")  # of an instruction in a nanosecond
        return f"single-stepped: {count:,} {plural(count, 'instruction')}" + (f", about {slower:,.0f} times slower" if count else "")

    def _note(self, text: str) -> None:
        if text not in self.notes and len(self.notes) < _MOST_NOTES:
            self.notes.append(text)

    def _is_over(self) -> bool:
        if not self._first or time.monotonic_ns() - self._first <= self._limit:
            return False
        self._note(f"handed over after {self._limit / 1e9:g} s: the program ran on at full speed; later calls are missing")
        return True

    def _hand_over(self) -> None:
        """Detach all threads when they stop. Those in the kernel are interrupted, because only stopped threads can be detached."""
        self._is_ending = True
        for tid in self._tasks:
            self._tracer.interrupt(tid)

    def _ended(self, tid: int) -> None:
        task = self._tasks.pop(tid, None)
        if task is not None:
            self._executed += task.executed
            self._log.abandon(tid, time.monotonic_ns())
            if not any(one.space is task.space for one in self._tasks.values()):
                task.space.close()

    # -- stops

    def _stopped(self, tid: int, status: int) -> None:
        event, number = status >> 16, status >> 8 & 0xFF
        task = self._tasks.get(tid)
        if event == _EXEC:
            self._executes(tid)
            return
        if task is None:
            task = self._add(tid)
        if event == _STOP:
            if number in _GROUP_STOPS and not self._is_ending:
                self._tracer.listen(tid)
            else:
                self._go_on(task)
        elif event:
            self._go_on(task)
        elif number == _CALL_STOP:
            self._calls(task)
        elif number == signal.SIGTRAP:
            self._trapped(task)
        else:
            self._go_on(task, number)

    def _trapped(self, task: _Task) -> None:
        """Apply a stop by SIGTRAP: of a step, of the breakpoint at the entry point, or the program's own signal."""
        code = self._tracer.signal_code(task.tid)
        if code == _OF_BREAKPOINT and task.has_breakpoint:
            self._tracer.set_breakpoint(task.tid, 0)
            task.has_breakpoint = False
            if task.is_before_entry:
                task.is_before_entry = False
                self._begin(task)
            else:
                self._moved(task, is_handler=False)
        elif code in (_OF_CALL, _OF_STEP, _OF_BRANCH, _OF_HANDLER):
            if not task.is_before_entry and not task.is_blind:
                self._moved(task, is_handler=code == _OF_HANDLER)
                if task.space.handler > _IGNORED and self._tracer.blocks_trap(task.tid):
                    task.is_blind = True
                    self._note("calls are missing while the program blocked SIGTRAP, which it handles")
        else:
            self._go_on(task, signal.SIGTRAP if task.space.handler != _IGNORED else 0)
            return
        self._go_on(task)

    def _calls(self, task: _Task) -> None:
        """Apply the begin or the end of a system call of a thread that is not stepped; step it if it no longer blocks SIGTRAP."""
        self._tracer.read_registers(task.tid)
        registers = self._tracer.registers
        if registers[_RAX] == _NOT_YET:
            self._tracer.resume(task.tid, to_call=True)
            return
        task.space.apply_call(registers)
        task.is_blind = self._tracer.blocks_trap(task.tid)
        task.ip, task.sp = registers[_IP], registers[_SP]
        if task.shifts and registers[_CALL] == _SIGRETURN:
            task.shifts.pop()
        self._go_on(task)

    def _go_on(self, task: _Task, number: int = 0) -> None:
        """Resume a stopped thread; number: a signal that it gets."""
        if self._is_ending:
            self._let_go(task, number)
        elif len(self._tasks) > _MOST_TASKS and not task.executed:
            self._note(f"more than {_MOST_TASKS} threads at a time: some were not followed")
            self._let_go(task, number)
        elif task.is_before_entry:
            self._tracer.resume(task.tid, number)
        elif task.is_blind or (task.space.handler > _IGNORED and self._is_at_call(task)):
            self._tracer.resume(task.tid, number, to_call=True)
        else:
            self._step(task, number)

    def _step(self, task: _Task, number: int) -> None:
        """Step a thread. An instruction that loads the flags is run: the kernel would take its flag of stepping for the program's."""
        known = task.space.runs.get(task.ip)
        if known is not None and known[0].pops_flags and known[0].last == task.ip:
            task.has_breakpoint = self._tracer.set_breakpoint(task.tid, known[0].after)
            if task.has_breakpoint:
                self._tracer.resume(task.tid, number)
                return
        needs_care = known is None or known[0].needs_care or task.space.handler > _IGNORED
        self._tracer.step(task.tid, number, by_instruction=needs_care)

    def _let_go(self, task: _Task, number: int) -> None:
        """Detach a stopped thread. A pending SIGTRAP of its last step, which would kill it, is awaited before."""
        if _mask_of(task.tid, b"SigPnd") & _TRAP_BIT:
            self._tracer.resume(task.tid, number)
            return
        self._tracer.set_breakpoint(task.tid, 0)
        self._tracer.detach(task.tid, number)
        self._ended(task.tid)

    def _add(self, tid: int) -> _Task:
        """Follow a new thread or process."""
        status = ProcFs().status(tid)
        pid, parent = (status.tgid, status.ppid) if status is not None else (tid, 0)
        spaces = {task.space.pid: task.space for task in self._tasks.values()}
        space = spaces.get(pid) or (spaces[parent].child(pid) if parent in spaces else _SteppedCode(pid, self._names))
        task = self._tasks[tid] = _Task(tid, space)
        task.is_blind = space.handler > _IGNORED and self._tracer.blocks_trap(tid)
        return task

    def _executes(self, tid: int) -> None:
        """Begin another program. The other threads of the process are gone, and the thread has the number of the process."""
        now = time.monotonic_ns()
        for one in [task.tid for task in self._tasks.values() if task.space.pid == tid]:
            self._ended(one)
        task = self._tasks[tid] = _Task(tid, _SteppedCode(tid, self._names))
        if tid in self._log.threads:
            self._name(task)
        self._tracer.read_registers(tid)
        registers = self._tracer.registers
        if registers[_CS] != _CODE_64:
            self._note(f"process {tid} executes a 32-bit program, which is not followed")
            self._let_go(task, 0)
            return
        self._first = self._first or now
        entry = _entry_point(tid)
        task.is_before_entry = task.has_breakpoint = entry not in (0, registers[_IP]) and self._tracer.set_breakpoint(tid, entry)
        if not task.is_before_entry:
            self._begin(task)
        self._go_on(task)

    def _begin(self, task: _Task) -> None:
        self._tracer.read_registers(task.tid)
        task.ip, task.sp = self._tracer.registers[_IP], self._tracer.registers[_SP]
        self._before = time.monotonic_ns()

    # -- steps

    def _moved(self, task: _Task, *, is_handler: bool) -> None:
        """Apply a step: from the place of the last stop to that of this one."""
        now, registers = time.monotonic_ns(), self._tracer.registers
        self._tracer.read_registers(task.tid)
        source, sp_before, ip, sp = task.ip, task.sp, registers[_IP], registers[_SP]
        task.ip, task.sp = ip, sp
        elapsed, self._before = now - self._before, now
        if is_handler:
            self._enter_handler(task, now, sp_before)
            return
        if not source:  # of a new thread
            return
        space = task.space
        for _ in range(_MOST_RUNS_IN_A_STEP):
            known = space.runs.get(source)
            if known is None or known[0].text is not None:
                known = space.run(source)
                if known is None:
                    return
            run, left = known
            if source < ip <= run.last:
                task.executed += left - space.runs.get(ip, (run, 0))[1]
                self._stepping += elapsed
                return
            if ip == source and not (run.last == source and run.kind and ip in (run.target, run.after)):
                return  # another round of a repeated instruction, or a signal
            task.executed += left
            if run.kind is BranchKind.SYSTEM_CALL:
                self._return_from_call(task, run)
                return
            if ip == run.after and run.kind in _MAY_GO_ON:
                if run.pushes_flags:  # without the flag of single-stepping
                    self._tracer.write(task.tid, sp, space.word(sp) & ~_TRAP)
                self._stepping += elapsed
                return
            if run.kind in _MAY_GO_ON and (run.kind is BranchKind.NONE or ip != run.target):
                source = run.after
                continue
            self._stepping += elapsed
            self._branch(task, run, now)
            return

    def _branch(self, task: _Task, run: _StraightRun, now: int) -> None:
        """Apply a taken branch."""
        log, tid, ip, sp, space = self._log, task.tid, task.ip, task.sp, task.space
        if task.shifts:
            sp = self._shifted(task)
        log.executed[tid] = task.executed
        if run.kind in _CALLS:
            if ip == run.after and run.kind is BranchKind.CALL:  # reads the instruction pointer
                return
            function = space.function(ip)
            log.leave_gone(tid, now, sp + 1)
            if function.is_stub:
                task.stub = sp, function.number
            else:
                self._enter(task, now, function.number, sp)
            return
        log.leave_gone(tid, now, sp)
        if run.kind in _JUMPS:
            function = space.function(ip)
            if task.stub[0] == sp and not function.is_stub:
                number = function.number if function.begin == ip else task.stub[1]
                task.stub = 0, -1
                self._enter(task, now, number, sp)
            elif function.begin == ip and not function.is_stub and space.function(run.last).begin != ip:
                self._enter(task, now, function.number, sp)

    def _enter(self, task: _Task, now: int, function: int, pointer: int) -> None:
        if function < 0:
            return
        if task.tid not in self._log.threads:
            self._name(task)
        self._log.enter(task.tid, now, function, pointer)

    def _name(self, task: _Task) -> None:
        status = ProcFs().status(task.tid)
        self._log.threads[task.tid] = task.space.pid, status.comm if status else f":{task.tid}"

    def _enter_handler(self, task: _Task, now: int, interrupted: int) -> None:
        """Begin the call of a signal's handler. Above the interrupted code on a stack of its own, it must not seem to leave that code."""
        before = task.shifts[-1][0] if task.shifts else 0
        shift = before + (task.sp - interrupted + 256 if task.sp > interrupted else 0)
        task.shifts.append((shift, task.sp))
        self._log.executed[task.tid] = task.executed
        self._enter(task, now, task.space.function(task.ip).number, task.sp - shift)

    def _shifted(self, task: _Task) -> int:
        """Return the stack pointer as on one stack; forget handlers that siglongjmp() has left."""
        while task.shifts and task.shifts[-1][0] and not -_STACK < task.sp - task.shifts[-1][1] < _MOST_FRAME:
            task.shifts.pop()
        return task.sp - (task.shifts[-1][0] if task.shifts else 0)

    def _is_at_call(self, task: _Task) -> bool:
        """Whether the next instruction is a system call."""
        known = task.space.run(task.ip)
        return known is not None and known[0].kind is BranchKind.SYSTEM_CALL and known[0].last == task.ip

    def _return_from_call(self, task: _Task, run: _StraightRun) -> None:
        """Apply a system call."""
        if task.ip != run.after and task.shifts:  # rt_sigreturn
            task.shifts.pop()
        task.space.apply_call(self._tracer.registers)


_STACK: Final = 8 << 20
_MAY_GO_ON: Final = frozenset((BranchKind.NONE, BranchKind.CONDITIONAL))
_CALLS: Final = frozenset((BranchKind.CALL, BranchKind.INDIRECT_CALL))
_JUMPS: Final = frozenset((BranchKind.JUMP, BranchKind.INDIRECT_JUMP, BranchKind.CONDITIONAL))


def _entry_point(pid: int) -> int:
    """Return the entry point of a process's program (AT_ENTRY of getauxval(3)), 0 if it is unknown."""
    words = ProcFs().read(f"{pid}/auxv", 4096)
    for position in range(0, len(words) - 15, 16):
        if int.from_bytes(words[position : position + 8], "little") == 9:
            return int.from_bytes(words[position + 8 : position + 16], "little")
    return 0


def _mask_of(tid: int, name: bytes) -> int:
    """Return a mask of signals of /proc/PID/status, 0 if the thread has ended."""
    _, found, rest = ProcFs().read(f"{tid}/status", 4096).partition(b"\n" + name + b":\t")
    return int(rest.split(b"\n", 1)[0], 16) if found else 0
