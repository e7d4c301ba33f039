"""`perfpy trace -i` on recordings made elsewhere prints what perf 7.3 prints.

Where perf ignores an option with -i (-e, --max-events, --summary-mode), the option's effect on perf's own lines is expected.
"""

from __future__ import annotations

import csv
import gzip
import re
from typing import TYPE_CHECKING

import pytest

from perfpy.tools.trace.command import command
from perfpy.tools.trace.options import parse_selection

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAMES = re.compile(r"= -1 (?:E[A-Z0-9]+|\(unknown\)) \(")
LINE = re.compile(r"^ *[\d.?]+ \(.*?\): \S+ +(?:\.\.\. \[continued\]: )?(\w+)\(")
RECORDINGS = ("trace-ls.data", "trace-python.data", "trace-git.data", "trace-threads-7.data", "trace-wide.data")
SAME = ("", "-s", "-S", "-T", "--duration 0.05", "--failure", "-s --errno-summary", "-s --max-summary 4", "--show-cpu", "--no-comm")


@pytest.fixture(scope="module")
def live(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[tuple[str, str], str]]:
    """Return a folder with the recordings, and perf's answers by recording and options."""
    folder, source = tmp_path_factory.mktemp("trace"), corpus / "live"
    if not (source / "INDEX.tsv").exists():
        pytest.skip(f"no recordings of system calls in {source}")
    answers = {}
    with open(source / "INDEX.tsv", encoding="utf-8") as index:
        for row in csv.DictReader(index, delimiter="\t", quoting=csv.QUOTE_NONE):
            words = row["line"].split()
            if words[0] == "trace":
                text = gzip.decompress((source / row["answer"]).read_bytes()).decode()
                options = row["line"].removeprefix("trace").removesuffix(f"-i {row['file']}").strip()
                answers[row["file"], options] = text.partition("== stderr ==\n")[2].rstrip()
    for name in RECORDINGS:
        (folder / name).write_bytes(gzip.decompress((source / f"{name}.gz").read_bytes()))
    return folder, answers


def printed(folder: Path, name: str, options: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert command.run("trace", [*options, "-i", str(folder / name)]) == 0
    text = NAMES.sub("= -1 E (", capsys.readouterr().err)
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip()


@pytest.mark.parametrize("name", RECORDINGS)
@pytest.mark.parametrize("options", SAME)
def test_text_is_that_of_perf(name, options, live, capsys):
    folder, answers = live

    assert printed(folder, name, options.split(), capsys) == answers[name, options]


def calls_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield the call and the line of each line."""
    for line in text.splitlines():
        match = LINE.match(line)
        if match:
            yield match[1], line


@pytest.mark.parametrize("name", ["trace-ls.data", "trace-git.data"])
@pytest.mark.parametrize("chosen", ["openat,close,read", "!mmap,mprotect,brk", "file"])
def test_chosen_calls_have_perfs_lines(name, chosen, live, capsys):
    folder, answers = live
    selection = parse_selection([chosen], "x86_64")

    def is_chosen(call: str) -> bool:
        return (call in (selection.calls or ())) != selection.is_excluded

    expected = [line for call, line in calls_in(answers[name, ""]) if is_chosen(call)]

    lines = printed(folder, name, ["-e", chosen], capsys).splitlines()
    assert [line.split(": ", 1)[1] for line in lines] == [line.split(": ", 1)[1] for line in expected]


def test_max_events_prints_the_first_lines_of_perf(live, capsys):
    folder, answers = live

    assert printed(folder, "trace-ls.data", ["--max-events", "25"], capsys).splitlines() == answers["trace-ls.data", ""].splitlines()[:25]


def test_one_table_has_the_calls_of_all_threads(live, capsys):
    folder, answers = live
    calls: dict[str, int] = {}
    for line in answers["trace-threads-7.data", "-s"].splitlines():
        words = line.split()
        if len(words) == 8 and words[1].isdecimal():
            calls[words[0]] = calls.get(words[0], 0) + int(words[1])

    text = printed(folder, "trace-threads-7.data", ["-s", "--summary-mode=total"], capsys)
    rows = [line.split() for line in text.splitlines()]
    assert {row[0]: int(row[1]) for row in rows if len(row) == 8 and row[1].isdecimal()} == calls


@pytest.mark.parametrize("options", [["-S", "-s"], ["-s", "-S"]])
def test_the_tables_alone_win_over_tables_and_lines(options, live, capsys):
    folder, answers = live

    assert printed(folder, "trace-ls.data", options, capsys) == answers["trace-ls.data", "-s"]
