"""What sysfs and procfs say of the machine."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

import pytest

from perfpy.capture import measurement
from perfpy.errors import KernelRefusedError, UnknownEventError, UnsupportedError, UsageError
from perfpy.events import listing, parse_events
from perfpy.kernel import sysfs as hwmon
from perfpy.kernel.cpus import cpu_identity, nominal_frequency
from perfpy.kernel.procfs import ProcFs
from perfpy.kernel.sysfs import Format, FrozenOnSmi, Pmu, Sysfs, Tracefs, parse_format, split_number
from perfpy.untrusted.process_files import TOO_LONG
from tests.builders import sysfs_tree
from tests.builders.sysfs_tree import Tree, intel_hybrid, intel_skylake

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.events.machine import Machine


# PMUs and tracepoints as the file systems show them.


@pytest.mark.parametrize(
    ("text", "value", "field", "word"),
    [
        ("config:0-7", 0x3C, "config", 0x3C),
        ("config:0-7,32-35", 0x1C7, "config", 0x1000000C7),
        ("config1:23", 1, "config1", 1 << 23),
        ("config2:0-63", 2**64 - 1, "config2", 2**64 - 1),
        ("config:0-1,4,8-9", 0b11_1_10, "config", 0x312),
        ("config3", 5, "config3", 5),
    ],
)
def test_a_formats_bits_go_to_their_ranges_lowest_first(text: str, value: int, field: str, word: int) -> None:
    layout = parse_format(text)
    assert (layout.field, layout.spread(value)) == (field, word)


def test_a_format_has_a_width_and_bad_ones_raise() -> None:
    assert parse_format("config:0-7,32-35").width == 12
    assert Format("config", ((3, 3),)).width == 1
    for text in ("", "foo:0-7", "config:a-b"):
        with pytest.raises(ValueError, match=r"."):
            parse_format(text)


def test_pmus_come_with_the_cpus_own_first_and_numbers_in_order(tmp_path: Path) -> None:
    tree = intel_skylake(tmp_path).pmu("uncore_imc_10", 40)
    names = [pmu.name for pmu in Sysfs(str(tree.sys)).pmus]
    assert names[0] == "cpu"
    assert [name for name in names if "imc" in name] == ["uncore_imc_0", "uncore_imc_1", "uncore_imc_2", "uncore_imc_10"]


def test_a_pmus_facts_are_read_on_request(tmp_path: Path) -> None:
    sysfs = Sysfs(str(intel_skylake(tmp_path).sys))
    imc, cpu, tracer = sysfs.pmu("uncore_imc_1"), sysfs.pmu("cpu"), sysfs.pmu("intel_pt")
    assert imc
    assert cpu
    assert tracer
    assert (imc.type, imc.cpus, imc.is_core, imc.alias_names) == (21, (0, 28), False, ["cas_count_read", "clockticks"])
    alias = imc.alias("cas_count_read")
    assert alias
    assert (alias.terms, alias.scale, alias.unit, alias.per_pkg) == ("event=0x04,umask=0x03", 6.103515625e-5, "MiB", False)
    assert imc.alias("nothing") is None
    assert cpu.is_core
    assert (tracer.address_filters, cpu.address_filters) == (2, 0)
    assert sysfs.pmu("nothing") is None


def test_one_term_or_event_is_read_without_the_others(tmp_path: Path) -> None:
    """What is looked up alone is what the whole lists have, and no name leaves the PMU's folder."""
    tree = Tree(tmp_path).pmu("p", 7, {"a": "config:0-7", "b": "config:8-15", "wide": "config1:0-63", "bad": "what:0"}, {"e": "a=1"})
    one, whole = (Sysfs(str(tree.sys)).pmu("p") for _ in range(2))
    assert one
    assert whole
    assert whole.formats.keys() == {"a", "b", "wide"}
    names = ("a", "b", "wide", "bad", "none", "", "..", "../type", "a\0")
    assert [one.format(name) for name in names] == [whole.formats.get(name) for name in names]
    assert one.has_alias("e")
    assert [one.has_alias(name) for name in ("e", "E", "..", "../type", "e.scale")] == [True, False, False, False, False]
    assert [Pmu("p", one.path).has_alias(name) for name in ("", ".", "../type", "e\0", "e.unit")] == [False] * 5


