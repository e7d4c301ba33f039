"""Command lines: options and inputs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perfpy.cli import run as run_command
from perfpy.cli.line.input_recording import open_recording
from perfpy.cli.line.option_parsing import (
    Attached,
    Choice,
    CommandOptions,
    Counted,
    Flag,
    Lacking,
    Listed,
    PerfCommand,
    Value,
    fail,
    option,
    program_to_run,
    word,
    words,
)
from perfpy.errors import UsageError
from tests.builders.perfdata import simple_recording
from tests.builders.sampled_program import Stack, sampled_program
from tests.builders.tracepoint_events import EventRecording

if TYPE_CHECKING:
    from typing import Any


# Command lines are parsed as perf does.


class Targets(CommandOptions):
    """A group of options."""

    all_cpus: bool = option("-a,--all-cpus", Flag())
    big_num: bool = option("-B,--big-num", Flag(default=True))
    count: int | None = option("-c,--count", Value(int))


class SampleOptions(Targets, lacks={"-b,--branch-any": "it needs branch records", "--aio": "Python has threads"}):
    """An option of every kind."""

    event: tuple[str, ...] = option("-e,--event", Listed())
    filters: tuple[str, ...] = option("--filter", Listed())
    call_graph: bool = option("-g", Flag())
    no_inherit: bool = option("-i,--no-inherit", Flag())
    mmap_pages: str = option("-m,--mmap-pages", Value(default="auto", negated="none"))
    repeat: int = option("-r,--repeat", Value(int, default=1))
    realtime: int | None = option("--realtime", Value(int))
    verbose: int = option("-v,--verbose", Counted())
    compression_level: int | None = option("-z,--compression-level", Attached("1", int))
    control: str | None = option("--control", Value(), negatable=False)
    inline: bool = option("--inline", Lacking("names come from elsewhere", undone=True))
    workload: tuple[str, ...] = program_to_run()


class ReadingOptions(CommandOptions):
    """Options of a command without a workload."""

    call_graph: str | None = option("-g,--call-graph", Attached("graph"))
    json: str | None = option("-j,--json", Attached("-", takes_word=True))
    show_nr_samples: bool = option("-n,--show-nr-samples", Flag())
    percentage: str | None = option("--percentage", Value(Choice("relative", "absolute")))
    full_names: bool = option("--full-names", Flag())
    words: tuple[str, ...] = words()


class OneWord(CommandOptions):
    """A single word."""

    one: str | None = word("[<one>]")


def _sample(options: SampleOptions) -> int:
    """A command with an option of every kind."""
    received.append(options)
    return 7


def _reading(options: CommandOptions) -> None:
    """A command without a workload: options may follow words."""
    received.append(options)


sample = PerfCommand(SampleOptions, _sample)
reading = PerfCommand(ReadingOptions, _reading)


received: list[CommandOptions] = []


def run(command: PerfCommand[Any], *args: str) -> dict[str, object]:
    """What the command's function got."""
    received.clear()
    command.run("sample", args)
    return vars(received[-1])


@pytest.mark.parametrize("spelling", [["-c", "99"], ["-c99"], ["--count", "99"], ["--count=99"], ["--coun", "99"], ["--coun=99"]])
def test_a_required_value_is_attached_or_follows(spelling):
    assert run(sample, *spelling)["count"] == 99


def test_a_required_value_may_look_like_an_option():
    assert run(sample, "-c", "-1", "--mmap-pages", "--")["count"] == -1


@pytest.mark.parametrize(
    ("args", "level", "program"),
    [
        (["-z", "22"], 1, ("22",)),
        (["-z22"], 22, ()),
        (["--compression-level", "22"], 1, ("22",)),
        (["--compression-level=22"], 22, ()),
    ],
)
def test_an_optional_value_is_always_attached(args, level, program):
    values = run(sample, *args)
    assert (values["compression_level"], values["workload"]) == (level, program)


