"""Programs that move their text to other memory keep the names of its functions: BOLT --hugify, iodlr and Chrome OS do it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.builders.prepared_start import PERFPY, output_of, run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.live

PROGRAM = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#define HOT __attribute__((noinline, noclone, section("hot_text"), aligned(4096)))
static volatile unsigned long sink;
HOT void kept_function(unsigned long n) { while (n--) sink += n * 3; sink++; }
HOT void moved_inner(unsigned long n) { while (n--) sink ^= n * 5; sink++; }
HOT void moved_outer(unsigned long n) { moved_inner(n); sink--; }
HOT void end_of_text(void) { sink++; }
static char copy[8192];
static void move(const char *how) {
    char *text = (char *)moved_inner;
    size_t size = sizeof copy;
    memcpy(copy, text, size);
    if (!strcmp(how, "changed")) memset(copy + 4096 - 64, 0x90, 64);  // unused bytes of the first page
    if (!strcmp(how, "memfd") || !strcmp(how, "shm")) {
        char path[64];
        sprintf(path, "/dev/shm/perfpy-text-%d", getpid());
        int fd = *how == 'm' ? memfd_create("text", 0) : open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (*how == 's') unlink(path);
        if (write(fd, copy, size) != (ssize_t)size) exit(3);
        if (mmap(text, size, PROT_READ | PROT_EXEC, MAP_FIXED | (*how == 'm' ? MAP_PRIVATE : MAP_SHARED), fd, 0) != text) exit(3);
        return;
    }
    if (!strcmp(how, "mremap")) {
        char *memory = mmap(0, size, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memcpy(memory, copy, size);
        if (mremap(memory, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, text) != text) exit(3);
        return;
    }
    int times = !strcmp(how, "often") ? 100000 : 1;
    while (times--) {
        if (mmap(text, size, 7, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != text) exit(3);
        memcpy(text, copy, size);
    }
    if (mprotect(text, size, 5)) exit(3);
}
int main(int count, char **words) {
    const char *how = words[1];
    double seconds = atof(words[2]);
    if (strcmp(how, "none")) move(how);
    if (!strcmp(how, "exec")) execl("/proc/self/exe", "hot", "none", words[2], (char *)0);
    if (!strcmp(how, "fork") && fork()) { wait(0); return 0; }
    struct timespec now, start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        kept_function(20000);
        moved_outer(40000);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - start.tv_sec + (now.tv_nsec - start.tv_nsec) * 1e-9 < seconds);
    end_of_text();
    return 0;
}
"""
NAMED = re.compile(r"\bmoved_inner\b")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("gcc"):
        pytest.skip("needs gcc")
    folder = tmp_path_factory.mktemp("moved")
    source = folder / "hot.c"
    source.write_text(PROGRAM)
    options = ["-O1", "-g", "-w", "-fno-optimize-sibling-calls", "-fomit-frame-pointer", "-fno-toplevel-reorder"]
    build = ["gcc", *options, "-o", str(folder / "hot"), str(source)]
    assert not subprocess.run(build, check=False, timeout=60).returncode
    return folder / "hot"


def record(folder: Path, *words: str | Path) -> Path:
    run([*PERFPY, "record", "-q", "-F", "999", "-e", "cpu-clock:u", "-o", "perf.data", *words], cwd=folder, check=True, timeout=120)
    return folder / "perf.data"


def named_share(path: Path, *, tool: str | None = None) -> float:
    """The share of the samples in moved_inner that have its name; those without are in memory."""
    line = [tool] if tool else PERFPY
    lines = output_of([*line, "script", "-i", path, "-F", "ip,sym,dso", *(() if tool else ("--no-inline",))]).splitlines()
    named = sum(bool(NAMED.search(line)) for line in lines)
    nameless = sum("[unknown]" in line for line in lines)
    assert named + nameless > 20, lines[:20]
    return named / (named + nameless)


@pytest.mark.parametrize("how", ["anonymous", "memfd", "shm", "mremap", "fork", "exec", "often"])
def test_moved_text_keeps_its_names(program, tmp_path, how):
    path = record(tmp_path, "--", program, how, "0.7")
    assert named_share(path) > 0.9
    if tool := shutil.which("perf"):
        assert named_share(path, tool=tool) > 0.9


