"""Look at shells and Go programs again and again while they are recorded: their samples do not say in which line of a script or in which
goroutine they were taken, and a program that waits has no samples; at the connections of other programs that wait for sockets, and the
holders of locks that they wait for; and at the command lines of all processes, the signals that kill them, and CPU limits of cgroups.

Each look reads a process's memory without stopping it, so a call stack can be of two moments; what only few looks saw is not told
(perfpy.analysis.verdict.evidence). The states are counted, and stored with the recording (ObservedState in perfpy.perfdata.kept_files).
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import re
import select
import signal
import struct
import time
from abc import abstractmethod
from collections import Counter
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.light_types import NamedTuple
from perfpy.capture.cgroups import CpuLimit, cpu_limit
from perfpy.capture.process_memory import InterpreterMemory
from perfpy.capture.python_frames.locating import loaded_files
from perfpy.interpreters import bash
from perfpy.interpreters.objects import UnreadableMemoryError
from perfpy.kernel.procfs import ProcFs, children_of, read_state
from perfpy.perfdata.kept_files import BUILD_TOOL, ObservedCommand, ObservedFrame, ObservedState, encode_commands, encode_states
from perfpy.symbols.files import elf

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from perfpy.capture.runtimes.hotspot_monitors import Collections, JvmCounters
    from perfpy.capture.wait_targets import AwaitedLock, Peer
    from perfpy.debuginfo.dies import Die
    from perfpy.debuginfo.units import DebugUnit
    from perfpy.interpreters.goroutines import GoLayout, Goroutine
    from perfpy.kernel.procfs import ProcMapping, ThreadState
    from perfpy.symbols.files.elf import ElfFile


_PAUSE: Final = 0.025  # seconds between looks at a process
_BETWEEN_WAITS: Final = 0.2
_JVM_COUNTERS: Final = b"/hsperfdata_"  # in the path of a JVM's mapped counters
_LOOKS_FOR_JVM: Final = (1, 3, 10, 50)  # numbers of looks at which a JVM is sought: it publishes its counters after its start
_SHARE: Final = 20  # the next look comes after at least 20 times as long as this one took
_MOST_PROCESSES: Final = 64  # that are looked at
_MOST_NEW: Final = 4096  # processes whose program is examined
_MOST_FILES: Final = 256  # programs that are examined
_MOST_STATES: Final = 4096  # different ones
_MOST_PEERS: Final = 64  # addresses of a process
_MOST_THREADS: Final = 16  # of a process whose system calls are read
_MOST_LOCKING: Final = 64  # threads of a process whose locks are looked at
_ARGUMENTS: Final = 3  # of a system call that waits for a lock, at most
_LONGEST_COMM: Final = 64  # bytes
_MOST_CHILDREN: Final = 1 << 17  # of one shell that are told apart
_WAIT4, _WAITID, _READ = 61, 247, 0  # system calls on x86-64
_PAGE: Final = 4096
_GO_SECTIONS: Final = ((".gopclntab", ".data.rel.ro.gopclntab"), (".debug_info", ".zdebug_info"))
_OF_GOROUTINES: Final = frozenset({"sched", "atomicstatus", "waitreason", "gopc", "startpc"})  # members of runtime.g


class _KnownFile(NamedTuple):
    """A program whose processes are looked at: its lowest address, and bash's variables or a Go program."""

    first: int
    variables: dict[str, int]
    go: GoProgram | None