@pytest.mark.parametrize(
    ("args", "value"),
    [
        (["--json"], "-"),
        (["--json", "-n"], "-"),
        (["--json", "file"], "file"),
        (["--json=file", "word"], "file"),
        (["-jfile"], "file"),
        (["--json", "-", "-n"], "-"),
    ],
)
def test_some_optional_values_may_be_the_next_word(args, value):
    given = run(reading, *args)
    assert (given["json"], given["words"]) == (value, ("word",) if "word" in args else ())


def test_flags_bundle_and_a_value_may_end_the_bundle():
    values = run(sample, "-agvvc1000", "true")
    assert (values["all_cpus"], values["call_graph"], values["verbose"], values["count"]) == (True, True, 2, 1000)
    assert values["workload"] == ("true",)


def test_an_optional_value_ends_a_bundle():
    values = run(reading, "-ng")
    assert (values["call_graph"], values["show_nr_samples"], values["words"]) == ("graph", True, ())
    assert run(reading, "-gcaller")["call_graph"] == "caller"


@pytest.mark.parametrize("args", [["prog", "-a", "--", "-x"], ["--", "prog", "-a", "--", "-x"]])
def test_the_workload_is_untouched(args):
    values = run(sample, "-v", *args)
    assert values["workload"] == ("prog", "-a", "--", "-x")
    assert not values["all_cpus"]


def test_a_workload_may_begin_with_a_dash_after_two_dashes():
    assert run(sample, "--", "-odd")["workload"] == ("-odd",)


def test_options_may_follow_words_where_there_is_no_workload():
    values = run(reading, "one", "-n", "two", "-", "--", "-n")
    assert values["words"] == ("one", "two", "-", "-n")
    assert values["show_nr_samples"] is True


def test_flags_are_negated_by_no():
    assert run(sample)["big_num"] is True
    assert run(sample, "--no-big-num")["big_num"] is False
    assert run(sample, "--no-big", "--big")["big_num"] is True
    assert run(sample, "-vv", "--no-verbose", "-v")["verbose"] == 1


def test_an_option_called_no_something_is_undone_by_its_opposite():
    assert run(sample, "--no-inherit")["no_inherit"] is True
    assert run(sample, "-i", "--inherit")["no_inherit"] is False
    assert run(sample, "-i", "--inh")["no_inherit"] is False


def test_a_negated_value_is_the_default_or_the_options_own():
    assert run(sample, "-r5", "--no-repeat")["repeat"] == 1
    assert run(sample, "-m8", "--no-mmap-pages")["mmap_pages"] == "none"
    assert run(sample, "-ea", "--no-event", "-eb")["event"] == ("b",)


def test_order_is_kept_for_options_that_depend_on_it():
    options = sample.options_class.read(sample.parser(["-e", "a", "--filter", "f1", "-eb", "-a", "--event=c", "--filter=f2"]))
    results = [(pairs.name, pairs.value) for pairs in options.in_order("event", "filters")]
    assert results == [("event", "a"), ("filters", "f1"), ("event", "b"), ("event", "c"), ("filters", "f2")]
    with pytest.raises(KeyError):
        options.in_order("filter")


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["--re", "1"], "option --re is ambiguous: it may be --repeat or --realtime"),
        (["--evnt=x"], "unknown option --evnt; did you mean --event?"),
        (["--zzz"], "unknown option --zzz; -h lists the options"),
        (["-aX"], "unknown option -X; -h lists the options"),
        (["-e"], "option -e requires a value <str>"),
        (["--count"], "option --count requires a value <n>"),
        (["--all-cpus=3"], "option --all-cpus takes no value"),
        (["--no-count=3"], "option --no-count takes no value"),
        (["--no-control"], "option --no-control cannot be negated"),
        (["-b"], "perfpy does not have perf's option -b: it needs branch records"),
        (["-ab"], "perfpy does not have perf's option -b: it needs branch records"),
        (["--branch"], "perfpy does not have perf's option --branch: it needs branch records"),
        (["--aio=4"], "perfpy does not have perf's option --aio: Python has threads"),
    ],
)
def test_a_wrong_line_is_reported_in_one(args, text):
    with pytest.raises(UsageError) as caught:
        run(sample, *args)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("command", "args", "text"),
    [
        (sample, ["-cx"], "option -c expects a whole number, not 'x'"),
        (sample, ["--count", "3000000000"], "option --count: 3000000000 is too large; the largest number is 2147483647"),
        (sample, ["-m", "1," + "9" * 4_301], "option -m: a number has more than 4300 digits; the largest number is 2147483647"),
        (sample, ["--count", "1.5"], "option --count expects a whole number, not '1.5'"),
        (reading, ["--percentage=half"], "option --percentage expects relative or absolute, not 'half'"),
        (reading, ["--no-help"], "option --no-help cannot be negated"),
    ],
)
def test_a_value_of_the_wrong_kind_names_the_option(command, args, text):
    with pytest.raises(UsageError) as caught:
        run(command, *args)
    assert str(caught.value) == text


