"""record --unwind on this machine: callchains in the file, and the samples whatever happens."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import perfpy
from perfpy.abi.flags import CONTEXT_USER, SampleType
from tests.builders.prepared_start import PERFPY, output_of

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="stacks of x86-64 are unwound here"),
    pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc"),
]

CHECKOUT = Path(__file__).resolve().parents[2]
PROGRAM = r"""
#include <stdlib.h>
#include <time.h>
volatile unsigned long sink;
__attribute__((noinline)) void leaf(void) { for (int i = 0; i < 5000; i++) sink += i; }
__attribute__((noinline)) void middle(int depth) { if (depth) middle(depth - 1); else leaf(); sink++; }
int main(int count, char **words)
{
    struct timespec begin, now;
    double seconds = atof(words[1]);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        for (int i = 0; i < 100; i++) middle(5);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - begin.tv_sec + (now.tv_nsec - begin.tv_nsec) / 1e9 < seconds);
    return 7;
}
"""
CHAIN = ["leaf", *["middle"] * 6, "main"]
UNWIND = ["--unwind", "-N", "-e", "task-clock:u", "-F", "2000"]


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("program")
    (folder / "busy.c").write_text(PROGRAM)
    flags = ["-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"]
    subprocess.run(["gcc", *flags, "-o", folder / "busy", folder / "busy.c"], check=True, timeout=60)
    return str(folder / "busy")


def start(folder: Path, *args: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    return subprocess.Popen(
        [sys.executable, "-m", "perfpy", "record", *args],
        cwd=folder,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def record(folder: Path, *args: str, status: int = 7) -> str:
    process = start(folder, *args)
    errors = process.communicate(timeout=120)[1]
    assert process.returncode == status, errors
    return errors


def stacks(path: Path) -> dict[tuple[str, ...], int]:
    """The names of each callchain up to main, innermost first -> samples."""
    text = output_of([*PERFPY, "script", "-i", path, "-F", "ip,sym"])
    results: dict[tuple[str, ...], int] = {}
    for block in text.split("\n\n"):
        names = [line.split()[1] for line in block.split("\n") if line.strip()]
        if names:
            chain = tuple(names[: names.index("main") + 1] if "main" in names else names)
            results[chain] = results.get(chain, 0) + 1
    return results


def most_are_whole(path: Path) -> bool:
    result = stacks(path)
    return result.get(tuple(CHAIN), 0) * 10 >= 8 * sum(result.values()) > 100


def unwinding_process(recorder: int, seconds: float = 30) -> int:
    """The pid of the unwinding process, as soon as the program runs beside it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        children = Path(f"/proc/{recorder}/task/{recorder}/children").read_text().split()
        names = {Path(f"/proc/{child}/comm").read_text().strip(): int(child) for child in children}
        if "busy" in names and "perfpy-unwind" in names:
            return names["perfpy-unwind"]
        time.sleep(0.05)
    raise TimeoutError


def test_the_file_has_plain_callchains(tmp_path, busy):
    output = record(tmp_path, *UNWIND, "--", busy, "1")
    path = tmp_path / "perf.data"
    with perfpy.open(path) as recording:
        (event,) = recording.events
        count = len(recording.samples["ip"])
        assert event.attr.sample_type & SampleType.CALLCHAIN
        assert not event.attr.sample_type & (SampleType.REGS_USER | SampleType.STACK_USER)
        assert all(CONTEXT_USER in chain.tolist() for chain in recording.samples["callchain"])
        assert len(recording.header["build_id"]) >= 2
    assert f"({count} samples)" in output
    assert path.stat().st_size * 50 < count * 8192
    assert most_are_whole(path)


CHILD_AT_THE_BEGINNING = """
import subprocess, sys
from perfpy.capture.session import recorder
open_file = recorder.open_file
def open_file_with_a_child(*args):
    subprocess.run(["true"], check=True)
    return open_file(*args)
recorder.open_file = open_file_with_a_child
from perfpy.cli import main
sys.exit(main())
"""


