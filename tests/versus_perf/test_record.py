"""Tests that perf and perfpy make the same recording: attrs, features, and order of records."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from itertools import groupby
from typing import TYPE_CHECKING

import pytest

from tests.builders.kernel_symbols import few_symbols

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.versus_perf, pytest.mark.system_wide]

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


def test_the_attrs_are_the_same(pair, perf):
    ours, theirs = (text(perf, "evlist", "-v", "-i", path) for path in reversed(pair))
    assert ours == theirs


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


def test_the_records_before_the_samples_are_the_same(pair, perf):
    def head(path: Path) -> list[str]:
        kinds = re.findall(r"PERF_RECORD_\w+", text(perf, "report", "-D", "-i", path))
        end = kinds.index("PERF_RECORD_FINISHED_INIT")
        return [kind for kind, _ in groupby(kinds[: end + 1]) if kind not in OF_THIS_MOMENT]

    assert head(pair[1]) == head(pair[0])


def test_perf_finds_nothing_wrong_with_ours(pair, perf):
    command = [perf, "script", *few_symbols(pair[1].parent), "-i", pair[1]]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert process.returncode == 0
    assert not re.search(r"(?i)unordered|corrupt|bad|fail|timestamp", process.stderr), process.stderr


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
