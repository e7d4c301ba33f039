"""Tests of kvm, mem, c2c, probe, top and trace against perf's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.builders.guest_exits import AMD, INTEL, KALLSYMS, MODULES, guest_samples, random_exits
from tests.builders.memory_accesses import random_accesses
from tests.builders.probed import compiled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


# Tests that kvm stat report prints what perf prints, on built recordings.


@pytest.fixture(scope="module", params=[INTEL, AMD], ids=["intel", "amd"])
def recording(request, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exits") / "perf.data"
    path.write_bytes(random_exits(5, 300, request.param))
    return path


@pytest.mark.versus_perf
@pytest.mark.parametrize("options", ["", "--event mmio -k time", "--event ioport -k max_t", "-p 200 -k mean_t"])
def test_the_table_is_perfs(options, recording, perf):
    tables = []
    for program in ([perf], [sys.executable, "-m", "perfpy"]):
        words = [*program, "kvm", "-i", str(recording), "stat", "report", *options.split()]
        process = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        assert process.returncode == 0
        tables.append(process.stderr.splitlines())
    assert tables[1] == tables[0]


# Tests that profiles of virtual machines are perf's, on built recordings.


GUESTS = [
    "kvm -i one report --stdio",
    "kvm --host -i one report --stdio",
    "kvm --host --no-guest -i one report --stdio --sort comm,dso",
    "report -i one --stdio",
    "kvm -i one --guestkallsyms kallsyms --guestmodules modules report --stdio -v",
    "kvm -i one --guestkallsyms kallsyms report --stdio --sort pid,comm -n",
    "kvm -i one --guestkallsyms kallsyms report --stdio --sort cpu,sym -t,",
    "kvm --host -i one --guestkallsyms kallsyms report --stdio --sort pid --showcpuutilization",
    "kvm -i one --guestkallsyms kallsyms report --stdio --comms :100 --percentage relative",
    "kvm -i one --guestkallsyms kallsyms report --stdio --dsos [virtio_net]",
    "kvm -i one --guestmount mount report --stdio --sort dso",
    "kvm -i two --guestmount mount report --stdio",
    "kvm -i one report --stdio -D",
    "report -i one --stdio -D",
    "kvm report --stdio",
    "kvm --host report --stdio --sort sym",
    "kvm -i one buildid-list",
    "kvm --host -i one buildid-list -H",
    "kvm diff one two",
    "kvm --host --guestkallsyms kallsyms diff one two --sort comm,dso",
    "script -i one",
    "script -i one -D",
    "script -i one --guestkallsyms kallsyms -F +misc",
]


@pytest.fixture(scope="module")
def guests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("guests")
    (folder / "one").write_bytes(guest_samples(1, 400))
    (folder / "two").write_bytes(guest_samples(2, 300, by_pid=True))
    (folder / "perf.data.guest").write_bytes(guest_samples(3, 50))
    (folder / "perf.data.kvm").write_bytes(guest_samples(4, 50))
    for proc in (folder, folder / "mount/100/proc", folder / "mount/200/proc"):
        proc.mkdir(parents=True, exist_ok=True)
        (proc / "kallsyms").write_text(KALLSYMS)
        (proc / "modules").write_text(MODULES)
    return folder


@pytest.mark.versus_perf
@pytest.mark.parametrize("line", GUESTS)
def test_virtual_machines_are_shown_as_perf_shows_them(line, guests, perf):
    outputs = []
    for program in ([perf], [sys.executable, "-m", "perfpy"]):
        process = subprocess.run(
            [*program, *line.split()], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, cwd=guests
        )
        assert process.returncode == 0, process.stderr
        outputs.append([text for text in process.stdout.splitlines() if not text.startswith("# (Tip:")])
    assert outputs[1] == outputs[0]
    assert len(outputs[0]) > (0 if "buildid" in line else 6)


# Tests that mem and c2c print what perf prints, on built recordings of accesses of every kind.


C2C = [
    "",
    "-d rmt",
    "-d lcl -N",
    "-d peer -NN",
    "-c pid",
    "-c tid,dso -N",
    "-c iaddr,dso,pid --show-all",
    "--double-cl --no-source",
    "--stats",
]
MEM = [
    "report",
    "-t store report",
    "report -p --data-page-size",
    "report -s dcacheline,mem,snoop",
    "report -D -p -x,",
    "report -s phys_daddr",
]


@pytest.fixture(scope="module")
def access_recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("accesses") / "perf.data"
    path.write_bytes(random_accesses(1, 400))
    return path


def answers(perf: str, words: list[str], path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[str]]:
    monkeypatch.setenv("HOME", str(path.parent))
    output = []
    for program in ([perf], [sys.executable, "-m", "perfpy"]):
        process = subprocess.run([*program, *words, "-i", str(path)], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        assert process.returncode == 0, process.stderr
        output.append([line for line in process.stdout.splitlines() if "(Tip" not in line])
    return output[0], output[1]


@pytest.mark.versus_perf
@pytest.mark.parametrize("options", C2C)
def test_cache_lines_are_perfs(options, perf, access_recording, monkeypatch):
    theirs, ours = answers(perf, ["c2c", "report", "--stdio", *options.split()], access_recording, monkeypatch)
    assert ours == theirs


@pytest.mark.versus_perf
@pytest.mark.parametrize("options", MEM)
def test_accesses_are_perfs(options, perf, access_recording, monkeypatch):
    words = ["mem", *options.split()] + ([] if "-D" in options else ["--stdio"])
    theirs, ours = answers(perf, words, access_recording, monkeypatch)
    assert ours == theirs


@pytest.mark.versus_perf
def test_arm_shows_peers(perf, tmp_path, monkeypatch):
    """perf's default display for arm64."""
    path = tmp_path / "perf.data"
    path.write_bytes(random_accesses(2, 200, arch="aarch64"))
    theirs, ours = answers(perf, ["c2c", "report", "--stdio"], path, monkeypatch)
    assert ours == theirs


