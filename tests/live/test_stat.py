"""perfpy stat on the running kernel: counts, events, options, errors, exit status."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import perfpy
from perfpy.events import parse_events
from perfpy.events.event import SOFTWARE
from perfpy.events.listing import Checker, Selector
from perfpy.events.machine import this_machine
from perfpy.kernel import this_kernel
from tests.builders.other_users import GID, UID, child, idle, needs_root

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator


# perfpy stat on the running kernel: counts, options, errors, exit status.


PERFPY = [sys.executable, "-m", "perfpy", "stat"]


def stat(*options: str, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PERFPY, *options], capture_output=True, text=True, check=False, timeout=60, **more)  # type: ignore[call-overload, no-any-return]


def counts(run: subprocess.CompletedProcess[str]) -> dict[str, float]:
    return {o["event"]: float(o["counter-value"]) for o in map(json.loads, run.stderr.splitlines()) if o["counter-value"][0] != "<"}


def wait_until_it_counts(pid: int) -> None:
    """Until a process has counters open, and a little longer."""
    late = time.monotonic() + 60
    while time.monotonic() < late:
        with contextlib.suppress(FileNotFoundError):  # a descriptor that is closed meanwhile
            if any("perf_event" in os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")):
                break
        time.sleep(0.05)
    time.sleep(0.3)


NEEDS_CGROUPS = pytest.mark.skipif(" cgroup" not in Path("/proc/self/mounts").read_text(), reason="no cgroup file system is mounted")
TOUCH = "import mmap; m = mmap.mmap(-1, 4096 * 2000); m.madvise(mmap.MADV_NOHUGEPAGE); [m.__setitem__(i * 4096, 1) for i in range(2000)]"


@pytest.mark.live
@pytest.mark.kernel_too
def test_children_and_threads_are_counted_by_default() -> None:
    """The page faults of a grandchild belong to the program, but not with -i."""
    script = ["sh", "-c", f"{sys.executable} -c '{TOUCH}'; true"]
    with_children = counts(stat("-j", "-e", "page-faults:u,page-faults", "--", *script))
    alone = counts(stat("-j", "-i", "-e", "page-faults", "--", *script))
    assert with_children["page-faults"] > alone["page-faults"] + 2000


@pytest.mark.live
@pytest.mark.kernel_too
def test_verbose_shows_attrs_and_readings() -> None:
    """-v: value and times of each event; -vv: each call that opens a counter, with its attr, and what came of it."""
    errors = stat("-vv", "-e", "task-clock,page-faults", "--", "true").stderr
    assert re.search(r"^page-faults: [1-9]\d* (\d+) \1$", errors, re.MULTILINE)
    assert "  config                           0x1 (PERF_COUNT_SW_TASK_CLOCK)\n" in errors
    assert len(re.findall(r"^sys_perf_event_open: pid \d+  cpu -1  group_fd -1  flags 0x8 = \d+$", errors, re.MULTILINE)) == 2


@pytest.mark.live
@pytest.mark.system_wide
def test_verbose_shows_each_counter_of_a_cpu() -> None:
    """-vv: one line a CPU before the sums."""
    errors = stat("-vv", "-a", "-C", "0", "-e", "cs", "--", "true").stderr
    match = re.search(r"^cs: 0: (\d+) \d+ \d+\ncs: (\d+) ", errors, re.MULTILINE)
    assert match
    assert match[1] == match[2]


@pytest.mark.live
def test_facts_about_the_machine_are_counted() -> None:
    """Also those that are 0, the same in every interval, and without a unit."""
    errors = stat("-x,", "-I", "50", "-a", "-e", "num_cpus_online,has_pmem,target_cpu", "--", "sleep", "0.2").stderr.splitlines()
    rows = [line.split(",")[1:4] for line in errors]
    assert len(rows) >= 6
    assert [row for row in rows if row[2] == "num_cpus_online" and row[:2] != [str(os.sysconf("SC_NPROCESSORS_ONLN")), ""]] == []
    assert {tuple(row) for row in rows if row[2] == "target_cpu"} == {("1", "", "target_cpu")}
    assert sum(row[2] == "has_pmem" for row in rows) * 3 == len(rows)


@pytest.mark.live
def test_events_that_did_not_happen_can_be_hidden() -> None:
    """--hide-zero-events: what was not counted at all is still shown."""
    line = ("-x,", "-e", "page-faults,alignment-faults,r999", "--", "true")
    assert "alignment-faults" in stat(*line).stderr
    errors = stat("--hide-zero-events", *line).stderr
    assert "page-faults" in errors
    assert "alignment-faults" not in errors


@pytest.mark.live
def test_a_program_that_timeout_ends_has_not_failed() -> None:
    """Its end was asked for; one that fails before has its own status."""
    run = stat("--timeout", "100", "-e", "task-clock", "--", "sleep", "60")
    assert run.returncode == 0
    assert "task-clock" in run.stderr
    assert stat("--timeout", "60000", "-e", "task-clock", "--", "sh", "-c", "exit 3").returncode == 3


@pytest.mark.live
def test_options_that_would_do_nothing_are_refused() -> None:
    """A filter without a tracepoint, a screen to clear that is none."""
    assert stat("--filter", "prev_pid != 0", "--", "true").returncode == 129
    assert stat("-I", "100", "--interval-clear", "--", "true").returncode == 255


@pytest.mark.live
def test_the_configuration_takes_the_mark_of_a_summary_away(tmp_path: Path) -> None:
    """stat.no-csv-summary is the option of that name."""
    (tmp_path / "config").write_text("[stat]\nno-csv-summary = true\n")
    line = ("-I", "100", "-x,", "--summary", "-e", "page-faults", "--", "sleep", "0.15")
    assert "summary," in stat(*line).stderr
    assert "summary," not in stat(*line, env={**os.environ, "PERF_CONFIG": str(tmp_path / "config")}).stderr


@pytest.mark.live
def test_counts_of_a_killed_program_are_kept() -> None:
    """A signal ends the program, not the counting; the status is 128 + n."""
    run = stat("-j", "-e", "page-faults", "--", sys.executable, "-c", TOUCH + "\nimport os; os.kill(os.getpid(), 9)")
    assert run.returncode == 137
    assert "Killed" in run.stderr
    assert float(json.loads(run.stderr.splitlines()[-1])["counter-value"]) > 2000


@pytest.mark.live
@pytest.mark.kernel_too
def test_the_programs_own_output_is_untouched(tmp_path: Path) -> None:
    """Counts go to stderr, to -o, or to --log-fd; stdin and stdout are the program's."""
    run = stat("-o", str(tmp_path / "out"), "-e", "cs", "--", "cat", input="hello")
    assert (run.stdout, run.stderr) == ("hello", "")
    assert "cs" in (tmp_path / "out").read_text()
    stat("-o", str(tmp_path / "out"), "--append", "-e", "faults", "--", "true")
    assert "cs" in (tmp_path / "out").read_text()
    read, write = os.pipe()
    stat("--log-fd", str(write), "-x,", "-e", "cs", "--", "true", pass_fds=[write])
    os.close(write)
    with os.fdopen(read) as pipe:
        assert ",cs," in pipe.read()


