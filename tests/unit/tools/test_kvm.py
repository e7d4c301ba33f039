"""Tests of exits of virtual machines: which tracepoints make a pair, and sums of durations."""

from __future__ import annotations

import pytest

import perfpy
from perfpy.abi.flags import Machines
from perfpy.cli import run
from perfpy.cli.commands import load_command
from perfpy.cli.line.perfconfig import Config
from perfpy.cli.record import record_options
from perfpy.cli.stat.options import plan_of
from perfpy.errors import PerfError
from perfpy.tools.kvm import KvmRecordOptions, guest_durations, sorted_durations
from perfpy.tools.top.options import Rates, Subject, header_lines
from tests.builders.guest_exits import AMD, ENTRY, EXIT, MMIO, PIO, ExitRecording, random_exits

HLT, CPUID = 12, 10


def durations(tmp_path, built, event="vmexit", **choice):
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    with perfpy.open(path) as recording:
        durations_of = guest_durations(recording.data, event, **choice)
    return {one.name: (one.count, one.total, one.shortest, one.longest) for one in durations_of}


def test_an_exit_lasts_until_the_entry(tmp_path):
    built = ExitRecording().event(ENTRY, 10, 0)
    for start, length in ((100, 30), (200, 50)):
        built.event(EXIT, start, HLT, 0).event(ENTRY, start + length, 0)
    assert durations(tmp_path, built) == {"HLT": (2, 80, 30, 50)}


def test_exits_before_the_first_entry_have_no_cpu(tmp_path):
    built = ExitRecording().event(EXIT, 10, HLT, 0).event(ENTRY, 50, 0).event(EXIT, 100, CPUID, 0).event(ENTRY, 101, 0)
    assert durations(tmp_path, built) == {"CPUID": (1, 1, 1, 1)}


def test_a_later_exit_replaces_one_without_an_entry(tmp_path):
    built = ExitRecording().event(ENTRY, 10, 0).event(EXIT, 20, HLT, 0).event(EXIT, 100, CPUID, 0).event(ENTRY, 130, 0)
    assert durations(tmp_path, built) == {"CPUID": (1, 30, 30, 30)}


def test_threads_are_apart(tmp_path):
    built = ExitRecording()
    for tid, vcpu in ((100, 0), (101, 1)):
        built.event(ENTRY, 10 + vcpu, vcpu, tid=tid)
    built.event(EXIT, 20, HLT, 0, tid=100).event(EXIT, 30, CPUID, 1, tid=101).event(ENTRY, 40, 1, tid=101).event(ENTRY, 90, 0, tid=100)
    assert durations(tmp_path, built) == {"CPUID": (1, 10, 10, 10), "HLT": (1, 70, 70, 70)}
    assert durations(tmp_path, built, vcpu=1) == {"CPUID": (1, 10, 10, 10)}
    assert durations(tmp_path, built, pids={7}) == {}


def test_reads_of_device_memory_last_from_the_exit_and_writes_to_the_entry(tmp_path):
    built = ExitRecording().event(ENTRY, 10, 0)
    built.event(EXIT, 100, 48, 0).event(MMIO, 130, 1, 0xFEE0, 5).event(ENTRY, 190, 0)
    built.event(EXIT, 200, 48, 0).event(MMIO, 220, 2, 0xFEE0, 5).event(ENTRY, 290, 0)
    assert durations(tmp_path, built, "mmio") == {"0xfee0:R": (1, 30, 30, 30), "0xfee0:W": (1, 70, 70, 70)}


def test_ports(tmp_path):
    built = ExitRecording().event(ENTRY, 10, 0).event(PIO, 100, 0, 0x60).event(ENTRY, 105, 0).event(PIO, 110, 1, 0x60).event(ENTRY, 117, 0)
    assert durations(tmp_path, built, "ioport") == {"0x60:PIN": (1, 5, 5, 5), "0x60:POUT": (1, 7, 7, 7)}


def test_reasons_have_the_names_of_the_processor(tmp_path):
    built = (
        ExitRecording(AMD).event(ENTRY, 10, 0).event(EXIT, 20, 0x78, 0).event(ENTRY, 30, 0).event(EXIT, 40, 0x999, 0).event(ENTRY, 45, 0)
    )
    assert set(durations(tmp_path, built)) == {"hlt", "UNKNOWN"}


