"""Tests of system calls without ctypes: results, errors, and buffers that the kernel fills."""

from __future__ import annotations

import errno
import os
import platform
from typing import TYPE_CHECKING

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import ATTR_SIZE_VER8, PerfType, SoftwareId
from perfpy.errors import KernelRefusedError, UsageError
from perfpy.kernel import syscalls
from perfpy.kernel import syscalls as refusals
from perfpy.kernel.syscalls import system_call

if TYPE_CHECKING:
    from pathlib import Path


_NUMBERS = {"x86_64": (39, 0, 3), "aarch64": (172, 63, 57)}  # getpid, read, close
GETPID, READ, CLOSE = _NUMBERS.get(platform.machine(), (0, 0, 0))


@pytest.mark.skipif(platform.machine() not in _NUMBERS, reason="the test knows no system call numbers of this machine")
def test_a_result_is_returned() -> None:
    assert system_call(GETPID) == os.getpid()


@pytest.mark.skipif(platform.machine() not in _NUMBERS, reason="the test knows no system call numbers of this machine")
def test_an_error_is_raised_with_its_number() -> None:
    with pytest.raises(OSError, match="system call failed") as refusal:
        system_call(CLOSE, -1)
    assert refusal.value.errno == errno.EBADF


@pytest.mark.skipif(platform.machine() not in _NUMBERS, reason="the test knows no system call numbers of this machine")
def test_the_kernel_fills_a_buffer() -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, b"answer")
        buffer = bytearray(16)
        assert system_call(READ, reading, buffer, len(buffer)) == 6
        assert buffer[:6] == b"answer"
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.skipif(platform.machine() not in _NUMBERS, reason="the test knows no system call numbers of this machine")
def test_negative_numbers_keep_their_sign() -> None:
    """A pid of -1 must not become 4294967295."""
    with pytest.raises(OSError, match="system call failed") as refusal:
        system_call(READ, -1, bytearray(1), 1)
    assert refusal.value.errno == errno.EBADF


# A refusal names its cause: which setting, which capability, which resource, and what to try.


SYSLOG = 1 << 34
PERFMON = 1 << 38
CLOCK = EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.TASK_CLOCK)
CYCLES = EventAttr(type=PerfType.HARDWARE)
TRACEPOINT = EventAttr(type=PerfType.TRACEPOINT, exclude_kernel=1)


@pytest.mark.parametrize(
    ("level", "capabilities", "seccomp", "attr", "pid", "cause", "remedy"),
    [
        (3, 0, 0, CLOCK, 0, "users may not measure anything", "CAP_PERFMON"),
        (2, 0, 0, CLOCK, 0, "may not measure the kernel", ":u"),
        (2, 0, 0, CLOCK, -1, "may not count whole CPUs", "perf_event_paranoid=0"),
        (1, 0, 0, TRACEPOINT, 0, "users may not open tracepoints", "perf_event_paranoid=-1"),
        (-1, 0, 2, CLOCK, 0, "seccomp", "seccomp profile"),
        (2, PERFMON, 2, CLOCK, 0, "seccomp", "seccomp profile"),
        (-1, 0, 0, CLOCK, 17, "process 17 belongs to another user", "CAP_SYS_PTRACE"),
    ],
)
def test_permissions_are_distinguished(
    monkeypatch: pytest.MonkeyPatch, level: int, capabilities: int, seccomp: int, attr: EventAttr, pid: int, cause: str, remedy: str
) -> None:
    """Paranoid level, capability, seccomp filter, somebody else's process."""
    monkeypatch.setattr(refusals, "paranoid_level", lambda: level)
    monkeypatch.setattr(refusals, "own_status", lambda: (capabilities, seccomp))
    refused = refusals.open_refused(errno.EPERM, attr, pid, -1 if pid != -1 else 0, event="task-clock")
    assert cause in refused.cause
    assert remedy in refused.remedy
    assert str(refused).startswith("cannot open event 'task-clock': ")


