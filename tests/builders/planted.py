"""Thirty programs, each with one planted cause of slowness, and the sentence that should name it.

A program says where its cause is: a line with the comment CAUSE, and the lines of the function around it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

_C: Final = """#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#define SECONDS 1.0
#define KEEP __attribute__((noinline))
volatile uint64_t sink;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static KEEP uint64_t spin(uint64_t rounds) {
    uint64_t x = 1;
    for (uint64_t i = 0; i < rounds; i++)
        x = x * 2862933555777941757u + 3037000493u;
    return x;
}
"""


class Planted(NamedTuple):
    """A program with a planted cause.

    Attributes:
        name: of the program.
        file: of its source; the ending is the language.
        source: its text.
        record: options of `perfpy record`, besides those that every program gets.
        cause: a regular expression that the first sentence matches.
        has_line: whether the sentence also names a line of the body of the function with the comment CAUSE.
        command: the program and its arguments; BUILT is the built program.
    """

    name: str
    file: str
    source: str
    cause: str
    record: tuple[str, ...] = ()
    has_line: bool = True
    command: tuple[str, ...] = ("BUILT",)

    def build(self, folder: Path) -> list[str]:
        """Write and compile the program; return its command."""
        path = folder / self.file
        path.write_text(self.source)
        built = folder / self.name
        compilers = {".c": ["gcc", "-O1", "-g", "-pthread"], ".cpp": ["g++", "-O1", "-g", "-pthread"], ".rs": ["rustc", "-O", "-g"]}
        if path.suffix in compilers:
            subprocess.run([*compilers[path.suffix], "-o", str(built), str(path)], check=True, timeout=120)
        else:
            built = path
        return [str(built) if word == "BUILT" else word for word in self.command]

    def lines(self) -> range:
        """Return the line numbers of the body of the function with the comment CAUSE: that of its begin is no statement."""
        texts = self.source.split("\n")
        cause = next(number for number, text in enumerate(texts, 1) if "CAUSE" in text)
        begin = max((number for number, text in enumerate(texts[:cause], 1) if re.match(r"\w.*[({:]", text)), default=1)
        ends = (number for number, text in enumerate(texts, 1) if number >= max(cause, begin + 1) and re.match(r"}|$|\S", text))
        return range(begin + 1, max(next(ends, cause), cause) + 1)


def _c(body: str) -> str:
    return _C + body


_PYTHON: Final = "/usr/bin/python3"

PLANTED: Final = (
    Planted(
        "checksum", "checksum.c",
        _c("""static KEEP uint64_t checksum(const unsigned char *data, size_t size) {
    uint64_t sum = 1;
    for (size_t i = 0; i < size; i++)
        sum = sum * 31 + data[i];  // CAUSE
    return sum;
}
static KEEP void audit(void) { static unsigned char data[1 << 16]; for (int i = 0; i < 100; i++) sink += checksum(data, sizeof data); }
int main(void) { double end = now() + SECONDS; while (now() < end) audit(); }
"""),
        r"% of the CPU time is in checksum\(\).*called from audit\(\)",
    ),
    Planted(
        "inlined", "inlined.c",
        _c("""static inline __attribute__((always_inline)) uint64_t checksum(const unsigned char *data, size_t size) {
    uint64_t sum = 1;
    for (size_t i = 0; i < size; i++)
        sum = sum * 31 + data[i];  // CAUSE
    return sum;
}
static unsigned char data[1 << 16];
int main(void) { double end = now() + SECONDS; while (now() < end) for (int i = 0; i < 100; i++) sink += checksum(data, sizeof data); }
"""),
        r"% of the CPU time is in checksum\(\)",
    ),
    Planted(
        "two_functions", "two.c",
        _c("""static KEEP void parse(void) { sink += spin(300000); }
