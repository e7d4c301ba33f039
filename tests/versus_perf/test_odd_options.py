"""Tests that perfpy prints what perf prints with rare options, for our own recordings."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.builders.own_corpus import comparable, surroundings, unpack
from tests.builders.prepared_start import PERFPY, run

if TYPE_CHECKING:
    import subprocess

pytestmark = pytest.mark.versus_perf

CHECKOUT = Path(__file__).resolve().parents[2]
LINES = (
    "report --group --group-sort-idx 9 -i group-leader.data",
    "report --group --group-sort-idx 1 -i group-leader.data",
    "report --socket-filter 0 -i wide.data",
    "report --socket-filter 0 -C 1 -i wide.data",
    "report -S 0x1149 -i cpu-clock.data",
    "report -S main,0x1149 -i cpu-clock.data",
    "script -C 0 -i wide.data",
    "script --addr2line /usr/bin/addr2line -i cpu-clock.data",
)
REFUSED = (
    "script -C 999 -i wide.data",
    "report --prefix-strip 2 -i cpu-clock.data",
    "report -g nothing -i chains.data",
)
SEARCH = re.compile(r"vmlinux_path|inconsistency|^Using |not found, continuing|^Failed to open|^Can't|^No kallsyms|bpf_prog_info|btf ")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recordings")
    unpack(path)
    return path


def answer(command: list[str], line: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, **surroundings(folder), "PYTHONPATH": str(CHECKOUT)}
    return run([*command, *line.split()], cwd=folder, env=environment)


@pytest.mark.parametrize("line", LINES)
def test_the_text_is_perfs(line: str, folder: Path, perf: str) -> None:
    theirs, ours = answer([perf], line, folder), answer(PERFPY, line, folder)
    assert comparable(ours.stdout) == comparable(theirs.stdout) != b""
    assert ours.returncode == theirs.returncode == 0


@pytest.mark.parametrize("line", REFUSED)
def test_refused_as_by_perf(line: str, folder: Path, perf: str) -> None:
    theirs, ours = answer([perf], line, folder), answer(PERFPY, line, folder)
    assert theirs.returncode != 0
    assert ours.returncode in (129, 255)
    assert (theirs.stdout, ours.stdout) == (b"", b"")
    assert len(ours.stderr.splitlines()) == 1


@pytest.mark.parametrize("line", ["script -v -i wide.data", "script -v -i cpu-clock.data", "report -v -i build-id-all.data"])
def test_the_output_of_verbose_about_the_file(line: str, folder: Path, perf: str) -> None:
    theirs, ours = (answer(command, line, folder).stderr.decode().splitlines() for command in ([perf], PERFPY))
    lines = [text for text in theirs if not SEARCH.search(text)]
    assert lines
    assert ours[: len(lines)] == lines


def test_quiet_prints_nothing_about_the_file(folder: Path) -> None:
    assert answer(PERFPY, "script -v -q -i wide.data", folder).stderr == b""


def test_a_missing_socket(folder: Path) -> None:
    result = answer(PERFPY, "report --socket-filter 7 -i wide.data", folder)
    assert (result.returncode, b"--socket-filter 7" in result.stderr) == (255, True)


@pytest.mark.parametrize(
    ("line", "expected", "unwanted"), [("stat -h interval", "--interval-print", "--repeat"), ("stat -h -I", "-I,", "--table")]
)
def test_help_about_a_word(line: str, expected: str, unwanted: str, folder: Path, perf: str) -> None:
    theirs, ours = answer([perf], line, folder), answer(PERFPY, line, folder)
    assert expected in ours.stdout.decode()
    assert unwanted not in ours.stdout.decode()
    assert ours.returncode == theirs.returncode == 129


def test_help_about_an_unknown_word(folder: Path) -> None:
    assert b"no option matches nosuchword" in answer(PERFPY, "report -h nosuchword", folder).stdout
