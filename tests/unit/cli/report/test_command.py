"""Errors of `perfpy report`'s command line before a recording is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfpy.cli.line.perfconfig import Config
from perfpy.cli.report.command import command
from perfpy.cli.report.options import ReportCommandOptions
from perfpy.cli.report.request import call_graph
from tests.builders.long_names import OWNER, SORT, recording_with_long_names
from tests.builders.perfdata import simple_recording

if TYPE_CHECKING:
    from pathlib import Path


def read(*args: str) -> ReportCommandOptions:
    return ReportCommandOptions.read(command.parser(args))


def test_an_export_goes_to_the_file_that_is_named_or_to_its_own():
    assert read("--html", "--folded", "--pprof=p.gz").exports == {"flamegraph": "flamegraph.html", "folded": "-", "pprof": "p.gz"}
    assert read("--json").exports == {}


@pytest.mark.parametrize("option", ["--stdio", "--header", "-H", "-t,", "-w10", "-T", "-v", "-q"])
def test_options_of_the_plain_text_choose_it(option: str):
    assert read(option).needs_plain
    assert not read("-n", "--no-quiet").needs_plain


def test_a_part_of_a_symbols_name_is_an_option_or_a_word():
    assert [read(*args).symbol_part for args in (["main"], ["--symbol-filter", "main"], [])] == ["main", "main", None]
    assert read("--symbol-filter", "main", "other").symbol_part == "main"


@pytest.mark.parametrize(
    ("line", "percent"),
    [
        ("-g graph,7 --percent-limit 3", 3),
        ("--percent-limit 3 -g graph,7", 7),
        ("--percent-limit 3 -g graph", 3),
        ("--percent-limit 3 -g graph,7 --no-percent-limit", 7),
        ("-g graph", 0.5),
    ],
)
def test_of_two_limits_of_callers_the_last_one_counts(line: str, percent: float):
    assert call_graph(read(*line.split()), children=False, config=Config()).percent == percent


def test_numbers_of_a_call_graph_are_a_percentage_then_a_number_of_callers():
    graph = call_graph(read("-g", "caller,1.5,4.9,addr,none,9"), children=False, config=Config())
    assert (graph.percent, graph.limit, graph.order, graph.key, graph.style) == (1.5, 4, "caller", "address", "none")


def test_a_word_selects_stacks_by_function(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]):
    (tmp_path / "perf.data").write_bytes(simple_recording(3).file())
    printed = []
    for line in ([], ["--symbol-filter", "nowhere"], ["nowhere"]):
        assert command.run("report", ["-i", str(tmp_path / "perf.data"), "--folded", "--symfs", "/nonexistent", *line]) == 0
        printed.append(capfdbinary.readouterr().out)
    assert printed[0]
    assert printed[1:] == [b"", b""]


@pytest.mark.parametrize("form", ["--stdio", "--json", "--folded", "--speedscope=-"])
def test_programs_read_names_whole(form: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]):
    path = recording_with_long_names(tmp_path)
    assert command.run("report", [form, "-i", str(path), "--symfs", str(tmp_path)]) == 0
    printed = capfdbinary.readouterr().out.decode()
    assert SORT[1] in printed
    assert OWNER[1] in printed
    assert "…" not in printed
