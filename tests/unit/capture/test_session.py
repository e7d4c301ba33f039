"""A session of recording: the recorder, what it attends to, its end and the limit of its cost."""

from __future__ import annotations

import errno
import os
import signal
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import PerfType, SampleType, SoftwareId
from perfpy.capture.control import Control
from perfpy.capture.record_options import Callchain, OffCpuOptions, RecordOptions, SamplingOptions
from perfpy.capture.sample_attrs import configure_sampling
from perfpy.capture.sample_counters import SampleCounters
from perfpy.capture.session import closing, inputs, recorder
from perfpy.capture.session.inputs import Attention, CostLimit, OutputSwitch, Regularly, Wakeups
from perfpy.capture.session.recorder import Recorder
from perfpy.capture.targets import OfflineCpuError, Target, TargetOptions
from perfpy.events.event import Event
from perfpy.kernel import syscalls
from perfpy.kernel.procfs import ProcFs
from tests.builders import sysfs_tree
from tests.builders.fake_kernel import FakeKernel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.capture.session.output import DataFile


# The default target of a recording.


@pytest.mark.parametrize(("off_cpu", "first"), [(False, (PerfType.HARDWARE, 0)), (True, (PerfType.SOFTWARE, SoftwareId.TASK_CLOCK))])
def test_beside_the_time_off_the_cpu_stands_the_time_on_it(off_cpu, first):
    _, events = Recorder(
        ("true",), options=RecordOptions(off_cpu=OffCpuOptions(enabled=off_cpu), quiet=True), kernel=FakeKernel()
    ).prepare()
    assert (events[0].attr.type, events[0].attr.config) == first


@pytest.mark.parametrize(
    ("paranoid", "capabilities", "user_only"), [(2, 0, True), (3, 0, True), (1, 0, False), (2, 1 << 38, False), (2, 1 << 21, False)]
)
def test_without_permission_the_default_event_excludes_the_kernel(monkeypatch, capsys, paranoid, capabilities, user_only):
    monkeypatch.setattr(syscalls, "paranoid_level", lambda: paranoid)
    monkeypatch.setattr(recorder, "paranoid_level", lambda: paranoid)
    monkeypatch.setattr(syscalls, "own_status", lambda: (capabilities, 0))
    _, events = Recorder(("true",), options=RecordOptions(notes=True), kernel=FakeKernel()).prepare()
    assert (events[0].attr.exclude_kernel, events[0].attr.exclude_guest) == (user_only, user_only)
    assert ("measuring user space only" in capsys.readouterr().err) == user_only


