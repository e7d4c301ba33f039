"""Resolve option texts (pids, tids, users, CPU lists) to the tasks and CPUs to open counters on."""

from __future__ import annotations

from perfpy.abi.cpu_list import parse_cpu_list
from perfpy.abi.startup import NamedTuple
from perfpy.errors import UsageError

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perfpy.kernel.procfs import ProcFs

#: Stands for "every CPU" or "every task" in perf_event_open's arguments.
ANY = -1

_ONLINE = "/sys/devices/system/cpu/online"
_STAT = "/proc/stat"


class TargetOptions(NamedTuple):
    """The options that choose the target. Without any of them the target is a command.

    Attributes:
        pid, tid: numbers separated by commas
        user: a name or a number
        cpu: a list such as 0-2,5
        cgroups: names of cgroups
        inherit: whether to sample the children of the target
        exclude_perf: whether to omit perfpy's own samples
    """

    pid: str = ""
    tid: str = ""
    user: str = ""
    cpu: str = ""
    all_cpus: bool = False
    per_thread: bool = False
    cgroups: tuple[str, ...] = ()
    inherit: bool = True
    exclude_perf: bool = False

    @property
    def is_given(self) -> bool:
        """Whether an option names tasks, users or CPUs."""
        return bool(self.pid or self.tid or self.user or self.cpu or self.all_cpus)


_COMMAND = TargetOptions()


class Target:
    """The tasks and CPUs to measure.

    Attributes:
        kind: "command", "pid", "tid", "user", "cpu" (some CPUs), "system" (all CPUs) or "threads" (every thread).
        tids: the tasks to open counters on; empty for "command" (its pid is known after the fork), "cpu" and "system" (all tasks).
        cpus: the requested CPUs, or all online ones.
        text: the option's value, for headings.
    """

    __slots__ = ("cpus", "kind", "text", "tids")

    def __init__(self, kind: str, tids: tuple[int, ...], cpus: tuple[int, ...], text: str = "") -> None:
        self.kind = kind
        self.tids = tids
        self.cpus = cpus
        self.text = text

    @property
    def has_tasks(self) -> bool:
        """Whether counters follow tasks (on any CPU) rather than CPUs."""
        return self.kind not in ("cpu", "system")


def resolve(options: TargetOptions = _COMMAND, *, every_thread: bool = False, procfs: ProcFs | None = None) -> tuple[Target, list[str]]:
    """Return the target of the options, and a warning for each overridden option. every_thread: all threads, separately.

    Raises UsageError for malformed lists, and for tasks that do not exist.
    """
    pid, tid, user, cpu, system_wide, *_ = options
    warnings = _overridden(pid, tid, user, cpu, system_wide)
    cpus = online_cpus()
    if cpu and not (pid or tid or user):
        cpus = _among(cpus, parse_cpus(cpu))
    if pid:
        return Target("pid", _threads(parse_ids(pid, "pid"), procfs), cpus, pid), warnings
    if tid:
        return Target("tid", _existing(parse_ids(tid, "tid"), procfs), cpus, tid), warnings
    if user:
        return Target("user", user_threads(user, procfs), cpus, user), warnings
    if every_thread:
        return Target("threads", all_threads(procfs), cpus), warnings
    if system_wide:
        return Target("system", (), cpus), warnings
    if cpu:
        return Target("cpu", (), cpus, cpu), warnings
    return Target("command", (), cpus), warnings


def _overridden(pid: str, tid: str, user: str, cpu: str, system_wide: bool) -> list[str]:
    warnings = []
    if pid and tid:
        warnings.append("-t is ignored, because -p is given")
    if user and (pid or tid):
        warnings.append("-u is ignored, because -p or -t is given")
    if user and cpu and not (pid or tid):
        warnings.append("-C is ignored, because -u is given")
    if cpu and (pid or tid):
        warnings.append("-C is ignored, because -p or -t is given")
    if system_wide and (pid or tid):
        warnings.append("-a is ignored, because -p or -t is given")
    if system_wide and user and not (pid or tid):
        warnings.append("-a is ignored, because -u is given")
    return warnings


