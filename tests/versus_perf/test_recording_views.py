"""Tests of the description of a recording against perf's: events, counts, tasks, mappings."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from perfpy.cli.output.header import MachineNames
from perfpy.recording import Recording
from perfpy.views.metadata import evlist_lines
from perfpy.views.record_counts import record_count_lines
from perfpy.views.task_tree import task_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.versus_perf

FILES = (
    "forkexec-a",
    "group-S-a",
    "lost-a",
    "mt-a",
    "namespaces-a",
    "pipe-a",
    "sched-a",
    "switch-a",
    "tail-a",
    "terms-a",
    "wide-a",
    "z-a",
)
VIEWS: dict[str, tuple[tuple[str, ...], Callable[[Recording], Iterator[str]]]] = {
    "evlist": (("evlist",), evlist_lines),
    "evlist -F": (("evlist", "-F"), lambda recording: evlist_lines(recording, frequency=True)),
    "evlist -g": (("evlist", "-g"), lambda recording: evlist_lines(recording, groups=True)),
    "evlist -v": (("evlist", "-v"), lambda recording: evlist_lines(recording, verbose=True, names=MachineNames(recording.data))),
    "--stats": (("report", "--stats", "--stdio"), record_count_lines),
    "--tasks": (("report", "--tasks", "--stdio"), task_lines),
    "--mmaps": (("report", "--mmaps", "--stdio"), lambda recording: task_lines(recording, mappings=True)),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", FILES)
def test_a_recording_is_described_as_perf_describes_it(name: str, view: str, corpus: Path, perf: str) -> None:
    path = corpus / "recorded" / f"{name}.data"
    arguments, lines = VIEWS[view]
    environment = {**os.environ, "LC_ALL": "C", "PERF_CONFIG": "/dev/null"}
    run = subprocess.run(
        [perf, *arguments, "-f", "-i", str(path)], capture_output=True, env=environment, stdin=subprocess.DEVNULL, check=True
    )
    with Recording(path) as recording:
        ours = "".join(f"{line}\n" for line in lines(recording)).encode("utf-8", "surrogateescape")
    assert ours == run.stdout
