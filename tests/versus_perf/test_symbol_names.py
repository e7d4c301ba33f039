"""Tests of the names of live samples, and of their callchains, against perf's."""

from __future__ import annotations

import collections
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.prepared_start import PERFPY, output_of

# Tests of the names of live samples against perf's.


pytestmark = [pytest.mark.versus_perf, pytest.mark.live]

#: spends its time in the interpreter, libc, the kernel, and (as a child) a shell
PROGRAM = """
import json, os, subprocess
for _ in range(30):
    json.loads(json.dumps([{"a": i} for i in range(3000)]))
    sorted(os.urandom(20000))
subprocess.run(["sh", "-c", "for i in 1 2 3 4 5 6 7 8; do ls / >/dev/null; done"])
"""


#: closures, templates, names without linkage, IFUNCs of libc, stubs of the linkage table, calls into the vdso
CXX = """
#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>
namespace shapes {
template <class T, int N> struct Box { T values[N]; __attribute__((noinline)) T sum() const { T s{}; for (int k = 0; k < 2000; k++) for (auto &v : values) s += v * k; return s; } };
namespace { __attribute__((noinline)) double hidden(double x) { double s = 0; for (int i = 1; i < 3000; i++) s += x / i; return s; } }
struct Call { __attribute__((noinline)) double operator()(double a) const { for (int i = 0; i < 3000; i++) a = a * 0.999 + i; return a; } };
}
template <class F> __attribute__((noinline)) double apply(F f) { double s = 0; for (int i = 0; i < 2000; i++) s += f(i); return s; }
int main() {
  double t = 0; std::map<std::string, std::vector<int>> m; std::vector<char> from(1 << 16), to(1 << 16);
  std::function<int(int)> fib = [&](int k) -> int { return k < 2 ? k : fib(k - 1) + fib(k - 2); };
  for (int r = 0; r < 1500; r++) {
    t += shapes::Box<int, 4>{{1, 2, 3, r}}.sum() + shapes::Box<double, 8>{}.sum() + shapes::hidden(r) + shapes::Call()(r) + fib(10);
    t += apply([&](int i) { return i * t; }); m[std::to_string(r % 97)].push_back(r); memcpy(to.data(), from.data(), from.size());
    for (int k = 0; k < 200; k++) t += std::chrono::steady_clock::now().time_since_epoch().count() & 1;
    std::vector<int> v(500); for (auto &x : v) x = rand(); std::sort(v.begin(), v.end(), [](int a, int b) { return a > b; });
  }
  return t == 1;
}
"""  # noqa: E501  a program, not for reading


def python_program(_: Path) -> list[str]:
    return [sys.executable, "-c", PROGRAM]


def cxx_program(folder: Path) -> list[str]:
    (folder / "names.cpp").write_text(CXX)
    subprocess.run(["g++", "-O1", "-o", "names", "names.cpp"], check=True, capture_output=True, timeout=120, cwd=folder)
    return [str(folder / "names")]


def git_program(_: Path) -> list[str]:
    folders = " ".join(str(Path(__file__).parents[2] / name) for name in ("perfpy/views", "perfpy/analysis"))
    return ["sh", "-c", f"git --no-pager diff --no-index --patience {folders} >/dev/null; true"]  # the status tells that they differ


MAKERS = {"python": python_program, "g++": cxx_program, "git": git_program}


@pytest.fixture(scope="module", params=[tool for tool in MAKERS if tool == "python" or shutil.which(tool)])
def recording(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("names")
    program = MAKERS[request.param](folder)
    command = ["perf", "record", "-q", "-F", "5000", "-g", "-o", str(folder / "perf.data"), "--", *program]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder / "perf.data"


def frames(*command: str) -> list[str]:
    text = output_of([*command, "-F", "ip,sym,symoff,dso"])
    return [line.strip() for line in text.splitlines() if line.strip()]


def test_every_frame_has_perfs_name(recording: Path):
    theirs = frames("perf", "script", "-i", str(recording))
    ours = frames(*PERFPY, "script", "-i", str(recording))
    assert len(theirs) == len(ours) > 100
    different = collections.Counter((a, b) for a, b in zip(theirs, ours, strict=True) if a != b and " _R" not in a)
    assert sum(different.values()) <= len(theirs) / 1000, different.most_common(5)


def test_no_more_frames_are_without_a_name_than_perfs(recording: Path):
    unknown = [sum("[unknown]" in line for line in frames(*command, "script", "-i", str(recording))) for command in (["perf"], PERFPY)]
    assert unknown[1] <= unknown[0]


def test_build_ids_are_listed_alike(recording: Path):
    listed = [output_of([*command, "buildid-list", "-i", recording]) for command in (["perf"], PERFPY)]
    assert listed[0] == listed[1]


# Tests that copied stacks are unwound to the callchains that perf prints.


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
    for _ in range(8):
        subprocess.run([perf, "record", *words, str(program), *arguments], check=True, capture_output=True, timeout=60)
        # While a signal handler returns, the registers belong to two frames, and each reader goes astray in its own way: within the system
        # call, or at an instruction of __restore_rt, which perf names then only.
        inside = text_of([perf], path, "script", "-F", "ip,sym", "-G"), text_of([perf], path, "script", "-F", "ip,sym")
        if b"sys_rt_sigreturn" not in inside[0] and b"__restore_rt" not in inside[1]:
            break
    return path


@pytest.fixture(scope="module")
def stack_recording(perf: str, program: Path) -> Path:
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
def test_a_script_has_perfs_callchains(perf: str, stack_recording: Path, options: str) -> None:
    command = ["script", *options.split(), "--no-inline"]
    theirs = text_of([perf], stack_recording, *command)
    ours = with_perfs_trampolines(text_of([sys.executable, "-m", "perfpy"], stack_recording, *command))
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
