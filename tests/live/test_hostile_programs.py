"""Programs of another user that lie to root's recorder, or change while it reads them."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.builders.other_users import GID, UID, needs_root
from tests.builders.prepared_start import PERFPY, output_of
from tests.builders.pythons import interpreter
from tests.builders.terminals import on_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator


# Programs of another user that lie to root's recorder, or change while it reads them.


CHECKOUT = Path(__file__).resolve().parents[2]
RECORD = ["record", "-o", "perf.data", "-e", "cpu-clock:u", "-F", "499"]


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


@pytest.mark.live
@needs_root
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.thorough
def test_a_library_that_its_owner_truncates_stops_neither_the_recorder_nor_the_report(theirs: Path, tmp_path: Path):
    library = compiled(theirs, "library.so", LIBRARY, "-shared", "-fPIC", "-Wl,-z,separate-code")
    program = compiled(theirs, "program", TRUNCATING, "-ldl")
    with running(program, library) as pid:
        result = perfpy(tmp_path, *RECORD, "--unwind", "-p", str(pid), "--", "sleep", "1.5")
        assert result.returncode == 0, result.stderr
        assert "the unwinding process has ended" not in result.stderr
        for _ in range(4):
            result = perfpy(tmp_path, "report", "--stdio")
            assert result.returncode == 0, result.stderr
            assert "Traceback" not in result.stderr


# -- mappings by the ten thousand, which change while they are read, of files that are fifos, links and gone by then --------------------

MAPPINGS = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>
int main(int count, char **words)
{
    unsigned char loop[] = {0x48, 0xff, 0xc0, 0xeb, 0xfb};
    chdir(words[1]);
    int fd = open("library0.so", O_RDWR | O_CREAT, 0755);
    ftruncate(fd, 8192);
    for (int i = 0; i < 8000; i++)
        mmap(0, 4096, i & 1 ? PROT_READ | PROT_EXEC : PROT_READ, MAP_PRIVATE, fd, 4096 * (i & 1));
    for (int i = 1; i < 20; i++) {
        char path[20];
        sprintf(path, "library%d.so", i);
        int file = open(path, O_RDWR | O_CREAT, 0755);
        write(file, "\\x7f" "ELF\\2\\1\\1", 7);
        ftruncate(file, 8192);
        mmap(0, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
        unlink(path);
        if (i & 1) mkfifo(path, 0666);
        else if (i & 2) symlink("/dev/zero", path);
    }
    puts("ready");
    fflush(stdout);
    void *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE, fd, 0);
    memcpy(code, loop, 5);
    if (!fork()) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        ((void (*)(void))code)();
    }
    for (;;) {
        void *other = mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
        munmap(other, 4096);
    }
}
"""


@pytest.mark.live
@needs_root
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the program has code of x86-64")
@pytest.mark.thorough
def test_mappings_of_files_that_are_replaced_block_nothing(theirs: Path, tmp_path: Path):
    program = compiled(theirs, "program", MAPPINGS)
    with running(program, str(theirs)) as pid:
        result = perfpy(tmp_path, *RECORD, "--unwind", "-p", str(pid), "--", "sleep", "0.5")
        assert result.returncode == 0, result.stderr
        result = perfpy(tmp_path, "report", "--stdio")
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr


# -- threads that are called what a terminal obeys, made and gone by the thousand, which wait for each other -----------------------------

STORM = """
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
volatile long sink;
void *wait_for_others(void *unused)
{
    prctl(PR_SET_NAME, "\\x1b]0;pwn\\a\\n\\r");
    for (;;) {
        pthread_mutex_lock(&lock);
        sink++;
        pthread_mutex_unlock(&lock);
        if (!(sink & 63)) usleep(1);
    }
}
void *end_at_once(void *unused) { prctl(PR_SET_NAME, "\\x1b[2J;\\xff\\t"); return 0; }
int main(void)
{
    pthread_t thread;
    for (int i = 0; i < 4; i++) pthread_create(&thread, 0, wait_for_others, 0);
    puts("ready");
    fflush(stdout);
    for (;;) {
        pthread_create(&thread, 0, end_at_once, 0);
        pthread_join(thread, 0);
    }
}
"""


