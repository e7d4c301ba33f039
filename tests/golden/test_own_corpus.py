"""What perfpy prints of the recordings in tests/corpus is what the real perf printed of them, byte for byte.

Needs neither perf nor privileges nor a kernel with perf events. Where perf's answer is not ours, INDEX.tsv says why, and what
perfpy prints is compared with what it printed before.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest

from perfpy import cli
from perfpy.cli.output.header import MachineNames
from perfpy.symbols import dso
from tests.builders import own_corpus as corpus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Printed = Callable[[corpus.Row, str], tuple[int, bytes, bytes]]

LARGEST = 3 << 20  # bytes of the folder
CASES = [*corpus.answered()]
DAMAGED = [row for row in corpus.rows() if row.name.startswith("damaged-")]
#: paths of the recording machine, and names of machines
PRIVATE = re.compile(rb"/(?:home|root|work|Users|mnt|host)/|\blocalhost\b")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the unpacked recordings, with the files that they name."""
    path = tmp_path_factory.mktemp("corpus")
    corpus.unpack(path)
    return path


@pytest.fixture
def printed(folder: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Iterator[Printed]:
    """Return a function that runs a command without access to this machine: no PMUs, no tracepoints, no processes."""
    monkeypatch.chdir(folder)
    for name, value in corpus.surroundings(folder).items():
        monkeypatch.setenv(name, value)
    time.tzset()
    monkeypatch.setattr(MachineNames, "_pmus", {4: "cpu"})
    monkeypatch.setattr(MachineNames, "_tracepoints", {})
    monkeypatch.setattr(dso, "perf_map_paths", lambda pid: iter([str(corpus.HERE / "maps" / f"perf-{pid}.map")]))

    def run(row: corpus.Row, kind: str) -> tuple[int, bytes, bytes]:
        status = cli.run(corpus.command_line(row, kind))
        out, err = capfdbinary.readouterr()
        return status, corpus.comparable(err if kind == "stat" else out), err

    yield run
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(("row", "kind"), CASES, ids=[f"{row.name}-{kind}" for row, kind in CASES])
def test_the_text_is_perfs(row: corpus.Row, kind: str, printed: Printed) -> None:
    expected = corpus.answer(row, kind, ours=kind in row.unlike)
    assert printed(row, kind)[1] == (expected or b"")


@pytest.mark.parametrize("row", DAMAGED, ids=lambda row: row.name)
def test_damage_is_reported_in_one_line(row: corpus.Row, printed: Printed) -> None:
    for kind in ("script", "report", "header", "dump"):
        status, out, err = printed(row, kind)
        assert status in (0, 255)
        assert out or err.count(b"\n") == 1
        assert b"Traceback" not in err
        assert b"internal error" not in err


def test_a_reason_is_given_only_for_other_answers_of_perf() -> None:
    differing = [(row, kind) for row in corpus.rows() for kind in row.unlike]
    needless = [f"{row.name} {kind}" for row, kind in differing if corpus.answer(row, kind) == corpus.answer(row, kind, ours=True)]
    assert not needless


def test_every_recording_has_a_row_and_an_answer() -> None:
    names = {row.name for row in corpus.rows()}
    assert names == {path.name.removesuffix(".data.xz") for path in corpus.RECORDINGS.glob("*.data.xz")}
    assert names - {row.name for row, _ in CASES} <= {row.name for row in DAMAGED}


def test_the_corpus_is_small() -> None:
    assert sum(path.stat().st_size for path in corpus.HERE.rglob("*") if path.is_file() and "__pycache__" not in path.parts) <= LARGEST


def test_nothing_in_it_is_private(folder: Path) -> None:
    texts = [corpus.answer(row, kind) or b"" for row, kind in CASES]
    contents = [*texts, *(path.read_bytes() for path in folder.rglob("*") if path.is_file())]
    assert not {result for content in contents for result in PRIVATE.findall(content)}
