"""Definitions are written as the kernel takes them, and read as it shows them."""

from __future__ import annotations

import pytest

from perfpy.probing.definitions import LONGEST, Definition, as_event, event_of, group_of, parse_shown, unused_name
from perfpy.probing.grammar import parse_point
from perfpy.probing.problems import ProbeError


def test_a_definition_is_one_line() -> None:
    assert Definition(False, "probe_shop", "cost", "/a/shop:0x114f", ("n=%si:s32",)).text == "p:probe_shop/cost /a/shop:0x114f n=%si:s32"
    assert Definition(True, "g", "e", "/a:0x1").text == "r:g/e /a:0x1"


@pytest.mark.parametrize(
    "definition",
    [
        Definition(False, "probe_bash", "cost", "/home/evil/x:0x1139\np:hijacked/bash /bin/bash:0x30000 #:0x1139"),
        Definition(False, "g", "e", "/a b:0x1"),
        Definition(False, "g", "e", "/a\xa0b:0x1"),
        Definition(False, "g", "e", "/\N{LATIN SMALL LETTER A WITH GRAVE}:0x1"),  # its last byte is a space for the kernel
        Definition(False, "g", "e", "/a#b:0x1"),
        Definition(False, "g", "e", "/a:0x1", ("n\n-:g/other=%si:s32",)),
        Definition(False, "g\t", "e", "/a:0x1"),
    ],
)
def test_names_that_the_kernel_would_take_apart_are_refused(definition: Definition) -> None:
    """Programs and the names of their variables belong to others: a line feed would begin a probe of their choice."""
    with pytest.raises(ProbeError, match="the kernel's probes cannot have spaces"):
        _ = definition.text


def test_the_kernels_line_is_parsed() -> None:
    probe = parse_shown("r:g/e /a b/c:d:0x000000000000114f(0x4010) arg1=$retval n=+0(+8(%di)):string", is_kernel=False)
    assert probe is not None
    assert (probe.is_return, probe.group, probe.event, probe.path, probe.offset) == (True, "g", "e", "/a b/c:d", 0x114F)
    assert probe.arguments == ("arg1", "n")


def test_a_kernel_probe_has_a_symbol() -> None:
    probe = parse_shown("r16:probe/vfs_read__return vfs_read+0 arg1=$retval", is_kernel=True)
    assert probe is not None
    assert (probe.symbol, probe.is_return, probe.path) == ("vfs_read+0", True, "")


def test_other_lines_are_none() -> None:
    assert parse_shown("", is_kernel=False) is None
    assert parse_shown("e:x/y sched/sched_switch", is_kernel=False) is None


# Groups and events get perf's names.


@pytest.mark.parametrize(
    ("path", "group"),
    [("/a/shop", "probe_shop"), ("/a/shop-stripped", "probe_shop"), ("/l/libc.so.6", "probe_libc"), ("/p/python3.11", "probe_python3")],
)
def test_the_group_is_the_programs_name_up_to_a_sign(path: str, group: str) -> None:
    assert group_of(path) == group


def test_lines_and_clones_have_their_own_names() -> None:
    assert event_of("cost", parse_point("cost:2")) == "cost_L2"
    assert event_of("cost", parse_point("cost:0")) == "cost"
    assert event_of("cost", parse_point("shop.c:13")) == "cost"
    assert event_of("main.cold", parse_point("main.cold")) == "main"


@pytest.mark.parametrize(
    "name", ["shop::Item::~Item()", "operator<<", "a b", "\x1b[31m", "9x", "", "::", "{closure#0}", "é", "x" * 300, "..", "@"]
)
def test_every_name_becomes_one_that_the_kernel_takes(name: str) -> None:
    event = as_event(name)
    assert event.isascii()
    assert event.isidentifier()
    assert len(event) <= LONGEST


def test_an_existing_name_is_refused_or_numbered() -> None:
    assert unused_name("cost", "g", set(), may_number=False) == "cost"
    assert unused_name("cost", "g", {"cost", "cost_1"}, may_number=True) == "cost_2"
    with pytest.raises(ProbeError) as caught:
        unused_name("cost", "g", {"cost"}, may_number=False)
    assert caught.value.exit_code == 239
