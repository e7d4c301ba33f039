"""Groups and events get perf's names."""

from __future__ import annotations

import pytest

from perfpy.probing.grammar.points import parse_point
from perfpy.probing.naming import LONGEST, as_event, event_of, group_of, unused_name
from perfpy.probing.problems import ProbeError


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