@pytest.mark.parametrize(
    ("code", "attr", "cause"),
    [
        (errno.ENOENT, CYCLES, "no PMU that counts it"),
        (errno.ENOENT, CLOCK, "does not know this event"),
        (errno.ESRCH, CLOCK, "no process or thread 5"),
        (errno.EBUSY, CLOCK, "exclusive use of the PMU"),
        (errno.ENOSYS, CLOCK, "no perf events"),
        (errno.EINVAL, EventAttr(branch_sample_type=1), "branches"),
        (errno.EINVAL, EventAttr(precise_ip=2), "precision 2"),
        (errno.EOPNOTSUPP, EventAttr(precise_ip=3), "precision 3"),
        (errno.EOPNOTSUPP, EventAttr(branch_sample_type=1), "branches"),
        (errno.EINVAL, EventAttr(type=15, sample_period=4000), "only counts"),
        (errno.EINVAL, EventAttr(type=15, sample_period=4000, exclude_kernel=1), "leave out the kernel or user space"),
    ],
)
def test_other_causes(monkeypatch: pytest.MonkeyPatch, code: int, attr: EventAttr, cause: str) -> None:
    """What is missing, where."""
    monkeypatch.setattr(refusals, "_has_core_pmu", lambda: False)
    refused = refusals.open_refused(code, attr, 5, -1)
    assert refused.errno == code
    assert cause in refused.cause


def test_a_pmu_that_lacks_an_event_is_not_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "_has_core_pmu", lambda: True)
    assert refusals.open_refused(errno.ENOENT, CYCLES, 5, -1).cause == "the PMU of this CPU cannot count it"


def test_fields_that_an_old_kernel_lacks_are_named() -> None:
    """E2BIG says how much the kernel knows."""
    refused = refusals.open_refused(errno.E2BIG, EventAttr(config3=1), 0, -1, known_size=128)
    assert "lacks config3" in refused.cause


def test_status_and_level_are_read_from_proc(tmp_path: Path) -> None:
    """Files that are not there mean nothing is known."""
    status = tmp_path / "status"
    status.write_text("Name:\tx\nCapEff:\t0000004000000000\nSeccomp:\t2\n")
    assert refusals.own_status(str(status)) == (PERFMON, 2)
    assert refusals.own_status(str(tmp_path / "none")) == (0, 0)
    assert refusals.paranoid_level(str(tmp_path / "none")) is None


@pytest.mark.parametrize(
    ("restriction", "paranoid", "capabilities", "hidden"),
    [(0, 1, 0, False), (0, 2, 0, True), (1, -1, 0, True), (1, 2, SYSLOG, False), (2, -1, SYSLOG, True), (0, 4, SYSLOG, False)],
)
def test_permissions_for_kernel_addresses(restriction: int, paranoid: int, capabilities: int, hidden: bool) -> None:
    assert refusals.kernel_addresses_hidden(restriction, paranoid, capabilities) is hidden


def test_all_tasks_on_any_cpu_is_no_request() -> None:
    """The pair that has no meaning is refused before the call."""
    with pytest.raises(UsageError, match="pid -1 with cpu -1"):
        syscalls.perf_event_open(CLOCK, -1, -1)


@pytest.mark.live
def test_a_longer_struct_is_truncated_for_the_kernel() -> None:
    """E2BIG is negotiated as long as the rest is zero, and an error where it is not."""
    fd = syscalls.perf_event_open(CLOCK.copy(size=ATTR_SIZE_VER8 + 64, exclude_kernel=1, disabled=1), 0, -1)
    assert syscalls.event_id(fd) > 0
    syscalls.close(fd)
    wrong = CLOCK.copy(size=ATTR_SIZE_VER8 + 64)
    wrong.unknown = b"\1" * 56
    with pytest.raises(KernelRefusedError) as refused:
        syscalls.perf_event_open(wrong, 0, -1)
    assert refused.value.errno == errno.E2BIG