class ObservedStates:
    """The states of the shells and Go programs of a recording.

    Args:
        procfs: of the machine.
        has_stacks: whether waits have stacks. Without them, the system calls of all programs are looked at.
    """

    def __init__(self, procfs: ProcFs | None = None, *, has_stacks: bool = True) -> None:
        self._procfs = procfs or ProcFs()
        self._has_stacks = has_stacks
        self._files: dict[tuple[int, int, int], _KnownFile | None] = {}
        self._others: set[tuple[int, int]] = set()  # device and inode of programs that are neither shells nor Go's
        self._processes: dict[int, _ObservedProcess] = {}
        self._limits: dict[int, tuple[CpuLimit, tuple[int, int]]] = {}  # process -> its CPU limit, and its periods so far
        self._ends = ObservedEnds()
        self._examined = 0

    def note_created(self, pids: Sequence[int]) -> None:
        """Note which signals kill processes that were just created."""
        self._ends.note(pids)

    def note_limits(self, pids: Sequence[int]) -> None:
        """Note how often processes that have just executed a program have reached the CPU limits of their cgroups until now."""
        for pid in pids[: _MOST_PROCESSES - len(self._limits)]:
            if pid not in self._limits and (limit := cpu_limit(pid, self._procfs.root)) is not None:
                self._limits[pid] = limit, limit.periods()

    def note(self, pids: Iterable[int]) -> None:
        """Look at these processes from now on, which have just executed a program, if they are shells or Go programs."""
        for pid in pids:
            if self._examined >= _MOST_NEW:
                return
            self._examined += 1
            old = self._processes.get(pid)
            if old is not None:
                old.end()
            elif len(self._processes) >= _MOST_PROCESSES:
                continue
            try:
                process = self._open(pid) or (_ObservedWaits(pid, self._procfs) if self._has_stacks else _ObservedCalls(pid, self._procfs))
            except (OSError, *elf.DAMAGE):  # the process has ended, or its file is damaged
                continue
            if process is not None:
                self._processes[pid] = process

    def look(self) -> float | None:
        """Look at the processes whose turn has come; return the seconds until the next turn, None without a process."""
        now = time.monotonic()
        alive = [process for process in self._processes.values() if process.is_alive]
        for process in alive:
            if process.due <= now:
                process.look()
                if process.has_executed:
                    self._examined -= 1
                    self.note([process.pid])
                spent = time.monotonic() - now
                now += spent
                process.due = now + max(process.pause, _SHARE * spent)
        pause = max(min((process.due for process in alive), default=now) - now, 0.001) if alive else None
        return min(filter(None, (pause, self._ends.look())), default=None)

    def encoded(self) -> bytes:
        """Return all states for the recording; b"" without any."""
        states = self.states()
        return encode_states(states) if states else b""

    def states(self) -> list[ObservedState]:
        """Return all states."""
        states = [state for process in self._processes.values() for state in process.states()]
        for pid, (limit, before) in self._limits.items():
            periods, reached = (now - then for now, then in zip(limit.periods(), before, strict=True))
            if reached > 0:
                states.append(ObservedState(pid, "limit", periods, reached, f"{limit.cpus:.3g}", [], []))
        return [*states, *self._ends.states()]

    def close(self) -> None:
        """Look at no process any longer."""
        self._ends.close()
        for process in self._processes.values():
            process.end()

    def _open(self, pid: int) -> _ObservedProcess | None:
        program = f"{self._procfs.root}/{pid}/exe"
        file = os.stat(program)
        identity = (file.st_dev, file.st_ino)
        if identity in self._others:
            return None
        path = os.readlink(program)
        mapping = next((one for one in loaded_files(self._procfs.maps(pid, data=True)) if one.path == path), None)
        if mapping is None:
            return None
        key = (mapping.major, mapping.minor, mapping.inode)
        if key not in self._files:
            if len(self._files) >= _MOST_FILES:
                return None
            self._files[key] = None
            self._files[key] = _examine(pid, mapping)
        known = self._files[key]
        if known is None:
            if len(self._others) < _MOST_FILES:
                self._others.add(identity)
            return None
        shift, memory = mapping.start - known.first, InterpreterMemory(pid)
        if known.go is not None:
            return _ObservedGo(pid, memory, known.go, shift)
        addresses = {name: address + shift for name, address in known.variables.items()}
        return _ObservedBash(pid, memory, bash.BashProcess(memory, addresses))


_MOST_PIDFDS: Final = 128  # of living processes, open at once
_LONGEST_LIFE: Final = 0.05  # seconds between looks at whether processes have ended
_PIDFD_GET_INFO: Final = 3 << 30 | 64 << 16 | 0xFF << 8 | 11  # pidfd_open(2): a struct pidfd_info of 64 bytes
_PIDFD_INFO_EXIT: Final = 1 << 3
_PIDFD_INFO: Final = struct.Struct("<Q52xi")  # mask, exit_code: a status as that of wait(2)
_TOLD_SIGNALS: Final = frozenset({"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGSYS", "SIGTRAP", "SIGKILL", "SIGXCPU"})


_KERNEL_LOG: Final = "/dev/kmsg"
_LONGEST_LINE: Final = 8192  # bytes of a record of the kernel's log
_MOST_LINES: Final = 1 << 16
#: a record of a fault, with the thread and the address of the instruction, as "6,123,456,-;app[12]: segfault at 0 ip 00005581 sp ..."
_FAULT: Final = re.compile(
    rb"[^;]*;(?:traps: )?.{0,15}\[(\d{1,10})\](?:: segfault at [0-9a-f]+ ip | trap [a-z0-9 ]+ ip:)([0-9a-f]{1,16})\b", re.DOTALL
)


