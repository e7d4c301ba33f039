"""Twenty filters over many recordings: as many samples in JSON as script has lines, and the plain text is perf's.

Our own small recordings need nothing; those made elsewhere are looked at where they are there, perf where it is installed.
"""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import pytest

import perfpy
from perfpy import cli
from perfpy.abi.flags import SampleType
from perfpy.symbols.files.debug_files import SymbolOptions
from tests.builders import own_corpus

if TYPE_CHECKING:
    from pathlib import Path

OWN = "affinity chains cpu-clock fork-exec group kernel-only context-switches arm64-wide arm64-sched arm64-page-faults".split()
ELSEWHERE = "mt-a wide-a group-a switch-a dwarf-nofp-a fp-a multi-a maxsize-a lock-a uprobe-a".split()
RECORDINGS = [*((name, True) for name in OWN), *((name, False) for name in ELSEWHERE)]
LINES = (
    "--comms {comm}",
    "--comms {comm},{comm2} --sort dso",
    "--comms none,{comm2} --sort dso,sym",
    "--pid {pid} --sort dso",
    "--pid {pid2} --sort comm",
    "--tid {tid} --sort dso,sym",
    "--tid {tid},{tid2}",
    "--dsos {dso} --sort sym",
    "--dsos {dso2} --sort comm",
    "--dsos {dso},{dso2} --sort pid",
    "--symbols {sym} --sort comm",
    "--symbols {sym},{sym2} --sort dso",
    "--comms {comm2} --dsos {dso} --sort comm,dso",
    "--pid {pid} --symbols {sym2} --sort sym",
    "--pid {pid} --tid {tid2} --sort pid",
    "--tid {tid} --dsos {dso2} --sort dso",
    "--time 10%-60%",
    "--time 20%/2 --comms {comm} --sort dso",
    "--comms {comm} --dsos {dso2} --symbols {sym2} --sort comm,dso,sym",
    "-C {cpu} --comms {comm} --sort dso",
)


class Case(NamedTuple):
    """A recording, and its lines: the filters, and the options of report."""

    path: Path
    symbols: list[str]
    lines: list[tuple[list[str], list[str]]]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    own_corpus.unpack(folder)
    return folder


@pytest.fixture(params=RECORDINGS, ids=[name for name, _ in RECORDINGS])
def case(request: pytest.FixtureRequest, own: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    name, is_own = request.param
    folder: Path = own if is_own else request.getfixturevalue("corpus") / "recorded"
    for variable, value in own_corpus.surroundings(own).items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(own)
    machine = next((row.machine for row in own_corpus.rows() if row.name == name), "")
    symbols = ["--symfs", "symfs", "--kallsyms", f"kallsyms.{machine}"] if is_own else ["--symfs", "/nonexistent"]
    lines = lines_for(folder / f"{name}.data", tuple(symbols))
    return Case(folder / f"{name}.data", symbols, lines[RECORDINGS.index(request.param) % 2 :: 2])  # each line on every other recording


@cache
def lines_for(path: Path, symbols: tuple[str, ...]) -> list[tuple[list[str], list[str]]]:
    """Return the lines with names and numbers of the recording; its most frequent ones, and others."""
    options = SymbolOptions(symfs=symbols[1], kallsyms=symbols[3] if symbols[3:] else "", cache=False)
    results: dict[str, str] = {}
    with perfpy.open(path) as recording:
        for word, key in (("comm", "comm"), ("dso", "dso"), ("sym", "symbol"), ("pid", "tgid"), ("tid", "pid"), ("cpu", "cpu")):
            texts = [row.texts[key].strip() for row in recording.report(by=key, symbols=options).top(50)]
            values = [value(word, text) for text in texts if usable(word, text)]
            first, second, *_ = [*values, *(["nosuch", "nosuch2"] if word in ("comm", "dso", "sym") else ["99998", "99999"])]
            results |= {word: first, f"{word}2": second}
        has_cpu = all(event.attr.sample_type & SampleType.CPU for event in recording.events)
    lines = [line.format(**results).split() for line in LINES if has_cpu or not line.startswith("-C")]
    return [split(line) for line in lines]


def usable(word: str, text: str) -> bool:
    """Whether a text can be a filter's value."""
    return " " not in value(word, text) and "," not in value(word, text) and "0x" not in text


def value(word: str, text: str) -> str:
    if word == "sym":
        return text.split("] ", 1)[-1]
    return text.split(":", 1)[0] if word in ("pid", "tid") else text


def split(line: list[str]) -> tuple[list[str], list[str]]:
    at = line.index("--sort") if "--sort" in line else len(line)
    return line[:at], line[at:]


@pytest.mark.slow
def test_json_has_as_many_samples_as_script_has_lines(case: Case, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    some = 0
    for filters, keys in case.lines:
        where = [*filters, "-i", str(case.path), *case.symbols]
        assert cli.run(["report", "-q", "-f", "--json", *keys, *where]) == 0
        rows = [row for table in json.loads(capfdbinary.readouterr().out)["events"] for row in table["rows"]]
        counted = sum(member["samples"] for row in rows for member in row.get("members", [row]))
        assert cli.run(["script", "-q", "-f", "-F", "tid,event", *where]) == 0
        lines = capfdbinary.readouterr().out.count(b"\n")
        assert counted == lines, filters
        some += lines > 0
    assert some >= len(case.lines) // 4


@pytest.mark.versus_perf
def test_plain_text_is_perfs(case: Case, perf: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    for filters, keys in case.lines:
        line = ["report", "-f", "--stdio", *filters, *keys, "-i", str(case.path), *case.symbols]
        theirs = subprocess.run([perf, *line], env=os.environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
        assert cli.run(line) == theirs.returncode
        ours, errors = capfdbinary.readouterr()
        assert own_corpus.comparable(ours) == own_corpus.comparable(theirs.stdout), line
        assert errors == b"" or theirs.stderr