def test_omitted_options_have_their_default():
    values = run(sample)
    assert values == {
        "_occurrences": (),
        "all_cpus": False,
        "big_num": True,
        "call_graph": False,
        "compression_level": None,
        "control": None,
        "count": None,
        "event": (),
        "filters": (),
        "inline": False,
        "mmap_pages": "auto",
        "no_inherit": False,
        "realtime": None,
        "repeat": 1,
        "verbose": 0,
        "workload": (),
    }


def test_a_word_too_many_is_refused():
    with pytest.raises(UsageError, match="unexpected argument 'third'"):
        run(PerfCommand(OneWord, _reading), "first", "third")


def test_a_single_word_is_none_where_it_is_missing():
    assert [run(PerfCommand(OneWord, _reading), *args)["one"] for args in ([], ["first"])] == [None, "first"]


def test_the_function_s_result_is_the_exit_status():
    assert sample.run("sample", []) == 7
    assert reading.run("reading", []) == 0


def test_help_wins_over_later_options(capsys):
    assert sample.run("sample", ["-ah", "--zzz"]) == 129
    assert sample.run("sample", ["--help", "--zzz"]) == 0
    assert capsys.readouterr().out.count("-z, --compression-level[=<n>]") == 2


def test_help_hides_missing_options(capsys):
    sample.run("sample", ["--help"])
    text = capsys.readouterr().out
    assert "--branch-any" not in text
    assert text.startswith("Usage: perfpy sample [OPTIONS] [--] [COMMAND [ARGS]...]\n")


def test_a_command_may_refuse_its_line_itself():
    with pytest.raises(UsageError, match="both"):
        fail("cannot have both")


@pytest.mark.parametrize("refused", ["--inline", "--aio", "--no-aio"])
def test_missing_options_are_refused(refused: str):
    with pytest.raises(UsageError, match="perfpy does not have perf"):
        run(sample, refused)


def test_the_opposite_of_a_missing_option_is_accepted():
    assert run(sample, "--no-inline")["inline"] is False


def test_groups_come_before_a_command_s_own_options():
    assert [result.name for result in SampleOptions.declared_options()][:4] == ["all_cpus", "big_num", "count", "event"]
    assert [result.name for result in Targets.declared_options()] == ["all_cpus", "big_num", "count"]


def test_options_are_immutable():
    options = SampleOptions(repeat=3)
    with pytest.raises(AttributeError, match="repeat cannot be set"):
        options.repeat = 4
    other = options.replace(count=5)
    assert (other.repeat, other.count, options.count) == (3, 5, None)
    with pytest.raises(TypeError, match="SampleOptions has no field repaet"):
        SampleOptions(repaet=3)


class ProcessOptions(CommandOptions):
    """Options of a command that takes processes."""

    pid: str = option("-p,--pid", Value(default=""))
    summary: bool = option("-s,--summary", Flag())
    workload: tuple[str, ...] = program_to_run()


