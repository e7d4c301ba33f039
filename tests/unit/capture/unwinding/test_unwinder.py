"""Pieces of ring buffers become the same records with callchains, in whatever order the buffers were read."""

from __future__ import annotations

import os
import struct
import sys
from typing import Any

import numpy as np
import pytest

from perfpy.abi import records
from perfpy.abi.attr import EventAttr
from perfpy.abi.columns import Ragged
from perfpy.abi.flags import CONTEXT_KERNEL, CONTEXT_USER, MISC_MMAP_DATA, MISC_USER, NATIVE_ENDIAN, PerfType, SampleType
from perfpy.abi.framing import HEADER
from perfpy.abi.records import IdLayout, SampleId
from perfpy.abi.sample_decoding import SampleLayout
from perfpy.abi.sample_encoding import encode_sample
from perfpy.capture.dso_hits import DsoHits
from perfpy.capture.runtimes import hotspot
from perfpy.capture.runtimes.hotspot import JavaProcess
from perfpy.capture.unwinding import unwinder
from perfpy.capture.unwinding.process import SharedProcesses, plain_attr
from perfpy.capture.unwinding.serving import chunk_of
from perfpy.capture.unwinding.unwinder import PieceUnwinder, Rewriting, parts_of
from perfpy.perfdata.events import FileEvent
from perfpy.perfdata.records.delivery import EventTable
from perfpy.perfdata.records.stream import Chunk, walk
from tests.builders.hotspot import HEAP, Jvm

S = SampleType
FIELDS = S.IP | S.TID | S.TIME | S.CALLCHAIN | S.REGS_USER | S.STACK_USER
ATTR = EventAttr(sample_type=FIELDS, sample_regs_user=0xFF0FFF, sample_stack_user=64, sample_id_all=1, exclude_callchain_user=1)
CODE, PROGRAM, STACK, OWN = 0x10000, 0x400000, 0x7FFE0000, 4242
BP, SP, IP = 6, 7, 8


def sample(time: int, pid: int = 7, *, kernel: tuple[int, ...] = (), registers: dict[int, int] | None = None) -> bytes:
    """Code without a file, with a frame pointer: one caller, at CODE + 0x200."""
    values = {BP: STACK + 0x10, SP: STACK, IP: CODE + 0x100, **(registers or {})}
    stack = struct.pack("=8Q", 0, 0, 0, CODE + 0x200, 0, 0, 0, 0)
    fields: dict[str, Any] = {
        "misc": MISC_USER,
        "ip": values[IP],
        "pid": pid,
        "tid": pid,
        "time": time,
        "callchain": kernel,
        "user_stack": stack,
    }
    return encode_sample(ATTR, {**fields, "user_regs": [values.get(number, 0) for number in range(20)]}, NATIVE_ENDIAN)


def mapped(time: int, pid: int = 7) -> bytes:
    """A program, which is here; and code that it has made."""
    names = ((PROGRAM, os.path.realpath(sys.executable)), (CODE, "//anon"))
    return b"".join(
        encoded(records.Mmap2(MISC_USER, pid, pid, start, 0x1000, 0, 0, 0, 0, 0, 5, 2, name, b"", SampleId(pid, pid, time)))
        for start, name in names
    )


def encoded(record: Any) -> bytes:
    return records.encode(record, IdLayout.of(ATTR, NATIVE_ENDIAN), NATIVE_ENDIAN)


def unwinding() -> PieceUnwinder:
    return PieceUnwinder([FileEvent(ATTR, (), "", 0)], OWN, "x86_64")


def pieces(*given: bytes, known: bytes = b"") -> list[list[list[int]]]:
    """The callchains of each piece."""
    one = unwinding()
    one.learn(chunk_of(array(known)))
    results = [one.take(chunk_of(array(data))) for data in given]
    assert results[0] is None
    return [chains(b"".join(piece.parts)) for piece in [*results[1:], one.rest()] if piece]


def array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def chains(data: bytes) -> list[list[int]]:
    chunk = chunk_of(array(data))
    samples = chunk.rows(np.flatnonzero(chunk.types == 9))
    columns = SampleLayout(plain_attr(ATTR), NATIVE_ENDIAN).decode(samples.data, samples.starts)
    assert columns.damaged is None
    return [row.tolist() for row in columns["callchain"]]


