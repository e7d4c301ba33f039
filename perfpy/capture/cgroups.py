"""Cgroups as targets: names -> folders below the mount -> file descriptors for perf_event_open."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from perfpy.abi.light_types import NamedTuple
from perfpy.errors import UsageError
from perfpy.events.event import copies_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perfpy.events.event import Event

_PATTERN = re.compile(r"[\^$*+?()\[\]{}|\\]")


def mount_point(mounts: str = "/proc/mounts", controller: str = "perf_event") -> str:
    """Return the mount point of the hierarchy of a controller, by default that which perf events follow: of version 1, or version 2's."""
    second = ""
    with open(mounts) as file:
        for line in file:
            _, path, kind, options, *_ = line.split()
            if kind == "cgroup" and controller in options.split(","):
                return path
            if kind == "cgroup2":
                second = second or path
    if not second:
        raise UsageError("cgroup: no cgroup file system is mounted")
    return second


def assign(events: Sequence[Event], names: str) -> dict[Event, Event]:
    """Return each event's copy in its cgroup: the n-th of -G NAME,... for the n-th event. An empty name means none; one name means all.

    Raises UsageError if there are more names than events.
    """
    listed = names.split(",")
    if not events:
        raise UsageError("--cgroup requires -e before it")
    if len(listed) > len(events):
        raise UsageError(f"--cgroup {names}: {len(listed)} cgroups for {len(events)} events")
    if len(listed) == 1:
        listed *= len(events)
    cgroup_of = {event: name or None for event, name in zip(events, listed, strict=False)}
    return copies_of(events, lambda event: {"cgroup": cgroup_of.get(event)})


def expand(events: Sequence[Event], names: str, root: str | None = None) -> list[dict[Event, Event]]:
    """Return the copies of the events for each cgroup of --for-each-cgroup NAME,...; a name with pattern characters matches paths.

    Raises UsageError if a pattern matches no cgroup.
    """
    cgroups = matching(names, root or mount_point()) if _PATTERN.search(names) else names.split(",")
    return [_in_cgroup(events, cgroup) for cgroup in cgroups]


def _in_cgroup(events: Sequence[Event], cgroup: str) -> dict[Event, Event]:
    return copies_of(events, lambda _event: {"cgroup": cgroup or None})


def matching(pattern: str, root: str) -> list[str]:
    """Return the sorted paths of the cgroups below `root` that match a regular expression of a list (A,B)."""
    try:
        expressions = [re.compile(part) for part in pattern.split(",") if part]
    except re.error as error:
        raise UsageError(f"--for-each-cgroup {pattern}: {error}") from None
    paths = []
    for folder, _, _ in os.walk(root):
        path = os.path.relpath(folder, root)
        if path != "." and any(expression.search(path) for expression in expressions):
            paths.append(path)
    if not paths:
        raise UsageError(f"--for-each-cgroup {pattern}: no cgroup below {root} matches")
    return sorted(paths)


def open_folders(events: Iterable[Event], root: str | None = None) -> dict[str, int]:
    """Open the folder of each cgroup among the events; return name -> descriptor. Raises UsageError for a missing cgroup."""
    fds: dict[str, int] = {}
    try:
        for event in events:
            name = event.cgroup
            if name is not None and name not in fds:
                root = root or mount_point()
                fds[name] = open_folder(name, root)
    except UsageError:
        for fd in fds.values():
            os.close(fd)
        raise
    return fds


def open_folder(name: str, root: str | None = None) -> int:
    """Open a cgroup's folder and return the descriptor. Raises UsageError if it does not exist."""
    path = os.path.join(root or mount_point(), name.lstrip("/"))
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"no access to cgroup {path}: {os.strerror(error.errno or 0)}") from None


def folders_of(names: Sequence[str], events: int) -> list[int | None]:
    """Return the descriptor of each event's cgroup, None for an empty name; a single name applies to all events."""
    if len(names) > max(events, 1):
        raise UsageError(f"--cgroup: {len(names)} cgroups for {events} events")
    cgroups = [*names] * (events if len(names) == 1 else 1)
    fds = {name: open_folder(name) for name in set(cgroups) if name}
    return [fds.get(name) for name in cgroups]


# The CPU limit of a process's cgroup (kernel: Documentation/scheduler/sched-bwc.rst): its threads wait for a CPU although CPUs are idle.


class CpuLimit(NamedTuple):
    """A limit.

    Attributes:
        cpus: that the cgroup's threads may use on average.
        folder: of the cgroup.
    """

    cpus: float
    folder: str

    def periods(self) -> tuple[int, int]:
        """Return the number of periods so far in which the cgroup had work, and of those in which it reached the limit."""
        numbers = dict(line.split()[:2] for line in _lines(f"{self.folder}/cpu.stat") if " " in line)
        return int(numbers.get("nr_periods", 0)), int(numbers.get("nr_throttled", 0))


def cpu_limit(pid: int, proc: str = "/proc") -> CpuLimit | None:
    """Return the nearest limit of a process's cgroup and its parents; None without one."""
    hierarchies = [line.split(":", 2) for line in _lines(f"{proc}/{pid}/cgroup") if line.count(":") >= 2]
    found = next((one for one in hierarchies if "cpu" in one[1].split(",")), None) or next((one for one in hierarchies if not one[1]), None)
    if found is None:
        return None
    try:
        root = mount_point(f"{proc}/mounts", "cpu")
    except (UsageError, OSError):
        return None
    folder = os.path.normpath(f"/{found[2].lstrip('/')}")
    while folder != "/":
        here = root + folder
        quota, period = [*"".join(_lines(f"{here}/cpu.max")).split(), "", ""][:2] if not found[1] else _limits_of_first(here)
        if quota.isdigit() and period.isdigit() and int(period):
            return CpuLimit(int(quota) / int(period), here)
        folder = os.path.dirname(folder)
    return None


def _limits_of_first(folder: str) -> list[str]:
    return ["".join(_lines(f"{folder}/cpu.cfs_{name}_us")).strip() for name in ("quota", "period")]


def _lines(path: str) -> list[str]:
    """Return the lines of a small file; none if it cannot be read."""
    try:
        with open(path) as file:
            return file.read(1 << 16).splitlines()
    except (OSError, ValueError):
        return []
