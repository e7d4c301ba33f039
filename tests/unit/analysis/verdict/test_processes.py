"""Tests of the names of processes by their command lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfpy.analysis.filters import SampleFilter
from perfpy.analysis.verdict.evidence import Evidence
from perfpy.analysis.verdict.processes import name_processes
from perfpy.perfdata.kept_files import ObservedCommand, decode_commands, encode_commands
from perfpy.recording import Recording
from perfpy.views.verdict.profile import headline_options
from tests.builders.sampled_program import PID, Stack, sampled_program

if TYPE_CHECKING:
    from pathlib import Path

SPAWN = ["python3", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)"]
FORKSERVER = ["python3", "-c", "from multiprocessing.forkserver import main; main(6, 7, ['__main__'])"]
TRACKER = ["python3", "-c", "from multiprocessing.resource_tracker import main;main(5)"]
EXECNET = ["python3", "-c", "import sys;exec(eval(sys.stdin.readline()))"]


def names_of(*processes: tuple[int, int, list[str]], targets: dict[int, str] | None = None) -> dict[int, str]:
    """Return the names of processes: pid, parent and words of each, in the order of their start."""
    commands = [ObservedCommand(pid, parent, number, words) for number, (pid, parent, words) in enumerate(processes)]
    return {pid: named.name for pid, named in name_processes(reversed(commands), targets or {}).items()}


def test_forks_of_a_script_are_its_workers_in_the_order_of_their_start() -> None:
    master = ["/usr/bin/python3", "/usr/bin/gunicorn"]
    names = names_of((10, 1, master), (30, 10, master), (20, 10, master))
    assert names == {10: "gunicorn: main process", 30: "gunicorn: worker 1", 20: "gunicorn: worker 2"}


def test_titles_are_names_without_their_details() -> None:
    worker = ["gunicorn: worker [app:app]"]
    names = names_of((10, 1, ["gunicorn: master [app:app]"]), (11, 10, worker), (12, 10, worker))
    assert names == {10: "gunicorn: master", 11: "gunicorn: worker 1", 12: "gunicorn: worker 2"}
    assert names_of((5, 1, ["[celeryd: celery@host:MainProcess]"])) == {5: "celeryd: celery@host:MainProcess"}
    assert names_of((5, 1, ["nginx: worker process"])) == {5: "nginx: worker process"}


def test_spawned_processes_are_workers_with_their_target() -> None:
    names = names_of(
        (10, 1, ["python3", "/srv/app.py"]), (11, 10, TRACKER), (12, 10, SPAWN), (13, 10, SPAWN), targets={13: "crunch", 10: "main"}
    )
    assert names == {
        10: "app.py: main process",
        11: "app.py: resource tracker",
        12: "app.py: worker 1",
        13: "app.py: worker 2, crunch()",
    }


def test_processes_of_a_fork_server_work_for_its_parent() -> None:
    names = names_of((10, 1, ["python3", "-m", "service"]), (11, 10, FORKSERVER), (12, 11, FORKSERVER), (13, 11, FORKSERVER))
    assert names == {10: "service: main process", 11: "service: fork server", 12: "service: worker 1", 13: "service: worker 2"}


def test_workers_of_pytest_have_the_names_of_xdist() -> None:
    names = names_of((10, 1, ["python3", "/v/bin/pytest"]), (11, 10, EXECNET), (12, 10, EXECNET))
    assert names == {10: "pytest: main process", 11: "pytest-xdist gw0", 12: "pytest-xdist gw1"}


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["python3", "/srv/shop/__main__.py"], "shop"),
        (["python3", "-c", ""], "python3"),
        (["/usr/sbin/sshd"], "sshd"),
        (["-bash"], "bash"),
        (["python3", "-m", "http.server"], "http.server"),
        (["node", "/srv/server.js"], "server.js"),
    ],
)
def test_other_processes_are_named_by_what_they_run(words: list[str], name: str) -> None:
    assert names_of((5, 1, words)) == {5: name}


def test_processes_that_are_each_others_parents_have_names() -> None:
    assert names_of((5, 6, SPAWN), (6, 5, SPAWN), (7, 7, SPAWN)).keys() == {5, 6, 7}


def test_command_lines_are_kept_and_damaged_ones_left_out() -> None:
    commands = [ObservedCommand(5, 1, 77, ["python3", "app.py"]), ObservedCommand(6, 5, 78, ["a title"])]
    data = encode_commands(commands)
    assert decode_commands(data) == commands
    damaged = b'[1,2]\n{"a": 1}\n[1, 2, "x", []]\n[1, 2, 3, 4]\nnot JSON\n' + b"[" * 5000 + b"\n" + data
    assert decode_commands(damaged) == commands
    (long,) = decode_commands(encode_commands([ObservedCommand(5, 1, 7, ["x" * 5000] * 500)]))
    assert len(long.words) <= 64
    assert max(map(len, long.words)) <= 256


def test_all_processes_have_rows_also_those_whose_command_line_was_not_seen(tmp_path: Path) -> None:
    """The largest child was not listed, and the shares of the others were less than all."""
    samples = {PID: 10, 201: 4, 202: 3, 203: 8, 204: 1}
    words = {PID: ["python3", "app.py"], 201: ["python3", "-c", "a"], 202: ["python3", "-c", "b"]}
    commands = [ObservedCommand(pid, PID if pid != PID else 1, pid, text) for pid, text in words.items()]
    path = sampled_program(tmp_path, [Stack(["f", "main"], count, pid, pid) for pid, count in samples.items()], commands=commands)
    with Recording(str(path)) as recording:
        rows = Evidence(recording.report(options=headline_options(SampleFilter())), recording.data).process_rows
    assert [(row.text, round(row.share * 26)) for row in rows] == [
        ("app.py", 10), ("other203", 8), ("python3 (201)", 4), ("python3 (202)", 3), ("other204", 1),
    ]  # fmt: skip
    assert sum(row.share for row in rows) == pytest.approx(1)
