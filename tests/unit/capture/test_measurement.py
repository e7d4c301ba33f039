"""Measurements, also those of a region of a program."""

from __future__ import annotations

import errno
import os
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import PerfType, SoftwareId
from perfpy.capture import measurement
from perfpy.capture.control import Control
from perfpy.capture.interleaved_runs import Contest
from perfpy.capture.measurement import Hooks, Measurement, Plan, machine_values, on_requested_cpus, times
from perfpy.capture.region import Region, counted
from perfpy.capture.targets import Target
from perfpy.counts.aggregation import Grouping
from perfpy.errors import UnknownEventError, UsageError
from perfpy.events.event import MACHINE_VALUES, Event
from perfpy.measuring import count_program
from tests.builders.fake_kernel import FakeCounter, FakeKernel

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.counts.tally import Tally


# Runs, intervals and repeats of a plan, with counters in memory.


COMMAND = Target("command", (), (0, 1))
SYSTEM = Target("system", (), (0, 1))


class Seen(Hooks):
    def __init__(self) -> None:
        self.tallies: list[Tally] = []
        self.notes: list[str] = []

    def show(self, tally: Tally) -> None:
        self.tallies.append(tally)

    def note(self, text: str) -> None:
        self.notes.append(text)


def growing(counter: FakeCounter) -> None:
    """Each read returns 10 more."""
    counter.value += 10
    counter.enabled += 100
    counter.running += 100


def plan(target: Target = COMMAND, command: tuple[str, ...] = ("true",)) -> Plan:
    event = Event("faults", EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.PAGE_FAULTS))
    return Plan([event], target, command)


def test_a_command_is_counted_from_its_exec_and_its_status_passed_on() -> None:
    """One run: one tally, user and system time, the command's own status."""
    kernel, listener = FakeKernel(counts=growing), Seen()
    outcome = Measurement(plan(command=("sh", "-c", "exit 3")), listener, kernel=kernel).run()
    assert outcome.exit_code == 3
    assert kernel.counters[0].attr.enable_on_exec == 1
    assert not [call for call in kernel.calls if call[0] == "enable"]
    (tally,) = listener.tallies
    assert next(tally.lines()).row.value == 10
    assert tally.times is not None
    assert tally.times.user is not None


def test_repeats_show_the_mean_and_its_error() -> None:
    """-r: the mean of all runs, the standard error in percent."""
    values = iter([10, 20, 30])
    kernel = FakeKernel(counts=lambda counter: counter.__dict__.update(value=next(values), enabled=1, running=1))
    options, seen_values = plan()._replace(repeat=3), Seen()
    Measurement(options, seen_values, kernel=kernel).run()
    (line,) = seen_values.tallies[-1].lines()
    assert line.row.value == 20
    assert line.noise == pytest.approx(100 * (10 / 3**0.5) / 20)


def test_intervals_show_differences_and_the_summary_all() -> None:
    """-I with --summary: the counts of each interval, then the totals."""
    kernel, seen_values = FakeKernel(counts=growing), Seen()
    variant = plan(SYSTEM, ())._replace(interval=5, interval_count=2, summary=True)
    Measurement(variant, seen_values, kernel=kernel).run()
    values = [next(tally.lines()).row.value for tally in seen_values.tallies]
    assert values == [20, 20, 60]  # two CPUs, 10 a read
    assert [tally.timestamp is None for tally in seen_values.tallies] == [False, False, True]


def test_intervals_of_several_runs_have_a_noise_of_zero() -> None:
    for repeat, noise in ((1, None), (2, 0.0)):
        seen_values = Seen()
        variant = plan(SYSTEM, ())._replace(interval=5, interval_count=1, repeat=repeat)
        Measurement(variant, seen_values, kernel=FakeKernel(counts=growing)).run()
        assert {line.noise for tally in seen_values.tallies if tally.timestamp for line in tally.lines()} == {noise}


def test_the_boxes_of_an_uncore_pmu_are_one_line_and_each_cpu_has_its_own() -> None:
    """The number of cells is that of one box, as in perf."""
    boxes = [
        Event("uncore_imc/clockticks/", EventAttr(type=20 + box), pmu=f"uncore_imc_{box}", cpus=(0,), requires_cpu=True) for box in range(2)
    ]
    boxes[1] = boxes[1]._replace(added_to=boxes[0])
    for grouping, counts in ((Grouping.everything(), [(20, 1)]), (Grouping.by_cpu([0]), [(10, 1), (10, 1)])):
        seen = Seen()
        Measurement(Plan(boxes, SYSTEM, ("true",), grouping=grouping, repeat=2), seen, kernel=FakeKernel(counts=growing)).run()
        assert [(line.row.value, line.row.cells) for line in seen.tallies[-1].lines()] == counts