def test_changed_code_has_no_names(program, tmp_path):
    """Only the page with moved_inner has other bytes."""
    assert named_share(record(tmp_path, "--", program, "changed", "0.5")) < 0.2


@pytest.mark.parametrize("how", ["anonymous", "memfd", "mremap"])
def test_text_that_was_moved_before_keeps_its_names(program, tmp_path, how):
    with subprocess.Popen([program, how, "20"]) as process:
        try:
            time.sleep(0.3)
            path = record(tmp_path, "-p", str(process.pid), "--", "sleep", "0.4")
        finally:
            process.kill()
    assert named_share(path) > 0.9


CALLERS = re.compile(r" moved_inner .*\n.* moved_outer .*\n.* main ")


@pytest.mark.parametrize("option", [["--unwind"], ["--call-graph", "dwarf"]], ids=["unwind", "dwarf"])
def test_stacks_lead_through_moved_text(program, tmp_path, option):
    path = record(tmp_path, *option, "--", program, "anonymous", "0.8")
    text = output_of([*PERFPY, "script", "-i", path, "-F", "ip,sym,dso", "--no-inline"])
    tops = len(re.findall(r"(?:^|\n\n)\s*[0-9a-f]+ moved_inner ", text))
    assert len(CALLERS.findall(text)) > 0.8 * tops > 20, text[:2000]


def test_moved_text_is_annotated(program, tmp_path):
    if not shutil.which("objdump"):
        pytest.skip("needs objdump")
    path = record(tmp_path, "--", program, "anonymous", "0.5")
    text = output_of([*PERFPY, "annotate", "-i", path, "--stdio", "-s", "moved_inner"])
    assert re.search(r"\d+\.\d+.*sink \^= n", text) or re.search(r"\d+\.\d+ .*xor", text), text[:2000]


@pytest.mark.parametrize("option", [["-z"], ["--buildid-mmap"], ["--threads"], ["-a"]], ids=lambda option: option[0])
def test_options_of_the_file_make_no_difference(program, tmp_path, option):
    if option == ["-a"] and os.geteuid():
        pytest.skip("needs root")
    path = record(tmp_path, *option, "--", program, "anonymous", "0.7")
    lines = output_of([*PERFPY, "script", "-i", path, "-F", "comm,ip,sym,dso", "--no-inline"]).splitlines()
    own = [line for line in lines if line.split()[0] == "hot"]
    assert sum("moved_inner" in line for line in own) > 5 * sum("[unknown]" in line for line in own)


REUSE = r"""
import ctypes, mmap, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
library = ctypes.CDLL(sys.argv[1])
address = ctypes.cast(library.library_function, ctypes.c_void_p).value
library.library_function(1000)
close = ctypes.CDLL(None).dlclose
close.argtypes = (ctypes.c_void_p,)
close(library._handle)
assert sys.argv[1] not in open("/proc/self/maps").read()
page = address & -4096
assert libc.mmap(page, 4096, 7, 0x32, -1, 0) == page  # MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS
code = bytes.fromhex("4883ef0175fac3")  # sub $1, %rdi; jne; ret
ctypes.memmove(address, code, len(code))
function = ctypes.CFUNCTYPE(None, ctypes.c_ulong)(address)
end = time.monotonic() + 0.6
while time.monotonic() < end:
    function(3_000_000)
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the generated code is that of x86-64")
def test_code_generated_where_a_library_was_is_not_the_library(tmp_path):
    if not shutil.which("gcc"):
        pytest.skip("needs gcc")
    source, library = tmp_path / "library.c", tmp_path / "library.so"
    source.write_text("volatile unsigned long sink;\nvoid library_function(unsigned long n) { while (n--) sink += n; }\n")
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
    path = record(tmp_path, "--", sys.executable, "-c", REUSE, library)
    text = output_of([*PERFPY, "report", "--stdio", "-i", path, "-s", "dso,sym"])
    assert re.search(r"\[JIT\] tid \d+ +\[\.\] 0x", text), text
    assert len(re.findall("library_function", text)) <= 1  # the real one has run, too
    lines = output_of([*PERFPY, "script", "-i", path, "-F", "ip,sym,dso"]).splitlines()
    assert sum("library_function" in line for line in lines) < 0.2 * sum("[unknown]" in line for line in lines)
