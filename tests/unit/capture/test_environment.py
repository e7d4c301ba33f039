"""The header's features describe a machine built in a folder."""

from __future__ import annotations

import pytest

from perfpy.capture.environment import Environment
from perfpy.perfdata.container.feature_values import CacheLevel, MemNode, MemTopology, NumaNode, PmuMapping
from perfpy.perfdata.container.features import Feature

FILES = {
    "proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 158\n"
    "model name\t: Some   CPU\nstepping\t: 10\n",
    "proc/meminfo": "MemTotal:       1234 kB\nMemFree: 1 kB\n",
    "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:        1000 kB\nNode 0 MemFree:         400 kB\n",
    "sys/devices/system/node/node0/cpulist": "0-3\n",
    "sys/devices/system/node/node0/memory0/state": "",
    "sys/devices/system/node/node0/memory65/state": "",
    "sys/devices/system/memory/block_size_bytes": "8000000\n",
    "sys/bus/event_source/devices/uncore/type": "20\n",
    "sys/bus/event_source/devices/breakpoint/type": "5\n",
    "sys/devices/system/cpu/cpu0/cache/index0/level": "2\n",
    "sys/devices/system/cpu/cpu0/cache/index0/type": "Unified\n",
    "sys/devices/system/cpu/cpu0/cache/index0/size": "1M\n",
    "sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list": "0-1\n",
    "sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size": "64\n",
    "sys/devices/system/cpu/cpu0/cache/index0/number_of_sets": "1024\n",
    "sys/devices/system/cpu/cpu0/cache/index0/ways_of_associativity": "16\n",
}


@pytest.fixture
def machine(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Environment(str(tmp_path / "proc"), str(tmp_path / "sys"))


def test_the_cpu(machine):
    assert machine.cpu_description("x86_64") == "Some CPU"
    assert machine.cpu_id("x86_64") == "GenuineIntel,6,158,10"


def test_an_arm_cpu_is_known_by_its_midr_without_the_revision(machine, tmp_path):
    path = tmp_path / "sys/devices/system/cpu/cpu0/regs/identification/midr_el1"
    path.parent.mkdir(parents=True)
    path.write_text("0x00000000413fd0c1\n")
    assert machine.cpu_id("aarch64") == "0x00000000410fd0c0"


def test_memory(machine):
    assert machine.total_memory() == 1234
    assert machine.numa_nodes() == (NumaNode(0, 1000, 400, "0-3"),)
    assert machine.memory_blocks() == MemTopology(1, 0x8000000, (MemNode(0, 66, (1, 2)),))


def test_pmus_have_the_cpu_first_even_where_the_kernel_has_none(machine):
    assert machine.pmus() == (PmuMapping(4, "cpu"), PmuMapping(5, "breakpoint"), PmuMapping(20, "uncore"))


def test_caches(machine):
    assert machine.caches() == (CacheLevel(2, 64, 1024, 16, "Unified", "1M", "0-1"),)


def test_unknown_facts_of_a_machine_are_omitted(tmp_path):
    features = Environment(str(tmp_path), str(tmp_path)).features()
    assert Feature.CACHE not in features
    assert Feature.CPUID not in features
    assert features[Feature.HOSTNAME]