@pytest.mark.live
@pytest.mark.system_wide
def test_ctrl_c_prints_the_counts() -> None:
    """An interrupted -a shows its counts and ends as interrupted."""
    with subprocess.Popen([*PERFPY, "-a", "-x,", "-e", "cs"], stderr=subprocess.PIPE, text=True) as process:
        wait_until_it_counts(process.pid)
        process.send_signal(signal.SIGINT)
        _, text = process.communicate(timeout=60)
    assert ",cs," in text
    assert process.returncode == 130


@pytest.mark.live
def test_a_process_that_ends_ends_the_counting() -> None:
    """-p returns when the last of its tasks is gone."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as reader:
        command = [*PERFPY, "-j", "-p", str(reader.pid), "-e", "task-clock"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        wait_until_it_counts(process.pid)
        reader.communicate()
    _, text = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "task-clock" in text


@pytest.mark.live
@pytest.mark.parametrize(
    ("options", "message", "status"),
    [
        (["-I", "-5", "true"], "positive", 129),
        (["-x"], "requires a value", 129),
        (["-p", "4194304"], "no such process", 234),
        (["-t", "4194304"], "no such thread", 255),
        (["--log-fd", "77", "true"], "cannot write descriptor 77", 234),
        (["--control", "fifo:/no/such", "true"], "mkfifo", 129),
        (["-e", "no-such-event", "true"], "unknown event 'no-such-event'", 129),
        pytest.param(["-a", "-e", "cs", "-G", "no/such", "true"], "no access to cgroup", 129, marks=NEEDS_CGROUPS),
        (["no-such-program"], "No such file or directory", 255),
        (["-o", "/no/such/file", "true"], "cannot write /no/such/file", 255),
        (["-o", "/dev/full", "true"], "No space left", 255),
        (["--per-core", "true"], "require -a or -C", 234),
        (["-r", "-1", "true"], "a number of runs", 234),
        (["--interval-count", "2", "true"], "requires -I", 234),
        (["--bpf-counters", "true"], "perfpy does not have perf's option", 129),
        (["-M", "no-such-metric", "true"], "Cannot find metric", 234),
        (["--compare", "true", "-a"], "two commands", 129),
        (["report", "-i", "/no/such/file"], "/no/such/file", 255),
    ],
)
def test_impossible_requests_are_one_line(options: list[str], message: str, status: int) -> None:
    """One clear line, perf's exit status for usage and failure."""
    run = stat(*options)
    assert message in run.stderr
    assert len(run.stderr.splitlines()) == 1
    assert run.returncode == status


