"""Python programs that `perfpy script -s` runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from perfpy.abi.attr import Reading
from perfpy.abi.flags import ReadFormat, SampleType
from perfpy.abi.records import Comm, Fork, Mmap2, SampleId, Switch, SwitchCpuWide, Throttle
from perfpy.cli import run
from perfpy.views.scripting.tables import branch_types
from tests.builders.elf import Elf
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr
from tests.builders.tracepoint_events import EventRecording

if TYPE_CHECKING:
    from collections.abc import Callable

    Runs = Callable[..., tuple[int, str, str]]
    Tables = dict[str, list[tuple[Any, ...]]]


# Tests of scripts: they get perf's values, report errors, and cope with tracepoints of other kernels.


TRACEPOINTS = Path(__file__).parents[2] / "golden" / "script" / "tracepoints.data"


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Record two samples with callers, and a throttling between them."""
    elf = Elf().text(0x1000, size=0x1000).segment(0x1000, 0x1000, 0x1000)
    (tmp_path / "app").write_bytes(elf.symbol("leaf", 0x1000, 0x10).symbol("main", 0x1010, 0x20).build())
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | SampleType.CALLCHAIN)])
    ids = SampleId(pid=7, tid=7, time=1)
    built.record(Comm(0, 7, 7, "w\u00f6rker", ids))
    built.record(Mmap2(2, 7, 7, 0x401000, 0x1000, 0x1000, 0, 0, 0, 0, 5, 2, "/app", b"", ids))
    built.sample(pid=7, tid=7, time=5, ip=0x401004, period=3, misc=2, callchain=[0x401004, 0x401014])
    built.record(Throttle(0, 6, 1, 1, SampleId(pid=7, tid=7, time=6)))
    built.sample(pid=7, tid=7, time=7, ip=0x401018, period=4, misc=2, callchain=[0x401018])
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    return path


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    """Return a function that runs a script in a separate process: (status, output, errors)."""

    def run_it(text: str, data: Path, *args: str, exec_path: str = "") -> tuple[int, str, str]:
        script = tmp_path / "script.py"
        script.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "perfpy", "script", "-f", "--symfs", str(tmp_path), "-i", str(data), "-s", str(script), *args]
        environment = {**os.environ, "PERF_EXEC_PATH": exec_path or str(tmp_path / "no-perf"), "PATH": "/nowhere"}
        process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
        return process.returncode, process.stdout, process.stderr

    return run_it


def test_a_sample_is_a_dictionary_with_perfs_keys(runs: Runs, recording: Path) -> None:
    status, out, _ = runs("def process_event(sample):\n    print(sample)\n", recording)
    first, second = (eval(line) for line in out.splitlines())  # printed by our own script
    assert status == 0
    assert list(first) == [
        "ev_name", "attr", "sample", "raw_buf", "comm", "dso", "dso_bid", "dso_map_start", "dso_map_end", "symbol", "symoff",
        "callchain", "brstack", "brstacksym", "iregs", "uregs",
    ]  # fmt: skip
    assert (first["comm"], first["dso"], first["symbol"], first["symoff"]) == ("w\u00f6rker", "/app", "leaf", 4)
    assert first["callchain"] == [
        {"ip": 0x401004, "sym": {"start": 0x1000, "end": 0x1010, "binding": 1, "name": "leaf"}, "sym_off": 4, "dso": "/app"},
        {"ip": 0x401014, "sym": {"start": 0x1010, "end": 0x1030, "binding": 1, "name": "main"}, "sym_off": 4, "dso": "/app"},
    ]
    numbers = second["sample"]
    assert (numbers["pid"], numbers["cpu"], numbers["time"], numbers["period"], numbers["values"]) == (7, 2**32 - 1, 7, 4, [(0, 0, 0)])
    assert (numbers["id"], numbers["datasrc_decode"][:7], numbers["cpumode"]) == (2**64 - 1, "|OP N/A", 2)


def test_functions_are_called_in_the_order_of_records(runs: Runs, recording: Path) -> None:
    names = ("trace_begin", "trace_end", "process_event", "throttle")
    text = "import sys\nprint(sys.argv[1:], __name__)\n" + "".join(f"def {name}(*values): print('{name}')\n" for name in names)
    assert runs(text, recording, "one", "--two")[1].splitlines() == [
        "['one', '--two'] __main__", "trace_begin", "process_event", "throttle", "process_event", "trace_end",
    ]  # fmt: skip