static KEEP uint64_t hash(uint64_t rounds) {
    uint64_t x = 7;
    for (uint64_t i = 0; i < rounds; i++)
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;  // CAUSE
    return x;
}
int main(void) { double end = now() + SECONDS; while (now() < end) { parse(); sink += hash(300000); } }
"""),
        r"% of the CPU time is in (hash|spin)\(\).*% is in (hash|spin)\(\)",
    ),
    Planted(
        "lock", "lock.c",
        _c("""static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static KEEP void update(void) {
    pthread_mutex_lock(&mutex);  // CAUSE
    sink += spin(3000000);
    pthread_mutex_unlock(&mutex);
}
static void *work(void *arg) { double end = now() + SECONDS; while (now() < end) update(); return arg; }
int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
}
"""),
        r"threads waited .* for a lock.* in update\(\)",
    ),
    Planted(
        "lock_held_asleep", "held.c",
        _c("""static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void *holder(void *arg) { pthread_mutex_lock(&mutex); usleep(900000); pthread_mutex_unlock(&mutex); return arg; }
static KEEP void drain(void) {
    pthread_mutex_lock(&mutex);  // CAUSE
    pthread_mutex_unlock(&mutex);
}
int main(void) { pthread_t thread; pthread_create(&thread, 0, holder, 0); usleep(20000); drain(); pthread_join(thread, 0); }
"""),
        r"waited .* for a lock.* in drain\(\).*slept .* in holder\(\) \(held\.c:27\)",
    ),
    Planted(
        "disk", "disk.c",
        _c("""static KEEP void save(int file) {
    static char block[4096];
    for (int i = 0; i < 400; i++) {
        if (pwrite(file, block, sizeof block, (off_t)i * 4096) < 0) abort();
        fsync(file);  // CAUSE
    }
}
int main(void) { int file = open("disk.out", O_RDWR | O_CREAT, 0600); double end = now() + SECONDS; while (now() < end) save(file); }
"""),
        r"waited .* for the disk.* in save\(\)|in the system call (fsync|pwrite64)\(\) of save\(\)",
    ),
    Planted(
        "child", "child.c",
        _c("""static KEEP int run_tool(void) {
    int status = 0;
    pid_t child = fork();
    if (!child) { usleep(900000); _exit(0); }
    waitpid(child, &status, 0);  // CAUSE
    return status;
}
int main(void) { return run_tool(); }
"""),
        r"waited .* for a child process.* in run_tool\(\).*the child process slept .* in run_tool\(\) \(child\.c:29\)",
    ),
    Planted(
        "sleep", "sleep.c",
        _c("""static KEEP void nap(void) {
    for (int i = 0; i < 9; i++)
        usleep(100000);  // CAUSE
}
int main(void) { nap(); }
"""),
        r"slept .* in nap\(\)",
    ),
    Planted(
        "gil", "gil.py",
        """import threading
import time


def crunch(end):
    total = 0
    while time.time() < end:
        for number in range(20000):
            total += number * number  # CAUSE
    return total


end = time.time() + 1.2
threads = [threading.Thread(target=crunch, args=(end,)) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
""",
        r"Four threads waited .* \(GIL\).* in crunch\(\)",
        command=(_PYTHON, "BUILT"),
    ),
    Planted(
        "page_faults", "faults.c",
        _c("""static KEEP void touch(size_t size) {
    char *memory = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < size; i += 4096)
        memory[i] = 1;  // CAUSE
    munmap(memory, size);
}
int main(void) { double end = now() + SECONDS; while (now() < end) touch(64 << 20); }
"""),
        r"in page faults of touch\(\)",
    ),
    Planted(
        "fork_storm", "storm.c",
        _c("""static KEEP void spawn(void) {
    pid_t child = fork();  // CAUSE
    if (!child) _exit(0);
    waitpid(child, 0, 0);
}
int main(void) { double end = now() + SECONDS; while (now() < end) spawn(); }
"""),
        r"(?:started|in) [\d,]+ processes",
        has_line=False,
    ),
    Planted(
        "exec_storm", "storm.sh",
        """#!/bin/sh
