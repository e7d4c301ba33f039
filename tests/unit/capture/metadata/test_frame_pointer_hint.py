"""record -g prints a hint if callchains of programs without frame pointers end after one frame, and only then."""

from __future__ import annotations

from typing import Any

import pytest

from perfpy.abi import records
from perfpy.abi.flags import CONTEXT_KERNEL, CONTEXT_USER, MISC_USER, NATIVE_ENDIAN, SampleType
from perfpy.abi.sample_id import IdLayout
from perfpy.abi.samples.encoding import encode_sample
from perfpy.capture.dso_hits import DsoHits
from perfpy.capture.metadata.frame_pointer_hint import chain_ends, has_walked_chains
from perfpy.capture.output.output import RoundStarts
from perfpy.symbols.short_callchains import ChainEnds
from tests.builders.perfdata import USUAL, usual_attr

ATTR = usual_attr(USUAL | SampleType.CALLCHAIN)
APP, LIBC, HEAP = 0x400000, 0x7F0000000000, 0x600000


def mapped(name: str, start: int) -> bytes:
    record = records.Mmap2(MISC_USER, 7, 7, start, 0x10000, 0, 0, 0, 0, 0, 5, 2, name, b"")
    return records.encode(record, IdLayout.of(ATTR, NATIVE_ENDIAN), NATIVE_ENDIAN)


def sample(*chain: int) -> bytes:
    return encode_sample(ATTR, {"ip": chain[-1] if chain else 0, "pid": 7, "tid": 7, "time": 1, "callchain": chain}, NATIVE_ENDIAN)


def judged(*samples: bytes, starts: tuple[int, ...] = (0,)) -> ChainEnds:
    data = memoryview(mapped("/usr/bin/app", APP) + mapped("/lib/libc.so.6", LIBC) + b"".join(samples))
    hits = DsoHits([ATTR])
    hits.scan(data)
    return chain_ends(data, starts, [ATTR], hits)


def test_chains_that_end_after_one_frame_are_reported_with_their_programs():
    result = judged(*[sample(CONTEXT_USER, APP + 1)] * 30, *[sample(CONTEXT_USER, LIBC + 1)] * 10)
    assert result.of_frame_pointers() == (
        "100% of the user call chains end after one frame: no frame pointers in app, libc.so.6; record --unwind has their callers"
    )


def test_a_caller_that_lies_in_no_code_is_none():
    assert judged(sample(CONTEXT_USER, APP + 1, HEAP)) == ChainEnds(1, {"/usr/bin/app": 1})


def test_the_kernels_frames_are_not_the_users():
    result = judged(sample(CONTEXT_KERNEL, 1 << 63, 2 << 62, CONTEXT_USER, LIBC + 5), sample(CONTEXT_KERNEL, 1 << 63))
    assert result == ChainEnds(1, {"/lib/libc.so.6": 1})


def test_complete_chains_have_no_note():
    whole = [sample(CONTEXT_USER, APP + 1, APP + 2, LIBC + 1)] * 60
    assert judged(*whole, *[sample(CONTEXT_USER, LIBC + 1)] * 60).of_frame_pointers() == ""


def test_few_samples_have_no_note():
    assert judged(*[sample(CONTEXT_USER, APP + 1)] * 10).of_frame_pointers() == ""


def test_code_that_no_program_has_is_not_named():
    data = memoryview(mapped("//anon", APP) + sample(CONTEXT_USER, APP + 1) * 30)
    hits = DsoHits([ATTR])
    hits.scan(data)
    assert "end after one frame; " in chain_ends(data, [0], [ATTR], hits).of_frame_pointers()


def test_every_part_of_the_file_is_read():
    front = b"".join([sample(CONTEXT_USER, APP + 1)] * 3000)
    rest = b"".join([sample(CONTEXT_USER, APP + 1, APP + 2)] * 3000)
    head = len(mapped("/usr/bin/app", APP) + mapped("/lib/libc.so.6", LIBC))
    result = judged(front, rest, starts=(0, head + len(front)))
    assert result == ChainEnds(2000, {"/usr/bin/app": 1000})


def test_a_cut_end_ends_the_look():
    data = mapped("/usr/bin/app", APP) + sample(CONTEXT_USER, APP + 1) * 2
    hits = DsoHits([ATTR])
    hits.scan(memoryview(data))
    for end in range(len(data)):
        assert chain_ends(memoryview(data)[:end], [0], [ATTR], hits).chains <= 2


@pytest.mark.parametrize(
    ("changes", "judged_by_it"),
    [
        ({}, True),
        ({"exclude_callchain_user": 1}, False),
        ({"exclude_user": 1}, False),
    ],
)
def test_only_chains_that_the_kernel_walked_are_judged(changes: dict[str, Any], judged_by_it: bool):
    assert has_walked_chains([usual_attr(USUAL | SampleType.CALLCHAIN, **changes)]) == judged_by_it


def test_stacks_are_another_matter():
    assert not has_walked_chains([usual_attr(USUAL | SampleType.CALLCHAIN | SampleType.STACK_USER)])
    assert not has_walked_chains([usual_attr(USUAL)])


def test_the_starts_of_rounds_stay_few_and_spread():
    starts = RoundStarts(most=16)
    for offset in range(0, 100_000, 100):
        starts.add(offset)
    assert 8 <= len(starts.offsets) <= 16
    gaps = {later - offset for offset, later in zip(starts.offsets, starts.offsets[1:], strict=False)}
    assert max(gaps) <= 4 * min(gaps)
    assert starts.offsets[-1] > 80_000
