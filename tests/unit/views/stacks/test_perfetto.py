"""A Perfetto trace: samples with callstacks, outermost first, read without a schema and, where installed, by the published one."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfpy.analysis.stacks.code_sites import CodeSites, FileMapping, Source
from perfpy.cli import run
from perfpy.views.stacks.perfetto import perfetto
from tests.builders.messages import protobuf
from tests.builders.sampled_program import Stack, sampled_program
from tests.builders.stacks import At, stacks, timed_stacks

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.analysis.stacks.stacks import Stacks

MS = 1_000_000


def ran() -> Stacks:
    return timed_stacks([At("app;main;hot", 10 * MS, 1 * MS, 7, 8, 1), At("app;main;read_[k]", 20 * MS, 2 * MS, 7, 7, 0),
                         At("sh;main;hot", 40 * MS, 3 * MS, 9, 9, 1)])  # fmt: skip


def packets(data: bytes) -> list[dict[int, Any]]:
    """Return the fields of each packet."""
    return [dict(protobuf(packet)) for number, packet in protobuf(data) if number == 1]


def interned(packet: dict[int, Any], kind: int) -> dict[int, dict[int, Any]]:
    """Return the entries of one kind by their ids."""
    entries = [dict(protobuf(value)) for number, value in protobuf(packet[12]) if number == kind]
    return {entry[1]: entry for entry in entries}


def frames_of(packet: dict[int, Any], callstack: int) -> list[tuple[str, str]]:
    """Return function and file of each frame of a callstack."""
    names, paths, mappings, frames = (interned(packet, kind) for kind in (5, 17, 19, 6))
    (fields,) = (value for number, value in protobuf(packet[12]) if number == 7 and dict(protobuf(value))[1] == callstack)
    return [(names[frames[frame][2]][2].decode(), paths[mappings[frames[frame][3]][7]][2].decode())
            for number, frame in protobuf(fields) if number == 2]  # fmt: skip


def test_a_sample_has_its_time_thread_and_callstack() -> None:
    _, first, *samples = packets(perfetto([ran()]))
    assert first[13] == 1, "the sequence begins"
    assert dict(protobuf(dict(protobuf(dict(protobuf(first[59]))[12]))[1]))[10] == b"cpu-clock"
    one, two, three = ((sample[8], dict(protobuf(sample[66]))) for sample in samples)
    assert [time for time, _ in (one, two, three)] == [10 * MS, 20 * MS, 40 * MS]
    assert [(fields.get(1, 0), fields[2], fields[3]) for _, fields in (one, two, three)] == [(1, 7, 8), (0, 7, 7), (1, 9, 9)]
    assert [fields[5] for _, fields in (one, two, three)] == [2, 1, 2], "in the kernel, or not"
    assert [fields[6] for _, fields in (one, two, three)] == [MS, 2 * MS, 4 * MS], "a counter of each CPU"
    assert frames_of(first, one[1][4]) == [("main", "app"), ("hot", "app")]
    assert frames_of(first, two[1][4]) == [("main", "app"), ("read", "kernel")]


def test_processes_and_threads_have_names() -> None:
    tree = list(protobuf(packets(perfetto([ran()]))[0][2]))
    assert [(one[1], one[3]) for one in (dict(protobuf(value)) for number, value in tree if number == 1)] == [(7, b"app"), (9, b"sh")]
    threads = [(one[1], one[3], one[2]) for one in (dict(protobuf(value)) for number, value in tree if number == 2)]
    assert sorted(threads) == [(7, 7, b"app"), (8, 7, b"app"), (9, 9, b"sh")]


def test_each_event_is_a_sequence() -> None:
    data = perfetto([ran(), dataclasses.replace(ran(), event="page-faults")])
    assert [packet.get(10) for packet in packets(data)] == [None, 1, 1, 1, 1, 2, 2, 2, 2]


def test_frames_have_addresses_in_their_files_and_lines() -> None:
    part = timed_stacks([At("app;main", 10 * MS)])
    mapping = FileMapping(0x400000, 0x500000, 0x1000, "/usr/bin/app", "ab12", False, True, True)
    column = np.array([0x400010], np.uint64)
    none = np.zeros(1, np.uint64)
    sites = CodeSites(column, np.array([0]), np.array([0]), np.array([False]), none, none, [mapping], [Source("/src/app.c", 7)], [None])
    _, first, _ = packets(perfetto([dataclasses.replace(part, sites=sites, site=np.array([0], np.int32))]))
    ((_, frame),) = interned(first, 6).items()
    assert (frame[4], frame[6]) == (0x1010, 7)
    assert interned(first, 18)[frame[5]][2] == b"/src/app.c"
    ((_, of_file),) = interned(first, 19).items()
    assert (of_file[8], of_file[4], of_file[5]) == (0x1000, 0x400000, 0x500000)
    assert [entry[2] for entry in interned(first, 17).values()] == [b"usr", b"bin", b"app"]
    assert interned(first, 16)[of_file[2]][2] == b"ab12"


def test_a_trace_needs_times() -> None:
    with pytest.raises(ValueError, match="times"):
        perfetto([stacks("app;main 1")])


def test_the_published_schema_knows_every_field(tmp_path: Path) -> None:
    path = sampled_program(tmp_path, [Stack(("run", "main"), 3), Stack(("main",), 2)])
    exported = tmp_path / "out.pftrace"
    assert run(["export", "-q", "-i", str(path), "--symfs", str(tmp_path), "--perfetto", str(exported)]) == 0
    assert len(packets(exported.read_bytes())) == 7
    schema = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="the package perfetto is not installed")
    trace = schema.Trace.FromString(exported.read_bytes())
    assert [packet.perf_sample.pid for packet in trace.packet if packet.HasField("perf_sample")] == [100] * 5
    assert trace.SerializeToString() == schema.Trace.FromString(trace.SerializeToString()).SerializeToString()
    trace.DiscardUnknownFields()
    assert trace == schema.Trace.FromString(exported.read_bytes())