def test_a_child_that_ends_before_the_recording_does_not_stop_unwinding(tmp_path, busy):
    """The interpreter that asks a running program for its names is one."""
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    command = [sys.executable, "-c", CHILD_AT_THE_BEGINNING, "record", *UNWIND, "-o", "perf.data", "--", busy, "1"]
    process = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert "unwinding did not start" not in process.stderr
    assert most_are_whole(tmp_path / "perf.data")


@pytest.mark.system_wide
@pytest.mark.thorough
def test_whole_cpus_at_2_khz_lose_nothing(tmp_path, busy):
    """Tried again where the machine was too busy: whoever empties the rings has to run now and then."""
    for _ in range(4):
        output = record(tmp_path, "--unwind", "-a", "-e", "cpu-clock", "-F", "2000", "--", busy, "2")
        if "lost" not in output:
            break
    assert "lost" not in output, output
    path = tmp_path / "perf.data"
    with perfpy.open(path) as recording:
        count = len(recording.samples["ip"])
    assert count > 2 * 2000  # of all CPUs; two there are, mostly
    assert path.stat().st_size * 20 < count * 8192


def test_a_pipe_has_them_too(tmp_path, busy):
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    command = [sys.executable, "-m", "perfpy", "record", *UNWIND, "-o", "-", "--", busy, "1"]
    process = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=60, check=False)
    assert process.returncode == 7
    (tmp_path / "perf.pipe").write_bytes(process.stdout)
    assert most_are_whole(tmp_path / "perf.pipe")


def test_without_compression_it_is_larger(tmp_path, busy):
    record(tmp_path, *UNWIND, "-z0", "--", busy, "1")
    assert most_are_whole(tmp_path / "perf.data")
    with perfpy.open(tmp_path / "perf.data") as recording:
        assert "compressed" not in recording.header


@pytest.mark.thorough
def test_the_stacks_can_be_kept(tmp_path, busy):
    record(tmp_path, *UNWIND, "--keep-stacks", "--", busy, "1")
    with perfpy.open(tmp_path / "perf.data") as plain, perfpy.open(tmp_path / "perf.data.stacks") as raw:
        assert raw.events[0].attr.sample_type & SampleType.STACK_USER
        assert raw.samples["time"].tolist() == plain.samples["time"].tolist()
    assert most_are_whole(tmp_path / "perf.data")
    assert most_are_whole(tmp_path / "perf.data.stacks")


@pytest.mark.thorough
def test_an_ended_program_was_read_in_time(tmp_path, busy):
    copy = tmp_path / "busy"
    shutil.copy(busy, copy)
    process = start(tmp_path, *UNWIND, "--", str(copy), "3")
    unwinding_process(process.pid)
    time.sleep(1.5)
    away = copy.rename(tmp_path / "away")
    process.communicate(timeout=60)
    away.rename(copy)  # for the names, which only the recorded file gives
    assert most_are_whole(tmp_path / "perf.data")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_all_its_processes_ends_it_with_all_samples(tmp_path, busy, number):
    """Terminals, timeout(1) and systemd send it to the command and to the unwinding process, too."""
    process = start(tmp_path, *UNWIND, "--", busy, "60")
    unwinding_process(process.pid)
    time.sleep(1.5)
    os.killpg(process.pid, number)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 128 + number
    assert "the unwinding process has ended" not in errors
    assert most_are_whole(tmp_path / "perf.data")


@pytest.mark.thorough
def test_samples_outlive_the_unwinding_process(tmp_path, busy):
    process = start(tmp_path, *UNWIND, "--", busy, "3")
    victim = unwinding_process(process.pid)
    time.sleep(1.2)
    os.kill(victim, signal.SIGKILL)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 7
    assert "the unwinding process has ended; the samples that were not unwound are stored with their stacks in perf.data.stacks" in errors
    with perfpy.open(tmp_path / "perf.data") as plain, perfpy.open(tmp_path / "perf.data.stacks") as raw:
        before, after = plain.samples["time"].tolist(), raw.samples["time"].tolist()
        assert not plain.warnings
    assert not set(before) & set(after)
    assert after[-1] - (before or after)[0] > 2e9
    assert most_are_whole(tmp_path / "perf.data.stacks")


