"""Tests of perfpy script against perf script: its output, perf's own scripts, and instructions between branches."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from perfpy.abi.flags import SampleType
from perfpy.disassembly.x86_lengths import length
from perfpy.perfdata.event_format import TracingData
from perfpy.perfdata.header import Feature
from tests.builders import branch_walk
from tests.builders.branch_walk import start_of
from tests.builders.perfdata import PerfDataBuilder, out_of_order, usual_attr
from tests.builders.prepared_start import PERFPY, run
from tests.builders.traced import traced_recording

# Tests that `perfpy script` prints what perf prints of the same file, for any options.


GOLDEN = Path(__file__).parents[1] / "golden" / "script"
TRACEFS = Path("/sys/kernel/tracing")
OPTIONS = [
    "",
    "-F comm,pid,tid,time,event,ip,sym,dso --ns",
    "-F +misc --show-mmap-events --show-task-events",
    "-F -comm,-time",
    "-F trace:event,trace -F sw:ip,sym",
    "-F ip,sym,dso,dsoff",
    "-F comm,flags,ip",
    "--reltime --show-task-events",
    "--deltatime --ns --show-mmap-events",
    "-G",
    "--max-stack 2",
    "--time 1,99999",
    "-c golden",
    "-S 0x401000",
    "-D",
    "--show-round-events",
    "--dump-unsorted-raw-trace",
    "--no-inline",
    "-L --show-task-events",
    "-L -F tid,pid,cpu,time,ip",
    "-d --show-mmap-events",
    "--call-trace",
    "--call-ret-trace",
    "--insn-trace",
    "--insn-trace=raw",
    "--insn-trace --call-trace --show-task-events",
]


def text_of(program: list[str], path: Path, options: list[str], config: Path | str = "/dev/null") -> bytes:
    environment = {**os.environ, "PERF_CONFIG": str(config), "LC_ALL": "C", "TZ": "UTC"}
    command = [*program, "script", "--symfs", "/nonexistent", "--kallsyms", "/dev/null", *options, "-i", str(path)]
    return run(command, env=environment).stdout


@pytest.mark.versus_perf
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", ["chains", "faults", "tracepoints"])
def test_options_give_perfs_text(perf: str, name: str, options: str) -> None:
    path = GOLDEN / f"{name}.data"
    assert text_of(PERFPY, path, options.split()) == text_of([perf], path, options.split())


@pytest.mark.versus_perf
@pytest.mark.parametrize(
    "options",
    [
        "",
        "--show-round-events",
        "--show-round-events --show-task-events --show-mmap-events",
        "--show-round-events --deltatime",
        "--show-round-events --reltime --show-task-events",
        "--show-round-events -D",
        "--dump-unsorted-raw-trace",
        "-D",
    ],
)
@pytest.mark.parametrize("shape", ["file", "pipe"])
def test_rounds_and_records_out_of_order_are_perfs(perf: str, tmp_path: Path, shape: str, options: str) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(getattr(out_of_order(), shape)())
    expected = text_of([perf], path, options.split())
    assert expected
    assert text_of(PERFPY, path, options.split()) == expected


@pytest.mark.versus_perf
@pytest.mark.parametrize("options", ["", "--max-stack 2", "--stop-bt main", "-G"])
def test_callers_come_first_where_the_configuration_is_reported(perf: str, tmp_path: Path, options: str) -> None:
    config = tmp_path / "perfconfig"
    config.write_text("[call-graph]\n\torder = caller\n")
    path = GOLDEN / "chains.data"
    expected = text_of([perf], path, options.split(), config)
    assert expected != text_of([perf], path, options.split()) or options == "-G"
    assert text_of(PERFPY, path, options.split(), config) == expected


@pytest.mark.versus_perf
def test_files_for_each_event_are_perfs(perf: str, tmp_path: Path) -> None:
    (tmp_path / "perf.data").write_bytes((GOLDEN / "tracepoints.data").read_bytes())
    outputs: list[bytes] = []
    written: list[dict[str, bytes]] = []
    for program in ([perf], PERFPY):
        outputs.append(text_of(program, tmp_path / "perf.data", ["--per-event-dump"]))
        written.append({path.name: path.read_bytes() for path in tmp_path.glob("*.dump")})
        for path in tmp_path.glob("*.dump"):
            path.unlink()
    assert outputs[0] == outputs[1]
    assert outputs[0]
    assert written[0] == written[1]


#: events whose formats perf's library reads differently from version to version (sizeof of kernel types, characters as arguments)
CHANGING = ("sizeof(u", "sizeof(__u", "? '", "__get_cpumask")


@pytest.mark.versus_perf
@pytest.mark.live
@pytest.mark.parametrize(
    "system", ["sched", "irq", "timer", "block", "net", "kmem", "signal", pytest.param("ext4", marks=pytest.mark.particular)]
)
def test_this_kernels_tracepoints_are_printed_as_perf_prints_them(perf: str, tmp_path: Path, system: str) -> None:
    texts = [path.read_bytes() for path in sorted((TRACEFS / "events" / system).glob("*/format"))] if os.access(TRACEFS, os.R_OK) else []
    texts = [text for text in texts if not any(mark.encode() in text for mark in CHANGING)]
    if not texts:
        pytest.skip(f"no formats of {system} in {TRACEFS} (it is root's)")
    path = tmp_path / "perf.data"
    path.write_bytes(_recording(system, texts))
    options = ["-F", "event,trace"]
    printed = text_of(PERFPY, path, options)
    assert printed.replace(b"^J", b"\n") == text_of([perf], path, options)  # perf ends the line within a name


def _recording(system: str, texts: list[bytes]) -> bytes:
    """Return some samples of every tracepoint: all zeros, small numbers, and every bit set in turn of bytes."""
    events = TRACEFS / "events"
    page, event = (events / "header_page").read_bytes(), (events / "header_event").read_bytes()
    tracing = TracingData("0.6", "<", 8, 4096, page, event, systems=((system, tuple(texts)),), cmdlines=b"")
    numbers = [int(text.split(b"ID:")[1].split()[0]) for text in texts]
    sample_type = SampleType.IDENTIFIER | SampleType.TID | SampleType.TIME | SampleType.RAW
    attrs = [usual_attr(sample_type, type=2, config=number, exclude_kernel=0, exclude_hv=0) for number in numbers]
    built = PerfDataBuilder(attrs=attrs, ids=[(number,) for number in numbers], features={Feature.TRACING_DATA: tracing.encode()})
    for index, number in enumerate(numbers):
        for filler in (b"\0", b"\1\0\0\0\0\0\0\0", b"\3\2\1\0\0\0\0\0"):
            raw = number.to_bytes(2, "little") + (filler * 300)[2:260]
            built.sample(index, pid=1, tid=1, time=1000 + index, raw=raw)
    return built.file()


# Tests that perf's own scripts, unmodified, print the same with perfpy as with perf.


PERFPY_COMMAND = (sys.executable, "-m", "perfpy")
EVERYTHING = """
def process_event(sample):
    print(list(sample.items()))
