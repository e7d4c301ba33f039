"""Samples with stacks become samples with callchains, and nothing else changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from perfpy.abi import records
from perfpy.abi.attr import EventAttr
from perfpy.abi.columns import Ragged
from perfpy.abi.flags import NATIVE_ENDIAN, SampleType
from perfpy.abi.records import IdLayout
from perfpy.abi.sample_encoding import encode_sample
from perfpy.capture.unwinding.process import plain_attr
from perfpy.capture.unwinding.unwinder import Rewriting, parts_of
from perfpy.perfdata.records.stream import Chunk, walk

S = SampleType
STACKS = S.CALLCHAIN | S.REGS_USER | S.STACK_USER
SMALL = S.IP | S.TID | S.TIME | S.PERIOD | STACKS
EVERYTHING = (
    SMALL | S.IDENTIFIER | S.ADDR | S.CPU | S.RAW | S.BRANCH_STACK | S.WEIGHT | S.DATA_SRC | S.REGS_INTR | S.PHYS_ADDR | S.CGROUP | S.AUX
)
VALUES: dict[str, Any] = {
    "misc": 2, "identifier": 5, "ip": 0x401000, "pid": 7, "tid": 8, "time": 99, "addr": 0x77, "cpu": 1, "period": 250, "raw": b"rawdata!",
    "branch_stack": [(1, 2, 0), (3, 4, 0)], "weight": 3, "data_src": 4, "intr_regs": [1, 2], "phys_addr": 6, "cgroup": 9,
    "aux": b"aux.aux.",
}  # fmt: skip


def attr_of(sample_type: int) -> EventAttr:
    return EventAttr(
        sample_type=sample_type, sample_regs_user=0b111, sample_regs_intr=0b11, sample_stack_user=256, sample_id_all=1,
        exclude_callchain_user=1,
    )  # fmt: skip


def chunk_of(data: bytes) -> Chunk:
    array = np.frombuffer(data, np.uint8)
    return Chunk(array, walk(array, NATIVE_ENDIAN).starts, NATIVE_ENDIAN, 0)


def chains_of(*chains: list[int]) -> Ragged:
    return Ragged(np.array([word for chain in chains for word in chain], np.uint64), np.cumsum([0, *map(len, chains)]).astype(np.int64))


def with_stack(kernel: list[int], stack: bytes) -> dict[str, Any]:
    return {**VALUES, "callchain": kernel, "user_regs": [10, 11, 12] if stack else [], "user_stack": stack}


@pytest.mark.parametrize("sample_type", [SMALL, EVERYTHING])
def test_the_rest_of_a_sample_stays_unchanged(sample_type):
    attr = attr_of(sample_type)
    samples = [with_stack([1, 2], bytes(256)), with_stack([], bytes(64)), with_stack([3], b"")]
    chunk = chunk_of(b"".join(encode_sample(attr, values, NATIVE_ENDIAN) for values in samples))
    rewriting = Rewriting(chunk)
    chains = [[1, 2, 50, 51], [60], [3]]
    rewriting.replace(np.arange(3), parts_of(attr, chunk), chains_of(*chains))
    plain = plain_attr(attr)
    expected = b"".join(encode_sample(plain, {**VALUES, "callchain": chain}, NATIVE_ENDIAN) for chain in chains)
    assert b"".join(rewriting.written()) == expected


def test_other_records_stay_where_they_are():
    attr = attr_of(SMALL)
    layout = IdLayout.of(attr, NATIVE_ENDIAN)
    comm = records.encode(records.Comm(0, 7, 7, "name"), layout, NATIVE_ENDIAN)
    lost = records.encode(records.Lost(0, 1, 2), layout, NATIVE_ENDIAN)
    sample = encode_sample(attr, with_stack([], bytes(256)), NATIVE_ENDIAN)
    rewriting = Rewriting(chunk := chunk_of(comm + sample + lost))
    rewriting.replace(np.array([1]), parts_of(attr, chunk.rows(np.array([1]))), chains_of([9]))
    plain = encode_sample(plain_attr(attr), {**VALUES, "callchain": [9]}, NATIVE_ENDIAN)
    assert b"".join(rewriting.written()) == comm + plain + lost


def test_records_can_be_omitted():
    attr = attr_of(SMALL)
    one, other = (encode_sample(attr, {**with_stack([], bytes(64)), "pid": pid}, NATIVE_ENDIAN) for pid in (1, 2))
    rewriting = Rewriting(chunk := chunk_of(one + other))
    rewriting.replace(np.arange(2), parts_of(attr, chunk), chains_of([9], [10, 11]))
    rewriting.kept_records[0] = False
    assert b"".join(rewriting.written()) == encode_sample(plain_attr(attr), {**VALUES, "pid": 2, "callchain": [10, 11]}, NATIVE_ENDIAN)


def test_a_chain_longer_than_a_record_is_truncated():
    attr = attr_of(SMALL)
    rewriting = Rewriting(chunk := chunk_of(encode_sample(attr, with_stack([], bytes(64)), NATIVE_ENDIAN)))
    rewriting.replace(np.arange(1), parts_of(attr, chunk), chains_of(list(range(9000))))
    (written,) = rewriting.written()
    assert len(written) == 0xFFF8
    assert walk(np.frombuffer(written, np.uint8), NATIVE_ENDIAN).end == len(written)


def test_a_sample_shorter_than_its_size_is_omitted():
    attr = attr_of(SMALL)
    whole = encode_sample(attr, with_stack([], bytes(64)), NATIVE_ENDIAN)
    cut = bytearray(whole[:-64])
    cut[6:8] = len(cut).to_bytes(2, "little" if NATIVE_ENDIAN == "<" else "big")
    rewriting = Rewriting(chunk := chunk_of(bytes(cut) + whole))
    rewriting.replace(np.arange(2), parts_of(attr, chunk), chains_of([1], [2]))
    assert b"".join(rewriting.written()) == encode_sample(plain_attr(attr), {**VALUES, "callchain": [2]}, NATIVE_ENDIAN)


def test_a_piece_without_records_is_nothing():
    assert Rewriting(chunk_of(b"")).written() == []


def test_the_files_attr_lists_the_fields_of_samples():
    attr = plain_attr(attr_of(SMALL))
    assert attr.sample_type == SMALL & ~(S.REGS_USER | S.STACK_USER)
    assert (attr.sample_regs_user, attr.sample_stack_user, attr.exclude_callchain_user) == (0, 0, 0)


def test_an_event_without_stacks_stays():
    attr = EventAttr(sample_type=S.IP | S.CALLCHAIN | S.REGS_USER, sample_regs_user=3)
    assert plain_attr(attr) is attr


def test_parts_are_of_whole_records():
    attr = attr_of(SMALL)
    data = b"".join(encode_sample(attr, with_stack([], bytes(64)), NATIVE_ENDIAN) for _ in range(50))
    rewriting = Rewriting(chunk := chunk_of(data))
    rewriting.replace(np.arange(50), parts_of(attr, chunk), chains_of(*([number] * (number % 7) for number in range(50))))
    whole = b"".join(rewriting.written())
    for most in (1, 100, 1000, len(whole) - 1, len(whole)):
        parts = rewriting.written(most)
        assert b"".join(parts) == whole
        assert all(walk(np.frombuffer(part, np.uint8), NATIVE_ENDIAN).end == len(part) for part in parts)
        assert len(parts) <= len(whole) // most + 1
