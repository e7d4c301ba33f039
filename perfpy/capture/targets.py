"""Resolve option texts (pids, tids, users, CPU lists) to the tasks and CPUs to open counters on."""

from __future__ import annotations

import errno
import os
import time

from perfpy.abi.cpu_list import parse_cpu_list
from perfpy.abi.light_types import NamedTuple, signal
from perfpy.errors import UsageError, WorkloadFailedError
from perfpy.kernel.syscalls import wait_for_child

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from perfpy.kernel.procfs import ProcFs


#: Stands for "every CPU" or "every task" in perf_event_open's arguments.
ANY = -1

_ONLINE = "/sys/devices/system/cpu/online"
_STAT = "/proc/stat"
_MOST_DESCENDANTS = 500  # processes; each thread takes a counter on each CPU


class TargetOptions(NamedTuple):
    """The options that choose the target. Without any of them the target is a command.

    Attributes:
        pid, tid: numbers separated by commas
        user: a name or a number
        cpu: a list such as 0-2,5
        cgroups: names of cgroups
        descendants: whether pid includes the processes that these have started and that still run
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
    descendants: bool = False

    @property
    def is_given(self) -> bool:
        """Whether an option names tasks, users or CPUs."""
        return bool(self.pid or self.tid or self.user or self.cpu or self.all_cpus)


_COMMAND = TargetOptions()


class Target(NamedTuple):
    """The tasks and CPUs to measure.

    Attributes:
        kind: "command", "pid", "tid", "user", "cpu" (some CPUs), "system" (all CPUs) or "threads" (every thread).
        tids: the tasks to open counters on; empty for "command" (its pid is known after the fork), "cpu" and "system" (all tasks).
        cpus: the requested CPUs, or all online ones.
        text: the option's value, for headings.
    """

    kind: str
    tids: tuple[int, ...]
    cpus: tuple[int, ...]
    text: str = ""

    @property
    def has_tasks(self) -> bool:
        """Whether counters follow tasks (on any CPU) rather than CPUs."""
        return self.kind not in ("cpu", "system")


class NoSuchThreadError(UsageError):
    """A thread of --tid does not exist. perf notices when it opens the first event, and returns 255."""

    exit_code = 255


class OfflineCpuError(UsageError):
    """A requested CPU is offline. perf record returns -ENODEV as its status."""

    exit_code = 237


def resolve(
    options: TargetOptions = _COMMAND, *, every_thread: bool = False, skip_offline: bool = False, procfs: ProcFs | None = None
) -> tuple[Target, list[str]]:
    """Return the target of the options, and a warning for each overridden option.

    Raises UsageError for malformed lists, and for tasks that do not exist.

    Args:
        every_thread: measure all threads, separately.
        skip_offline: measure the requested CPUs that are online; otherwise all of them must be.
    """
    pid, tid, user, cpu, system_wide, *_ = options
    warnings = _overridden(pid, tid, user, cpu, system_wide)
    cpus = online_cpus()
    if cpu and not (pid or tid or user):
        online, cpus = cpus, parse_cpus(cpu)
        if skip_offline:
            cpus = tuple(number for number in cpus if number in online)
        for number in cpus:
            if number not in online:
                raise OfflineCpuError(f"--cpu: CPU {number} is offline or does not exist; see {_ONLINE}")
    if pid:
        pids = parse_ids(pid, "pid")
        tids = _threads(pids, procfs)
        if options.descendants:
            tids += threads_of_descendants(pids, procfs)
        return Target("pid", tids, cpus, pid), warnings
    if tid:
        return Target("tid", _existing(parse_ids(tid, "tid"), procfs), cpus, tid), warnings
    if user:
        return Target("user", user_threads(user, procfs), cpus, user), warnings
    if every_thread:
        return Target("threads", all_threads(procfs), cpus), warnings
    if cpu:
        return Target("cpu", (), cpus, cpu), warnings
    if system_wide:
        return Target("system", (), cpus), warnings
    return Target("command", (), cpus), warnings


def _overridden(pid: str, tid: str, user: str, cpu: str, system_wide: bool) -> list[str]:
    """Return a warning for each option that another one overrides."""
    has_tasks = pid or tid
    warnings = (
        (pid and tid, "-t is ignored, because -p is given"),
        (user and has_tasks, "-u is ignored, because -p or -t is given"),
        (user and cpu and not has_tasks, "-C is ignored, because -u is given"),
        (cpu and has_tasks, "-C is ignored, because -p or -t is given"),
        (system_wide and has_tasks, "-a is ignored, because -p or -t is given"),
        (system_wide and user and not has_tasks, "-a is ignored, because -u is given"),
    )
    return [text for is_overridden, text in warnings if is_overridden]


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


def threads_of_descendants(pids: Sequence[int], procfs: ProcFs | None = None) -> tuple[int, ...]:
    """Return every thread of the processes that these ones have started and that this user may measure; of thousands the busiest."""
    procfs = procfs or _procfs()
    descendants, uid = procfs.descendants(pids), os.geteuid()
    statuses = {pid: procfs.status(pid) for pid in descendants} if uid else {}
    mine = [pid for pid in descendants if uid == 0 or ((status := statuses[pid]) is not None and status.uid == uid)]
    busiest = sorted(mine, key=lambda pid: -descendants[pid][1])[:_MOST_DESCENDANTS]
    return tuple(tid for pid in busiest for tid in procfs.threads(pid))


def _existing(tids: Sequence[int], procfs: ProcFs | None) -> tuple[int, ...]:
    procfs = procfs or _procfs()
    for tid in tids:
        if procfs.status(tid) is None:
            raise NoSuchThreadError(f"--tid {tid}: no such thread")
    return tuple(tids)


def _procfs() -> ProcFs:
    from perfpy.kernel.procfs import ProcFs  # not needed for a command

    return ProcFs()


# The command to measure: forked at once, held at a pipe until its counters are open, then executed. The program keeps its own standard
# streams, signals and exit status.

_SHELL = "/bin/sh"
_ERRNO_BYTES = 4


class WorkloadEnd(NamedTuple):
    """The end of a program: its status as of wait(2), and the CPU time of it and its children, in seconds."""

    status: int
    user_time: float
    system_time: float

    @property
    def signal(self) -> int:
        """The signal that ended it, or 0."""
        return os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else 0

    @property
    def exit_code(self) -> int:
        """Its exit status, or 128 + the signal's number."""
        return 128 + self.signal if self.signal else os.WEXITSTATUS(self.status)


