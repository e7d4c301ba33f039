"""Tests that every perf reads perfpy's recordings and perfpy reads perf's, with the same results."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from perfpy.cli import run as run_cli
from tests.builders import bpf_programs
from tests.builders.kernel_symbols import few_symbols
from tests.builders.prepared_start import PERFPY, run
from tests.builders.prepared_start import run as run_prepared
from tests.builders.report_lines import at_fixed_addresses, comparable

if TYPE_CHECKING:
    from collections.abc import Iterator


# Tests that perf reads perfpy's recordings and perfpy reads perf's, with the same results.


pytestmark = [pytest.mark.live, pytest.mark.versus_perf, pytest.mark.system_wide]

CPU = min(os.sched_getaffinity(0))
#: enough work for samples at 99 Hz, and on a single recorded CPU
WORK = f"import os; os.system('true'); os.sched_setaffinity(0, [{CPU}]); print(sum(i * i for i in range(2_000_000)))"
WAYS = {
    "plain": [],
    "callchains": ["-g"],
    "frequency": ["-F", "499", "-e", "cpu-clock"],
    "period": ["-c", "500000", "-e", "task-clock:u"],
    "several events": ["-e", "cpu-clock,page-faults,context-switches"],
    "group": ["-e", "{task-clock,page-faults}:S"],
    "tracepoint": ["-e", "sched:sched_process_exec,sched:sched_process_fork"],
    "whole machine": ["-a", "-F", "99"],
    "whole machine with callchains": ["-a", "-g", "-F", "99", "-e", "cpu-clock"],
    "one CPU": ["-C", str(CPU), "-e", "cpu-clock", "-F", "99"],
    "addresses and periods": ["-d", "-P", "-T", "-e", "page-faults", "-c", "1"],
    "compressed": ["-z", "-e", "cpu-clock"],
}
#: of the whole machine only what is ours: perfpy also names code of others' deleted files, and perf does not; and the same
#: functions at several addresses are in no order for perf
OURS = ["--comms", "measured,swapper"]


#: ways whose reports differ in more than numbers
REPORTED = ("plain", "callchains", "several events", "group", "tracepoint", "whole machine with callchains", "compressed")


def filters_of(way: str) -> list[str]:
    """Return the options that select the comparable samples of a recording."""
    return OURS if {"-a", "-C"} & set(WAYS[way]) else []


def text_of(*command: str, path: Path) -> str:
    process = run([*command, "-i", path])
    assert process.returncode == 0, process.stderr
    return process.stdout.decode()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory, perf):
    """Return a function (recorder, way) -> the recording, made once."""
    folder = tmp_path_factory.mktemp("recordings")
    measured = folder / "measured"
    measured.symlink_to(os.path.realpath(sys.executable))
    program = [*at_fixed_addresses(), measured, "-c", WORK]
    results: dict[tuple[str, str], Path] = {}

    def record(recorder: str, way: str) -> Path:
        if (recorder, way) not in results:
            path = folder / f"{recorder}-{way.replace(' ', '-')}.data"
            command = PERFPY if recorder == "perfpy" else [perf]
            subprocess.run(
                [*command, "record", "-q", "-N", *WAYS[way], "-o", path, "--", *program],
                check=True,
                capture_output=True,
                timeout=60,
            )
            results[recorder, way] = path
        return results[recorder, way]

    return record


@pytest.mark.parametrize("recorder", ["perfpy", "perf"])
class TestBothPrintTheSame:
    @pytest.mark.parametrize("way", WAYS)
    def test_script(self, way, recorder, recorded, perf):
        path = recorded(recorder, way)
        words = ["script", *filters_of(way), *(few_symbols(path.parent) if way != "callchains" else ())]
        theirs = text_of(perf, *words, path=path)
        assert text_of(*PERFPY, *words, path=path) == theirs
        assert theirs or filters_of(way)  # where others are busy there may be nothing of ours

    @pytest.mark.parametrize("way", REPORTED)
    def test_report(self, way, recorder, recorded, perf):
        path = recorded(recorder, way)
        words = ["report", "--stdio", *filters_of(way), *(few_symbols(path.parent) if way != "callchains" else ())]
        ours, theirs = (text_of(*command, *words, path=path) for command in (PERFPY, [perf]))
        assert comparable(without_tips(ours)) == comparable(without_tips(theirs))

    @pytest.mark.parametrize("way", WAYS)
    def test_evlist(self, way, recorder, recorded, perf):
        path = recorded(recorder, way)
        assert text_of(*PERFPY, "evlist", "-v", path=path) == text_of(perf, "evlist", "-v", path=path)


def without_tips(report: str) -> list[str]:
    return [line for line in report.splitlines() if not line.startswith("# (")]


def test_a_running_process_is_recorded(tmp_path, perf):
    path = tmp_path / "perf.data"
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            attach = ["record", "-q", "-N", "-g", "-p", str(busy.pid), "-o", path, "--", "sleep", "1"]
            subprocess.run([*PERFPY, *attach], check=True, capture_output=True, timeout=60)
        finally:
            busy.kill()
    theirs = text_of(perf, "script", path=path)
    assert theirs.count(f" {busy.pid} ") > 20
    assert text_of(*PERFPY, "script", path=path) == theirs


class ProgramsRun(NamedTuple):
    """Recordings of the machine while it runs BPF programs, by recorder; ids: the programs' (others may run some, too)."""

    recordings: dict[str, Path]
    ids: set[str]

    def described(self, header: str) -> Iterator[str]:
        """Yield the lines about these programs in a header's text."""
        ours = False
        for line in header.splitlines():
            if match := re.match(r"# bpf_prog_info (\d+):", line):
                ours = match[1] in self.ids
            if ours and re.match(r"# bpf_prog_info|#\s+sub_prog", line):
                yield line


