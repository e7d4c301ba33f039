"""The default target of a recording."""

from __future__ import annotations

import pytest

from perfpy.abi.flags import PerfType, SoftwareId
from perfpy.capture.record_options import OffCpuOptions, RecordOptions
from perfpy.capture.session import recorder
from perfpy.capture.session.recorder import Recorder
from perfpy.kernel import syscalls
from tests.builders.fake_kernel import FakeKernel


@pytest.mark.parametrize(("off_cpu", "first"), [(False, (PerfType.HARDWARE, 0)), (True, (PerfType.SOFTWARE, SoftwareId.TASK_CLOCK))])
def test_beside_the_time_off_the_cpu_stands_the_time_on_it(off_cpu, first):
    _, events = Recorder(
        ("true",), options=RecordOptions(off_cpu=OffCpuOptions(enabled=off_cpu), quiet=True), kernel=FakeKernel()
    ).prepare()
    assert (events[0].attr.type, events[0].attr.config) == first


@pytest.mark.parametrize(
    ("paranoid", "capabilities", "user_only"), [(2, 0, True), (3, 0, True), (1, 0, False), (2, 1 << 38, False), (2, 1 << 21, False)]
)
def test_without_permission_the_default_event_excludes_the_kernel(monkeypatch, capsys, paranoid, capabilities, user_only):
    monkeypatch.setattr(syscalls, "paranoid_level", lambda: paranoid)
    monkeypatch.setattr(recorder, "paranoid_level", lambda: paranoid)
    monkeypatch.setattr(syscalls, "own_status", lambda: (capabilities, 0))
    _, events = Recorder(("true",), options=RecordOptions(notes=True), kernel=FakeKernel()).prepare()
    assert (events[0].attr.exclude_kernel, events[0].attr.exclude_guest) == (user_only, user_only)
    assert ("measuring user space only" in capsys.readouterr().err) == user_only
