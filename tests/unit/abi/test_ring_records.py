"""Records of one's own rings as values."""

from __future__ import annotations

import pytest

from perfpy.abi import records
from perfpy.abi.attr import EventAttr, Reading
from perfpy.abi.flags import ReadFormat, SampleType
from perfpy.abi.records import IdLayout, SampleId
from perfpy.abi.ring_records import RingDecoder, RingSample
from perfpy.abi.sample_encoding import encode_sample
from perfpy.errors import UsageError

USUAL = SampleType.IP | SampleType.TID | SampleType.CALLCHAIN | SampleType.RAW
BY_ID = SampleType.IDENTIFIER | SampleType.IP


def comm(attr: EventAttr, name: str, endian: str = "<", **sample_id: int) -> bytes:
    layout = IdLayout.of(attr, endian)
    return records.encode(records.Comm(0, 7, 7, name, SampleId(**sample_id)), layout, endian)


@pytest.mark.parametrize("endian", "<>")
def test_samples_and_others_come_in_their_order(endian: str):
    attr = EventAttr(sample_type=USUAL, sample_id_all=1)
    chain = {"ip": 0x1000, "pid": 7, "tid": 8, "callchain": [1, 2, 3], "raw": b"abcd"}
    data = encode_sample(attr, chain, endian) + comm(attr, "one", endian, pid=7, tid=7) + encode_sample(attr, {**chain, "ip": 5}, endian)
    first, between, last = RingDecoder({1: attr}, endian).decode(data)
    assert isinstance(first, RingSample)
    assert (first.ip, first.pid, first.tid, first.callchain, first.raw) == (0x1000, 7, 8, [1, 2, 3], b"abcd")
    assert isinstance(between, records.Comm)
    assert (between.comm, between.sample_id) == ("one", SampleId(pid=7, tid=7))
    assert isinstance(last, RingSample)
    assert last.ip == 5
    assert repr(last).startswith("RingSample(ip=0x5, pid=7, tid=8, callchain=[1, 2, 3]")
    with pytest.raises(AttributeError, match="have no 'time': misc, cpumode, ip"):
        _ = first.time


def test_a_group_s_readings_are_readings():
    read_format = int(ReadFormat.GROUP | ReadFormat.ID | ReadFormat.TOTAL_TIME_ENABLED)
    attr = EventAttr(sample_type=SampleType.READ, read_format=read_format)
    members = [Reading(10, 99, None, 1), Reading(20, 99, None, 2)]
    (sample,) = RingDecoder({1: attr}, "<").decode(encode_sample(attr, {"read": members}, "<"))
    assert isinstance(sample, RingSample)
    assert sample.read == members


def test_counters_that_sample_differently_are_distinguished_by_id():
    attrs = {5: EventAttr(sample_type=BY_ID, sample_id_all=1), 6: EventAttr(sample_type=BY_ID | SampleType.ADDR, sample_id_all=1)}
    data = b"".join(
        [
            encode_sample(attrs[6], {"identifier": 6, "ip": 1, "addr": 2}, "<"),
            encode_sample(attrs[5], {"identifier": 5, "ip": 3}, "<"),
            comm(attrs[6], "six", identifier=6),
            encode_sample(attrs[6], {"identifier": 6, "ip": 4, "addr": 5}, "<"),
        ]
    )
    result = list(RingDecoder(attrs, "<").decode(data))
    assert [(one.identifier, one.ip, getattr(one, "addr", None)) for one in result if isinstance(one, RingSample)] == [
        (6, 1, 2),
        (5, 3, None),
        (6, 4, 5),
    ]
    assert isinstance(result[2], records.Comm)
    assert result[2].sample_id == SampleId(identifier=6)


def test_others_that_sample_differently_are_refused():
    with pytest.raises(UsageError, match="IDENTIFIER"):
        RingDecoder({5: EventAttr(sample_type=SampleType.IP), 6: EventAttr(sample_type=SampleType.ADDR)}, "<")


def test_an_unknown_record_is_kept():
    (unknown,) = RingDecoder({1: EventAttr()}, "<").decode(bytes([200, 0, 0, 0, 0, 0, 16, 0]) + bytes(8))
    assert unknown == records.Unknown(0, 200, bytes(8))