@pytest.mark.parametrize(
    ("line", "pid", "workload"),
    [
        ("PID", "PID", ()),
        ("--summary PID", "PID", ()),
        ("PID --summary", "PID", ()),
        ("--summary PID,PID", "PID,PID", ()),
        ("--summary PID -- sleep 3", "PID", ("sleep", "3")),
        ("--summary sleep PID", "", ("sleep", "PID")),
        ("--summary -- PID", "", ("PID",)),
        ("-p 1 --summary PID", "1", ("PID",)),
        ("--summary 999999999999", "", ("999999999999",)),
    ],
)
def test_the_number_of_a_running_process_counts_wherever_it_stands(line: str, pid: str, workload: tuple[str, ...]) -> None:
    read: list[ProcessOptions] = []
    PerfCommand(ProcessOptions, read.append, takes_processes=True).run("why", line.replace("PID", own := str(os.getpid())).split())
    (options,) = read
    assert (options.pid.replace(own, "PID"), tuple(word.replace(own, "PID") for word in options.workload)) == (pid, workload)


# Effects of opening a recording on the process.


CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(("given", "expected"), [(None, "1"), ("4", "4")])
def test_numpy_starts_no_threads_by_default(given: str | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(1).file())
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", given or "")
    if given is None:
        monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    with open_recording(str(path), force=False) as recording:
        assert len(recording.events) == 1
    assert os.environ["OPENBLAS_NUM_THREADS"] == expected


# Losses are told on stderr, where perf tells them.


def lossy_recording(folder: Path, lost: int) -> Path:
    """Write a recording of 100 samples that lacks others."""
    return sampled_program(folder, [Stack(("work",), 100)], lost=lost)


def losses_told(line: str, path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what a command says about losses on stderr."""
    assert run_command([*line.split(), "-i", str(path)]) == 0
    return "".join(text.removeprefix(f"Warning: {path}: ") for text in capsys.readouterr().err.splitlines() if "lost" in text)


@pytest.mark.parametrize(("lost", "told"), [(0, ""), (5, ""), (25, "lost 20.00% of 125 samples; record with a larger buffer (-m)")])
def test_a_share_of_lost_samples_above_five_percent_is_told(
    lost: int, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert losses_told("script", lossy_recording(tmp_path, lost), capsys) == told


@pytest.mark.parametrize("line", ["report --stdio", "script", "annotate --stdio", "report -D", "script --show-lost-events"])
def test_every_reader_tells_losses(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert losses_told(line, lossy_recording(tmp_path, 25), capsys).startswith("lost 20.00% of 125 samples")


@pytest.mark.parametrize("line", ["report -q", "report --stats", "report --tasks", "report --header-only", "evlist"])
def test_losses_are_not_told_by_quiet_commands_and_those_that_read_no_samples(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert losses_told(line, lossy_recording(tmp_path, 25), capsys) == ""


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("script", "lost 2 chunks of events beside 5 records; record with a larger buffer (-m)"),
        ("sched latency", "lost 2 chunks of events beside 5 records; record with a larger buffer (-m)"),
        ("sched timehist", ""),  # it has a line for each
        ("script --show-lost-events", ""),
    ],
)
def test_records_of_lost_events_are_counted(line: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    built = EventRecording(["sched:sched_switch"], comms={1: "a"})
    built.event("sched:sched_switch", 10, b"a", 1, 120, 0, b"b", 2, 120).lost(7, 11).lost(1, 12)
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    assert losses_told(line, path, capsys) == told


@pytest.mark.parametrize("line", [["report", "--stdio"], ["report", "--stdio", "-g"], ["script"], ["annotate", "--stdio"], ["diff"]])
def test_every_command_starts_numpy_without_threads_and_docstrings(line: list[str], tmp_path: Path) -> None:
    """Each takes as much CPU time as reading a small recording does."""
    (tmp_path / "perf.data").write_bytes(simple_recording(3).file())
    (tmp_path / "perf.data.old").write_bytes(simple_recording(3).file())
    script = (
        "import os, sys; from perfpy.cli import run; run(sys.argv[1:]); "
        "import numpy; print(len(os.listdir('/proc/self/task')), numpy.ndarray.__doc__)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"} | {"PYTHONPATH": str(CHECKOUT)}
    process = subprocess.run(
        [sys.executable, "-c", script, *line], capture_output=True, text=True, cwd=tmp_path, env=environment, check=True
    )
    assert process.stdout.splitlines()[-1] == "1 None"