def parse_ids(text: str, option: str) -> tuple[int, ...]:
    """Parse numbers separated by commas; duplicates are dropped."""
    ids: dict[int, None] = {}
    for item in text.split(","):
        if not item.strip().isdecimal():
            raise UsageError(f"--{option} {text}: '{item}' is not a number; expected numbers separated by commas")
        ids[int(item)] = None
    return tuple(ids)


def parse_cpus(text: str) -> tuple[int, ...]:
    """Parse a list such as 0-2,5, of at least one CPU, in ascending order. Raises UsageError."""
    try:
        cpus = parse_cpu_list(text)
    except ValueError as error:
        raise UsageError(f"--cpu {text}: {error}") from None
    if not cpus:
        raise UsageError(f"--cpu {text}: no CPU in the list; expected for example 0-2,5")
    return cpus


def _among(online: tuple[int, ...], requested: tuple[int, ...]) -> tuple[int, ...]:
    for cpu in requested:
        if cpu not in online:
            raise UsageError(f"--cpu: CPU {cpu} is offline or does not exist; see /sys/devices/system/cpu/online")
    return requested


def online_cpus() -> tuple[int, ...]:
    """Return the online CPUs. In a chroot or container without sysfs, /proc/stat lists them."""
    try:
        with open(_ONLINE) as file:
            return parse_cpu_list(file.read())
    except FileNotFoundError:
        with open(_STAT) as file:
            return tuple(sorted(int(name[3:]) for line in file if (name := line.split(" ", 1)[0])[3:].isdecimal() and name[:3] == "cpu"))


def all_threads(procfs: ProcFs | None = None) -> tuple[int, ...]:
    """Return every thread of every process."""
    procfs = procfs or _procfs()
    return tuple(tid for pid in procfs.processes() for tid in procfs.threads(pid))


def user_threads(user: str, procfs: ProcFs | None = None) -> tuple[int, ...]:
    """Return every thread of a user, given by name or number. Raises UsageError if the user does not exist."""
    import pwd

    if user.isdecimal():
        uid = int(user)
    else:
        try:
            uid = pwd.getpwnam(user).pw_uid
        except KeyError:
            raise UsageError(f"--uid {user}: no such user") from None
    procfs = procfs or _procfs()
    tids = []
    for pid in procfs.processes():
        status = procfs.status(pid)
        if status is not None and status.uid == uid:
            tids += procfs.threads(pid)
    if not tids:
        raise UsageError(f"--uid {user}: no process belongs to this user")
    return tuple(tids)


def comms(tids: Iterable[int], procfs: ProcFs | None = None) -> list[tuple[str, int]]:
    """Return (comm, tid) of each thread; an ended thread has the comm "<unknown>"."""
    procfs = procfs or _procfs()
    names = []
    for tid in tids:
        status = procfs.status(tid)
        names.append((status.comm if status else "<unknown>", tid))
    return names


def _threads(pids: Sequence[int], procfs: ProcFs | None) -> tuple[int, ...]:
    procfs = procfs or _procfs()
    tids: list[int] = []
    for pid in pids:
        threads = procfs.threads(pid)
        if not threads:
            raise UsageError(f"--pid {pid}: no such process")
        tids += threads
    return tuple(tids)


def _existing(tids: Sequence[int], procfs: ProcFs | None) -> tuple[int, ...]:
    procfs = procfs or _procfs()
    for tid in tids:
        if procfs.status(tid) is None:
            raise UsageError(f"--tid {tid}: no such thread")
    return tuple(tids)


def _procfs() -> ProcFs:
    from perfpy.kernel.procfs import ProcFs  # not needed for a command

    return ProcFs()
