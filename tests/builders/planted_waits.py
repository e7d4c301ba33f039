"""A C program with ten planted causes of waiting, one for each word on its command line.

Input: a folder. Output: the program. As root it runs with a real-time priority, so that other programs on the machine do not
become the cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.builders.probed import compiled

if TYPE_CHECKING:
    from pathlib import Path

#: word -> what the first sentence of the verdict says
CAUSES: Final = {
    "mutex": "for the mutex queue_lock in flush_queue()",
    "rwlock": "for the rwlock table_lock",
    "spin": "for a spinlock in count_hits()",
    "pipe": "for a pipe in consume()",
    "disk": "for the disk in save() (fsync)",
    "sleep": "in poll_later()",
    "child": "for a child process in main()",
    "cpu": "for a CPU",
    "inversion": "Priority inversion: high",
    "flock": "for a file lock in update_row()",
}

_SOURCE: Final = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#define APART __attribute__((noinline))

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static volatile unsigned long sink;

static double seconds(clockid_t clock) { struct timespec t; clock_gettime(clock, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
APART void burn(double s) { double end = seconds(CLOCK_THREAD_CPUTIME_ID) + s;
  do for (int i = 0; i < 20000; i++) sink += i; while (seconds(CLOCK_THREAD_CPUTIME_ID) < end); }
static void on_cpu(long number) { cpu_set_t allowed, one; CPU_ZERO(&one); sched_getaffinity(0, sizeof allowed, &allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) if (CPU_ISSET(cpu, &allowed) && !number--) CPU_SET(cpu, &one);
  sched_setaffinity(0, sizeof one, &one); }
static void priority(int number) { struct sched_param p = { .sched_priority = number };
  pthread_setschedparam(pthread_self(), SCHED_FIFO, &p); }
static void threads(int count, void *(*work)(void *)) { pthread_t all[8];
  for (long i = 0; i < count; i++) pthread_create(&all[i], 0, work, (void *)i);
  for (int i = 0; i < count; i++) pthread_join(all[i], 0); }

APART void flush_queue(void) { pthread_mutex_lock(&queue_lock); usleep(20000); pthread_mutex_unlock(&queue_lock); }
static void *flusher(void *unused) { for (int i = 0; i < 5; i++) flush_queue(); return unused; }

APART void rebuild(void) { pthread_rwlock_wrlock(&table_lock); usleep(40000); pthread_rwlock_unlock(&table_lock); }
APART void look_up(void) { pthread_rwlock_rdlock(&table_lock); burn(0.0005); pthread_rwlock_unlock(&table_lock); }
static void *table_user(void *number) {
  if (number == (void *)3) for (int i = 0; i < 9; i++) { rebuild(); usleep(300); }
  else for (int i = 0; i < 8; i++) { look_up(); usleep(1000); }
  return 0; }

APART void count_hits(void) { pthread_spin_lock(&spin); burn(0.02); pthread_spin_unlock(&spin); }
static void *counter(void *number) { on_cpu((long)number); for (int i = 0; i < 6; i++) count_hits(); return 0; }

APART void produce(int fd) { for (int i = 0; i < 8; i++) { usleep(40000); if (write(fd, "x", 1) != 1) _exit(1); } }
APART void consume(int fd) { char c; while (read(fd, &c, 1) == 1) burn(0.0005); }
APART void save(int fd) { char block[65536] = { 0 }; double end = seconds(CLOCK_MONOTONIC) + 0.4;
  while (seconds(CLOCK_MONOTONIC) < end) if (write(fd, block, sizeof block) < 0 || fsync(fd)) _exit(1); }
APART void poll_later(void) { struct timespec pause = { 0, 40000000 }; for (int i = 0; i < 8; i++) nanosleep(&pause, 0); }
static void *burner(void *unused) { burn(0.1); return unused; }

APART void low_section(void) { pthread_mutex_lock(&queue_lock); burn(0.05); pthread_mutex_unlock(&queue_lock); }
APART void high_section(void) { pthread_mutex_lock(&queue_lock); pthread_mutex_unlock(&queue_lock); }
static void *of_priority(void *number) {
  if (number == (void *)0) { pthread_setname_np(pthread_self(), "medium"); priority(20); usleep(30000); burn(0.3); }
  if (number == (void *)1) { pthread_setname_np(pthread_self(), "high"); priority(30); usleep(20000); high_section(); }
  if (number == (void *)2) { pthread_setname_np(pthread_self(), "low"); priority(10); low_section(); }
  return 0; }

APART void update_row(int fd) { flock(fd, LOCK_EX); usleep(25000); flock(fd, LOCK_UN); }
static void update_rows(const char *path) { int fd = open(path, O_CREAT | O_RDWR, 0600); for (int i = 0; i < 4; i++) update_row(fd); }

int main(int count, char **words) {
  const char *cause = count > 1 ? words[1] : ""; int ends[2], fd;
  if (strcmp(cause, "cpu")) { struct sched_param p = { .sched_priority = 5 }; sched_setscheduler(0, SCHED_FIFO, &p); }
  if (!strcmp(cause, "mutex")) threads(4, flusher);
  else if (!strcmp(cause, "rwlock")) threads(4, table_user);
  else if (!strcmp(cause, "spin")) { pthread_spin_init(&spin, 0); threads(2, counter); }
  else if (!strcmp(cause, "pipe")) { if (pipe(ends)) return 1;
    if (!fork()) { close(ends[0]); produce(ends[1]); _exit(0); } close(ends[1]); consume(ends[0]); }
  else if (!strcmp(cause, "disk")) { fd = open("planted.bin", O_CREAT | O_RDWR, 0600); save(fd); unlink("planted.bin"); }
  else if (!strcmp(cause, "sleep")) poll_later();
  else if (!strcmp(cause, "child")) { pid_t child = fork(); if (!child) { burn(0.3); _exit(0); } waitpid(child, 0, 0); }
  else if (!strcmp(cause, "cpu")) { on_cpu(0); threads(4, burner); }
  else if (!strcmp(cause, "inversion")) { on_cpu(0); threads(3, of_priority); }
  else if (!strcmp(cause, "flock")) { for (int i = 0; i < 3; i++) if (!fork()) { update_rows("planted.lock"); _exit(0); }
    update_rows("planted.lock"); while (wait(0) > 0); }
  else return 2;
  return 0; }
"""


def build(folder: Path) -> Path:
    """Return the program."""
    return compiled(folder, "planted", "-O1 -g -pthread", _SOURCE)
