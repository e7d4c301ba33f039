"""Hardware traces: packets of Intel PT and Arm's PMCU."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest

import perfpy
from perfpy.auxtrace.intel_pt import PSB, Packet, PacketReader, ip_size
from perfpy.auxtrace.pmcu import AuxDataError, PmcuHeader, decode_header, decode_samples, find_samples
from perfpy.errors import BadPerfDataError
from tests.builders import pmcu

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.auxtrace.pmcu import PmcuTrace


# A PMCU's counts of a recording: pieces, losses, cut ends, damage.


EVENTS = [0x10, 0x11, 0x12]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "perf.data"


def trace_of(recording: perfpy.Recording) -> PmcuTrace:
    assert recording.pmcu is not None
    return recording.pmcu


def test_pieces_are_one_stream(path: Path) -> None:
    data = pmcu.aux_data(EVENTS, 20)
    path.write_bytes(pmcu.recording(data, cuts=(4096, 4096 + 320)))
    with perfpy.open(path) as recording:
        columns = trace_of(recording).to_dict()
        assert trace_of(recording).name == "hisi_pmcu_sccl0"
        assert len(trace_of(recording)) == 20
        assert recording.warnings == []
    assert columns["count"].tolist() == [pmcu.value_of(sample, cpu, event) for sample in range(20) for event in EVENTS for cpu in range(8)]
    assert columns["time"][-1] == pytest.approx(19 * 0.002)


def test_padding_of_a_piece_is_no_data(path: Path) -> None:
    """A piece is padded to 8 bytes in the file; the next one begins where its own offset says."""
    data = pmcu.aux_data(EVENTS, 20)
    path.write_bytes(pmcu.recording(data, cuts=(1004, 2012)))
    with perfpy.open(path) as recording:
        assert trace_of(recording).to_dict()["count"][-1] == pmcu.value_of(19, 7, 0x12)


def test_the_number_of_samples_is_the_requested_one(path: Path) -> None:
    path.write_bytes(pmcu.recording(pmcu.aux_data(EVENTS, 20), config=2 << 32 | 15))
    with perfpy.open(path) as recording:
        assert len(trace_of(recording)) == 15


def test_zeros_mean_128_samples_3_ms_apart(path: Path) -> None:
    path.write_bytes(pmcu.recording(pmcu.aux_data([1], 140), config=0))
    with perfpy.open(path) as recording:
        assert (len(trace_of(recording)), trace_of(recording).period_ms) == (128, 3)


def test_a_cut_end_is_a_warning_with_its_offset(path: Path) -> None:
    data = pmcu.aux_data(EVENTS, 20)
    path.write_bytes(pmcu.recording(data[:-8]))
    with perfpy.open(path) as recording:
        trace = trace_of(recording)
        assert len(trace) == 19
        (warning,) = recording.warnings
    begin = trace.in_file(len(data) - 320)
    assert warning == f"offset {begin:#x}: the AUX data end inside sample 19, which is left out"
    assert path.read_bytes()[begin : begin + 4] == (1000).to_bytes(4, "little")


def test_lost_data_is_reported(path: Path) -> None:
    path.write_bytes(pmcu.recording(pmcu.aux_data(EVENTS, 20), cuts=(4096,), lost=1))
    with perfpy.open(path) as recording:
        assert recording.pmcu
        assert "lost data 1 times of 2" in recording.warnings[0]


def test_a_bad_header_is_an_error_with_file_and_offset(path: Path) -> None:
    path.write_bytes(pmcu.recording(pmcu.header([1, 2], buffer_size=4096, counters=2, cpus=7)))
    with perfpy.open(path) as recording, pytest.raises(BadPerfDataError, match="7 CPUs") as caught:
        _ = recording.pmcu
    assert path.read_bytes()[caught.value.offset or 0] == 7
    assert str(path) in str(caught.value)


def test_a_hole_is_an_error_with_its_offset(path: Path) -> None:
    data = pmcu.aux_data(EVENTS, 20)
    built = pmcu.recording(data, cuts=(4096,))
    second = struct.pack("<QQQ", len(data) - 4096, 4096, 0)
    assert built.count(second) == 1
    path.write_bytes(built.replace(second, struct.pack("<QQQ", len(data) - 4096, 8192, 0)))
    with perfpy.open(path) as recording, pytest.raises(BadPerfDataError, match="go on at 0x2000"):
        _ = recording.pmcu


def test_no_aux_data_is_no_sample(path: Path) -> None:
    path.write_bytes(pmcu.recording(b""))
    with perfpy.open(path) as recording:
        assert len(trace_of(recording)) == 0
        assert trace_of(recording).to_dict() == {}


def test_another_tracer_of_the_same_number_is_not_decoded(path: Path) -> None:
    path.write_bytes(pmcu.recording(pmcu.aux_data(EVENTS, 2), mapping="vpa_dtl"))
    with perfpy.open(path) as recording:
        assert recording.pmcu is None
        assert recording.data.record_index
        assert "not decoded" in recording.warnings[0]


# The AUX data of a HiSilicon PMCU: header, samples, gaps, and what is wrong with them.


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


# The bytes of an Intel Processor Trace become packets.


def packets(data: bytes) -> list[Packet | None]:
    """Every packet of a trace; None, and the trace ends, where none begins."""
    reader, offset, result = PacketReader(), 0, []
    while offset < len(data):
        packet = reader.read(memoryview(data), offset)
        result.append(packet)
        offset += packet.length if packet else len(data)
    return result


@pytest.mark.parametrize(
    ("data", "packet"),
    [
        (PSB, Packet("PSB", 16)),
        (b"\x0e", Packet("TNT", 1, 0b111)),
        (b"\x02\xa3\x05\0\0\0\0\x01", Packet("TNT", 8, 0x010000000005)),
        (b"\x6d\x10\x20\x30\x40\x50\x60", Packet("TIP", 7, 0x605040302010, 3)),
        (b"\x19\x01\x02\0\0\0\0\0", Packet("TSC", 8, 0x201)),
        (b"\x07\x04", Packet("CYC", 2, 2 << 5)),
        (b"\x99\x21", Packet("MODE.TSX", 2, 1)),
        (b"\x02\x92\x04\x03\x02\x01", Packet("PTWRITE", 6, 0x01020304, 1)),
    ],
    ids=lambda value: value.kind if isinstance(value, Packet) else "",
)
def test_a_packet_has_its_kind_its_length_and_its_payload(data, packet):
    assert packets(data) == [packet]


def test_an_address_can_be_suppressed():
    (packet,) = packets(b"\x01")
    assert packet == Packet("TIP.PGD", 1, 0, 0)
    assert not ip_size(packet)


def test_items_are_of_the_size_that_their_block_announces_until_it_ends():
    short, item = b"\x02\x63\x80", b"\x0c\x01\x00\x00\x00"
    assert packets(short + item + b"\x02\x33")[1:] == [Packet("BIP", 5, 1, 1), Packet("BEP", 2)]
    after = packets(short + b"\x02\x33" + item)
    assert after[2] == Packet("TNT", 1, 0b110)  # the same bytes, outside of blocks


@pytest.mark.parametrize("data", [b"\x19\x01", b"\x02", b"\x02\xff", b"\xed", b"\x99", b"\x99\x43", b"\x07" + b"\xff" * 12])
def test_invalid_and_partial_packets_are_none(data):
    assert packets(data) == [None]