@pytest.mark.live
def test_cpus_that_do_not_exist_are_refused() -> None:
    """After perf's warning for each event."""
    run = stat("-C", "9999", "true")
    *warnings, error = run.stderr.splitlines()
    assert all(warning.startswith("WARNING: A requested CPU in '9999' is not supported by PMU '") for warning in warnings)
    assert error == "perfpy stat: no CPU of -C 9999 is online; see /sys/devices/system/cpu/online"
    assert run.returncode == 255


@pytest.mark.live
@pytest.mark.system_wide
def test_too_many_files_is_one_line() -> None:
    """The limit on open files, reached by -a with many events."""
    run = subprocess.run(
        ["sh", "-c", 'ulimit -n 40; exec "$@"', "sh", *PERFPY, "-a", "-e", ",".join(["cs"] * 60), "--", "true"],
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    assert "too many open files (40 are allowed)" in run.stderr
    assert run.returncode == 255


@pytest.mark.live
def test_failing_runs_of_a_repeat_are_reported() -> None:
    """-r goes on, says how many failed, and passes the last status on."""
    run = stat("-r", "3", "-e", "cs", "--", "sh", "-c", "exit 3")
    assert "3 of 3 runs failed, the last with status 3" in run.stderr
    assert run.returncode == 3


@pytest.mark.live
def test_a_program_that_does_more_is_found() -> None:
    """2000 page faults more are told from none; a program is not told from itself."""
    more = f'{sys.executable} -c "{TOUCH}"'
    run = stat("-r", "5", "-j", "-e", "page-faults:u", "--compare", more, "--", sys.executable, "-c", "pass")
    rows = {row["event"]: row for row in map(json.loads, run.stderr.splitlines())}
    assert rows["page-faults:u"]["verdict"] == "B is higher"
    same = stat("-r", "5", "-j", "-e", "page-faults:u", "--compare", "true", "--", "true").stderr.splitlines()
    assert json.loads(same[1])["change"] == pytest.approx(0, abs=0.2)


@pytest.mark.live
@pytest.mark.thorough
def test_a_limit_on_how_much_slower_is_an_exit_status() -> None:
    """--fail-if-slower: 90, and a line that says which command; without --compare it is no line."""
    slower = stat("-r", "6", "-e", "cs", "--fail-if-slower", "50%", "--compare", "sleep 0.3", "--", "sleep", "0.01")
    assert slower.returncode == 90
    assert slower.stderr.splitlines()[-1].startswith("sleep 0.3 takes longer than sleep 0.01: +")
    faster = stat("-r", "6", "-e", "cs", "--fail-if-slower", "50%", "--compare", "sleep 0.01", "--", "sleep", "0.3")
    assert faster.returncode == 0
    assert stat("--fail-if-slower", "5%", "--", "true").returncode == 129


@pytest.mark.live
def test_several_programs_are_each_compared_with_the_first() -> None:
    """A, B, C: two comparisons."""
    run = stat("-r", "5", "-j", "-e", "cs", "--compare", "true", "--compare", "sleep 0.4", "--", "true")
    rows = [row for row in map(json.loads, run.stderr.splitlines()) if row["event"] == "elapsed"]
    assert [(row["a"], row["b"]) for row in rows] == [("true", "true"), ("true", "sleep 0.4")]
    assert rows[1]["verdict"] == "B is higher"


@pytest.mark.live
def test_a_program_that_fails_is_not_faster() -> None:
    """Which side, which run, which status; compared only where that is asked for."""
    command = ["-r", "5", "-e", "cs", "--compare", "sh -c 'exit 3'", "--", "true"]
    run = stat(*command)
    assert run.returncode == 3
    assert run.stderr.splitlines() == [
        "B (sh -c 'exit 3') failed in its warm-up run with status 3; --ignore-failure compares it nevertheless"
    ]
    assert "failed in run 1 with" in stat("--warmup", "0", *command).stderr
    assert "elapsed (s)" in stat("--ignore-failure", *command).stderr


@pytest.mark.live
def test_saved_counts_are_shown_again(tmp_path: Path) -> None:
    """stat record, stat report: the same counts; by file and by pipe; several runs to compare."""
    path = str(tmp_path / "counts.data")
    assert stat("record", "-o", path, "-r", "5", "-e", "page-faults", "--", "true").returncode == 0
    lines = stat("report", "-i", path, "-j").stderr.splitlines()
    assert len(lines) == 5
    comparison = stat("report", "-i", path, "--compare", path, "-j").stderr
    assert json.loads(comparison.splitlines()[1])["verdict"] == "no significant difference"


@pytest.mark.live
def test_uncounted_events_are_saved_as_uncounted(tmp_path: Path) -> None:
    """An event that no PMU has stands in the file without a counter, and in the report as not supported."""
    path = str(tmp_path / "counts.data")
    stat("record", "-o", path, "-e", "dTLB-prefetches:u,page-faults:u", "--", "true")
    lines = stat("report", "-i", path, "-x,").stderr.splitlines()
    assert [line.split(",")[2].removesuffix(":u") for line in lines] == ["dTLB-prefetches", "page-faults"]
    assert lines[0].startswith("<not supported>,")
    assert int(lines[1].split(",")[0]) > 0


@pytest.mark.live
def test_intervals_are_saved_as_perf_saves_them(tmp_path: Path) -> None:
    """Rounds of intervals alone, which can be compared nevertheless; --summary adds the result."""
    path = str(tmp_path / "counts.data")
    for more, results in (((), 0), (("--summary",), 1)):
        for seconds in ("0.5", "5", "50"):  # on a busy machine an interval takes longer
            stat("record", "-o", path, "-I", "20", "-e", "task-clock", *more, "--", "sleep", seconds)
            rounds = stat("report", "-i", path, "-j").stderr.splitlines()
            assert sum('"interval"' not in line for line in rounds) == results
            if len(rounds) >= 3:
                break
        assert len(rounds) >= 3
        compared = stat("report", "-i", path, "--compare", path, "-j").stderr
        assert json.loads(compared.splitlines()[0])["a-runs"] == 1


@pytest.mark.live
def test_metrics_of_software_events() -> None:
    """-M computes from counts; --metric-only shows nothing else."""
    run = stat("-M", "page_faults_per_second", "--metric-only", "-x,", "--", "true")
    heading, values = run.stderr.splitlines()
    assert heading == "faults/sec  page_faults_per_second,"
    assert float(values.rstrip(",")) > 0


@pytest.mark.live
def test_stat_starts_lean() -> None:
    """Counting imports neither numpy nor rich, pyelftools, click or the event grammar."""
    script = "import sys; from perfpy.cli import run; run(['stat', '-o', '/dev/null', 'true']); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "rich", "elftools", "click", "dataclasses", "json", "perfpy.events.grammar"}.intersection(loaded)


def pieces(screen: io.FileIO) -> Iterator[bytes]:
    """What a terminal shows that nobody writes to any more: piece by piece, as the kernel hands it over."""
    with contextlib.suppress(OSError):  # EIO: that was all
        while piece := screen.read(65536):
            yield piece


@pytest.mark.live
@pytest.mark.parametrize("no_color", ["", "1"])
def test_a_terminal_gets_a_table_that_fits(no_color: str) -> None:
    """Only the columns that say something; colours unless NO_COLOR says no."""
    ours, terminal = os.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "60", "NO_COLOR": no_color}
    command = [*PERFPY, "-e", "page-faults:u,page-faults:D", "--", "true"]
    subprocess.run(command, stderr=terminal, env=environment, check=True, timeout=30)
    os.close(terminal)
    with os.fdopen(ours, "rb", buffering=0) as screen:
        text = b"".join(pieces(screen)).decode()
    assert re.search(r"\n *\d+  page-faults:u\s", text)
    assert ("\033[2m" in text) is not bool(no_color)
    assert max(len(line) for line in re.sub(r"\033\[\d*\w", "", text).splitlines()) <= 60


