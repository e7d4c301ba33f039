"""Ring buffers are as large as the events need, and as the user may lock."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import PerfType, SampleType, SoftwareId
from perfpy.capture.rings.buffer_sizes import default_pages, pages_for
from perfpy.kernel.procfs import ProcFs

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("allowed", "pages"), [("516", 128), ("4", 1), ("1000", 128), ("2052", 512), (None, 128)])
def test_rings_are_as_large_as_a_user_may_lock(tmp_path, allowed, pages):
    if allowed:
        (tmp_path / "sys" / "kernel").mkdir(parents=True)
        (tmp_path / "sys" / "kernel" / "perf_event_mlock_kb").write_text(allowed + "\n")
    assert default_pages(ProcFs(str(tmp_path))) == pages


MAY_LOCK = 1 << 14
CLOCK = EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.TASK_CLOCK, sample_period=4000, freq=1)
FAULTS = EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.PAGE_FAULTS, sample_period=1)
DUMMY = EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.DUMMY, sample_period=1)
STACKS = int(SampleType.STACK_USER)


def megabytes(attrs: list[EventAttr], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capabilities: int = MAY_LOCK) -> float:
    """The size of a ring on a machine of two CPUs, whose users may lock perf's 516 kB."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    settings = tmp_path / "sys" / "kernel"
    settings.mkdir(parents=True, exist_ok=True)
    (settings / "perf_event_mlock_kb").write_text("516\n")
    (settings / "perf_event_paranoid").write_text("2\n")
    return pages_for(attrs, ProcFs(str(tmp_path)), capabilities) * 4096 / (1 << 20)


@pytest.mark.parametrize(
    ("attr", "size"),
    [
        (CLOCK, 0.5),
        (CLOCK.copy(sample_period=20000), 8),
        (CLOCK.copy(sample_type=STACKS), 8),
        (FAULTS, 8),
        (FAULTS.copy(sample_period=4000, freq=1), 0.5),
        (FAULTS.copy(sample_type=STACKS), 32),
    ],
)
def test_the_size_of_rings_follows_the_rate_of_an_event(
    attr: EventAttr, size: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert megabytes([attr, DUMMY], tmp_path, monkeypatch) == size


def test_where_memory_is_locked_for_users_rings_are_perfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert megabytes([FAULTS.copy(sample_type=STACKS)], tmp_path, monkeypatch, capabilities=0) == 0.5
