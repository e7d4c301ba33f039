"""perf's own shell tests, with perf and with perfpy in its place: python tests/versus_perf/shell_tests/run.py [WORD...]

Input: the scripts that come with perf (linux-perf: /usr/lib/perf-core/tests/shell). Output: a row for each: what perf
makes of it, and what perfpy does; with -v also what it says where they differ. WORD: only scripts whose name has it.

perfpy is called by the name perf. The commands that only prepare a test, `perf bench` and `perf probe`, are perf's own; what
`perf test -w` runs is made of workloads.c, as Debian's perf has no symbols, which the tests look for. Scripts about commands that
perfpy lacks are left out: see _OTHER_COMMANDS.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

SCRIPTS = Path("/usr/lib/perf-core/tests/shell")
_LIMIT = 240  # seconds for one script
_SKIPPED = 2
_HERE = Path(__file__).resolve().parent
#: what stands for perf in PATH: {perf} prepares, {measures} is under test
_SHIM = """#!/bin/sh
case "$1" in
bench | probe) exec {perf} "$@" ;;
test)
    [ "$2" = -w ] && shift 2 && exec {folder}/workloads/perf "$@"
    case "$*" in *Symbols*) printf ' noploop\\n test_loop\\n leaf\\n parent\\n'; exit 0 ;; esac
    exec {perf} "$@" ;;
esac
exec {measures} "$@"
"""
#: script -> the command of perf that it tests
_OTHER_COMMANDS = {
    "daemon.sh": "daemon",
    "ftrace.sh": "ftrace",
    "lock_contention.sh": "lock",
    "perftool-testsuite_probe.sh": "probe",
    "probe_vfs_getname.sh": "probe",
    "record_bpf_filter.sh": "record --filter of BPF",
    "stat_bpf_counters.sh": "stat --bpf-counters",
    "stat_bpf_counters_cgrp.sh": "stat --bpf-counters",
    "test_data_symbol.sh": "mem",
    "test_uprobe_from_different_cu.sh": "probe",
    "trace+probe_vfs_getname.sh": "trace",
    "trace_btf_enum.sh": "trace",
}
#: script -> a program without which it tests nothing
_NEEDED = {"record+probe_libc_inet_pton.sh": "ping"}


def names(scripts: Path, words: list[str]) -> list[str]:
    """The scripts to run."""
    result = sorted(path.name for path in scripts.glob("*.sh"))
    there = [name for name in result if name not in _OTHER_COMMANDS and shutil.which(_NEEDED.get(name, "sh"))]
    return [name for name in there if all(word in name for word in words)]


def in_place_of_perf(folder: Path, perf: str, measures: str) -> Path:
    """A folder for PATH whose `perf` is the command under test, but for what prepares tests."""
    (folder / "own").mkdir(parents=True)
    (folder / "own" / "perf").symlink_to(measures)
    (folder / "workloads").mkdir()
    program = folder / "workloads" / "perf"
    subprocess.run(["gcc", "-O1", "-g", "-fno-omit-frame-pointer", "-pthread", "-o", program, _HERE / "workloads.c"], check=True)
    (folder / "bin").mkdir()
    shim = folder / "bin" / "perf"
    shim.write_text(_SHIM.format(perf=perf, folder=folder, measures=folder / "own" / "perf"))
    shim.chmod(0o755)
    return folder / "bin"


def run(script: Path, place: Path) -> tuple[str, str]:
    """The verdict of a script, and what it said; place: in front of PATH."""
    with tempfile.TemporaryDirectory(prefix="shell-tests-") as folder:
        environment = {
            **os.environ,
            "PATH": f"{place}:{os.environ['PATH']}",
            "HOME": folder,
            "TMPDIR": folder,
            "LC_ALL": "C",
            "PERF_CONFIG": "/dev/null",
        }
        command = ["timeout", "-k", "5", str(_LIMIT), "bash", str(script)]
        process = subprocess.run(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
    status = process.returncode
    return "passes" if not status else "skips" if status == _SKIPPED else f"fails ({status})", process.stdout.decode("utf-8", "replace")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("-v", "--verbose", action="store_true", help="say what a script said where perf and perfpy differ")
    parser.add_argument("--scripts", type=Path, default=SCRIPTS, metavar="FOLDER", help="the scripts of another perf (with --perf)")
    parser.add_argument("--perf", default=shutil.which("perf"))
    parser.add_argument("--perfpy", default=str(Path(sys.executable).with_name("perfpy")))
    options = parser.parse_args()
    counted: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="shell-tests-") as folder:
        perf, perfpy = (
            in_place_of_perf(Path(folder) / name, options.perf, program)
            for name, program in (("theirs", options.perf), ("ours", options.perfpy))
        )
        for name in names(options.scripts, options.words):
            theirs, _ = run(options.scripts / name, perf)
            ours, message = run(options.scripts / name, perfpy)
            verdict = "same" if theirs.split()[0] == ours.split()[0] else "better" if ours == "passes" else "differs"
            counted[verdict] += 1
            print(f"{verdict:9}{name:40} perf {theirs}, perfpy {ours}", flush=True)
            if options.verbose and verdict == "differs":
                print("".join(f"      {line}\n" for line in message.splitlines()[-25:]), flush=True)
    print(", ".join(f"{number} {verdict}" for verdict, number in sorted(counted.items())))
    return int(bool(counted["differs"]))


if __name__ == "__main__":
    sys.exit(main())
