"""Tests of perfpy stat --per-thread against perf's: the same threads, the same fields, the same deterministic counts."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.builders.stat_shapes import csv_shape, json_shape, text_shape

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.versus_perf, pytest.mark.live]

PAGES = (100, 200, 300)

#: each round, one thread after the other touches its number of fresh pages; the main thread none
PROGRAM = """
import mmap, os, sys, threading

def touch(pages, go, done):
    while True:
        os.read(go, 1)
        memory = mmap.mmap(-1, 512 * mmap.PAGESIZE)
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for i in range(pages):
            memory[i * mmap.PAGESIZE] = 1
        memory.close()
        os.write(done, b"d")

pipes = []
for pages in map(int, sys.argv[3:]):
    (hear_go, go), (hear_done, done) = os.pipe(), os.pipe()
    threading.Thread(target=touch, args=(pages, hear_go, done), daemon=True).start()
    pipes.append((go, hear_done))

def round():
    for go, hear_done in pipes:
        os.write(go, b"g")
        os.read(hear_done, 1)

for _ in range(3):
    round()
print(*[thread.native_id for thread in threading.enumerate()], flush=True)
while True:
    with open(sys.argv[1]) as asked:
        asked.read()
    round()
    with open(sys.argv[2], "w") as answer:
        answer.write("done")
"""


class Threads:
    """A process whose threads do the same work each time the measured command asks for it."""

    def __init__(self, folder: Path) -> None:
        question, answer = folder / "asked", folder / "answer"
        os.mkfifo(question)
        os.mkfifo(answer)
        command = [sys.executable, "-c", PROGRAM, str(question), str(answer), *map(str, PAGES)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        self.tids = [int(tid) for tid in self.process.stdout.readline().split()]
        self._work = ["--", "sh", "-c", f"echo go > {question}; cat {answer} > {folder}/got"]

    def stat(self, program: list[str], *options: str) -> str:
        """Return the output of `stat` for one round."""
        command = [*program, "stat", "--per-thread", *options, "-p", str(self.process.pid), *self._work]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stderr


PERFPY = [sys.executable, "-m", "perfpy"]


@pytest.fixture(scope="module")
def threads(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Threads]:
    actual_threads = Threads(tmp_path_factory.mktemp("threads"))
    yield actual_threads
    actual_threads.process.kill()
    actual_threads.process.communicate()


def by_thread(text: str, event: str) -> dict[str, str]:
    """Return the counts of an event in CSV, by "comm-tid"."""
    return {row[0]: row[1] for row in csv.reader(text.splitlines()) if row[3] == event}


def test_each_thread_has_its_own_page_faults(perf: str, threads: Threads) -> None:
    """perfpy's counts of each thread equal perf's, and the thread's work."""
    options = ("-x,", "-e", "page-faults:u")
    ours, theirs = (by_thread(threads.stat(program, *options), "page-faults:u") for program in (PERFPY, [perf]))
    assert [int(name.rpartition("-")[2]) for name in ours] == threads.tids
    for counts in (ours, theirs):
        main, *workers = map(int, counts.values())
        assert len(workers) == len(PAGES)
        # Python itself may need a page or two in a thread
        assert all(0 <= count - pages <= 5 for count, pages in zip(workers, PAGES, strict=True))
        assert main < min(PAGES)  # it opens files, and may need a page for that


def test_each_thread_waits_as_often(perf: str, threads: Threads) -> None:
    """A thread that works once a round is switched away from once, when nothing else wants its CPU."""
    options = ("-x,", "-e", "context-switches:k")
    ours, theirs = (by_thread(threads.stat(program, *options), "context-switches:k") for program in (PERFPY, [perf]))
    assert list(ours) == list(theirs)
    assert all(int(count) >= 1 for count in (*ours.values(), *theirs.values()))


@pytest.mark.parametrize("more", [(), ("-r", "2"), ("-I", "60000", "--summary"), ("-e", "task-clock")], ids=" ".join)
def test_per_thread_output_is_perfs(perf: str, threads: Threads, more: tuple[str, ...]) -> None:
    """Text by pattern, CSV and JSON field by field, thread by thread."""
    options = ("-e", "page-faults:u,cpu-clock,instructions", *more)
    for form, shape in (("-x,", csv_shape), ("-j", json_shape)):
        lines, perfs_lines = (shape(threads.stat(program, form, *options)) for program in (PERFPY, [perf]))
        assert lines == perfs_lines
        assert len(lines) >= 3 * len(threads.tids)
    texts = (re.sub(r"(?<=-)\d+ ", "PID ", threads.stat(program, *options)) for program in (PERFPY, [perf]))
    ours, theirs = map(text_shape, texts)
    assert ours == theirs