def test_the_api_has_one_count_for_all_boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Event("uncore_imc/clockticks/", EventAttr(type=20), pmu="uncore_imc_0", cpus=(0,), requires_cpu=True)
    chosen = [first, first._replace(pmu="uncore_imc_1", added_to=first), Event("faults", EventAttr(type=PerfType.SOFTWARE))]
    monkeypatch.setattr(measurement, "choose_events", lambda *_: (chosen, []))
    counts = count_program(["true"], cpus=[0], kernel=FakeKernel(counts=growing))
    assert [(name, count.value) for name, count in counts.items()] == [("uncore_imc/clockticks/", 20), ("faults", 10)]


def test_events_that_no_requested_cpu_counts_are_left_out_with_perfs_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement, "online_cpus", lambda: (0, 1, 2, 3))
    core = Event("cpu_core/cycles/", EventAttr(type=4), pmu="cpu_core", cpus=(0, 1), text_name="cycles")
    clock = Event("task-clock", EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.TASK_CLOCK), led_by=core)
    box = Event("uncore_imc/clockticks/", EventAttr(type=20), pmu="uncore_imc_0", cpus=(0,), requires_cpu=True)
    events, warnings = on_requested_cpus([core, clock, box], Target("cpu", (), (2,)), "2,9")
    assert [(event.name, event.is_leader) for event in events] == [("task-clock", True)]
    assert warnings == [
        "WARNING: A requested CPU in '2,9' is not supported by PMU 'cpu_core' (CPUs 0-1) for event 'cycles'",
        "WARNING: A requested CPU in '2,9' is not supported by PMU 'software' (CPUs 0-3) for event 'task-clock'",
        "WARNING: A requested CPU in '2,9' is not supported by PMU 'uncore_imc_0' (CPUs 0-3) for event 'uncore_imc/clockticks/'",
    ]
    assert on_requested_cpus([core, box], Target("cpu", (), (0,)), "0") == ([core, box], [])


