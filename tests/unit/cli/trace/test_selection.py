"""-e of perfpy trace: calls, patterns, groups and other events."""

from __future__ import annotations

import pytest

from perfpy.cli.trace.selection import parse_selection, split_list
from perfpy.errors import UsageError


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
