"""-e of perfpy trace: calls, patterns, groups and other events."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from perfpy.errors import OutputFailedError, UsageError
from perfpy.tools.trace.options import TraceOutput, parse_selection, split_list

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_no_list_selects_all_calls():
    selection = parse_selection([], "x86_64")

    assert (selection.numbers("x86_64"), selection.events, selection.has_calls) == (None, (), True)


def test_names_and_patterns_select_calls():
    assert parse_selection(["openat,epoll_c*"], "x86_64").calls == frozenset(
        {"openat", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_ctl_old"}
    )


def test_numbers_depend_on_the_machine():
    assert parse_selection(["openat"], "aarch64").numbers("aarch64") == frozenset({56})


def test_a_list_with_an_exclamation_mark_excludes_calls():
    numbers = parse_selection(["!read,write"], "x86_64").numbers("x86_64")

    assert numbers is not None
    assert {0, 1} & numbers == set()
    assert 257 in numbers


def test_a_group_is_a_list_of_calls():
    assert {"connect", "socket"} < (parse_selection(["network"], "x86_64").calls or set())


def test_other_words_are_events():
    selection = parse_selection(["sched:sched_switch", "cpu/event=1,umask=2/"], "x86_64")

    assert selection.events == ("sched:sched_switch", "cpu/event=1,umask=2/")
    assert not selection.has_calls


def test_a_tracepoint_of_a_call_is_the_call():
    assert parse_selection(["syscalls:sys_enter_openat"], "x86_64").calls == frozenset({"openat"})


@pytest.mark.parametrize("texts", [["read", "!write"], ["!nonesuch"]])
def test_contradictions_are_refused(texts):
    with pytest.raises(UsageError):
        parse_selection(texts, "x86_64")


def test_commas_between_braces_and_slashes_do_not_split():
    assert split_list("a,{b,c},d/e,f/") == ["a", "{b,c}", "d/e,f/"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("write,./app:parse n,uprobe:app:f%return $retval,close", ["write", "./app:parse n", "uprobe:app:f%return $retval", "close"]),
        ("/usr/bin/app:parse,write", ["/usr/bin/app:parse", "write"]),
        ("./app:parse(int, char),write", ["./app:parse(int, char)", "write"]),
        ("./app:parse;call(a, b),c", ["./app:parse;call(a, b),c"]),
    ],
)
def test_probes_are_words_of_a_list(text, words):
    assert split_list(text) == words


def test_a_probe_is_an_event_and_no_call():
    selection = parse_selection(["./app:read,read"], "x86_64")

    assert (selection.calls, selection.events) == (frozenset({"read"}), ("./app:read",))


# Lines of perfpy trace are one line each, wherever they go.


FORGED = "     0.001 ( 0.001 ms): a\n     0.002 ( 0.001 ms): sshd/1 read(fd: 3<x\ry>)"


def test_names_with_line_breaks_make_no_lines(tmp_path: Path) -> None:
    """A thread or a file can be called as a line of another program."""
    with TraceOutput(str(tmp_path / "out")) as output:
        output.write([FORGED, "second"])
        output.write([])
    assert (tmp_path / "out").read_bytes().decode().splitlines() == [FORGED.replace("\n", "^J").replace("\r", "^M"), "second"]


@pytest.mark.parametrize("write", [lambda output: output.write(["line"]), lambda output: output.write_lines(SimpleNamespace(parts=[b"x"]))])
def test_a_full_disk_is_reported_with_the_files_name(write: Callable[[TraceOutput], None], tmp_path: Path) -> None:
    """It is not standard output that could not be written."""
    (tmp_path / "out").symlink_to("/dev/full")
    with pytest.raises(OutputFailedError) as caught, TraceOutput(str(tmp_path / "out")) as output:
        write(output)
    assert str(caught.value) == f"cannot write {tmp_path}/out: No space left on device"
