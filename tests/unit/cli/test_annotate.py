"""The text of `perfpy annotate`, option by option, as in perf 7.3."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfpy.cli import run
from tests.builders.annotated import program, recording, stand_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Annotate = Callable[..., str]


from typing import TYPE_CHECKING

from perfpy.cli.annotate import without_parameters
from tests.builders.annotated import SPIN
from tests.builders.elf import ALLOC, EXEC, Elf

if TYPE_CHECKING:
    from pathlib import Path

HEADING = " Percent |\tSource code & Disassembly of spin for cpu-clock:u (10 samples, percent: local period)"
CODE = """\
         :
         :
         :
         : 3    Disassembly of section .text:
         :
         : 5    0000000000001010 <spin>:
         : 6    while (--n)
   10.00 :   1010:   nop
   60.00 :   1011:   dec    %rdi
         : 9    ;
   20.00 :   1014:   jne    1011 <spin+0x1>
         :
         : 12   deadbeef: no instruction
   10.00 :   1016:   ret
"""


@pytest.fixture
def annotate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Annotate:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "spin").write_bytes(program().build())

    def text(*options: str, events: int = 1, status: int = 0) -> str:
        (tmp_path / "perf.data").write_bytes(recording(events))
        files = ["-i", str(tmp_path / "perf.data"), "--symfs", str(tmp_path), "--objdump", str(stand_in(tmp_path))]
        assert run(["annotate", *files, *options]) == status
        return capsys.readouterr().out

    return text


def cells(text: str, spot: str = "1011:") -> str:
    """What stands in front of an instruction."""
    return next(line.partition(" :  ")[0] for line in text.splitlines() if spot in line)


def test_a_function_is_a_heading_and_its_code(annotate: Annotate) -> None:
    heading, dashes, code = annotate("-s", "spin").split("\n", 2)
    assert heading == HEADING
    assert len(dashes) == len(heading) + 5
    assert set(dashes) == {"-"}
    assert code == CODE


def test_the_word_is_a_function_too(annotate: Annotate) -> None:
    assert annotate("spin") == annotate("-s", "spin")


def test_all_functions_are_sorted_by_samples(annotate: Annotate, tmp_path: Path) -> None:
    whole = annotate()
    arguments = (tmp_path / "asked.txt").read_text()
    assert "=0x0000000000001010" in arguments
    assert "=0x0000000000001020" in arguments
    assert whole.startswith(HEADING)


def test_functions_below_the_limit_are_omitted(annotate: Annotate, tmp_path: Path) -> None:
    annotate("--percent-limit", "50")
    assert "=0x0000000000001020" not in (tmp_path / "asked.txt").read_text()


@pytest.mark.parametrize("options", [["-s", "spin"], ["-d", "spin", "-s", "spin"]])
def test_the_limit_is_a_share_of_the_chosen_samples(options: list[str], annotate: Annotate) -> None:
    """As in perf, which counts only these."""
    assert "of spin for" in annotate("--percent-limit", "90", *options)


def test_columns(annotate: Annotate) -> None:
    assert cells(annotate("-s", "spin", "-n")) == "       6"
    assert cells(annotate("-s", "spin", "--show-total-period")) == "        6000"
    assert annotate("-s", "spin", "--show-total-period").startswith(" Period      |\t")


@pytest.mark.parametrize(
    ("kind", "share"), [("local-hits", "60.00"), ("global-hits", "46.15"), ("local-period", "60.00"), ("global-period", "46.15")]
)
def test_the_total_of_shares(annotate: Annotate, kind: str, share: str) -> None:
    text = annotate("-d", "spin", "--percent-type", kind)
    assert f"percent: {kind.replace('-', ' ')})" in text
    assert cells(text).strip() == share
    assert annotate("-d", "spin", "--percent-type", "-".join(reversed(kind.split("-")))) == text


def test_samples_and_periods_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["annotate", "-n", "--show-total-period"]) == 129
    assert "exclude each other" in capsys.readouterr().err


def test_a_requested_function_is_its_own_total(annotate: Annotate) -> None:
    assert cells(annotate("-s", "spin", "--percent-type", "global-period")).strip() == "60.00"


def test_addresses_that_were_hit_are_listed_with_v(annotate: Annotate) -> None:
    assert f"{'1011':>32}: 6\n" in annotate("-s", "spin", "-v")
    assert f"{'h->nr_samples':>32}: 10\n" in annotate("-s", "spin", "-v")


def test_full_paths(annotate: Annotate) -> None:
    assert "Disassembly of /bin/spin for" in annotate("-s", "spin", "-P")


def test_each_event_has_its_own_functions(annotate: Annotate) -> None:
    assert annotate("-s", "spin", events=2).count("Source code & Disassembly") == 2


def test_the_dump_ends_with_numbers_of_records_and_of_the_functions_samples(annotate: Annotate) -> None:
    """As in perf: -D counts all types of records; with --skip-empty only those that the recording has."""
    lines = annotate("-D", "-s", "spin").splitlines()
    assert lines[-2:] == ["cpu-clock:u stats:", "              SAMPLE events:         10"]
    assert any(line.split()[:3] == ["AUXTRACE", "events:", "0"] for line in lines)
    lines = annotate("-D", "-s", "other", "--skip-empty").splitlines()
    assert "Aggregated stats:" in lines
    assert not any(line.split()[:1] == ["AUXTRACE"] for line in lines)
    assert "cpu-clock:u stats:" not in lines


def test_events_side_by_side(annotate: Annotate) -> None:
    text = annotate("-s", "spin", "--group", "--show-total-period", events=2)
    assert text.count("Source code & Disassembly") == 1
    assert cells(text) == "        6000       12000"


def test_without_lines_the_table_of_lines_has_addresses(annotate: Annotate) -> None:
    text = annotate("-s", "spin", "-l")
    assert text.startswith("\nSorted summary for file /bin/spin\n" + "-" * 46 + "\n\n")
    assert "\n   60.00 spin[1011]\n   20.00 spin[1014]\n   10.00 spin[1016]\n   10.00 spin[1010]\n" in text
    assert "dec    %rdi // spin[1011]\n" in text


def test_colours(annotate: Annotate) -> None:
    text = annotate("-s", "spin", "--stdio-color", "always")
    assert "\x1b[31m   60.00\x1b[m : \x1b[35m  1011:\x1b[m\x1b[34m   dec    %rdi\x1b[m\n" in text


def test_a_function_that_has_no_samples_gives_a_line_why(annotate: Annotate, capsys: pytest.CaptureFixture[str]) -> None:
    assert annotate("-s", "nothing") == ""


def test_missing_code_is_reported_once_for_each_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "spin").write_bytes(program().build())
    (tmp_path / "perf.data").write_bytes(recording())
    line = ["annotate", "-i", str(tmp_path / "perf.data"), "--symfs", str(tmp_path), "--objdump", "/nonexistent"]
    assert run(line) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "perfpy: annotate: no code for spin and 1 more: cannot run /nonexistent: No such file or directory\n"
    assert run([*line, "--skip-missing"]) == 0
    assert capsys.readouterr().err == ""


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
    captured = capsys.readouterr()
    assert "of spin for cpu-clock" in captured.out
    assert not captured.err


def test_of_several_functions_the_names_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert annotated(tmp_path, ONE, OTHER, "spin") != 0
    error = capsys.readouterr().err
    assert "2 functions are called spin: 'spin(unsigned char const*, unsigned long)', 'spin(int)'; name one with its parameters" in error
    assert error.count("\n") == 1


def test_a_function_with_exactly_that_name_comes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert annotated(tmp_path, "spin", ONE, "spin") == 0
    assert "of spin for cpu-clock" in capsys.readouterr().out


@pytest.mark.parametrize("options", [["-d", "other"], ["-C", "3"]])
def test_only_functions_that_pass_the_other_filters_match(options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    annotated(tmp_path, ONE, OTHER, "spin", *options)
    assert "functions are called" not in capsys.readouterr().err


def test_an_unknown_name_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
