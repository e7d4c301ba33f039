"""Tests of perfpy report and diff against perf's."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from perfpy.cli.commands import load_command
from perfpy.symbols.files import build_ids
from tests.builders.kernel_symbols import few_symbols
from tests.builders.prepared_start import PERFPY, run
from tests.builders.report_lines import at_fixed_addresses, comparable

if TYPE_CHECKING:
    from pathlib import Path


# Tests that report prints what perf prints of the same recording, with many options.


pytestmark = [pytest.mark.live, pytest.mark.versus_perf]

WORK = "ls -R /usr/include > /dev/null; grep -r foo /usr/include > /dev/null"
RUN_DEPENDENT = re.compile(rb"^# \((Tip|Cannot load)|^# (captured on|perf version|cmdline)")
RECORDINGS = {
    "flat": ["-F", "2000"],
    "callchains": ["-g", "-F", "999"],
    "group": ["-e", "{cpu-clock,page-faults}"],
    "cgroups": ["-e", "cpu-clock", "--all-cgroups"],
    "namespaces": ["-F", "999", "--namespaces"],
    "two modes": ["-e", "cpu-clock:u,cpu-clock:k", "-g", "-F", "999"],
}
PLAIN = [
    "",
    "-s dso",
    "-s pid,dso -n --show-total-period",
    "-s cpu,comm -t ,",
    "-s socket,comm",
    "-s comm,dso,sym,symbol_size,dso_size",
    "-F comm,overhead,sample,dso",
    "-F +period -s comm",
    "--show-cpu-utilization -w 12,20,5",
    "-c grep,ls -s comm,sym",
    "-d [kernel.kallsyms] --percentage relative",
    "--symbol-filter alloc",
    "--time 20%/2 -s comm",
    "--time 40% -s comm",
    "--sort=",
    "--percent-limit 2 -q",
    "-H --no-children -g none",
    "--stdio-color=always -n -s comm,dso",
    "--stdio-color=always -H -s comm,dso",
    "--stdio-color=always -t , -s comm",
    "--stdio-color=never -s comm",
    "-w 12,12,30,10",
    "-w 12,12,30,10 -v -s comm,dso",
    "-H -w 5,6,7 -s comm,{dso,sym} -g none",
    "-H -c grep -g none",
    "-F pid,weight1,overhead_children",
    "-F overhead,overhead_children,comm",
    "-s symoff -g none --symfs /nonexistent -d [kernel.kallsyms]",
    "-s cgroup_id,comm",
    "-c grep -s comm",
    "-c grep -s dso",
    "-c ls -s dso,sym --percentage relative",
    "--no-group -s comm",
]
WITH_CHAINS = [
    "-g callee",
    "--no-children -g",
    "--no-children -g caller,2 --max-stack 7",
    "-g flat,1",
    "-g graph,0.5 --percent-limit 4",
    "--percent-limit 4 -g graph,0.5",
    "--no-children -g folded,0.5,caller,period",
    "-g graph,0.5,3,callee,function,count",
    "--no-children --ignore-callees do_syscall_64",
    "-s parent -p entry_SYSCALL",
    "--stdio-color=always",
    "--stdio-color always -g flat -t ;",
    "--stdio-color=always --no-children -g fractal,0.5,callee,count",
    "-g none",
    "-c grep --percentage relative",
    "-d [kernel.kallsyms]",
]
WITH_GROUPS = ["--no-group", "--group-sort-idx 1", "-H -s comm,{dso,sym}", "-F overhead,overhead_children,comm"]
WITH_GROUPED_CHAINS = ["--group", "--group --group-sort-idx 1", "--group -g callee"]
LINES = {
    "flat": PLAIN,
    "callchains": PLAIN[:1] + WITH_CHAINS,
    "group": PLAIN[:4] + WITH_GROUPS,
    "cgroups": ["-s cgroup,comm", "-s comm,cgroup"],
    "namespaces": ["-s cgroup_id,comm", "-s comm,cgroup_id"],
    "two modes": WITH_GROUPED_CHAINS,
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, perf: str) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("recordings")
    results = {}
    for name, options in RECORDINGS.items():
        results[name] = folder / f"{name}.data"
        command = [perf, "record", "-q", *options, "-o", str(results[name]), *at_fixed_addresses(), "sh", "-c", WORK]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    return results


def printed(command: list[str], line: str, path: Path) -> list[str]:
    environment = os.environ | {"LC_ALL": "C", "PERF_CONFIG": "/dev/null", "COLUMNS": "200"}
    words = [*line.split(), *few_symbols(path.parent), "-i", str(path)]
    process = run([*command, "report", "--stdio", *words], env=environment, check=True)
    return comparable([os.fsdecode(line.rstrip()) for line in process.stdout.splitlines() if not RUN_DEPENDENT.search(line)])


@pytest.mark.parametrize(("name", "line"), [(name, line) for name, lines in LINES.items() for line in lines])
@pytest.mark.thorough
def test_the_report_is_perfs(name: str, line: str, recorded: dict[str, Path], perf: str) -> None:
    assert printed(PERFPY, line, recorded[name]) == printed([perf], line, recorded[name])


def test_a_pipes_features_are_shown_with_its_report(perf: str, tmp_path: Path) -> None:
    path = tmp_path / "pipe.data"
    with path.open("wb") as file:
        command = [perf, "record", "-q", "-o", "-", "sh", "-c", "ls -R /usr/include"]
        subprocess.run(command, stdout=file, stderr=subprocess.DEVNULL, check=True, timeout=60)
    assert printed(PERFPY, "-I -s comm", path) == printed([perf], "-I -s comm", path)


@pytest.mark.thorough
def test_names_can_come_from_a_file(recorded: dict[str, Path], perf: str, tmp_path: Path) -> None:
    names = tmp_path / "names"
    names.write_text("ls\ngrep\n")
    for line in (f"-c file://{names} -s comm", f"-c file://{names},sh -s comm,dso"):
        assert printed(PERFPY, line, recorded["flat"]) == printed([perf], line, recorded["flat"])


@pytest.mark.parametrize("options", [["-c", "200000"], ["-F", "2000"]], ids=" ".join)
def test_members_of_a_group_have_their_own_periods(perf: str, tmp_path: Path, options: list[str]):
    """With `:S`, the leader's samples have each member's progress, even with a fixed period of the leader."""
    program = "for _ in range(40): bytearray(4_000_000); sum(range(20_000))"
    file = str(tmp_path / "perf.data")
    line = [
        perf,
        "record",
        "-q",
        "-e",
        "{task-clock,page-faults}:S",
        *options,
        "-o",
        file,
        "--",
        *at_fixed_addresses(),
        sys.executable,
        "-Sc",
        program,
    ]
    subprocess.run(line, check=True, capture_output=True, timeout=120)
    output = []
    for command in ([perf], PERFPY):
        report = [*command, "report", "--stdio", "--group", "-s", "comm,dso", "-i", file]
        text = run(report, check=True, timeout=120).stdout
        output.append([row for row in text.splitlines() if not RUN_DEPENDENT.match(row)])
    assert output[1] == output[0]
    members = [re.findall(rb"[\d.]+(?=%)", row) for row in output[1] if b"%" in row]
    assert any(float(member[1]) > 1 for member in members)


# Tests that --switch-on and --switch-off of script and report keep the samples that perf keeps.


# perf 6.12 forgets --switch-off at once where there is no --switch-on, so that pair alone is compared
SWITCH_LINES = [
    "--switch-on context-switches",
    "--switch-on page-faults --switch-off context-switches",
    "--switch-on page-faults --switch-off context-switches --show-on-off-events",
    "--switch-on task-clock --switch-off task-clock --time 20%-80%",
    "--switch-on page-faults --switch-off context-switches -c second",
    "--switch-on page-faults --show-on-off-events --no-inline",
]


#: each round faults, works and waits; every fault is recorded, so that work follows one whoever else wants the CPU
SWITCH_WORK = """
import mmap, os, time
for name in ("first", "second"):
    if os.fork() == 0:
        with open("/proc/self/comm", "w") as comm:
            comm.write(name)
        for _ in range(10):
            memory = mmap.mmap(-1, 32 * mmap.PAGESIZE)
            for page in range(32):
                memory[page * mmap.PAGESIZE] = 1
            end = time.thread_time() + 0.01
            while time.thread_time() < end:
                pass
            time.sleep(0.001)
        os._exit(0)
