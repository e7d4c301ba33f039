"""Tests that sched, lock and their relatives print what perf printed of recordings made elsewhere."""

from __future__ import annotations

import csv
import gzip
import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from perfpy.cli import run
from perfpy.cli.commands import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT: Final = Path(__file__).resolve().parents[2]
COMMANDS_HERE: Final = ("sched", "lock", "kwork", "kmem", "timechart", "mem", "c2c", "kvm")
ON_STANDARD_OUTPUT: Final = ("mem", "c2c")  # perf's notes on symbols are on stderr
#: a pattern on file and line -> why perf's answer is not ours
UNLIKE_PERF: Final = {
    r"sched-(ls|pipe|messaging|rt)\.data 7\.3 sched latency ": "perf 7's table of a file of perf 6; ours is that of the recorder",
    r" kmem .* -i ": "perf reads no options after the action",
    r" timechart .*--highlight=1ms": "perf ignores the unit, so it highlights runs of a nanosecond and more",
    r"lock contention -o": "perf needs BPF for it",
    r"lock contention -v": "perf tells how it reads kallsyms",
    r"lock-many.* -Y rwsem:W": "perf counts filtered locks as bad ones",
    r" 7\.3 sched timehist --prio": "perf 7 names more threads; ours is the text of 6.12. Waits after hidden switches are unknown",
}


def folder() -> Path:
    """Return the folder of the recordings, which need not exist."""
    names = os.environ.get("PERFPY_CORPUS")
    return (Path(names) if names else CHECKOUT.parent / "shared" / "corpus") / "live"


def rows() -> Iterator[dict[str, str]]:
    index = folder() / "INDEX.tsv"
    if not index.exists():
        return
    with index.open() as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            words = row["line"].split()
            if words[0] in COMMANDS_HERE and words[0] in COMMANDS:
                yield row


def expected(row: dict[str, str]) -> bytes:
    return gzip.decompress((folder() / row["answer"]).read_bytes())


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the recordings as plain files; skips without them."""
    if not (folder() / "INDEX.tsv").exists():
        pytest.skip(f"no recordings of tracepoints in {folder()}: set PERFPY_CORPUS")
    mktemp = tmp_path_factory.mktemp("recordings")
    for name in {row["file"] for row in rows()} | {"kallsyms"}:
        (mktemp / name).write_bytes(gzip.decompress((folder() / f"{name}.gz").read_bytes()))
    return mktemp


def text(answer: bytes) -> list[bytes]:
    lines = answer.replace(os.fsencode(os.getcwd()), b"DIR").splitlines()
    return [line.rstrip() for line in lines if line.strip(b" #") and not line.startswith(b"# (Tip: ")]


@pytest.mark.parametrize("row", list(rows()), ids=lambda row: f"{row['file']} {row['perf']} {row['line']}")
def test_the_text_is_perfs(row, unpacked, monkeypatch, capfdbinary):
    name = f"{row['file']} {row['perf']} {row['line']}"
    reason = next((why for pattern, why in UNLIKE_PERF.items() if re.search(pattern, name)), None)
    if reason:
        pytest.skip(reason)
    monkeypatch.chdir(unpacked)
    monkeypatch.setenv("HOME", str(unpacked))
    words = shlex.split(row["line"])
    if b"<-" in expected(row) or row["line"].startswith(("lock", "kwork", "kmem")):
        words += ["--kallsyms", "kallsyms"]
    status = run(words)
    output = capfdbinary.readouterr()
    answer = output.out + (b"\n== stderr ==\n" + output.err if output.err.strip() else b"")
    if "out.svg" in words:
        answer += b"\n== out.svg ==\n" + (unpacked / "out.svg").read_bytes()
    assert status == int(row["status"])
    wanted = expected(row)
    if words[0] in ON_STANDARD_OUTPUT:
        answer, wanted = output.out, wanted.partition(b"\n== stderr ==\n")[0]
    assert text(answer) == text(wanted)