@pytest.mark.live
@needs_root
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.thorough
def test_a_storm_of_threads_with_names_for_terminals_is_recorded(theirs: Path, tmp_path: Path):
    program = compiled(theirs, "program", STORM, "-lpthread")
    with running(program) as pid:
        result = perfpy(tmp_path, "record", "--off-cpu", "-o", "perf.data", "-p", str(pid), "--", "sleep", "0.5")
    assert result.returncode == 0, result.stderr
    lines = perfpy(tmp_path, "script", "-F", "comm,tid,ip").stdout
    assert "\x1b]0;pwn" in lines
    screen = subprocess.run(
        ["script", "-qec", f"{sys.executable} -m perfpy report --stdio", "/dev/null"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(CHECKOUT), "PAGER": "cat", "HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert b"]0;pwn" in screen.stdout
    assert b"\x1b]0;" not in screen.stdout


# -- the current folder of another user: none of its modules is imported ------------------------------------------------------------------

MODULES = ["json", "numpy", "perfpy", "click", "struct", "sitecustomize", "usercustomize", "os", "zstandard", "pyarrow"]


@pytest.mark.live
@needs_root
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.parametrize(
    "words", [["record", "-o", "perf.data", "-e", "cpu-clock", "--", "true"], ["report", "--stdio", "-i", "perf.data"]]
)
def test_the_command_imports_nothing_from_the_current_folder(words: list[str], theirs: Path):
    command = Path(sys.executable).with_name("perfpy")
    assert command.exists(), "perfpy is installed as a command"
    for name in MODULES:
        (theirs / f"{name}.py").write_text(f"open({str(theirs / 'hijacked')!r}, 'w')\n")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    recorded = [str(command), "record", "-o", "perf.data", "-e", "cpu-clock", "--", "true"]
    for each in (recorded, [str(command), *words]):
        process = subprocess.run(each, cwd=theirs, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert process.returncode == 0, process.stderr
    assert not (theirs / "hijacked").exists()


@pytest.mark.live
@needs_root
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_a_profile_imports_nothing_from_the_current_folder(theirs: Path):
    (theirs / "json.py").write_text(f"open({str(theirs / 'hijacked')!r}, 'w')\n")
    program = "import perfpy\nwith perfpy.profile(events='cpu-clock') as found: sum(range(10**6))\nprint(found.report().samples >= 0)"
    command = [sys.executable, "-P", "-c", program]
    process = subprocess.run(
        command, cwd=theirs, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stdout) == (0, "True\n"), process.stderr
    assert not (theirs / "hijacked").exists()


@pytest.mark.live
@needs_root
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_two_recorders_of_one_file_leave_whole_recordings(tmp_path: Path):
    """Both rotate it, and one of them may lose its name; neither writes into the file of the other."""
    words = [sys.executable, "-m", "perfpy", "record", "-o", "perf.data", "-e", "cpu-clock", "--", "sleep", "0.3"]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "HOME": str(tmp_path)}
    both = [subprocess.Popen(words, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    for one in both:
        _, text = one.communicate(timeout=60)
        assert "Traceback" not in text
    for path in tmp_path.glob("perf.data*"):
        assert perfpy(tmp_path, "script", "-i", path.name).returncode == 0


# record --python of a program that lies about itself: names of 10 GB, endless lists, memory that is not there or never comes.


VERSION = "3.12"
HONEST = """
import ctypes, os, random, sys, time
def word(address): return ctypes.c_uint64.from_address(address)
def spin(n):
    x = 1
    for _ in range(n): x = (x * 1103515245 + 12345) & 0x7fffffff
def honest(): spin(3000)
def liar(): spin(3000)
QUALNAME, LINES = 128, 136  # of a code object
"""
#: turns of random order keep it out of step with the sampling
LOOP = """
print("ready", flush=True)
end = time.time() + 300
while time.time() < end: random.choice((honest, liar))()
"""
ENOUGH_SAMPLES = 400  # a share of 50 % is then off by 15 points once in 500 million runs
#: what a program does to its own memory
LIES = {
    "a name of 10 GB": "word(word(id(liar.__code__) + QUALNAME).value + 16).value = 10 << 30",
    "a line table of 1 TB": "word(word(id(liar.__code__) + LINES).value + 16).value = 1 << 40",
    "a name that is not there": "word(id(liar.__code__) + QUALNAME).value = 0x123450",
    "a name that is no text": "word(id(liar.__code__) + QUALNAME).value = id(liar)",
    # the thread states of 3.12 are linked at 8
    "threads without an end": """
get = ctypes.pythonapi.PyThreadState_Get; get.restype = ctypes.c_void_p
word(get() + 8).value = get()
""",
    # a last holder of the lock that is not there: of the interpreter's state (at 16), whose lock is at 384
    "a lock that nobody holds": """
get = ctypes.pythonapi.PyThreadState_Get; get.restype = ctypes.c_void_p
word(word(word(get() + 16).value + 384).value + 8).value = 0x123450
""",
    # a page that userfaultfd watches: who reads it waits for ever
    "a name that never comes": """
import fcntl, mmap, struct
libc = ctypes.CDLL(None, use_errno=True)
fault = libc.syscall(323, os.O_CLOEXEC | os.O_NONBLOCK)
assert fault >= 0
fcntl.ioctl(fault, 0xC018AA3F, bytearray(struct.pack("QQQ", 0xAA, 0, 0)))
page = mmap.mmap(-1, 1 << 16)
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
fcntl.ioctl(fault, 0xC020AA00, bytearray(struct.pack("QQQQ", address, 1 << 16, 1, 0)))
word(id(liar.__code__) + QUALNAME).value = address
""",
}
LONGEST = 300  # seconds: the machine may be busy
MOST_MEMORY = 700 << 20


@pytest.fixture(scope="module")
def python() -> str:
    program = interpreter(VERSION)
    if not program:
        pytest.skip(f"no Python {VERSION} on this machine")
    return program


def recorded(folder: Path, python: str, lie: str) -> subprocess.CompletedProcess[str]:
    """Record a program that lies, for a second, or longer on a busy machine."""
    (folder / "program.py").write_text(HONEST + lie + LOOP)
    with subprocess.Popen([python, "program.py"], cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            words = ["record", "--python", "-o", "perf.data", "-e", "cpu-clock", "-F", "999", "-p", str(process.pid), "--", "sleep"]
            for seconds in ("1", "4", "16"):
                result = subprocess.run(
                    [sys.executable, "-m", "perfpy", *words, seconds],
                    cwd=folder,
                    capture_output=True,
                    text=True,
                    timeout=LONGEST,
                    check=False,
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY * 3, MOST_MEMORY * 3)),
                )
                samples = re.search(r"\((\d+) samples\)", result.stderr)
                if result.returncode or (samples and int(samples[1]) >= ENOUGH_SAMPLES):
                    break
            return result
        finally:
            process.kill()


def shares(folder: Path) -> dict[str, float]:
    command = [*PERFPY, "report", "--stdio", "-s", "pyfunc", "--children", "-g", "none", "--percent-limit", "0"]
    text = output_of(command, cwd=folder, timeout=LONGEST)
    return {match[2]: float(match[1]) for match in re.finditer(r"^ +([\d.]+)% +[\d.]+%  (\S.*?) \S*program\.py *$", text, re.MULTILINE)}


@pytest.mark.live
@pytest.mark.particular
@pytest.mark.parametrize("lie", [lie for lie in LIES if lie != "a name that never comes"])
@pytest.mark.thorough
def test_false_memory_costs_only_its_own_processes_frames(lie: str, python: str, tmp_path: Path):
    result = recorded(tmp_path, python, LIES[lie])
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr
    assert re.search(r"\d+ functions in \d+ of \d+ samples of Python code", result.stderr)
    actual_shares = shares(tmp_path)
    assert actual_shares["honest"] == pytest.approx(50, abs=15)
    assert actual_shares["spin"] > 60
    assert (tmp_path / "perf.data").stat().st_size < 16 << 20


@pytest.mark.live
@pytest.mark.particular
@pytest.mark.thorough
def test_memory_that_never_comes_blocks_nothing(python: str, tmp_path: Path):
    """The reader waits for it; the recorder does not wait for the reader, and ends it."""
    began = time.monotonic()
    result = recorded(tmp_path, python, LIES["a name that never comes"])
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr
    assert time.monotonic() - began < LONGEST
    text = output_of([*PERFPY, "script", "-F", "ip,sym"], cwd=tmp_path, timeout=LONGEST)
    samples = text.strip().split("\n\n")
    assert sum("_PyEval_EvalFrameDefault" in sample for sample in samples) > 0.9 * len(samples) > 10


@pytest.mark.live
@pytest.mark.particular
def test_processes_whose_memory_may_not_be_read_are_reported(tmp_path: Path, python: str):
    """A program that is no Python, though its library is called so."""
    (tmp_path / "libpython3.12.so.1.0").write_bytes(b"\x7fELF" + bytes(4096))
    lie = f"""
import mmap
file = open({str(tmp_path / "libpython3.12.so.1.0")!r}, "rb"); lied = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
"""
    result = recorded(tmp_path, python, lie)
    assert result.returncode == 0, result.stderr
    assert shares(tmp_path)["liar"] == pytest.approx(50, abs=15)


# perfpy top of root on hostile programs of another user: names for terminals, perf maps that are fifos, threads by the thousand.


#: generated code that the perf map names; a library of holes; threads that begin and end
SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>
void *end_at_once(void *unused) { prctl(PR_SET_NAME, "\x1b[2J;\xff\t"); return 0; }
void *storm(void *unused)
{
    pthread_t thread;
    for (;;) {
        pthread_create(&thread, 0, end_at_once, 0);
        pthread_join(thread, 0);
    }
}
int main(int count, char **words)
{
    unsigned char loop[] = {0x48, 0xff, 0xc0, 0xeb, 0xfb};
    char path[40];
    prctl(PR_SET_NAME, "\x1b]0;pwn\a\n\r");
    sprintf(path, "/tmp/perf-%d.map", getpid());
    unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, loop, 5);
    if (words[1][0] == 'f') mkfifo(path, 0666);
    else {
        FILE *file = fopen(path, "w");
        fprintf(file, "%lx 1000 \x1b]0;map\a \xe5\x96\xb5\xe5\x96\xb5 \xe2\x80\xae" "desrever\r\x9b" "31m\n", (long)code);
        fclose(file);
    }
    int holes = open(words[2], O_RDWR | O_CREAT, 0755);
    write(holes, "\x7f" "ELF\2\1\1", 7);
    ftruncate(holes, 1L << 40);
    mmap(0, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, holes, 0);
    pthread_t thread;
    pthread_create(&thread, 0, storm, 0);
    signal(SIGALRM, SIG_DFL);
    alarm(120);
    puts("ready");
    fflush(stdout);
    ((void (*)(void))code)();
}
"""


@pytest.fixture
def hostile(request: pytest.FixtureRequest, theirs: Path) -> Iterator[int]:
    """The pid of the program, which runs as another user. Its perf map is a file or a fifo."""
    subprocess.run(["gcc", "-w", "-x", "c", "-o", theirs / "program", "-", "-lpthread"], input=SOURCE, text=True, check=True, timeout=60)
    command = ["setpriv", f"--reuid={UID}", f"--regid={GID}", "--clear-groups", theirs / "program", request.param, theirs / "libholes.so"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, process_group=0) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process.pid
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"/tmp/perf-{process.pid}.map")


#: what a screen writes: colours, positions, clearing, the other screen, the cursor
_OURS = re.compile(r"\x1b\[[\d;]*[mHJK]|\x1b\[\?(?:1049|25)[hl]")


@pytest.mark.live
@needs_root
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the program has code of x86-64")
@pytest.mark.parametrize(
    ("hostile", "options"),
    [("map", []), ("map", ["--stdio"]), ("fifo", ["--python"])],
    ids=["screen", "text", "python"],
    indirect=["hostile"],
)
@pytest.mark.thorough
def test_names_command_no_terminal_and_files_block_nothing(hostile: int, options: list[str]):
    words = ["-e", "cpu-clock:u", "-s", "comm,dso,symbol", "-d", "0.5", "--updates", "3", "-p", str(hostile), *options]
    screen_text = on_terminal("top", *words, columns=100)
    assert screen_text.status == 0, screen_text.text[-2000:]
    assert "Traceback" not in screen_text.text
    assert "^[]0;pwn" in screen_text.text
    rest = _OURS.sub("", screen_text.text)
    assert [character for character in "\x1b\x07\x9b\r\u202e" if character in rest] == []