i=0
while [ $i -lt 300 ]; do /bin/true; i=$((i + 1)); done  # CAUSE
""",
        r"(?:started|in) [\d,]+ processes",
        has_line=False,
        command=("/bin/sh", "BUILT"),
    ),
    Planted(
        "one_of_eight", "eight.c",
        _c("""static pthread_barrier_t barrier;
static KEEP uint64_t crunch(uint64_t rounds) {
    uint64_t x = 7;
    for (uint64_t i = 0; i < rounds; i++)
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;  // CAUSE
    return x;
}
static void *work(void *arg) {
    if (arg) { double end = now() + SECONDS; while (now() < end) sink += crunch(100000); }
    pthread_barrier_wait(&barrier);
    return 0;
}
int main(void) {
    pthread_t threads[7];
    pthread_barrier_init(&barrier, 0, 8);
    for (long i = 0; i < 7; i++) pthread_create(&threads[i], 0, work, (void *)(long)(i == 3));
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 7; i++) pthread_join(threads[i], 0);
}
"""),
        r"in crunch\(\).*one thread of eight is busy",
    ),
    Planted(
        "phases", "phases.c",
        _c("""static KEEP void load(void) { for (int i = 0; i < 100; i++) sink += spin(10000); }
static KEEP uint64_t solve(uint64_t rounds) {
    uint64_t x = 7;
    for (uint64_t i = 0; i < rounds; i++)
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;  // CAUSE
    return x;
}
int main(void) {
    double end = now() + 0.4;
    while (now() < end) load();
    end = now() + 0.8;
    while (now() < end) sink += solve(100000);
}
"""),
        r"% of the CPU time is in solve\(\).*% is in spin\(\).*called from load\(\)",
    ),
    Planted(
        "too_few", "few.c",
        _c("""int main(void) { sink += spin(8000000); }  // CAUSE
"""),
        r"Only \d+ samples?.*: (shares are uncertain|too few for shares)",
        has_line=False,
        record=("-F", "500"),
    ),
    Planted(
        "recursion", "fib.c",
        _c("""static KEEP uint64_t fib(uint64_t n) {
    if (n < 2)
        return n;
    return fib(n - 1) + fib(n - 2);  // CAUSE
}
int main(void) { double end = now() + SECONDS; while (now() < end) sink += fib(24); }
"""),
        r"in fib\(\) \((\d+ % at )?fib\.c:\d+\), which calls itself",
    ),
    Planted(
        "memcpy", "copy.c",
        _c("""static char from[32 << 20], to[32 << 20];
static KEEP void copy_rows(void) {
    for (int row = 0; row < 32; row++)
        memcpy(to + (row << 20), from + (row << 20), 1 << 20);  // CAUSE
    sink += to[sink & 1023];
}
int main(void) { double end = now() + SECONDS; while (now() < end) copy_rows(); }
"""),
        # the latter: most distributions strip the C library's internal names
        r"(in memcpy\(\) or memmove\(\), called from copy_rows\(\))|(in copy_rows\(\) \(\S+\) and the code it calls)",
    ),
    Planted(
        "malloc", "tree.c",
        _c("""static void *kept[4096];
static KEEP void build(void) {
    for (int i = 0; i < 4096; i++) {
        free(kept[i]);
        kept[i] = malloc(16 + (sink++ * 7919) % 3000);  // CAUSE
    }
}
int main(void) { double end = now() + SECONDS; while (now() < end) build(); }
"""),
        r"(in build\(\) \(\S+\) and the code it calls \(.*(malloc|free))|(in \S*(malloc|free|chunk)\S*\(\), called from build\(\))",
    ),
    Planted(
        "system_calls", "calls.c",
        _c("""static KEEP void ask(int file) {
    char byte;
    for (int i = 0; i < 10000; i++)
        if (pread(file, &byte, 1, 0) < 0) abort();  // CAUSE
}
int main(void) { int file = open("/dev/zero", O_RDONLY); double end = now() + SECONDS; while (now() < end) ask(file); }
"""),
        r"in the system call pread64\(\) of ask\(\)|in ask\(\) \(\S+\) and the code it calls",
    ),
    Planted(
        "python", "slow.py",
        """import time


