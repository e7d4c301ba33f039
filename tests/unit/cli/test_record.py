"""record converts its command line to options."""

from __future__ import annotations

import os
from operator import attrgetter
from typing import TYPE_CHECKING

import pytest

from perfpy.capture.record_options import RecordOptions
from perfpy.capture.sample_attrs import with_frequency
from perfpy.capture.session.recorder import Recorder
from perfpy.cli import run
from perfpy.cli.line.perfconfig import Config
from perfpy.cli.record import command, record_options
from perfpy.errors import PerfError, RefusedOptionsError, UnknownEventError, UsageError
from perfpy.kernel.ring import PAGE_SIZE

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.cli.record import RecordCommandOptions


_ROUNDED = [(f"{pages * PAGE_SIZE // 1024}K", pages) for pages in (4, 16)]  # of the second number first


def read(*args: str) -> RecordCommandOptions:
    """The options of a line."""
    return command.options_class.read(command.parser(args))


@pytest.mark.parametrize("option", ["--no-event", "--no-filter"])
def test_recorded_fields_are_kept(option: str):
    with pytest.raises(UsageError, match=f"option {option} cannot be negated"):
        read("-e", "task-clock", option)


@pytest.mark.parametrize(
    ("args", "field", "value"),
    [
        (["-c", "5"], "sampling.period", 5),
        (["-P"], "sampling.period_field", True),
        (["--no-period"], "sampling.period_field", False),
        (["-i"], "target.inherit", False),
        (["-G", "a,b"], "target.cgroups", ("a", "b")),
        (["-D", "10-20"], "delay", ((10, 20),)),
        (["--max-size=2K"], "output.max_size", 2048),
        (["-z"], "output.compression_level", 1),
        (["-u", "root"], "target.user", "root"),
        (["-v"], "notes", True),
        (["--synth=mmap"], "side_band.synth", frozenset(("mmap", "task"))),
        (["-m", "64K,8"], "buffers.mmap_pages", 16),
        (["-m", "0"], "buffers.mmap_pages", 1),
        (["-z99"], "output.compression_level", 22),
        (["--mmap-flush=100"], "buffers.mmap_flush", 100),
        (["--affinity=cpu"], "buffers.affinity", "cpu"),
        (["--data-mmap"], "sampling.data_mmap", True),
        (["--sample-mem-info"], "sampling.sample_mem_info", True),
        (["--transaction"], "sampling.transaction", True),
    ],
)
def test_an_option_becomes_its_field(args: list[str], field: str, value: object):
    get = attrgetter(field)
    assert get(record_options(read(*args), Config())) == value != get(record_options(read(), Config()))


def test_each_field_has_the_type_of_its_default():
    """Options fill fields of the same name; one with another meaning would put a value of another type there."""
    actual, defaults = record_options(read(), Config()), RecordOptions()
    for group in ("target", "sampling", "side_band", "buffers", "output"):
        assert list(map(type, getattr(actual, group))) == list(map(type, getattr(defaults, group)))


def test_the_configuration_applies_without_the_option():
    config = Config({"record.build-id": "no-cache", "call-graph.record-mode": "dwarf", "call-graph.dump-size": "4096"})
    actual_record_options = record_options(read("-g"), config)
    assert not actual_record_options.output.buildid_cache
    assert actual_record_options.sampling.callchain is not None
    assert actual_record_options.sampling.callchain.stack_size == 4096


@pytest.mark.live
def test_a_line_without_a_target_names_the_whole_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    line = "no command, -p or -t; recording the whole machine until Ctrl-C\n"
    for args, expected_line in ((["-v"], line), ([], ""), (["-v", "-a"], ""), (["-v", "true"], ""), (["-v", "-p", str(os.getpid())], "")):
        assert command.run("record", ["-e", "cpu-clock", "--dry-run", *args]) == 0
        assert capfd.readouterr().err == expected_line


def test_a_recording_goes_into_the_pipe_where_standard_output_is_one(capfd: pytest.CaptureFixture[str]):
    del capfd  # a file
    assert record_options(read(), Config()).output.path == "perf.data"
    reading, writing = os.pipe()
    before = os.dup(1)
    os.dup2(writing, 1)
    try:
        assert record_options(read(), Config()).output.path == "-"
        assert record_options(read("-o", "here"), Config()).output.path == "here"
    finally:
        os.dup2(before, 1)
        for fd in (before, reading, writing):
            os.close(fd)


