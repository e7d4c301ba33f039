"""The CPU's identity, as each architecture tells it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from perfpy.kernel.cpus import cpu_identity, nominal_frequency

if TYPE_CHECKING:
    from pathlib import Path

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


def test_arm64_leaves_variant_and_revision_out(tmp_path: Path) -> None:
    path = tmp_path / "devices/system/cpu/cpu0/regs/identification/midr_el1"
    assert cpu_identity("aarch64", str(tmp_path), str(tmp_path)) == ""
    path.parent.mkdir(parents=True)
    path.write_text("0x00000000413fd0c1\n")
    assert cpu_identity("aarch64", str(tmp_path), str(tmp_path)) == "0x00000000410fd0c0"


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