WHOLE = [CONTEXT_USER, CODE + 0x100, CODE + 0x1FF]
ALONE = [CONTEXT_USER, CODE + 0x100]


@pytest.mark.skipif(NATIVE_ENDIAN == ">", reason="the samples are of x86-64")
def test_stacks_become_callchains():
    assert pieces(mapped(1) + sample(2)) == [[WHOLE]]


@pytest.mark.skipif(NATIVE_ENDIAN == ">", reason="the samples are of x86-64")
def test_stacks_that_are_late_keep_their_kernel_part():
    """When the user has waited long enough, the stacks of the processes that concern him are left, and counted."""
    shared = SharedProcesses([7])
    one = PieceUnwinder([FileEvent(ATTR, (), "", 0)], OWN, "x86_64", around=[7], concerned=shared)
    kernel = (CONTEXT_KERNEL, 1 << 63)
    one.learn(chunk_of(array(mapped(1) + mapped(1, 8))))
    results = [one.take(chunk_of(array(sample(time, pid, kernel=kernel)))) for time, pid in ((2, 7), (3, 8))]
    assert one.left == 0
    shared.end_unwinding()
    results += [one.take(chunk_of(array(sample(time, pid, kernel=kernel)))) for time, pid in ((4, 7), (5, 8), (6, 7))]
    results.append(one.rest())
    assert [chains(b"".join(piece.parts)) for piece in results if piece] == [[[*kernel, *WHOLE]], *[[[*kernel]]] * 4]
    assert one.left == 2


@pytest.mark.parametrize("build_id", [b"", b"b" * 20])
def test_only_files_that_no_process_has_mapped_need_a_new_symbolizer(build_id: bytes):
    def mapping(pid: int, time: int, inode: int, name: str = "/lib/libx.so") -> Chunk:
        misc = MISC_USER | (1 << 14 if build_id else 0)
        id_of_file = (0, 0, 0, 0) if build_id else (8, 1, inode, 7)
        return chunk_of(
            array(encoded(records.Mmap2(misc, pid, pid, PROGRAM, 0x1000, 0, *id_of_file, 5, 2, name, build_id, SampleId(pid, pid, time))))
        )

    replay = unwinder.Replay(EventTable([FileEvent(ATTR, (), "", 0)], NATIVE_ENDIAN))
    builds = []
    for chunk in (mapping(7, 1, 3), mapping(8, 2, 3), mapping(8, 3, 3, "/lib/liby.so"), mapping(9, 4, 4), mapping(9, 5, 4)):
        times = np.array([chunk.starts[0] + 1], np.uint64)
        replay.add(chunk, replay.keys(times), times, np.zeros(1, np.int32))
        builds.append(replay.has_new_files)
        replay.open_new_files()
        assert not replay.has_new_files
    assert builds == [True, False, True, not build_id, False]


@pytest.mark.skipif(NATIVE_ENDIAN == ">", reason="the samples are of x86-64")
def test_small_pieces_are_unwound_together():
    joining = PieceUnwinder([FileEvent(ATTR, (), "", 0)], OWN, "x86_64", joins=True)
    joining.learn(chunk_of(array(b"")))
    given = (mapped(1) + sample(2), sample(3), sample(4, kernel=(CONTEXT_KERNEL, 1 << 63)))
    assert [joining.take(chunk_of(array(data))) for data in given] == [None] * 3
    piece = joining.rest()
    assert piece is not None
    assert piece.pieces == 3
    assert chains(b"".join(piece.parts)) == [WHOLE, WHOLE, [CONTEXT_KERNEL, 1 << 63, *WHOLE]]


def test_pieces_that_lie_one_after_another_are_joined_without_a_copy():
    memory = np.arange(64, dtype=np.uint8)
    first, second, third = memory[8:24], memory[24:32], memory[32:40]
    joined = unwinder._concatenated([first, second, third])
    assert joined.tolist() == list(range(8, 40))
    assert np.shares_memory(joined, memory)
    for apart in ([first, third], [second, first], [first, second.copy()], [first.copy(), second.copy()]):
        joined = unwinder._concatenated(apart)
        assert joined.tolist() == [*apart[0], *apart[1]]
        assert not np.shares_memory(joined, memory)