def test_filters_select_the_samples_of_a_script(runs: Runs, recording: Path, tmp_path: Path) -> None:
    script = tmp_path / "times.py"
    script.write_text("def process_event(sample): print(sample['sample']['time'])\n")
    options = ["-f", "-i", str(recording), "--symfs", str(tmp_path), "-S", "main", "-s", str(script)]
    command = [sys.executable, "-m", "perfpy", "script", *options]
    assert subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout == "7\n"


def test_a_tracepoints_handler_gets_its_fields(runs: Runs) -> None:
    text = """
def trace_unhandled(name, context, fields):
    print(name, {key: value for key, value in fields.items() if key != "common_callchain"})
"""
    status, out, _ = runs(text, TRACEPOINTS)
    assert status == 0
    first = out.splitlines()[0]
    assert first.startswith(("sched__", "syscalls__", "raw_syscalls__", "irq__", "golden__"))
    assert "'common_s': " in first


def test_negative_numbers_of_less_than_64_bits_are_unsigned_as_in_perf(runs: Runs, tmp_path: Path) -> None:
    built = EventRecording(["kmem:kmalloc", "syscalls:sys_exit_read"])
    built.event("kmem:kmalloc", 10, 1, 2, 3, 4, 5, -1).event("syscalls:sys_exit_read", 11, 0, -9)
    (tmp_path / "perf.data").write_bytes(built.file())
    text = "def trace_unhandled(name, context, fields):\n    print(fields.get('node'), fields.get('ret'))\n"
    assert runs(text, tmp_path / "perf.data")[:2] == (0, "4294967295 None\nNone -9\n")


def test_a_sample_has_the_times_of_its_readings(runs: Runs, tmp_path: Path) -> None:
    times = ReadFormat.TOTAL_TIME_ENABLED | ReadFormat.TOTAL_TIME_RUNNING | ReadFormat.ID
    attrs = [usual_attr(USUAL | kind, read_format=times) for kind in (SampleType.READ, 0)]
    readings: list[Any] = [[Reading(3, enabled=20, running=10, id=1)], None]
    outs = []
    for attr, read in zip(attrs, readings, strict=True):
        values = {"pid": 7, "tid": 7, "time": 5, **({"read": read} if read else {})}
        (tmp_path / "perf.data").write_bytes(PerfDataBuilder(attrs=[attr], ids=[(1,)]).sample(**values).file())
        text = "def process_event(d):\n    print(list(d['sample'])[9:13], d['sample']['time_enabled'], d['sample']['time_running'])\n"
        outs.append(runs(text, tmp_path / "perf.data")[1])
    keys = ["addr", "time_enabled", "time_running", "values"]
    assert outs == [f"{keys} 20 10\n", f"{keys} 0 0\n"], "0 if samples have no readings, whatever their event's read_format"


def handlers(runs: Runs) -> tuple[str, list[str], list[str]]:
    """Return the first tracepoint, the names of its fields, and their values."""
    text = """
def trace_unhandled(name, context, fields):
    own = {key: value for key, value in fields.items() if not key.startswith("common_")}
    print(name, *own)
    print(*map(str, own.values()), sep="|")
    raise SystemExit
"""
    _, out, _ = runs(text, TRACEPOINTS)
    names, values = out.splitlines()
    name, *fields = names.split()
    return name, fields, values.split("|")


COMMON = "e, context, common_cpu, common_secs, common_nsecs, common_pid, common_comm, common_callchain"


def test_handlers_for_other_kernels_get_the_fields_they_name(runs: Runs) -> None:
    name, fields, values = handlers(runs)
    last, first = (fields[-1], values[-1]), values[0]
    body = f"\n    print({last[0]}, sep='|')\n    raise SystemExit\n"
    assert runs(f"def {name}({COMMON}, {last[0]}):{body}", TRACEPOINTS)[1].strip() == last[1], "by its name"
    text = f"def {name}({COMMON}, called_otherwise):\n    print(called_otherwise)\n    raise SystemExit\n"
    if len(fields) > 1:
        assert runs(text, TRACEPOINTS)[1].strip() == first, "by its place"
    more = ", ".join([*fields, "a", "b", "c"])
    text = f"def {name}({COMMON}, {more}):\n    print({fields[0]}, a, b, c)\n    raise SystemExit\n"
    assert runs(text, TRACEPOINTS)[1].strip() == f"{first} None None None", "what there is not is None"


