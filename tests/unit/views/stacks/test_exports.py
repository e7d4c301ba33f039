"""Tests of stacks in formats of other viewers: each contains the same profile."""

import dataclasses
import json
from pathlib import Path

from perfpy.views.stacks import exports
from tests.builders.stacks import stacks
from tests.builders.viewers import SPEEDSCOPE, consumed

PROFILE = "sh;main;run;sys_read_[k] 3\nsh;main;run 2\nls;main 4\nls 1"


def test_folded_lines_are_sorted_and_summed() -> None:
    assert list(exports.folded_lines(stacks(PROFILE))) == ["ls 1", "ls;main 4", "sh;main;run 2", "sh;main;run;sys_read 3"]
    assert list(exports.folded_lines(stacks("a;f 1\na;f 2"))) == ["a;f 3"]


def test_a_semicolon_in_a_name_does_not_split_it() -> None:
    part = stacks("a;f 1")
    part = dataclasses.replace(part, functions=[part.functions[0]._replace(name="operator;")])
    assert list(exports.folded_lines(part)) == ["a;operator: 1"]


def test_a_line_break_in_a_name_does_not_end_the_line() -> None:
    part = stacks("a;f 1")
    part = dataclasses.replace(part, functions=[part.functions[0]._replace(name="f 7\nroot;forged")], comms=["a\r\nb"])
    assert list(exports.folded_lines(part)) == ["a^M^Jb;f 7^Jroot:forged 1"]


def test_speedscope_holds_every_stack_outermost_first() -> None:
    data = json.loads(exports.speedscope([stacks(PROFILE, "cpu-clock:u"), stacks("x;y 1", "faults")], "perf.data"))
    first, second = data["profiles"]
    names = [frame["name"] for frame in data["shared"]["frames"]]
    got = {tuple(names[i] for i in sample): weight for sample, weight in zip(first["samples"], first["weights"], strict=True)}
    assert got == {("sh", "main", "run", "sys_read"): 3, ("sh", "main", "run"): 2, ("ls", "main"): 4, ("ls",): 1}
    assert (first["unit"], first["endValue"]) == ("nanoseconds", 10)
    assert (second["unit"], second["name"]) == ("none", "faults")


def test_speedscopes_schema_accepts_the_export(tmp_path: Path) -> None:
    file = tmp_path / "speedscope.json"
    file.write_text(exports.speedscope([stacks(PROFILE, "cpu-clock"), stacks("x;y 1", "faults")], "perf.data"))
    assert consumed(SPEEDSCOPE, file) == [True, None]


PYTHON = "sh;py::main:/srv/app.py;run 5"


def test_functions_of_python_have_their_names_and_files_in_viewers_and_are_folded_as_perf_prints_them() -> None:
    part = stacks(PYTHON)
    assert list(exports.folded_lines(part)) == [PYTHON]
    frames = json.loads(exports.speedscope([part], "perf.data"))["shared"]["frames"]
    assert {"name": "main (app.py)", "file": "/srv/app.py"} in frames
