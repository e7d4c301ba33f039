"""Tests of accesses grouped by cache line."""

from __future__ import annotations

import numpy as np
import pytest

import perfpy
from perfpy.cli import run
from perfpy.tools.mem.accesses import MemoryNodes, memory_nodes, read_accesses
from perfpy.tools.mem.cache_lines import cache_lines, line_rows, physical_memory
from tests.builders.memory_accesses import HIT, L3, SNOOP_HITM, access, access_recording, data_src

HITM = data_src(level=HIT | L3, snoop=SNOOP_HITM)


def lines_of(path, built, size=64):
    path.write_bytes(built.file())
    recording = perfpy.open(path)
    timeline = recording.make_timeline(keep_exited=True)
    symbolizer = recording.new_symbolizer(timeline, None)
    accesses = read_accesses(recording.data, timeline, symbolizer)
    nodes = memory_nodes(recording.data)
    return accesses, cache_lines(accesses, symbolizer, nodes, size), symbolizer, nodes


def test_anonymous_memory_at_one_address_is_a_line_for_each_process(tmp_path):
    built = access_recording()
    for pid in (10, 20, 10):
        access(built, HITM, pid=pid, tid=pid)
    _, lines, _, _ = lines_of(tmp_path / "x", built)
    assert lines.counts.hitm.tolist() == [2, 1]
    assert lines.address.tolist() == [0x600000, 0x600000]


def test_pairs_of_lines_are_one_line_of_128_bytes(tmp_path):
    built = access_recording()
    for address in (0x600008, 0x600048, 0x600088):
        access(built, HITM, addr=address)
    assert lines_of(tmp_path / "x", built)[1].counts.hitm.tolist() == [1, 1, 1]
    assert lines_of(tmp_path / "x", built, 128)[1].counts.hitm.tolist() == [2, 1]


def test_lines_with_a_thousandth_of_the_accesses_are_hidden(tmp_path):
    built = access_recording()
    for _ in range(2000):
        access(built, HITM)
    access(built, HITM, addr=0x601008)
    _, lines, _, _ = lines_of(tmp_path / "x", built)
    assert lines.ranked("tot", show_all=False) == [0]
    assert lines.ranked("tot", show_all=True) == [0, 1]


def test_rows_of_a_line_are_offset_and_code(tmp_path):
    built = access_recording()
    for address, ip in ((0x600008, 0x400010), (0x600010, 0x400010), (0x600008, 0x400020), (0x600008, 0x400010)):
        access(built, HITM, addr=address, ip=ip)
    accesses, lines, symbolizer, nodes = lines_of(tmp_path / "x", built)
    rows = line_rows(accesses, lines, [0], ("iaddr",), "tot", symbolizer, nodes)
    assert rows.offset[rows.order].tolist() == [8, 8, 16]
    assert rows.counts.hitm[rows.order].tolist() == [2, 1, 1]


def test_memory_without_nodes_has_none():
    nodes = MemoryNodes({}, {}, 0)
    sets, changes = physical_memory(np.array([0, 5, 5, 6, 0, 6], np.uint64), np.zeros(6, np.int64), 1, nodes)
    assert (sets, changes.tolist()) == ([()], [2])
    assert nodes.of_cpus(np.array([3, -1, 1 << 20], np.int32)).tolist() == [-1, -1, -1]


def test_a_recording_without_nodes_has_a_report(tmp_path, capsys):
    """perf refuses it."""
    built = access(access_recording(nodes=()), HITM)
    path = tmp_path / "x"
    path.write_bytes(built.file())
    assert run(["c2c", "report", "--stdio", "-i", str(path)]) == 0
    assert "0x600000   N/A" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["-d", "all"], ["-c", "cpu"]])
def test_unknown_words_are_refused(words, capsys):
    assert run(["c2c", "report", *words]) == 129
    assert "expected" in capsys.readouterr().err


def test_a_recording_without_accesses_is_refused(tmp_path, capsys):
    from tests.builders.perfdata import simple_recording

    path = tmp_path / "x"
    path.write_bytes(simple_recording().file())
    assert run(["c2c", "report", "-i", str(path)]) == 255
    assert "record with perfpy c2c record" in capsys.readouterr().err


def test_a_cut_recording_has_a_report(tmp_path, capsys):
    """Every length, in steps: no traceback."""
    whole = access(access(access_recording(), HITM), HITM).file()
    path = tmp_path / "x"
    for size in range(104, len(whole), 397):
        path.write_bytes(whole[:size])
        assert run(["c2c", "report", "--stdio", "-i", str(path)]) in (0, 255)
        assert "internal error" not in capsys.readouterr().err
