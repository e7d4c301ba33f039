"""Tests that copied stacks are unwound to the callchains that perf prints."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.versus_perf, pytest.mark.live]

#: recursion, a library's callbacks, a frame of no fixed size, a signal handler, threads
SOURCE = """
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#define APART __attribute__((noinline))
volatile unsigned long sink;
static APART void busy(int n) { for (int i = 0; i < n; i++) sink = sink * 31 + i; }
static APART long fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static int compared(const void *a, const void *b) { busy(3); return *(const int *)a - *(const int *)b; }
static APART void sorted(void) { int all[300]; for (int i = 0; i < 300; i++) all[i] = rand(); qsort(all, 300, sizeof *all, compared); }
static APART void of_any_size(int n) { volatile char some[n]; memset((char *)some, 1, n); busy(3000); sink += some[n / 2]; }
static void on_signal(int number) { (void)number; busy(30000); }
static void *work(void *rounds) {
    for (long i = 0; i < (long)rounds; i++) { sink += fib(15); sorted(); of_any_size(100 + i % 50); }
    return rounds;
}
int main(int argc, char **argv) {
    (void)argv;
    struct itimerval every = {{0, 3000}, {0, 3000}};
    pthread_t thread;
    signal(SIGPROF, on_signal);
    if (argc > 1) setitimer(ITIMER_PROF, &every, 0);
    pthread_create(&thread, 0, work, (void *)3000);
    work((void *)3000);
    return pthread_join(thread, 0);
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the program without frame pointers."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc in PATH")
    folder = tmp_path_factory.mktemp("unwinding")
    (folder / "program.c").write_text(SOURCE)
    options = ["-O2", "-fomit-frame-pointer", "-pthread", "-o"]
    subprocess.run([compiler, *options, folder / "program", folder / "program.c"], check=True, capture_output=True, timeout=60)
    return folder / "program"


def recorded(perf: str, program: Path, size: int, *arguments: str) -> Path:
    path = program.with_name(f"{size}{'-'.join(arguments)}.data")
    words = ["-q", "-e", "cpu-clock", "-F", "4000", "--call-graph", f"dwarf,{size}", "-o", str(path)]
    for _ in range(4):
        subprocess.run([perf, "record", *words, str(program), *arguments], check=True, capture_output=True, timeout=60)
        # While a signal handler returns, the registers belong to two frames, and each reader goes astray in its own way.
        if b"sys_rt_sigreturn" not in text_of([perf], path, "script", "-F", "ip,sym", "-G"):
            break
    return path


@pytest.fixture(scope="module")
def recording(perf: str, program: Path) -> Path:
    """Record complete stacks with perf: the frame of a signal alone has 3 kB where the processor has wide registers."""
    return recorded(perf, program, 16384, "signals")


@pytest.fixture(scope="module")
def recording_without_signals(perf: str, program: Path) -> Path:
    return recorded(perf, program, 16384)


@pytest.fixture(scope="module")
def truncated_recording(perf: str, program: Path) -> Path:
    """Record the same, with copies that end within some of the stacks."""
    return recorded(perf, program, 2048, "signals")


def text_of(program: list[str], path: Path, *options: str) -> bytes:
    environment = {**os.environ, "PERF_CONFIG": "/dev/null", "LC_ALL": "C", "TZ": "UTC"}
    process = subprocess.run([*program, *options, "-i", str(path)], capture_output=True, check=False, timeout=120, env=environment)
    return b"\n".join(line for line in process.stdout.splitlines() if b"(Tip:" not in line and line.strip() != b"#").strip()


def with_perfs_trampolines(text: bytes) -> bytes:
    """Return perfpy's text with the return addresses of signal frames as perf has them: one less, and therefore without a name."""

    def one_less(match: re.Match[bytes]) -> bytes:
        return b"%0*x [unknown]" % (len(match[1]), int(match[1], 16) - 1)

    return re.sub(rb"\b([0-9a-f]+) __restore_rt(?:\+0x0)?", one_less, text)


@pytest.mark.parametrize("options", ["", "-F ip,sym", "--max-stack 4", "-G"])
def test_a_script_has_perfs_callchains(perf: str, recording: Path, options: str) -> None:
    command = ["script", *options.split(), "--no-inline"]
    theirs = text_of([perf], recording, *command)
    ours = with_perfs_trampolines(text_of([sys.executable, "-m", "perfpy"], recording, *command))
    assert len(theirs.split(b"\n\n")) > 100 or "-F" in options or "-G" in options
    assert ours == theirs


@pytest.mark.parametrize("options", ["", "--no-children", "--no-children -g caller", "-s dso -g none"])
def test_a_report_has_perfs_callers(perf: str, recording_without_signals: Path, options: str) -> None:
    command = ["report", "--stdio", *options.split(), "--no-inline"]
    theirs = text_of([perf], recording_without_signals, *command)
    assert text_of([sys.executable, "-m", "perfpy"], recording_without_signals, *command) == theirs


def chains_of(program: list[str], path: Path) -> list[list[bytes]]:
    text = with_perfs_trampolines(text_of(program, path, "script", "-F", "ip,sym", "--no-inline"))
    return [[line.strip() for line in block.split(b"\n") if line.strip()] for block in text.split(b"\n\n")]


def test_truncated_stacks_end_like_perfs_or_a_word_later(perf: str, truncated_recording: Path) -> None:
    theirs, ours = chains_of([perf], truncated_recording), chains_of([sys.executable, "-m", "perfpy"], truncated_recording)
    assert len(theirs) == len(ours) > 100
    marked = sum(chain[-1].startswith(b"ffffffffffffffff") for chain in theirs)
    differing = [(ours[row], chain) for row, chain in enumerate(theirs) if chain != ours[row]]
    assert len(differing) * 10 < len(theirs)
    assert 0 < marked < len(theirs)
    for longer, shorter in differing:  # perf's libunwind does not take the last word of a copy
        expected = shorter[:-1] if shorter[-1].startswith(b"ffffffffffffffff") else shorter
        assert longer[: len(expected)] == expected
        assert len(longer) > len(expected)
