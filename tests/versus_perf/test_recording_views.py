"""Tests of what describes a recording against perf's: events, tasks, mappings, build-ids and JSON."""

from __future__ import annotations

import json
import lzma
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from perfpy.cli import run
from perfpy.cli.output.header import MachineNames
from perfpy.recording import Recording
from perfpy.views.header_text import evlist_lines
from perfpy.views.recording_summary import record_count_lines, task_lines
from tests.builders.own_corpus import RECORDINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


# Tests of the description of a recording against perf's: events, counts, tasks, mappings.


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


# Tests of buildid-cache and buildid-list against perf's, on one cache.


PERF, PERFPY = ("perf",), (sys.executable, "-m", "perfpy")
PROGRAMS = [os.path.realpath(found) for name in ("ls", "sleep", "cat") if (found := shutil.which(name))]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a home folder, in which caches are."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def listed(tool: tuple[str, ...]) -> list[str]:
    return sorted(output(*tool, "buildid-cache", "-l").splitlines())


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("writer", [PERF, PERFPY], ids=["perf", "perfpy"])
@pytest.mark.parametrize("remover", [PERF, PERFPY], ids=["perf", "perfpy"])
def test_files_added_by_one_are_listed_and_removed_by_the_other(writer: tuple[str, ...], remover: tuple[str, ...]):
    output(*writer, "buildid-cache", "-a", ",".join(PROGRAMS))
    assert listed(PERF) == listed(PERFPY)
    assert len(listed(PERFPY)) == len(PROGRAMS)
    output(*remover, "buildid-cache", "-r", PROGRAMS[0])
    assert listed(PERF) == listed(PERFPY)
    assert len(listed(PERFPY)) == len(PROGRAMS) - 1
    output(*remover, "buildid-cache", "-P")
    assert listed(PERF) == listed(PERFPY) == []


def test_a_file_that_changed_is_listed_by_neither(home: Path):
    program = str(home / "program")
    shutil.copy(PROGRAMS[0], program)
    output(*PERFPY, "buildid-cache", "-a", program)
    assert listed(PERF) == listed(PERFPY) != []
    os.unlink(program)
    shutil.copy(PROGRAMS[1], program)
    assert listed(PERF) == listed(PERFPY) == []


@pytest.mark.parametrize("options", [["-k"], ["-i", PROGRAMS[0]]])
def test_build_ids_of_files_and_of_the_kernel_are_the_same(options: list[str]):
    assert output(*PERFPY, "buildid-list", *options) == output(*PERF, "buildid-list", *options)


IN_MEMORY = """
import os, subprocess
for _ in range(2):
    fd = os.memfd_create("in memory", 0)
    os.write(fd, open("/usr/bin/gzip", "rb").read())
    command = ["gzip", "-c", "/usr/bin/perf"]
    subprocess.run(command, executable=f"/proc/self/fd/{fd}", pass_fds=[fd], stdout=subprocess.DEVNULL)
"""


@pytest.mark.live
@pytest.mark.usefixtures("home")
def test_two_programs_of_one_name_in_memory_are_listed_twice(tmp_path: Path):
    path = str(tmp_path / "perf.data")
    output("perf", "record", "-q", "-B", "-F", "1000", "-o", path, "--", sys.executable, "-c", IN_MEMORY)
    lists = [output(*tool, "buildid-list", "-i", path) for tool in (PERF, PERFPY)]
    assert lists[0].count("/memfd:in memory (deleted)") == 2
    assert lists[0] == lists[1]


@pytest.mark.live
@pytest.mark.usefixtures("home")
def test_a_recording_keeps_the_same_files_and_the_places_of_its_symbols(tmp_path: Path):
    listings = []
    for tool in (PERF, PERFPY):
        path = str(tmp_path / f"{tool[-1]}.data")
        output(*tool, "record", "-q", "-F", "5000", "-o", path, "--", sys.executable, "-c", "sorted(range(10**6))")
        listings.append(listed(tool))
        texts = [output(*reader, "report", "-v", "--stdio", "-i", path) for reader in (PERF, PERFPY)]
        rows = [[line for line in text.splitlines() if "%" in line and line[:1] != "#"] for text in texts]
        assert rows[0] == rows[1]
        output(*tool, "buildid-cache", "-P")
    assert set(listings[0]) & set(listings[1])