def test_a_size_that_is_rounded_is_reported(capsys: pytest.CaptureFixture[str]):
    assert record_options(read("-m", "9,3"), Config()).buffers.mmap_pages == 16
    assert capsys.readouterr().err.splitlines() == [f"rounding mmap pages size to {size} ({pages} pages)" for size, pages in _ROUNDED]


def test_settings_that_mean_nothing_end_it():
    with pytest.raises(PerfError, match=r"record.build-id = bogus"):
        record_options(read(), Config({"record.build-id": "bogus"}))


def test_the_status_of_a_refused_frequency_is_perfs():
    with pytest.raises(RefusedOptionsError, match="expects a number of Hz, or max, not 'abc'"):
        read("-F", "abc")
    with pytest.raises(RefusedOptionsError, match=r"maximum frequency rate \(100 Hz\) exceeded"):
        with_frequency(record_options(read("-F", "101", "--strict-freq"), Config()), 100, print)


def test_an_invalid_event_is_reported_before_options_that_exclude_each_other():
    options = record_options(read("-F", "100", "-c", "100"), Config())
    with pytest.raises(UnknownEventError, match="nosuchevent"):
        Recorder(["true"], ["cpu-clock,nosuchevent"], options=options)
    with pytest.raises(RefusedOptionsError, match="frequency and period at the same time"):
        Recorder(["true"], ["cpu-clock"], options=options)


def test_more_frames_than_the_kernel_walks_are_no_limit():
    chains = [record_options(read("--call-graph", f"fp,{frames}"), Config()).sampling.callchain for frames in (126, 127, 5000)]
    assert [chain.max_stack for chain in chains if chain] == [126, 0, 0]


def test_with_jit_callchains_find_callers_by_default():
    configured = Config({"call-graph.record-mode": "fp"})
    lines = [(["--jit", "-g"], Config()), (["--jit", "--unwind"], Config()), (["--jit", "-g"], configured), (["-g"], Config())]
    chains = [
        record_options(read(*args), config).sampling.callchain for args, config in [*lines, (["--jit", "--call-graph", "fp"], Config())]
    ]
    assert [chain and chain.mode for chain in chains] == [None, None, "fp", "fp", "fp"]


def test_dwarf_stacks_by_the_configuration_are_recorded_without_data_addresses() -> None:
    """As perf: --call-graph dwarf takes them, -g does not."""
    configured = record_options(read("-g"), Config({"call-graph.record-mode": "dwarf"})).sampling.callchain
    callchain = record_options(read("--call-graph", "dwarf"), Config()).sampling.callchain
    assert configured is not None
    assert callchain is not None
    assert (configured.mode, configured.addresses, callchain.addresses) == ("dwarf", False, True)


def test_a_missing_kernel_image_has_perfs_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["record", "--vmlinux", "/nonexistent", "--", "true"]) == 234
    assert "--vmlinux /nonexistent: no such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "status"), [("--threads -o -", 255), ("--threads --per-thread", 234), ("--threads --timestamp-filename", 129)]
)
def test_options_that_threads_exclude_have_perfs_exit_statuses(line: str, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    """129 for options that perf ignores with a warning."""
    assert run(["record", "-e", "cs", *line.split(), "--", "true"]) == status
    assert "--threads excludes " in capsys.readouterr().err


def test_a_realtime_priority_that_the_kernel_refuses_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["record", "-e", "cs", "-o", str(tmp_path / "f"), "-r", "100", "--", "true"]) == 255
    assert "-r 100: cannot set the realtime priority" in capsys.readouterr().err


def test_a_clock_that_the_machine_lacks_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["record", "-e", "cs", "-k", "99", "--", "true"]) == 255
    assert "-k 99: this machine has no clock" in capsys.readouterr().err


def test_an_event_that_only_counts_has_perfs_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["record", "-e", "duration_time", "--", "true"]) == 255
    assert "'duration_time' can be counted, not sampled" in capsys.readouterr().err