def test_bits_of_no_term_are_noticed(tmp_path: Path) -> None:
    tree = Tree(tmp_path).pmu("p", 7, {"a": "config:0-7", "b": "config:8-15"})
    pmu = Sysfs(str(tree.sys)).pmu("p")
    assert pmu
    assert pmu.format("a")
    assert [pmu.covers("config", value) for value in (0, 0xFF, 0x1FF, 0x10000)] == [True, True, True, False]
    assert [pmu.covers("config1", value) for value in (0, 1)] == [True, False]


def test_core_pmus_of_a_hybrid_cpu_have_their_cpus(tmp_path: Path) -> None:
    cores = Sysfs(str(intel_hybrid(tmp_path).sys)).core_pmus
    assert [(pmu.name, pmu.cpus) for pmu in cores] == [("cpu_atom", tuple(range(16, 24))), ("cpu_core", tuple(range(16)))]


def test_invalid_parts_of_a_damaged_tree_are_omitted(tmp_path: Path) -> None:
    tree = Tree(tmp_path).pmu("odd", 7, {"good": "config:0", "bad": "what:0-3"}, {"e": "good", "e.scale": "much"}, cpumask="x")
    (tree.sys / "bus/event_source/devices/odd/type").write_text("none\n")
    odd = Sysfs(str(tree.sys)).pmu("odd")
    assert odd
    assert (odd.type, list(odd.formats), odd.cpus) == (None, ["good"], None)
    alias = odd.alias("e")
    assert alias
    assert alias.scale == 1.0
    assert Sysfs(str(tmp_path / "nowhere")).pmus == []


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("uncore_imc_3", ("uncore_imc", 3)),
        ("cpu_core", ("cpu_core", -1)),
        ("hv_24x7", ("hv_24x7", -1)),
        ("arm_dsu_10", ("arm_dsu", 10)),
        ("nvidia_pcie_abc", ("nvidia_pcie", 0xABC)),
        ("cpu", ("cpu", -1)),
    ],
)
def test_the_number_of_an_instance_is_split_off(name: str, parts: tuple[str, int]) -> None:
    assert split_number(name) == parts


def test_tracefs_takes_the_first_mount_that_has_events(tmp_path: Path) -> None:
    tree = Tree(tmp_path).tracepoint("sched", "sched_switch", 316, "name: sched_switch")
    tracefs = Tracefs([str(tmp_path / "nowhere"), str(tree.tracing)])
    assert tracefs.root == str(tree.tracing)
    assert (tracefs.systems, tracefs.events("sched"), tracefs.events("nothing")) == (["sched"], ["sched_switch"], [])
    assert (tracefs.event_id("sched", "sched_switch"), tracefs.event_id("sched", "x")) == (316, None)
    assert tracefs.format("sched", "sched_switch") == "name: sched_switch\n"


def test_tracefs_that_may_not_be_entered_is_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "stat", refuse)
    with pytest.raises(KernelRefusedError, match="no permission"):
        Tracefs([str(tmp_path)]).systems  # noqa: B018  # a property that looks


def test_tracefs_is_mounted_if_needed(tmp_path: Path) -> None:
    """On a machine that has just started; once, and only if there is where to."""
    calls: list[str] = []
    tree = Tree(tmp_path / "tree").tracepoint("sched", "sched_switch", 316, "name: sched_switch")

    def mount(path: str) -> None:
        calls.append(path)
        (tmp_path / "empty" / "events" / "sched").mkdir(parents=True)

    tracefs = Tracefs([str(tmp_path / "empty"), str(tmp_path / "nowhere")], mount)
    with pytest.raises(KernelRefusedError):
        tracefs.systems  # noqa: B018  # a property that looks
    assert calls == []
    (tmp_path / "empty").mkdir()
    tracefs = Tracefs([str(tmp_path / "empty"), str(tmp_path / "nowhere")], mount)
    assert tracefs.systems == tracefs.systems == ["sched"]
    assert calls == [str(tmp_path / "empty")]
    assert Tracefs([str(tree.tracing)], mount).systems
    assert len(calls) == 1


