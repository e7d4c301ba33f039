"""The Python API measures this machine."""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
import threading
from pathlib import Path

import pytest

import perfpy
from perfpy import errors

pytestmark = pytest.mark.live


def known(number: float | None) -> float:
    assert number is not None
    return number


def test_a_program_is_counted_by_event_name():
    counts = perfpy.stat(["true"], events=["task-clock:u,page-faults:u", "duration_time"])
    assert list(counts) == ["task-clock:u", "page-faults:u", "duration_time"]
    assert known(counts["page-faults:u"].value) > 0
    assert counts["task-clock:u"].unit == "msec"
    assert counts.exit_code == 0
    assert known(counts["duration_time"].value) / 1e9 == pytest.approx(counts.elapsed[0])


def test_the_program_s_exit_status_is_kept():
    assert perfpy.stat(["sh", "-c", "exit 3"], events="page-faults:u").exit_code == 3
    assert perfpy.stat(["sh", "-c", "kill -TERM $$"], events="page-faults:u").exit_code == 128 + 15


def test_repeats_give_means_and_their_spread():
    counts = perfpy.stat(["true"], events="page-faults:u", repeat=4)
    assert len(counts.elapsed) == 4
    assert 0 <= known(counts["page-faults:u"].spread) < 100


def test_a_process_is_counted_for_a_while():
    counts = perfpy.stat(pid=os.getpid(), events="duration_time", duration=0.02)
    assert 0.02 <= counts.elapsed[0] < 60


def test_a_stretch_of_code_is_counted():
    pages = mmap.mmap(-1, 500 * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages.madvise(mmap.MADV_NOHUGEPAGE)
    with perfpy.count("page-faults:u", "task-clock:u") as counts:
        for page in range(500):
            pages[page * mmap.PAGESIZE] = 1
    assert known(counts["page-faults:u"].value) >= 500
    assert 0 < known(counts["task-clock:u"].amount) < 1000


def test_counts_may_be_read_inside_the_stretch():
    with perfpy.count("task-clock:u") as counts:
        first = known(counts.read()[0].value)
        second = known(counts.read()[0].value)
    assert 0 < first < second < known(counts["task-clock:u"].value)


def open_counters() -> int:
    result = 0
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that which lists them
            result += "perf_event" in os.readlink(f"/proc/self/fd/{fd}")
    return result


def test_a_stretch_that_fails_leaves_no_counter_open():
    before = open_counters()
    with pytest.raises(ZeroDivisionError), perfpy.count("page-faults:u"):
        _ = 1 // (open_counters() - before - 1)
    assert open_counters() == before


def test_a_program_is_recorded_and_read_back(tmp_path):
    path = tmp_path / "perf.data"
    program: list[str | Path] = [Path(sys.executable), "-c", "sum(i * i for i in range(1_000_000))"]
    summary = perfpy.record(program, events="task-clock:u", output=path, frequency=1000, call_graph=True)
    assert (summary.exit_code, summary.lost, summary.path) == (0, 0, str(path))
    with perfpy.open(path) as recording:
        assert [event.name for event in recording.events] == ["task-clock:u"]
        assert len(recording.samples["ip"]) == recording.samples["callchain"].lengths.size > 10


def test_waits_of_a_program_are_recorded(tmp_path):
    path = tmp_path / "perf.data"
    program = [sys.executable, "-S", "-c", "import time; sum(range(2_000_000)); time.sleep(0.3)"]
    perfpy.record(program, events="task-clock:u", output=path, off_cpu=True, call_graph=True, max_cpu=100)
    with perfpy.open(path) as recording:
        assert [event.name for event in recording.events][:2] == ["task-clock:u", "dummy:u"]
        waited = [event.index for event in recording.events if event.name == "offcpu-time"]
        of_event = sum(batch.columns["period"][batch.event == waited[0]].sum() for batch in recording.batches(["period"]))
        assert 0.3e9 <= of_event < 60e9


def test_a_recording_passes_the_program_s_exit_status_on(tmp_path):
    assert perfpy.record(["sh", "-c", "exit 3"], output=str(tmp_path / "perf.data"), events="task-clock:u").exit_code == 3


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (perfpy.stat, errors.UsageError),
        (lambda: perfpy.stat(["true"], separate_children=True, inherit=False), errors.UsageError),
        (lambda: perfpy.stat(cpus=[0], duration=0.01, separate_children=True), errors.UsageError),
        (lambda: perfpy.count("page-faults", separate_children=True, inherit=False), errors.UsageError),
        (lambda: perfpy.stat("true"), errors.UsageError),
        (lambda: perfpy.stat(["/nowhere/program"]), errors.WorkloadFailedError),
        (lambda: perfpy.stat(["true"], events="cyclse"), errors.UnknownEventError),
        (lambda: perfpy.count("page-faults,,"), errors.EventSyntaxError),
        (perfpy.count, errors.UsageError),
        (lambda: perfpy.stat([""]), errors.WorkloadFailedError),
        (lambda: perfpy.stat(["sleep", 1]), errors.UsageError),  # type: ignore[list-item]  # a number is what is refused
        (lambda: perfpy.stat(["true"], repeat=0), errors.UsageError),
        (lambda: perfpy.stat(duration=-1), errors.UsageError),
        (lambda: perfpy.record(["true"], frequency=-1), errors.UsageError),
        (lambda: perfpy.record(["true"], max_cpu=0), errors.UsageError),
        (lambda: perfpy.record("true"), errors.UsageError),
        (lambda: perfpy.record(["true"], frequency=10, period=10, output="/nowhere/x"), errors.PerfError),
    ],
)
def test_impossible_requests_raise_our_errors(request_, error):
    with pytest.raises(error):
        request_()