def trace_unhandled(name, context, fields, sample):
    print(name, list(fields.items()), list(sample.items()))
def throttle(*values): print("throttle", values)
def context_switch(*values): print("context_switch", values)
"""
TABLES = """
perf_db_export_mode = True
perf_db_export_callchains = True
def trace_unhandled(*values): print("unhandled", values[0], values[2])
def context_switch(*values): print("context_switch", values)
for table in "evsel machine thread comm comm_thread dso symbol branch_type call_path sample context_switch call_return".split():
    globals()[table + "_table"] = lambda *values, table=table: print(table, values)
"""
#: the parts of Qt that export-to-sqlite.py needs, made of Python's own sqlite3
QT_SQL = """
import sqlite3

class QSqlDatabase:
    @classmethod
    def addDatabase(cls, kind): return cls()
    def setDatabaseName(self, name): self.name = name
    def open(self): self.connection = sqlite3.connect(self.name, isolation_level=None)

class QSqlQuery:
    def __init__(self, db): self.db, self.values = db, []
    def prepare(self, text): self.text = text
    def addBindValue(self, value): self.values.append(value)
    def exec_(self, text=None):
        self.result = self.db.connection.execute(text or self.text, self.values)
        self.values = []
        return True
    def next(self): return self.result.fetchone() is not None