def test_where_mounting_is_forbidden_the_remedy_is_reported(tmp_path: Path) -> None:
    def mount(path: str) -> None:
        raise PermissionError(1, "Operation not permitted", path)

    with pytest.raises(KernelRefusedError, match="mount -t tracefs"):
        Tracefs([str(tmp_path)], mount).systems  # noqa: B018  # a property that looks


# Sensors of hardware monitors, as events of `perfpy stat`.


MONITORS = {
    "hwmon0": {
        "name": "coretemp",
        "temp1_input": "45000", "temp1_label": "Package id 0", "temp1_crit": "100000", "temp1_crit_alarm": "0", "temp2_input": "41500",
    },
    "hwmon1": {
        "name": "k-10 (x)",
        "temp1_input": "-3000", "fan1_input": "3200", "in0_input": "12050", "power1_input": "25100000", "energy1_input": "123456789",
        "pwm1": "128", "curr1_max": "3", "humidity1_input": "junk", "temp9_label": "no input",
    },
    "nameless": {"temp1_input": "1"},
}  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """As sysfs has it: folders elsewhere, and links to them."""
    result = tmp_path / "sys/class/hwmon"
    result.mkdir(parents=True)
    for folder, files in MONITORS.items():
        (tmp_path / "devices" / folder).mkdir(parents=True)
        for name, text in files.items():
            (tmp_path / "devices" / folder / name).write_text(text + "\n")
        (result / folder).symlink_to(tmp_path / "devices" / folder)
    return tmp_path / "sys"


@pytest.fixture
def machine(root: Path, tmp_path: Path) -> Machine:
    return sysfs_tree.software_only(tmp_path).machine()


def test_all_sensors_are_listed(root: Path) -> None:
    results = [(one.pmu, one.name, one.alias, one.location) for one in hwmon.sensors(str(root))]
    assert results == [
        ("hwmon_coretemp", "temp2", "", "hwmon0/temp2/"),
        ("hwmon_coretemp", "temp1", "temp_package_id_0", "hwmon0/temp1/"),
        *(("hwmon_k_10__x_", name, "", f"hwmon1/{name}/") for name in ("energy1", "fan1", "humidity1", "in0", "power1", "temp1")),
    ]
    assert hwmon.sensors(str(root / "nowhere")) == []


def test_readings(root: Path) -> None:
    values = {one.location: hwmon.reading(one.location, str(root)) * one.scale for one in hwmon.sensors(str(root))}
    assert values == pytest.approx(
        {
            "hwmon0/temp1/": 45.0, "hwmon0/temp2/": 41.5, "hwmon1/energy1/": 123.456789, "hwmon1/fan1/": 3200, "hwmon1/in0/": 12.05,
            "hwmon1/humidity1/": 0, "hwmon1/power1/": 25.1, "hwmon1/temp1/": -3.0,
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "events"),
    [
        ("fan1", [("fan1", "hwmon1/fan1/", "rpm")]),
        ("temp_package_id_0", [("temp_package_id_0", "hwmon0/temp1/", "'C")]),
        ("temp1", [("hwmon_coretemp/temp1/", "hwmon0/temp1/", "'C"), ("hwmon_k_10__x_/temp1/", "hwmon1/temp1/", "'C")]),
        ("hwmon_coretemp/temp1/", [("hwmon_coretemp/temp1/", "hwmon0/temp1/", "'C")]),
        ("hwmon1/power1/", [("hwmon1/power1/", "hwmon1/power1/", "W")]),
    ],
)
def test_events_by_name_label_and_monitor(machine: Machine, text: str, events: list[tuple[str, str, str]]) -> None:
    actual_events = parse_events(text, machine=machine, counting=True)
    assert [(event.name, event.tool, event.unit) for event in actual_events] == events
    assert all(event.snapshot for event in actual_events)


@pytest.mark.parametrize("text", ["temp7", "hwmon_coretemp/fan1/", "hwmon_coretemp/temp1=3/", "hwmon_other/temp1/", "temp1/period=3/"])
def test_sensors_that_are_not_there(machine: Machine, text: str) -> None:
    with pytest.raises(UnknownEventError):
        parse_events(text, machine=machine, counting=True)