def test_equal_rows_are_sorted_by_name(tmp_path):
    path = tmp_path / "perf.data"
    built = ExitRecording().event(ENTRY, 10, 0)
    for start, reason in ((20, HLT), (40, CPUID)):
        built.event(EXIT, start, reason, 0).event(ENTRY, start + 5, 0)
    path.write_bytes(built.file())
    with perfpy.open(path) as recording:
        assert [one.name for one in sorted_durations(guest_durations(recording.data, "vmexit"), "time")] == ["CPUID", "HLT"]


def test_a_recording_without_entries_is_refused(tmp_path):
    from tests.builders.traced import traced_recording

    path = tmp_path / "perf.data"
    path.write_bytes(traced_recording())
    with perfpy.open(path) as recording, pytest.raises(PerfError, match="no kvm:kvm_entry tracepoint"):
        guest_durations(recording.data, "vmexit")


def test_a_cut_recording_has_a_table_or_one_line(tmp_path, capsys):
    whole = random_exits(3, 30)
    path = tmp_path / "perf.data"
    for size in range(104, len(whole), 1471):
        path.write_bytes(whole[:size])
        status = run(["kvm", "-i", str(path), "stat", "report"])
        assert status in (0, 255)
        assert "internal error" not in capsys.readouterr().err


def test_guests_are_recorded_by_perfs_tracepoints_under_their_own_names(monkeypatch):
    words: list[str] = []

    def record(_name: str, args: list[str]) -> int:
        words.extend(args)
        return 0

    monkeypatch.setattr("perfpy.tools.kvm.present_events", lambda texts: [text.strip("|") for text in texts])
    monkeypatch.setattr(load_command("record"), "run", record)
    assert run(["kvm", "stat", "record", "-a", "sleep", "1"]) == 0
    texts = [words[number + 1] for number, word in enumerate(words) if word == "-e"]
    names = ["kvm:kvm_entry", "kvm:kvm_exit", "kvm:kvm_mmio", "kvm:kvm_pio", "kvm:kvm_msr"]
    assert texts == [f"{name}/name='{name}'/G" for name in names]
    assert words[-3:] == ["--all-cpus", "sleep", "1"]


@pytest.mark.parametrize(("machines", "letters"), [("--host", "HG"), ("--host --no-guest", "H"), ("--no-guest", "G"), ("--guest", "G")])
def test_exits_are_those_of_the_chosen_machines(machines, letters, monkeypatch):
    words: list[str] = []
    monkeypatch.setattr("perfpy.tools.kvm.present_events", lambda texts: [text.strip("|") for text in texts])

    def record(_name: str, args: list[str]) -> int:
        words.extend(args)
        return 0

    monkeypatch.setattr(load_command("record"), "run", record)
    assert run(["kvm", *machines.split(), "stat", "record", "true"]) == 0
    assert {word.rpartition("/")[2] for word in words if word.startswith("kvm:")} == {letters}


@pytest.mark.parametrize(
    ("line", "host", "guest", "output"),
    [
        ("record true", False, True, "perf.data.guest"),
        ("--host record -i true", True, True, "perf.data.kvm"),
        ("--host --no-guest record true", True, False, "perf.data.host"),
        ("--no-guest rec true", False, True, "perf.data.guest"),
        ("-o x -i y --guestmount /g record -e cycles true", False, True, "x"),
        ("record -o z true", False, True, "z"),
    ],
)
def test_the_recorder_of_guests(line, host, guest, output, monkeypatch):
    options: list[KvmRecordOptions] = []

    def record(given: KvmRecordOptions) -> int:
        options.append(given)
        return 0

    monkeypatch.setattr("perfpy.tools.kvm.run_recorder", record)
    assert run(["kvm", *line.split()]) == 0
    made = record_options(options[0], Config())
    assert (made.guests.host, made.guests.guest, made.output.path) == (host, guest, output)
    assert made.guests.guestmount == ("/g" if "/g" in line else "")
    assert made.target.inherit != ("record -i" in line)