class Workload:
    """One run of a command.

    The child exists from the constructor on, but executes the command only at start(): counters opened on `.pid` with
    enable_on_exec count the program and nothing of perfpy. Use it as a context manager, so that an error in between does not leave
    a zombie.

    Args:
        stdout_to_stderr: redirect the program's output, because perfpy needs standard output.
        environment: variables to set for the program.
    """

    def __init__(self, command: Sequence[str], *, stdout_to_stderr: bool = False, environment: Mapping[str, str] | None = None) -> None:
        self.command = tuple(command)
        self.ended: WorkloadEnd | None = None
        self.started_ns = 0
        go_read, self._go = os.pipe()
        self._failure, failure_write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._go)
            if stdout_to_stderr:
                os.dup2(2, 1)
            if environment:
                os.environ.update(environment)
            _run_child(self.command, go_read, failure_write)
        os.close(go_read)
        os.close(failure_write)

    def start(self) -> None:
        """Let the child execute the command; return once it does. Raises WorkloadFailedError if that fails."""
        self.release()
        self.confirm()

    def release(self) -> None:
        """Let the child execute the command."""
        self.started_ns = time.monotonic_ns()
        os.write(self._go, b"g")
        self._close_go()

    def confirm(self) -> None:
        """Wait until the released child executes the command. Raises WorkloadFailedError if that fails."""
        answer = os.read(self._failure, _ERRNO_BYTES)  # the pipe closes at exec
        os.close(self._failure)
        self._failure = -1
        if answer:
            self.wait()
            raise WorkloadFailedError(self.command[0], os.strerror(int.from_bytes(answer, "little")))

    def wait(self) -> WorkloadEnd:
        """Wait for the program's end."""
        while self.ended is None:
            self._collect(0)
        return self.ended

    def poll(self) -> WorkloadEnd | None:
        """Return how the program ended, or None while it runs."""
        if self.ended is None:
            self._collect(os.WNOHANG)
        return self.ended

    def kill(self, signum: int = signal.SIGTERM) -> None:
        """Send the program a signal, unless it has ended."""
        if self.ended is None:
            os.kill(self.pid, signum)

    def _collect(self, options: int) -> None:
        pid, status, user_time, system_time = wait_for_child(self.pid, options)
        if pid:
            self.ended = WorkloadEnd(status, user_time, system_time)

    def _close_go(self) -> None:
        if self._go >= 0:
            os.close(self._go)
            self._go = -1

    def __enter__(self) -> Workload:
        return self

    def __exit__(self, *exc: object) -> None:
        """End a child that was never started; terminate a running one, and wait for it."""
        self._close_go()  # a held child reads the end of file, and exits
        if self.ended is None:
            if self._failure < 0:
                self.kill()
            self.wait()
        if self._failure >= 0:
            os.close(self._failure)
            self._failure = -1


def _run_child(command: tuple[str, ...], go: int, failure: int) -> None:
    """Run in the child: wait for the parent, then execute the command, or report the errno. Never returns."""
    try:
        # Python ignores these; programs expect the default.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        candidates = _search_path(command[0])
        if os.read(go, 1):
            _execute(candidates, command)
    except OSError as error:
        _tell(failure, error.errno or errno.EINVAL)
    except ValueError:  # execv rejects an empty name, or a NUL in a word, without asking the kernel
        _tell(failure, errno.EINVAL if command[0] else errno.ENOENT)
    finally:
        os._exit(127)


def _tell(failure: int, number: int) -> None:
    os.write(failure, number.to_bytes(_ERRNO_BYTES, "little"))


def _search_path(name: str) -> list[str]:
    """Return the candidate paths of a program by PATH; os.execvp would search, and import modules, while the clock runs."""
    if "/" in name or not name:
        return [name]
    return [os.path.join(folder, name) for folder in os.environ.get("PATH", os.defpath).split(os.pathsep)]


def _execute(candidates: Sequence[str], command: tuple[str, ...]) -> None:
    """Execute the first executable path, as execvp(3); files that the kernel cannot execute are scripts for the shell."""
    refused: OSError | None = None
    for path in candidates:
        try:
            os.execv(path, command)
        except (FileNotFoundError, NotADirectoryError) as error:
            refused = refused or error
        except OSError as error:
            if error.errno == errno.ENOEXEC:
                os.execv(_SHELL, (_SHELL, path, *command[1:]))
            if refused is None or refused.errno != errno.EACCES:
                refused = error
    if refused:
        raise refused
