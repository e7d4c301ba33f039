"""Names of live samples, as perf and as we find them."""

from __future__ import annotations

import collections
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.versus_perf, pytest.mark.live]

#: spends its time in the interpreter, libc, the kernel, and (as a child) a shell
PROGRAM = """
import json, os, subprocess
for _ in range(30):
    json.loads(json.dumps([{"a": i} for i in range(3000)]))
    sorted(os.urandom(20000))
subprocess.run(["sh", "-c", "for i in 1 2 3 4 5 6 7 8; do ls / >/dev/null; done"])
"""


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("names") / "perf.data"
    command = ["perf", "record", "-q", "-F", "5000", "-g", "-o", str(path), "--", sys.executable, "-c", PROGRAM]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return path


def frames(*command: str) -> list[str]:
    done = subprocess.run([*command, "-F", "ip,sym,symoff,dso"], check=True, capture_output=True, timeout=120)
    return [line.strip() for line in done.stdout.decode(errors="surrogateescape").splitlines() if line.strip()]


def test_every_frame_has_the_name_that_perf_gives_it(recording: Path):
    theirs = frames("perf", "script", "-i", str(recording))
    ours = frames(sys.executable, "-m", "perfpy", "script", "-i", str(recording))
    assert len(theirs) == len(ours) > 100
    different = collections.Counter((a, b) for a, b in zip(theirs, ours, strict=True) if a != b and " _R" not in a)
    assert sum(different.values()) <= len(theirs) / 1000, different.most_common(5)


def test_no_more_frames_are_without_a_name_than_perfs(recording: Path):
    unknown = [
        sum("[unknown]" in line for line in frames(*command, "script", "-i", str(recording)))
        for command in (("perf",), (sys.executable, "-m", "perfpy"))
    ]
    assert unknown[1] <= unknown[0]


def test_build_ids_are_listed_alike(recording: Path):
    listed = [
        subprocess.run([*command, "buildid-list", "-i", str(recording)], check=True, capture_output=True, timeout=60).stdout
        for command in (("perf",), (sys.executable, "-m", "perfpy"))
    ]
    assert listed[0] == listed[1]