def test_they_are_listed(machine: Machine) -> None:
    offers = {offer.name: offer for offer in listing.sensors(machine)}
    package = offers["temp_package_id_0"]
    assert (package.alias, package.topic, package.pmu) == ("temp1", "hwmon", "hwmon_coretemp")
    assert package.description == "Temperature in unit coretemp named Package id 0. crit=100'C"
    assert len(offers) == 8


def test_values_equal_the_tools(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hwmon.reading, "__defaults__", (str(root),))
    machine_values = measurement.machine_values(["hwmon1/temp1/", "hwmon9/temp1/", "num_cpus_online", "duration_time"], on_cpus=True)
    assert machine_values == {"hwmon1/temp1/": -3000, "hwmon9/temp1/": 0, "num_cpus_online": os.sysconf("SC_NPROCESSORS_ONLN")}


def test_one_of_several_pmus(tmp_path: Path) -> None:
    tree = sysfs_tree.intel_skylake(tmp_path)
    whole = tree.machine()
    sysfs, tracefs = whole.sysfs, whole.tracefs
    one = type(whole)(sysfs, tracefs, only="uncore_imc_1")
    assert [event.pmu for event in parse_events("cas_count_read", machine=one)] == ["uncore_imc_1"]
    assert [event.pmu for event in parse_events("imc/cas_count_read/", machine=one)] == ["uncore_imc_1"]
    assert [event.pmu for event in parse_events("uncore_imc_0/cas_count_read/", machine=one)] == ["uncore_imc_0"]
    with pytest.raises(UsageError, match="this machine has no PMU 'nothing'"):
        type(whole)(sysfs, tracefs, only="nothing")


# What /proc says of tasks.


def test_the_main_thread_comes_first_when_numbers_began_again(tmp_path: Path) -> None:
    """A thread before its process would lose its mappings to the process's, as perf reads a recording."""
    for tid in (817, 31045, 31046):
        (tmp_path / "31045" / "task" / str(tid)).mkdir(parents=True)
    assert ProcFs(str(tmp_path)).threads(31045) == [31045, 817, 31046]
    assert ProcFs(str(tmp_path)).threads(1) == []


def test_parents_and_cpu_times_are_read_behind_any_name(tmp_path: Path) -> None:
    fields = "4 4 4 -1 0 0 0 0 0 30 12 0 0 20 0 1 0 100"
    for pid, name, parent in ((7, "a) R 1 (b", 3), (8, "x", 7)):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} ({name}) S {parent} {fields}\n")
    (tmp_path / "9").mkdir()
    (tmp_path / "9" / "stat").write_text("9 (cut")
    assert ProcFs(str(tmp_path)).parents() == {7: (3, 42), 8: (7, 42)}


def test_the_age_of_this_process_is_known(tmp_path: Path) -> None:
    age = ProcFs().seconds_since_start()
    assert 0 < age < 1_000_000
    assert ProcFs().seconds_since_start() >= age
    assert ProcFs(str(tmp_path)).seconds_since_start() == 0


#: a file whose name continues with another line of maps
_FORGING = b"/tmp/a\r7f00000-7f01000 r-xp 00000000 08:01 12 /etc/shadow"


def _process_with(tmp_path: Path, **files: bytes) -> ProcFs:
    (tmp_path / "5").mkdir()
    for name, data in files.items():
        (tmp_path / "5" / name).write_bytes(data)
    return ProcFs(str(tmp_path))


def test_memory_of_no_file_is_counted(tmp_path: Path) -> None:
    rollup = b"1000-2000 ---p 00000000 00:00 0 [rollup]\nRss:   90 kB\nPss_Anon:  9 kB\nAnonymous:        112 kB\nKSM:  0 kB\n"
    procfs = _process_with(tmp_path, smaps_rollup=rollup)
    assert (procfs.anonymous_memory(5), procfs.anonymous_memory(6)) == (112 << 10, 0)


