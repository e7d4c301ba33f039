"""`perfpy report` over several recordings."""

from __future__ import annotations

import json
import lzma

import pytest

from perfpy.cli import run
from tests.builders.own_corpus import RECORDINGS


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two recordings and a file that is none, in the current folder."""
    for name in ("chains", "lost"):
        (tmp_path / f"{name}.data").write_bytes(lzma.decompress((RECORDINGS / f"{name}.data.xz").read_bytes()))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def report(capsys, *args):
    status = run(["report", *args])
    said = capsys.readouterr()
    return status, said.out, said.err


@pytest.mark.parametrize("inputs", [["-i", "chains.data", "-i", "lost.data"], ["-i", "*.data"], ["-i", "."]], ids=" ".join)
def test_several_are_one_report(folder, inputs, capsys):
    status, out, err = report(capsys, *inputs, "--json", "--sort", "recording")
    first = json.loads(out)["events"][0]
    assert (status, err) == (0, "")
    assert {row["keys"]["recording"].removeprefix("./") for row in first["rows"]} <= {"chains.data", "lost.data"}
    assert first["events"][0]["name"] == "task-clock"


def test_one_that_cannot_be_read_is_named_and_the_status_says_so(folder, capsys):
    status, out, err = report(capsys, "-i", "chains.data", "-i", "missing.data", "--sort", "comm", "-g", "none")
    assert status == 91
    assert "work" in out
    assert err.splitlines()[0].startswith("Warning: missing.data: left out: cannot open")


def test_the_text_is_that_of_one_where_there_is_one(folder, capsys):
    def tables(*inputs):
        return [line for line in report(capsys, *inputs, "--no-children", "-g", "caller")[1].splitlines() if "# (Tip" not in line]

    assert tables("-i", "chain*.data") == tables("-i", "chains.data")


def test_stacks_of_several(folder, capsys):
    status, out, _ = report(capsys, "-i", "*.data", "--folded")
    assert status == 0
    assert out.startswith("work;")
    assert report(capsys, "-i", "*.data", "--html", "page.html")[0] == 0
    assert (folder / "page.html").read_text().startswith("<!")


def test_what_is_of_one_recording_is_refused(folder, capsys):
    status, _, err = report(capsys, "-i", "*.data", "--stats")
    assert status == 129
    assert "of one recording only" in err
