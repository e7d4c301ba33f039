"""What is measured: processes, users, cgroups and CPUs."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.capture import cgroups, targets
from perfpy.capture.cgroups import cpu_limit, matching
from perfpy.capture.record_options import BufferOptions, RecordOptions
from perfpy.capture.targets import ANY, TargetOptions, Workload, online_cpus, parse_cpus, parse_ids, resolve
from perfpy.capture.thread_masks import ThreadMask, thread_masks
from perfpy.counts.aggregation import Aggregation, part_numbers
from perfpy.errors import PerfError, UsageError, WorkloadFailedError
from perfpy.events.event import Event
from perfpy.kernel.cpus import Topology
from perfpy.kernel.procfs import ProcFs
from perfpy.kernel.syscalls import wait_for_child
from tests.builders.options import record_options

if TYPE_CHECKING:
    from pathlib import Path


# Option texts are resolved to tasks and CPUs, in a simulated /proc and cgroup tree.


def proc(folder: Path, *threads: tuple[int, int]) -> ProcFs:
    """A /proc with (pid, tid) pairs."""
    for pid, tid in threads:
        (folder / str(pid) / "task" / str(tid)).mkdir(parents=True)
        status = f"Name:\tcomm{tid}\nTgid:\t{pid}\nPPid:\t1\nUid:\t5\t5\t5\t5\nVmSize:\t1\n"
        (folder / str(tid)).mkdir(exist_ok=True)
        (folder / str(tid) / "status").write_text(status)
    return ProcFs(str(folder))


@pytest.mark.parametrize(("text", "cpus"), [("0", (0,)), ("0-2,5", (0, 1, 2, 5)), ("3,1", (1, 3))])
def test_cpu_lists(text: str, cpus: tuple[int, ...]) -> None:
    """Ranges and single CPUs, in order."""
    assert parse_cpus(text) == cpus


@pytest.mark.parametrize("text", ["", "a", "1-", "3-1", "-1", "1,,2", "99999999"])
def test_cpu_lists_that_are_none(text: str) -> None:
    """One clear error each."""
    with pytest.raises(UsageError, match="--cpu"):
        parse_cpus(text)


def test_ids_are_numbers() -> None:
    """Each once, in order."""
    assert parse_ids("3,1,3", "pid") == (3, 1)
    with pytest.raises(UsageError, match="'x' is not a number"):
        parse_ids("1,x", "pid")


def test_a_process_stands_for_its_threads(tmp_path: Path) -> None:
    """-p counts every thread, -t the one named."""
    procfs = proc(tmp_path, (10, 10), (10, 11), (20, 20))
    assert sorted(resolve(TargetOptions(pid="10"), procfs=procfs)[0].tids) == [10, 11]
    assert resolve(TargetOptions(tid="11"), procfs=procfs)[0].tids == (11,)
    with pytest.raises(UsageError, match="no such process"):
        resolve(TargetOptions(pid="99"), procfs=procfs)


def test_descendants_of_a_process_are_included(tmp_path: Path) -> None:
    """Children and their children, but neither siblings, nor perfpy itself and what it has started."""
    parents = {10: 1, 11: 10, 12: 11, 13: 1, os.getpid(): 10, 15: os.getpid()}
    procfs = proc(tmp_path, *((pid, pid) for pid in parents))
    for pid, parent in parents.items():
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a) b) S {parent}" + " 0" * 30)
    assert sorted(procfs.descendants([10])) == [11, 12]
    assert sorted(procfs.descendants([11, 12])) == []
    chosen = TargetOptions(pid="10", descendants=True)
    assert sorted(resolve(chosen, procfs=procfs)[0].tids) == ([10, 11, 12] if os.geteuid() == 0 else [10])  # other users' are left out
    assert resolve(TargetOptions(pid="10"), procfs=procfs)[0].tids == (10,)


def test_overridden_options_are_reported(tmp_path: Path) -> None:
    """perf's own words."""
    procfs = proc(tmp_path, (10, 10))
    assert resolve(TargetOptions(pid="10", all_cpus=True), procfs=procfs)[1] == ["-a is ignored, because -p or -t is given"]
    assert resolve(TargetOptions(pid="10", cpu="0"), procfs=procfs)[1] == ["-C is ignored, because -p or -t is given"]


