"""--threads: words and lists are converted to masks."""

from __future__ import annotations

import pytest

from perfpy.capture.record_options import BufferOptions, RecordOptions
from perfpy.capture.thread_masks import ThreadMask, thread_masks
from perfpy.errors import UsageError
from perfpy.kernel.cpus import Topology
from tests.builders.options import record_options


@pytest.fixture
def machine(tmp_path):
    """Two packages of two cores of two CPUs; CPUs 0 and 4, 1 and 5 ... share a core; a node a package."""
    for cpu in range(8):
        folder = tmp_path / "devices/system/cpu" / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{cpu % 4 // 2}\n")
        (folder / "core_id").write_text(f"{cpu % 2}\n")
    for node, cpus in enumerate(("0-1,4-5", "2-3,6-7")):
        folder = tmp_path / "devices/system/node" / f"node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(f"{cpus}\n")
    return Topology(str(tmp_path))


def masks(text, machine, recorded=range(8)):
    return [(sorted(mask.rings), sorted(mask.runs_on)) for mask in thread_masks(text, recorded, range(8), machine)]


def test_a_thread_for_each_part_of_the_machine(machine):
    assert masks("cpu", machine) == [([cpu], [cpu]) for cpu in range(8)]
    assert masks("core", machine) == [([cpu, cpu + 4], [cpu, cpu + 4]) for cpu in range(4)]
    assert masks("package", machine) == masks("numa", machine) == [([0, 1, 4, 5], [0, 1, 4, 5]), ([2, 3, 6, 7], [2, 3, 6, 7])]


def test_parts_without_a_recorded_cpu_have_no_thread(machine):
    assert masks("core", machine, [1, 2]) == [([1], [1, 5]), ([2], [2, 6])]
    assert masks("cpu", machine, [3]) == [([3], [3])]


def test_lists_give_the_rings_and_cpus_of_each_thread(machine):
    assert thread_masks("0,2-4/2-4:5-7/0", range(8), range(8), machine) == [
        ThreadMask(frozenset({0, 2, 3, 4}), frozenset({2, 3, 4})),
        ThreadMask(frozenset({5, 6, 7}), frozenset({0})),
    ]
    assert masks("0-3/4", machine, [1]) == [([1], [4])]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("socket", "neither a CPU nor"),
        ("0", "invalid text"),
        ("/0", "invalid text"),
        ("0/", "invalid text"),
        ("0/0:0/1", "two threads read"),
        ("0-9/0", "CPU 8 is not online"),
        ("0/9", "CPU 9 is not online"),
    ],
)
def test_other_texts_are_refused(text, why, machine):
    with pytest.raises(UsageError, match=why):
        thread_masks(text, range(8), range(8), machine)


@pytest.mark.parametrize(
    "others",
    [
        {"output": "-"},
        {"affinity": "cpu"},
        {"per_thread": True},
        {"unwind": True},
        {"off_cpu": True},
        {"timestamp_filename": True},
        {"jit": True},
    ],
)
def test_one_file_for_input_and_output_is_refused(others):
    RecordOptions(buffers=BufferOptions(threads="cpu")).check()
    with pytest.raises(UsageError, match="excludes"):
        record_options(threads="cpu", **others).check()
