"""Tests that perf and perfpy make the same recordings, and that perf reads those of perfpy alone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest

from perfpy.abi import records
from perfpy.abi.flags import MISC_USER
from perfpy.abi.records import SampleId
from perfpy.capture.runtimes.store_names import store_names
from perfpy.perfdata.header import KEPT_FILES, CpuCount, Feature, encode_feature
from perfpy.perfdata.kept_files import encode
from tests.builders.jitdump import PID, header, load, unwinding
from tests.builders.kernel_symbols import few_symbols
from tests.builders.perfdata import PerfDataBuilder, usual_attr

# Tests that perf and perfpy make the same recording: attrs, features, and order of records.


PERFPY = [sys.executable, "-m", "perfpy"]
WAYS = {
    "default": "",
    "user space": "-e cycles:u -g",
    "contents": "-e cpu-clock -d -P -T -W --sample-cpu --running-time",
    "side-band": "-e cpu-clock --switch-events --namespaces --all-cgroups -k CLOCK_MONOTONIC",
    "dwarf": "-e cpu-clock --call-graph dwarf,4096 --user-regs=ip,sp,bp",
    "counts": "-e cpu-clock -s -n -i",
    "threads": "-e cpu-clock --per-thread",
    "group": "-e {cpu-clock,page-faults}:S -F 99",
    "tracepoint and clock": "-e sched:sched_switch,cpu-clock -g",
    "system": "-e cpu-clock -a -g -C 0 -F 99",
    "delay": "-e page-faults -c 1 -D 1",
    "terms": "-e cpu-clock/period=100000,call-graph=fp/,page-faults/freq=7,time=0/ --buildid-mmap",
    "compressed": "-e cpu-clock -z",
    "overwriting": "-e cpu-clock --overwrite --sample-identifier",
    "one event overwriting": "-e cs/overwrite/,page-faults/no-overwrite,period=1/",
}


def text(*command: object) -> str:
    process = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=60)
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.fixture(scope="module", params=WAYS)
def pair(request, tmp_path_factory, perf) -> tuple[Path, Path]:
    """Make the two recordings, perf's first."""
    folder = tmp_path_factory.mktemp("pair")
    paths = folder / "perf.data", folder / "perfpy.data"
    for recorder, path in zip(([perf], PERFPY), paths, strict=True):
        text(*recorder, "record", "-q", "-N", "-o", path, *WAYS[request.param].split(), "--", "true")
    return paths


@pytest.mark.live
@pytest.mark.versus_perf
@pytest.mark.system_wide
def test_the_attrs_are_the_same(pair, perf):
    ours, theirs = (text(perf, "evlist", "-v", "-i", path) for path in reversed(pair))
    assert ours == theirs


@pytest.mark.live
@pytest.mark.versus_perf
@pytest.mark.system_wide
def test_the_features_are_the_same(pair, perf):
    def features(path: Path) -> str:
        lines = text(perf, "report", "--header-only", "-I", "-i", path).splitlines()
        # whether a program as short as this one was hit by a sample is chance, and so is what it hit
        missing = next(line for line in lines if line.startswith("# missing features")).replace("BUILD_ID ", "")
        # BPF programs are the machine's: others load and unload them meanwhile
        names = [re.split(r"[:0-9]", line)[0].strip() for line in lines if not re.match(r"# bpf_|# btf |#\s+sub_prog", line)]
        return missing + "\n".join(name for name, _ in groupby(names))

    assert features(pair[1]) == features(pair[0])


#: of tasks there may be one or many, and of BPF programs none or many: others load and unload them meanwhile
OF_THIS_MOMENT = {f"PERF_RECORD_{kind}" for kind in ("FORK", "COMM", "MMAP2", "KSYMBOL", "BPF_EVENT")}


@pytest.mark.live
@pytest.mark.versus_perf
@pytest.mark.system_wide
def test_the_records_before_the_samples_are_the_same(pair, perf, request):
    is_overwriting = "overwriting" in request.node.callspec.id

    def head(path: Path) -> list[str]:
        kinds = re.findall(r"PERF_RECORD_\w+", text(perf, "report", "-D", "-i", path))
        end = kinds.index("PERF_RECORD_FINISHED_INIT")
        # with --overwrite ours has no marks of rounds, because mappings without a time follow the samples (help compatibility)
        left_out = {*OF_THIS_MOMENT, "PERF_RECORD_FINISHED_ROUND"} if is_overwriting else OF_THIS_MOMENT
        return [kind for kind, _ in groupby(kinds[: end + 1]) if kind not in left_out]

    assert head(pair[1]) == head(pair[0])


