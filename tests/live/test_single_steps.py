"""Tests of perfpy trace --calls by single-stepping, with programs whose calls are known, some of which debuggers can disturb."""

from __future__ import annotations

import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="single-stepping knows the code of x86-64"),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler"),
]

HEAD = """
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define OWN __attribute__((noinline, noclone))
volatile int n;
OWN void leaf(void) { n++; }
"""

FLOW = """
static jmp_buf env;
static void (*volatile pointer)(void) = leaf;
OWN int fib(int k) { int r = k; if (k > 1) { r = fib(k - 1); r += fib(k - 2); n++; } return r; }
OWN void deep(int k) { if (k == 0) longjmp(env, 1); deep(k - 1); n++; }
OWN int last(int k) { leaf(); return k + 1; }
OWN int tail(int k) { leaf(); return last(k); }
OWN void handler(int s) { leaf(); }
OWN void interrupted(void) { raise(SIGUSR2); leaf(); }
int main(void) {
    n += fib(7);
    for (int i = 0; i < 3; i++) { if (!setjmp(env)) deep(4); leaf(); }
    char stack[65536];  /* above the interrupted code */
    sigaltstack(&(stack_t){ .ss_sp = stack, .ss_size = sizeof stack }, 0);
    sigaction(SIGUSR2, &(struct sigaction){ .sa_handler = handler, .sa_flags = SA_ONSTACK }, 0);
    interrupted(); interrupted();
    n += tail(1);
    for (int i = 0; i < 5; i++) pointer();
    return 7;
}
"""
#: function -> calls: fib(7) has 41; deep: three times from 4 to 0; leaf: 3 + 2 + 2 + 1 + 1 + 5
FLOW_CALLS = {"fib": 41, "deep": 15, "last": 1, "tail": 1, "handler": 2, "interrupted": 2, "leaf": 14, "main": 1}

TASKS = """
OWN void worker(int k) { for (int i = 0; i < k; i++) leaf(); }
OWN void *run(void *k) { worker((long)k); return 0; }
int main(int argc, char **argv) {
    pthread_t a, b;
    pthread_create(&a, 0, run, (void *)5);
    pthread_create(&b, 0, run, (void *)7);
    pthread_join(a, 0);
    pthread_join(b, 0);
    if (!fork()) { worker(2); execl(argv[1], "other", (char *)0); _exit(9); }
    int status;
    wait(&status);
    worker(WEXITSTATUS(status));
    kill(getpid(), SIGTERM);
    pause();
}
"""

TRAPS = """
static volatile int code;
OWN void handler(int s, siginfo_t *i, void *c) { leaf(); code = i->si_code; }
int main(void) {
    sigaction(SIGTRAP, &(struct sigaction){ .sa_sigaction = handler, .sa_flags = SA_SIGINFO }, 0);
    unsigned long flags;
    __asm__ volatile("int3"); printf("int3 %d %d\\n", n, code);
    raise(SIGTRAP); printf("raise %d %d\\n", n, code);
    kill(getpid(), SIGTRAP); printf("kill %d %d\\n", n, code);
    __asm__ volatile("pushfq; popq %0" : "=r"(flags)); printf("flags %lu\\n", flags >> 8 & 1);
    __asm__ volatile("pushfq; popfq"); printf("set flags %d\\n", n);
    sigset_t trap; sigemptyset(&trap); sigaddset(&trap, SIGTRAP);
    sigprocmask(SIG_BLOCK, &trap, 0); raise(SIGTRAP); printf("blocked %d\\n", n);
    sigprocmask(SIG_UNBLOCK, &trap, 0); printf("unblocked %d\\n", n);
    signal(SIGTRAP, SIG_IGN); raise(SIGTRAP); printf("ignored %d\\n", n);
    pid_t child = fork();
    if (!child) { raise(SIGSTOP); leaf(); _exit(4); }
    int status;
    waitpid(child, &status, WUNTRACED); printf("stopped %d\\n", WIFSTOPPED(status) ? WSTOPSIG(status) : 0);
    kill(child, SIGCONT); waitpid(child, &status, 0); printf("continued %d\\n", WEXITSTATUS(status));
    child = fork();
    if (!child) for (;;) leaf();
    usleep(20000); kill(child, SIGKILL); waitpid(child, &status, 0); printf("killed %d\\n", WTERMSIG(status));
    fflush(0); signal(SIGTRAP, SIG_DFL);
    __asm__ volatile("int3");
}
"""


