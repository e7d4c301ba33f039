"""The AUX data of a HiSilicon PMCU: header, samples, gaps, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import pytest

from perfpy.auxtrace.hisi_pmcu import AuxDataError, PmcuHeader, decode_header, decode_samples, find_samples
from tests.builders import pmcu

SHAPES: dict[str, dict[str, Any]] = {
    "one subsample": {"events": [0x10, 0x11, 0x12], "samples": 20},
    "several subsamples, several clusters": {"events": list(range(0x10, 0x1B)), "samples": 30, "cpus": 32, "buffer_size": 1 << 14},
    "compatible": {"events": [1, 2, 3, 4, 5, 6, 7], "samples": 9, "counters": 5, "compatible": 1},
    "a buffer for each sample": {"events": list(range(8)), "samples": 5, "buffer_size": 1024},
}


@pytest.fixture(params=SHAPES)
def shape(request: pytest.FixtureRequest) -> dict[str, Any]:
    return SHAPES[request.param]


def decoded(data: bytes) -> dict[str, list[int]]:
    header = decode_header(data)
    return {name: column.tolist() for name, column in decode_samples(header, data, find_samples(header, len(data)).offsets).items()}


def test_every_number_is_the_one_that_was_written(shape: dict[str, Any]) -> None:
    result = decoded(pmcu.aux_data(**shape))
    counters = shape.get("counters", 8)
    cycles = (lambda *_: 0) if shape.get("compatible") else pmcu.cycles_of
    expected = [
        (sample, cpu, 1000 + cpu, event, pmcu.value_of(sample, cpu, event), cycles(sample, cpu, place))
        for sample in range(shape["samples"])
        for place, event in ((number // counters, event) for number, event in enumerate(shape["events"]))
        for cpu in range(shape.get("cpus", 8))
    ]
    assert list(zip(*(result[name] for name in ("sample", "cpu", "pid", "event", "count", "cycles")), strict=True)) == expected


def test_cpus_come_by_their_number_in_the_cluster_then_by_cluster() -> None:
    header = decode_header(pmcu.header([1], buffer_size=1 << 14, counters=1, cpus=32))
    assert header.cpu_order.tolist()[:9] == [0, 8, 16, 24, 1, 9, 17, 25, 2]


def test_an_end_anywhere_leaves_the_whole_samples(shape: dict[str, Any]) -> None:
    data = pmcu.aux_data(**shape)
    header = decode_header(data)
    ends = [int(offset) + header.sample_size for offset in find_samples(header, len(data)).offsets]
    for size in range(header.size, len(data), 8):
        samples = find_samples(header, size)
        assert len(samples.offsets) == sum(end <= size for end in ends), size
        assert not samples.cut or size not in ends


def test_a_gap_is_no_cut_sample() -> None:
    """The next sample begins in the next buffer."""
    data = pmcu.aux_data([1, 2, 3], 12)
    header = decode_header(data)
    last = int(find_samples(header, 4096).offsets[-1]) + header.sample_size
    assert find_samples(header, last).cut == 0
    assert find_samples(header, last + 8).cut == 0
    assert find_samples(header, 4096 + 8).cut == 8


@pytest.mark.parametrize(
    ("words", "offset", "reason"),
    [
        pytest.param({"w0": 0}, 0, "a buffer of 0 bytes", id="no buffer"),
        pytest.param({"w0": 100}, 0, "too small for a sample of 256", id="small buffer"),
        pytest.param({"w1": 0}, 4, "0 counters", id="no counter"),
        pytest.param({"w1": 9}, 4, "9 counters", id="too many counters"),
        pytest.param({"w2": 0}, 8, "0 CPUs", id="no CPU"),
        pytest.param({"w2": 12}, 8, "12 CPUs", id="half a cluster"),
        pytest.param({"w3": 2}, 12, "compatible mode 2", id="mode"),
        pytest.param({"w4": 255}, 16, "subsamples of 255 bytes", id="subsample size"),
        pytest.param({"w5": 2}, 20, "2 subsamples", id="subsamples"),
        pytest.param({"w6": 0}, 24, "0 events", id="no event"),
        pytest.param({"w6": 241}, 24, "241 events", id="too many events"),
    ],
)
def test_a_header_that_makes_no_sense_is_refused_where_it_is_wrong(words: dict[str, int], offset: int, reason: str) -> None:
    data = pmcu.header([1, 2], buffer_size=4096, counters=2, cpus=8, **words) + bytes(1024)
    with pytest.raises(AuxDataError, match=reason) as caught:
        decode_header(data)
    assert caught.value.offset == offset


def test_a_cut_header_is_refused() -> None:
    data = pmcu.header([1, 2], buffer_size=4096, counters=2, cpus=8)
    for size in range(7 * 4 + 2 * 4):
        with pytest.raises(AuxDataError, match="cut"):
            decode_header(data[:size])


def test_sizes_in_headers_allocate_no_memory_beyond_the_data() -> None:
    """Four thousand million CPUs in a buffer as large: no sample is there, and none is made room for."""
    header = PmcuHeader(0xFFFFFFFF, 1, 0x0FFFFFF8, 0, 24 * 0x0FFFFFF8, 1, (1,))
    assert not len(find_samples(header, 1 << 20).offsets)
    small = PmcuHeader(192, 1, 8, 0, 192, 1, (1,))
    assert len(find_samples(small, 192 * 1000).offsets) == 999
