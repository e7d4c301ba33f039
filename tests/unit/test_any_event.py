"""What holds for every string and every event, by random search within bounds."""

from __future__ import annotations

import contextlib
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from perfpy.errors import EventSyntaxError, UnknownEventError
from perfpy.events import parse_events
from perfpy.events.event import TOOL, cache_configs, cache_event_name, generic_names
from perfpy.events.fallback import attr_name, event_text
from perfpy.events.grammar import parse
from tests.builders.sysfs_tree import intel_skylake

if TYPE_CHECKING:
    from perfpy.events.machine import Machine

_PIECES = st.sampled_from(
    [
        *"=/:,{}'*uk \n?-\"[\\@é0",
        "cycles",
        "cpu",
        "msr",
        "sched",
        "mem",
        "r1a",
        "0x10",
        "name",
        "period",
        "event",
        "pp",
        "sched_switch",
        "tsc",
    ]
)
_STRINGS = st.one_of(st.text(max_size=40), st.lists(_PIECES, max_size=14).map("".join))


@cache
def machine() -> Machine:
    return intel_skylake(Path(mkdtemp())).machine()


@settings(max_examples=400, deadline=None)
@given(_STRINGS)
def test_no_string_makes_the_grammar_raise_anything_but_a_syntax_error(text: str) -> None:
    error: EventSyntaxError | None = None
    try:
        parse(text)
    except EventSyntaxError as caught:
        error = caught
    assert error is None or (0 <= error.column <= len(text) and error.text == text)


@settings(max_examples=200, deadline=None)
@given(_STRINGS)
def test_no_string_makes_the_resolver_raise_anything_but_the_two_errors_of_events(text: str) -> None:
    with contextlib.suppress(EventSyntaxError, UnknownEventError):
        for event in parse_events(text, machine=machine()):
            assert event.name
            assert event.leader is not None


_GENERIC = st.sampled_from([*generic_names(), *(cache_event_name(config) for config in cache_configs())])
_LETTERS = st.lists(st.sampled_from("ukhGHpPIDeS"), unique=True, max_size=5).map("".join)
_PMU = st.sampled_from(["cpu/cycles/", "cpu/mem-loads,ldlat=9/", "power/energy-pkg/", "msr/tsc/", "imc_1/event=7/"])
_TRACEPOINT = st.sampled_from(["sched:sched_switch", "syscalls:sys_enter_openat"])
_TERMS = st.sampled_from(["", "period=5", "freq=99,call-graph=dwarf,stack-size=64", "no-inherit,time=0", "branch_type=any:u,nr=2"])
_RAW = st.integers(0, 2**64 - 1).map(lambda config: f"r{config:x}")
_BREAKPOINT = st.builds(
    lambda address, length, access: f"mem:{address:#x}/{length}:{access}",
    st.integers(0, 2**64 - 1),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from(["r", "w", "rw", "x"]),
)
_NUMBERS = st.builds(lambda kind, config: f"{kind}:{config:#x}", st.integers(6, 2**32 - 1), st.integers(0, 2**64 - 1))


@settings(max_examples=300, deadline=None)
@given(st.one_of(_GENERIC, _RAW, _BREAKPOINT, _NUMBERS, _PMU, _TRACEPOINT), _TERMS, _LETTERS)
def test_every_event_prints_back_to_a_text_that_means_the_same(name: str, terms: str, letters: str) -> None:
    if name in TOOL:
        terms = ""
    if name.endswith("/"):
        text = f"{name[:-1]},{terms}/{letters}" if terms else name + letters
    else:
        text = name + (f"/{terms}/" if terms else "") + (f":{letters}" if letters else "")
    (event,) = parse_events(text, machine=machine())
    printed = event_text(event)
    (again,) = parse_events(printed, machine=machine())
    assert again.attr == event.attr, printed
    assert again.terms == event.terms, printed


@settings(max_examples=100, deadline=None)
@given(_GENERIC, st.sampled_from(["", "u", "k", "uk", "p", "kpp"]))
def test_the_short_name_of_a_generic_event_names_the_same_event(name: str, letters: str) -> None:
    (event,) = parse_events(f"{name}:{letters}", machine=machine())
    (again,) = parse_events(attr_name(event.attr), machine=machine())
    assert (again.attr.type, again.attr.config, again.attr.precise_ip) == (event.attr.type, event.attr.config, event.attr.precise_ip)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 255), st.integers(0, 255), st.integers(0, 255), st.booleans(), st.integers(0, 2**64 - 1))
def test_the_terms_of_a_pmu_land_in_their_bits_and_nowhere_else(event: int, umask: int, cmask: int, inv: bool, offcore: int) -> None:
    text = f"cpu/event={event:#x},umask={umask},cmask={cmask:#x},offcore_rsp={offcore:#x}{',inv' if inv else ''}/"
    (result,) = parse_events(text, machine=machine())
    assert result.attr.config == event | umask << 8 | cmask << 24 | inv << 23
    assert result.attr.config1 == offcore
    (again,) = parse_events(f"cpu/config={result.attr.config:#x},config1={result.attr.config1:#x}/", machine=machine())
    assert again.attr == result.attr


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["cs", "faults", "cycles", "msr/tsc/", "power/energy-pkg/", "sched:sched_switch"]), min_size=1, max_size=6))
def test_regrouping_keeps_every_event_once_and_leaders_lead(names: list[str]) -> None:
    events = parse_events("{" + ",".join(names) + "}", machine=machine())
    assert sorted(event.name for event in events) == sorted(names)
    for event in events:
        assert event.leader.is_leader
        assert events.index(event.leader) <= events.index(event)
