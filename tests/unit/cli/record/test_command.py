"""What record makes of its command line."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from perfpy.cli.line.perfconfig import Config
from perfpy.cli.record.command import command, record_options
from perfpy.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.cli.record.options import RecordCommandOptions


def read(*args: str) -> RecordCommandOptions:
    """The options of a line."""
    return command.options_class.read(command.parser(args))


@pytest.mark.parametrize("option", ["--no-event", "--no-filter"])
def test_what_was_chosen_to_record_is_not_taken_back(option: str):
    with pytest.raises(UsageError, match=f"option {option} cannot be negated"):
        read("-e", "task-clock", option)


@pytest.mark.parametrize(
    ("args", "field", "value"),
    [
        (["-c", "5"], "period", 5),
        (["-P"], "period_field", True),
        (["--no-period"], "period_field", False),
        (["-i"], "inherit", False),
        (["-G", "a,b"], "cgroups", ("a", "b")),
        (["-D", "10-20"], "delay", ((10, 20),)),
        (["--max-size=2K"], "max_size", 2048),
        (["-z"], "compression_level", 1),
        (["-u", "root"], "user", "root"),
        (["-v"], "notes", True),
        (["--synth=mmap"], "synth", frozenset(("mmap", "task"))),
    ],
)
def test_an_option_becomes_its_field(args: list[str], field: str, value: object):
    found = record_options(read(*args), Config())
    assert getattr(found, field) == value != getattr(record_options(read(), Config()), field)


def test_the_configuration_counts_where_the_line_says_nothing():
    config = Config({"record.build-id": "no-cache", "call-graph.record-mode": "dwarf", "call-graph.dump-size": "4096"})
    found = record_options(read("-g"), config)
    assert not found.buildid_cache
    assert found.callchain is not None
    assert found.callchain.stack_size == 4096


@pytest.mark.live
def test_a_line_without_a_command_or_a_task_says_what_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    said = "no command, -p or -t: the whole machine is recorded, until Ctrl-C\n"
    for args, told in ((["-v"], said), ([], ""), (["-v", "-a"], ""), (["-v", "true"], ""), (["-v", "-p", str(os.getpid())], "")):
        assert command.run("record", ["-e", "cpu-clock", "--dry-run", *args]) == 0
        assert capfd.readouterr().err == told