@pytest.fixture(scope="module")
def programs_run(tmp_path_factory, perf) -> ProgramsRun:
    """Record two BPF programs; the functions of the second one have names."""
    try:
        programs = [bpf_programs.load("plain"), bpf_programs.load("named", ["the_first_of_its_functions", "the_second"])]
    except OSError as error:
        pytest.skip(f"no BPF programs here: {error}")
    ids = {result for fd in programs for result in re.findall(r"prog_id:\s+(\d+)", Path(f"/proc/self/fdinfo/{fd}").read_text())}
    folder, ended = tmp_path_factory.mktemp("programs"), threading.Event()

    def keep_running() -> None:
        while not ended.is_set():
            for program in programs:
                bpf_programs.run(program, 2000)

    running = threading.Thread(target=keep_running)
    running.start()
    try:
        for name, command in ("perfpy", PERFPY), ("perf", [perf]):
            record = [*command, "record", "-q", "-N", "-a", "-F", "997", "-e", "cpu-clock", "-o", folder / name, "--", "sleep", "0.5"]
            subprocess.run(record, check=True, capture_output=True, timeout=60)
    finally:
        ended.set()
        running.join()
        for program in programs:
            os.close(program)
    return ProgramsRun({name: folder / name for name in ("perfpy", "perf")}, ids)


def test_perf_reads_the_code_of_bpf_programs(programs_run, perf):
    """perf crashes unless the file contains the code to disassemble."""
    path = programs_run.recordings["perfpy"]
    texts = [text_of(*command, "script", path=path) for command in (PERFPY, [perf])]
    ours, theirs = ([line for line in text.splitlines() if "_plain" in line] for text in texts)
    assert len(theirs) > 2
    assert ours == theirs


def test_bpf_programs_are_no_files_that_samples_hit(programs_run, perf):
    """The kernel is one; which files of others were hit is not compared, as they come and go."""
    for command in (PERFPY, [perf]):
        listed = text_of(*command, "buildid-list", "-H", path=programs_run.recordings["perfpy"])
        assert "bpf_prog" not in listed
        assert "[kernel.kallsyms]" in listed


def test_bpf_functions_have_the_names_that_perf_gives_them(programs_run, perf):
    ours, theirs = (
        list(programs_run.described(text_of(perf, "report", "--header-only", path=path))) for path in programs_run.recordings.values()
    )
    assert ours == theirs
    assert any("_the_second " in line for line in ours)
    addresses = {f"addr {address}" for address in re.findall(r"addr 0x(\w+)", "\n".join(ours))}
    records = []
    for path in programs_run.recordings.values():
        lines = text_of(perf, "script", "--show-bpf-events", "-F", "ip", path=path).splitlines()
        symbols = [line.split("KSYMBOL ")[1] for line in lines if "KSYMBOL" in line]
        records.append([symbol for symbol in symbols if any(symbol.startswith(f"{address} ") for address in addresses)])
    assert records[0] == records[1]
    assert "_the_first_of_its_functions" in "".join(records[0])
    assert len(records[0]) == len(addresses)


