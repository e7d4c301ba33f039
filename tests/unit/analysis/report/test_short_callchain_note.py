"""A note tells when callchains end after one frame, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import perfpy
from perfpy.abi import records
from perfpy.abi.flags import CONTEXT_KERNEL, CONTEXT_USER, MISC_USER, SampleType
from perfpy.perfdata.container.features import Feature
from perfpy.symbols.short_callchains import ChainEnds
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

APP, OTHER, KERNEL = 0x400000, 0x600000, 0xFFFFFFFF81000000
STACKS = SampleType.CALLCHAIN | SampleType.REGS_USER | SampleType.STACK_USER


def notes(
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
    assert notes(tmp_path, ended) == [
        ("100% of the user call chains end after one frame: no frame pointers in app, other; record --unwind has their callers")
    ]


def test_chains_with_callers_have_no_note(tmp_path):
    assert notes(tmp_path, [[CONTEXT_USER, APP + 1, OTHER + 1], [CONTEXT_USER, APP + 1]] * 20) == []


def test_kernel_chains_do_not_count(tmp_path):
    assert notes(tmp_path, [[CONTEXT_KERNEL, KERNEL]] * 40) == []


def test_missing_files_are_named(tmp_path):
    assert notes(tmp_path, [[CONTEXT_USER, APP + 1]] * 30, kind=STACKS) == [
        "100% of the user call chains end after one frame: not found, or of another build: /none/app; give --symfs, or install them"
    ]


def test_samples_without_any_unwound_frame_count_too(tmp_path):
    lines = notes(tmp_path, [[CONTEXT_USER, APP + 1]] * 20 + [[OTHER + 1]] * 20, kind=STACKS, without_chain=True)
    assert lines == [
        (
            "100% of the user call chains end after one frame: not found, or of another build: /none/app, /none/other;"
            " give --symfs, or install them"
        )
    ]


def test_an_architecture_that_is_not_unwound_is_named(tmp_path):
    assert notes(tmp_path, [[CONTEXT_USER, APP + 1]] * 30, kind=STACKS, machine="pdp11") == [
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