"""
SCRIPTS = [
    "syscall-counts", "syscall-counts-by-pid", "failed-syscalls-by-pid", "check-perf-trace", "task-analyzer", "stackcollapse",
    "intel-pt-events",
]  # fmt: skip


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("traced") / "perf.data"
    path.write_bytes(traced_recording())
    return path


@pytest.fixture(scope="session")
def odd_recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """From some sample on, names in tracepoints are not valid text."""
    path = tmp_path_factory.mktemp("odd") / "perf.data"
    path.write_bytes(traced_recording(odd_name=b"\xff\x01other"))
    return path


@pytest.fixture(scope="session")
def scripts(perf: str) -> Path:
    folder = Path(subprocess.run([perf, "--exec-path"], capture_output=True, text=True, check=True, timeout=60).stdout.strip())
    return folder / "scripts" / "python"


def printed(program: tuple[str, ...], script: Path, data: Path, scripts: Path, *args: str, **more: str) -> tuple[int, str]:
    environment = {**os.environ, "PERF_EXEC_PATH": str(scripts.parents[1]), "PERF_CONFIG": "/dev/null", "LC_ALL": "C.UTF-8", **more}
    options = ["-f", "--symfs", "/nonexistent", "--kallsyms", "/dev/null", "-i", str(data), "-s", str(script), *args]
    process = subprocess.run([*program, "script", *options], capture_output=True, text=True, timeout=60, env=environment, check=False)
    return process.returncode, process.stdout


@pytest.mark.versus_perf
@pytest.mark.parametrize("name", SCRIPTS)
def test_perfs_scripts_print_the_same(perf: str, scripts: Path, name: str, recording: Path) -> None:
    script = scripts / f"{name}.py"
    status, text = printed(PERFPY_COMMAND, script, recording, scripts)
    assert (status, text) == printed((perf,), script, recording, scripts)
    assert text.count("\n") > 1


@pytest.mark.versus_perf
def test_a_script_that_fails_with_current_tracepoints_works(perf: str, scripts: Path, recording: Path) -> None:
    script = scripts / "net_dropmonitor.py"
    assert printed((perf,), script, recording, scripts)[0] != 0, "or else it can be held against perf's text"
    status, text = printed(PERFPY_COMMAND, script, recording, scripts)
    assert (status, [line.split()[-1] for line in text.splitlines()[-2:]]) == (0, ["20", "20"])


@pytest.mark.versus_perf
def test_all_values_are_perfs(perf: str, scripts: Path, odd_recording: Path, tmp_path: Path) -> None:
    script = tmp_path / "everything.py"
    script.write_text(EVERYTHING)
    status, text = printed(PERFPY_COMMAND, script, odd_recording, scripts)
    assert (status, text) == printed((perf,), script, odd_recording, scripts)
    assert text.count("\n") > 200
    assert "bytearray(b'\\xff" in text


@pytest.mark.versus_perf
def test_tables_are_perfs_row_by_row(perf: str, scripts: Path, odd_recording: Path, tmp_path: Path) -> None:
    script = tmp_path / "tables.py"
    script.write_text(TABLES)
    status, text = printed(PERFPY_COMMAND, script, odd_recording, scripts)
    assert (status, text) == printed((perf,), script, odd_recording, scripts)
    assert text.count("\nsample (") == 40
    assert text.count("\ncontext_switch (") >= 40


@pytest.mark.versus_perf
def test_a_database_is_perfs(perf: str, scripts: Path, recording: Path, tmp_path: Path) -> None:
    (tmp_path / "PySide2").mkdir()
    (tmp_path / "PySide2" / "QtSql.py").write_text(QT_SQL)
    dumps: list[list[str]] = []
    for program in (PERFPY_COMMAND, (perf,)):
        path = tmp_path / f"{len(dumps)}.db"
        args = (str(path), "all", "calls", "callchains")
        status, text = printed(program, scripts / "export-to-sqlite.py", recording, scripts, *args, PYTHONPATH=str(tmp_path))
        assert status == 0, text
        with contextlib.closing(sqlite3.connect(path)) as connection:
            dumps.append([*connection.iterdump()])
    assert dumps[0] == dumps[1]
    assert sum(line.startswith('INSERT INTO "samples"') for line in dumps[0]) == 41, "and one for what is unknown"


@pytest.mark.versus_perf
def test_the_scripts_of_an_installed_perf_are_listed(perf: str, scripts: Path) -> None:
    listed, ours = (
        subprocess.run([*program, "script", "-l"], capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
        for program in ((perf,), PERFPY_COMMAND)
    )
    assert len(ours) > 10
    assert ours == [line for line in listed if line in ours], "those in Perl are left out"


@pytest.mark.versus_perf
def test_a_script_can_be_recorded_and_reported_by_its_name(scripts: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PERF_EXEC_PATH": str(scripts.parents[1]), "PATH": "/usr/bin:/bin"}

    def script(*args: str) -> str:
        command = [*PERFPY_COMMAND, "script", *args]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, env=environment, check=True).stdout

    script("record", "stackcollapse", "-e", "page-faults:u", "-c", "1", "-o", "own.data", "--", "true")
    assert [line.split(" ")[0] for line in script("report", "stackcollapse", "-i", "own.data").splitlines()] != []
    assert "true" in script("stackcollapse", "-e", "page-faults:u", "-c", "1", "--", "true")


# Tests that `perfpy script` prints the instructions between branches like perf, even for invalid branch stacks.


FIELDS = [
    "ip,insn,insnlen",
    "ip,sym,brstackinsn",
    "ip,sym,brstackinsn,brstackinsnlen,srcline",
    "comm,ip,brstack,brstackinsnlen,period",
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("walked") / "walked"
    subprocess.run(["gcc", "-O1", "-g", "-no-pie", "-pthread", "-o", path, branch_walk.SOURCE], check=True)
    return path


def branch_text(program: list[str], path: Path, *options: str) -> bytes:
    environment = {**os.environ, "PERF_CONFIG": "/dev/null", "LC_ALL": "C"}
    return run([*program, "script", *options, "-i", path], check=True, env=environment).stdout


def broken(samples: list[tuple[int, list[tuple[int, int, int]]]]) -> list[tuple[int, list[tuple[int, int, int]]]]:
    """Return samples with addresses that are wrong, the kernel's, or 0."""
    chance = random.Random(5)

    def off(address: int) -> int:
        return address + chance.choice([0, 0, 0, 0, 1, 3, -8, 70, 0xFFFF_FFFF_8100_0000, -address])

    return [
        (ip + chance.choice([0, 0, 9, -100, 20000]), [(off(at), off(to), flags | chance.choice([0, 4, 8])) for at, to, flags in stack])
        for ip, stack in samples
    ]


