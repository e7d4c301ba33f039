"""System calls as text, beside perf's text of the same calls (calls.tsv, made by perf 7.3 from a synthetic recording)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.tools.trace.call_text import CallTexts
from perfpy.tools.trace.calls import ENTER, EXIT, FollowedComms, Pairing
from perfpy.tools.trace.descriptors import Descriptors, DescriptorTable, OpenFile
from tests.builders.call_events import CallEventList

if TYPE_CHECKING:
    from collections.abc import Mapping

CASES = [line.split("\t") for line in (Path(__file__).parent / "calls.tsv").read_text().splitlines()[1:]]


def texts_of(
    *calls: tuple[int, tuple[int, ...], int],
    machine: str = "x86_64",
    strings: Mapping[int, Mapping[int, str]] | None = None,
    is_recorded: bool = True,
) -> tuple[list[str], list[str]]:
    """Return the texts of calls of the thread 500 (prog), and those of their results."""
    names, events, texts = FollowedComms(), CallEventList(), CallTexts(machine, is_recorded=is_recorded)
    names.name(500, "prog")
    for number, arguments, result in calls:
        events.call(500, number, *arguments, result=result)
    paired = Pairing(np.zeros(0, np.int64)).pair(events.events())
    texts.strings = strings or {}
    entries, exits = (np.flatnonzero(paired.events.kind == kind) for kind in (ENTER, EXIT))
    return texts.texts(paired.events, entries, names), texts.results(paired, exits, names)


def test_all_calls_are_perfs_text():
    calls = [(int(number), tuple(int(word, 16) for word in arguments.split(",")), 0) for number, arguments, _ in CASES]

    texts, _ = texts_of(*calls)

    assert texts == [text for _, _, text in CASES]


@pytest.mark.parametrize(
    ("is_recorded", "texts", "results"),
    [
        (False, ["fcntl(fd: 3, cmd: SETFD, arg: CLOEXEC)", "fcntl(fd: 3, cmd: GETFD)"], ["0", "CLOEXEC"]),
        (True, ["fcntl(fd: 3, cmd: SETFD, arg: 0)", "fcntl(fd: 3, cmd: GETFD)"], ["0", "0"]),
    ],
)
def test_only_recordings_have_perfs_wrong_text_of_the_descriptor_flag(is_recorded, texts, results):
    calls = ((72, (3, 2, 1), 0), (72, (3, 1), 1))

    assert texts_of(*calls, is_recorded=is_recorded) == (texts, results)


@pytest.mark.parametrize(
    ("number", "arguments", "text"),
    [
        (20, (5, 0x10, 1), "writev(fd: 5</file>, vec: 0x10, vlen: 1)"),
        (32, (5,), "dup(fildes: 5</file>)"),
        (9, (0, 4096, 1, 2, 5, 0), "mmap(len: 4096, prot: READ, flags: PRIVATE, fd: 5</file>)"),
        (275, (5, 0, 6, 0, 1, 0), "splice(fd_in: 5</file>, fd_out: 6, len: 1)"),
        (20, (1 << 32, 0x10, 1), "writev(fd: 4294967296, vec: 0x10, vlen: 1)"),
    ],
)
def test_descriptors_that_tracepoints_declare_as_long_have_names(number, arguments, text):
    names, events, texts = FollowedComms(), CallEventList().call(500, number, *arguments).events(), CallTexts("x86_64")
    followed = Descriptors("x86_64")
    followed.add_process(500, DescriptorTable({5: OpenFile("/file")}))
    texts.descriptors = followed.names_at(events)

    assert texts.texts(events, np.array([0]), names) == [text]


@pytest.mark.parametrize(
    ("number", "arguments", "result", "text"),
    [
        (0, (), 139638264181572, "139638264181572"),
        (0, (), -2, "-1 ENOENT (No such file or directory)"),
        (0, (), -4096, "-4096"),
        (9, (), 0x7F0011223344, "0x7f0011223344"),
        (12, (), 0, "0"),
        (7, (), 0, "0 (Timeout)"),
        (61, (), 500, "500 (prog)"),
        (61, (), 7, "7"),
        (110, (), 2**31, "2147483648"),
        (72, (3, 3), 0x8002, "RDWR|LARGEFILE"),
        (72, (3, 1025), 1, "WRLCK"),
    ],
)
def test_results(number, arguments, result, text):
    assert texts_of((number, arguments, result))[1] == [text]


def test_a_known_string_stands_for_its_address():
    (text,), _ = texts_of((257, (0xFFFFFF9C, 0x1000), 3), strings={0: {1: "/etc/passwd"}})

    assert text == 'openat(dfd: CWD, filename: "/etc/passwd")'


def test_a_string_cannot_break_its_line():
    (text,), _ = texts_of((257, (0xFFFFFF9C, 0x1000), 3), strings={0: {1: "a\nb\x1b[2J"}})

    assert "\n" not in text


def test_an_unknown_call_has_its_number_and_six_arguments():
    (text,), _ = texts_of((5000, (1, 0, 3), 0))

    assert text == "syscall_5000(arg0: 1, arg2: 3)"


def test_open_flags_have_the_values_of_the_machine():
    (arm,), _ = texts_of((56, (0xFFFFFF9C, 0x1000, 0x4000), 3), machine="aarch64")
    (x86,), _ = texts_of((257, (0xFFFFFF9C, 0x1000, 0x4000), 3))

    assert "RDONLY|DIRECTORY" in arm
    assert "RDONLY|DIRECT)" in x86
