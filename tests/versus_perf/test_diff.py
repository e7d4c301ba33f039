"""Tests that perfpy diff prints what perf diff prints, and distinguishes noise from change."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from perfpy.cli.commands import load_command
from perfpy.symbols.files import build_ids
from tests.builders.kernel_symbols import few_symbols
from tests.builders.prepared_start import PERFPY, run
from tests.builders.report_lines import at_fixed_addresses

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.versus_perf]

WORK = "import json; x = 0\nfor i in range({loops}): x += i * i\nfor i in range({texts}): json.dumps([i, str(i)])"
OPTIONS = (
    "",
    "-b",
    "-p",
    "-F",
    "-F -p -b",
    "-q",
    "-t,",
    "-c delta",
    "-c ratio",
    "-c ratio -p -F -t;",
    "-c wdiff:1,2",
    "-c wdiff:3,-2 -F -b",
    "-o 0",
    "-s dso",
    "-s comm,dso",
    "-s sym",
    "-s pid",
    "-s +comm",
    "-C python3",
    "-C perf,python3 --percentage relative -b -F",
    "-d libc.so.6,[kernel.kallsyms]",
    "-d libc.so.6",
    "-d libc.so.6 --percentage relative",
    "-S _PyEval_EvalFrameDefault,_PyObject_Malloc",
    "--time 10%-60%",
)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory, perf: str) -> list[Path]:
    folder = tmp_path_factory.mktemp("recordings")
    work = [(400_000, 5_000), (100_000, 30_000), (400_000, 5_000)]
    return [recorded(perf, folder / f"{number}.data", *amounts) for number, amounts in enumerate(work)]


def recorded(perf: str, path: Path, loops: int, texts: int) -> Path:
    """Record a program that computes sums, then texts."""
    record = [perf, "record", "-q", "-N", "-e", "cpu-clock,page-faults", "-F", "1999", "-o", str(path), "--"]
    script = WORK.format(loops=loops, texts=texts)
    subprocess.run([*record, *at_fixed_addresses(), sys.executable, "-c", script], check=True, capture_output=True, timeout=120)
    return path


def answer(*command: object) -> str:
    process = run([str(word) for word in command])
    assert process.returncode == 0, process.stderr
    return process.stdout.decode()


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.thorough
def test_two_recordings_give_perfs_text(options: str, recordings: list[Path], perf: str) -> None:
    arguments = ["diff", *options.split(), *few_symbols(recordings[0].parent), *recordings[:2]]
    theirs = answer(perf, *arguments)
    assert answer(*PERFPY, *arguments) == theirs
    assert theirs


@pytest.mark.parametrize("options", ["", "-b -p -F", "-o 2", "-c ratio -o 2", "-c delta -t,", "-q", "-c wdiff:3,1 -o 2 -p", "-b -s comm"])
@pytest.mark.thorough
def test_three_recordings_give_perfs_text(options: str, recordings: list[Path], perf: str) -> None:
    arguments = ["diff", *options.split(), *few_symbols(recordings[0].parent), *recordings]
    assert answer(*PERFPY, *arguments) == answer(perf, *arguments)


@pytest.mark.thorough
def test_recordings_of_different_events_are_paired_as_perf_does(recordings: list[Path], perf: str, tmp_path: Path) -> None:
    other = tmp_path / "other.data"
    subprocess.run(
        [perf, "record", "-q", "-N", "-e", "task-clock,page-faults", "-o", other, "true"], check=True, capture_output=True, timeout=60
    )
    assert answer(*PERFPY, "diff", recordings[0], other) == answer(perf, "diff", recordings[0], other)


def test_recordings_made_elsewhere_give_perfs_text(
    corpus: Path, perf: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """perf has no vdso with --symfs; perfpy has this kernel's, if the recording is one of the same kernel."""
    monkeypatch.setattr(build_ids, "vdso_image", lambda: b"")
    for first, second in (("mt-a", "wide-a"), ("group-S-a", "terms-a"), ("switch-a", "z-a")):
        paths = [corpus / "recorded" / f"{name}.data" for name in (first, second)]
        arguments = ["-f", "--symfs", "/nonexistent", *map(str, paths)]
        assert load_command("diff").run("diff", arguments) == 0
        assert capfd.readouterr().out == answer(perf, "diff", *arguments)


def test_a_recording_compared_with_itself_has_no_mark(recordings: list[Path]) -> None:
    assert "*" not in answer(*PERFPY, "diff", "--noise", "-q", recordings[0], recordings[0])


def test_a_change_of_the_program_is_marked(perf: str, tmp_path: Path) -> None:
    sums, texts = recorded(perf, tmp_path / "sums", 8_000_000, 0), recorded(perf, tmp_path / "texts", 0, 200_000)
    document = json.loads(answer(*PERFPY, "diff", "--json", sums, texts))
    clock = document["events"][0]
    marked = [row["keys"]["symbol"] for row in clock["rows"] if row["changes"][0]["significant"]]
    assert marked
    assert len(marked) < len(clock["rows"]) / 2
    assert all(0 <= row["changes"][0]["chance"] <= 1 for row in clock["rows"])


def test_noise_adds_a_column_and_nothing_else(recordings: list[Path]) -> None:
    plain = answer(*PERFPY, "diff", "-q", "-t,", *recordings[:2]).splitlines()
    noisy = answer(*PERFPY, "diff", "-q", "-t,", "--noise", *recordings[:2]).splitlines()
    assert [[*cells[:2], *cells[3:]] for cells in (line.split(",") for line in noisy)] == [line.split(",") for line in plain]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("-c cycles", "branch records"),
        ("-c wdiff:0,1", "two weights"),
        ("-c nothing", "expected delta"),
        ("-o 2", "0 (the baseline)"),
        ("--stream", "--stream"),
    ],
)
def test_incomparable_recordings_are_refused(options: str, message: str, recordings: list[Path]) -> None:
    process = run([*PERFPY, "diff", *options.split(), *recordings[:2]])
    assert (process.returncode, process.stdout) == (129, b"")
    assert message in process.stderr.decode()
