"""Records are synthesized in perf's order from a /proc built in a folder."""

from __future__ import annotations

import os
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from perfpy.abi.attr import CountedEvent, EventAttr
from perfpy.abi.flags import (
    MISC_FORK_EXEC,
    MISC_GUEST_KERNEL,
    MISC_KERNEL,
    MISC_MMAP_BUILD_ID,
    MISC_MMAP_DATA,
    MISC_USER,
    NATIVE_ENDIAN,
    BranchSample,
    PerfType,
    SampleType,
)
from perfpy.abi.perf_records import EVENT_UPDATE_CPUS, EVENT_UPDATE_SCALE, EVENT_UPDATE_UNIT
from perfpy.abi.records import BpfEvent, Cgroup, Comm, Fork, Ksymbol, Mmap, Mmap2, Namespaces, decode
from perfpy.capture.record_options import Callchain, GuestOptions
from perfpy.capture.synthesis import Environment, RecordedFeatures, Synthesis, guest_kernels, id_layout, kernel_extent, updates_of
from perfpy.kernel.loaded_bpf import BpfProgramInfo
from perfpy.kernel.procfs import ProcFs
from perfpy.kernel.sysfs import module_text
from perfpy.perfdata.header import CacheLevel, Feature, HybridPmu, MemNode, MemTopology, NumaNode, PmuMapping
from tests.builders import sysfs_tree
from tests.builders.bpf_programs import types
from tests.builders.options import record_options

LAYOUT = id_layout(SampleType.IP | SampleType.TID | SampleType.TIME)
MAPS = """\
55d0c0a00000-55d0c0a01000 r--p 00000000 fe:00 77 /bin/prog
55d0c0a01000-55d0c0a05000 r-xp 00001000 fe:00 77 /bin/prog
55d0c0b00000-55d0c0b10000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000001000 rwxp 00000000 00:00 0
7f0000002000-7f0000003000 r-xs 00000000 fe:00 78 /with space (deleted)
7ffff7fc1000-7ffff7fc3000 r-xp 00000000 00:00 0 [vdso]
"""
KALLSYMS = (
    "0000000000000000 A fixed\nffffffff81000000 T _stext\nffffffff81000000 T _text\n"
    + "".join(f"ffffffff8100{i:04x} t function_{i}\n" for i in range(3000))
    + "ffffffff81a00000 T _etext\nffffffffc0000000 t helper\t[module]\n"
)


@pytest.fixture
def proc(tmp_path):
    def task(pid: int, tid: int, name: str, ppid: int, *, kernel: bool = False) -> None:
        for folder in (tmp_path / str(pid) / "task" / str(tid), tmp_path / str(tid)):
            folder.mkdir(parents=True, exist_ok=True)
            memory = "" if kernel else "VmPeak:\t1 kB\n"
            (folder / "status").write_text(f"Name:\t{name}\nUmask:\t0022\nTgid:\t{pid}\nPid:\t{tid}\nPPid:\t{ppid}\nUid:\t0\t0\n{memory}")

    task(2, 2, "kthreadd", 0, kernel=True)
    task(10, 10, "prog", 1)
    task(10, 11, "worker", 1)
    (tmp_path / "10" / "maps").write_text(MAPS)
    (tmp_path / "kallsyms").write_text(KALLSYMS)
    (tmp_path / "modules").write_text("module 5000 0 - Live 0xffffffffc0000000\nhidden 1 0 - Live 0x0000000000000000\n")
    # tids have folders of their own in the real /proc, too, but are not listed
    listed = [2, 10]
    fake = ProcFs(str(tmp_path))
    fake.processes = lambda: listed  # type: ignore[method-assign]
    return fake


def records(pieces):
    results = []
    for piece in pieces:
        kind, misc, size = struct.unpack_from("=IHH", piece)
        assert size == len(piece)
        results.append(decode(kind, misc, piece[8:], LAYOUT, NATIVE_ENDIAN))
    return results


def test_a_system_is_fork_and_comm_of_each_task_and_the_maps_of_each_process(proc):
    actual_records = records(Synthesis(proc, LAYOUT).processes())
    assert [(type(r).__name__, r.pid, r.tid) for r in actual_records if not isinstance(r, Mmap2)] == [
        ("Fork", 2, 2),
        ("Comm", 2, 2),
        ("Fork", 10, 10),
        ("Comm", 10, 10),
        ("Fork", 10, 11),
        ("Comm", 10, 11),
    ]
    forks = [r for r in actual_records if isinstance(r, Fork)]
    assert [(r.ppid, r.ptid) for r in forks] == [(0, 0), (1, 1), (10, 10)]
    assert all(r.misc == MISC_FORK_EXEC for r in forks)
    assert [r.pid for r in actual_records if isinstance(r, Mmap2)] == [10] * 4