FAULTS = """
import mmap, os, threading
def touch(pages):
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(pages): memory[page * mmap.PAGESIZE] = 1
thread = threading.Thread(target=touch, args=(1000,)); thread.start(); thread.join()
if os.fork() == 0:
    touch(5000)
    os._exit(0)
os.wait()
"""


def test_a_program_and_its_children_are_distinguished():
    """Threads are the program's own; what a child did is not."""
    counts = perfpy.stat([sys.executable, "-S", "-c", FAULTS], events="page-faults:u,duration_time", separate_children=True)[
        "page-faults:u"
    ]
    own, children = known(counts.own), known(counts.children)
    assert known(counts.value) == own + children
    assert own > 1000
    assert 5000 <= children < 7000
    assert "% its own" in str(counts)


def test_a_stretch_and_its_threads_are_counted_separately():
    def work() -> None:
        touched = mmap.mmap(-1, 3000 * mmap.PAGESIZE)
        touched.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(3000):
            touched[page * mmap.PAGESIZE] = 1

    with perfpy.count("duration_time", "page-faults:u", separate_children=True) as counts:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert known(counts["page-faults:u"].children) >= 3000
    assert known(counts["page-faults:u"].own) < 1000
    assert counts["duration_time"].own is None


def test_work_of_others_is_omitted_on_request():
    touching = ["sh", "-c", f"{sys.executable} -S -c pass; true"]
    alone, all_of_it = (
        known(perfpy.stat(touching, events="page-faults:u", inherit=inherit)["page-faults:u"].value) for inherit in (False, True)
    )
    assert alone < all_of_it / 2


def test_a_stretch_excludes_the_cost_of_counting():
    with perfpy.count("task-clock", "page-faults", net=True) as counts:
        pass
    clock = counts["task-clock"]
    assert known(clock.overhead) > 0
    with perfpy.count("task-clock", "page-faults") as gross:
        sum(range(200_000))
    with perfpy.count("task-clock", "page-faults", net=True) as net:
        sum(range(200_000))
    assert gross["task-clock"].overhead is None
    assert known(net["task-clock"].overhead) < known(net["task-clock"].value)
    assert known(net["task-clock"].amount) == pytest.approx(known(net["task-clock"].value) / 1e6)
