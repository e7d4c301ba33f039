"""Samples of interpreted programs count for the functions that the interpreter ran."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.analysis.samples.locations import ROLE_BITS
from perfpy.analysis.sortkeys.location_columns import python_function
from perfpy.cli import run
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.interpreters import has_python_image
from perfpy.views.stacks.exports import folded_lines
from tests.builders.perfdata import simple_recording
from tests.builders.python_recording import python_recording
from tests.builders.terminals import on_terminal

if TYPE_CHECKING:
    from pathlib import Path

FOLDED = SymbolOptions(cache=False, fold_interpreters=True)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return python_recording(tmp_path)


def rows(recording: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, tuple[float, ...]]:
    """The rows of a plain report: the last column -> percentages."""
    assert run(["report", "--stdio", "-g", "none", "-i", str(recording), *options]) == 0
    text = capsys.readouterr().out
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {line.rstrip().split("  ")[-1].strip(): tuple(float(part) for part in re.findall(r"([\d.]+)%", line)) for line in lines}


def test_self_is_the_functions_own_and_that_of_the_code_it_ran(recording: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    actual_rows = rows(recording, capsys, "-s", "sym", "--fold-interpreters")
    assert actual_rows[f"[.] py::spin:{tmp_path}/app.py"] == (60.0, 60.0)
    assert actual_rows[f"[.] py::main:{tmp_path}/app.py"] == (80.0, 20.0)


def test_perfs_text_stays_without_the_option(recording: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    assert rows(recording, capsys, "-s", "sym")[f"[.] py::spin:{tmp_path}/app.py"] == (60.0, 0.0)
    assert rows(recording, capsys, "-s", "sym", "--no-fold-interpreters")[f"[.] py::spin:{tmp_path}/app.py"] == (60.0, 0.0)


def test_samples_without_python_stay_unchanged(recording: Path, capsys: pytest.CaptureFixture[str]):
    actual_rows = rows(recording, capsys, "-s", "dso", "--fold-interpreters")
    assert actual_rows["libpython3.12.so.1.0"] == (10.0, 10.0)
    assert actual_rows["fast.so"] == (10.0, 10.0)


def test_stacks_have_the_functions_and_the_embedding_program(recording: Path):
    with Recording(str(recording)) as opened:
        (part,) = opened.stacks(FOLDED)
    results = {}
    for line in folded_lines(part):
        stack, _, weight = line.rpartition(" ")
        results[";".join(frame.partition(":/")[0] for frame in stack.split(";")[1:])] = int(weight)
    assert results["py::main;py::spin"] == 6000
    assert results["py::main"] == 1000
    assert results["[embedding];py::main"] == 1000
    assert sum(results.values()) == 10000


@pytest.mark.parametrize("options", [("-s", "pyfunc"), ("-s", "pyfunc", "--fold-interpreters"), ("-F", "overhead,pyfunc")])
def test_rows_by_function(options: tuple[str, ...], recording: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    actual_rows = rows(recording, capsys, "--no-children", *options)
    assert actual_rows == {f"spin {tmp_path}/app.py": (60.0,), f"main {tmp_path}/app.py": (20.0,), "[no Python function]": (20.0,)}


def test_the_api_has_the_same_rows(recording: Path, tmp_path: Path):
    with Recording(str(recording)) as opened:
        results = {row.texts["pyfunc"]: row.percent for row in opened.report(by=["pyfunc"]).top(9)}
        assert results[f"spin {tmp_path}/app.py"] == 60.0
        usual = {row.texts["symbol"]: row.percent for row in opened.report(by=["symbol"]).top(9)}
        assert usual.get(f"[.] py::spin:{tmp_path}/app.py", 0) == 0
        folded_rows = {row.texts["symbol"]: row.percent for row in opened.report(by=["symbol"], symbols=FOLDED).top(9)}
        assert folded_rows[f"[.] py::spin:{tmp_path}/app.py"] == 60.0


def test_rows_by_line(recording: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    actual_rows = rows(recording, capsys, "--no-children", "-s", "pyline")
    source = f"{tmp_path}/app.py"
    assert actual_rows == {
        f"spin {source}:3": (50.0,),
        f"spin {source}:2": (10.0,),
        f"main {source}:6": (20.0,),
        "[no Python function]": (20.0,),
    }


def test_rows_by_the_lock(recording: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    assert rows(recording, capsys, "--no-children", "-s", "gil") == {"holds": (50.0,), "released": (20.0,), "-": (30.0,)}
    with Recording(str(recording)) as opened:
        by_both = {(row.texts["gil"], row.texts["pyfunc"]): row.percent for row in opened.report(by=["gil", "pyfunc"]).top(9)}
    assert by_both["holds", f"spin {tmp_path}/app.py"] == 50.0
    assert by_both["-", f"spin {tmp_path}/app.py"] == 10.0


def test_names_of_python_functions_and_of_others():
    names = ["py::main:app.py", "py::A.f:/srv/app.py", "py::f:<string>", "py::object::cast", "py::detail::f(a::b)", "main"]
    texts = SimpleNamespace(locations=SimpleNamespace(name=names.__getitem__))
    column = python_function(texts, np.arange(len(names)) << ROLE_BITS)  # type: ignore[arg-type]
    results = [column.text(row) for row in range(len(names))]
    assert results == ["main app.py", "A.f /srv/app.py", "f <string>", *["[no Python function]"] * 3]


def test_filters_are_for_the_folded_samples(recording: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    actual_rows = rows(recording, capsys, "--no-children", "-s", "sym", "--fold-interpreters", "-S", f"py::spin:{tmp_path}/app.py")
    assert actual_rows == {f"[.] py::spin:{tmp_path}/app.py": (60.0,)}


def test_source_lines_have_self_and_total(recording: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    assert run(["annotate", "--by-line", "-i", str(recording)]) == 0
    assert capsys.readouterr().out.startswith(
        "cpu-clock:u: 10 samples\n"
        f"\n{tmp_path}/app.py  80.00%\n"
        "   self    total     line\n"
        "                       1  def spin():\n"
        " 10.00%                2      x = 1\n"
        " 50.00%                3      return x + 1\n"
        "                       4  def main():\n"
        "         60.00%        5      spin()\n"
        " 20.00%                6      spin()\n"
    )


def test_terminals_fold_by_default_with_a_note(recording: Path):
    def shown(*words: str) -> str:
        return on_terminal(*words, "-i", str(recording), columns=100, lines=40, environment={"PAGER": "cat"}).text

    usual = shown("report")
    assert re.search(r"60\.00%.* 60\.00%.* Python .*spin \(app\.py:3\)", usual)
    assert "--no-fold-interpreters" in usual
    assert "--no-fold-interpreters" in shown("annotate", "--by-line")
    for option in ("--no-fold-interpreters", "--fold-interpreters"):
        assert "--no-fold-interpreters" not in shown("report", option)
    assert "libpython3.12.so.1.0" in shown("report", "--no-fold-interpreters").partition("hottest")[0]


def test_source_lines_without_the_code_of_extension_modules(recording: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["annotate", "--by-line", "--no-fold-interpreters", "-i", str(recording)]) == 0
    assert " 30.00%  50.00%        3      return x + 1\n" in capsys.readouterr().out


def test_only_recordings_of_python_have_python_frames(recording: Path, tmp_path: Path):
    (tmp_path / "other").write_bytes(simple_recording().file())
    for path, has in ((recording, True), (tmp_path / "other", False)):
        with Recording(str(path)) as opened:
            assert has_python_image(opened.data.kept_files) == has
