"""Programs that do nothing any more: two threads that wait for each other's mutexes, and a context in which any such program runs."""

from __future__ import annotations

import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: transfer() holds accounts and waits for journal, audit() the other way round; main() waits for the end of the first thread
DEADLOCK = r"""
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t accounts = PTHREAD_MUTEX_INITIALIZER, journal = PTHREAD_MUTEX_INITIALIZER;
__attribute__((noinline)) void transfer(void) { pthread_mutex_lock(&accounts); usleep(100000); pthread_mutex_lock(&journal); }
__attribute__((noinline)) void audit(void) { pthread_mutex_lock(&journal); usleep(100000); pthread_mutex_lock(&accounts); }
static void *first(void *unused) { transfer(); return unused; }
static void *second(void *unused) { audit(); return unused; }
int main(void)
{
    pthread_t one, two;
    pthread_create(&one, 0, first, 0);
    pthread_create(&two, 0, second, 0);
    write(1, "x", 1);
    pthread_join(one, 0);
}
"""


def build_deadlock(folder: Path) -> str:
    """Return the path of the program that deadlocks."""
    (folder / "deadlock.c").write_text(DEADLOCK)
    subprocess.run(["gcc", "-O1", "-g", "-pthread", "-o", "deadlock", "deadlock.c"], cwd=folder, check=True)
    return str(folder / "deadlock")


@contextmanager
def hung(command: list[str]) -> Iterator[int]:
    """Run a program; the process, half a second after its first output."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.read(1)
            time.sleep(0.5)
            yield process.pid
        finally:
            process.kill()