@pytest.mark.skipif(NATIVE_ENDIAN == ">", reason="the samples are of x86-64")
@pytest.mark.parametrize(("kind", "kept"), [(PerfType.SOFTWARE, 1), (PerfType.TRACEPOINT, 2)])
def test_of_its_own_samples_only_tracepoints_stay(kind: int, kept: int):
    """A switch from it to another thread tells when that one began to run."""
    one = PieceUnwinder([FileEvent(ATTR.copy(type=kind), (), "", 0)], OWN, "x86_64")
    one.learn(chunk_of(array(mapped(1) + mapped(1, OWN))))
    one.take(chunk_of(array(sample(2) + sample(3, OWN))))
    piece = one.rest()
    assert piece is not None
    assert chains(b"".join(piece.parts)) == [WHOLE] * kept


@pytest.mark.skipif(NATIVE_ENDIAN == ">", reason="the samples are of x86-64")
def test_the_kernels_part_stays_in_front():
    assert pieces(mapped(1) + sample(2, kernel=(CONTEXT_KERNEL, 1 << 63))) == [[[CONTEXT_KERNEL, 1 << 63, *WHOLE]]]


@pytest.mark.skipif(NATIVE_ENDIAN == ">", reason="the samples are of x86-64")
def test_synthesized_mappings_are_used():
    assert pieces(sample(2), known=mapped(0)) == [[WHOLE]]


@pytest.mark.skipif(NATIVE_ENDIAN == ">", reason="the samples are of x86-64")
def test_a_late_mapping_of_another_ring_counts_from_its_time():
    assert pieces(sample(5) + sample(2), mapped(3)) == [[WHOLE, ALONE], []]


@pytest.mark.skipif(NATIVE_ENDIAN == ">", reason="the samples are of x86-64")
def test_each_process_has_its_own_mappings():
    assert pieces(mapped(1, 7) + sample(2, 7) + sample(2, 8)) == [[WHOLE, ALONE]]


@pytest.mark.skipif(NATIVE_ENDIAN == ">", reason="the samples are of x86-64")
def test_samples_of_the_process_itself_are_omitted():
    assert pieces(mapped(1) + sample(2, OWN) + sample(3)) == [[WHOLE]]


@pytest.mark.skipif(NATIVE_ENDIAN == ">", reason="the samples are of x86-64")
def test_a_caller_at_minus_one_is_no_marker():
    chain = Ragged(np.array([CONTEXT_USER, 1, (1 << 64) - 1, 2, CONTEXT_USER, 3], np.uint64), np.array([0, 3, 6]))
    assert [row.tolist() for row in unwinder._without_false_markers(chain)] == [[CONTEXT_USER, 1], [2, CONTEXT_USER, 3]]


@pytest.mark.skipif(NATIVE_ENDIAN == ">", reason="the samples are of x86-64")
def test_side_band_is_handed_over_once_more():
    one = unwinding()
    one.take(chunk_of(array(mapped(1) + sample(2) + mapped(3))))
    piece = one.rest()
    assert piece is not None
    assert piece.side_band == mapped(1) + mapped(3)


@pytest.mark.skipif(NATIVE_ENDIAN == ">", reason="the samples are of x86-64")
def test_only_finished_records_have_hits():
    one = unwinding()
    one.learn(chunk_of(array(mapped(0))))
    one.take(chunk_of(array(sample(2) + sample(9))))
    one.rest()
    hits = DsoHits.from_bytes(one.hits())
    assert (hits.samples, hits.first_time, hits.last_time) == (2, 2, 9)
    assert [(os.path.basename(dso.name), dso.hit) for dso in hits.dsos.values()][1:] == [("anon", True)]


