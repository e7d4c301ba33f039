"""What .github/SECURITY.md promises in numbers is what the code holds to."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfpy.cli.line import perfconfig
from perfpy.events.vendor import event_files
from perfpy.perfdata.records import decompression
from perfpy.symbols.demangling import name_budget
from perfpy.symbols.files import debuginfod
from perfpy.symbols.providers import jitdump, kernel_symbols, perf_map
from perfpy.untrusted import expansion

PAGE = (Path(__file__).parents[1] / ".github" / "SECURITY.md").read_text()
MB = 1 << 20
_OF_A_REPORT = f"perf maps of a report: {perf_map.MOST_FUNCTIONS >> 20} million functions together"


@pytest.mark.parametrize(
    ("row", "promise"),
    [
        (
            "compressed records of a recording",
            (
                f"{decompression._MOST_RATIO:,} times their size, or {decompression._ALWAYS // MB} MB; "
                f"{decompression._MOST_RECORDS} records for each byte, or {decompression._ALWAYS_RECORDS:,}"
            ),
        ),
        (
            "compressed ELF sections, debug data, modules, and names stored in recordings",
            f"{expansion._RATIO} times their size, or {expansion._SMALL // MB} MB; {expansion._MOST // MB} MB",
        ),
        (
            "C++ and Rust names",
            f"{name_budget._MANGLED_MOST:,} characters mangled, {name_budget.LONGEST:,} demangled; longer names are printed mangled",
        ),
        ("perf maps, jitdumps, lists of kernel symbols", f"{perf_map.LARGEST // MB} MB; {_OF_A_REPORT}"),
        ("perf maps, jitdumps, lists of kernel symbols", f"{jitdump.LARGEST // MB} MB; {_OF_A_REPORT}"),
        ("perf maps, jitdumps, lists of kernel symbols", f"{kernel_symbols._LARGEST_KALLSYMS // MB} MB; {_OF_A_REPORT}"),
        ("event files", f"{event_files._LARGEST // MB} MB"),
        ("configuration files", f"{perfconfig._LARGEST // MB} MB"),
        (
            "a download from a debuginfod server",
            (
                f"{debuginfod._DEFAULT_TIMEOUT:.0f} s without {debuginfod._LEAST >> 10} KB (`DEBUGINFOD_TIMEOUT`), "
                f"{debuginfod._DEFAULT_MAX_TIME:.0f} s in total, {debuginfod._DEFAULT_MAX_SIZE >> 30} GB"
            ),
        ),
    ],
)
def test_limits_equal_the_codes(row: str, promise: str) -> None:
    assert f"| {row} | {promise} |" in PAGE
