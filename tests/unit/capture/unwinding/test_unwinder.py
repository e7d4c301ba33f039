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
from perfpy.abi.flags import CONTEXT_KERNEL, CONTEXT_USER, MISC_MMAP_DATA, MISC_USER, NATIVE_ENDIAN, SampleType
from perfpy.abi.framing import HEADER
from perfpy.abi.records import IdLayout, SampleId
from perfpy.abi.sample_decoding import SampleLayout
from perfpy.abi.sample_encoding import encode_sample
from perfpy.capture.dso_hits import DsoHits
from perfpy.capture.runtimes import hotspot
from perfpy.capture.runtimes.hotspot import JavaProcess
from perfpy.capture.unwinding import unwinder
from perfpy.capture.unwinding.process import plain_attr
from perfpy.capture.unwinding.serving import chunk_of
from perfpy.capture.unwinding.unwinder import PieceUnwinder
from perfpy.perfdata.events import FileEvent
from tests.builders.hotspot import HEAP, Jvm

pytestmark = pytest.mark.skipif(NATIVE_ENDIAN == ">", reason="the samples are of x86-64")

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


def test_stacks_become_callchains():
    assert pieces(mapped(1) + sample(2)) == [[WHOLE]]


def test_the_kernels_part_stays_in_front():
    assert pieces(mapped(1) + sample(2, kernel=(CONTEXT_KERNEL, 1 << 63))) == [[[CONTEXT_KERNEL, 1 << 63, *WHOLE]]]


def test_synthesized_mappings_are_used():
    assert pieces(sample(2), known=mapped(0)) == [[WHOLE]]


def test_a_late_mapping_of_another_ring_counts_from_its_time():
    assert pieces(sample(5) + sample(2), mapped(3)) == [[WHOLE, ALONE], []]


def test_each_process_has_its_own_mappings():
    assert pieces(mapped(1, 7) + sample(2, 7) + sample(2, 8)) == [[WHOLE, ALONE]]


def test_samples_of_the_process_itself_are_omitted():
    assert pieces(mapped(1) + sample(2, OWN) + sample(3)) == [[WHOLE]]


def test_a_caller_at_minus_one_is_no_marker():
    chain = Ragged(np.array([CONTEXT_USER, 1, (1 << 64) - 1, 2, CONTEXT_USER, 3], np.uint64), np.array([0, 3, 6]))
    assert [row.tolist() for row in unwinder._without_false_markers(chain)] == [[CONTEXT_USER, 1], [2, CONTEXT_USER, 3]]


def test_side_band_is_handed_over_once_more():
    one = unwinding()
    one.take(chunk_of(array(mapped(1) + sample(2) + mapped(3))))
    piece = one.rest()
    assert piece is not None
    assert piece.side_band == mapped(1) + mapped(3)


def test_only_finished_records_have_hits():
    one = unwinding()
    one.learn(chunk_of(array(mapped(0))))
    one.take(chunk_of(array(sample(2) + sample(9))))
    one.rest()
    hits = DsoHits.from_bytes(one.hits())
    assert (hits.samples, hits.first_time, hits.last_time) == (2, 2, 9)
    assert [(os.path.basename(dso.name), dso.hit) for dso in hits.dsos.values()][1:] == [("anon", True)]


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


@pytest.mark.parametrize("step", [8, 24, 40])
def test_pieces_cut_anywhere_end_nothing(step):
    data = mapped(1) + sample(2) + sample(3)
    for end in range(0, len(data), step):
        one = unwinding()
        one.take(chunk_of(array(data[:end])))
        one.rest()


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