@pytest.mark.thorough
def test_the_unwinding_process_goes_with_the_recorder(tmp_path, busy):
    process = start(tmp_path, *UNWIND, "--", busy, "5")
    orphan = unwinding_process(process.pid)
    process.kill()
    process.communicate(timeout=60)
    end = time.monotonic() + 20
    while os.path.exists(f"/proc/{orphan}") and time.monotonic() < end:
        time.sleep(0.1)
    assert not os.path.exists(f"/proc/{orphan}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may write beside /dev/full")
def test_a_full_disk_is_reported(tmp_path, busy):
    process = start(tmp_path, *UNWIND, "-z0", "-o", "/dev/full", "--", busy, "1")
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 255
    assert "No space left" in errors


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--unwind", "--call-graph", "fp"], "--unwind requires --call-graph dwarf"),
        (["--unwind", "--overwrite"], "excludes --overwrite"),
        (["--unwind", "--tail-synthesize"], "excludes --tail-synthesize"),
        (["--unwind", "--user-regs=ax"], "excludes --user-regs"),
        (["--keep-stacks"], "--keep-stacks requires --unwind"),
        (["--unwind", "--keep-stacks", "--switch-output=1s"], "excludes --switch-output"),
    ],
)
def test_excluded_options_are_reported_in_a_line(tmp_path, words, message):
    output = record(tmp_path, *words, "--", "true", status=129)
    assert message in output
    assert len(output.splitlines()) == 1


INTERRUPTED = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <ucontext.h>
#define N __attribute__((noinline))
static volatile unsigned long sink;
static int cell;
N void spin(void) { for (int i = 0; i < 60000000; i++) sink += i; }
N void handler(int number, siginfo_t *info, void *context)
{
    spin();
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RDI] = (long)&cell;
}
N void before(void) { sink++; }
N int fault(int *address)
{
    *address = 1; /* the function's first instruction */
    return cell;
}
int main(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, 0);
    before();
    return fault((int *)8) - 1;
}
"""


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program with a signal handler, linked statically: __restore_rt has a symbol."""
    folder = tmp_path_factory.mktemp("interrupted")
    (folder / "fault.c").write_text(INTERRUPTED)
    command = ["gcc", "-g", "-O1", "-static", "-o", str(folder / "fault"), str(folder / "fault.c")]
    if subprocess.run(command, check=False, timeout=60, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("needs the static C library")
    return str(folder / "fault")


@pytest.mark.parametrize("options", [["--call-graph", "dwarf"], ["--call-graph", "dwarf", "--unwind"]])
def test_addresses_around_a_signal_are_exact(tmp_path, interrupted, options):
    """Minus one would lead to the byte before __restore_rt, and from `fault` to the function before it."""
    record(tmp_path, "-q", "-e", "task-clock:u", "-F", "2000", *options, interrupted, status=0)
    text = output_of([*PERFPY, "script", "-i", tmp_path / "perf.data", "-F", "ip,sym,symoff"])
    chains = [[line.split()[1] for line in block.splitlines() if line.strip()] for block in text.split("\n\n")]
    handled = [chain for chain in chains if "__restore_rt+0x0" in chain]
    assert len(handled) > 5
    for chain in handled:
        assert chain[chain.index("__restore_rt+0x0") + 1] == "fault+0x0", chain
        assert chain[chain.index("__restore_rt+0x0") + 2].startswith("main+"), chain


def test_the_interrupted_line_has_the_samples_of_the_handler(tmp_path, interrupted):
    record(tmp_path, "-q", "-e", "task-clock:u", "-F", "2000", "--call-graph", "dwarf", interrupted, status=0)
    text = output_of([*PERFPY, "annotate", "--by-line", "-i", tmp_path / "perf.data"])
    (line,) = [line for line in text.splitlines() if "*address = 1" in line]
    assert float(line.split("%")[0]) > 90
    assert not [line for line in text.splitlines() if "before(void)" in line and "%" in line]
