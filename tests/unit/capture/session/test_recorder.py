"""The default target of a recording."""

from __future__ import annotations

import pytest

from perfpy.abi.flags import PerfType, SoftwareId
from perfpy.capture.record_options import OffCpuOptions, RecordOptions
from perfpy.capture.session.recorder import Recorder
from tests.builders.fake_kernel import FakeKernel


@pytest.mark.parametrize(("off_cpu", "first"), [(False, (PerfType.HARDWARE, 0)), (True, (PerfType.SOFTWARE, SoftwareId.TASK_CLOCK))])
def test_beside_the_time_off_the_cpu_stands_the_time_on_it(off_cpu, first):
    _, events = Recorder(
        ("true",), options=RecordOptions(off_cpu=OffCpuOptions(enabled=off_cpu), quiet=True), kernel=FakeKernel()
    ).prepare()
    assert (events[0].attr.type, events[0].attr.config) == first