class ObservedEnds:
    """The signals that killed processes, by descriptors of these (Linux 6.15): only their parents get the status otherwise.

    The kernel's log, if the user may read it, has the instruction of a fault. Processes that end before the recorder has read of them are
    not seen.
    """

    def __init__(self, log: str = _KERNEL_LOG) -> None:
        self._log = log
        self._log_fd = -1
        self._open: dict[int, int] = {}  # pid -> descriptor
        self._poller = select.poll()  # of the descriptors: they are ready when their processes end
        self._signals: dict[int, str] = {}
        self._due = 0.0

    def note(self, pids: Iterable[int]) -> None:
        """Hold these processes, which were just created."""
        if not self._open and self._log:
            with suppress(OSError):  # of another user
                self._log_fd = os.open(self._log, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                os.lseek(self._log_fd, 0, os.SEEK_END)
            self._log = ""
        for pid in pids:
            if len(self._open) >= _MOST_PIDFDS or len(self._signals) >= _MOST_STATES:
                return
            if pid not in self._open:
                with suppress(OSError):
                    self._open[pid] = os.pidfd_open(pid)
                    self._poller.register(self._open[pid], select.POLLIN)
                    self._ask(pid)  # an old kernel does not tell, so that there is nothing to hold

    def look(self) -> float | None:
        """Ask for the ends of the processes that are held; return the seconds until the next look, None without a process."""
        now = time.monotonic()
        if now >= self._due:
            ended = {fd for fd, _ in self._poller.poll(0)}
            for pid in [pid for pid, fd in self._open.items() if fd in ended]:
                self._ask(pid)
            self._due = now + _LONGEST_LIFE
        return max(self._due - now, 0.001) if self._open else None

    def states(self) -> list[ObservedState]:
        """Return the signals that killed processes."""
        for pid in [*self._open]:
            self._ask(pid)
        faults = self._faults() if self._signals else {}
        frames = {pid: [ObservedFrame("", "", faults[pid])] for pid in faults}
        return [ObservedState(pid, "killed", 1, 1, name, frames.get(pid, []), []) for pid, name in self._signals.items()]

    def _faults(self) -> dict[int, int]:
        """Return the address of the instruction at which a process got a signal, from the kernel's log since the first process."""
        faults = {}
        for _ in range(_MOST_LINES if self._log_fd >= 0 else 0):
            try:
                line = os.read(self._log_fd, _LONGEST_LINE)
            except BrokenPipeError:  # records that were overwritten
                continue
            except OSError:  # the end
                break
            if not line:
                break
            if fault := _FAULT.match(line):
                faults[int(fault[1])] = int(fault[2], 16)
        return faults

    def close(self) -> None:
        """Release all processes, and the log."""
        if self._log_fd >= 0:
            os.close(self._log_fd)
            self._log_fd = -1
        for fd in self._open.values():
            self._poller.unregister(fd)
            os.close(fd)
        self._open.clear()

    def _ask(self, pid: int) -> None:
        """Note the signal that killed a process if it has ended and its parent knows it, and release the process then."""
        answer = bytearray(_PIDFD_INFO.size)
        _PIDFD_INFO.pack_into(answer, 0, _PIDFD_INFO_EXIT, 0)
        try:
            fcntl.ioctl(self._open[pid], _PIDFD_GET_INFO, answer)
            mask, status = _PIDFD_INFO.unpack(answer)
            is_over = bool(mask & _PIDFD_INFO_EXIT)
        except OSError as error:  # an old kernel, or one that knows the end no longer
            is_over, status = error.errno != errno.EINTR, 0
        if is_over:
            fd = self._open.pop(pid)
            self._poller.unregister(fd)
            os.close(fd)
            number = status & 0x7F
            with suppress(ValueError):
                if number and (name := signal.Signals(number).name) in _TOLD_SIGNALS:
                    self._signals[pid] = name


_AGES: Final = (0.25, 1.0, 4.0, 16.0)  # seconds after which a process is looked at again: most write their title soon, if at all
_MOST_AGING: Final = 64  # processes that are looked at again; all others are only at the end
_MOST_COMMANDS: Final = 4096
_LONGEST_COMMAND: Final = 4096  # bytes


class ObservedCommands:
    """The command lines of a recording's processes. The workers of a service tell their task there, or are forks of one process.

    A process is looked at some time after its start. Short ones, of which there may be many, are therefore never looked at.
    """

    def __init__(self, procfs: ProcFs | None = None) -> None:
        self._procfs = procfs or ProcFs()
        self._commands: dict[int, ObservedCommand] = {}
        self._due: dict[int, tuple[float, int]] = {}  # pid -> when it is looked at next, and how often it was

    def note(self, pids: Iterable[int]) -> None:
        """Look at these processes from now on, which were just created or have executed a program."""
        now = time.monotonic()
        for pid in pids:
            if len(self._due) < _MOST_COMMANDS:
                self._due[pid] = (now + _AGES[0], 0)

    def look(self) -> float | None:
        """Look at the processes whose turn has come; return the seconds until the next turn, None without a process."""
        if not self._due:
            return None
        now = time.monotonic()
        for pid, (moment, looks) in [*self._due.items()]:
            if moment <= now:
                del self._due[pid]
                is_alive = self._read(pid)
                if is_alive and looks + 1 < len(_AGES) and len(self._due) < _MOST_AGING:
                    self._due[pid] = (now + _AGES[looks + 1] - _AGES[looks], looks + 1)
        return max(min((moment for moment, _ in self._due.values()), default=now) - now, _AGES[0] / 4) if self._due else None

    @property
    def commands(self) -> list[ObservedCommand]:
        """The command lines that were read."""
        return [*self._commands.values()]

    def read(self, pids: Iterable[int]) -> None:
        """Look at processes now."""
        for pid in pids:
            self._read(pid)

    def encoded(self) -> bytes:
        """Return all command lines for the recording, as they are now; b"" for a single process."""
        self.read([*self._commands])
        return encode_commands(self._commands.values()) if len(self._commands) > 1 else b""

    def _read(self, pid: int) -> bool:
        """Read the command line of a process; return False if it has ended."""
        text = self._procfs.read(f"{pid}/cmdline", _LONGEST_COMMAND)
        fields = self._procfs.read(f"{pid}/stat", 1024).rpartition(b") ")[2].split()
        if not text or len(fields) <= _BEGAN or fields[0] in b"ZX":  # also kernel threads
            return False
        old = self._commands.get(pid)
        if old is None and len(self._commands) >= _MOST_COMMANDS:
            return False
        words = naming_words(text.rstrip(b"\0").decode("utf-8", "replace").split("\0"))
        self._commands[pid] = ObservedCommand(pid, int(fields[_PARENT]), int(fields[_BEGAN]), words)
        return True


def current_commands(pids: Iterable[int], procfs: ProcFs | None = None) -> list[ObservedCommand]:
    """Return the command lines of running processes, of their parents and of all children of these, which their names depend on."""
    procfs = procfs or ProcFs()
    observed = ObservedCommands(procfs)
    observed.read(pids)
    parents = {command.parent for command in observed.commands if command.parent > 1}
    observed.read(parents)
    observed.read(child for parent in parents for child in children_of(parent, procfs.threads(parent))[:_MOST_COMMANDS])
    return observed.commands


_PARENT, _BEGAN = 1, 19  # fields of /proc/PID/stat after the state
_INTERPRETER: Final = re.compile(r"(?:python|pypy|node|ruby|perl|php|lua|bash|dash|sh)[\d.-]*[a-z]?")
_TAKES_VALUE: Final = ("-X", "-W", "-r", "--require", "-O")  # options of interpreters that a value follows
_CODE: Final = ("-c", "-e")  # code follows
#: code that starts the workers of libraries
_STARTERS: Final = re.compile(r"from multiprocessing\.\w+ import|import sys;exec\(eval\(sys\.stdin\.readline\(\)\)\)")


_BUILD_TOOL: Final = re.compile(BUILD_TOOL)
_NAMES_PRODUCT: Final = ("--crate-name", "-p")  # options of rustc and of Go's compiler
_NAMES_OTHERS: Final = re.compile(
    r"-(?:o|M[FTQ]|include|imacros|isystem|iquote|I|L|D|auxbase(?:-strip)?|trimpath|buildid|importcfg|embedcfg|[wx]|T)"
)
_SOURCE: Final = re.compile(r"(?!-).+\.(?:[cCmMdS]|cc|cpp|cxx|c\+\+|cp|ii?|mm|cu|f|for|f\d\d|F\d*|rs|go|adb|hs|swift|java)", re.DOTALL)


def naming_words(words: Sequence[str]) -> list[str]:
    """Return the words of a command line that name what runs: the program and the script, the module or the file that it compiles.

    Other arguments may be secret.
    """
    if len(words) > 1 and _BUILD_TOOL.fullmatch(os.path.basename(words[0])):
        return [words[0], *_compiled(words[1:])]
    if len(words) == 1 or not _INTERPRETER.fullmatch(os.path.basename(words[0])):
        return [*words[:1]]
    rest = iter(words[1:])
    for word in rest:
        if word == "-m":
            return [words[0], word, next(rest, "")]
        if word in _CODE:
            code = next(rest, "")
            return [words[0], word, code if _STARTERS.match(code) else ""]
        if word in _TAKES_VALUE:
            next(rest, "")
        elif not word.startswith("-"):
            return [words[0], word]
    return [words[0]]


def _compiled(arguments: Sequence[str]) -> list[str]:
    """Return what a build tool compiles, by its arguments, or else what it makes (-o); empty if that is unknown."""
    options = dict(itertools.pairwise(arguments))
    for name in _NAMES_PRODUCT:
        if (product := options.get(name, "")) and not product.startswith("-"):
            return [product]
    before = ["", *arguments]
    sources = [
        word for word, option in zip(arguments, before, strict=False) if _SOURCE.fullmatch(word) and not _NAMES_OTHERS.fullmatch(option)
    ]
    product = options.get("-o", "")
    return sources[-1:] or ([product] if product and not product.startswith("-") else [])


def _examine(pid: int, mapping: ProcMapping) -> _KnownFile | None:
    """Return what is needed to look at the processes of a program; None for other programs than shells and Go's."""
    is_shell = bash.PROGRAM.fullmatch(os.path.basename(mapping.path)) is not None
    file = elf.open_mapped(mapping.path, (mapping.major, mapping.minor, mapping.inode, 0), (pid,))
    if file.bits != 64 or file.endian != "<" or not len(file.segments):
        return None
    first = int(file.segments["vaddr"].min()) & -_PAGE
    if is_shell:
        variables = _addresses(file, bash.SYMBOLS)
        return _KnownFile(first, variables, None) if len(variables) == len(bash.SYMBOLS) else None
    if not all(any(file.section(name) for name in names) for names in _GO_SECTIONS):
        return None
    go = GoProgram(mapping.path, file)
    return _KnownFile(first, {}, go) if go.layout is not None else None


def _addresses(file: ElfFile, names: Iterable[str]) -> dict[str, int]:
    """Return the addresses of dynamic symbols in a file."""
    section = file.section(".dynsym", elf.SHT_DYNSYM)
    if section is None:
        return {}
    entries, strings = file.symbols(section), bytes(file.strings(section))
    addresses = {}
    for name in names:
        text = name.encode() + b"\0"
        positions: list[int] = []  # linkers store a name that another one ends with only once
        while (position := strings.find(text, positions[-1] + 1 if positions else 0)) >= 0:
            positions.append(position)
        rows = np.flatnonzero(np.isin(entries["name"], positions) & (entries["value"] != 0))
        if len(rows):
            addresses[name] = int(entries["value"][rows[0]])
    return addresses


class _ObservedProcess:
    """A process that is looked at.

    Attributes:
        pid: of the process.
        due: when it is looked at next, in seconds.
        pause: the least seconds between two looks.
        is_alive: False after it has ended or executed another program.
        has_executed: whether it was seen that it has executed another program.
    """

    def __init__(self, pid: int, memory: InterpreterMemory | None = None) -> None:
        self.pid = pid
        self._memory = memory
        self._looks = 0
        self.due = 0.0
        self.pause = _PAUSE
        self.is_alive = True
        self.has_executed = False

    def end(self) -> None:
        """Look at it no longer."""
        if self.is_alive and self._memory is not None:
            self._memory.close()
        self.is_alive = False

    @abstractmethod
    def look(self) -> None:
        """Look at it once."""

    @abstractmethod
    def states(self) -> Iterator[ObservedState]:
        """Yield the states that were seen."""


def _program_of(pid: int) -> str | None:
    """Return the path of a process's program, None if it has ended or may not be looked at.

    The kernel has the path; the file's inode would be asked of its file system, which a user may serve, and which may not answer.
    """
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return None


class _ObservedCalls(_ObservedProcess):
    """A process whose waits have no stacks: the system calls in which its threads sleep."""

    def __init__(self, pid: int, procfs: ProcFs) -> None:
        super().__init__(pid)
        self._procfs = procfs
        self._calls: Counter[tuple[int, str]] = Counter()
        self._sleeps: Counter[int] = Counter()  # looks at each thread while it slept

    def look(self) -> None:
        """Read the system calls of the threads that sleep."""
        from perfpy.capture.sleeping_threads import sleepers  # only recordings whose waits have no stacks need it
        from perfpy.capture.wait_targets import WaitTargets

        tids = self._procfs.threads(self.pid)[:_MOST_THREADS]
        if not tids:
            self.end()
            return
        targets = WaitTargets(self.pid, {tid: tid for tid in tids})
        for sleeper in sleepers(tids, self._procfs, 0):
            target = targets.of(sleeper)
            text = f"{target.call}()" + (f" on {target.of}" if target.of else "") if target.call else ""
            self._sleeps[sleeper.tid] += 1
            if len(self._calls) < _MOST_STATES or (sleeper.tid, text) in self._calls:
                self._calls[sleeper.tid, text] += 1

    def states(self) -> Iterator[ObservedState]:
        """Yield the calls of its threads."""
        for (tid, text), count in self._calls.items():
            yield ObservedState(tid, "call", self._sleeps[tid], count, text, [], [])


class _ObservedWaits(_ObservedProcess):
    """A process of any other program: the addresses to which it is connected while its main thread waits for sockets, and the holders of
    the locks that its threads wait for.
    """

    def __init__(self, pid: int, procfs: ProcFs) -> None:
        super().__init__(pid)
        self._procfs = procfs
        self._program = _program_of(pid)
        self._known: dict[str, Peer | None] = {}
        self._peers: Counter[Peer] = Counter()
        self._looks_at_threads = 0
        self._locks: Counter[tuple[int, _HeldLock]] = Counter()
        self._waits: Counter[int] = Counter()  # looks at each thread while it waited for a lock
        self._awaited: dict[int, tuple[bytes, AwaitedLock | None]] = {}  # thread -> its run time, and the lock that it waited for
        self._stuck: dict[int, tuple[tuple[_HeldLock, bytes], int]] = {}  # thread -> its lock and run time, and how many looks saw the same
        self._stuck_before = self._stuck  # of the look before
        self._names: dict[int, str] = {}  # address -> variable
        self._counters: JvmCounters | None = None
        self._collections: list[Collections] = []  # of a JVM, at the first and the last look
        self._heap_options: list[str] = []  # of a Node
        self.pause = _BETWEEN_WAITS

    def look(self) -> None:
        """Note the addresses if the main thread waits, or that the process has executed another program: the record may come late."""
        state, program = read_state(self.pid, self.pid), _program_of(self.pid)
        if state is None or program != self._program:
            self.has_executed = state is not None and program is not None
            self.end()
            return
        peers = self._peers_of(state) if state.call is not None else None
        if peers is not None:
            self._looks += 1
            self._peers.update(peer for peer in peers if len(self._peers) < _MOST_PEERS or peer in self._peers)
        self._look_at_locks()
        self._look_at_collections()

    def end(self) -> None:
        """Look at it no longer."""
        super().end()
        if self._counters is not None:
            self._counters.close()
            self._counters = None

    def _look_at_collections(self) -> None:
        """Note how often a JVM has collected garbage, and the options that limit the heap of a Node."""
        if self._looks_at_threads in _LOOKS_FOR_JVM and self._counters is None:
            if "node" in os.path.basename(self._program or ""):
                from perfpy.capture.runtimes.attaching import heap_options  # few programs need it

                self._heap_options = heap_options(self.pid)
            if any(_JVM_COUNTERS in line for line in self._procfs.map_lines(self.pid)):
                from perfpy.capture.runtimes.hotspot_monitors import JvmCounters

                with suppress(OSError, LookupError):
                    self._counters = JvmCounters(self.pid, self._procfs)
        collections = self._counters.collections() if self._counters is not None else None
        if collections is not None:
            self._collections[1:] = [collections]

    def _look_at_locks(self) -> None:
        """Note which threads wait for a lock, and who holds it; and for how many looks they have not run."""
        stuck, of_files = dict[int, tuple[tuple[_HeldLock, bytes], int]](), None
        mutexes: dict[tuple[int, bool], _HeldLock | None] = {}  # of this look: many threads may wait for one
        tids = self._procfs.threads(self.pid)
        self._looks_at_threads += 1
        for tid in tids[:_MOST_LOCKING]:
            ran = self._procfs.read(f"{self.pid}/task/{tid}/schedstat", _LONGEST_COMM)
            if not ran:  # it has ended
                continue
            if tid not in self._awaited or self._awaited[tid][0] != ran:  # a thread that has not run waits for the same
                self._awaited[tid] = ran, self._lock_of(tid)
            lock = self._awaited[tid][1]
            if lock is None:
                continue
            if lock.address:
                mutex = lock.address, lock.has_limit
                held = mutexes[mutex] if mutex in mutexes else mutexes.setdefault(mutex, self._holder_of_mutex(*mutex, tids))
            else:
                if of_files is None:
                    from perfpy.capture.wait_targets import holders_of_file_locks  # few programs lock files

                    of_files = holders_of_file_locks(self._procfs)
                holder = of_files.get(self.pid, 0)
                held = _HeldLock(lock.file, True, lock.has_limit, holder, self._comm(holder)) if holder else None
            self._waits[tid] += 1
            if held is not None and (len(self._locks) < _MOST_STATES or (tid, held) in self._locks):
                self._locks[tid, held] += 1
                key = held, ran
                before, looks = self._stuck.get(tid, (None, 0))
                stuck[tid] = key, looks + 1 if before == key else 1
        self._stuck_before, self._stuck = self._stuck, stuck
        self._awaited = {tid: self._awaited[tid] for tid in tids[:_MOST_LOCKING] if tid in self._awaited}

    def _lock_of(self, tid: int) -> AwaitedLock | None:
        """Return the lock for which a thread waits, None for none."""
        state = read_state(self.pid, tid)
        if state is None or state.call is None or len(state.arguments) <= _ARGUMENTS:
            return None
        from perfpy.capture.wait_targets import awaited_lock  # programs that compute need none

        return awaited_lock(self.pid, _names_of_calls().get(state.call, ""), state.arguments)

    def _holder_of_mutex(self, address: int, has_limit: bool, tids: Sequence[int]) -> _HeldLock | None:
        """Return the mutex at an address with the thread that holds it; None if it is no mutex, or nobody holds it."""
        from perfpy.capture.wait_targets import read_owner
        from perfpy.symbols.dso import innermost_tid

        owner = read_owner(self.pid, address)
        if owner and owner not in tids:  # as another pid namespace numbers it, one of another process, or one that has ended
            owner = next((tid for tid in tids if innermost_tid(self.pid, tid) == owner), owner)
        if not owner or (owner not in tids and innermost_tid(self.pid, self.pid) != self.pid):
            return None
        if address not in self._names and len(self._names) < _MOST_STATES:
            self._names[address] = self._variable(address)
        return _HeldLock(self._names.get(address, ""), False, has_limit, owner, self._comm(owner))

    def _variable(self, address: int) -> str:
        """Return the name of the variable at an address, "" for none."""
        from perfpy.symbols.variables import Variables

        files = [one for one in loaded_files(self._procfs.maps(self.pid, data=True)) if one.start <= address]
        mapping = max(files, key=lambda one: one.start, default=None)
        if mapping is None:
            return ""
        try:
            file = elf.open_mapped(mapping.path, (mapping.major, mapping.minor, mapping.inode, 0), (self.pid,))
            return Variables(file, file).name_loaded(address, mapping.start)
        except (OSError, *elf.DAMAGE):
            return ""

    def _comm(self, tid: int) -> str:
        """Return the name of a thread or process; "" if there is none."""
        return os.fsdecode(self._procfs.read(f"{tid}/comm", _LONGEST_COMM)).rstrip("\n")

    def _peers_of(self, state: ThreadState) -> set[Peer] | None:
        """Return the addresses for which a system call waits, None if it waits for something else."""
        from perfpy.capture.wait_targets import peers_of_wait  # programs that compute need neither

        call = _names_of_calls().get(state.call or 0, "")
        return peers_of_wait(self.pid, call, state.arguments, self._known) if call else None

    def states(self) -> Iterator[ObservedState]:
        """Yield the addresses, the holders of locks, and the garbage collections."""
        if len(self._collections) > 1:
            yield from _states_of_collections(self.pid, *self._collections)
        for option in self._heap_options:
            yield ObservedState(self.pid, "heap option", 1, 1, option, [], [])
        for peer, count in self._peers.items():
            process = [ObservedFrame(peer.comm, "", peer.pid)] if peer.pid else []
            kind = "peer" if peer.is_connected else "connecting"
            yield ObservedState(self.pid, kind, self._looks, count, peer.address, [], process)
        for (tid, lock), count in self._locks.items():
            yield lock.state(tid, "file lock" if lock.is_file else "mutex", self._waits[tid], count)
        # the threads of a process that is being killed run once more, which a look may have seen
        is_ended = not self.is_alive or not self._procfs.threads(self.pid)
        for tid, ((lock, _), count) in ((self._stuck_before if is_ended else {}) | self._stuck).items():
            if not lock.has_limit:
                yield lock.state(tid, "stuck", self._looks_at_threads, count)


def _states_of_collections(pid: int, first: Collections, last: Collections) -> Iterator[ObservedState]:
    """Yield the garbage collections of a JVM between two looks, as they are stored."""
    young = last.young - first.young, last.young_time - first.young_time, last.young_option, last.young_heap
    full = last.full - first.full, last.full_time - first.full_time, last.heap_option, last.heap
    for kind, (count, duration, option, size) in (("young", young), ("full", full)):
        if count > 0:
            yield ObservedState(pid, "collections", round(1000 * duration), count, kind, [], [ObservedFrame(option, "", size)])


class _HeldLock(NamedTuple):
    """A lock for which a thread waits: its variable ("" without a name) or file, and its holder, with its name ("" if it has ended)."""

    name: str
    is_file: bool
    has_limit: bool
    holder: int
    comm: str

    def state(self, tid: int, kind: str, looks: int, seen: int) -> ObservedState:
        """Return a thread's wait for the lock as it is stored."""
        return ObservedState(tid, kind, looks, seen, self.name, [], [ObservedFrame(self.comm, "", self.holder)])


def _names_of_calls() -> dict[int, str]:
    from perfpy.abi.system_calls import names_by_number  # programs that compute need none

    return names_by_number(os.uname().machine)


class _ObservedBash(_ObservedProcess):
    """A shell: the lines at which it starts its children."""

    def __init__(self, pid: int, memory: InterpreterMemory, process: bash.BashProcess) -> None:
        super().__init__(pid, memory)
        self._process = process
        self._stacks: Counter[tuple[bash.ScriptFrame, ...]] = Counter()
        self._children: set[int] = set()  # that were seen

    def look(self) -> None:
        """Read its call stack if it waits for a child that was not seen yet, or for its output: each child counts once."""
        state = read_state(self.pid, self.pid)
        if state is None:
            self.end()
            return
        children = children_of(self.pid, [self.pid]) if state.call in (_WAIT4, _WAITID, _READ) else []
        if self._children.issuperset(children):
            return
        if len(self._children) < _MOST_CHILDREN:
            self._children.update(children)
        try:
            frames = tuple(self._process.frames(has_started=state.call != _READ))
        except UnreadableMemoryError:
            return
        self._looks += 1
        if len(self._stacks) < _MOST_STATES or frames in self._stacks:
            self._stacks[frames] += 1

    def states(self) -> Iterator[ObservedState]:
        """Yield its states."""
        for frames, count in self._stacks.items():
            yield ObservedState(self.pid, "bash", self._looks, count, "", [ObservedFrame(*frame) for frame in frames], [])


class _ObservedGo(_ObservedProcess):
    """A Go program: its goroutines."""

    def __init__(self, pid: int, memory: InterpreterMemory, program: GoProgram, shift: int) -> None:
        from perfpy.interpreters.goroutines import GoProcess

        super().__init__(pid, memory)
        assert program.layout is not None
        layout = program.layout._replace(
            allgs=program.layout.allgs + shift, reasons=program.layout.reasons and program.layout.reasons + shift
        )
        self._process = GoProcess(memory, layout)
        self._program, self._shift = program, shift
        self._goroutines: Counter[Goroutine] = Counter()

    def look(self) -> None:
        """Read its goroutines."""
        try:
            goroutines = self._process.goroutines()
        except UnreadableMemoryError:
            self.end()
            return
        if not goroutines:  # the runtime has not started
            return
        self._looks += 1
        for goroutine in goroutines:
            if len(self._goroutines) < _MOST_STATES or goroutine in self._goroutines:
                self._goroutines[goroutine] += 1

    def states(self) -> Iterator[ObservedState]:
        """Yield the states of its goroutines."""
        for goroutine, count in self._goroutines.items():
            frames = [frame for address in goroutine.addresses for frame in self._program.frames(address - self._shift)]
            began = [
                self._program.frames(goroutine.start - self._shift + 1)[-1:],
                self._program.frames(goroutine.creator - self._shift)[:1],
            ]
            yield ObservedState(
                self.pid,
                "go",
                self._looks,
                count,
                goroutine.reason or _STATUS[goroutine.status],
                frames,
                [one for part in began for one in part],
            )


_STATUS: Final = {1: "runnable", 2: "running", 3: "system call", 4: "waiting"}


class GoProgram:
    """A Go program's debug information: the layout of goroutines, functions and lines."""

    def __init__(self, path: str, file: ElfFile) -> None:
        from perfpy.debuginfo.source_lines import SourceLines  # only Go programs need debug information
        from perfpy.probing.program import Program

        self._program = Program(path, file, file, demangles=False)
        self._lines = SourceLines(self._program.units)
        self._frames: dict[int, list[ObservedFrame]] = {}

    @cached_property
    def layout(self) -> GoLayout | None:
        """The layout of goroutines, with addresses of the file; None if it is unknown."""
        from perfpy.interpreters.goroutines import GoLayout

        allgs = self._program.data_address("runtime.allgs")
        members, registers = self._members("runtime.g"), self._members("runtime.gobuf")
        if allgs is None or not members.keys() >= _OF_GOROUTINES or not registers.keys() >= {"pc", "bp"}:
            return None
        reasons, sched = self._program.data_address("runtime.waitReasonStrings") or 0, members["sched"]
        rest = (members[name] for name in ("atomicstatus", "waitreason", "gopc", "startpc"))
        return GoLayout(allgs, reasons, sched + registers["pc"], sched + registers["bp"], *rest)

    def _members(self, name: str) -> dict[str, int]:
        """Return the offsets of a structure's members; empty if it is unknown."""
        from perfpy.debuginfo import dwarf

        die = next(self._structures(name), None)
        members = {}
        for member in die.children() if die else ():
            offset = member.number(dwarf.AT_DATA_MEMBER_LOCATION)
            if member.tag == dwarf.TAG_MEMBER and offset is not None:
                members[member.name] = offset
        return members

    def _structures(self, name: str) -> Iterator[Die]:
        """Yield the structures of a name. Go writes a DIE's name right after its one or two bytes of abbreviation."""
        for unit in self._program.units_mentioning(name):
            data, text = bytes(unit.reader.data), name.encode() + b"\0"
            position = data.find(text)
            while position >= 0:
                for offset in (position - 1, position - 2):
                    if die := _structure_at(unit, offset, name):
                        yield die
                position = data.find(text, position + 1)

    def frames(self, address: int) -> list[ObservedFrame]:
        """Return the function and the line of a return address, after those of calls that are inlined there."""
        if address not in self._frames:
            try:
                self._frames[address] = self._read_frames(address - 1)
            except elf.DAMAGE:
                self._frames[address] = []
        return self._frames[address]

    def _read_frames(self, address: int) -> list[ObservedFrame]:
        unit = self._program.unit_at(address) if address > 0 else None
        functions = self._program.functions(unit) if unit else None
        if functions is None:
            return []
        found = self._lines.find(np.array([address], np.uint64))
        number, line = int(found.file[0]), int(found.line[0])
        path = self._lines.paths[number] if number >= 0 else ""
        code = next((one for one in reversed(functions.code) if one.holds(address)), None)
        frames = []
        while code is not None and unit is not None:
            frames.append(ObservedFrame(functions.name_of(code).name, path, line))
            path, line = self._program.statements(unit).path(code.call_file), code.call_line
            code = code.caller
        return frames


def _structure_at(unit: DebugUnit, offset: int, name: str) -> Die | None:
    """Return the structure of a name at an offset of a unit; None if there is none."""
    from perfpy.debuginfo import dwarf
    from perfpy.debuginfo.dies import Die

    try:
        die = Die(unit, offset)
        return die if die.tag == dwarf.TAG_STRUCTURE_TYPE and die.name == name else None
    except elf.DAMAGE:
        return None
