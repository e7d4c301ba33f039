"""Programs of another user that lie to root's recorder, or change while it reads them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.builders.other_users import GID, UID, needs_root

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.live, needs_root, pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")]

CHECKOUT = Path(__file__).resolve().parents[2]
RECORD = ["record", "-o", "perf.data", "-e", "cpu-clock:u", "-F", "499"]


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A folder of the other user, which that user can reach."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == 0 and folder.stat().st_mode & 0o077 == 0:
            folder.chmod(0o711)
    folder = tmp_path / "theirs"
    folder.mkdir()
    os.chown(folder, UID, GID)
    return folder


def compiled(folder: Path, name: str, source: str, *flags: str) -> str:
    """Return the path of a program of the other user."""
    (folder / f"{name}.c").write_text(source)
    subprocess.run(["gcc", "-O1", "-w", *flags, "-o", folder / name, folder / f"{name}.c"], check=True, timeout=60)
    os.chown(folder / name, UID, GID)
    return str(folder / name)


@contextlib.contextmanager
def running(*command: str) -> Iterator[int]:
    """The pid of a command of the other user that has written a line."""
    with subprocess.Popen(
        ["setpriv", f"--reuid={UID}", f"--regid={GID}", "--clear-groups", *command], stdout=subprocess.PIPE, process_group=0
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            yield process.pid
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def perfpy(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command as root, in a folder of root's."""
    return subprocess.run(
        [sys.executable, "-m", "perfpy", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "HOME": str(folder)},
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=120,
        check=False,
    )


# -- a library that its owner truncates and restores while it is read ---------------------------------------------

LIBRARY = """
int spin(int times) { volatile int x = 0; while (times--) x++; return x; }
__asm__(".rept 40000\\n.cfi_startproc\\n.nops 1\\nret\\n.cfi_endproc\\n.endr\\n");
"""
TRUNCATING = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>
int main(int count, char **words)
{
    int fd = open(words[1], O_RDWR);
    struct stat state;
    fstat(fd, &state);
    char *copy = malloc(state.st_size);
    read(fd, copy, state.st_size);
    int (*spin)(int) = dlsym(dlopen(words[1], RTLD_NOW), "spin");
    Dl_info found;
    dladdr(spin, &found);
    long end_of_code = ((long)spin - (long)found.dli_fbase | 4095) + 1;
    volatile char *code = (char *)((long)spin & ~4095);
    mprotect((void *)code, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
    *code = *code; /* a page of our own */
    if (!fork()) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            usleep(3000);
            ftruncate(fd, end_of_code);
            usleep(3000);
            pwrite(fd, copy, state.st_size, 0);
        }
    }
    puts("ready");
    fflush(stdout);
    for (;;) spin(1000);
}
"""


def test_a_library_that_its_owner_truncates_stops_neither_the_recorder_nor_the_report(theirs: Path, tmp_path: Path):
    library = compiled(theirs, "library.so", LIBRARY, "-shared", "-fPIC", "-Wl,-z,separate-code")
    program = compiled(theirs, "program", TRUNCATING, "-ldl")
    with running(program, library) as pid:
        done = perfpy(tmp_path, *RECORD, "--unwind", "-p", str(pid), "--", "sleep", "1.5")
        assert done.returncode == 0, done.stderr
        assert "the unwinding process has ended" not in done.stderr
        for _ in range(4):
            done = perfpy(tmp_path, "report", "--stdio")
            assert done.returncode == 0, done.stderr
            assert "Traceback" not in done.stderr