def test_records_carry_an_empty_sample_id(proc):
    assert records(Synthesis(proc, LAYOUT).processes())[0].sample_id.time == 0


def test_executable_maps_keep_their_names(proc):
    results = [r for r in records(Synthesis(proc, LAYOUT).threads([10])) if isinstance(r, Mmap2)]
    assert [(r.filename, r.prot, r.flags) for r in results] == [
        ("/bin/prog", 5, 2),
        ("//anon", 7, 2),
        ("/with space (deleted)", 5, 1),
        ("[vdso]", 5, 2),
    ]
    assert results[0][:11] == (MISC_USER, 10, 10, 0x55D0C0A01000, 0x4000, 0x1000, 0xFE, 0, 77, 0, 5)


def test_data_maps_are_marked(proc):
    results = [r for r in records(Synthesis(proc, LAYOUT, data_mmaps=True).threads([10])) if isinstance(r, Mmap2)]
    assert [r.filename for r in results if r.misc & MISC_MMAP_DATA] == ["/bin/prog", "[heap]"]


def test_a_thread_brings_its_process(proc):
    actual_records = records(Synthesis(proc, LAYOUT).threads([11]))
    assert [(r.tid, r.comm) for r in actual_records if isinstance(r, Comm)] == [(11, "worker"), (10, "prog")]
    assert any(isinstance(r, Mmap2) for r in actual_records)


def test_an_ended_task_is_omitted(proc):
    assert list(Synthesis(proc, LAYOUT).threads([4711])) == []


def test_namespaces_stand_before_the_comm_of_a_task(proc):
    actual_records = records(Synthesis(proc, LAYOUT, namespaces=True, mmaps=False).processes())
    assert [type(r).__name__ for r in actual_records[:3]] == ["Fork", "Namespaces", "Comm"]
    assert isinstance(actual_records[1], Namespaces)
    assert len(actual_records[1].namespaces) == 7


def test_build_ids_replace_the_inode(proc):
    actual_records = records(Synthesis(proc, LAYOUT, build_id=lambda name: b"\1" * 20 if name == "/bin/prog" else b"").threads([10]))
    (program,) = [r for r in actual_records if isinstance(r, Mmap2) and r.misc & MISC_MMAP_BUILD_ID]
    assert (program.filename, program.build_id) == ("/bin/prog", b"\1" * 20)