@pytest.mark.parametrize(
    "line",
    [
        "stat report --event port",
        "stat report -k name",
        "stat report -p me",
        "stat live",
        "report --guest-code",
        "top --guestmount /g",
        "live",
    ],
)
def test_wrong_lines_are_refused(line, capsys):
    assert run(["kvm", *line.split()]) == 129
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "forwarded"),
    [("top", ["--guests=G"]), ("--host top --stdio", ["--guests=HG"]), ("--host --no-guest --guestkallsyms k top -d 1", ["--guests=H"])],
)
def test_top_shows_the_machines_of_the_options(line, forwarded, monkeypatch):
    given: list[list[str]] = []

    def run_top(_name: str, arguments: list[str]) -> int:
        given.append(arguments)
        return 0

    monkeypatch.setattr(load_command("top"), "run", run_top)
    assert run(["kvm", *line.split()]) == 0
    assert given[0][:1] == forwarded
    assert ("--guestkallsyms=k" in given[0]) == ("-d" in line)
    assert ("--stdio" in given[0]) == ("--stdio" in line)


@pytest.mark.parametrize(
    ("line", "forwarded"),
    [
        ("stat -e cycles -x, sleep 1", ["--guests=G", "--event=cycles", "--field-separator=,", "sleep", "1"]),
        ("--host stat -i true", ["--guests=HG", "--no-inherit", "true"]),
        ("stat --host --no-guest -e cycles record", ["--guests=H", "--event=cycles", "record"]),
    ],
)
def test_stat_without_an_action_counts_in_the_machines_of_the_options(line, forwarded, monkeypatch):
    """Its options are those of stat, and an action follows `stat` at once, as in perf."""
    given: list[list[str]] = []

    def run_stat(_name: str, arguments: list[str]) -> int:
        given.append(arguments)
        return 0

    monkeypatch.setattr(load_command("stat"), "run", run_stat)
    assert run(["kvm", *line.split()]) == 0
    assert given == [forwarded]


@pytest.mark.parametrize(
    ("machines", "excluded", "name"), [("G", (1, 0), "cycles:G"), ("HG", (0, 0), "cycles:HG"), ("H", (0, 1), "cycles")]
)
def test_counted_events_without_modifiers_are_those_of_the_machines(machines, excluded, name):
    read = load_command("stat").options_class.read(load_command("stat").parser([f"--guests={machines}", "true"]))
    plan = plan_of(read)
    attrs = {event.name.removeprefix("cpu_core/").removeprefix("cpu_atom/"): event.attr for event in plan.events}
    assert (attrs[name].exclude_host, attrs[name].exclude_guest) == excluded


def test_top_counts_the_samples_of_each_machine():
    rates = Rates(2.0, 200, 20, 10, 0, 0, guest_kernel=100, guest_user=40)
    subject = Subject("cycles", 4000, True, True, "", "", "", "", 2, has_guests=True)
    assert header_lines(rates, subject)[0] == (
        "   PerfTop:     100 irqs/sec  kernel:10.0% us:20.0% guest kernel:50.0% guest us:20.0% exact:  5.0% [4000Hz cycles],  (all, 2 CPUs)"
    )


def test_a_read_after_the_entry_lasts_from_the_exit(tmp_path):
    """The kernel completes it in user space."""
    built = ExitRecording().event(ENTRY, 10, 0)
    built.event(EXIT, 100, 48, 0).event(MMIO, 110, 0, 0xFEE0).event(ENTRY, 120, 0).event(MMIO, 130, 1, 0xFEE0)
    assert durations(tmp_path, built, "mmio") == {"0xfee0:R": (1, 30, 30, 30)}


def test_tracepoints_without_their_fields_are_refused(tmp_path):
    """As in a damaged file."""
    path = tmp_path / "perf.data"
    path.write_bytes(random_exits(3, 30).replace(b"vcpu_id;", b"vcpu_ix;"))
    with perfpy.open(path) as recording, pytest.raises(PerfError, match="no kvm:kvm_entry tracepoint with its format"):
        guest_durations(recording.data, "vmexit")
    path.write_bytes(random_exits(3, 30).replace(b"u64 gpa;", b"u64 gpx;"))
    with perfpy.open(path) as recording:
        assert guest_durations(recording.data, "mmio") == []


@pytest.mark.parametrize(("modifiers", "hidden"), [("H", (4, 5)), ("G", (1, 2)), ("HG", ())])
def test_machines_are_those_of_an_events_modifiers(modifiers, hidden):
    """The modifiers H and G name the host and virtual machines; the modes of the CPU of all others are hidden."""
    machines = Machines.of_modifiers(modifiers)
    assert machines.modifiers == modifiers
    assert machines.hidden_modes == hidden