def distance(left, right):
    total = 0
    for one, two in zip(left, right):
        total += one != two  # CAUSE
    return total


def search():
    words = [str(number) * 3 for number in range(60)]
    return min(distance(one, two) for one in words for two in words)


end = time.time() + 1.2
while time.time() < end:
    search()
""",
        r"in distance\(\)",
        command=(_PYTHON, "BUILT"),
    ),
    Planted(
        "python_recursion", "fibonacci.py",
        """import time


def fibonacci(n):
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)  # CAUSE


end = time.time() + 1.2
while time.time() < end:
    fibonacci(18)
""",
        r"in fibonacci\(\).*which calls itself",
        command=(_PYTHON, "BUILT"),
    ),
    Planted(
        "python_sleep", "naps.py",
        """import time


def poll_server():
    for _ in range(9):
        time.sleep(0.1)  # CAUSE


poll_server()
""",
        r"slept .* in poll_server\(\)",
        command=(_PYTHON, "BUILT"),
    ),
    Planted(
        "python_child", "runs.py",
        """import subprocess


def run_tool():
    subprocess.run(["sleep", "0.9"], check=True)  # CAUSE


run_tool()
""",
        r"waited .* for a child process.* in .*the child process \"sleep\" slept",
        command=(_PYTHON, "BUILT"),
    ),
    Planted(
        "node", "slow.js",
        """function checksum(data) {
  let sum = 1;
  for (let i = 0; i < data.length; i++) sum = (sum * 31 + data[i]) % 65521;  // CAUSE
  return sum;
}
const data = new Uint8Array(1 << 16);
const end = Date.now() + 1200;
let total = 0;
while (Date.now() < end) total += checksum(data);
""",
        r"in checksum\(\)",
        command=("node", "BUILT"),
    ),
    Planted(
        "templates", "sorting.cpp",
        """#include <algorithm>
#include <chrono>
#include <random>
#include <vector>
struct Row { int key; int value; };
template <class T> __attribute__((noinline)) void order(std::vector<T> &rows) {
    std::sort(rows.begin(), rows.end(), [](const T &a, const T &b) { return a.key < b.key; });  // CAUSE
}
int main() {
    std::mt19937 random(7);
    auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1000);
    std::vector<Row> rows(1 << 18);
    for (auto &row : rows) row.key = int(random());
    while (std::chrono::steady_clock::now() < end) { auto copy = rows; order(copy); }
}
""",
        r"order<.*\(\)",
    ),
    Planted(
        "strings", "join.cpp",
        """#include <chrono>
#include <string>
#include <vector>
__attribute__((noinline)) std::string join(const std::vector<std::string> &words) {
    std::string text;
    for (const auto &word : words)
        text = text + word + ",";  // CAUSE
    return text;
}
int main() {
    auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1000);
    std::vector<std::string> words(3000, "measure");
    size_t total = 0;
    while (std::chrono::steady_clock::now() < end) total += join(words).size();
    return total == 1;
}
""",
        r"join\(\)",
    ),
    Planted(
        "pipe", "pipe.c",
        _c("""static KEEP void consume(int file) {
    char byte;
    while (read(file, &byte, 1) == 1)  // CAUSE
        sink++;
}
int main(void) {
    int ends[2];
    if (pipe(ends)) abort();
    if (!fork()) { close(ends[0]); for (int i = 0; i < 9; i++) { usleep(100000); if (write(ends[1], "x", 1) < 0) abort(); } _exit(0); }
    close(ends[1]);
    consume(ends[0]);
}
"""),
        r"waited .* for a pipe.* in consume\(\).*the child process that woke it slept .* in main\(\) \(pipe\.c:34\)",
    ),
    Planted(
        "socket", "socket.c",
        _c("""static KEEP void receive(int file) {
    char byte;
    while (recv(file, &byte, 1, 0) == 1)  // CAUSE
        sink++;
}
static void *serve(void *arg) {
    int *ends = arg;
    for (int i = 0; i < 9; i++) { usleep(100000); send(ends[1], "x", 1, 0); }
    close(ends[1]);
    return 0;
}
int main(void) {
    int ends[2];
    pthread_t thread;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) abort();
    pthread_create(&thread, 0, serve, ends);
    receive(ends[0]);
    pthread_join(thread, 0);
}
"""),
        r"waited .* for a socket.* in receive\(\).*the thread that woke it slept .* in serve\(\) \(socket\.c:33\)",
    ),
    Planted(
        "condition", "queue.c",
        _c("""static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ready = PTHREAD_COND_INITIALIZER;