os.wait(), os.wait()
"""


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory, perf: str) -> Path:
    path = tmp_path_factory.mktemp("switched") / "perf.data"
    events = [
        "task-clock/freq=2000,name=task-clock/",
        "page-faults/period=1,name=page-faults/",
        "context-switches/period=1,name=context-switches/",
    ]
    command = [perf, "record", "-q", *(word for event in events for word in ("-e", event)), "-o", str(path)]
    subprocess.run([*command, *at_fixed_addresses(), sys.executable, "-c", SWITCH_WORK], check=True, capture_output=True, timeout=120)
    return path


def printed_samples(program: list[str], command: str, options: str, path: Path) -> list[bytes]:
    environment = os.environ | {"LC_ALL": "C", "PERF_CONFIG": "/dev/null", "COLUMNS": "200"}
    view = [*few_symbols(path.parent), *(["--stdio", "-q"] if command == "report" else [])]
    process = run([*program, command, *view, *options.split(), "-i", str(path)], env=environment, check=True)
    return process.stdout.splitlines()


@pytest.mark.parametrize("command", ["script", "report"])
@pytest.mark.parametrize("options", SWITCH_LINES)
def test_the_same_samples_are_kept(perf: str, recording: Path, command: str, options: str) -> None:
    expected = printed_samples([perf], command, options, recording)
    assert expected
    assert printed_samples(PERFPY, command, options, recording) == expected


# Tests that perfpy diff prints what perf diff prints, and distinguishes noise from change.


SUMS_AND_TEXTS = "import json; x = 0\nfor i in range({loops}): x += i * i\nfor i in range({texts}): json.dumps([i, str(i)])"
OPTIONS = (
    "",
    "-b",
    "-p",
    "-F",
    "-F -p -b",
    "-q",
    "-t,",
    "-c delta",
    "-c ratio",
    "-c ratio -p -F -t;",
    "-c wdiff:1,2",
    "-c wdiff:3,-2 -F -b",
    "-o 0",
    "-s dso",
    "-s comm,dso",
    "-s sym",
    "-s pid",
    "-s +comm",
    "-C python3",
    "-C perf,python3 --percentage relative -b -F",
    "-d libc.so.6,[kernel.kallsyms]",
    "-d libc.so.6",
    "-d libc.so.6 --percentage relative",
    "-S _PyEval_EvalFrameDefault,_PyObject_Malloc",
    "--time 10%-60%",
)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory, perf: str) -> list[Path]:
    folder = tmp_path_factory.mktemp("recordings")
    work = [(400_000, 5_000), (100_000, 30_000), (400_000, 5_000)]
    return [recorded_sums_and_texts(perf, folder / f"{number}.data", *amounts) for number, amounts in enumerate(work)]


def recorded_sums_and_texts(perf: str, path: Path, loops: int, texts: int) -> Path:
    """Record a program that computes sums, then texts."""
    record = [perf, "record", "-q", "-N", "-e", "cpu-clock,page-faults", "-F", "1999", "-o", str(path), "--"]
    script = SUMS_AND_TEXTS.format(loops=loops, texts=texts)
    subprocess.run([*record, *at_fixed_addresses(), sys.executable, "-c", script], check=True, capture_output=True, timeout=120)
    return path


def answer(*command: object) -> str:
    process = run([str(word) for word in command])
    assert process.returncode == 0, process.stderr
    return process.stdout.decode()


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.thorough
def test_two_recordings_give_perfs_text(options: str, recordings: list[Path], perf: str) -> None:
    arguments = ["diff", *options.split(), *few_symbols(recordings[0].parent), *recordings[:2]]
    theirs = answer(perf, *arguments)
    assert answer(*PERFPY, *arguments) == theirs
    assert theirs


@pytest.mark.parametrize("options", ["", "-b -p -F", "-o 2", "-c ratio -o 2", "-c delta -t,", "-q", "-c wdiff:3,1 -o 2 -p", "-b -s comm"])
@pytest.mark.thorough
def test_three_recordings_give_perfs_text(options: str, recordings: list[Path], perf: str) -> None:
    arguments = ["diff", *options.split(), *few_symbols(recordings[0].parent), *recordings]
    assert answer(*PERFPY, *arguments) == answer(perf, *arguments)


@pytest.mark.thorough
def test_recordings_of_different_events_are_paired_as_perf_does(recordings: list[Path], perf: str, tmp_path: Path) -> None:
    other = tmp_path / "other.data"
    subprocess.run(
        [perf, "record", "-q", "-N", "-e", "task-clock,page-faults", "-o", other, "true"], check=True, capture_output=True, timeout=60
    )
    assert answer(*PERFPY, "diff", recordings[0], other) == answer(perf, "diff", recordings[0], other)


def test_recordings_made_elsewhere_give_perfs_text(
    corpus: Path, perf: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """perf has no vdso with --symfs; perfpy has this kernel's, if the recording is one of the same kernel."""
    monkeypatch.setattr(build_ids, "vdso_image", lambda: b"")
    for first, second in (("mt-a", "wide-a"), ("group-S-a", "terms-a"), ("switch-a", "z-a")):
        paths = [corpus / "recorded" / f"{name}.data" for name in (first, second)]
        arguments = ["-f", "--symfs", "/nonexistent", *map(str, paths)]
        assert load_command("diff").run("diff", arguments) == 0
        assert capfd.readouterr().out == answer(perf, "diff", *arguments)


