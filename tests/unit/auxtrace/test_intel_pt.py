"""The bytes of an Intel Processor Trace become packets."""

from __future__ import annotations

import pytest

from perfpy.auxtrace.intel_pt import PSB, Packet, PacketReader, ip_size


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