@pytest.fixture
def build(tmp_path: Path) -> Any:
    """Compile a program; return its path."""

    def compiled(text: str, *options: str, name: str = "program", compiler: str = "gcc") -> str:
        source = tmp_path / f"{name}.{'cc' if compiler == 'g++' else 'c'}"
        source.write_text(text)
        subprocess.run([compiler, "-O1", "-foptimize-sibling-calls", "-w", "-o", tmp_path / name, source, "-pthread", *options], check=True)
        return str(tmp_path / name)

    return compiled


def steps(tmp_path: Path, *words: str, options: tuple[str, ...] = (), calls: str = "--calls") -> tuple[int, list[dict[str, Any]], str, str]:
    """Step a program; return the exit status, the calls, and what it wrote to standard output and error."""
    path = tmp_path / "calls.json"
    command = [sys.executable, "-m", "perfpy", "trace", calls, "--calls-from", "steps", "--json", "-o", str(path), *options, "--", *words]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if "cannot single-step the program" in ran.stderr:
        pytest.skip(ran.stderr)
    assert "internal error" not in ran.stderr
    return ran.returncode, [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else [], ran.stdout, ran.stderr


def counts(calls: list[dict[str, Any]], names: Any) -> dict[str, int]:
    found = Counter(call["function"] for call in calls)
    return {name: found[name] for name in names}


@pytest.mark.parametrize("options", [(), ("-static",), ("-no-pie", "-Wl,-z,now", "-fno-plt")], ids=["lazy", "static", "bound"])
def test_recursion_jumps_tail_calls_and_handlers(build: Any, tmp_path: Path, options: tuple[str, ...]) -> None:
    status, calls, _, _ = steps(tmp_path, build(HEAD + FLOW, *options))
    assert (status, counts(calls, FLOW_CALLS)) == (7, FLOW_CALLS)
    by_name = {name: [call for call in calls if call["function"] == name] for name in FLOW_CALLS}
    base = by_name["main"][0]["depth"]
    assert [call["depth"] - base for call in by_name["deep"]] == [1, 2, 3, 4, 5] * 3
    assert {call["depth"] - base for call in by_name["interrupted"]} == {1}  # not left by a handler above them
    depths = [call["depth"] - base for call in by_name["leaf"]]
    assert (depths[:3], depths[4], depths[-7:]) == ([1] * 3, 2, [2, 3, 1, 1, 1, 1, 1])
    fib = by_name["fib"]
    assert fib[0]["instructions"] == max(call["instructions"] for call in fib) > sum(call["instructions"] for call in fib[1:3])
    assert all(call["returned"] for name in ("fib", "deep", "leaf", "handler", "tail") for call in by_name[name])
    if options != ("-static",):  # names of the library's symbol table, by stubs and without
        assert Counter(call["function"] for call in calls if call["depth"] == base + 1)["_setjmp"] == 3
        assert counts(calls, ["raise"]) == {"raise": 2}


def test_calls_of_a_stripped_program_are_counted_by_address(build: Any, tmp_path: Path) -> None:
    program = build(HEAD + FLOW, "-s")
    status, calls, _, _ = steps(tmp_path, program)
    own = Counter(call["function"] for call in calls if call["function"].startswith("program+0x"))
    assert status == 7
    assert sorted(own.values())[-3:] == [10, 15, 41]  # leaf, without four jumps that nothing tells apart from loops; deep; fib


def test_threads_children_and_other_programs(build: Any, tmp_path: Path) -> None:
    other = build(HEAD + "int main(void) { leaf(); leaf(); leaf(); return 3; }", name="other")
    status, calls, _, _ = steps(tmp_path, build(HEAD + TASKS), other, calls="--calls=leaf,worker,main")
    assert status == 128 + signal.SIGTERM
    by_task = Counter((call["pid"] == call["tid"], call["comm"]) for call in calls if call["function"] == "leaf")
    assert by_task == {(False, "program"): 12, (True, "program"): 3, (True, "other"): 5}
    assert counts(calls, ["worker", "main"]) == {"worker": 4, "main": 2}
    assert len({call["tid"] for call in calls}) == 4


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
def test_exceptions_leave_calls(build: Any, tmp_path: Path) -> None:
    text = """
    #define OWN extern "C" __attribute__((noinline))
    volatile int n;
    OWN void leaf() { n++; }
    OWN void thrower(int k) { if (!k) throw 1; thrower(k - 1); n++; }
    OWN void catcher() { try { thrower(3); } catch (int) { leaf(); } }
    int main() { catcher(); leaf(); return 5; }
    """
    status, calls, _, _ = steps(tmp_path, build(text, compiler="g++"), calls="--calls=leaf,thrower,catcher,main")
    assert status == 5
    base = calls[0]["depth"]
    shown = [(call["function"], call["depth"] - base) for call in calls]
    assert shown == [("main", 0), ("catcher", 1), *(("thrower", 2 + k) for k in range(4)), ("leaf", 2), ("leaf", 1)]


def test_signals_reach_the_program_as_ever(build: Any, tmp_path: Path) -> None:
    """SIGTRAP is the program's own where a step has not made it, the flags have no bit of stepping, and stops and ends are the same."""
    program = build(HEAD + TRAPS)
    plain = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    status, calls, output, _ = steps(tmp_path, program, calls="--calls=handler,leaf")
    assert output == plain.stdout
    assert (-plain.returncode, status) == (signal.SIGTRAP, 128 + signal.SIGTRAP)
    assert counts(calls, ["handler"])["handler"] >= 3


def test_a_program_that_traces_itself_is_refused_by_the_kernel(build: Any, tmp_path: Path) -> None:
    status, _, output, _ = steps(
        tmp_path, build(HEAD + 'int main(void) { long r = ptrace(PTRACE_TRACEME, 0, 0, 0); printf("%ld %d", r, errno); return 2; }')
    )
    assert (status, output) == (2, f"-1 {1}")


def test_another_thread_executes_a_program(build: Any, tmp_path: Path) -> None:
    text = """
    OWN void *spin(void *a) { for (;;) leaf(); }
    OWN void *other(void *path) { leaf(); execl(path, "other", (char *)0); _exit(9); }
    int main(int argc, char **argv) {
        pthread_t a, b;
        pthread_create(&a, 0, spin, 0);
        pthread_create(&b, 0, other, argv[1]);
        pause();
    }
    """
    other = build(HEAD + "OWN void after(void) { n++; } int main(void) { after(); return 6; }", name="other")
    status, calls, _, _ = steps(tmp_path, build(HEAD + text), other, calls="--calls=leaf,after,other")
    assert status == 6
    assert counts(calls, ["after", "other"]) == {"after": 1, "other": 1}


def test_a_32_bit_program_is_left_alone(tmp_path: Path) -> None:
    code = bytes.fromhex("b801000000 bb2a000000 cd80")  # exit(42)
    start, size = 0x8048000, 0x54 + len(code)
    header = b"\x7fELF\1\1\1".ljust(16, b"\0") + struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, start + 0x54, 52, 0, 0, 52, 32, 1, 0, 0, 0)
    program = tmp_path / "small"
    program.write_bytes(header + struct.pack("<8I", 1, 0, start, start, size, size, 5, 4096) + code)
    program.chmod(0o755)
    try:
        assert subprocess.run([program], timeout=60, check=False).returncode == 42
    except OSError:
        pytest.skip("this kernel runs no 32-bit programs")
    command = [sys.executable, "-m", "perfpy", "trace", "--calls", "--", str(program)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 42
    assert "executes a 32-bit program, which is not followed" in ran.stderr


def test_the_program_runs_on_after_the_limit(build: Any, tmp_path: Path) -> None:
    """A wait in the kernel when the limit comes is not cut, and the program ends as ever."""
    text = "int main(void) { leaf(); int r = poll(0, 0, 2500); for (long i = 0; i < 1 << 26; i++) leaf(); return r ? 9 : 4; }"
    program = build(HEAD + "#include <poll.h>\n" + text)
    command = [sys.executable, "-m", "perfpy", "trace", "--calls=leaf", "--calls-from", "steps:1s", "--", program]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 4
    assert "handed over after 1 s: the program ran on at full speed; later calls are missing" in ran.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR2])