def test_a_handler_with_one_parameter_more_gets_the_sample(runs: Runs) -> None:
    name, fields, _ = handlers(runs)
    body = "\n    print(sample['ev_name'], type(sample['sample']['ip']).__name__)\n    raise SystemExit\n"
    text = f"def {name}({COMMON}, {', '.join(fields)}, sample):{body}"
    assert runs(text, TRACEPOINTS)[1].strip() == f"{name.replace('__', ':')} int"


def test_a_missing_field_is_none_and_is_not_replaced_by_the_sample(runs: Runs) -> None:
    name, fields, values = handlers(runs)
    with_gone = ", ".join([*fields[:-1], "gone", fields[-1]])
    text = f"def {name}({COMMON}, {with_gone}):\n    print(gone, {fields[-1]}, sep='|')\n    raise SystemExit\n"
    assert runs(text, TRACEPOINTS)[1].strip() == f"None|{values[-1]}"


@pytest.mark.parametrize("function", ["trace_begin", "process_event", "trace_end"])
def test_a_failure_is_reported_with_the_scripts_line(function: str, runs: Runs, recording: Path) -> None:
    status, _, err = runs(f"def {function}(*_):\n    return 1 // 0\n", recording)
    assert status == 255
    *trace, last = err.splitlines()
    assert trace[0].startswith("Traceback")
    assert 'script.py", line 2' in trace[1]
    assert "perfpy/" not in err, "none of our own lines"
    assert last.endswith(f"script.py: {function} failed: see the traceback above")


@pytest.mark.parametrize(
    ("text", "message"),
    [("def f(:\n", "line 1: not a Python 3 program"), ("print 'old'\n", "not a Python 3 program: "), ("a\0b", "not a Python 3 program: ")],
)
def test_invalid_scripts_are_an_error_of_one_line(text: str, message: str, runs: Runs, recording: Path) -> None:
    status, _, err = runs(text, recording)
    assert (status, err.count("\n")) == (255, 1)
    assert message in err


def test_files_that_a_script_left_open_are_written(runs: Runs, recording: Path, tmp_path: Path) -> None:
    kept_file = tmp_path / "kept.txt"
    text = f"""
def trace_begin():
    global file
    file = open({str(kept_file)!r}, "w")
def process_event(sample):
    print(sample["comm"], file=file)
"""
    assert runs(text, recording)[0] == 0
    assert kept_file.read_text().splitlines() == ["w\u00f6rker", "w\u00f6rker"]


@pytest.mark.parametrize(("code", "status"), [("0", 0), ("3", 3), ("'why'", 1)])
def test_a_script_may_exit(code: str, status: int, runs: Runs, recording: Path) -> None:
    assert runs(f"import sys\ndef process_event(sample): sys.exit({code})\n", recording)[0] == status


def test_modules_of_perfs_scripts_exist_without_perf(runs: Runs, recording: Path) -> None:
    text = """
import os, sys
sys.path.append(os.environ["PERF_EXEC_PATH"] + "/scripts/python/Perf-Trace-Util/lib/Perf/Trace")
from perf_trace_context import *
from Core import *
from Util import *
from EventClass import *
def trace_begin():
    define_flag_field("e", "f", "|"); define_flag_value("e", "f", 1, "A"); define_flag_value("e", "f", 4, "B")
    define_symbolic_value("e", "g", 2, "TWO")
    print(flag_str("e", "f", 5), symbol_str("e", "g", 2), trace_flag_str(5), nsecs(1, 5), strerror(-2), avg(6, 4))
    stats = {}
    for value in (4, 2, 6): add_stats(stats, "k", value)
    print(stats, create_event("n", "c", "d", "s", b"").name)
"""
    assert runs(text, recording) == (0, "A | B TWO IRQS_OFF | NEED_RESCHED 1000000005 ENOENT 1.5\n{'k': (2, 6, 4.5, 3)} n\n", "")


