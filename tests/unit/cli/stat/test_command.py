"""The lines of `stat -v` about the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.cli.stat.command import machine_lines

if TYPE_CHECKING:
    import pytest


def test_the_cpu_has_its_numbers_as_perf_writes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """In hexadecimal, and as PERF_CPUID says."""
    monkeypatch.setenv("PERF_CPUID", "GenuineIntel-6-A7-8")
    assert "Using CPUID GenuineIntel-6-A7-8" in list(machine_lines(controlled=True))