def test_cpus_that_are_not_there() -> None:
    """A CPU that is offline is no target."""
    assert resolve(TargetOptions(cpu="0"))[0].cpus == (0,)
    with pytest.raises(UsageError, match="offline or does not exist"):
        resolve(TargetOptions(cpu=f"{max(online_cpus()) + 500}"))
    assert resolve(TargetOptions(cpu=f"0,{max(online_cpus()) + 500}"), skip_offline=True)[0].cpus == (0,)
    assert ANY == -1


def events(count: int) -> list[Event]:
    return [Event(f"e{i}", EventAttr()) for i in range(count)]


def test_cgroups_belong_to_the_events_before_them() -> None:
    """One for each event, an empty one for none; a single one for all."""
    three = events(3)
    assert [event.cgroup for event in cgroups.assign(three, "a,,b").values()] == ["a", None, "b"]
    assert [event.cgroup for event in cgroups.assign(three, "c").values()] == ["c"] * 3
    with pytest.raises(UsageError, match="2 cgroups for 1 events"):
        cgroups.assign(events(1), "a,b")


def test_events_for_each_cgroup(tmp_path: Path) -> None:
    """All events for each cgroup; patterns match paths below the mount."""
    for name in ("web/one", "web/two", "db"):
        (tmp_path / name).mkdir(parents=True)
    leader, member = events(2)
    pair = [leader, member._replace(led_by=leader)]
    expanded = [copy for copies in cgroups.expand(pair, "^web/", str(tmp_path)) for copy in copies.values()]
    assert [(event.name, event.cgroup) for event in expanded] == [
        ("e0", "web/one"), ("e1", "web/one"), ("e0", "web/two"), ("e1", "web/two"),
    ]  # fmt: skip
    assert expanded[3].leader is expanded[2]
    with pytest.raises(UsageError, match="no access to cgroup"):
        cgroups.open_folders(cgroups.expand(pair, "nowhere")[0].values(), str(tmp_path))


def test_topology_of_a_tree(tmp_path: Path) -> None:
    """Sockets, dies, cores, nodes and caches from sysfs; what is missing is 0."""
    for cpu, socket in ((0, 0), (1, 1)):
        folder = tmp_path / f"devices/system/cpu/cpu{cpu}"
        (folder / "topology").mkdir(parents=True)
        (folder / "topology/physical_package_id").write_text(f"{socket}\n")
        (folder / "topology/core_id").write_text("3\n")
        (folder / "topology/die_id").write_text("-1\n")
        (folder / "cache/index0").mkdir(parents=True)
        (folder / "cache/index0/level").write_text("2\n")
        (folder / "cache/index0/shared_cpu_list").write_text(f"{cpu}\n")
    (tmp_path / "devices/system/node/node4").mkdir(parents=True)
    (tmp_path / "devices/system/node/node4/cpulist").write_text("1\n")
    topology = Topology(str(tmp_path))
    assert part_numbers(Aggregation.CORE, topology, 1) == (1, 0, 0, 3)
    assert part_numbers(Aggregation.NODE, topology, 1) == (4,)
    assert part_numbers(Aggregation.CACHE, topology, 1) == (1, 0, 2, 1)
    assert part_numbers(Aggregation.CACHE, topology, 1, 3) == (1, 0, 3, -1)


def test_without_sysfs_online_cpus_come_from_proc_stat(monkeypatch, tmp_path):
    (tmp_path / "stat").write_text("cpu  9 8 7\ncpu0 1 2 3\ncpu2 1 2 3\nintr 5\n")
    monkeypatch.setattr(targets, "_ONLINE", str(tmp_path / "online"))
    monkeypatch.setattr(targets, "_STAT", str(tmp_path / "stat"))
    assert online_cpus() == (0, 2)


# The command is held and started, and its end is reported.


def test_nothing_runs_before_start(tmp_path: Path) -> None:
    """The child waits; leaving the context without a start ends it."""
    with Workload(["touch", str(tmp_path / "ran")]) as workload:
        assert os.path.exists(f"/proc/{workload.pid}")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("words", "reason"), [([""], "No such file"), (["true", "a\0b"], "Invalid argument")])
def test_words_that_no_kernel_takes(words: list[str], reason: str) -> None:
    """Python refuses them before the kernel could; it is a failure as any other."""
    with pytest.raises(WorkloadFailedError, match=reason), Workload(words) as workload:
        workload.start()