def test_a_recording_compared_with_itself_has_no_mark(recordings: list[Path]) -> None:
    assert "*" not in answer(*PERFPY, "diff", "--noise", "-q", recordings[0], recordings[0])


def test_a_change_of_the_program_is_marked(perf: str, tmp_path: Path) -> None:
    sums, texts = (
        recorded_sums_and_texts(perf, tmp_path / "sums", 8_000_000, 0),
        recorded_sums_and_texts(perf, tmp_path / "texts", 0, 200_000),
    )
    document = json.loads(answer(*PERFPY, "diff", "--json", sums, texts))
    clock = document["events"][0]
    marked = [row["keys"]["symbol"] for row in clock["rows"] if row["changes"][0]["significant"]]
    assert marked
    assert len(marked) < len(clock["rows"]) / 2
    assert all(0 <= row["changes"][0]["chance"] <= 1 for row in clock["rows"])


def test_noise_adds_a_column_and_nothing_else(recordings: list[Path]) -> None:
    plain = answer(*PERFPY, "diff", "-q", "-t,", *recordings[:2]).splitlines()
    noisy = answer(*PERFPY, "diff", "-q", "-t,", "--noise", *recordings[:2]).splitlines()
    assert [[*cells[:2], *cells[3:]] for cells in (line.split(",") for line in noisy)] == [line.split(",") for line in plain]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("-c cycles", "branch records"),
        ("-c wdiff:0,1", "two weights"),
        ("-c nothing", "expected delta"),
        ("-o 2", "0 (the baseline)"),
        ("--stream", "--stream"),
    ],
)
def test_incomparable_recordings_are_refused(options: str, message: str, recordings: list[Path]) -> None:
    process = run([*PERFPY, "diff", *options.split(), *recordings[:2]])
    assert (process.returncode, process.stdout) == (129, b"")
    assert message in process.stderr.decode()
