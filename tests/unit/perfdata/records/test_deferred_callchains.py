"""Deferred user callchains are appended to the samples that wait for them."""

from __future__ import annotations

import numpy as np

import perfpy
from perfpy.abi import records
from perfpy.abi.columns import Ragged
from perfpy.abi.flags import CONTEXT_KERNEL, CONTEXT_USER, CONTEXT_USER_DEFERRED, SampleType
from perfpy.abi.sample_id import SampleId
from perfpy.perfdata.records.deferred_callchains import DeferredCallchains
from perfpy.perfdata.records.raw_records import RawRecord
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

KERNEL = 0xFFFFFFFF81000000


def raw(cookie: int, *frames: int, count: int | None = None) -> RawRecord:
    words = [cookie, len(frames) if count is None else count, *frames]
    return RawRecord(0, 0, 0, 22, 0, 0, b"".join(word.to_bytes(8, "little") for word in words))


def chains(*rows: list[int]) -> Ragged:
    return Ragged(np.array([word for row in rows for word in row], np.uint64), np.cumsum([0, *map(len, rows)]).astype(np.int64))


def joined(deferred: list[RawRecord], *rows: list[int]) -> list[list[int]]:
    return [row.tolist() for row in DeferredCallchains(deferred, "<").join(chains(*rows))]


def test_frames_replace_the_cookie():
    result = joined([raw(77, CONTEXT_USER, 1, 2)], [CONTEXT_KERNEL, KERNEL, CONTEXT_USER_DEFERRED, 77])
    assert result == [[CONTEXT_KERNEL, KERNEL, CONTEXT_USER_DEFERRED, CONTEXT_USER, 1, 2]]


def test_samples_of_one_system_call_share_their_frames():
    result = joined([raw(5, 1), raw(6, 2, 3)], [CONTEXT_USER_DEFERRED, 6], [9], [CONTEXT_USER_DEFERRED, 5], [CONTEXT_USER_DEFERRED, 6])
    assert result == [[CONTEXT_USER_DEFERRED, 2, 3], [9], [CONTEXT_USER_DEFERRED, 1], [CONTEXT_USER_DEFERRED, 2, 3]]


def test_a_cookie_without_record_is_dropped():
    assert joined([], [KERNEL, CONTEXT_USER_DEFERRED, 77]) == [[KERNEL, CONTEXT_USER_DEFERRED]]
    assert joined([raw(1, 2)], [KERNEL, CONTEXT_USER_DEFERRED, 77]) == [[KERNEL, CONTEXT_USER_DEFERRED]]


def test_a_count_beyond_the_record_is_limited():
    assert joined([raw(5, 1, 2, count=1 << 62), RawRecord(0, 0, 0, 22, 0, 0, b"short")], [CONTEXT_USER_DEFERRED, 5]) == [
        [CONTEXT_USER_DEFERRED, 1, 2]
    ]


def test_whole_callchains_come_out_of_a_file(tmp_path):
    attr = usual_attr(USUAL | SampleType.CALLCHAIN, defer_callchain=1, defer_output=1)
    builder = PerfDataBuilder([attr])
    builder.sample(ip=KERNEL, pid=1, tid=1, time=10, callchain=[CONTEXT_KERNEL, KERNEL, CONTEXT_USER_DEFERRED, 3])
    builder.sample(ip=0x100, pid=1, tid=1, time=20, callchain=[CONTEXT_USER, 0x100])
    builder.record(records.CallchainDeferred(0, 3, (CONTEXT_USER, 0x400, 0x500), SampleId(pid=1, tid=1, time=30)))
    path = tmp_path / "perf.data"
    path.write_bytes(builder.file())
    with perfpy.open(path) as recording:
        results = [row.tolist() for row in recording.samples["callchain"]]
        longest = max(len(recording.stacks()[0].chain_of(index)) for index in range(2))
    assert results == [[CONTEXT_KERNEL, KERNEL, CONTEXT_USER_DEFERRED, CONTEXT_USER, 0x400, 0x500], [CONTEXT_USER, 0x100]]
    assert longest == 3