def test_a_signal_ends_the_trace(build: Any, number: signal.Signals, tmp_path: Path) -> None:
    program = build(
        HEAD
        + 'int main(int c, char **v) { leaf(); fclose(fopen(v[1], "w"));\nfor (int i = 0; i < 999; i++) leaf(), usleep(999); return 3; }'
    )
    ready = tmp_path / "ready"
    command = [sys.executable, "-m", "perfpy", "trace", "--calls=leaf", "--calls-from", "steps", "--", program, str(ready)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not ready.exists() and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(number)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == (3 if number == signal.SIGUSR2 else 0)
    assert "single-stepped: " in errors
    assert " leaf\n" in errors


def test_a_slow_call_ends_the_trace(build: Any, tmp_path: Path) -> None:
    program = build(HEAD + "OWN void slow(void) { leaf(); usleep(500000); leaf(); } int main(void) { leaf(); slow(); leaf(); return 3; }")
    status, calls, _, errors = steps(tmp_path, program, options=("--when", "slow > 400ms"), calls="--calls=leaf,slow")
    assert status == 3
    assert [call["function"] for call in calls] == ["slow", "leaf", "leaf"]
    assert errors == ""


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ["--calls", "-p", "1", "--calls-from", "steps"],
            "single-stepping (--calls without functions, or --calls-from steps) needs a command",
        ),
        (["--calls", "--calls-from", "pt", "--", "true"], "--calls-from pt shows a recording of Intel PT: -i perf.data"),
        (["--calls", "--calls-from", "step", "--", "true"], "--calls-from 'step': expected pt, probes, steps, or steps:TIME"),
        (["--calls-from", "steps", "--", "true"], "need --calls"),
    ],
)
def test_wrong_sources_are_errors(words: list[str], text: str) -> None:
    ran = subprocess.run([sys.executable, "-m", "perfpy", "trace", *words], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 129
    assert text in ran.stderr


def test_code_that_a_program_changes_is_read_again(build: Any, tmp_path: Path) -> None:
    text = """
    #include <string.h>
    #include <sys/mman.h>
    int main(void) {
        unsigned char *code = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        void *target = leaf;
        for (int i = 0; i < 4; i++) {  /* call leaf and return, or jump to it */
            unsigned char call[] = "\\x48\\xb8________\\x50\\xff\\xd0\\x58\\xc3", jump[] = "\\x48\\xb8________\\xff\\xe0";
            memcpy(call + 2, &target, 8);
            memcpy(jump + 2, &target, 8);
            memcpy(code, i & 1 ? jump : call, i & 1 ? sizeof jump : sizeof call);
            ((void (*)(void))code)();
        }
        return n;
    }
    """
    status, calls, _, _ = steps(tmp_path, build(HEAD + text))
    base = next(call["depth"] for call in calls if call["function"] == "main")
    own = [(call["function"][:2], call["depth"] - base) for call in calls if call["function"].startswith(("0x", "leaf"))]
    assert (status, own) == (4, [("0x", 1), ("le", 2)] * 4)


def test_signals_in_large_numbers_arrive(build: Any, tmp_path: Path) -> None:
    text = """
    OWN void handler(int s) { __sync_fetch_and_add(&n, 1); }
    static volatile int stop;
    OWN void *spin(void *a) { while (!stop) ; return 0; }
    int main(void) {
        sigaction(SIGRTMIN, &(struct sigaction){ .sa_handler = handler }, 0);
        pthread_t thread;
        pthread_create(&thread, 0, spin, 0);
        for (int i = 0; i < 100; i++) pthread_sigqueue(thread, SIGRTMIN, (union sigval){ 0 });
        while (n < 100) usleep(1000);
        stop = 1;
        pthread_join(thread, 0);
        return n;
    }
    """
    status, calls, _, _ = steps(tmp_path, build(HEAD + text), calls="--calls=handler")
    assert (status, counts(calls, ["handler"])) == (100, {"handler": 100})


def test_many_processes_are_followed_up_to_a_limit(build: Any, tmp_path: Path) -> None:
    text = """
    int main(void) {
        int fds[2];
        pipe(fds);
        for (int i = 0; i < 300; i++) if (!syscall(SYS_fork)) { close(fds[1]); char c; read(fds[0], &c, 1); leaf(); _exit(0); }
        close(fds[1]);
        while (wait(0) > 0) ;
        return 8;
    }
    """
    command = [sys.executable, "-m", "perfpy", "trace", "--calls=leaf", "--calls-from", "steps", "--", build(HEAD + text)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 8
    assert "more than 256 threads at a time: some were not followed" in ran.stderr
