"""perfpy top --stdio beside perf top --stdio on one spinning program: the same header, columns and layout."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.kernel_too, pytest.mark.versus_perf]

PERFPY = [sys.executable, "-m", "perfpy"]
CLEAR = "\33[H\33[2J"
KERNEL_ROW = re.compile(r"^ +\d+\.\d\d%.*\[k\] ", re.MULTILINE)
ROW = re.compile(r"^ +\d+\.\d\d%(?!.*\[k\] )", re.MULTILINE)  # of a function of the program
# All functions have long names, and shares that differ by far, so that rows keep their order.
SOURCE = """
#include <unistd.h>
static volatile long sum;
__attribute__((noinline)) void function_with_a_name_that_is_longer_than_its_column(void) { for (int i = 0; i < 800000; i++) sum += i; }
__attribute__((noinline)) void second(void) { for (int i = 0; i < 200000; i++) sum ^= i; }
__attribute__((noinline)) void work(void) { function_with_a_name_that_is_longer_than_its_column(); second(); }
int main(void) { for (;;) { work(); usleep(3000); } }
"""
OPTIONS = [
    "-n -F 499",
    "-c 1000000 --show-total-period -n",
    "--overwrite",
    "-z -U",
    "-s pid,comm,dso,symbol -n",
    "--fields overhead,sample,sym --percent-limit 40",
    "-e {task-clock,cpu-clock}",
    "-e task-clock:u,page-faults",
    "--symbols second -K -w 10,20",
]


@pytest.fixture(scope="module")
def spinning(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    path: Path = tmp_path_factory.mktemp("top") / "spinning"
    subprocess.run(["cc", "-O1", "-fno-omit-frame-pointer", "-x", "c", "-o", path, "-"], input=SOURCE, text=True, check=True)
    with subprocess.Popen([path]) as started:
        yield started.pid
        started.kill()


def shape(text: str) -> list[str]:
    """Return the lines of an update without what differs between two measurements."""
    lines = [line for line in text.splitlines() if "[k] " not in line or "-U" in text]
    lines = [re.sub(r"PerfTop: +\d+ irqs/sec  kernel: *[\d.]+%", "PerfTop: N irqs/sec  kernel: N%", line) for line in lines]
    lines = [re.sub(r"drop: \d+/\d+", "drop: N/N", line) for line in lines]  # perf drops samples on a busy machine
    return [re.sub(r" +\d+\.\d\d%", " N%", re.sub(r" +\d+  ", " N  ", line)) for line in lines]


def perf(options: str, pid: int) -> str:
    """Return perf's first complete update that has all rows, else its last one; its standard input stays open and silent.

    On a busy machine its first updates may have one sample. stdbuf: into a pipe, perf would write once ten updates fill its buffer.
    """
    row = KERNEL_ROW if "-U" in options else ROW
    expected_rows = 1 if any(option in options for option in ("--percent-limit", "--symbols", "-U")) else 2
    command = ["stdbuf", "-oL", "perf", "top", "--stdio", "-d", "1", "-E", "2", "-p", str(pid), *options.split()]
    command = ["timeout", "30", *command]
    text = ""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0) as process:
        assert process.stdout
        while output := process.stdout.read(65536):
            text += output.decode()
            *updates, _ = [update.partition("\nMapped keys:")[0] for update in text.split(CLEAR)]
            complete = [update for update in updates if len(row.findall(update)) >= expected_rows]
            if complete:
                process.terminate()
                return complete[0]
    return text.rpartition(CLEAR)[2].partition("\nMapped keys:")[0]


def perfpy(options: str, pid: int) -> str:
    words = ["top", "--stdio", "-d", "1", "-E", "2", "-p", str(pid), "--updates", "2", *options.split()]
    process = subprocess.run([*PERFPY, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout.split(CLEAR)[-1]


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.thorough
def test_the_text_is_perf_s(options: str, spinning: int) -> None:
    for _ in range(4):  # on a busy machine the program may hardly run in the second that one of the two shows
        with ThreadPoolExecutor() as executor:
            ours, theirs = (shape(text) for text in executor.map(lambda top: top(options, spinning), (perfpy, perf)))
        if "-U" in options:  # kernel functions come and go
            ours, theirs = ours[:4], theirs[:4]
        if options == "--overwrite":  # most readings lose some samples
            ours, theirs = ([re.sub(r"lost: \d+/\d+", "lost: N/N", line) for line in lines] for lines in (ours, theirs))
        if ours == theirs:
            break
    assert ours == theirs