@pytest.mark.live
@pytest.mark.parametrize("options", [["--stdio"], ["-x,"]])
def test_a_terminal_gets_the_text_of_a_pipe_by_option(options: list[str]) -> None:
    ours, terminal = os.openpty()
    command = [*PERFPY, *options, "-e", "page-faults:D", "--", "true"]
    subprocess.run(command, stderr=terminal, env={**os.environ, "TERM": "xterm"}, check=True, timeout=30)
    os.close(terminal)
    with os.fdopen(ours, "rb", buffering=0) as screen:
        on_terminal = b"".join(pieces(screen)).decode().replace("\r\n", "\n")
    in_a_pipe = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stderr
    assert re.sub(r"\d", "", on_terminal).split() == re.sub(r"\d", "", in_a_pipe).split()


@pytest.mark.live
@pytest.mark.system_wide
def test_threads_that_end_while_all_are_opened_are_omitted() -> None:
    """Beside a loop of short processes; most of these runs met one that had ended."""
    with subprocess.Popen(["sh", "-c", "while :; do /bin/true; done"]) as loop:
        try:
            runs = [stat("-x,", "-a", "--per-thread", "-e", "task-clock,faults", "--", "sleep", "0.05") for _ in range(6)]
        finally:
            loop.kill()
    assert [(run.returncode, "task-clock" in run.stderr) for run in runs] == [(0, True)] * 6


