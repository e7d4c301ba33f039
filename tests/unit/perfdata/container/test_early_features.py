"""Pipes with features in records of types 69 to 81, as Google's perf 3.x wrote them."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from perfpy.abi.framing import with_header
from perfpy.abi.perf_records import user_records
from perfpy.perfdata.container.early_features import early_features
from perfpy.perfdata.container.feature_values import CpuCount, NumaNode, PmuMapping
from perfpy.perfdata.container.features import Feature, encode_feature, key_of
from perfpy.perfdata.container.source import open_source
from perfpy.perfdata.reader import PerfData
from tests.builders.perfdata import simple_recording

if TYPE_CHECKING:
    from pathlib import Path

FRONT = 16  # size of a pipe's header
VALUES = {
    69: (Feature.HOSTNAME, "vm"),
    73: (Feature.NRCPUS, CpuCount(8, 4)),
    77: (Feature.CMDLINE, ("perf", "record", "-o", "-")),
    80: (Feature.NUMA_TOPOLOGY, (NumaNode(0, 100, 50, "0-3"),)),
    81: (Feature.PMU_MAPPINGS, (PmuMapping(4, "cpu"),)),
}


def early_records(endian: str) -> bytes:
    return b"".join(with_header(kind, 0, encode_feature(*value, endian), endian) for kind, value in VALUES.items())


def early_pipe(endian: str) -> bytes:
    whole = simple_recording(5, endian=endian).pipe()
    return whole[:FRONT] + early_records(endian) + whole[FRONT:]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "perf.data"


@pytest.mark.parametrize("endian", "<>")
def test_features_and_following_records_are_read(path: Path, endian: str) -> None:
    path.write_bytes(early_pipe(endian))
    with PerfData(path) as data:
        assert data.features == {key_of(feature): value for feature, value in VALUES.values()}
        assert set(data.feature_sections) == {feature for feature, _ in VALUES.values()}
        assert sum(len(batch) for batch in data.batches()) == 5
        assert len(list(data.side_band())) == len(data.attr_records) + 2
        assert data.warnings == []


def test_records_keep_their_offsets_in_the_file(path: Path) -> None:
    path.write_bytes(early_pipe("<"))
    with PerfData(path) as data:
        assert data.data.offset == FRONT + len(early_records("<"))
        assert data.data.end == data.size


def test_an_id_index_in_front_is_an_id_index(path: Path) -> None:
    index = user_records.IdIndex(0, tuple(user_records.IdIndexEntry(number, number, 0, -1 & 0xFFFFFFFF) for number in range(3)))
    whole = simple_recording(5).pipe()
    path.write_bytes(whole[:FRONT] + user_records.encode(index, "<") + whole[FRONT:])
    with PerfData(path) as data:
        assert data.features == {}
        assert data.data.offset == FRONT
        assert index in [side.record for side in data.side_band()]


def test_a_pipe_truncated_within_its_features_is_read_up_to_there(path: Path) -> None:
    whole = early_pipe("<")
    first = encode_feature(Feature.HOSTNAME, "vm")
    for cut in range(FRONT, FRONT + len(early_records("<"))):
        path.write_bytes(whole[:cut])
        with closing(open_source(path)) as source:
            result, begin = early_features(source, FRONT, "<")
        assert begin <= cut
        assert [number for number, _ in result] == [int(feature) for feature, _ in VALUES.values()][: len(result)]
        assert bool(result) == (cut >= FRONT + 8 + len(first))