def test_a_name_with_a_carriage_return_is_one_mapping(tmp_path: Path) -> None:
    """The kernel escapes line feeds in names only, so other line ends are part of them."""
    head = b"5000-6000 r-xp 00001000 fe:00 7                    "
    procfs = _process_with(
        tmp_path, maps=head + b"/tmp/lib\rx\n" + head + _FORGING + b"\n" + head + b"/tmp/\x0b\x0c\x85 b \n" + head + b"\n"
    )
    mappings = [*procfs.maps(5)]
    assert [os.fsencode(mapping.path) for mapping in mappings] == [b"/tmp/lib\rx", _FORGING, b"/tmp/\x0b\x0c\x85 b ", b""]
    assert {mapping.start for mapping in mappings} == {0x5000}


def test_mappings_with_endless_names_take_no_memory(tmp_path: Path) -> None:
    """A path can be longer than PATH_MAX, and one file can be mapped thousands of times."""
    head, number = b"5000-6000 r-xp 00001000 fe:00 7  /", 1000
    procfs = _process_with(tmp_path, maps=(head + b"d" * (1 << 17) + b"\n") * number + head + b"\n")
    mappings = [*procfs.maps(5)]
    assert 1 < len(mappings) < number
    assert {mapping.path for mapping in mappings} == {TOO_LONG}


def test_the_name_of_a_task_is_read_as_the_kernel_records_it(tmp_path: Path) -> None:
    """The kernel escapes line feeds and backslashes in /proc/PID/status, and a name can be empty."""
    procfs = _process_with(tmp_path, status=b"Name:\ta\\nb\\\\nc\rUid:\t7\nTgid:\t5\nPPid:\t1\nUid:\t9\t9\t9\t9\nVmPeak:\t1 kB\n")
    assert procfs.status(5) == ("a\nb\\nc\rUid:\t7", 5, 1, 9, False)
    (tmp_path / "5" / "status").write_bytes(b"Name:\t\nTgid:\t5\nPPid:\t1\nUid:\t9\n")
    assert procfs.status(5) == ("", 5, 1, 9, True)
    assert procfs.status(6) is None


def test_memory_with_code_comes_with_the_nearest_files(tmp_path):
    """Text that was moved to memory is found by them."""

    def line(start: int, access: str, path: str = "") -> str:
        return f"{start:012x}-{start + 0x1000:012x} {access} 00000000 fe:00 7 ".ljust(73) + path

    lines = [
        line(0x1000, "r--p", "/bin/far"),
        line(0x2000, "r--p", "/bin/program"),
        line(0x3000, "r-xp"),
        line(0x4000, "r-xp", "/anon_hugepage (deleted)"),
        line(0x5000, "---p", "/bin/program"),
        line(0x6000, "rw-p"),
        line(0x7000, "r--p", "/bin/program"),
        line(0x8000, "r-xp", "[anon:my /code/]"),
        line(0x9000, "rw-p", "[heap]"),
        line(0xA000, "r-xp", "/lib/with [brackets].so"),
        line(0xB000, "r-xp", "/lib/far.so"),
        line(0xC000, "r-xp", "[vdso]"),
    ]
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "maps").write_text("\n".join(lines) + "\n")
    mappings = ProcFs(str(tmp_path)).memory_with_code(7, lambda path: path.startswith(("/anon", "[anon:")) or not path)
    assert [mapping.start for mapping in mappings] == [0x2000, 0x3000, 0x4000, 0x7000, 0x8000, 0xA000]
    assert mappings[-1].path == "/lib/with [brackets].so"
    assert ProcFs(str(tmp_path)).memory_with_code(8, lambda _path: True) == []


# The CPU's identity, as each architecture tells it.


X86 = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R) Gold 6430 CPU @ 2.10GHz
stepping\t: 8

