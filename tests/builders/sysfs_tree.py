"""sysfs and tracefs trees of machines that are not here, written below a temporary folder.

Input: a folder. Output: a Machine that looks there and asks no
kernel. Formats and events are those of the kernel's drivers
(arch/x86/events, drivers/perf, arch/powerpc/perf), a few of each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.events.machine import Machine
from perfpy.events.vendor import EventFiles
from perfpy.kernel.sysfs import Sysfs, Tracefs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

INTEL_CORE_FORMAT = {
    "event": "config:0-7",
    "umask": "config:8-15",
    "edge": "config:18",
    "pc": "config:19",
    "any": "config:21",
    "inv": "config:23",
    "cmask": "config:24-31",
    "in_tx": "config:32",
    "ldlat": "config1:0-15",
    "offcore_rsp": "config1:0-63",
    "frontend": "config1:0-23",
}
INTEL_CORE_EVENTS = {
    "cpu-cycles": "event=0x3c",
    "instructions": "event=0xc0",
    "cache-misses": "event=0x2e,umask=0x41",
    "mem-loads": "event=0xcd,umask=0x1,ldlat=3",
    "slots": "event=0x00,umask=0x4",
    "topdown-retiring": "event=0x00,umask=0x80",
}


class Tree:
    """A root folder with sys/ and tracing/ that grows file by file."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sys = root / "sys"
        self.tracing = root / "tracing"
        (self.sys / "bus/event_source/devices").mkdir(parents=True)
        (self.tracing / "events").mkdir(parents=True)

    def pmu(
        self,
        name: str,
        type_number: int,
        formats: Mapping[str, str] | None = None,
        events: Mapping[str, str] | None = None,
        **files: str,
    ) -> Tree:
        """A PMU; files: others of its folder (cpumask="0")."""
        folder = self.sys / "bus/event_source/devices" / name
        self._write(folder / "type", str(type_number))
        for term, text in (formats or {}).items():
            self._write(folder / "format" / term, text)
        for event, text in (events or {}).items():
            self._write(folder / "events" / event, text)
        for file, text in files.items():
            self._write(folder / file, text)
        return self

    def tracepoint(self, system: str, event: str, number: int, text: str = "") -> Tree:
        """A tracepoint with its id and format."""
        folder = self.tracing / "events" / system / event
        self._write(folder / "id", str(number))
        self._write(folder / "format", text or f"name: {event}\nID: {number}\n")
        return self

    @staticmethod
    def _write(path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")

    def machine(self, event_files: Path | None = None, *, cores: str = "") -> Machine:
        """A machine that looks here."""
        files = EventFiles(str(event_files)) if event_files else None
        return Machine(Sysfs(str(self.sys)), Tracefs([str(self.tracing)]), files, cores=cores)


def software_only(root: Path) -> Tree:
    """A virtual machine without a PMU: the kernel's own counters and a few tracepoints."""
    tree = Tree(root)
    tree.pmu("software", 1).pmu("tracepoint", 2).pmu("breakpoint", 5)
    tree.pmu("msr", 9, {"event": "config:0-63"}, {"tsc": "event=0x00"})
    tree.pmu("uprobe", 8, {"ref_ctr_offset": "config:32-63", "retprobe": "config:0"})
    tree.pmu("kprobe", 6, {"retprobe": "config:0"})
    for number, event in enumerate(("sched_stat_wait", "sched_switch", "sched_waking", "sched_wakeup"), 100):
        tree.tracepoint("sched", event, number)
    return tree.tracepoint("syscalls", "sys_enter_openat", 200).tracepoint("syscalls", "sys_exit_openat", 201)


def intel_skylake(root: Path) -> Tree:
    """A Skylake server of two sockets: memory controllers, energy counters, processor trace."""
    tree = software_only(root).pmu("cpu", 4, INTEL_CORE_FORMAT, INTEL_CORE_EVENTS)
    imc_format = {"event": "config:0-7", "umask": "config:8-15", "edge": "config:18", "thresh": "config:24-31"}
    imc_events = {
        "cas_count_read": "event=0x04,umask=0x03",
        "cas_count_read.scale": "6.103515625e-5",
        "cas_count_read.unit": "MiB",
        "clockticks": "event=0xff",
    }
    for number in range(3):
        tree.pmu(f"uncore_imc_{number}", 20 + number, imc_format, imc_events, cpumask="0,28")
    energy = {
        "energy-pkg": "event=0x02",
        "energy-pkg.scale": "2.3283064365386962890625e-10",
        "energy-pkg.unit": "Joules",
        "energy-pkg.per-pkg": "1",
        "energy-pkg.snapshot": "1",
    }
    tree.pmu("power", 10, {"event": "config:0-7"}, energy, cpumask="0,28")
    return tree.pmu("intel_pt", 8, {"cyc": "config:1", "psb_period": "config:24-27"}, nr_addr_filters="2")


def intel_trace(root: Path, **files: str) -> Tree:
    """A machine with both of Intel's tracers; files: other contents of caps/NAME, written caps_NAME."""
    tree = software_only(root).pmu("cpu", 4, INTEL_CORE_FORMAT, INTEL_CORE_EVENTS).pmu("intel_bts", 7)
    formats = {
        "pt": "config:0", "cyc": "config:1", "pwr_evt": "config:4", "fup_on_ptw": "config:5", "mtc": "config:9", "tsc": "config:10",
        "noretcomp": "config:11", "ptw": "config:12", "branch": "config:13", "mtc_period": "config:14-17", "cyc_thresh": "config:19-22",
        "psb_period": "config:24-27",
    }  # fmt: skip
    caps = {
        "caps/mtc": "1", "caps/mtc_periods": "249", "caps/psb_cyc": "1", "caps/psb_periods": "3f", "caps/cycle_thresholds": "3f",
        "caps/topa_multiple_entries": "1", "caps/event_trace": "1", "max_nonturbo_ratio": "20", "tsc_art_ratio": "168:2",
        "nr_addr_filters": "2",
    }  # fmt: skip
    return tree.pmu("intel_pt", 8, formats, {}, **caps | {name.replace("caps_", "caps/"): text for name, text in files.items()})


def coresight(root: Path) -> Tree:
    """An Arm machine with a tracer of each version: ETMv4, ETE, ETMv3; CPU 3 has none."""
    formats = {"cycacc": "config:12", "contextid": "config:14", "contextid1": "config:14", "contextid2": "config:15"}
    formats |= {"timestamp": "config:28", "retstack": "config:29", "sinkid": "config2:0-31"}
    registers = {"trcidr/trcidr0": "0x28000ea1", "trcidr/trcidr1": "0x4100f403", "trcidr/trcidr2": "0x488", "trcidr/trcidr8": "0x0"}
    registers["mgmt/trcauthstatus"] = "0xcc"
    ete = registers | {"trcidr/trcidr1": "0x4100fff3", "mgmt/trcdevarch": "0x47705a13", "ts_source": "1"}
    files = {f"cpu0/{name}": text for name, text in registers.items()} | {f"cpu1/{name}": text for name, text in ete.items()}
    files |= {"cpu2/mgmt/etmccer": "0x34c01ac2", "cpu2/mgmt/etmidr": "0x411cf312", "sinks/tmc_etr0": "0x1a2b3c4d"}
    return software_only(root).pmu("cs_etm", 9, formats, {}, **files)


def arm_spe(root: Path) -> Tree:
    """An Arm machine with statistical profiling on CPUs 0 to 3, at most one sample in 256 operations."""
    formats = {"ts_enable": "config:0", "pa_enable": "config:1", "jitter": "config:16", "load_filter": "config:33"}
    formats |= {"min_latency": "config2:0-11"}
    files = {"cpumask": "0-3", "caps/min_interval": "256"}
    return software_only(root).pmu("arm_spe_0", 10, formats, {}, **files)


def intel_hybrid(root: Path) -> Tree:
    """An Alder Lake: big cores 0-15 and small ones 16-23."""
    atom = {term: INTEL_CORE_FORMAT[term] for term in ("event", "umask", "edge", "inv", "cmask", "ldlat", "offcore_rsp")}
    tree = software_only(root)
    tree.pmu("cpu_core", 4, INTEL_CORE_FORMAT, INTEL_CORE_EVENTS, cpus="0-15")
    return tree.pmu("cpu_atom", 11, atom, {"cpu-cycles": "event=0x3c", "mem-loads": "event=0xd0,umask=0x5"}, cpus="16-23")


def amd_zen(root: Path) -> Tree:
    """A Zen 4 server: core, instruction-based sampling, data fabric, L3."""
    tree = software_only(root)
    core = {"event": "config:0-7,32-35", "umask": "config:8-15", "edge": "config:18", "inv": "config:23", "cmask": "config:24-31"}
    tree.pmu("cpu", 4, core, {"cpu-cycles": "event=0x76", "branch-misses": "event=0xc3"})
    tree.pmu("ibs_op", 12, {"cnt_ctl": "config:19", "l3missonly": "config:16", "swfilt": "config2:0"})
    tree.pmu("ibs_fetch", 11, {"rand_en": "config:57", "l3missonly": "config:59"})
    tree.pmu("amd_df", 13, {"event": "config:0-7,32-37", "umask": "config:8-15,24-27"}, cpumask="0")
    return tree.pmu("amd_l3", 14, {"event": "config:0-7", "umask": "config:8-15", "threadmask": "config:56-63"}, cpumask="0,8")


def arm_big_little(root: Path) -> Tree:
    """A Rockchip RK3399: Cortex-A53 0-3 and Cortex-A72 4-5."""
    tree = software_only(root)
    core = {"event": "config:0-15", "long": "config1:0", "rdpmc": "config1:1"}
    for name, number, cpus in (("armv8_cortex_a53", 10, "0-3"), ("armv8_cortex_a72", 11, "4-5")):
        tree.pmu(name, number, core, {"inst_retired": "event=0x0008", "cpu_cycles": "event=0x0011"}, cpus=cpus)
    return tree


def arm_server(root: Path) -> Tree:
    """A Neoverse server: core PMU, mesh (CMN), two clusters' shared units (DSU)."""
    tree = software_only(root)
    core = {"event": "config:0-15", "long": "config1:0", "rdpmc": "config1:1"}
    tree.pmu("armv8_pmuv3_0", 9, core, {"inst_retired": "event=0x0008", "cpu_cycles": "event=0x0011"}, cpus="0-3")
    cmn = {
        "type": "config:0-15",
        "eventid": "config:16-26",
        "occupid": "config:27-30",
        "bynodeid": "config:31",
        "nodeid": "config:32-47",
        "wp_val": "config1:0-63",
        "wp_mask": "config2:0-63",
    }
    events = {"dtc_cycles": "type=0x3", "hnf_cache_miss": "type=0x5,eventid=0x1"}
    tree.pmu("arm_cmn_0", 30, cmn, events, cpumask="0")
    for number in range(2):
        dsu = {"event": "config:0-31"}
        tree.pmu(f"arm_dsu_{number}", 40 + number, dsu, {"cycles": "event=0x11", "bus_access": "event=0x19"}, cpumask=str(2 * number))
    return tree


def power9(root: Path) -> Tree:
    """A POWER9 with the hypervisor's counters, whose events take parameters."""
    tree = software_only(root)
    core = {"event": "config:0-59", "pmcxsel": "config:0-7", "unit": "config:12-15", "pmc": "config:16-19", "mark": "config:8"}
    tree.pmu("cpu", 4, core, {"cpu-cycles": "event=0x0001e", "instructions": "event=0x00002"}, **{"caps/pmu_name": "POWER9"})
    hv = {"domain": "config:0-3", "offset": "config:32-63", "core": "config:16-31", "chip": "config:16-31", "lpar": "config1:0-15"}
    events = {"CPM_CCYC": "domain=?,offset=0x80,core=?", "PM_MBA0_CLK_CYC": "domain=1,offset=0x8,chip=?"}
    return tree.pmu("hv_24x7", 20, hv, events, cpumask="0")


def hisi_pmcu(root: Path, user_events: str = "") -> Tree:
    """A Kunpeng with the monitor control unit of two CPU dies."""
    tree = software_only(root)
    tree.pmu("armv8_pmuv3_0", 9, {"event": "config:0-15"}, {"inst_retired": "event=0x0008"}, cpus="0-63")
    formats = {"nr_sample": "config:0-31", "sample_period_ms": "config:32-63", "pmccfiltr": "config1:0-7"}
    for die, cpu in ((1, 0), (3, 32)):
        tree.pmu(f"hisi_pmcu_sccl{die}", 50 + die, formats, cpumask=str(cpu), monitored_cpus=f"{cpu}-{cpu + 31}", user_events=user_events)
    return tree
