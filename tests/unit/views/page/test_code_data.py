"""Tests of the code of hot functions in the page: lines with samples and their context; only source files are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfpy.analysis.annotation import CodeRow
from perfpy.analysis.source_files import SourceFile, SourceLine, SourceShares
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.views.page import code_data as module
from perfpy.views.page.code_data import code_data, file_data
from tests.builders.annotated import program, recording, stand_in

if TYPE_CHECKING:
    from pathlib import Path


def rows(*percents: float, path: str = "/src/a.c") -> list[CodeRow]:
    return [CodeRow(0x1000 + number, f"op{number}", percent, 1, (path, number + 1)) for number, percent in enumerate(percents)]


def test_instructions_far_from_samples_are_skipped() -> None:
    instructions = module._instructions(rows(*[0.0] * 20, 90.0, *[0.0] * 20, 10.0))
    assert [row[0] for row in instructions] == [*range(14, 27), *range(35, 42)]
    assert instructions[6] == [20, 0.9, "1014", "op20", "a.c:21"]


def test_rows_are_limited() -> None:
    assert len(module._instructions(rows(*[0.3] * 5000))) <= 420


def test_lines_of_a_source_file_with_their_shares(tmp_path: Path) -> None:
    source = tmp_path / "a.c"
    source.write_text("".join(f"line {number}\n" for number in range(1, 31)))
    (result,) = module._sources(rows(*[0.0] * 9, 75.0, 25.0, path=str(source)), module._SourceTexts())
    assert (result["path"], result["share"]) == (str(source), 1.0)
    assert result["lines"][0] == [7, 0.0, "line 7"]
    assert [line[:2] for line in result["lines"] if line[1]] == [[10, 0.75], [11, 0.25]]


@pytest.mark.parametrize("name", ["secret", "id_rsa", "passwd", "a.conf", ".c", "a.c.txt"])
def test_files_without_a_source_extension_are_not_read(name: str, tmp_path: Path) -> None:
    """Pages are shared, and debug information may name any file as source."""
    (tmp_path / name).write_text("secret\n" * 5)
    assert module._sources(rows(50.0, 50.0, path=str(tmp_path / name)), module._SourceTexts()) == []


def test_lines_of_files_with_their_context(tmp_path: Path) -> None:
    path = tmp_path / "a.c"
    path.write_text("".join(f"line {number}\n" for number in range(1, 31)))
    files = [SourceFile(str(path), 20.0, 60.0, [SourceLine(0, 1.0, 1.0, 1), SourceLine(2, 0.0, 40.0, 0), SourceLine(20, 20.0, 20.0, 9)]),
             SourceFile("/nowhere/b.c", 30.0, 30.0, [SourceLine(5, 30.0, 30.0, 9), SourceLine(6, 0.05, 0.05, 1)]),
             SourceFile("/nowhere/cold.c", 0.5, 0.5, [SourceLine(5, 0.5, 0.5, 1)])]  # fmt: skip
    first, second = file_data([SourceShares("cycles", 10, files, {})])
    assert (first["name"], first["event"], first["share"], first["own"]) == (str(path), "cycles", 0.6, 0.2)
    assert [line[0] for line in first["lines"]] == [1, 2, 3, 4, 5, 17, 18, 19, 20, 21, 22, 23]
    assert first["lines"][1] == [2, 0.0, "line 2", 0.4]
    assert second["lines"] == [[5, 0.3, "", 0.3]]


@pytest.mark.parametrize("path", ["a.c", "../a.c", "", "/nowhere/a.c"])
def test_missing_files_have_no_lines(path: str) -> None:
    assert module._sources(rows(50.0, 50.0, path=path), module._SourceTexts()) == []


def test_the_functions_of_a_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "spin").write_bytes(program().build())
    (tmp_path / "perf.data").write_bytes(recording())
    stand_in(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with Recording(str(tmp_path / "perf.data")) as opened:
        result = code_data(opened.annotate(symbols=SymbolOptions(symfs=str(tmp_path), cache=False)))
    spin = result[0]
    assert (spin["name"], spin["module"], spin["event"]) == ("spin", "spin", "cpu-clock:u")
    assert spin["share"] == pytest.approx(10 / 13)
    assert [(row[1], row[2]) for row in spin["instructions"]] == [(0.1, "1010"), (0.6, "1011"), (0.2, "1014"), (0.1, "1016")]
    assert spin["sources"] == []
