"""The TRACING_DATA section: encode, decode, and parse formats by id."""

from __future__ import annotations

import pytest

from perfpy.perfdata.event_format import Tracing, TracingData, decode_tracing

SWITCH = (
    b"name: sched_switch\nID: 314\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n"
    b'\tfield:int prev;\toffset:8;\tsize:4;\tsigned:1;\n\nprint fmt: "prev=%d", REC->prev\n'
)
PAGE = b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:4;\tsigned:1;\n"


def section(endian: str = "<", **changes: object) -> TracingData:
    whole = TracingData(
        "0.6", endian, 8, 4096, PAGE, b"header event", (b"name: function\nID: 1\n",), (("sched", (SWITCH,)), ("irq", ())),
        b"", b'0xffffffff81000000 : "rcu %s\\n"\n', b"1 init\n",
    )  # fmt: skip
    return whole._replace(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("endian", "<>")
@pytest.mark.parametrize("version", ["0.5", "0.6"])
def test_decode_reverses_encode(endian: str, version: str) -> None:
    given = section(endian, version=version, cmdlines=None if version == "0.5" else b"1 init\n")
    assert decode_tracing(given.encode() + bytes(5)) == given


def test_a_section_cut_at_any_byte_is_refused() -> None:
    data = section().encode()
    for size in range(len(data)):
        with pytest.raises(ValueError, match=r"expected|entries|magic|without|terminating"):
            decode_tracing(data[:size])


def test_formats_are_found_by_id_and_the_kernels_long_size_wins() -> None:
    tracing = Tracing(section())
    assert tracing.long_size == 4
    assert tracing.tracepoints[314][:3] == ("sched", "sched_switch", 314)
    assert [field.name for field in tracing.formats[314].fields] == ["prev"]
    assert set(tracing.formats) == {314, 1}
    assert tracing.printk_formats == {0xFFFFFFFF81000000: "rcu %s\\n"}