def test_names_are_escaped_on_a_terminal_and_the_scripts_colours_are_kept(tmp_path: Path) -> None:
    from tests.builders.hostile_names import hostile_recording
    from tests.builders.terminals import on_terminal

    (tmp_path / "perf.data").write_bytes(hostile_recording().file())
    (tmp_path / "s.py").write_text("def process_event(s): print(s['comm'])\ndef trace_begin(): print('\\033[31mred')\n")
    screen_text = on_terminal("script", "-f", "-i", str(tmp_path / "perf.data"), "-s", str(tmp_path / "s.py")).text
    assert "\x1b[31mred" in screen_text
    assert "\x1b]" not in screen_text


def test_ctrl_c_lets_the_script_print_its_results(tmp_path: Path, recording: Path) -> None:
    (tmp_path / "s.py").write_text(
        "import time\ndef process_event(s):\n    print('first', flush=True)\n    time.sleep(2)\ndef trace_end(): print('the end')\n"
    )
    command = [sys.executable, "-m", "perfpy", "script", "-f", "-i", str(recording), "-s", str(tmp_path / "s.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "first\n"
        started.send_signal(signal.SIGINT)
        try:
            out, _ = started.communicate(timeout=50)
        finally:
            started.kill()
    assert (started.returncode, out) == (0, "the end\n")


def test_the_example_script_runs(runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["script", "-f", "-i", str(TRACEPOINTS), "-g", "python"]) == 0
    assert capsys.readouterr().err == "generated Python script: perf-script.py\n"
    script = (tmp_path / "perf-script.py").read_text(encoding="utf-8")
    status, out, err = runs(script, TRACEPOINTS)
    assert (status, err) == (0, "")
    assert out.startswith("in trace_begin\n")
    assert "trace_unhandled" not in out
    assert run(["script", "-f", "-i", str(TRACEPOINTS), "-g", "own.py"]) == 0
    assert (tmp_path / "own.py").read_text(encoding="utf-8") == script


# Tests of script --py: functions of a script get columns of some thousand samples, and errors are reported.


SAMPLES = 20


@pytest.fixture
def column_runs(tmp_path: Path) -> Runs:
    """Return a function that runs a script on a recording with two functions: (status, output, errors)."""
    elf = Elf().text(0x1000, size=0x1000).segment(0x1000, 0x1000, 0x1000)
    (tmp_path / "app").write_bytes(elf.symbol("leaf", 0x1000, 0x10).symbol("main", 0x1010, 0x20).build())
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | SampleType.CALLCHAIN)])
    built.record(Comm(0, 7, 7, "worker", SampleId(pid=7, tid=7, time=1)))
    built.record(Mmap2(2, 7, 7, 0x401000, 0x1000, 0x1000, 0, 0, 0, 0, 5, 2, "/app", b"", SampleId(pid=7, tid=7, time=1)))
    for number in range(SAMPLES):
        ip = 0x401004 if number % 4 else 0x401014
        built.sample(pid=7, tid=7, time=10 + number, ip=ip, period=3, misc=2, callchain=[ip, 0x401014])
    built.record(Throttle(0, 99, 1, 1, SampleId(pid=7, tid=7, time=99)))
    (tmp_path / "perf.data").write_bytes(built.file())

    def run_it(text: str, *options: str) -> tuple[int, str, str]:
        (tmp_path / "script.py").write_text(text)
        where = ["-f", "--symfs", str(tmp_path), "-i", str(tmp_path / "perf.data"), "--py", str(tmp_path / "script.py")]
        command = [sys.executable, "-m", "perfpy", "script", *where, *options]
        environment = {**os.environ, "PATH": "/nowhere"}
        process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
        return process.returncode, process.stdout, process.stderr

    return run_it


COUNTS = """
import sys
from collections import Counter
seen = Counter()
def on_start(recording):
    print([event.name for event in recording.events], sys.argv[1:])
def on_sample(batch):
    seen.update(zip(batch["comm"], batch["dso"], batch["symbol"], batch["stack"]))
    print(len(batch), int(batch["period"].sum()), batch.names)
def on_record(record):
    print(type(record).__name__)
def on_end():
    print(sorted(seen.items()))
"""