@pytest.mark.live
@pytest.mark.versus_perf
@pytest.mark.system_wide
def test_perf_finds_nothing_wrong_with_ours(pair, perf):
    command = [perf, "script", *few_symbols(pair[1].parent), "-i", pair[1]]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert process.returncode == 0
    assert not re.search(r"(?i)unordered|corrupt|bad|fail|timestamp", process.stderr), process.stderr


@pytest.mark.live
@pytest.mark.versus_perf
@pytest.mark.system_wide
def test_hidden_kernel_addresses_are_warned_of_where_perf_warns(tmp_path, perf):
    """Without CAP_SYSLOG, addresses are hidden with most settings; both tools see the same ones."""
    if shutil.which("setpriv") is None:
        pytest.skip("no setpriv in PATH")
    warnings = []
    for recorder in (PERFPY, [perf]):
        command = ["setpriv", "--bounding-set=-syslog", *recorder]
        command += ["record", "-N", "-e", "cpu-clock", "-o", str(tmp_path / "perf.data"), "--", "true"]
        process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert process.returncode == 0, process.stderr
        warnings.append([line for line in process.stderr.splitlines() if line and not line.startswith("[ perf record")])
    assert bool(warnings[0]) == bool(warnings[1])  # perf has a dozen lines for it
    assert len(warnings[0]) <= 1
    assert all("kernel.kptr_restrict" in line for line in warnings[0])


# Tests that perf reads recordings of record --unwind, with its own callchains of the same stacks.


CHECKOUT = Path(__file__).resolve().parents[2]
PROGRAM = r"""
#include <stdlib.h>
#include <string.h>
volatile unsigned long sink;
static int compare(const void *one, const void *other) { sink++; return *(const int *)one - *(const int *)other; }
__attribute__((noinline)) void sort(int depth)
{
    int numbers[500];
    for (int i = 0; i < 500; i++) numbers[i] = (i * 7919) % 1009;
    if (depth) sort(depth - 1); else qsort(numbers, 500, sizeof *numbers, compare);
    sink += numbers[depth];
}
int main(void) { for (int i = 0; i < 30000; i++) sort(i % 3); return 0; }
"""


def record(folder: Path, *words: str) -> None:
    command = [sys.executable, "-m", "perfpy", "record", "-q", "-N", "-o", "perf.data", "-e", "task-clock", "-F", "500", *words]
    subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, check=True, timeout=120)


def chains(folder: Path, name: str) -> dict[str, list[str]]:
    """Return the time of each sample -> its addresses, as perf script prints them."""
    process = subprocess.run(
        ["perf", "script", "-i", name, "-F", "time,ip", "--no-inline"], cwd=folder, capture_output=True, text=True, check=True, timeout=120
    )
    results: dict[str, list[str]] = {}
    for block in process.stdout.split("\n\n"):
        lines = [line.strip() for line in block.split("\n") if line.strip()]
        if lines:
            results[lines[0]] = [line for line in lines[1:] if line != "ffffffffffffffff"]  # perf's word for a caller that is lost
    return results


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("program")
    (folder / "sorts.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", "-o", folder / "sorts", folder / "sorts.c"], check=True, timeout=60)
    return str(folder / "sorts")


@pytest.mark.live
@pytest.mark.skipif(not shutil.which("perf"), reason="needs perf")
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="stacks of x86-64 are unwound here")
@pytest.mark.parametrize("words", [(), ("-z0",), ("--call-graph", "dwarf,16384")])
def test_callchains_equal_perfs_of_the_stacks(tmp_path, program, words):
    record(tmp_path, "--unwind", "--keep-stacks", *words, "--", program)
    plain, raw = chains(tmp_path, "perf.data"), chains(tmp_path, "perf.data.stacks")
    assert plain.keys() == raw.keys()
    assert len(raw) > 100
    same = sum(plain[time] == raw[time] for time in raw)
    assert same >= 0.99 * len(raw)


