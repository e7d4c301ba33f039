"""perfpy trace beside perf trace on one program: the same lines, but for numbers that differ from run to run."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.live, pytest.mark.kernel_too, pytest.mark.versus_perf]

PERFPY = [sys.executable, "-m", "perfpy"]
#: numbers of a run: times, tids, addresses and the file names that only perfpy knows
NUMBERS = (
    (re.compile(r"^ *[\d.]+ "), "TIME "),
    (re.compile(r"\( *[\d.]+ ms\)"), "(MS)"),
    (re.compile(r"(true/)?\d+ (?=\w+\(|m...fault| \.\.\.)"), r"\1TID "),
    (re.compile(r"= \d+ \(true\)"), "= TID (true)"),
    (re.compile(r"<[^>]*>"), ""),
    (re.compile(r"0x[0-9a-f]+"), "0xN"),
    (re.compile(r" +="), " ="),
    (re.compile(r"-1 \(unknown\)|-1 E\w+"), "-1 ERROR"),
)


def lines(command: list[str], words: str) -> list[str]:
    process = subprocess.run([*command, "trace", *words.split(), "--", "true"], capture_output=True, text=True, timeout=60, check=False)
    assert process.returncode == 0, process.stderr
    texts = process.stderr.splitlines()
    for pattern, replacement in NUMBERS:
        texts = [pattern.sub(replacement, text) for text in texts]
    return texts


@pytest.mark.parametrize("words", ["", "-T --no-comm", "-e openat,close", "--failure", "--call-graph fp --max-stack 1 -e brk"])
def test_lines_equal_perfs(words: str) -> None:
    """The calls of a program are printed in the same order, with the same arguments and results."""
    ours = lines(PERFPY, f"{words} --no-strings")
    assert ours
    assert ours == lines(["perf"], words)
