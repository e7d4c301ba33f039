"""Tests that header, evlist and --stats of recordings made elsewhere equal what perf printed of them."""

from __future__ import annotations

import gzip
import os
import re
import time
from typing import TYPE_CHECKING, Any

import pytest

from perfpy.recording import Recording
from perfpy.views.header_text import FileNames, evlist_lines, header_lines
from perfpy.views.recording_summary import record_count_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: lines that depend on the run, not on the recording
RUN_DEPENDENT = re.compile(rb"\(Tip:|^# captured on|^# perf version|^# data (offset|size)|^#\s*$")
#: the PMUs of the machine where the answers were made
PMUS = {1: "software", 2: "tracepoint", 4: "cpu", 5: "breakpoint", 8: "uprobe", 9: "msr"}
#: name -> why perf's answer is not ours; * stands for any end
UNLIKE_PERF = {
    "header": {
        "autofdo-chromeos_perf.data.piped.host": "perf takes the features of an early pipe for other records and gives up",
        "autofdo_ro_sample.perf": "perf expects padded strings and gives up the CPUs' places",
        "quipper_perf.data.weight_struct": "perf expects padded strings and gives up the CPUs' places",
        "quipper_perf.data.armv7.perf_3.14-3.8": "perf stops at the first section it cannot read and prints (null)",
        "killed-a.data": "perf takes records for the table of features of a killed recording",
        "s390x-mono.data": "perf does not swap the clockid of a big-endian attr",
        "s390x-pipe*": "perf does not understand the features of a big-endian pipe",
    },
    "evlist": {
        "poc_*": "perf takes the ids behind a short attr of a pipe for fields of the attr",
        "quipper_perf.data.piped.*": "perf takes the ids behind a short attr of a pipe for fields of the attr",
        "s390x-mono.data": "perf does not swap the clockid of a big-endian attr",
    },
    "stats": {
        "autofdo-chromeos_perf.data.piped.host": "perf takes the features of an early pipe for other records and gives up",
    },
}


class AnsweringMachine(FileNames):
    """The names of the machine where perf ran: its PMUs; its tracepoints are those of its own recordings."""

    def pmu(self, type_number: int) -> str:
        return PMUS.get(type_number, "")


def header(recording: Recording) -> Iterator[str]:
    return header_lines(recording, full=True, names=AnsweringMachine(recording.data))


def evlist(recording: Recording) -> Iterator[str]:
    return evlist_lines(recording, verbose=True, names=AnsweringMachine(recording.data))


TEXTS: dict[str, Callable[[Recording], Iterator[str]]] = {"header": header, "evlist": evlist, "stats": record_count_lines}


def comparable(output: bytes) -> list[bytes]:
    lines = [line.rstrip() for line in output.splitlines() if not RUN_DEPENDENT.search(line)]
    # tracepoint ids are named by the machine that reads, in any case another one than the tests'
    return [re.sub(rb"(type[:=] 2 .*?config[:=] 0x[0-9a-f]+) \([^)]*\)", rb"\1", line.replace(b" = ", b"= ")) for line in lines]


def is_listed(name: str, listed: dict[str, str]) -> bool:
    return any(name == entry or (entry.endswith("*") and name.startswith(entry[:-1])) for entry in listed)


@pytest.fixture
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("kind", TEXTS)
def test_the_text_of_every_recording_is_perfs(kind: str, corpus: Path, in_utc: Any) -> None:
    compared, unlike = 0, []
    for answer in sorted(corpus.glob(f"*/*.{kind}.gz")):
        name = answer.name[: -len(kind) - 4]
        expected = comparable(gzip.decompress(answer.read_bytes()))
        if not any(expected) or is_listed(name, UNLIKE_PERF[kind]):
            continue
        with Recording(os.fspath(answer.parent / name)) as recording:
            got = comparable("\n".join(TEXTS[kind](recording)).encode("utf-8", "surrogateescape"))
        compared += 1
        if got != expected:
            unlike.append(name)
    assert compared >= 200
    assert not unlike