@pytest.mark.versus_perf
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.skipif(not shutil.which("objdump"), reason="needs objdump")
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="a program for x86-64")
@pytest.mark.parametrize("fields", FIELDS)
def test_instructions_between_branches_are_perfs(perf: str, program: Path, tmp_path: Path, fields: str) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(branch_walk.recording(program, start_of(program, "outer")))
    expected = branch_text([perf], path, "-F", fields)
    assert expected.count(b"\n") >= 60
    assert branch_text(PERFPY, path, "-F", fields) == expected


@pytest.mark.versus_perf
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.skipif(not shutil.which("objdump"), reason="needs objdump")
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="a program for x86-64")
def test_the_number_of_blocks_is_limited(perf: str, program: Path, tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(branch_walk.recording(program, start_of(program, "outer"), chains=True))
    options = ("-F", "ip,sym,brstackinsn", "--max-blocks", "3")
    assert branch_text(PERFPY, path, *options) == branch_text([perf], path, *options)


@pytest.mark.versus_perf
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.skipif(not shutil.which("objdump"), reason="needs objdump")
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="a program for x86-64")
def test_invalid_branch_stacks(perf: str, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sensible = branch_walk.walk
    monkeypatch.setattr(branch_walk, "walk", lambda *asked: broken(sensible(*asked)))
    path = tmp_path / "perf.data"
    path.write_bytes(branch_walk.recording(program, start_of(program, "outer"), 200))
    expected = branch_text([perf], path, "-F", "ip,sym,brstackinsn")
    assert b"mismatch of LBR" in expected
    assert branch_text(PERFPY, path, "-F", "ip,sym,brstackinsn") == expected


@pytest.mark.versus_perf
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.skipif(not shutil.which("objdump"), reason="needs objdump")
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="a program for x86-64")
def test_text_of_a_disassembler(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(branch_walk.recording(program, start_of(program, "outer")))
    lines = branch_text(PERFPY, path, "-F", "ip,disasm,brstackdisasm").decode().splitlines()
    code = branch_walk.instructions(program)
    output = [re.match(r"\t([0-9a-f]{16})\t(\S+)", line) for line in lines]
    assert sum(1 for result in output if result and code[int(result[1], 16)].jumps == "ret" and result[2].startswith("ret")) > 20
    assert re.match(r" +[0-9a-f]+\t\t\w+", lines[0])


@pytest.mark.versus_perf
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.skipif(not shutil.which("objdump"), reason="needs objdump")
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="a program for x86-64")
def test_lengths_are_objdumps() -> None:
    library = Path(os.path.realpath(shutil.which("ls") or sys.executable))
    code, content = branch_walk.instructions(library), library.read_bytes()
    assert len(code) > 10_000
    # this program's code lies in the file where its addresses say
    wrong = [one for one in code.values() if length(content[one.at : one.at + one.size]) != one.size]
    assert wrong == []


def without_tip(text: bytes) -> bytes:
    return re.sub(rb"(?m)^# \(Tip: .*\n", b"", text)


@pytest.mark.versus_perf
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.skipif(not shutil.which("objdump"), reason="needs objdump")
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="a program for x86-64")
@pytest.mark.parametrize("sensible", [True, False])
def test_blocks_and_their_cycles_are_perfs(
    perf: str, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sensible: bool
) -> None:
    walk = branch_walk.walk
    if not sensible:
        monkeypatch.setattr(branch_walk, "walk", lambda *asked: broken(walk(*asked)))
    path = tmp_path / "perf.data"
    path.write_bytes(branch_walk.recording(program, start_of(program, "outer"), 200))
    printed = []
    for command in ([perf], PERFPY):
        line = [*command, "report", "--stdio", "--total-cycles", "-i", str(path)]
        environment = {**os.environ, "PERF_CONFIG": "/dev/null", "LC_ALL": "C"}
        printed.append(without_tip(subprocess.run(line, capture_output=True, check=True, timeout=60, env=environment).stdout))
    assert printed[0].count(b"program.c:9 -> program.c") > 1
    assert printed[1] == printed[0]
