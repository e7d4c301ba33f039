"""`perfpy annotate NAME` where the function has parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfpy.cli import run
from perfpy.cli.annotate.function_names import without_parameters
from tests.builders.annotated import SPIN, recording, stand_in
from tests.builders.elf import ALLOC, EXEC, Elf

if TYPE_CHECKING:
    from pathlib import Path

ONE, OTHER = "_Z4spinPKhm", "_Z4spini"  # spin(unsigned char const*, unsigned long), spin(int)


def annotated(folder: Path, first: str, second: str, *options: str) -> int:
    """The status of annotate over a program of two functions with these symbols."""
    code = bytes(16) + SPIN + bytes(9) + b"\xc3" * 16
    elf = Elf().section(".text", code, flags=ALLOC | EXEC, addr=0x1000, offset=0x1000, size=0x1000).segment(0x1000, 0x1000, 0x1000)
    (folder / "bin").mkdir()
    (folder / "bin" / "spin").write_bytes(elf.symbol(first, 0x1010, len(SPIN)).symbol(second, 0x1020, 16).build())
    (folder / "perf.data").write_bytes(recording())
    files = ["-i", str(folder / "perf.data"), "--symfs", str(folder), "--objdump", str(stand_in(folder))]
    return run(["annotate", "--stdio", *files, *options])


@pytest.mark.parametrize("options", [["spin"], ["-s", "spin"]])
def test_the_one_function_with_that_name_is_taken(options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert annotated(tmp_path, ONE, "rest", *options) == 0
    shown = capsys.readouterr()
    assert "of spin for cpu-clock" in shown.out
    assert not shown.err


def test_of_several_functions_the_names_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert annotated(tmp_path, ONE, OTHER, "spin") != 0
    error = capsys.readouterr().err
    assert "2 functions are called spin: 'spin(unsigned char const*, unsigned long)', 'spin(int)'; name one with its parameters" in error
    assert error.count("\n") == 1


def test_a_function_with_exactly_that_name_comes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert annotated(tmp_path, "spin", ONE, "spin") == 0
    assert "of spin for cpu-clock" in capsys.readouterr().out


@pytest.mark.parametrize("options", [["-d", "other"], ["-C", "3"]])
def test_only_functions_that_the_other_filters_leave_have_a_say(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    annotated(tmp_path, ONE, OTHER, "spin", *options)
    assert "functions are called" not in capsys.readouterr().err


def test_a_name_that_none_has_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    annotated(tmp_path, ONE, OTHER, "spun")
    assert "no such function in this recording; it has spin(" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("checksum(unsigned char const*, int)", "checksum"),
        ("Table<int>::fill(std::string const&) const", "Table<int>::fill"),
        ("apply(int (*)(char))", "apply"),
        ("(anonymous namespace)::work(int)", "(anonymous namespace)::work"),
        ("work(int) [clone .isra.0] [clone .cold]", "work"),
        ("operator()(int) &&", "operator()"),
        ("core::fmt::write", "core::fmt::write"),
        ("do_syscall_64", "do_syscall_64"),
        ("broken)", "broken)"),
        ("(int)", "(int)"),
    ],
)
def test_parameters_are_the_last_brackets(name: str, expected: str) -> None:
    assert without_parameters(name) == expected