def test_the_kernel_and_its_modules(proc, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kernel, module = records(Synthesis(proc, LAYOUT).kernel())
    assert kernel[:7] == Mmap(MISC_KERNEL, 0xFFFFFFFF, 0, 0xFFFFFFFF81000000, 0xA00000, 0xFFFFFFFF81000000, "[kernel.kallsyms]_text")[:7]
    assert (module.filename, module.addr, module.len) == ("[module]", 0xFFFFFFFFC0000000, 0x2000)


def test_a_module_may_begin_with_something_else_than_code(proc, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "module/module/sections").mkdir(parents=True)
    (tmp_path / "module/module/sections/.text").write_text("0xffffffffc0000178\n")
    synthesis = Synthesis(proc, LAYOUT, module_text=lambda name: module_text(name, str(tmp_path)))
    assert [(r.addr, r.len) for r in records(synthesis.kernel())][1:] == [(0xFFFFFFFFC0000178, 0x2000 - 0x178)]
    assert module_text("another", str(tmp_path)) == 0


def test_hidden_kernel_addresses_make_no_map(proc, tmp_path):
    (tmp_path / "kallsyms").write_text("0000000000000000 T _stext\n0000000000000000 T _text\n0000000000000000 T _etext\n")
    (tmp_path / "modules").write_text("module 5000 0 - Live 0x0000000000000000\n")
    assert list(Synthesis(proc, LAYOUT).kernel()) == []


def test_the_kernels_end_is_kept_until_it_boots_again(proc, tmp_path):
    boot = tmp_path / "sys" / "kernel" / "random"
    boot.mkdir(parents=True)
    (boot / "boot_id").write_text("one\n")
    path = str(tmp_path / "kept" / "kernel-end")
    first = kernel_extent(proc, path)
    (tmp_path / "kallsyms").write_text(KALLSYMS.replace("ffffffff81a00000", "ffffffff81b00000"))
    assert kernel_extent(proc, path) == first
    (boot / "boot_id").write_text("two\n")
    later = kernel_extent(proc, path)
    assert later is not None
    assert later.end == 0xFFFFFFFF81B00000


def test_guest_kernels_are_named_by_their_hypervisors(proc, tmp_path):
    for pid, modules in ((9, ""), (5, "b 100 0 - Live 0xffffffffc0020000 (OE)\na 4096 1 b, Live 0xffffffffc0000000\n")):
        (tmp_path / f"guests/{pid}/proc").mkdir(parents=True)
        (tmp_path / f"guests/{pid}/proc/kallsyms").write_text(KALLSYMS)
        (tmp_path / f"guests/{pid}/proc/modules").write_text(modules)
    (tmp_path / "guests/notes").mkdir()
    told: list[str] = []
    options = GuestOptions(guestmount=str(tmp_path / "guests"), guestkallsyms=str(tmp_path / "kallsyms"))
    guests = guest_kernels(options, told.append)
    maps = [record for guest in guests for record in records(Synthesis(proc, LAYOUT).guest_kernel(guest))]
    assert {record.misc for record in maps} == {MISC_GUEST_KERNEL}
    kernel = (0xFFFFFFFF81000000, 0xA00000, 0xFFFFFFFF81000000)
    assert [(record.pid, record.addr, record.len, record.pgoff, record.filename) for record in maps] == [
        (0, *kernel, "[guest.kernel.kallsyms]_text"),
        (5, 0xFFFFFFFFC0000000, 4096, 0, "[a]"),
        (5, 0xFFFFFFFFC0020000, 100, 0, "[b]"),
        (5, *kernel, "[guest.kernel.kallsyms.5]_text"),
        (9, *kernel, "[guest.kernel.kallsyms.9]_text"),
    ]
    assert told == []


@pytest.mark.parametrize(
    "symbols",
    [
        b"",
        b"0000000000000000 T _text\n0000000000000000 T _etext\n",
        b"ffffffff81000000 T _text\nffffffff80000000 T _etext\n",
        b"x T _text\n\xff\x00\n" + b"f" * 40 + b" T _text\n",
    ],
)
def test_what_a_guest_writes_is_not_trusted(symbols, proc, tmp_path):
    folder = tmp_path / "guests/5/proc"
    folder.mkdir(parents=True)
    (folder / "kallsyms").write_bytes(symbols)
    (folder / "modules").write_bytes(
        b"x y\n../x 1 0 - Live 0xff00\nm 99 0 - Live 0xffffffffffffffff\n\xff 1 0 - Live 0x10\n" + b"m" * 70000
    )
    told: list[str] = []
    (guest,) = guest_kernels(GuestOptions(guestmount=str(tmp_path / "guests")), told.append)
    assert guest.extent is None
    assert [record.filename for record in records(Synthesis(proc, LAYOUT).guest_kernel(guest))] == ["[\ufffd]"]
    assert ["guest 5" in text for text in told] == [True]


def test_a_guests_folder_is_never_waited_for(tmp_path):
    folder = tmp_path / "guests/5/proc"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "kallsyms")
    os.symlink("/proc/kallsyms", folder / "modules")
    (guest,) = guest_kernels(GuestOptions(guestmount=str(tmp_path / "guests")), lambda _: None)
    assert (guest.extent, guest.modules) == (None, [])


def test_a_missing_folder_of_guests_is_reported(tmp_path):
    told: list[str] = []
    assert guest_kernels(GuestOptions(guestmount=str(tmp_path / "none")), told.append) == []
    assert "No such file" in told[0]


def test_cgroups_are_named_below_their_mount(proc, tmp_path):
    root = tmp_path / "cgroup"
    (root / "a" / "b").mkdir(parents=True)
    actual_records = records(Synthesis(proc, LAYOUT).cgroups(str(root)))
    assert all(isinstance(r, Cgroup) for r in actual_records)
    assert [r.path for r in actual_records] == ["/", "/a", "/a/b"]
    assert actual_records[0].id == os.stat(root).st_ino


def test_bpf_programs_are_symbols_and_events(proc):
    one = BpfProgramInfo(7, "prog", b"\1\2\3\4\5\6\7\10", ((0xFFFFFFFFC0001000, 20),), (b"\1\2\3\4\5\6\7\10",))
    two = BpfProgramInfo(8, "many", b"\0" * 8, ((0xFFFFFFFFC0002000, 8), (0xFFFFFFFFC0003000, 9)), (b"\0" * 8, b"\1" * 8))
    places = ((0xFFFFFFFFC0004000, 8), (0xFFFFFFFFC0005000, 9))
    program = BpfProgramInfo(9, "named", b"\0" * 8, places, (b"\0" * 8, b"\2" * 8), btf_id=5, function_types=(3, 4))
    actual_records = records(Synthesis(proc, LAYOUT).bpf_programs([one, two, program], {5: types(["the_first", "the_second"])}))
    assert [(r.name, r.addr, r.len) for r in actual_records if isinstance(r, Ksymbol)] == [
        ("bpf_prog_0102030405060708_prog", 0xFFFFFFFFC0001000, 20),
        ("bpf_prog_0000000000000000_F", 0xFFFFFFFFC0002000, 8),
        ("bpf_prog_0101010101010101_F", 0xFFFFFFFFC0003000, 9),
        ("bpf_prog_0000000000000000_the_first", 0xFFFFFFFFC0004000, 8),
        ("bpf_prog_0202020202020202_the_second", 0xFFFFFFFFC0005000, 9),
    ]
    assert [(r.id, r.type) for r in actual_records if isinstance(r, BpfEvent)] == [(7, 1), (8, 1), (9, 1)]