@pytest.mark.live
@pytest.mark.skipif(not shutil.which("perf"), reason="needs perf")
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="stacks of x86-64 are unwound here")
def test_perf_reports_the_callers(tmp_path, program):
    record(tmp_path, "--unwind", "--", program)
    process = subprocess.run(
        ["perf", "report", "--stdio", "--children", "-g", "none", "-s", "sym"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    rows = [line.split() for line in process.stdout.splitlines() if "%" in line and not line.startswith("#")]
    children = {row[-1]: float(row[0].rstrip("%")) for row in rows}
    assert children["main"] > 90
    assert children["sort"] > 80


# Tests that perf reads recordings with kept names, and does not complain about the unknown section.


CODE = 0x7F0000001000
PERFS = [
    "perf",
    pytest.param("perf7", marks=[pytest.mark.particular, pytest.mark.skipif(not shutil.which("perf7"), reason="no perf 7 in PATH")]),
]
FEATURES = {
    Feature.HOSTNAME: encode_feature(Feature.HOSTNAME, "here"),
    Feature.NRCPUS: encode_feature(Feature.NRCPUS, CpuCount(4, 4)),
}


def recording(folder: Path) -> str:
    """Record two functions of a jitdump, made at times 20 and 30, with a sample before and after each; in rounds."""
    dump = folder / f"jit-{PID}.dump"
    dump.write_bytes(header() + b"".join(unwinding(16) + load(name, CODE + 0x1000 * index, bytes(16), index, time=20 + 10 * index)
                                         for index, name in enumerate(("first", "second"))))  # fmt: skip
    builder = PerfDataBuilder(attrs=[usual_attr(use_clockid=1, clockid=1)])
    builder.features |= FEATURES
    builder.features[KEPT_FILES] = b""
    mapped = records.Mmap2(MISC_USER, PID, PID, 0x1000, 0x1000, 0, 0, 0, 0, 0, 5, 2, str(dump), sample_id=SampleId(PID, PID, 10))
    builder.record(records.Comm(0, PID, PID, "app", sample_id=SampleId(PID, PID, 9))).record(mapped)
    for time, offset in ((15, 4), (25, 4), (28, 0x1004), (35, 0x1004), (45, 4)):
        builder.sample(ip=CODE + offset, pid=PID, tid=PID, time=time, period=1, misc=MISC_USER).round()
    (folder / "perf.data").write_bytes(builder.file())
    stored = store_names(str(folder / "perf.data"), 0.0, str(folder / "cache"))
    assert (stored.functions, stored.failures) == (2, ())
    return str(folder / "perf.data")


def output(*command: str) -> tuple[str, str]:
    process = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return process.stdout, process.stderr


def without_tip(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("# (")]


@pytest.mark.versus_perf
@pytest.mark.parametrize("perf", PERFS)
def test_perf_names_the_code_from_when_it_was_made(tmp_path: Path, perf: str):
    path = recording(tmp_path)
    text, complaints = output(perf, "script", "-f", "-i", path, "-F", "ip,sym")
    assert [line.split()[-1] for line in text.splitlines()] == ["[unknown]", "first", "[unknown]", "second", "first"]
    assert complaints == ""


@pytest.mark.versus_perf
@pytest.mark.parametrize("perf", PERFS)
@pytest.mark.parametrize("options", [["report", "--stdio"], ["report", "--header-only"], ["report", "-D"], ["evlist"]])
def test_perf_does_not_complain(tmp_path: Path, perf: str, options: list[str]):
    text, complaints = output(perf, *options, "-f", "-i", recording(tmp_path))
    assert text
    assert complaints == ""


@pytest.mark.versus_perf
def test_both_print_the_same(tmp_path: Path):
    path = recording(tmp_path)
    for options in (["script"], ["report", "--stdio", "-s", "sym,dso"], ["evlist", "-v"]):
        theirs, _ = output("perf", *options, "-f", "-i", path)
        ours, _ = output(sys.executable, "-m", "perfpy", *options, "-f", "-i", path)
        assert without_tip(ours) == without_tip(theirs)


@pytest.mark.versus_perf
@pytest.mark.parametrize("perf", PERFS)
def test_a_large_section_is_accepted(tmp_path: Path, perf: str):
    builder = PerfDataBuilder().sample(ip=CODE, pid=PID, tid=PID, time=5, period=1, misc=MISC_USER)
    builder.features |= FEATURES
    builder.features[KEPT_FILES] = encode({f"/tmp/perf-{pid}.map": b"7f00 10 f\n" * 1000 for pid in range(5000)}, "<")
    path = tmp_path / "perf.data"
    path.write_bytes(builder.file())
    text, complaints = output(perf, "script", "-f", "-i", str(path))
    assert len(text.splitlines()) == 1
    assert complaints == ""