@pytest.mark.live
@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("option", ["-b", "--buildid-all", "-B", "--mmap2-buildid-all"])
def test_perf_reads_both_outputs_of_inject_alike(tmp_path: Path, option: str):
    recorded = str(tmp_path / "perf.data")
    output("perf", "record", "-q", "-B", "-F", "5000", "-o", recorded, "--", sys.executable, "-c", "sorted(range(10**6))")
    texts = []
    for tool in (PERF, PERFPY):
        path = str(tmp_path / f"{tool[-1]}.injected")
        output(*tool, "inject", option, "-i", recorded, "-o", path)
        lines = output("perf", "script", "-F", "time,ip,sym,dso", "-i", path).splitlines()
        # where perf writes build-ids into MMAP2 records, it calls the vdso by a temporary file of its own: /tmp/perf-vdso.so-XXXXXX
        texts.append([line for line in lines if "vdso" not in line])
    assert texts[0] == texts[1]


@pytest.mark.live
@pytest.mark.usefixtures("home")
def test_a_rebuilt_table_and_its_files_missing_from_the_cache_are_the_same(tmp_path: Path):
    """perf's own table has the vdso even without samples; so has the new one."""
    recorded = str(tmp_path / "perf.data")
    output("perf", "record", "-q", "-F", "5000", "-o", recorded, "--", sys.executable, "-c", "sorted(range(10**6))")
    output("perf", "buildid-cache", "-P")
    lacking = [output(*tool, "buildid-cache", "-M", recorded) for tool in (PERF, PERFPY)]
    assert lacking[0] == lacking[1]
    assert "[vdso]" in lacking[1]
    tables = []
    for tool in (PERF, PERFPY):
        path = str(tmp_path / f"{tool[-1]}.injected")
        output(*tool, "inject", "-b", "-i", recorded, "-o", path)
        tables.append(output("perf", "buildid-list", "-i", path))
    assert tables[0] == tables[1]


# Tests that `data convert --to-json` writes what perf writes, for recordings of several machines.


CONVERTED_FILES = (
    *("chains", "wide", "sched", "syscalls", "group-leader", "clock-monotonic", "tracepoint-dynamic", "weight"),
    *("arm64-chains-clock", "s390x-sched"),
)


def _convert(perf: str, source: Path, target: Path) -> str:
    environment = {**os.environ, "PERF_CONFIG": "/dev/null", "TZ": "UTC", "HOME": str(source.parent)}
    line = [perf, "data", "convert", "--to-json", str(target), "-i", str(source)]
    return subprocess.run(line, capture_output=True, env=environment, stdin=subprocess.DEVNULL, check=True, text=True).stderr


@pytest.mark.parametrize("name", CONVERTED_FILES)
def test_the_json_is_perfs(
    name: str, perf: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, theirs, ours = (tmp_path / part for part in ("a.data", "theirs.json", "ours.json"))
    source.write_bytes(lzma.decompress((RECORDINGS / f"{name}.data.xz").read_bytes()))
    errors = _convert(perf, source, theirs)
    for variable in ("HOME", "XDG_CACHE_HOME", "PERF_BUILDID_DIR"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.setenv("PERF_CONFIG", "/dev/null")
    assert run(["data", "convert", "--to-json", str(ours), "-i", str(source)]) == 0
    assert ours.read_text() == theirs.read_text()
    assert json.loads(ours.read_text())["samples"]
    assert capsys.readouterr().err.splitlines() == errors.replace("theirs", "ours").splitlines()[-2:]
