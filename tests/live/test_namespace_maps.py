"""record --jit keeps the perf maps of processes in pid namespaces, which have ended when the recording ends."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.builders.prepared_start import PERFPY, output_of

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.live,
    pytest.mark.particular,
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="the generated code is that of x86-64"),
    pytest.mark.skipif(not shutil.which("gcc") or not shutil.which("unshare"), reason="needs gcc and unshare"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for namespaces"),
]

#: generates a loop, names it by argv[1] in the perf map of its pid, and runs it for some 0.4 s
PROGRAM = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
static const unsigned char loop[] = {0x48, 0x89, 0xf8, 0x48, 0xff, 0xc8, 0x75, 0xfb, 0xc3};
int main(int count, char **words)
{
    char path[64];
    char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, loop, sizeof loop);
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    FILE *map = fopen(path, "w");
    fprintf(map, "%lx %zx %s\n", (unsigned long)code, sizeof loop, words[1]);
    fclose(map);
    struct timespec now;
    do {
        ((void (*)(long))code)(1000000);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    } while (now.tv_sec == 0 && now.tv_nsec < 400000000);
    return 0;
}
"""
UNSHARE = "unshare --pid --fork"


@pytest.fixture(scope="module")
def generator() -> Iterator[Path]:
    """The program, outside of /tmp, over which a test mounts another file system."""
    if subprocess.run([*UNSHARE.split(), "--mount-proc", "true"], check=False, capture_output=True).returncode:
        pytest.skip("not allowed to make a pid namespace")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        (Path(folder) / "generator.c").write_text(PROGRAM)
        subprocess.run(["gcc", "-O1", "-o", f"{folder}/generator", f"{folder}/generator.c"], check=True, timeout=60)
        yield Path(folder) / "generator"


def symbols(folder: Path, script: str) -> dict[str, float]:
    """Record a script; return the shares of functions when its perf maps are gone."""
    before = set(Path("/tmp").glob("perf-*.map"))
    record = [sys.executable, "-m", "perfpy", "record", "--jit", "-q", "-e", "cpu-clock:u", "-F", "500", "-o", str(folder / "perf.data")]
    subprocess.run([*record, "--", "sh", "-c", script], check=True, timeout=120, capture_output=True)
    for path in set(Path("/tmp").glob("perf-*.map")) - before:
        path.unlink()
    lines = output_of([*PERFPY, "report", "--stdio", "-i", folder / "perf.data", "-s", "sym", "-g", "none", "--no-children"]).splitlines()
    rows = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    return {row[-1]: float(row[0].rstrip("%")) for row in rows if row[0].endswith("%")}


@pytest.mark.parametrize(
    "command",
    [
        "{program} inside",
        UNSHARE + " {program} inside",
        UNSHARE + " --mount-proc {program} inside",
        UNSHARE + " --mount-proc sh -c '{program} inside; true'",
        UNSHARE + " " + UNSHARE + " --mount-proc {program} inside",
        UNSHARE + " --mount sh -c 'mount -t tmpfs none /tmp && exec {program} inside'",
        UNSHARE + " --mount-proc sh -c 'mount -t tmpfs none /tmp; {program} inside; umount -l /tmp'",
    ],
)
def test_generated_code_has_names(generator: Path, tmp_path: Path, command: str):
    assert symbols(tmp_path, command.format(program=generator)).get("inside", 0) > 80


def test_processes_with_one_pid_inside_have_names_of_their_own(generator: Path, tmp_path: Path):
    """Both are 1, and share /tmp: the second one replaces the map of the first, which the recorder has read by then."""
    shares = symbols(tmp_path, f"{UNSHARE} {generator} first; sleep 1.5; {UNSHARE} {generator} second")
    assert min(shares.get("first", 0), shares.get("second", 0)) > 30


def test_another_tmp_may_have_the_same_pid(generator: Path, tmp_path: Path):
    inside = f"{UNSHARE} --mount sh -c 'mount -t tmpfs none /tmp && exec {generator} "
    shares = symbols(tmp_path, f"{inside}first' & {inside}second' & wait")
    assert min(shares.get("first", 0), shares.get("second", 0)) > 30
