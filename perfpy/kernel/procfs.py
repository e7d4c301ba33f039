"""What /proc tells: tasks, their maps and namespaces, the kernel's own addresses, limits.

What enters: process and thread numbers. What leaves: plain values; a task
that ended while it was looked at is None or an empty list, never an error.
Layout: proc(5). Paths stay bytes-exact as strings with surrogate escapes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

#: the order of PERF_RECORD_NAMESPACES
NAMESPACES: Final = ("net", "uts", "ipc", "pid", "user", "mnt", "cgroup")

PROT_READ: Final = 1
PROT_WRITE: Final = 2
PROT_EXEC: Final = 4
MAP_SHARED: Final = 1
MAP_PRIVATE: Final = 2

_READ_SIZE: Final = 1 << 16


class TaskStatus(NamedTuple):
    """Who a task is. kernel_thread: it has no memory of its own."""

    comm: str
    tgid: int
    ppid: int
    uid: int
    kernel_thread: bool


class ProcMapping(NamedTuple):
    """One line of /proc/PID/maps; path is "" for anonymous memory."""

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
        """Every process (thread group), by number."""
        return _numbers(self.root)

    def threads(self, pid: int) -> list[int]:
        """The threads of a process, the main one first (later ones have lower numbers when these begin again); [] when it is gone."""
        return sorted(_numbers(f"{self.root}/{pid}/task"), key=lambda tid: tid != pid)

    def status(self, tid: int) -> TaskStatus | None:
        """Who a task is; None when it is gone."""
        data = self._read(f"{tid}/status", 4096)
        comm = _field(data, b"Name:\t")
        if not comm:
            return None
        uid = _field(data, b"\nUid:\t").split(b"\t", 1)[0]
        return TaskStatus(
            os.fsdecode(comm),
            int(_field(data, b"\nTgid:\t") or 0),
            int(_field(data, b"\nPPid:\t") or 0),
            int(uid or 0),
            kernel_thread=b"\nVmPeak:" not in data,
        )

    def command_line(self, pid: int) -> str:
        """What a process was started as, its words parted by spaces; its name in brackets where it tells no words."""
        words = os.fsdecode(self._read(f"{pid}/cmdline", 4096)).rstrip("\0").replace("\0", " ")
        if words:
            return words
        status = self.status(pid)
        return f"[{status.comm}]" if status else ""

    def maps(self, pid: int, *, data: bool = False) -> Iterator[ProcMapping]:
        """The executable mappings of a process, with `data` those that can be read, too."""
        for line in self._read(f"{pid}/maps").splitlines():
            # 559c86a4c000-559c86a51000 r-xp 00002000 fe:00 260958   /usr/bin/true
            fields = line.split(None, 5)
            access = fields[1]
            if access[2:3] != b"x" and not (data and access[0:1] == b"r"):
                continue
            start, _, end = fields[0].partition(b"-")
            major, _, minor = fields[3].partition(b":")
            prot = (access[0] == ord("r")) * PROT_READ | (access[1] == ord("w")) * PROT_WRITE
            yield ProcMapping(
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

    def namespaces(self, tid: int) -> tuple[tuple[int, int], ...]:
        """(device, inode) of a task's namespaces in the order of NAMESPACES; (0, 0) where one cannot be seen."""
        found = []
        for name in NAMESPACES:
            try:
                entry = os.stat(f"{self.root}/{tid}/ns/{name}")
                found.append((entry.st_dev, entry.st_ino))
            except OSError:
                found.append((0, 0))
        return tuple(found)

    def kernel_symbols(self, names: Collection[str]) -> dict[str, int]:
        """The addresses of some of the kernel's own symbols (not its modules'), from /proc/kallsyms.

        Those that are hidden from this user (kptr_restrict) are left out, as are those that do not exist.
        """
        wanted = {b" " + name.encode() + b"\n": name for name in names}
        found: dict[str, int] = {}
        rest = b""
        try:
            with open(f"{self.root}/kallsyms", "rb", buffering=0) as file:
                while len(found) < len(wanted) and (chunk := file.read(_READ_SIZE)):
                    text = rest + chunk
                    for needle, name in wanted.items():
                        offset = -1 if name in found else text.find(needle)
                        if offset >= 0:
                            start = text.rfind(b"\n", 0, offset) + 1
                            found[name] = int(text[start:offset].split()[0], 16)
                    if b"\t[" in chunk:  # the modules' symbols come last
                        break
                    rest = text[text.rfind(b"\n") + 1 :]
        except OSError:
            return {}
        return {name: address for name, address in found.items() if address}

    def modules(self) -> list[Module]:
        """The loaded modules whose addresses this user may see."""
        found = []
        for line in self._read("modules").decode().splitlines():
            # ext4 1130496 2 - Live 0xffffffffc0a41000
            fields = line.split()
            address = int(fields[5], 16) if len(fields) > 5 else 0
            if address:
                found.append(Module(fields[0], int(fields[1]), address))
        return found

    def boot_id(self) -> str:
        """A text that changes with every boot; "" where the kernel does not tell one."""
        return self._read("sys/kernel/random/boot_id").decode().strip()

    def setting(self, name: str) -> int | None:
        """A number of /proc/sys, by its dotted name; None where there is none."""
        data = self._read("sys/" + name.replace(".", "/"))
        try:
            return int(data)
        except ValueError:
            return None

    def _read(self, path: str, size: int = -1) -> bytes:
        try:
            with open(f"{self.root}/{path}", "rb", buffering=0 if size > 0 else -1) as file:
                return file.read(size) or b""
        except OSError:  # gone, or somebody else's
            return b""


def _numbers(folder: str) -> list[int]:
    try:
        return sorted(int(name) for name in os.listdir(folder) if name.isdigit())
    except OSError:
        return []


def _field(data: bytes, label: bytes) -> bytes:
    """The rest of the line that starts with `label`."""
    _, found, rest = data.partition(label)
    return rest.partition(b"\n")[0] if found else b""


def raise_open_files_limit() -> bool:
    """Allow this process as many open files as its hard limit; False when it has them already."""
    import resource  # only needed when the soft limit was hit

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return False
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return True