@pytest.mark.parametrize(("script", "code", "signum"), [("exit 0", 0, 0), ("exit 7", 7, 0), ("kill -9 $$", 137, 9)])
def test_how_it_ended(script: str, code: int, signum: int) -> None:
    """Exit status and signal come through."""
    with Workload(["sh", "-c", script]) as workload:
        workload.start()
        ended = workload.wait()
    assert (ended.exit_code, ended.signal) == (code, signum)


def test_a_failed_execution_gives_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No such file, no permission."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # a folder of PATH that is closed to this user would be the reason
    closed = tmp_path / "closed"
    closed.write_text("")
    for name, reason in (("no-such-program", "No such file"), (str(closed), "Permission denied")):
        with pytest.raises(WorkloadFailedError, match=reason), Workload([name]) as workload:
            workload.start()


def test_a_script_without_a_first_line_goes_to_the_shell(tmp_path: Path) -> None:
    """As execvp(3) has it."""
    script = tmp_path / "script"
    script.write_text("exit 4\n")
    script.chmod(0o755)
    with Workload([str(script)]) as workload:
        workload.start()
        assert workload.wait().exit_code == 4


def test_the_search_goes_on_as_execvp_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders that lack the program, or forbid it, are passed over; a refusal is told when no folder has it."""
    for folder, mode, status in (("closed", 0o644, 1), ("open", 0o755, 5)):
        (tmp_path / folder).mkdir()
        script = tmp_path / folder / "tool"
        script.write_text(f"exit {status}\n")
        script.chmod(mode)
    monkeypatch.setenv("PATH", f"/nowhere:{tmp_path}/closed:{tmp_path}/open")
    with Workload(["tool"]) as workload:
        workload.start()
        assert workload.wait().exit_code == 5
    monkeypatch.setenv("PATH", f"/nowhere:{tmp_path}/closed")
    with pytest.raises(WorkloadFailedError, match="Permission denied"), Workload(["tool"]) as workload:
        workload.start()


def test_the_program_has_the_usual_signals() -> None:
    """Python ignores SIGPIPE; its programs must not."""
    with Workload(["sh", "-c", "kill -PIPE $$"]) as workload:
        workload.start()
        assert workload.wait().signal == signal.SIGPIPE


def test_leaving_early_ends_the_workload() -> None:
    """An error in the middle leaves no program behind."""
    with Workload(["sleep", "30"]) as workload:
        workload.start()
        assert workload.poll() is None
    assert workload.poll() is not None


# --for-each-cgroup: the cgroups that match a list of patterns.


@pytest.fixture
def root(tmp_path: Path) -> str:
    for name in ("user/b", "user/a", "system", "other"):
        (tmp_path / name).mkdir(parents=True)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        ("^user", ["user", "user/a", "user/b"]),
        ("user/[ab],^sys", ["system", "user/a", "user/b"]),
        ("none.*,^other$", ["other"]),
        ("^user$,", ["user"]),
    ],
)
def test_a_cgroup_is_meant_that_one_of_the_patterns_matches(patterns: str, found: list[str], root: str) -> None:
    assert matching(patterns, root) == found


@pytest.mark.parametrize(("patterns", "message"), [("none.*,nobody", "no cgroup below"), ("[", "unterminated")])
def test_patterns_that_mean_none(patterns: str, message: str, root: str) -> None:
    with pytest.raises(UsageError, match=message):
        matching(patterns, root)


# --threads: words and lists are converted to masks.


@pytest.fixture
def machine(tmp_path):
    """Two packages of two cores of two CPUs; CPUs 0 and 4, 1 and 5 ... share a core; a node a package."""
    for cpu in range(8):
        folder = tmp_path / "devices/system/cpu" / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{cpu % 4 // 2}\n")
        (folder / "core_id").write_text(f"{cpu % 2}\n")
    for node, cpus in enumerate(("0-1,4-5", "2-3,6-7")):
        folder = tmp_path / "devices/system/node" / f"node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(f"{cpus}\n")
    return Topology(str(tmp_path))


def masks(text, machine, recorded=range(8)):
    return [(sorted(mask.rings), sorted(mask.runs_on)) for mask in thread_masks(text, recorded, range(8), machine)]


def test_a_thread_for_each_part_of_the_machine(machine):
    assert masks("cpu", machine) == [([cpu], [cpu]) for cpu in range(8)]
    assert masks("core", machine) == [([cpu, cpu + 4], [cpu, cpu + 4]) for cpu in range(4)]
    assert masks("package", machine) == masks("numa", machine) == [([0, 1, 4, 5], [0, 1, 4, 5]), ([2, 3, 6, 7], [2, 3, 6, 7])]


def test_parts_without_a_recorded_cpu_have_no_thread(machine):
    assert masks("core", machine, [1, 2]) == [([1], [1, 5]), ([2], [2, 6])]
    assert masks("cpu", machine, [3]) == [([3], [3])]


def test_lists_give_the_rings_and_cpus_of_each_thread(machine):
    assert thread_masks("0,2-4/2-4:5-7/0", range(8), range(8), machine) == [
        ThreadMask(frozenset({0, 2, 3, 4}), frozenset({2, 3, 4})),
        ThreadMask(frozenset({5, 6, 7}), frozenset({0})),
    ]
    assert masks("0-3/4", machine, [1]) == [([1], [4])]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("socket", "neither a CPU nor"),
        ("0", "invalid text"),
        ("/0", "invalid text"),
        ("0/", "invalid text"),
        ("0/0:0/1", "two threads read"),
        ("0-9/0", "CPU 8 is not online"),
        ("0/9", "CPU 9 is not online"),
    ],
)
def test_other_texts_are_refused(text, why, machine):
    with pytest.raises(UsageError, match=why):
        thread_masks(text, range(8), range(8), machine)


@pytest.mark.parametrize(
    "others",
    [
        {"output": "-"},
        {"affinity": "cpu"},
        {"per_thread": True},
        {"unwind": True},
        {"off_cpu": True},
        {"timestamp_filename": True},
        {"jit": True},
    ],
)
def test_one_file_for_input_and_output_is_refused(others):
    RecordOptions(buffers=BufferOptions(threads="cpu")).check()
    with pytest.raises(PerfError, match="excludes"):
        record_options(threads="cpu", **others).check()


def test_a_workload_has_the_kernels_account_of_its_time() -> None:
    """User and system time are those of os.wait4, and a signal that arrives meanwhile is handled."""
    handled: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _frame: handled.append(number))
    spent = "import time\nwhile time.process_time() < 0.2: pass\nraise SystemExit(7)"
    try:
        with Workload([sys.executable, "-c", spent]) as workload:
            workload.start()
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            ended = workload.wait()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert handled == [signal.SIGALRM]
    assert ended.exit_code == 7
    assert 0.2 <= ended.user_time + ended.system_time < 2


def test_a_child_that_runs_has_no_end_and_one_that_was_collected_is_missing() -> None:
    """The results of wait4(2)."""
    pid = os.fork()
    if pid == 0:
        signal.pause()
    assert wait_for_child(pid, os.WNOHANG) == (0, 0, 0.0, 0.0)
    os.kill(pid, signal.SIGKILL)
    assert wait_for_child(pid, 0)[:2] == (pid, signal.SIGKILL)
    with pytest.raises(ChildProcessError):
        wait_for_child(pid, 0)


@pytest.mark.parametrize("is_second", [False, True])
def test_the_nearest_cpu_limit_of_a_cgroup(is_second: bool, tmp_path: Path) -> None:
    root, proc = tmp_path / "fs", tmp_path / "proc"
    (root / "pod" / "app").mkdir(parents=True)
    (proc / "7").mkdir(parents=True)
    (proc / "7" / "cgroup").write_text("0::/pod/app\n" if is_second else "4:cpu,cpuacct:/pod/app\n0::/other\n")
    (proc / "mounts").write_text(f"x {root} {'cgroup2 rw' if is_second else 'cgroup rw,cpu,cpuacct'} 0 0\n")
    files = {"cpu.max": "20000 100000\n"} if is_second else {"cpu.cfs_quota_us": "20000\n", "cpu.cfs_period_us": "100000\n"}
    assert cpu_limit(7, str(proc)) is None
    for name, text in {**files, "cpu.stat": "nr_periods 10\nnr_throttled 7\nthrottled_time 9\n"}.items():
        (root / "pod" / name).write_text(text)
    for name in files:
        (root / "pod" / "app" / name).write_text("max 100000\n" if is_second else "-1\n")
    limit = cpu_limit(7, str(proc))
    assert limit is not None
    assert (limit.cpus, limit.folder, limit.periods()) == (0.2, str(root / "pod"), (10, 7))
