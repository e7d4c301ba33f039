"""A C program that waits: asleep, for a lock, a pipe, the disk, a child; and says how long, measured by itself.

Input: a folder. Output: the program. It prints `pid N`, and for each way
of waiting `name NS`: the time of its main thread between two readings of the clock, less the CPU time in between.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: the functions that wait, and the one that does not
WAITS = ("asleep", "for_lock", "for_pipe", "for_disk", "for_child")
BUSY = "busy"

PROGRAM = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#define APART __attribute__((noinline))
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int held;
static volatile unsigned long sink;
static int ends[2], file;
static char block[1 << 16];
static long now(clockid_t clock) { struct timespec t; clock_gettime(clock, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
static void nap(long ms) { struct timespec t = {ms / 1000, ms % 1000 * 1000000L}; nanosleep(&t, 0); }
static void *holder(void *unused) { pthread_mutex_lock(&lock); held = 1; nap(120); pthread_mutex_unlock(&lock); return unused; }
static void *writer(void *unused) { nap(90); sink += write(ends[1], "x", 1); return unused; }
/* libc has no frame pointers: by these its callers' callers are known, and no callers */
APART void take(void) { pthread_mutex_lock(&lock); sink++; }
APART void join(pthread_t other) { pthread_join(other, 0); sink++; }
APART void take_byte(void) { char byte; sink += read(ends[0], &byte, 1); sink++; }
APART void store(void) { sink += pwrite(file, block, sizeof block, 0); fdatasync(file); sink++; }
APART void reap(pid_t child) { waitpid(child, 0, 0); sink++; }
APART void spawn(pthread_t *other, void *(*what)(void *)) { pthread_create(other, 0, what, 0); sink++; }
APART pid_t twin(void) { pid_t child = fork(); sink++; return child; }
APART void doze(void) { usleep(500); sink++; }
APART void asleep(void) { nap(150); sink++; }
APART void for_lock(void)
{
    pthread_t other;
    held = 0;
    spawn(&other, holder);
    while (!held) doze();
    take();
    pthread_mutex_unlock(&lock);
    join(other);
}
APART void for_pipe(void)
{
    pthread_t other;
    spawn(&other, writer);
    take_byte();
    join(other);
}
APART void for_disk(void) { for (int i = 0; i < 8; i++) store(); sink++; }
APART void for_child(void)
{
    pid_t child = twin();
    if (!child) { nap(60); _exit(0); }
    reap(child);
    sink++;
}
APART void busy(void) { long begin = now(CLOCK_THREAD_CPUTIME_ID); while (now(CLOCK_THREAD_CPUTIME_ID) - begin < 50000000) sink++; }
static long waited(void (*how)(void))
{
    long clock = now(CLOCK_MONOTONIC), cpu = now(CLOCK_THREAD_CPUTIME_ID);
    how();
    return now(CLOCK_MONOTONIC) - clock - (now(CLOCK_THREAD_CPUTIME_ID) - cpu);
}
int main(int count, char **words)
{
    void (*ways[])(void) = {asleep, for_lock, for_pipe, for_disk, for_child, busy};
    const char *names[] = {"asleep", "for_lock", "for_pipe", "for_disk", "for_child", "busy"};
    long spent[6] = {0};
    if (pipe(ends)) return 1;
    file = open(words[1], O_RDWR | O_CREAT, 0600);
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 6; i++) spent[i] += waited(ways[i]);
    printf("pid %d\n", getpid());
    for (int i = 0; i < 6; i++) printf("%s %ld\n", names[i], spent[i]);
    printf("cpu %ld\n", now(CLOCK_THREAD_CPUTIME_ID));
    return 0;
}
"""


def build(folder: Path, *flags: str) -> str:
    """Compile the program; its path."""
    source, program = folder / "waiting.c", folder / "waiting"
    source.write_text(PROGRAM)
    usual = ("-O1", "-g", "-fno-optimize-sibling-calls", "-pthread", "-w")
    subprocess.run(["gcc", *usual, *flags, "-o", program, source], check=True, timeout=60)
    return str(program)


def told(text: str) -> dict[str, int]:
    """What the program printed."""
    return {name: int(value) for name, value in (line.split() for line in text.splitlines())}