def test_columns_have_names_and_records_come_in_order(column_runs: Runs) -> None:
    status, out, err = column_runs(COUNTS, "--", "one", "two")
    assert (status, err) == (0, "")
    *lines, counts = out.splitlines()
    names = ["comm", "dso", "symbol", "srcline", "stack"]
    assert lines[0].endswith(" ['one', 'two']")
    assert lines[1:] == ["Comm", "Mmap2", f"{SAMPLES} {3 * SAMPLES} {names}", "Throttle"]
    assert eval(counts) == [
        (("worker", "app", "leaf", ("leaf", "main")), SAMPLES * 3 // 4),
        (("worker", "app", "main", ("main", "main")), SAMPLES // 4),
    ]


def test_filters_select_the_samples(column_runs: Runs) -> None:
    count = "def on_sample(batch): print(len(batch), {*batch['symbol']})\n"
    assert column_runs(count, "-S", "main")[1] == f"{SAMPLES // 4} {{'main'}}\n"
    assert column_runs(count, "-c", "nobody")[1] == ""


def test_to_pandas_has_names(column_runs: Runs) -> None:
    pytest.importorskip("pandas")
    text = "def on_sample(batch): print(batch.to_pandas(['symbol', 'period']).groupby('symbol')['period'].sum().to_dict())\n"
    assert column_runs(text)[1] == "{'leaf': 45, 'main': 15}\n"


@pytest.mark.parametrize(
    ("text", "options", "status", "message"),
    [
        ("def on_sample(batch):\n    1 / 0\n", [], 255, 'script.py", line 2, in on_sample'),
        ("def on_sample(batch): batch['colour']\n", [], 255, "no column 'colour'; these samples have event, "),
        ("def process_event(sample): pass\n", [], 255, "no function on_sample(batch) or on_record(record); a script in perf's form"),
        ("def on_sample(batch) print\n", [], 255, "line 1: not a Python 3 program"),
        ("import sys\ndef on_end(): sys.exit(3)\n", [], 3, ""),
        ("", ["-s", "x.py"], 129, "exclude each other"),
    ],
)
def test_errors_of_scripts_are_reported(text: str, options: list[str], status: int, message: str, column_runs: Runs) -> None:
    ended, _, err = column_runs(text, *options)
    assert ended == status
    assert message in err


# Tests of scripts that fill tables: each row is written once, before the first row that refers to it.


SCRIPT = """
import sys
perf_db_export_mode = True
perf_db_export_callchains = True
def process_event(sample): print("process_event",)
for table in "evsel machine thread comm comm_thread dso symbol call_path sample context_switch branch_type".split():
    globals()[table + "_table"] = lambda *values, table=table: print((table, values))
"""
OUT, PREEMPTED = 1 << 13, 1 << 14
EXEC = 1 << 13


@pytest.fixture
def tables(tmp_path: Path) -> Callable[[PerfDataBuilder], Tables]:
    """Return a function that collects the rows of a script, by table, and the order of the tables."""
    elf = Elf().text(0x1000, size=0x1000).segment(0x1000, 0x1000, 0x1000)
    (tmp_path / "app").write_bytes(elf.symbol("leaf", 0x1000, 0x10).symbol("main", 0x1010, 0x20).build())
    (tmp_path / "script.py").write_text(SCRIPT)

    def run_it(built: PerfDataBuilder) -> Tables:
        data = tmp_path / "perf.data"
        data.write_bytes(built.file())
        options = ["-f", "--symfs", str(tmp_path), "-i", str(data), "-s", str(tmp_path / "script.py")]
        command = [sys.executable, "-m", "perfpy", "script", *options]
        out = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env={**os.environ, "PATH": "/nowhere"}).stdout
        results: Tables = {}
        for table, values in map(eval, out.splitlines()):  # printed by our own script
            results.setdefault(table, []).append(values)
            results.setdefault("order", []).append((table,))
        return results

    return run_it


def recorded() -> PerfDataBuilder:
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | SampleType.CALLCHAIN)])
    built.record(Comm(EXEC, 7, 7, "app", SampleId(pid=7, tid=7, time=1)))
    built.record(Mmap2(2, 7, 7, 0x401000, 0x1000, 0x1000, 0, 0, 0, 0, 5, 2, "/app", b"", SampleId(pid=7, tid=7, time=1)))
    return built


