"""The lines on how far a profile can be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import perfpy
from perfpy.abi import records
from perfpy.abi.flags import CONTEXT_KERNEL, CONTEXT_USER, MISC_USER, PerfType, SampleType, SoftwareId
from perfpy.abi.recorded_marks import OFF_CPU_EVENT
from perfpy.abi.records import Lost, SampleId
from perfpy.analysis.report.report import quality_notes
from perfpy.perfdata.features import Feature
from perfpy.recording import Recording
from perfpy.symbols.quality_notes import ChainEnds
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


# A note tells when callchains end after one frame, and why.


APP, OTHER, KERNEL = 0x400000, 0x600000, 0xFFFFFFFF81000000
STACKS = SampleType.CALLCHAIN | SampleType.REGS_USER | SampleType.STACK_USER


def notes_of_short_callchain_note(
    folder: Path, chains: list[list[int]], *, machine: str = "x86_64", kind: int = SampleType.CALLCHAIN, without_chain: bool = False
) -> list[str]:
    builder = PerfDataBuilder([usual_attr(USUAL | kind, sample_regs_user=0xFF0FFF, sample_stack_user=64)])
    builder.feature(Feature.ARCH, machine)
    for name, start in (("/none/app", APP), ("/none/other", OTHER)):
        builder.record(records.Mmap2(MISC_USER, 1, 1, start, 0x1000, 0, 0, 0, 0, 0, 5, 2, name, b""))
    for number, chain in enumerate(chains):
        builder.sample(ip=chain[-1], pid=1, tid=1, time=number + 1, period=1, callchain=[] if without_chain else chain, misc=MISC_USER)
    path = folder / "perf.data"
    path.write_bytes(builder.file())
    with perfpy.open(path) as recording:
        return recording.report(callers=True).notes


def test_chains_without_callers_have_a_note(tmp_path):
    ended = [[CONTEXT_USER, APP + 1], [CONTEXT_KERNEL, KERNEL, CONTEXT_USER, OTHER + 1, 0x99]] * 20
    assert notes_of_short_callchain_note(tmp_path, ended) == [
        ("100% of the user call chains end after one frame: no frame pointers in app, other; record --unwind has their callers")
    ]


def test_chains_with_callers_have_no_note(tmp_path):
    assert notes_of_short_callchain_note(tmp_path, [[CONTEXT_USER, APP + 1, OTHER + 1], [CONTEXT_USER, APP + 1]] * 20) == []


def test_kernel_chains_do_not_count(tmp_path):
    assert notes_of_short_callchain_note(tmp_path, [[CONTEXT_KERNEL, KERNEL]] * 40) == []


def test_missing_files_are_named(tmp_path):
    assert notes_of_short_callchain_note(tmp_path, [[CONTEXT_USER, APP + 1]] * 30, kind=STACKS) == [
        "100% of the user call chains end after one frame: not found, or of another build: /none/app; give --symfs, or install them"
    ]


def test_samples_without_any_unwound_frame_count_too(tmp_path):
    lines = notes_of_short_callchain_note(tmp_path, [[CONTEXT_USER, APP + 1]] * 20 + [[OTHER + 1]] * 20, kind=STACKS, without_chain=True)
    assert lines == [
        (
            "100% of the user call chains end after one frame: not found, or of another build: /none/app, /none/other;"
            " give --symfs, or install them"
        )
    ]


def test_an_architecture_that_is_not_unwound_is_named(tmp_path):
    assert notes_of_short_callchain_note(tmp_path, [[CONTEXT_USER, APP + 1]] * 30, kind=STACKS, machine="pdp11") == [
        "100% of the user call chains end after one frame: stacks of pdp11 are not unwound here"
    ]


@pytest.mark.parametrize(("chains", "early"), [(0, {}), (10, {"/a": 10}), (100, {"/a": 50})])
def test_few_chains_and_few_ends_have_no_note(chains, early):
    ends = ChainEnds(chains, early)
    assert not ends.matter
    assert ends.of_frame_pointers() == ends.of_stacks([], "x86_64", can_unwind=True) == ""


def test_only_the_worst_files_are_named():
    ends = ChainEnds(1000, {"/bin/a": 500, "/bin/b": 10, "//anon": 300, "/bin/c": 100, "": 50})
    assert ends.files == ["/bin/a", "/bin/c"]