def test_a_limit_ends_the_mappings_of_a_process(proc):
    sizes = [len(piece) for piece in Synthesis(proc, LAYOUT).maps_of(10)]
    limited = Synthesis(proc, LAYOUT, most_map_bytes=sum(sizes[:3])).maps_of(10)
    assert [len(piece) for piece in limited] == sizes[:3]


# The header's features describe a machine built in a folder.


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


def test_a_hybrid_machine_names_the_cpus_of_each_kind_of_core(tmp_path):
    features = Environment(str(tmp_path), str(sysfs_tree.intel_hybrid(tmp_path).sys)).features()
    assert features[Feature.HYBRID_TOPOLOGY] == (HybridPmu("cpu_atom", "16-23"), HybridPmu("cpu_core", "0-15"))
    assert Feature.CPU_PMU_CAPS not in features


def test_one_kind_of_core_needs_no_topology(machine):
    assert machine.hybrid_pmus() is None
    assert machine.cpu_caps() == ()


def test_caches(machine):
    assert machine.caches() == (CacheLevel(2, 64, 1024, 16, "Unified", "1M", "0-1"),)


def test_unknown_facts_of_a_machine_are_omitted(tmp_path):
    features = Environment(str(tmp_path), str(tmp_path)).features()
    assert Feature.CACHE not in features
    assert Feature.CPUID not in features
    assert features[Feature.HOSTNAME]


@pytest.mark.parametrize(
    ("of_type", "pmu", "listed", "is_named", "expected"),
    [
        (PerfType.RAW, "", None, False, (0, 1)),
        (PerfType.RAW, "", None, True, (0, 1)),
        (PerfType.HW_CACHE, "", None, False, (0, 1)),
        (PerfType.HW_CACHE, "", None, True, None),  # one of perf's own, as of stat -d
        (PerfType.HW_CACHE, "cpu", None, True, (0, 1)),
        (PerfType.HARDWARE, "", None, False, None),
        (PerfType.HARDWARE, "cpu", None, True, (0, 1)),  # cpu/cycles/
        (PerfType.SOFTWARE, "", None, False, None),
        (12, "uncore_imc", (0, 28), False, (0, 28)),
        (13, "msr", None, False, None),
    ],
)
def test_a_file_names_the_cpus_of_an_events_pmu(of_type, pmu, listed, is_named, expected, monkeypatch) -> None:
    """As in perf: the CPUs that the PMU lists; all online CPUs for the only core PMU; none for generic and software events."""
    monkeypatch.setattr("perfpy.capture.synthesis.online_cpus", lambda: (0, 1))
    event = CountedEvent("e", EventAttr(type=of_type), unit="MiB", scale=0.5, pmu=pmu)
    event.cpus, event.is_named = listed, is_named
    updates = [(update.type, update.value) for update in updates_of(event, 7, pipe=False)]
    assert updates == [(EVENT_UPDATE_UNIT, "MiB"), (EVENT_UPDATE_SCALE, 0.5), *([(EVENT_UPDATE_CPUS, expected)] if expected else [])]
    assert [update.value for update in updates_of(event, 7, pipe=True)][-1] == "e"


@pytest.mark.parametrize(("options", "expected"), [({"callchain": Callchain("lbr")}, False), ({"branch_filter": BranchSample.ANY}, True)])
def test_only_a_recording_of_branches_is_marked_as_one(options: dict[str, Any], expected: bool) -> None:
    """Reports show branches instead of callers in a file with this mark, also where the branches are callchains."""
    attr = EventAttr(sample_type=SampleType.BRANCH_STACK, branch_sample_type=BranchSample.ANY)
    event = SimpleNamespace(name="cycles", attr=attr, is_leader=True, leader=None)
    counters: Any = SimpleNamespace(events=[event], ids=lambda _: (1,), aux=None)
    features = RecordedFeatures(counters, record_options(**options), [attr]).collect()
    assert (Feature.BRANCH_STACK in features) == expected
