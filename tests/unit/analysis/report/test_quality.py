"""The lines on how far a profile can be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfpy.abi.flags import PerfType, SampleType, SoftwareId
from perfpy.abi.records import Lost
from perfpy.abi.sample_id import SampleId
from perfpy.abi.waits import OFF_CPU_EVENT
from perfpy.analysis.report.quality import quality_notes
from perfpy.recording import Recording
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.abi.attr import EventAttr

FREQUENCY = usual_attr(USUAL | SampleType.CALLCHAIN)
COUNT = FREQUENCY.copy(freq=0)
FAULTS = FREQUENCY.copy(type=PerfType.SOFTWARE, config=SoftwareId.PAGE_FAULTS, sample_period=1, freq=0)
TRACEPOINT = FREQUENCY.copy(type=PerfType.TRACEPOINT, sample_period=1, freq=0)
WAITS = FREQUENCY.copy(type=PerfType.SOFTWARE, config=SoftwareId.BPF_OUTPUT, sample_period=1, freq=0)


def notes(folder: Path, *attrs: EventAttr, samples: int = 13, lost: int = 0, merged: bool = False, ip: int = 1) -> str:
    """The lines on a recording of these events, each with so many samples."""
    built = PerfDataBuilder(attrs=[attr.copy(sample_type=attr.sample_type | SampleType.IDENTIFIER) for attr in attrs])
    built.ids = [(number + 1,) for number in range(len(attrs))]
    for number in range(len(attrs)):
        for moment in range(samples):
            built.sample(number, ip=ip, pid=7, tid=7, time=5 + moment, period=1, callchain=[ip] * bool(ip))
    if lost:
        built.record(Lost(0, 1, lost, SampleId(pid=7, tid=7, time=99, id=1)))
    path = folder / "perf.data"
    path.write_bytes(built.file())
    with Recording(str(path)) as recording:
        for event, attr in zip(recording.events, attrs, strict=True):
            event.name = OFF_CPU_EVENT if attr is WAITS else event.name
        if merged:
            recording.merge_off_cpu()
        return "\n".join(quality_notes(recording.report(by="symbol")))


@pytest.mark.parametrize("attr", [FAULTS, TRACEPOINT, WAITS])
def test_an_event_that_is_sampled_each_time_has_no_margin(attr: EventAttr, tmp_path: Path) -> None:
    assert "accurate to" not in notes(tmp_path, attr)


@pytest.mark.parametrize(("attr", "remedy"), [(FREQUENCY, "raise -F"), (COUNT, "lower -c")])
def test_few_samples_of_many_events_have_a_margin_and_a_remedy(attr: EventAttr, remedy: str, tmp_path: Path) -> None:
    assert f"only 13 samples; shares are accurate to ±27 points; record longer or {remedy}" in notes(tmp_path, attr)
    assert "only 1 sample; " in notes(tmp_path, attr, samples=1)


def test_waits_beside_a_clock_are_measured(tmp_path: Path) -> None:
    assert "accurate to" in notes(tmp_path, FREQUENCY, WAITS)
    assert "accurate to" not in notes(tmp_path, FREQUENCY, WAITS, merged=True)


@pytest.mark.parametrize(
    ("attr", "remedy"),
    [
        (FREQUENCY, "a larger buffer (-m) or a lower frequency (-F)"),
        (
            FAULTS.copy(sample_type=int(SampleType.IP | SampleType.TID | SampleType.TIME | SampleType.CALLCHAIN)),
            "a larger buffer (-m) or a higher count (-c)",
        ),
        (TRACEPOINT, "a larger buffer (-m) or a filter (--filter)"),
    ],
)
def test_losses_have_the_remedy_that_lowers_the_number_of_samples(attr: EventAttr, remedy: str, tmp_path: Path) -> None:
    assert f"2 records were lost, the buffer was full; record with {remedy}" in notes(tmp_path, attr, lost=2)


def test_waits_without_stacks_have_one_note_with_a_remedy(tmp_path: Path) -> None:
    """The kernel hides its code from ordinary users, and with it the place of each wait: no symbols are missing."""
    text = notes(tmp_path, FREQUENCY, WAITS, ip=0)
    assert "offcpu-time: no stacks; record as root" in text
    assert "offcpu-time: 100 % is in code without symbols" not in text
    assert "offcpu-time: 100 % is in code without symbols" in notes(tmp_path, FREQUENCY, WAITS)