def test_an_event_that_counts_once_a_package_is_added_over_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """For every caller, the API (perfpy.stat) as well as the command."""
    monkeypatch.setattr("perfpy.kernel.cpus.Topology.socket", lambda _self, cpu: cpu // 2)
    kernel = FakeKernel(counts=lambda counter: counter.__dict__.update(value=10 + counter.cpu, enabled=1, running=1))
    event = Event("energy", EventAttr(type=99, config=2), per_pkg=True)
    outcome = Measurement(Plan([event], Target("system", (), (0, 1, 2, 3)), timeout=1), kernel=kernel).run()
    assert outcome.tally is not None
    (line,) = outcome.tally.lines()
    assert line.row.value == 10 + 12


def test_a_timeout_ends_the_command() -> None:
    """--timeout: the command gets SIGTERM, the counts are shown."""
    options, listener = plan(command=("sleep", "20"))._replace(timeout=20), Seen()
    outcome = Measurement(options, listener, kernel=FakeKernel(counts=growing)).run()
    assert outcome.killed_by == 15
    assert len(listener.tallies) == 1


def test_control_enables_disables_and_acknowledges(tmp_path: Path) -> None:
    """Commands from a fifo, answered when they are done."""
    inward, outward = tmp_path / "control", tmp_path / "ack"
    os.mkfifo(inward)
    os.mkfifo(outward)
    options, listener = plan(SYSTEM, ())._replace(delay=-1), Seen()
    kernel = FakeKernel(counts=growing)
    with Control(f"fifo:{inward},{outward}") as control:
        inward.write_bytes(b"enable\ndisable\nping\nstop\n")
        Measurement(options, listener, control=control, kernel=kernel).run()
        with open(outward, "rb", buffering=0) as answers:
            assert answers.read(100) == b"ack\n\0" * 4
    assert listener.notes == ["Events disabled", "Events enabled", "Events disabled"]


@pytest.mark.parametrize("text", ["fd:", "file:x", "fd:x", ""])
def test_control_texts_that_make_no_sense(text: str) -> None:
    """One clear error each."""
    with pytest.raises(UsageError, match="--control"):
        Control(text)


@pytest.mark.parametrize("number", ["999", "9" * 30, "9" * 5000])
def test_a_closed_descriptor_of_control_does_not_keep_a_command_from_being_counted(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    """perf counts, too, without a word."""
    watcher = Seen()
    with Control(f"fd:{number},{number}") as control:
        assert Measurement(plan(), watcher, control=control, kernel=FakeKernel()).run().exit_code == 0
    assert len(watcher.tallies) == 1
    assert capsys.readouterr().err.count(f"descriptor {number} is not open") == 2


def test_failing_hooks_around_a_run_end_it(tmp_path: Path) -> None:
    """--pre that fails: nothing is counted, its status is the outcome's."""
    watcher = Seen()
    assert Measurement(plan()._replace(before="exit 5"), watcher, kernel=FakeKernel()).run().exit_code == 5
    assert watcher.tallies == []
    Measurement(plan()._replace(after=f"touch {tmp_path}/after"), watcher, kernel=FakeKernel()).run()
    assert (tmp_path / "after").exists()


def test_a_contest_runs_both_sides_in_turn(tmp_path: Path) -> None:
    """Warm-up does not count; the order changes from round to round."""
    log = tmp_path / "log"
    plans = tuple(plan(command=(sys.executable, "-c", f"open({str(log)!r}, 'a').write({side!r})")) for side in "AB")
    contest = Contest((plans[0], plans[1]), repeat=2, warmup=1, kernel=FakeKernel(counts=growing))
    a, b = contest.run()
    assert log.read_text() == "BA" + "AB" + "BA"
    assert (a.count, b.count) == (2, 2)
    assert set(a.amounts) == {"elapsed", "faults"}


# Values of events without a counter: facts about the machine, from sysfs.


@pytest.fixture
def machine(tmp_path: Path) -> str:
    """Two packages of one die, two cores per die, two threads per core; one more CPU is possible."""
    texts = {"possible": "0-8", "online": "0-7", "smt/active": "1"}
    for cpu in range(8):
        core, package = cpu // 2 * 2, cpu // 4 * 4
        texts[f"cpu{cpu}/topology/core_cpus_list"] = f"{core}-{core + 1}"
        for part in ("die", "package"):
            texts[f"cpu{cpu}/topology/{part}_cpus_list"] = f"{package}-{package + 3}"
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    return str(tmp_path)


@pytest.mark.parametrize(
    ("name", "of_tasks", "of_cpus"),
    [
        ("num_cpus", 9, 9),
        ("num_cpus_online", 8, 8),
        ("num_cores", 4, 4),
        ("num_dies", 2, 2),
        ("num_packages", 2, 2),
        ("smt_on", 1, 1),
        ("core_wide", 0, 1),
        ("target_cpu", 0, 1),
    ],
)
def test_facts(machine: str, name: str, of_tasks: int, of_cpus: int) -> None:
    assert machine_values([name], on_cpus=False, root=machine) == {name: of_tasks}
    assert machine_values([name, "duration_time"], on_cpus=True, root=machine) == {name: of_cpus}


def test_every_fact_has_a_value_on_this_machine() -> None:
    actual_machine_values = machine_values(MACHINE_VALUES, on_cpus=True)
    assert set(actual_machine_values) == set(MACHINE_VALUES)
    assert actual_machine_values["num_cpus_online"] == os.sysconf("SC_NPROCESSORS_ONLN")


def test_a_command_that_has_not_ended_has_no_times() -> None:
    assert times(5, None) == {"duration_time": 5}


# The counters that perfpy.count opens for a block, and the counts it returns.


def test_separate_children_are_counted_on_their_own() -> None:
    def counts(counter: FakeCounter) -> None:
        counter.value, counter.enabled, counter.running = (10 if counter.attr.inherit else 4), 5, 5

    kernel = FakeKernel(counts=counts)
    with Region("page-faults:u", "duration_time", "minor-faults:u", separate_children=True, kernel=kernel) as region:
        assert [counter.attr.inherit for counter in kernel.counters] == [1, 1, 0, 0]
    assert [(count.own, count.children) for count in region.values()] == [(4, 6), (None, None), (4, 6)]


def test_counters_without_inherit_count_the_thread_only() -> None:
    kernel = FakeKernel()
    with Region("page-faults:u", inherit=False, kernel=kernel):
        assert not kernel.counters[0].attr.inherit


def test_an_empty_block_is_counted_once_and_omitted() -> None:
    reads = iter([9, 7, 8, 7, 9, 107, 207])

    def counts(counter: FakeCounter) -> None:
        counter.value, counter.enabled, counter.running = next(reads), 5, 5

    region = Region("page-faults:u", net=True, kernel=FakeKernel(counts=counts))
    results = []
    for _ in range(2):
        with region:
            pass
        results.append((region["page-faults:u"].value, region["page-faults:u"].overhead))
    assert results == [(100, 7), (200, 7)]


def test_missing_events_are_known_inside_the_block() -> None:
    kernel = FakeKernel(refuse={"minor-faults:u": errno.ENOENT})
    with Region("page-faults:u", "minor-faults:u", kernel=kernel) as region:
        assert list(region.why_not) == ["minor-faults:u"]
        assert "minor-faults" in region.why_not["minor-faults:u"]


def test_a_block_that_is_entered_again_asks_for_the_same() -> None:
    kernel = FakeKernel()
    region = Region("{page-faults:u,minor-faults:u}", kernel=kernel)
    attrs = []
    for _ in range(3):
        with region:
            attrs.append(region._counting.events[0].attr)
    first, again = ([counter.attr for counter in kernel.counters][start : start + 2] for start in (0, 4))
    assert [attr.pack("<") for attr in first] == [attr.pack("<") for attr in again]
    assert attrs[0] is attrs[1] is attrs[2]  # and creates no new attrs


# perfpy.counted adds up the counts of a function's calls.


def three_each(counter: FakeCounter) -> None:
    counter.value, counter.enabled, counter.running = 3, 10, 10


def test_calls_on_all_threads_are_summed() -> None:
    @counted("page-faults:u", "task-clock:u", kernel=FakeKernel(counts=three_each))
    def work(number: int) -> int:
        """What it does."""
        return number + 1

    assert (getattr(work, "__name__", ""), work.__doc__) == ("work", "What it does.")
    assert (work(1), work(2)) == (2, 3)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert work.calls == 5
    assert (work.counts["page-faults:u"].value, work.counts["page-faults:u"].enabled) == (15, 50)
    work.reset()
    assert (work.calls, dict(work.counts)) == (0, {})


def test_a_call_of_itself_belongs_to_the_first() -> None:
    @counted("page-faults:u", kernel=FakeKernel(counts=three_each))
    def down(number: int) -> int:
        return down(number - 1) if number else 0

    assert down(5) == 0
    assert (down.calls, down.counts["page-faults:u"].value) == (1, 3)


def test_a_call_that_fails_counts_and_fails() -> None:
    def fail(self: object) -> None:
        raise LookupError(type(self).__name__)

    class Worker:
        method = counted("page-faults:u", kernel=FakeKernel(counts=three_each))(fail)

    with pytest.raises(LookupError, match="Worker"):
        Worker().method()
    assert vars(Worker)["method"].calls == 1


def test_an_unknown_event_is_reported_at_once() -> None:
    with pytest.raises(UnknownEventError):
        counted("no-such-event", kernel=FakeKernel())(len)


def test_an_uncounted_event_gives_the_reason_in_the_sum() -> None:
    @counted("cycles:u", "page-faults:u", kernel=FakeKernel(counts=three_each, refuse={"cycles:u": errno.ENOENT}))
    def work() -> None: ...

    work()
    work()
    count = work.counts["cycles:u"]
    assert count.value is None
    assert "cannot open event 'cycles:u'" in count.why_not
    assert [line.split()[:2] for line in str(work.counts).splitlines()] == [["<not", "counted>"], ["6", "page-faults:u"]]


def test_a_counter_that_never_ran_is_reported() -> None:
    @counted("page-faults:u", kernel=FakeKernel())
    def work() -> None: ...

    work()
    assert "never on the hardware" in work.counts["page-faults:u"].why_not


def test_a_null_run_counts_the_events_that_are_named() -> None:
    """perf's -n leaves out its own choice of events only."""
    target = Target("command", (), (0,), "")
    assert measurement.choose_events((), (), target, null_run=True) == ([], [])
    assert [event.name for event in measurement.choose_events(("task-clock",), (), target, null_run=True)[0]] == ["task-clock"]
