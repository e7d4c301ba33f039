"""What .github/SECURITY.md promises in numbers is what the code holds to."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfpy.cli.line import perfconfig
from perfpy.events import vendor
from perfpy.perfdata.records import stream
from perfpy.symbols import jitdump, kernel_symbols, perf_map
from perfpy.symbols.demangling import demangle
from perfpy.symbols.files import debuginfod
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
                f"{stream._MOST_RATIO:,} times their size, or {stream._ALWAYS // MB} MB; "
                f"{stream._MOST_RECORDS} records for each byte, or {stream._ALWAYS_RECORDS:,}"
            ),
        ),
        (
            "compressed ELF sections, debug data, modules, and names stored in recordings",
            f"{expansion._RATIO} times their size, or {expansion._SMALL // MB} MB; {expansion._MOST // MB} MB",
        ),
        (
            "C++ and Rust names",
            (
                f"{demangle._MANGLED_MOST:,} characters mangled, {demangle.LONGEST:,} demangled; "
                "longer names, and malformed ones that libstdc++ may read forever, are printed mangled"
            ),
        ),
        ("perf maps, jitdumps, lists of kernel symbols", f"{perf_map.LARGEST // MB} MB; {_OF_A_REPORT}"),
        ("perf maps, jitdumps, lists of kernel symbols", f"{jitdump.LARGEST // MB} MB; {_OF_A_REPORT}"),
        ("perf maps, jitdumps, lists of kernel symbols", f"{kernel_symbols._LARGEST_KALLSYMS // MB} MB; {_OF_A_REPORT}"),
        ("event files", f"{vendor._LARGEST // MB} MB"),
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