@pytest.mark.parametrize(("refused", "megabytes"), [("cycles", 2), ("", 8)])
def test_the_size_of_rings_is_that_of_the_events_that_the_kernel_accepts(refused: str, megabytes: int, monkeypatch: pytest.MonkeyPatch):
    """A clock that replaces the CPU's cycles is never faster than its frequency."""
    sizes: list[int] = []
    monkeypatch.setattr(SampleCounters, "map", lambda _counters, pages, *_args, **_options: sizes.append(pages * 4096))
    monkeypatch.setattr(recorder, "own_status", lambda: (1 << 14, 0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    options = RecordOptions(sampling=SamplingOptions(freq=99, unwind=True, callchain=Callchain("dwarf", 16384)), quiet=True)
    session = Recorder(("true",), ["cycles"], options=options, kernel=FakeKernel(refuse={refused: errno.ENOENT} if refused else {}))
    session._workload = cast("Any", SimpleNamespace(pid=7))
    target, events = session.prepare()
    session._open_counters(events, target).close()
    assert sizes == [megabytes << 20]


def test_with_requested_cpus_events_of_other_kinds_of_cores_are_left_out(tmp_path, capsys) -> None:
    """Of each event whose CPUs do not include all requested ones a line says so."""
    machine, target = sysfs_tree.intel_hybrid(tmp_path).machine(), Target("cpu", (), (1, 2), "1-2")

    def kept(text: str) -> list[Event]:
        session = Recorder((), [text], options=RecordOptions(target=TargetOptions(cpu="1-2")), kernel=FakeKernel())
        session._machine = machine
        return session._on_requested_cpus(session._parse(), target)

    events = kept("cpu_core/instructions/,cpu_atom/cpu-cycles/")
    assert [event.name for event in events] == ["cpu_core/instructions/"]
    assert capsys.readouterr().err.splitlines() == [
        "WARNING: A requested CPU in '1-2' is not supported by PMU 'cpu_atom' (CPUs 16-23) for event 'cpu_atom/cpu-cycles/'"
    ]
    first, second = kept("{cpu_atom/cpu-cycles/,page-faults,cs}")
    assert (first.name, first.led_by, second.led_by) == ("page-faults", None, first)  # the next event leads the group
    (dummy,) = configure_sampling([], RecordOptions(), target, FakeKernel())
    assert (dummy.attr.mmap, dummy.system_wide) == (1, False)


def test_hybrid_machines_record_the_cpus_that_exist(tmp_path, capsys, monkeypatch) -> None:
    """Events of other PMUs need all CPUs of -C, as in perf."""
    machine = sysfs_tree.intel_hybrid(tmp_path).machine()
    monkeypatch.setattr("perfpy.capture.targets.online_cpus", lambda: tuple(range(24)))

    def prepared(text: str, cpus: str) -> tuple[int, ...]:
        session = Recorder((), [text], options=RecordOptions(target=TargetOptions(cpu=cpus)), kernel=FakeKernel())
        session._machine = machine
        target = session._find_target()
        session._on_requested_cpus(session._parse(), target)
        return target.cpus

    assert prepared("cpu_core/instructions/", "0-1,400") == (0, 1)
    assert "A requested CPU in '0-1,400' is not supported by PMU 'cpu_core'" in capsys.readouterr().err
    for text, cpus in (("cpu_core/instructions/", "400"), ("page-faults", "0-1,400")):
        with pytest.raises(OfflineCpuError, match="CPU 400"):
            prepared(text, cpus)


# Inputs are handled while the ring buffers never become empty.


def event(name: str, config: int = SoftwareId.CPU_CLOCK) -> Event:
    return Event(name, EventAttr(type=PerfType.SOFTWARE, config=config, disabled=1))


@pytest.fixture
def signals():
    with Wakeups((signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2)) as caught:
        yield caught


@pytest.fixture
def kernel():
    return FakeKernel()


@pytest.fixture
def attend(signals, kernel):
    """Return a function that begins an Attention of two events and a dummy; `.told` has its lines."""
    ends = os.pipe()

    def make(delay=0, control: Control | None = None) -> Attention:
        counters = SampleCounters(kernel, [event("a"), event("b"), event("dummy", SoftwareId.DUMMY)], (0,), (7,), tell=print)
        counters.open()
        warnings: list[str] = []
        attention = Attention(signals, counters, OutputSwitch(None, 0), control=control, tell=warnings.append)
        attention.told = warnings  # type: ignore[attr-defined]
        attention.begin([ends[0]], delay)
        return attention

    yield make
    for fd in ends:
        os.close(fd)


def counting(kernel: FakeKernel) -> list[str]:
    return [counter.event for counter in kernel.counters if counter.counting]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_seen_though_there_is_no_time_to_wait(attend, number):
    attention = attend()
    attention.look(wait=False)
    os.kill(os.getpid(), number)
    assert attention.has_signal
    attention.look(wait=False)
    assert (attention.stopping, attention.signal, attention.has_signal) == (True, number, False)


def test_a_signal_that_also_ended_the_command_is_not_a_second_one(attend):
    """The recorder may see the end of the command first."""
    attention = attend()
    attention.look(wait=False)
    attention.stopping = True
    os.kill(os.getpid(), signal.SIGINT)
    attention.settle()
    assert (attention.signal, attention.is_called_again()) == (signal.SIGINT, False)
    os.kill(os.getpid(), signal.SIGTERM)
    attention.settle()
    assert (attention.signal, attention.is_called_again()) == (signal.SIGINT, True)


def test_without_a_signal_the_kernel_is_polled_once_in_a_moment(attend, monkeypatch):
    """The clock advances by the time of the passes over the ring buffers."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    attention = attend(delay=((10, 50), (70, 90)))
    attention.look(wait=False)
    assert attention.told == []
    now[0] += 0.11
    attention.look(wait=False)
    assert attention.told == ["Events enabled", "Events disabled", "Events enabled", "Events disabled"]


def test_the_end_of_the_last_range_is_the_end(attend, kernel):
    attention = attend(delay=((0, 1), (2, 3)))
    while not attention.stopping:
        attention.look(wait=True)
    assert attention.told == ["Events enabled", "Events disabled"] * 2
    assert (attention.signal, counting(kernel)) == (0, [])


def test_one_delay_has_no_end(attend, kernel):
    attention = attend(delay=1)
    attention.look(wait=True)
    attention.look(wait=True) if not attention.told else None
    assert (attention.told, attention.stopping) == (["Events enabled"], False)
    assert counting(kernel) == ["a", "b"]  # side-band was never disabled


def test_control_switches_events_by_name(attend, kernel, tmp_path):
    os.mkfifo(tmp_path / "control")
    with Control(f"fifo:{tmp_path}/control") as control:
        attention = attend(delay=-1, control=control)
        (tmp_path / "control").write_bytes(b"enable b\nenable x\nsnapshot\nevlist\n")
        attention.look(wait=True)
        assert counting(kernel) == ["b"]
        assert attention.told == ["Event b enabled", "failed: can't find 'x' event", "a\nb\ndummy"]
        assert not attention.stopping
        (tmp_path / "control").write_bytes(b"stop\n")
        attention.look(wait=True)
        assert (attention.stopping, attention.signal) == (True, 0)


def test_an_abandoned_control_is_not_read_forever(attend):
    reading, writing = os.pipe()
    os.close(writing)
    with Control(f"fd:{reading}") as control:
        attention = attend(delay=100_000, control=control)
        attention.look(wait=True)  # reports the end of the target
        attention._timetable = type(attention._timetable)(300, time.monotonic())
        attention.look(wait=True)
        assert attention.told == ["Events enabled"], "it waited for the clock this time"
    os.close(reading)


def test_a_signal_is_caught_from_when_it_is_added_on():
    before = signal.getsignal(signal.SIGCHLD)
    with Wakeups((signal.SIGUSR2,)) as caught:
        os.kill(os.getpid(), signal.SIGCHLD)
        assert caught.read() == set()
        caught.add(signal.SIGCHLD)
        os.kill(os.getpid(), signal.SIGCHLD)
        assert caught.read() == {signal.SIGCHLD}
    assert signal.getsignal(signal.SIGCHLD) == before


def test_a_hangup_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Wakeups((signal.SIGHUP,)) as caught:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not caught.arrived
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_first_reads_of_the_ring_buffers_come_soon():
    """Programs that move their text do it when they start."""
    alarm, now, times = Regularly(1.0, 0.125), 0.0, []
    for _ in range(6):
        now += alarm.wait(now)
        times.append(now)
        alarm.ring(now)
    assert times == [0, 0.125, 0.375, 0.875, 1.875, 2.875]


def test_every_wakeup_delays_the_next_one() -> None:
    """The ring buffers are read after each of them, whatever its reason."""
    alarm = Regularly(1.0)
    alarm.ring(5.0)
    assert alarm.wait(5.5) == 0.5
    alarm.ring(5.75)
    assert alarm.wait(5.75) == 1.0


# The last lines of a recording.


PEOPLE = RecordOptions(notes=True)
CLOCK = EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.TASK_CLOCK, sample_period=4000, freq=1)
FAULTS = EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.PAGE_FAULTS, sample_period=1)
CYCLES = EventAttr(type=PerfType.HARDWARE, sample_period=1000)
TRACEPOINT = EventAttr(type=PerfType.TRACEPOINT, sample_period=1, sample_type=int(SampleType.PERIOD))


def sampled(**values: Any) -> RecordOptions:
    """Options for a person, with these for samples."""
    return PEOPLE._replace(sampling=PEOPLE.sampling._replace(**values))


def lines(
    samples: int | None,
    lost: int = 0,
    options: RecordOptions = PEOPLE,
    *,
    hint: str = "",
    ring: int = 512 << 10,
    attr: EventAttr = CLOCK,
    hit_files: Sequence[str] = (),
) -> list[str]:
    file = cast("DataFile", SimpleNamespace(samples=samples, lost=lost, lost_switches=0, hint=hint, attrs=[attr], hit_files=hit_files))
    return [*closing.judgement(file, options, ring)]


def test_a_good_recording_is_called_so_and_how_exact_it_is():
    assert lines(10_000) == ["note: a good recording: 10000 samples, none lost; a share of 10 % is accurate to 0.6 points"]


@pytest.mark.parametrize("file", ["/usr/bin/python3.13", "/opt/lib/libpython3.12.so.1.0", "/usr/lib/libpython3.13t.so.1.0"])
def test_a_note_names_the_option_for_python_programs(file):
    first, *_ = lines(10_000, hit_files=["/usr/lib/libc.so.6", file])
    assert first == "note: this is a Python program; record --python has its functions and lines"
    for others in ({"python": True}, {"jit": True}, {"notes": False}, {"target": PEOPLE.target._replace(all_cpus=True)}):
        assert not any("Python" in line for line in lines(10_000, options=PEOPLE._replace(**others), hit_files=[file]))
    assert not any("Python" in line for line in lines(10_000, hit_files=["/usr/lib/python3/dist-packages/a.so", "/opt/python"]))


class Processes(ProcFs):
    """A /proc with parents and CPU times."""

    def __init__(self, **processes: tuple[int, int]) -> None:
        super().__init__()
        self._processes = {int(name[1:]): process for name, process in processes.items()}

    def parents(self) -> dict[int, tuple[int, int]]:
        return self._processes


def children(target: dict[str, Any], **processes: tuple[int, int]) -> list[str]:
    options = PEOPLE._replace(target=PEOPLE.target._replace(**target))
    return [*closing.busy_children(options, cast("Any", Processes(**processes)))]


def test_a_note_names_children_that_do_the_work():
    family = {"p1": (0, 900), "p10": (1, 5), "p11": (10, 40), "p12": (11, 50), "p13": (1, 70)}
    remedy = "most of the work; record them with --descendants"
    assert children({"pid": "10"}, **family) == [f"note: -p leaves out 2 child processes, which do {remedy}"]
    assert children({"pid": "10,11"}, **family) == [f"note: -p leaves out 1 child process, which does {remedy}"]
    assert not children({"pid": "10", "descendants": True}, **family)
    assert not children({"pid": "1"}, **family), "the chosen one uses more"
    assert not children({"pid": "12"}, **family), "no children"
    assert not children({"pid": "99"}, **family)
    assert not children({}, **family)
    assert not children({"pid": "10", "all_cpus": True}, **family)


def test_processes_that_are_their_own_parents_end():
    assert not children({"pid": "10"}, p10=(11, 50), p11=(10, 2), p12=(12, 3))


def test_few_samples_come_with_a_remedy():
    (line,) = lines(100, options=PEOPLE._replace(sampling=PEOPLE.sampling._replace(freq=99)))
    assert "100 samples are few" in line
    assert "5.9 points" in line
    assert "raise -F (99 Hz)" in line


def test_no_samples_come_with_a_remedy():
    assert "-a" in lines(0)[0]


@pytest.mark.parametrize(
    ("options", "attr", "ring", "remedies"),
    [
        (PEOPLE, CLOCK, 512 << 10, "larger buffers (-m 2M) or a lower frequency (-F 2000)"),
        (sampled(freq=99), CLOCK, 4096, "larger buffers (-m 16K) or a lower frequency (-F 49)"),
        (sampled(period=1), FAULTS, 32 << 20, "larger buffers (-m 64M) or a higher count (-c 2)"),
        (sampled(period=1), FAULTS, 64 << 20, "a higher count (-c 2)"),
        (PEOPLE, CYCLES, 64 << 20, "a higher count (-c 2000)"),
        (PEOPLE, TRACEPOINT, 64 << 20, "a filter (--filter)"),
        (
            sampled(callchain=Callchain("dwarf", 32768), period=1),
            FAULTS,
            64 << 20,
            "smaller copies of stacks (--call-graph dwarf,8192) or a higher count (-c 2)",
        ),
    ],
)
def test_losses_come_with_their_share_and_remedies_that_can_be_typed(options, attr, ring, remedies):
    assert lines(750, 250, options, ring=ring, attr=attr)[0] == f"warning: 250 samples were lost (25.0 %): try {remedies}"


def test_a_higher_count_is_as_high_as_the_losses_ask_for():
    assert "-c 4)" in lines(250, 750, sampled(period=1), attr=FAULTS)[0]
    assert "1 sample was lost" in lines(250, 1, attr=FAULTS)[0]


@pytest.mark.parametrize("attr", [FAULTS, TRACEPOINT])
def test_a_recording_of_every_event_is_exact_however_few_there_are(attr):
    assert lines(100, attr=attr) == ["note: 100 samples, none lost: every event has its sample"]
    assert lines(10_000, attr=attr) == ["note: 10000 samples, none lost: every event has its sample"]


def test_few_samples_of_a_count_ask_for_a_lower_one():
    assert lines(100, options=sampled(period=1000), attr=CYCLES)[0].endswith("record for longer, or lower -c (1000)")


def test_scripts_get_the_warning_of_losses_only():
    assert lines(10, options=RecordOptions()) == []
    assert len(lines(10, 1, RecordOptions())) == 1


def test_uncounted_losses_are_not_judged():
    assert lines(None) == []
    assert lines(0, options=PEOPLE._replace(sampling=PEOPLE.sampling._replace(no_samples=True))) == []


def test_a_hint_on_call_chains_is_not_followed_by_praise():
    assert lines(10_000, hint="call chains end") == ["note: call chains end"]


def test_a_brief_recording_leaves_accuracy_and_small_losses_to_the_report():
    brief = PEOPLE._replace(brief=True)
    assert lines(10_000, options=brief) == lines(10, options=brief) == lines(10_000, lost=3, options=brief) == []
    assert lines(10_000, lost=3000, options=brief)[0].startswith("warning: 3000 samples were lost")
    assert lines(0, options=brief)[0].startswith("note: no samples")


# --max-cpu lowers the rate of samples until recording costs no more; if that does not help, events pause.


COSTLY_CLOCK = EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.CPU_CLOCK, freq=1, sample_period=4000)
COSTLY_CYCLES = EventAttr(type=PerfType.HARDWARE, config=0, freq=1, sample_period=4000)
MISSES = EventAttr(type=PerfType.HARDWARE, config=3, sample_period=1000)
COSTLY_TRACEPOINT = EventAttr(type=PerfType.TRACEPOINT, config=5, sample_period=1)
DUMMY = EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.DUMMY, sample_period=1)


class Recording:
    """Record events for ten seconds, on a simulated clock. cost is the CPU time per second as a function of the rate that is left."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, attr: EventAttr, cost: Callable[[float], float], **limits: Any) -> None:
        self.kernel = FakeKernel()
        counters = SampleCounters(self.kernel, [Event("sampled", attr), Event("dummy", DUMMY)], (0, 1), (-1,), tell=print)
        counters.open()
        counters.enable()
        self.told: list[str] = []
        self.now, self.spent, self.rested = 100.0, 0.0, 0.0
        clock = SimpleNamespace(monotonic=lambda: self.now, process_time=lambda: self.spent)
        monkeypatch.setattr(inputs, "time", clock)
        limit = CostLimit(counters, counters.events, 0.02, self.told.append, **limits)
        while self.now < 110.0:
            is_on = self.kernel.named("sampled")[0].counting
            assert self.kernel.named("dummy")[0].counting
            self.spent += cost(self.rate(attr)) * 0.01 if is_on else 0.0
            self.rested += 0 if is_on else 0.01
            self.now += 0.01
            if limit.wait(self.now) == 0.0:
                limit.ring(self.now)

    def periods(self) -> list[int]:
        """The periods set on the first counter, in order."""
        first = self.kernel.named("sampled")[0].fd
        return [int(call[2]) for call in self.kernel.calls if call[0] == "set_period" and call[1] == first]  # type: ignore[call-overload]

    def rate(self, attr: EventAttr) -> float:
        """The share of samples that are still taken."""
        if not self.periods():
            return 1.0
        last = self.periods()[-1]
        if attr is COSTLY_CLOCK:
            return 1e9 / last / 4000
        return last / 4000 if attr.freq else 1000 / last


def test_a_cheap_recording_stays_unchanged(monkeypatch):
    recording = Recording(monkeypatch, COSTLY_CLOCK, lambda rate: 0.019 * rate, may_rest=True)
    assert (recording.periods(), recording.told, recording.rested) == ([], [], 0)


@pytest.mark.parametrize("attr", [COSTLY_CLOCK, COSTLY_CYCLES, MISSES])
def test_the_frequency_is_lowered_with_a_message(monkeypatch, attr):
    recording = Recording(monkeypatch, attr, lambda rate: 0.1 * rate, may_rest=True)
    assert len(recording.periods()) == 1
    assert recording.rate(attr) == pytest.approx(0.16, rel=0.01)
    assert recording.told[0].startswith("note: recording takes 10.0% of a CPU, more than --max-cpu 2.0%; now sampling sampled ")
    assert recording.told[0].endswith("once in 6250" if attr is MISSES else "at 640 Hz")
    assert len(recording.told) == 1
    assert not recording.rested
    counters = {call[1] for call in recording.kernel.calls if call[0] == "set_period"}
    assert counters == {counter.fd for counter in recording.kernel.named("sampled")}


def test_events_pause_if_a_lower_frequency_is_not_enough(monkeypatch):
    recording = Recording(monkeypatch, COSTLY_CLOCK, lambda _rate: 0.1, may_rest=True)
    assert recording.spent / 10 == pytest.approx(0.02, rel=0.3)
    assert len(recording.periods()) == 1
    assert recording.told[1].endswith("now pausing part of the time")
    assert len(recording.told) == 2


def test_tracepoints_are_sampled_at_each_hit_so_they_only_rest(monkeypatch):
    recording = Recording(monkeypatch, COSTLY_TRACEPOINT, lambda _rate: 0.1, may_rest=True)
    assert recording.spent / 10 == pytest.approx(0.02, rel=0.3)
    assert not recording.periods()
    assert len(recording.told) == 1


def test_events_that_others_switch_do_not_rest(monkeypatch):
    recording = Recording(monkeypatch, COSTLY_CLOCK, lambda _rate: 0.1, may_rest=False)
    assert not recording.rested
    assert recording.told[1].endswith("lower -F or --off-cpu-limit")
