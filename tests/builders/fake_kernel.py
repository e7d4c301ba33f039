"""A Kernel in memory: opens what the test allows, counts what the test says, remembers every call."""

from __future__ import annotations

import errno
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perfpy.abi.flags import FLAG_FD_CLOEXEC, ReadFormat
from perfpy.errors import KernelRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.abi.attr import EventAttr

FIRST_FD = 1000


@dataclass
class FakeCounter:
    """One open counter; what its read() returns is in value, enabled, running (gone: as a lost pinned one)."""

    attr: EventAttr
    pid: int
    cpu: int
    group_fd: int
    flags: int
    event: str
    fd: int
    value: int = 0
    enabled: int = 0
    running: int = 0
    lost: int = 0
    gone: bool = False
    counting: bool = False
    filter: str = ""
    closed: bool = False


@dataclass
class FakeKernel:
    """counts(counter): called at each read of a counter, may set its values; refuse: event name -> errno; page: what map_page maps."""

    counts: Callable[[FakeCounter], None] = lambda counter: None
    refuse: dict[str, int] = field(default_factory=dict)
    counters: list[FakeCounter] = field(default_factory=list)
    calls: list[tuple[object, ...]] = field(default_factory=list)
    page: bytearray | None = None

    def counter(self, fd: int) -> FakeCounter:
        return self.counters[fd - FIRST_FD]

    def named(self, event: str) -> list[FakeCounter]:
        """The counters opened for an event, in order."""
        return [counter for counter in self.counters if counter.event == event]

    def perf_event_open(
        self, attr: EventAttr, pid: int, cpu: int, group_fd: int = -1, flags: int = FLAG_FD_CLOEXEC, *, event: str = ""
    ) -> int:
        self.calls.append(("open", event, pid, cpu, group_fd))
        if event in self.refuse:
            raise KernelRefusedError("perf_event_open", self.refuse[event], event=event)
        fd = FIRST_FD + len(self.counters)
        counter = FakeCounter(attr.copy(), pid, cpu, group_fd, flags, event, fd, counting=not attr.disabled)
        self.counters.append(counter)
        return fd

    def _group(self, fd: int, group: bool) -> list[FakeCounter]:
        return [c for c in self.counters if c.fd == fd or (group and c.group_fd == fd)]

    def enable(self, fd: int, *, group: bool = False) -> None:
        self.calls.append(("enable", fd, group))
        for counter in self._group(fd, group):
            counter.counting = True

    def disable(self, fd: int, *, group: bool = False) -> None:
        self.calls.append(("disable", fd, group))
        for counter in self._group(fd, group):
            counter.counting = False

    def reset(self, fd: int, *, group: bool = False) -> None:
        self.calls.append(("reset", fd, group))
        for counter in self._group(fd, group):
            counter.value = 0

    def refresh(self, fd: int, overflows: int) -> None:
        self.calls.append(("refresh", fd, overflows))

    def set_period(self, fd: int, period: int) -> None:
        self.calls.append(("set_period", fd, period))

    def set_output(self, fd: int, target_fd: int) -> None:
        self.calls.append(("set_output", fd, target_fd))

    def set_filter(self, fd: int, text: str) -> None:
        self.calls.append(("set_filter", fd, text))
        self.counter(fd).filter = text

    def event_id(self, fd: int) -> int:
        return fd - FIRST_FD + 1

    def set_bpf(self, fd: int, program_fd: int) -> None:
        self.calls.append(("set_bpf", fd, program_fd))

    def pause_output(self, fd: int, paused: bool) -> None:
        self.calls.append(("pause_output", fd, paused))

    def modify_attributes(self, fd: int, attr: EventAttr) -> None:
        self.calls.append(("modify_attributes", fd))

    def read(self, fd: int, size: int) -> bytes:
        counter = self.counter(fd)
        self.counts(counter)
        if counter.gone:
            return b""
        read_format = counter.attr.read_format
        if read_format & ReadFormat.GROUP:
            return self._read_group(fd if counter.group_fd < 0 else counter.group_fd, read_format)
        values = [counter.value]
        values += self._times(counter, read_format)
        values += [self.event_id(fd)] * bool(read_format & ReadFormat.ID)
        values += [counter.lost] * bool(read_format & ReadFormat.LOST)
        return struct.pack(f"={len(values)}Q", *values)

    def _times(self, counter: FakeCounter, read_format: int) -> list[int]:
        return [counter.enabled] * bool(read_format & ReadFormat.TOTAL_TIME_ENABLED) + [counter.running] * bool(
            read_format & ReadFormat.TOTAL_TIME_RUNNING
        )

    def _read_group(self, fd: int, read_format: int) -> bytes:
        members = self._group(fd, True)
        values = [len(members), *self._times(members[0], read_format)]
        for member in members:
            if member.fd != fd:
                self.counts(member)
            values.append(member.value)
            values += [self.event_id(member.fd)] * bool(read_format & ReadFormat.ID)
            values += [member.lost] * bool(read_format & ReadFormat.LOST)
        return struct.pack(f"={len(values)}Q", *values)

    def map_page(self, fd: int) -> bytearray:
        self.calls.append(("map_page", fd))
        if self.page is None:
            raise KernelRefusedError("mmap", errno.EINVAL, cause="the kernel does not map this counter's page: Invalid argument")
        return self.page

    def enable_all(self) -> None:
        self.calls.append(("enable_all",))
        for counter in self.counters:
            counter.counting = True

    def disable_all(self) -> None:
        self.calls.append(("disable_all",))
        for counter in self.counters:
            counter.counting = False

    def close(self, fd: int) -> None:
        self.counter(fd).closed = True