# `perfpy probe` beside perf 6.12: definitions, lines, variables and functions of one program.


DEFINITIONS = (
    *("cost", "cost+4", "cost:2", "cost:0", "co*", "shop.c:8", "twice", "twice n", "cost%return $retval", "cost;sum+=*", "main:3"),
    *(
        "cost it count why:string it->price it->name:string",
        "cost it->next->price it->sizes[2]",
        "cost count:x count:u8 why:x64",
        "cost %di",
    ),
    *("cost $params", "main argc argv", "mine:here=cost:2 count", "cost@shop.c", "cost:2@shop.c", "half n"),
)


@pytest.fixture(scope="module", params=["-O1 -g -no-pie", "-O2 -g -gdwarf-4", "-O0 -g"], ids=["O1", "O2 dwarf 4", "O0"])
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("shop"), flags=request.param)


def both(shop: Path, *args: str) -> tuple[tuple[int, str], tuple[int, str]]:
    """Return the exit status and standard output of perf and of perfpy."""
    environment = dict(os.environ, HOME=str(shop.parent), DEBUGINFOD_URLS="", LC_ALL="C")
    answers = []
    for command in (["perf"], [sys.executable, "-m", "perfpy"]):
        process = subprocess.run(
            [*command, "probe", "-x", str(shop), *args], capture_output=True, text=True, env=environment, timeout=300, check=False
        )
        answers.append((process.returncode, process.stdout))
    return answers[0], answers[1]


@pytest.mark.versus_perf
def test_definitions_are_perfs(shop: Path) -> None:
    arguments = [word for definition in DEFINITIONS for word in ("-D", definition)]
    theirs, ours = both(shop, *arguments)
    assert ours == theirs


@pytest.mark.versus_perf
@pytest.mark.parametrize(
    "args", [("-L", "cost"), ("-L", "shop.c:5-12"), ("-V", "cost"), ("-V", "cost:0", "--range"), ("-F",)], ids=" ".join
)
def test_lines_variables_and_functions_are_perfs(shop: Path, args: tuple[str, ...]) -> None:
    theirs, ours = both(shop, *args)
    assert ours == theirs


@pytest.mark.versus_perf
@pytest.mark.parametrize("text", ["nosuch", "cost nosuch", "cost+4096", "cost count:string", "cost it.price"])
def test_errors_have_perfs_status(shop: Path, text: str) -> None:
    theirs, ours = both(shop, "-D", text)
    assert ours[0] == theirs[0] != 0


# perfpy top --stdio beside perf top --stdio on one spinning program: the same header, columns and layout.


PERFPY = [sys.executable, "-m", "perfpy"]
CLEAR = "\33[H\33[2J"
KERNEL_ROW = re.compile(r"^ +\d+\.\d\d%.*\[k\] ", re.MULTILINE)
ROW = re.compile(r"^ +\d+\.\d\d%(?!.*\[k\] )", re.MULTILINE)  # of a function of the program
# All functions have long names, and shares that differ by far, so that rows keep their order.
SOURCE = """
#include <unistd.h>
static volatile long sum;
__attribute__((noinline)) void function_with_a_name_that_is_longer_than_its_column(void) { for (int i = 0; i < 800000; i++) sum += i; }
__attribute__((noinline)) void second(void) { for (int i = 0; i < 200000; i++) sum ^= i; }
__attribute__((noinline)) void work(void) { function_with_a_name_that_is_longer_than_its_column(); second(); }
int main(void) { for (;;) { work(); usleep(3000); } }
"""
OPTIONS = [
    "-n -F 499",
    "-c 1000000 --show-total-period -n",
    "--overwrite",
    "-z -U",
    "-s pid,comm,dso,symbol -n",
    "--fields overhead,sample,sym --percent-limit 40",
    "-e {task-clock,cpu-clock}",
    "-e task-clock:u,page-faults",
    "--symbols second -K -w 10,20",
]


