"""Tests that `perfpy list` in a pipe prints perf's own text, except perf's built-in metrics."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.versus_perf

WORDS = [
    ["sw"],
    ["hw"],
    ["cache"],
    ["hw", "cache"],
    ["pmu"],
    ["pmu", "sw"],
    ["tracepoint"],
    ["sdt"],
    ["sched:*"],
    ["sched:sched_s*"],
    ["sched_sw"],
    ["msr"],
    ["tsc"],
    ["cs"],
    ["faults"],
    ["tool"],
    ["uprobe*"],
    ["--raw-dump", "sw"],
    ["--raw-dump", "sched:*"],
    ["--raw-dump", "tsc"],
    ["--details", "pmu"],
    ["--details", "sched:*"],
    ["-v", "sw"],
    ["-d", "sw"],
    ["--no-desc", "sw"],
    ["--unit=cpu", "tsc"],
    ["-j", "sw"],
    ["-j", "pmu"],
    ["-j", "tracepoint"],
]


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, perf: str) -> Iterator[None]:
    """Make a home with a build-id cache, whose files' probes are listed; in a shared home recordings may add some meanwhile."""
    mapped = {line.split()[-1] for line in os.fsdecode(Path("/proc/self/maps").read_bytes()).splitlines() if "/lib" in line}
    files = [os.path.realpath(sys.executable), *(name for name in sorted(mapped) if re.search(r"/lib(c|stdc\+\+|python3\.\d+)\.so", name))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        for name in files:
            subprocess.run([perf, "buildid-cache", "-a", name], check=True, capture_output=True, timeout=60)
        yield


def listing(tool: list[str], words: list[str]) -> str:
    return subprocess.run([*tool, "list", *words], capture_output=True, text=True, check=False, timeout=60).stdout


def ours(words: list[str]) -> str:
    return listing([sys.executable, "-m", "perfpy"], words)


def both(words: list[str], perf: str) -> tuple[str, str]:
    """Return both outputs. Other tests add probes and remove them: the list is that of a moment without a change."""
    for _ in range(5):
        theirs, mine = listing([perf], words), ours(words)
        if theirs == listing([perf], words):
            break
    return mine, theirs


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_the_text_is_perfs(words: list[str], perf: str) -> None:
    mine, theirs = both(words, perf)
    assert mine == theirs


@pytest.mark.parametrize("words", [[], ["--details"], ["--no-desc"], ["-v"]], ids=" ".join)
def test_the_whole_list_is_perfs_up_to_its_metrics(words: list[str], perf: str) -> None:
    mine, theirs = both(words, perf)
    theirs = re.sub(r"\nMetric Groups:\n.*", "", theirs, flags=re.DOTALL)
    assert len(theirs) > 10_000
    assert mine == theirs


def test_the_names_for_completion_are_perfs_up_to_its_metrics(perf: str) -> None:
    mine, theirs = both(["--raw-dump"], perf)
    assert theirs.startswith(mine)
    assert mine.endswith(" ")


def test_output_goes_to_a_file(perf: str, tmp_path) -> None:
    path = tmp_path / "events.txt"
    assert ours(["-o", str(path), "sw"]) == ""
    assert path.read_text() == listing([perf], ["sw"])
