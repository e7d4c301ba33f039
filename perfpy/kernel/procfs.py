"""Read /proc: tasks, their mappings and namespaces, kernel symbols, limits.

A task that ends during the read is None or an empty list, never an error. Layout: proc(5). Paths are strings with surrogate escapes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from perfpy.abi.light_types import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence


#: the order of PERF_RECORD_NAMESPACES
NAMESPACES: Final = ("net", "uts", "ipc", "pid", "user", "mnt", "cgroup")

PROT_READ: Final = 1
PROT_WRITE: Final = 2
PROT_EXEC: Final = 4
MAP_SHARED: Final = 1
MAP_PRIVATE: Final = 2

_READ_SIZE: Final = 1 << 16
_PAGE: Final = 4096
_START_TIME: Final = 19  # among the fields of stat after the comm: ticks since the machine was started


class TaskStatus(NamedTuple):
    """The identity of a task. A kernel thread has no memory of its own."""

    comm: str
    tgid: int
    ppid: int
    uid: int
    kernel_thread: bool


class ProcMapping(NamedTuple):
    """One line of /proc/PID/maps; the path of anonymous memory is ""."""

    start: int
    end: int
    prot: int
    flags: int
    offset: int
    major: int
    minor: int
    inode: int
    path: str


class Module(NamedTuple):
    """One line of /proc/modules."""

    name: str
    size: int
    address: int


class ProcFs:
    """A proc file system mounted at `root`."""

    def __init__(self, root: str = "/proc") -> None:
        self.root = root

    def processes(self) -> list[int]:
        """Return every process (thread group) by number."""
        return _numbers(self.root)

    def threads(self, pid: int) -> list[int]:
        """Return the threads of a process, the main one first, because numbers wrap around; [] if the process is gone."""
        return sorted(_numbers(f"{self.root}/{pid}/task"), key=lambda tid: tid != pid)

    def status(self, tid: int) -> TaskStatus | None:
        """Return a task's identity; None if it is gone."""
        data = self.read(f"{tid}/status", 4096)
        if not data:
            return None
        uid = _field(data, b"\nUid:\t").split(b"\t", 1)[0]
        # A comm as COMM records have it: /proc/PID/status has escaped line feeds and backslashes.
        parts = os.fsdecode(_field(data, b"Name:\t")).split("\\\\")
        return TaskStatus(
            "\\".join(part.replace("\\n", "\n") for part in parts),
            int(_field(data, b"\nTgid:\t") or 0),
            int(_field(data, b"\nPPid:\t") or 0),
            int(uid or 0),
            kernel_thread=b"\nVmPeak:" not in data,
        )

    def parents(self) -> dict[int, tuple[int, int]]:
        """Return the parent and the CPU time (in clock ticks) of every process."""
        processes = {}
        for pid in self.processes():
            # 42 (name) S 1 ...: fields 4 (ppid), 14 (utime) and 15 (stime); the name may contain anything
            fields = self.read(f"{pid}/stat", 4096).rpartition(b")")[2].split()
            if len(fields) > 12:
                processes[pid] = (int(fields[1]), int(fields[11]) + int(fields[12]))
        return processes

    def descendants(self, pids: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Return the processes that these ones have started, directly or not, as parents() does; without these and this process itself."""
        processes = self.parents()
        children: dict[int, list[int]] = {}
        for pid, (parent, _) in processes.items():
            children.setdefault(parent, []).append(pid)
        roots = {*pids, os.getpid()}
        found: dict[int, tuple[int, int]] = {}
        waiting = [child for root in roots - {os.getpid()} for child in children.get(root, ())]
        while waiting:
            pid = waiting.pop()
            if pid not in roots and pid not in found:
                found[pid] = processes[pid]
                waiting += children.get(pid, ())
        return found

    def command_line(self, pid: int) -> str:
        """Return a process's command line, separated by spaces; its name in brackets if it has none."""
        words = os.fsdecode(self.read(f"{pid}/cmdline", 4096)).rstrip("\0").replace("\0", " ")
        if words:
            return words
        status = self.status(pid)
        return f"[{status.comm}]" if status else ""

    def anonymous_memory(self, pid: int) -> int:
        """Return the bytes of a process's pages that belong to no file; 0 if they are unknown.

        The number in /proc/PID/status is an estimate: each CPU counts some pages of its own.
        """
        kilobytes = _field(self.read(f"{pid}/smaps_rollup", 4096), b"\nAnonymous:").split()
        return int(kilobytes[0]) << 10 if kilobytes else 0

    def maps(self, pid: int, *, data: bool = False, lines: Iterable[bytes] | None = None) -> Iterator[ProcMapping]:
        """Yield the executable mappings of a process; with `data`, the readable ones, too. `lines`: map_lines(), if read already."""
        for line in self.map_lines(pid) if lines is None else lines:
            # 559c86a4c000-559c86a51000 r-xp 00002000 fe:00 260958   /usr/bin/true
            fields = line.split(None, 5)
            access = fields[1]
            if access[2:3] == b"x" or (data and access[0:1] == b"r"):
                yield _mapping(fields)

    def memory_with_code(self, pid: int, is_memory: Callable[[str], bool], lines: Iterable[bytes] | None = None) -> list[ProcMapping]:
        """Return the executable memory of a process, and the nearest mappings of files below and above each, in order.

        Lines are only decoded if they are returned, because a process may have tens of thousands.

        Args:
            pid: the process.
            is_memory: whether a path is that of memory.
            lines: as in maps().
        """
        chosen: list[bytes] = []
        file, follows_memory = b"", False  # the last line of a file, unless it is chosen
        names: dict[bytes, bool] = {}
        for line in self.map_lines(pid) if lines is None else lines:
            access = line.find(b" ") + 1
            if line.startswith(b"---", access):
                continue
            # A path, or [NAME], which may contain slashes.
            begin = min((column for column in (line.find(b"/"), line.find(b"[")) if column >= 0), default=len(line))
            path = line[begin:]
            in_memory = names.get(path)
            if in_memory is None:
                in_memory = names[path] = is_memory(os.fsdecode(path))
            if not in_memory:
                if path.startswith(b"/"):
                    if follows_memory:
                        chosen.append(line)
                    file, follows_memory = b"" if follows_memory else line, False
            elif line.startswith(b"x", access + 2):
                if file:
                    chosen.append(file)
                chosen.append(line)
                file, follows_memory = b"", True
        return [_mapping(line.split(None, 5)) for line in chosen]

    def map_lines(self, pid: int) -> Iterator[bytes]:
        """Yield the lines of /proc/PID/maps, up to a limit; none if the task is gone."""
        from perfpy.untrusted.process_files import map_lines  # for recorders only

        try:
            yield from map_lines(pid, self.root)
        except OSError:  # the task is gone, or belongs to another user
            return

    def namespaces(self, tid: int) -> tuple[tuple[int, int], ...]:
        """Return (device, inode) of a task's namespaces in the order of NAMESPACES; (0, 0) for a hidden one."""
        identities = []
        for name in NAMESPACES:
            try:
                entry = os.stat(f"{self.root}/{tid}/ns/{name}")
                identities.append((entry.st_dev, entry.st_ino))
            except OSError:
                identities.append((0, 0))
        return tuple(identities)

    def kernel_symbols(self, names: Collection[str]) -> dict[str, int]:
        """Return the addresses of some symbols of the kernel itself, without modules, from /proc/kallsyms.

        Symbols that do not exist or that kptr_restrict hides are missing.
        """
        needles = {b" " + name.encode() + b"\n": name for name in names}
        addresses: dict[str, int] = {}
        remainder = b""
        try:
            with open(f"{self.root}/kallsyms", "rb", buffering=0) as file:
                while len(addresses) < len(needles) and (chunk := file.read(_READ_SIZE)):
                    text = remainder + chunk
                    for needle, name in needles.items():
                        offset = -1 if name in addresses else text.find(needle)
                        if offset >= 0:
                            start = text.rfind(b"\n", 0, offset) + 1
                            addresses[name] = int(text[start:offset].split()[0], 16)
                    if b"\t[" in chunk:  # symbols of modules come last
                        break
                    remainder = text[text.rfind(b"\n") + 1 :]
        except OSError:
            return {}
        return {name: address for name, address in addresses.items() if address}

    def modules(self) -> list[Module]:
        """Return the loaded modules whose addresses this user may see."""
        modules = []
        for line in self.read("modules").decode().splitlines():
            # ext4 1130496 2 - Live 0xffffffffc0a41000
            fields = line.split()
            address = int(fields[5], 16) if len(fields) > 5 else 0
            if address:
                modules.append(Module(fields[0], int(fields[1]), address))
        return modules

    def seconds_since_start(self) -> float:
        """Return the age of this process; 0 if it is unknown."""
        import time  # most commands do not ask

        fields = self.read("self/stat").rpartition(b")")[2].split()
        if len(fields) <= _START_TIME:
            return 0.0
        started = int(fields[_START_TIME]) / os.sysconf("SC_CLK_TCK")
        return max(time.clock_gettime(time.CLOCK_BOOTTIME) - started, 0.0)

    def boot_id(self) -> str:
        """Return a text that changes with every boot; "" if the kernel has none."""
        return self.read("sys/kernel/random/boot_id").decode().strip()

    def context_switches(self) -> int:
        """Return the number of context switches of all CPUs since the system's start; 0 if it is unknown."""
        found = self.read("stat").partition(b"\nctxt ")[2].partition(b"\n")[0]
        return int(found) if found.isdigit() else 0

    def setting(self, name: str) -> int | None:
        """Return a number of /proc/sys by its dotted name; None if it does not exist."""
        data = self.read("sys/" + name.replace(".", "/"))
        try:
            return int(data)
        except ValueError:
            return None

    def read(self, path: str, size: int = -1) -> bytes:
        """Return a file below the root, at most `size` bytes; b"" if it is not readable."""
        try:
            # One read gives at most a page of most files, which is all of the small ones.
            with open(f"{self.root}/{path}", "rb", buffering=0 if 0 < size <= _PAGE else -1) as file:
                return file.read(size) or b""
        except OSError:  # the task is gone, or belongs to another user
            return b""


def _mapping(fields: list[bytes]) -> ProcMapping:
    """Decode the fields of a line of /proc/PID/maps."""
    start, _, end = fields[0].partition(b"-")
    access = fields[1]
    major, _, minor = fields[3].partition(b":")
    prot = (access[0] == ord("r")) * PROT_READ | (access[1] == ord("w")) * PROT_WRITE
    return ProcMapping(
        int(start, 16),
        int(end, 16),
        prot | (access[2] == ord("x")) * PROT_EXEC,
        MAP_SHARED if access[3] == ord("s") else MAP_PRIVATE,
        int(fields[2], 16),
        int(major, 16),
        int(minor, 16),
        int(fields[4]),
        os.fsdecode(fields[5]) if len(fields) > 5 else "",
    )


def _numbers(folder: str) -> list[int]:
    try:
        return sorted(int(name) for name in os.listdir(folder) if name.isdigit())
    except OSError:
        return []


def _field(data: bytes, label: bytes) -> bytes:
    """Return the remainder of the line that starts with `label`."""
    _, separator, remainder = data.partition(label)
    return remainder.partition(b"\n")[0] if separator else b""


def raise_open_files_limit() -> bool:
    """Raise this process's limit of open files to its hard limit. Return False if it is already there."""
    import resource  # only needed after the soft limit was hit

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return False
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return True


# What threads do at this moment, from /proc: their state, the system call in which they wait, and their times on and off the run queue. A
# user may read this of his own processes, unless a security module forbids it. Layouts: proc(5): /proc/PID/task/TID/stat, syscall,
# schedstat and children.

_SIZE: Final = 4096
_OUTSIDE: Final = -1  # of syscall: the thread waits, but in no system call


class ThreadState(NamedTuple):
    """The state of a thread.

    Attributes:
        comm: its name.
        letter: as in proc(5): R, S, D, T ...
        ran, queued: nanoseconds on a CPU, and waiting for one, since the thread's begin.
        call: the number of the system call in which it waits; -1 for a wait in no call, None if it runs or this is not readable.
        arguments: of the call.
    """

    comm: str
    letter: str
    ran: int
    queued: int
    call: int | None
    arguments: Sequence[int]


def read_state(pid: int, tid: int) -> ThreadState | None:
    """Return the state of a thread; None if it has ended."""
    folder = f"/proc/{pid}/task/{tid}"
    before, _, after = _read(f"{folder}/stat").rpartition(b")")
    if not after:
        return None
    letter = after.split()[:1]
    times = _read(f"{folder}/schedstat").split()
    ran, queued = (int(times[0]), int(times[1])) if len(times) > 1 else (0, 0)
    words = _read(f"{folder}/syscall").split() if letter != [b"R"] else []
    call, arguments = None, []
    if words and words[0].lstrip(b"-").isdigit():
        call, arguments = int(words[0]), [int(word, 16) for word in words[1:7]]
    comm = os.fsdecode(before.partition(b"(")[2])
    return ThreadState(comm, letter[0].decode("ascii", "replace") if letter else "?", ran, queued, call, arguments)


def read_wait(pid: int, tid: int) -> tuple[str, int]:
    """Return the letter of a thread's state, "" if it has ended; and the address at which it left user space, 0 if unknown."""
    folder = f"/proc/{pid}/task/{tid}"
    letter = _read(f"{folder}/stat").rpartition(b")")[2].split()[:1]
    words = _read(f"{folder}/syscall").split() if letter not in ([], [b"R"]) else []
    address = int(words[-1], 16) if len(words) > 1 and words[-1].startswith(b"0x") else 0
    return letter[0].decode("ascii", "replace") if letter else "", address


def children_of(pid: int, tids: Sequence[int]) -> list[int]:
    """Return the child processes that threads have created and that run now."""
    return [int(word) for tid in tids for word in _read(f"/proc/{pid}/task/{tid}/children").split()]


def target_of(pid: int, descriptor: int) -> str:
    """Return what a descriptor of a process leads to, for example "pipe:[1234]"; "" if it is not readable."""
    try:
        return os.readlink(f"/proc/{pid}/fd/{descriptor}")
    except OSError:
        return ""


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # the thread has ended, or belongs to another user
        return b""
    try:
        return os.read(fd, _SIZE)
    except OSError:
        return b""
    finally:
        os.close(fd)