@pytest.fixture(scope="module")
def spinning(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    path: Path = tmp_path_factory.mktemp("top") / "spinning"
    subprocess.run(["cc", "-O1", "-fno-omit-frame-pointer", "-x", "c", "-o", path, "-"], input=SOURCE, text=True, check=True)
    with subprocess.Popen([path]) as started:
        yield started.pid
        started.kill()


def shape(text: str) -> list[str]:
    """Return the lines of an update without what differs between two measurements."""
    lines = [line for line in text.splitlines() if "[k] " not in line or "-U" in text]
    lines = [re.sub(r"PerfTop: +\d+ irqs/sec  kernel: *[\d.]+%", "PerfTop: N irqs/sec  kernel: N%", line) for line in lines]
    lines = [re.sub(r"drop: \d+/\d+", "drop: N/N", line) for line in lines]  # perf drops samples on a busy machine
    return [re.sub(r" +\d+\.\d\d%", " N%", re.sub(r" +\d+  ", " N  ", line)) for line in lines]


def perf(options: str, pid: int) -> str:
    """Return perf's first complete update that has all rows, else its last one; its standard input stays open and silent.

    On a busy machine its first updates may have one sample. stdbuf: into a pipe, perf would write once ten updates fill its buffer.
    """
    row = KERNEL_ROW if "-U" in options else ROW
    expected_rows = 1 if any(option in options for option in ("--percent-limit", "--symbols", "-U")) else 2
    command = ["stdbuf", "-oL", "perf", "top", "--stdio", "-d", "1", "-E", "2", "-p", str(pid), *options.split()]
    command = ["timeout", "30", *command]
    text = ""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0) as process:
        assert process.stdout
        while output := process.stdout.read(65536):
            text += output.decode()
            *updates, _ = [update.partition("\nMapped keys:")[0] for update in text.split(CLEAR)]
            complete = [update for update in updates if len(row.findall(update)) >= expected_rows]
            if complete:
                process.terminate()
                return complete[0]
    return text.rpartition(CLEAR)[2].partition("\nMapped keys:")[0]


def perfpy(options: str, pid: int) -> str:
    words = ["top", "--stdio", "-d", "1", "-E", "2", "-p", str(pid), "--updates", "2", *options.split()]
    process = subprocess.run([*PERFPY, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout.split(CLEAR)[-1]


@pytest.mark.live
@pytest.mark.kernel_too
@pytest.mark.versus_perf
@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.thorough
def test_the_text_is_perf_s(options: str, spinning: int) -> None:
    for _ in range(4):  # on a busy machine the program may hardly run in the second that one of the two shows
        with ThreadPoolExecutor() as executor:
            ours, theirs = (shape(text) for text in executor.map(lambda top: top(options, spinning), (perfpy, perf)))
        if "-U" in options:  # kernel functions come and go
            ours, theirs = ours[:4], theirs[:4]
        if options == "--overwrite":  # most readings lose some samples
            ours, theirs = ([re.sub(r"lost: \d+/\d+", "lost: N/N", line) for line in lines] for lines in (ours, theirs))
        if ours == theirs:
            break
    assert ours == theirs


# perfpy trace beside perf trace on one program: the same lines, but for numbers that differ from run to run.


#: numbers of a run: times, tids, addresses and the file names that only perfpy knows
NUMBERS = (
    (re.compile(r"^ *[\d.]+ "), "TIME "),
    (re.compile(r"\( *[\d.]+ ms\)"), "(MS)"),
    (re.compile(r"(true/)?\d+ (?=\w+\(|m...fault| \.\.\.)"), r"\1TID "),
    (re.compile(r"= \d+ \(true\)"), "= TID (true)"),
    (re.compile(r"<[^>]*>"), ""),
    (re.compile(r"0x[0-9a-f]+"), "0xN"),
    (re.compile(r" +="), " ="),
    (re.compile(r"-1 \(unknown\)|-1 E\w+"), "-1 ERROR"),
)


def lines(command: list[str], words: str) -> list[str]:
    process = subprocess.run([*command, "trace", *words.split(), "--", "true"], capture_output=True, text=True, timeout=60, check=False)
    assert process.returncode == 0, process.stderr
    texts = process.stderr.splitlines()
    for pattern, replacement in NUMBERS:
        texts = [pattern.sub(replacement, text) for text in texts]
    return texts


@pytest.mark.live
@pytest.mark.kernel_too
@pytest.mark.versus_perf
@pytest.mark.parametrize("words", ["", "-T --no-comm", "-e openat,close", "--failure", "--call-graph fp --max-stack 1 -e brk"])
def test_lines_equal_perfs(words: str) -> None:
    """The calls of a program are printed in the same order, with the same arguments and results."""
    ours = lines(PERFPY, f"{words} --no-strings")
    assert ours
    assert ours == lines(["perf"], words)