processor\t: 1
vendor_id\t: other
"""
POWER = "processor\t: 0\ncpu\t\t: POWER9, altivec supported\nrevision\t: 2.2 (pvr 004e 1202)\n"
RISCV = "processor\t: 0\nmvendorid\t: 0x489\nmarchid\t: 0x8000000000000007\nmimpid\t: 0x20181004\n"


@pytest.mark.parametrize(
    ("machine", "cpuinfo", "identity"),
    [
        ("x86_64", X86, "GenuineIntel-6-8F-8"),
        ("x86_64", X86.replace("stepping", "step"), ""),
        ("ppc64le", POWER, "0x004e1202"),
        ("ppc64le", "revision : 1", ""),
        ("riscv64", RISCV, "0x489-0x8000000000000007-0x20181004"),
        ("sparc64", X86, ""),
        ("x86_64", "", ""),
    ],
)
def test_cpuinfo(machine: str, cpuinfo: str, identity: str, tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(cpuinfo)
    assert cpu_identity(machine, str(tmp_path), str(tmp_path)) == identity


def test_only_the_first_of_many_processors_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel writes /proc/cpuinfo while it is read: of hundreds of processors, every start would pay for all."""
    (tmp_path / "cpuinfo").write_text(f"{X86}\n" * 200)
    sizes: list[int] = []
    read = os.read

    def counted(fd: int, size: int) -> bytes:
        data = read(fd, size)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(os, "read", counted)
    assert cpu_identity("x86_64", str(tmp_path), str(tmp_path)).startswith("GenuineIntel-6-")
    assert 0 < sum(sizes) <= 4096 < (tmp_path / "cpuinfo").stat().st_size


def test_arm64_leaves_variant_and_revision_out(tmp_path: Path) -> None:
    path = tmp_path / "devices/system/cpu/cpu0/regs/identification/midr_el1"
    assert cpu_identity("aarch64", str(tmp_path), str(tmp_path)) == ""
    path.parent.mkdir(parents=True)
    path.write_text("0x00000000413fd0c1\n")
    assert cpu_identity("aarch64", str(tmp_path), str(tmp_path)) == "0x00000000410fd0c0"


def test_arm64_has_an_identity_for_each_kind_of_core(tmp_path: Path) -> None:
    """Of the first CPU that is online: others have no registers in sysfs."""
    for cpu, midr in ((0, "0x00000000410fd034"), (5, "0x00000000410fd082")):
        path = tmp_path / f"devices/system/cpu/cpu{cpu}/regs/identification/midr_el1"
        path.parent.mkdir(parents=True)
        path.write_text(f"{midr}\n")
    assert cpu_identity("aarch64", str(tmp_path), str(tmp_path), cpus=(4, 5)) == "0x00000000410fd080"
    assert cpu_identity("aarch64", str(tmp_path), str(tmp_path), cpus=(6, 7)) == ""
    assert cpu_identity("aarch64", str(tmp_path), str(tmp_path)) == "0x00000000410fd030"


def test_s390x_has_maker_type_model_and_counters(tmp_path: Path) -> None:
    assert cpu_identity("s390x", str(tmp_path), str(tmp_path)) == ""
    (tmp_path / "sysinfo").write_text(
        "Manufacturer:         IBM\nType:                 8561\nLIC Identifier:       9\nModel:                703              T01\n"
    )
    assert cpu_identity("s390x", str(tmp_path), str(tmp_path)) == "IBM,8561,703,T01"
    (tmp_path / "service_levels").write_text(
        "CPU-MF: Counter facility: version=3.6 authorization=002f\nCPU-MF: Sampling facility: min_rate=1\n"
    )
    assert cpu_identity("s390x", str(tmp_path), str(tmp_path)) == "IBM,8561,703,T01,3.6,002f"


def test_the_frequency_in_the_name(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(X86)
    assert nominal_frequency(str(tmp_path)) == 2.1e9
    (tmp_path / "cpuinfo").write_text("model name : AMD EPYC\n")
    assert math.isnan(nominal_frequency(str(tmp_path)))


# System management interrupts.


def test_counters_are_frozen_during_smis_and_the_setting_is_restored(tmp_path: Path) -> None:
    setting = tmp_path / "bus/event_source/devices/cpu/freeze_on_smi"
    with pytest.raises(UnsupportedError, match=r"--smi-cost: .* has no .*freeze_on_smi"), FrozenOnSmi(str(tmp_path)):
        pass
    setting.parent.mkdir(parents=True)
    for before in ("0", "1"):
        setting.write_text(f"{before}\n")
        with FrozenOnSmi(str(tmp_path)):
            assert setting.read_text().strip() == "1"
        assert setting.read_text().strip() == before
