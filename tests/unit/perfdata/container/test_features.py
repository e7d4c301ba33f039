"""Feature sections: encode and decode are inverse, and truncated sections are refused."""

from __future__ import annotations

import pytest

from perfpy.abi.perf_records.build_id_record import HeaderBuildId
from perfpy.perfdata.container.feature_values import CpuLocation, CpuTopology
from perfpy.perfdata.container.features import FEATURE_NAMES, Feature, decode_feature, encode_feature
from tests.builders.specimens import FEATURES

#: features whose truncation goes unnoticed: raw bytes, empty marks, lists that end with the section, parts missing in older files
OPEN_ENDED = {
    Feature.TRACING_DATA,
    Feature.BRANCH_STACK,
    Feature.STAT,
    Feature.BUILD_ID,
    Feature.CPU_TOPOLOGY,
    Feature.AUXTRACE,
    Feature.CPU_DOMAIN_INFO,
}


def test_there_is_a_value_of_every_feature() -> None:
    assert set(FEATURES) == set(FEATURE_NAMES)


@pytest.mark.parametrize("endian", "<>")
@pytest.mark.parametrize("feature", FEATURE_NAMES)
def test_decode_reverses_encode(feature: int, endian: str) -> None:
    data = encode_feature(feature, FEATURES[feature], endian)
    assert decode_feature(feature, data, endian, cpus=2) == FEATURES[feature]


@pytest.mark.parametrize("endian", "<>")
@pytest.mark.parametrize("feature", FEATURE_NAMES)
def test_a_section_cut_at_any_byte_is_refused(feature: int, endian: str) -> None:
    data = encode_feature(feature, FEATURES[feature], endian)
    for size in range(len(data)):
        if feature in OPEN_ENDED:
            try:
                decode_feature(feature, data[:size], endian, cpus=2)
            except ValueError:
                continue
        else:
            with pytest.raises(ValueError, match=r"expected|entries|left|cut|cache|memory"):
                decode_feature(feature, data[:size], endian, cpus=2)


@pytest.mark.parametrize("feature", FEATURE_NAMES)
def test_no_count_makes_more_values_than_there_are_bytes(feature: int) -> None:
    data = bytearray(encode_feature(feature, FEATURES[feature]))
    for at in range(0, len(data) - 3, 4):
        huge = bytes(data[:at]) + b"\xff\xff\xff\x7f" + bytes(data[at + 4 :])
        try:
            decode_feature(feature, huge, cpus=2)
        except ValueError:
            continue


def test_build_ids_of_files_without_a_pid_are_recognised() -> None:
    whole = encode_feature(Feature.BUILD_ID, (HeaderBuildId(1, -1, bytes(range(20)), "[kernel.kallsyms]"),))
    old = whole[:6] + (len(whole) - 4).to_bytes(2, "little") + whole[12:]
    (record,) = decode_feature(Feature.BUILD_ID, old)
    assert (record.filename, record.build_id) == ("[kernel.kallsyms]", bytes(range(20)))


def test_a_cpu_topology_without_places_or_dies_is_read() -> None:
    topology = CpuTopology(("0-1",), ("0-1",), (CpuLocation(0, 0), CpuLocation(1, 0)))
    data = encode_feature(Feature.CPU_TOPOLOGY, topology)
    assert decode_feature(Feature.CPU_TOPOLOGY, data) == topology
    assert decode_feature(Feature.CPU_TOPOLOGY, data[:-16], cpus=2) == topology._replace(cpus=())


def test_an_auxtrace_index_without_its_count_is_read() -> None:
    data = encode_feature(Feature.AUXTRACE, FEATURES[Feature.AUXTRACE])
    assert decode_feature(Feature.AUXTRACE, data[8:]) == FEATURES[Feature.AUXTRACE]