def test_a_sample_follows_the_rows_that_it_refers_to(tables: Callable[[PerfDataBuilder], Tables]) -> None:
    built = recorded()
    built.sample(pid=7, tid=7, time=5, ip=0x401004, period=3, misc=2, callchain=[0x401004, 0x401014])
    built.sample(pid=7, tid=7, time=7, ip=0x401018, period=4, misc=2, callchain=[0x401018])
    rows = tables(built)
    assert "process_event" not in rows
    names = [name for (name,) in rows["order"] if name != "branch_type"]
    first = "evsel machine thread comm comm_thread dso symbol symbol call_path call_path call_path sample".split()
    assert names == [*first, "sample"], "the second has no row that is new: its callchain begins like the first one's"
    assert rows["symbol"] == [(1, 1, 0x1000, 0x1010, 1, "leaf"), (2, 1, 0x1010, 0x1030, 1, "main")]
    assert rows["call_path"] == [(1, 0, 0, 0), (2, 1, 2, 0), (3, 2, 1, 0)]
    assert [(row[0], row[4], row[6], row[7], row[8], row[9], row[15], row[21]) for row in rows["sample"]] == [
        (1, 1, 1, 4, 0x401004, 5, 3, 3),
        (2, 1, 2, 8, 0x401018, 7, 4, 2),
    ]
    assert {len(row) for row in rows["sample"]} == {28}
    assert rows["comm"] == [(1, "app", 1, 1, 1)]


def test_an_address_without_a_symbol_has_a_row(tables: Callable[[PerfDataBuilder], Tables]) -> None:
    built = recorded()
    for address in (0x401800, 0x401900, 0x401800):
        built.sample(pid=7, tid=7, time=5, ip=address, period=1, misc=2, callchain=[])
    rows = tables(built)
    assert rows["symbol"] == [(1, 1, 0x1800, 0x1800, 0, "unknown"), (2, 1, 0x1900, 0x1900, 0, "unknown")]
    assert [row[6] for row in rows["sample"]] == [1, 2, 1]


def test_threads_belong_to_processes_and_have_the_names_of_records(tables: Callable[[PerfDataBuilder], Tables]) -> None:
    built = recorded()
    built.record(Fork(0, 7, 7, 8, 7, 2, SampleId(pid=7, tid=7, time=2)))
    built.record(Comm(0, 7, 8, "worker", SampleId(pid=7, tid=8, time=3)))
    built.sample(pid=7, tid=8, time=5, ip=0x401004, period=1, misc=2, callchain=[])
    built.record(Comm(EXEC, 7, 7, "other", SampleId(pid=7, tid=7, time=6)))
    built.sample(pid=7, tid=7, time=7, ip=0x401004, period=1, misc=2, callchain=[])
    rows = tables(built)
    assert rows["thread"] == [(1, 1, 1, 7, 7), (2, 1, 1, 7, 8)]
    assert rows["comm"] == [(1, "app", 1, 1, 1), (2, "worker", 2, 3, 0), (3, "other", 1, 6, 1)]
    assert rows["comm_thread"] == [(1, 1, 1), (2, 1, 2), (3, 3, 1)]
    assert [(row[3], row[4]) for row in rows["sample"]] == [(2, 1), (1, 3)], "a sample's command is its program's"


def test_switches_name_both_threads(tables: Callable[[PerfDataBuilder], Tables]) -> None:
    built = recorded()
    built.record(Comm(0, 9, 9, "next", SampleId(pid=9, tid=9, time=2)))
    ids = SampleId(pid=7, tid=7, time=3)
    built.record(Switch(OUT | PREEMPTED, ids)).record(SwitchCpuWide(OUT, 9, 9, ids)).record(SwitchCpuWide(0, 9, 9, ids))
    built.sample(pid=7, tid=7, time=5, ip=0x401004, period=1, misc=2, callchain=[])
    rows = tables(built)["context_switch"]
    assert [row[4:] for row in rows] == [(1, 1, 0, 0, 3), (1, 1, 2, 2, 1), (2, 2, 1, 1, 0)]
    assert [row[:4] for row in rows] == [(number, 1, 3, -1) for number in (1, 2, 3)]


def test_kinds_of_branches_have_numbers() -> None:
    kinds = branch_types()
    assert len(kinds) == len(dict(kinds)) == 42
    assert dict(kinds)[579] == "software interrupt / trace end"