@pytest.mark.skipif(NATIVE_ENDIAN == ">", reason="the samples are of x86-64")
def test_processes_that_ended_are_forgotten_and_others_not(monkeypatch):
    monkeypatch.setattr("os.path.exists", lambda path: path == "/proc/3")
    one = unwinding()
    exits = [encoded(records.Exit(0, pid, 1, pid, 1, 0, SampleId(pid, pid, 50))) for pid in (1, 2)]
    forked = encoded(records.Fork(0, 3, 2, 3, 2, 0, SampleId(2, 2, 40)))
    one.learn(chunk_of(array(b"".join(mapped(1, pid) for pid in (1, 2, 2, 2, 1, 1, 1, 1)) + forked + b"".join(exits))))
    monkeypatch.setattr(one._replay._tasks, "_forgotten_at", 20)
    one.take(chunk_of(array(sample(100, 3) + sample(101, 4))))
    assert len(one._replay._tasks.records()) == 19
    piece = one.take(chunk_of(array(mapped(102, 5))))
    assert piece is not None
    assert chains(b"".join(piece.parts)) == [WHOLE, ALONE]  # 3 has its mappings from 2, which is gone
    actual_records = one._replay._tasks.records()
    assert {int.from_bytes(record.body[:4], "little") for record in actual_records} == {2, 3, 5}


@pytest.mark.skipif(NATIVE_ENDIAN == ">", reason="the samples are of x86-64")
@pytest.mark.parametrize("step", [8, 24, 40])
def test_pieces_cut_anywhere_end_nothing(step):
    data = mapped(1) + sample(2) + sample(3)
    for end in range(0, len(data), step):
        one = unwinding()
        one.take(chunk_of(array(data[:end])))
        one.rest()


@pytest.mark.skipif(NATIVE_ENDIAN == ">", reason="the samples are of x86-64")
def test_files_are_searched_for_once_and_let_go_with_their_processes(monkeypatch):
    monkeypatch.setattr("os.path.exists", lambda path: False)
    one = unwinding()
    one.learn(chunk_of(array(mapped(1, 1))))
    (key, result), *_ = one._replay._files.items()
    one.take(chunk_of(array(mapped(2, 2) + sample(3, 2))))
    assert one._replay._files[key] is result
    exits = [encoded(records.Exit(0, pid, 1, pid, 1, 0, SampleId(pid, pid, 4))) for pid in (1, 2)]
    one.take(chunk_of(array(b"".join(exits) + sample(9, 3))))
    monkeypatch.setattr(one._replay._tasks, "_forgotten_at", 1)
    one.take(chunk_of(array(encoded(records.Comm(0, 3, 3, "x", SampleId(3, 3, 10))))))
    one.rest()
    assert one._replay._files == {}


@pytest.mark.skipif(NATIVE_ENDIAN == ">", reason="the samples are of x86-64")
def test_methods_of_java_have_frames_of_their_own(monkeypatch):
    jvm = Jvm(is_recent=True)
    inlined, compiled = (jvm.method("App", name, "()V") for name in ("inlined", "compiled"))
    start = jvm.compiled(compiled, [(16, [(inlined, 5), (compiled, 7)])])
    monkeypatch.setattr(hotspot, "library_of", lambda pid, _procfs: (0, "/libjvm.so") if pid == 7 else None)
    monkeypatch.setattr(JavaProcess, "of", lambda _pid, _library: JavaProcess(jvm.memory, jvm.exported))
    mapping = records.Mmap2(MISC_USER, 7, 7, HEAP, 0x10000, HEAP, 0, 0, 0, 0, 5, 2, "//anon", b"", SampleId(7, 7, 5))
    more_data = mapping._replace(misc=MISC_USER | MISC_MMAP_DATA, addr=0x10000, sample_id=SampleId(7, 7, 25))
    one = PieceUnwinder([FileEvent(ATTR, (), "", 0)], OWN, "x86_64", jit=True)
    one.learn(chunk_of(array(encoded(mapping) + mapped(6))))
    piece = sample(10) + sample(20, registers={IP: start + 16}) + encoded(more_data)
    one.read_runtimes(chunk_of(array(piece)))
    assert one.take(chunk_of(array(piece))) is None
    rest = one.rest()
    assert rest is not None
    frames = [jvm.code_of(inlined) + 5, jvm.code_of(compiled) + 7]
    data = b"".join(rest.parts)
    assert chains(data)[1][:3] == [CONTEXT_USER, *frames]
    chunk = chunk_of(array(data))
    assert chunk.types.tolist() == [10, 9, 9]  # the JVM's own record would hide ours
    kind, misc, _ = HEADER[NATIVE_ENDIAN].unpack_from(chunk.record(0))
    record = records.decode(kind, misc, chunk.record(0)[8:], IdLayout.of(ATTR, NATIVE_ENDIAN), NATIVE_ENDIAN)
    assert isinstance(record, records.Mmap2)
    assert record.sample_id is not None
    assert (record.pid, record.filename, record.sample_id.time) == (7, "//anon", 20)
    assert all(record.addr <= frame < record.addr + record.len for frame in frames)
    ips = SampleLayout(plain_attr(ATTR), NATIVE_ENDIAN).decode(chunk.data, chunk.starts[1:], ["ip"])["ip"].tolist()
    assert ips == [CODE + 0x100, frames[0]]
    (lines,) = rest.names.values()
    assert [line.split(" ", 2)[2] for line in lines.splitlines()] == ["void App.inlined()", "void App.compiled()"]
    assert rest.side_band == chunk.record(0)