# Events against the kernel that runs here.


@pytest.mark.live
@pytest.mark.kernel_too
def test_every_software_event_opens():
    machine = this_machine()
    checker = Checker(machine, this_kernel())
    offers = list(Selector(machine, "/nonexistent").select("sw").infos)
    assert len(offers) == len(SOFTWARE) + 3
    assert {offer.name: checker.check(offer) for offer in offers} == dict.fromkeys((offer.name for offer in offers), "")


@pytest.mark.live
def test_a_breakpoint_counts_the_accesses_to_its_address():
    cell = ctypes.c_uint32(0)
    with perfpy.count(f"mem:{ctypes.addressof(cell):#x}/4:w") as counts:
        for number in range(20):
            cell.value = number
    (count,) = counts.values()
    assert count.value == 20


@pytest.mark.live
def test_a_pattern_opens_every_tracepoint_that_it_names(tmp_path):
    try:
        events = parse_events("raw_syscalls:*")
    except perfpy.errors.KernelRefusedError as error:
        pytest.skip(str(error))
    assert {event.tracepoint for event in events} == {("raw_syscalls", "sys_enter"), ("raw_syscalls", "sys_exit")}
    with perfpy.count("raw_syscalls:sys_enter") as counts:
        for _ in range(50):
            os.getppid()
    assert (counts["raw_syscalls:sys_enter"].value or 0) >= 50


@pytest.mark.live
def test_a_uprobe_counts_the_calls_of_a_function():
    if this_machine().sysfs.pmu("uprobe") is None or os.geteuid():
        pytest.skip("no uprobe PMU, or no right to use it")
    libc = ctypes.CDLL("libc.so.6")
    path, offset = file_and_offset(ctypes.cast(libc.getppid, ctypes.c_void_p).value or 0)
    with perfpy.count(f'uprobe/path="{path}",offset={offset:#x},name=calls/') as counts:
        for _ in range(30):
            libc.getppid()
    assert (counts["calls"].value or 0) >= 30


def file_and_offset(address: int) -> tuple[str, int]:
    """The file that the code at an address of this process comes from, and where it is there.

    By address: other mappings may have a name like that of libc (a copy that an earlier test read).
    """
    with open("/proc/self/maps", errors="surrogateescape") as maps:
        for line in maps:
            area, _, offset, _, _, *path = line.rstrip("\n").split(maxsplit=5)
            start, end = (int(text, 16) for text in area.split("-"))
            if start <= address < end:
                return path[0], address - start + int(offset, 16)
    raise AssertionError(f"nothing is mapped at {address:#x}")


# `-u USER` by an ordinary user: processes with privileges are skipped, with one note.


CHECKOUT = Path(__file__).resolve().parents[2]
#: this user may read the checkout and Python's library, which may be root's alone, and nothing else that root may
_USER = f"setpriv --reuid={UID} --regid={GID} --clear-groups --inh-caps=+dac_read_search --ambient-caps=+dac_read_search --".split()


def have_privileges() -> None:
    """Be like ssh-agent: no other process of the same user may look."""
    assert ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) == 0  # PR_SET_DUMPABLE
    idle()


@pytest.mark.live
@needs_root
def test_a_process_with_privileges_is_skipped_with_a_note(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "HOME": "/nonexistent"}
    command = [*_USER, sys.executable, "-m", "perfpy", "record", "-u", str(UID), "-e", "task-clock:u", "-o", "-", "--", "true"]
    with child(), child(work=have_privileges) as hidden:
        process = subprocess.run(command, env=environment, cwd="/", capture_output=True, timeout=60, check=False)
    notes = [line for line in process.stderr.decode().splitlines() if "with privileges" in line]
    assert process.returncode == 0, process.stderr
    assert [str(hidden) in note and "CAP_PERFMON" in note for note in notes] == [True]
    assert process.stdout.startswith(b"PERFILE2")