@pytest.mark.parametrize("writer", ["perfpy", "perf"])
@pytest.mark.parametrize("reader", ["perfpy", "perf"])
def test_recordings_go_through_pipes(writer, reader, perf):
    commands = {"perfpy": PERFPY, "perf": [perf]}
    program = [sys.executable, "-c", "sum(range(3_000_000))"]
    record = [*commands[writer], "record", "-q", "-N", "-e", "cpu-clock", "-o", "-", "--", *program]
    with subprocess.Popen(record, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as writing:
        script = subprocess.run(
            [*commands[reader], "script", "-i", "-"], stdin=writing.stdout, capture_output=True, text=True, check=False, timeout=60
        )
    assert (writing.returncode, script.returncode) == (0, 0), script.stderr
    assert script.stdout.count(" cpu-clock") > 10


def test_nothing_is_lost_at_a_usual_frequency(tmp_path, perf):
    path = tmp_path / "perf.data"
    command = [*PERFPY, "record", "-N", "-a", "-F", "997", "-e", "cpu-clock", "-o", path, "--", sys.executable, "-c", WORK]
    errors = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stderr
    assert "samples)" in errors
    assert " lost" not in errors
    assert "LOST" not in text_of(perf, "report", "--stats", path=path)


# Tests that every perf reads perfpy's recordings with each of these lines, and prints them like perfpy.


#: some options each, by topic
LINES = {
    "how often": ["-F 99", "-F 4999", "-c 100000", "-F max -m 64", "-n"],
    "whom": ["-i", "--per-thread", f"-C {CPU} -F 99", "-a -F 49", "--all-user", "--all-kernel"],
    "samples": ["-d", "-P -T", "-W", "--sample-cpu", "--sample-identifier", "--phys-data"],
    "more in samples": ["--data-page-size", "--code-page-size", "--running-time", "-s", "-I", "--user-regs=ip,sp"],
    "newer": ["--data-mmap", "--sample-mem-info", "--transaction", "-k mono", "-k CLOCK_BOOTTIME", "-R"],
    "stacks": ["-g", "--call-graph fp,32", "--call-graph fp,128", "-g --user-callchains", "-g --kernel-callchains"],
    "side-band": ["--switch-events", "--namespaces", "--all-cgroups", "--no-bpf-event", "--synth=task", "--synth=no"],
    "buffers": ["-m 1", "-m 64K,8", "-m 0", "--mmap-flush=4K", "--no-buffering", "--affinity=cpu", "--aio"],
    "what comes last": ["--tail-synthesize", "--overwrite -m 16", "--timestamp-boundary", "--buildid-all", "-B", "--buildid-mmap"],
    "folders": ["--threads", "--threads=core -g", "--threads=numa -z"],
    "compressed": ["-z", "-z99", "-z5 -g"],
    "held down, off the CPU": ["--max-cpu 50%", "--max-cpu 1000 -g", "--off-cpu -g", "--off-cpu --off-cpu-thresh 0"],
    "delayed": ["-D 1", "-D -1", "-D 1-5,10-20"],
    "more events": [
        "-e page-faults -c 1",
        "-e {cpu-clock,page-faults}:S",
        "-e cpu-clock,page-faults,context-switches -g",
        "-e sched:sched_process_exec,cpu-clock",
        "-e cpu-clock/period=100000,call-graph=fp/,page-faults/freq=7,time=0/",
    ],
}
READINGS = {
    "script": [],
    "evlist": ["-v"],
    # of the first line of each
    "report": ["--stdio"],
    "buildid-list": [],
}
#: print names of functions
NAMING = ("script", "report")
TROUBLE = re.compile(r"(?i)unordered|corrupt|bad |incompatible|failed|out of order")


def read(command: list[str], path: Path) -> str:
    """Return what perf prints of a recording, without complaints."""
    process = subprocess.run([*command, "-i", str(path)], capture_output=True, text=True, errors="surrogateescape", timeout=60, check=False)
    assert process.returncode == 0, (command, process.stderr)
    assert not TROUBLE.search(process.stderr), (command, process.stderr)
    return process.stdout


def ours(command: list[str], path: Path, capfd: pytest.CaptureFixture[str]) -> str:
    """Return what perfpy prints of it."""
    capfd.readouterr()
    assert run_cli([*command, "-i", str(path)]) == 0
    return capfd.readouterr().out


def lines_of(reading: str, text: str) -> object:
    """Return the lines to compare; the tip at the end of perf's report varies."""
    lines = [line for line in text.splitlines() if not line.startswith("# (")]
    return comparable(lines) if reading == "report" else lines


@pytest.mark.parametrize("about", LINES)
@pytest.mark.thorough
def test_every_perf_reads_it(about, tmp_path, perf, capfd):
    newer = shutil.which("perf7")
    for line in LINES[about]:
        path = tmp_path / re.sub(r"\W+", "-", line)
        event = [] if "-e " in line else ["-e", "cpu-clock"]
        options = [*event, *line.split()]
        command = [*PERFPY, "record", "-q", "-N", "-o", path, *options, "--", "sh", "-c", "/bin/true; /bin/true"]
        process = run_prepared(command)
        assert process.returncode in (0, 143), (line, process.stderr)  # the last of some ranges ends the command
        # others come and go on whole CPUs, with files that are gone; what is told last perf has no names from, and perfpy has
        differs = {"-a", "-C", "--tail-synthesize", "--overwrite"} & set(options)
        for reading, more in READINGS.items() if line is LINES[about][0] else list(READINGS.items())[:2]:
            words = [reading, *more, *(few_symbols(tmp_path) if reading in NAMING else ())]
            theirs = read([perf, *words], path)
            if not differs:
                assert lines_of(reading, ours(words, path, capfd)) == lines_of(reading, theirs), (line, reading)
            if newer:
                read([newer, *words], path)
    assert "# missing features" in read([perf, "report", "--header-only", "-I"], path)