static KEEP void wait_for_job(void) {
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 1;
    pthread_mutex_lock(&mutex);
    pthread_cond_timedwait(&ready, &mutex, &limit);  // CAUSE
    pthread_mutex_unlock(&mutex);
}
int main(void) { wait_for_job(); }
"""),
        r"waited .* for a condition.* in wait_for_job\(\)",
    ),
    Planted(
        "flat", "flat.c",
        _c("\n".join(
            f"static KEEP uint64_t step{number}(uint64_t x) {{\n"
            f"    for (int i = 0; i < 3000; i++) x = x * {number * 2 + 3} + i;\n    return x;\n}}"
            for number in range(24))
           + "\nint main(void) { double end = now() + SECONDS; while (now() < end) {"
           + " ".join(f"sink = step{number}(sink);" for number in range(24)) + " } }  // CAUSE\n"),
        r"No function stands out",
        has_line=False,
    ),
    Planted(
        "idle_machine", "idle.sh", "#!/bin/sh\nsleep 1  # CAUSE\n", r"The CPUs were idle \d+ % of the time",
        record=("-a", "-e", "cpu-clock"), has_line=False, command=("/bin/sh", "BUILT"),
    ),
)  # fmt: skip


def recorder(planted: Planted) -> list[str]:
    """Return the options of `perfpy record` for a program: stacks as its language needs, and waits."""
    language = {".py": ["--python"], ".js": ["--jit"]}.get(Path(planted.file).suffix, ["--unwind"])
    return [*planted.record] if "-a" in planted.record else [*language, "--off-cpu", *planted.record]


def is_missing(planted: Planted) -> str:
    """Return the missing tool that a program needs, "" if all are there."""
    needed = {".c": "gcc", ".cpp": "g++", ".py": _PYTHON, ".js": "node"}.get(Path(planted.file).suffix, "sh")
    return "" if shutil.which(needed) else needed


def verdict_of(planted: Planted, folder: Path) -> list[str]:
    """Record a program; return the sentences of the verdict."""
    command = planted.build(folder)
    data = folder / f"{planted.name}.data"
    record = [sys.executable, "-m", "perfpy", "record", "-q", *recorder(planted), "-o", str(data), "--", *command]
    subprocess.run(record, cwd=folder, check=True, timeout=120, stdout=subprocess.DEVNULL)
    show = [sys.executable, "-m", "perfpy", "report", "--verdict", "-i", str(data)]
    return subprocess.run(show, check=True, timeout=120, stdout=subprocess.PIPE, text=True).stdout.splitlines()


def names_cause(planted: Planted, sentence: str) -> bool:
    """Whether a sentence names the cause, and a line of its function."""
    if not re.search(planted.cause, sentence):
        return False
    lines = [int(number) for number in re.findall(rf"{re.escape(planted.file)}:(\d+)", sentence)]
    return not planted.has_line or any(line in planted.lines() for line in lines)
