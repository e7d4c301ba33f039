"""Tests that `perfpy script` and `report -D` print what perf 6.12 printed of the same recordings."""

from __future__ import annotations

import gzip
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.views.dump.recording import write_dump
from perfpy.views.script.run import ScriptOptions, ScriptRun

OWN = Path(__file__).parent / "script"
NAMES = ("chains", "faults", "tracepoints")
ALL_EVENTS = frozenset(("task", "mmap", "switch", "namespace", "cgroup", "lost", "bpf", "text-poke"))
#: of the larger corpus: name -> why perf's answer is not ours; * stands for any end
UNLIKE_PERF = {
    "autofdo-chromeos_perf.data.piped.host": "perf takes the features of an early pipe for other records and gives up",
    "autofdo_perf-vmlinux.data": "the kernel's file is not named by the recording's own mappings",
    "perfparser_vector_static_gcc_perf.lbr.data": "perf reads behind the end of empty branch stacks",
    "simpleperf_*": "perf stops at records of simpleperf's own, or maps the kernel differently",
    "poc_*": "perf prints memory behind the end of cut records",
    "s390x-pipe*": "perf does not understand the features of a big-endian pipe and stops",
    "linux-perf-data_sleep.compressed2.pipe.data": "the answer is of a rewritten copy with other offsets",
    "i686-bidmmap.data": "perf names a temporary file of its own",
    "trunc-half-a.data": "perf prints nothing of a file that is cut",
}
SMALL = 40_000  # bytes of a recording that is compared here; larger ones take too long for every run


def script_text(path: Path, output: frozenset[str]) -> bytes:
    out = io.BytesIO()
    with Recording(str(path)) as recording:
        symbols = SymbolOptions(symfs="/nonexistent", kallsyms="/dev/null")
        ScriptRun(recording, ScriptOptions(symbols=symbols, side_band_types=output)).write(out)
    return with_breaks(out.getvalue())


def with_breaks(output: bytes) -> bytes:
    """Return what perf prints: it ends the line at a line feed in a name, which perfpy shows escaped."""
    return output.replace(b"^J", b"\n")


def lines(output: bytes) -> list[bytes]:
    return [line.rstrip() for line in output.splitlines()]


def dump_lines(output: bytes) -> list[bytes]:
    """Return a dump's lines without the name of the file, the hint at the top and the statistics at the end."""
    records = output.partition(b"\nAggregated stats:")[0]
    records = re.sub(rb"(?m)^(0x[0-9a-f]+|0)@\S+", rb"\1@FILE", records)
    return [line for line in lines(records.rstrip()) if not line.startswith(b"# To display") and line != b"#"]


@pytest.mark.parametrize("name", NAMES)
def test_lines_of_samples_and_records_are_perfs(name: str) -> None:
    expected = (OWN / f"{name}.script.txt").read_bytes()
    assert lines(script_text(OWN / f"{name}.data", frozenset(("task", "mmap")))) == lines(expected)


@pytest.mark.parametrize("name", NAMES)
def test_a_dump_is_perfs(name: str) -> None:
    expected = (OWN / f"{name}.dump.txt").read_bytes()
    command = [sys.executable, "-m", "perfpy", "report", "-D", "-i", str(OWN / f"{name}.data")]
    printed = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
    printed = re.sub(rb"(?m)^(0x[0-9a-f]+|0)@\S+ ", rb"\1@FILE ", printed)
    assert lines(printed) == lines(expected)


def is_unlike(name: str) -> bool:
    return any(name == entry or (entry.endswith("*") and name.startswith(entry[:-1])) for entry in UNLIKE_PERF)


def answered(corpus: Path, kind: str) -> list[Path]:
    """Return small recordings of other machines, read without symbols, for which perf's answer is stored."""
    results = []
    for answer in sorted([*corpus.glob(f"public/*.{kind}.gz"), *corpus.glob(f"qemu/*.{kind}.gz")]):
        recording = answer.with_name(answer.name.removesuffix(f".{kind}.gz"))
        if recording.is_file() and recording.stat().st_size <= SMALL and not is_unlike(recording.name):
            results.append(recording)
    return results


@pytest.mark.parametrize(("kind", "output"), [("script", frozenset[str]()), ("events", ALL_EVENTS)])
def test_lines_of_recordings_from_elsewhere_are_perfs(corpus: Path, kind: str, output: frozenset[str]) -> None:
    different = []
    for recording in answered(corpus, kind):
        expected = lines(gzip.decompress(recording.with_name(f"{recording.name}.{kind}.gz").read_bytes()))
        if any(expected) and lines(script_text(recording, output)) != expected:
            different.append(recording.name)
    assert different == []


def test_dumps_of_recordings_from_elsewhere_are_perfs(corpus: Path) -> None:
    different = []
    for path in answered(corpus, "dump"):
        out = io.BytesIO()
        with Recording(str(path)) as recording:
            write_dump(recording, out)
        expected = gzip.decompress(path.with_name(f"{path.name}.dump.gz").read_bytes())
        if dump_lines(with_breaks(out.getvalue())) != dump_lines(expected):
            different.append(path.name)
    assert different == []