# Samples with stacks become samples with callchains, and nothing else changes.


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


def rewritten_chunk_of(data: bytes) -> Chunk:
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
    chunk = rewritten_chunk_of(b"".join(encode_sample(attr, values, NATIVE_ENDIAN) for values in samples))
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
    rewriting = Rewriting(chunk := rewritten_chunk_of(comm + sample + lost))
    rewriting.replace(np.array([1]), parts_of(attr, chunk.rows(np.array([1]))), chains_of([9]))
    plain = encode_sample(plain_attr(attr), {**VALUES, "callchain": [9]}, NATIVE_ENDIAN)
    assert b"".join(rewriting.written()) == comm + plain + lost


def test_records_can_be_omitted():
    attr = attr_of(SMALL)
    one, other = (encode_sample(attr, {**with_stack([], bytes(64)), "pid": pid}, NATIVE_ENDIAN) for pid in (1, 2))
    rewriting = Rewriting(chunk := rewritten_chunk_of(one + other))
    rewriting.replace(np.arange(2), parts_of(attr, chunk), chains_of([9], [10, 11]))
    rewriting.kept_records[0] = False
    assert b"".join(rewriting.written()) == encode_sample(plain_attr(attr), {**VALUES, "pid": 2, "callchain": [10, 11]}, NATIVE_ENDIAN)


def test_a_chain_longer_than_a_record_is_truncated():
    attr = attr_of(SMALL)
    rewriting = Rewriting(chunk := rewritten_chunk_of(encode_sample(attr, with_stack([], bytes(64)), NATIVE_ENDIAN)))
    rewriting.replace(np.arange(1), parts_of(attr, chunk), chains_of(list(range(9000))))
    (written,) = rewriting.written()
    assert len(written) == 0xFFF8
    assert walk(np.frombuffer(written, np.uint8), NATIVE_ENDIAN).end == len(written)


def test_a_sample_shorter_than_its_size_is_omitted():
    attr = attr_of(SMALL)
    whole = encode_sample(attr, with_stack([], bytes(64)), NATIVE_ENDIAN)
    cut = bytearray(whole[:-64])
    cut[6:8] = len(cut).to_bytes(2, "little" if NATIVE_ENDIAN == "<" else "big")
    rewriting = Rewriting(chunk := rewritten_chunk_of(bytes(cut) + whole))
    rewriting.replace(np.arange(2), parts_of(attr, chunk), chains_of([1], [2]))
    assert b"".join(rewriting.written()) == encode_sample(plain_attr(attr), {**VALUES, "callchain": [2]}, NATIVE_ENDIAN)


def test_a_piece_without_records_is_nothing():
    assert Rewriting(rewritten_chunk_of(b"")).written() == []


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
    rewriting = Rewriting(chunk := rewritten_chunk_of(data))
    rewriting.replace(np.arange(50), parts_of(attr, chunk), chains_of(*([number] * (number % 7) for number in range(50))))
    whole = b"".join(rewriting.written())
    for most in (1, 100, 1000, len(whole) - 1, len(whole)):
        parts = rewriting.written(most)
        assert b"".join(parts) == whole
        assert all(walk(np.frombuffer(part, np.uint8), NATIVE_ENDIAN).end == len(part) for part in parts)
        assert len(parts) <= len(whole) // most + 1
