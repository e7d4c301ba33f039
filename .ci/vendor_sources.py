"""Rows of the tables of Arm, POWER and RISC-V CPUs, from public files of facts. For .ci/vendor_events.py.

What enters: git repositories. ARM-software/data (Apache-2.0) has pmu/*.json: names and codes of Arm's own cores, and of the architecture.
libpfm4 (MIT) has lib/events/*.h: POWER, and cores of other makers that implement the Arm architecture. The events of RISC-V's firmware are
those of the RISC-V Supervisor Binary Interface Specification, chapter "Performance Monitoring Unit Extension". What leaves: for each table
(pattern of identities, name, rows). Names and codes are taken, descriptions are not; the formulas of the metrics are ours.
"""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING, Any

from perfpy.events.vendor import metric_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Table = tuple[str, str, list[tuple[str, ...]]]

#: implementer and part of the cores of other makers -> libpfm4's file
ARM_OF_OTHERS = {
    "42516": "arm_cavium_tx2",
    "430af": "arm_cavium_tx2",
    "46001": "arm_fujitsu_a64fx",
    "48d01": "arm_hisilicon_kunpeng",
    "50000": "arm_xgene",
}
#: beginnings of processor versions -> libpfm4's file
POWER = {
    "0x003f": "power7",
    "0x004a": "power7",
    "0x004b": "power8",
    "0x004c": "power8",
    "0x004d": "power8",
    "0x004e": "power9",
    "0x0080": "power10",
}
RISCV_MAKERS = ("0x489-", "0x31e-", "0x5b7-", "0x602-", "0x67e-", "0x710-")
#: of the firmware, by number
FIRMWARE = """misaligned_load misaligned_store access_load access_store illegal_insn set_timer ipi_sent ipi_received fence_i_sent
fence_i_received sfence_vma_sent sfence_vma_received sfence_vma_asid_sent sfence_vma_asid_received hfence_gvma_sent hfence_gvma_received
hfence_gvma_vmid_sent hfence_gvma_vmid_received hfence_vvma_sent hfence_vvma_received hfence_vvma_asid_sent hfence_vvma_asid_received"""
FIRMWARE_BIT = 1 << 63
TOPICS = {"L1D": "cache", "L1I": "cache", "L2": "cache", "L3": "cache", "BUS": "bus", "BPU": "branch"}
OF_KIND = {"EXC": "exception", "INS": "instruction", "CYCLE": "pipeline", "UEVT": "other"}
#: name -> (formula over the architecture's events, scale and unit, groups)
ARM_METRICS = {
    "ipc": ("INST_RETIRED / CPU_CYCLES", "1per cycle", "General"),
    "branch_misprediction_ratio": ("BR_MIS_PRED_RETIRED / BR_RETIRED", "100%", "Branch_Effectiveness;Miss_Ratio"),
    "branch_mpki": ("1e3 * BR_MIS_PRED_RETIRED / INST_RETIRED", "1MPKI", "Branch_Effectiveness;MPKI"),
    "l1d_cache_miss_ratio": ("L1D_CACHE_REFILL / L1D_CACHE", "100%", "L1D_Cache_Effectiveness;Miss_Ratio"),
    "l1d_cache_mpki": ("1e3 * L1D_CACHE_REFILL / INST_RETIRED", "1MPKI", "L1D_Cache_Effectiveness;MPKI"),
    "l1i_cache_miss_ratio": ("L1I_CACHE_REFILL / L1I_CACHE", "100%", "L1I_Cache_Effectiveness;Miss_Ratio"),
    "l1i_cache_mpki": ("1e3 * L1I_CACHE_REFILL / INST_RETIRED", "1MPKI", "L1I_Cache_Effectiveness;MPKI"),
    "l2_cache_miss_ratio": ("L2D_CACHE_REFILL / L2D_CACHE", "100%", "L2_Cache_Effectiveness;Miss_Ratio"),
    "l2_cache_mpki": ("1e3 * L2D_CACHE_REFILL / INST_RETIRED", "1MPKI", "L2_Cache_Effectiveness;MPKI"),
    "ll_cache_read_miss_ratio": ("LL_CACHE_MISS_RD / LL_CACHE_RD", "100%", "LL_Cache_Effectiveness;Miss_Ratio"),
    "ll_cache_read_mpki": ("1e3 * LL_CACHE_MISS_RD / INST_RETIRED", "1MPKI", "LL_Cache_Effectiveness;MPKI"),
    "dtlb_walk_ratio": ("DTLB_WALK / L1D_TLB", "100%", "DTLB_Effectiveness;Miss_Ratio"),
    "dtlb_mpki": ("1e3 * DTLB_WALK / INST_RETIRED", "1MPKI", "DTLB_Effectiveness;MPKI"),
    "itlb_walk_ratio": ("ITLB_WALK / L1I_TLB", "100%", "ITLB_Effectiveness;Miss_Ratio"),
    "itlb_mpki": ("1e3 * ITLB_WALK / INST_RETIRED", "1MPKI", "ITLB_Effectiveness;MPKI"),
    "frontend_stalled_cycles": ("STALL_FRONTEND / CPU_CYCLES", "100%", "Cycle_Accounting"),
    "backend_stalled_cycles": ("STALL_BACKEND / CPU_CYCLES", "100%", "Cycle_Accounting"),
}


def arm(data: str, libpfm4: str) -> Iterator[Table]:
    """Yield the tables of Arm's cores, then of other makers' cores, then the architecture's events for all others."""
    for path in _git(data, "ls-tree", "--name-only", "HEAD", "pmu/").splitlines():
        if not path.endswith("-schema.json"):
            content = json.loads(_git(data, "show", f"HEAD:{path}"))
            content["events"] = [event for event in content.get("events", ()) if "name" in event]
            identity = content.get("cpuid", "")
            if content.get("pmu_architecture", "").startswith("pmuv3") and identity:
                number = int(identity, 16)
                rows = [*_arm_rows(content["events"]), *_arm_metrics(content["events"])]
                yield _arm_pattern(number >> 12, number & 0xFFF), path[4:].removesuffix(".json"), rows
    for identity, name in ARM_OF_OTHERS.items():
        number = int(identity, 16)
        events = [{"name": event, "code": code} for event, code in _libpfm4(libpfm4, name)]
        yield _arm_pattern(number >> 12, number & 0xFFF), name.removeprefix("arm_"), [*_arm_rows(events), *_arm_metrics(events)]
    common = [event for event in json.loads(_git(data, "show", "HEAD:pmu/common_armv9.json"))["events"] if "name" in event]
    yield "0x00000000", "common_armv9", [*_arm_rows(common), *_arm_metrics(common)]


def _arm_pattern(implementer: int, part: int) -> str:
    """Return MIDR_EL1 without variant and revision, as the kernel has it for all cores with an architecture of features."""
    return f"0x{implementer << 24 | 0xF << 16 | part << 4:016x}"


def _arm_rows(events: Iterable[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    for event in events:
        for name in {event["name"], event.get("trm_name") or event["name"]}:
            if re.fullmatch(r"\w+", name):
                yield "E", name.lower(), "", f"event={event['code']:#x}", "", _arm_topic(name, event), ""


def _arm_topic(name: str, event: dict[str, Any]) -> str:
    for word, topic in (("tlb", "tlb"), ("cache", "cache"), ("bus", "bus"), ("br_", "branch"), ("stall", "stall"), ("exc_", "exception")):
        if word in name.lower():
            return topic
    for word, topic in (("mem", "memory"), ("spe", "spec operation"), ("retired", "retired"), ("sample_", "spe"), ("trace", "trace")):
        if word in name.lower():
            return topic
    return TOPICS.get(event.get("component", ""), OF_KIND.get(event.get("type", ""), "other"))


def _arm_metrics(events: Iterable[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    names = {event["name"].upper() for event in events}
    for name, (formula, unit, groups) in ARM_METRICS.items():
        if set(re.findall(r"[A-Z]\w+", formula)) <= names:
            yield metric_row({"MetricName": name, "MetricExpr": formula, "ScaleUnit": unit, "MetricGroup": groups})


def power(libpfm4: str) -> Iterator[Table]:
    """Yield the tables of IBM's POWER7 to POWER10."""
    for pattern, name in POWER.items():
        rows = [("E", event.lower(), "", f"event={code:#x}", "", _power_topic(event), "") for event, code in _libpfm4(libpfm4, name)]
        yield pattern, name, rows


def _power_topic(name: str) -> str:
    for words, topic in (
        (("TLB", "ERAT", "SLB", "TABLEWALK"), "translation"),
        (("MRK",), "marked"),
        (("DATA_", "L1", "L2", "L3", "CACHE"), "cache"),
        (("MEM",), "memory"),
        (("BR_", "BR"), "branch"),
        (("STALL", "NTCG", "GCT", "ICT"), "pipeline"),
        (("FLOP", "VSU", "FP"), "floating point"),
    ):
        if any(word in name for word in words):
            return topic
    return "other"


def riscv() -> Iterator[Table]:
    """Yield the events of the firmware for the makers that have PMUs."""
    rows = [
        ("E", f"fw_{name}", "", f"config={FIRMWARE_BIT | number:#x}", "", "firmware", "") for number, name in enumerate(FIRMWARE.split())
    ]
    for maker in RISCV_MAKERS:
        yield maker, "firmware", rows


def _libpfm4(repository: str, name: str) -> list[tuple[str, int]]:
    """Return (name, code) of the events in a file of libpfm4."""
    text = _git(repository, "show", f"HEAD:lib/events/{name}_events.h")
    found = re.findall(r'\.(?:pme_)?name\s*=\s*"([^"]+)",(?:\s*\.modmsk[^,]*,)?\s*\.(?:pme_)?code\s*=\s*(0x[0-9a-fA-F]+|\d+)', text)
    return [(event, int(code, 0)) for event, code in found]


def _git(repository: str, *arguments: str) -> str:
    return subprocess.run(["git", "-C", repository, *arguments], capture_output=True, text=True, check=True).stdout
