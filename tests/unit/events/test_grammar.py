"""The pure half of the event language: text to specs, and errors with their columns."""

from __future__ import annotations

import pytest

from perfpy.errors import EventSyntaxError
from perfpy.events.grammar import Breakpoint, EventSpec, GroupSpec, Numeric, TracepointName, Word, parse, parse_terms, raw_config


def only(text: str) -> EventSpec:
    (entry,) = parse(text).entries
    assert isinstance(entry, EventSpec)
    return entry


@pytest.mark.parametrize(
    ("text", "target", "modifiers"),
    [
        ("cycles", Word("cycles"), ""),
        ("cycles:u", Word("cycles"), "u"),
        ("cycles:kppH", Word("cycles"), "kppH"),
        ("cs:", Word("cs"), ""),
        ("sched:sched_switch", TracepointName("sched", "sched_switch", 6), ""),
        ("sched:sched_*:u", TracepointName("sched", "sched_*", 6), "u"),
        ("*:*", TracepointName("*", "*", 2), ""),
        ("xhci-hcd:xhci_dbg", TracepointName("xhci-hcd", "xhci_dbg", 9), ""),
        ("1:0x10:k", Numeric(1, 16), "k"),
        ("mem:0x1000", Breakpoint(0x1000, 0, ""), ""),
        ("mem:4096/8:rw:u", Breakpoint(0x1000, 8, "rw"), "u"),
        ("mem:0x1000:x", Breakpoint(0x1000, 0, "x"), ""),
        ("mem:0x1000:u", Breakpoint(0x1000, 0, ""), "u"),
        ("cpu/event=0x3c/u", Word("cpu"), "u"),
        ("cpu/event=0x3c/:u", Word("cpu"), "u"),
    ],
)
def test_a_target_and_its_modifiers_are_distinguished(text: str, target: object, modifiers: str) -> None:
    spec = only(text)
    assert spec.target == target
    assert spec.modifiers.text == modifiers


def test_terms_keep_numbers_words_and_quoted_strings_with_any_character() -> None:
    terms = only("""cpu/event=0x3c,umask=1,edge,name='a,b/c:d',call-graph=fp,path="x y"/""").terms
    assert terms is not None
    values = {term.name: term.value for term in terms}
    assert values == {"event": 0x3C, "umask": 1, "edge": None, "name": "a,b/c:d", "call-graph": "fp", "path": "x y"}


def test_lists_groups_names_blanks_and_newlines() -> None:
    entries = parse(" cycles ,\n {a, b:k}:S,\tfoo{c}\n").entries
    assert [type(entry) for entry in entries] == [EventSpec, GroupSpec, GroupSpec]
    group, named_group = entries[1], entries[2]
    assert isinstance(group, GroupSpec)
    assert isinstance(named_group, GroupSpec)
    assert [event.name for event in group.events] == ["a", "b:k"]
    assert (group.modifiers.text, named_group.name) == ("S", "foo")


def test_the_printed_name_is_the_text_without_the_blanks_around_it() -> None:
    assert [entry.name for entry in parse(" cs , cpu/event=1, umask=2/u").entries] == ["cs", "cpu/event=1, umask=2/u"]


def test_a_breakpoint_with_a_length_is_named_by_its_address_as_perf_does() -> None:
    assert only("mem:0x1000/8:x:u").name == "mem:0x1000"
    assert only("mem:0x1000:x").name == "mem:0x1000:x"


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("", 0, "an event name"),
        (",", 0, "an event name"),
        ("cs,", 3, "an event name"),
        ("cs,,faults", 3, "an event name"),
        ("cs faults", 3, "',' or the end"),
        ("cs:z", 3, "one of"),
        ("cs:uz", 4, "one of"),
        ("cs:uu", 4, ""),
        ("cs:pppp", 6, "p, pp or ppp"),
        ("cs:W", 3, ""),
        ("{cs", 3, "',' or '}'"),
        ("{cs,{faults}}", 4, "an event"),
        ("{cs}}", 4, "',' or the end"),
        ("{cs}:q", 5, "one of"),
        ("cpu/event=1", 11, "'/'"),
        ("cpu/=1/", 4, "a term"),
        ("cpu/event=/", 10, "a value for 'event'"),
        ("cpu/event=1,/", 12, "a term"),
        ("cpu/name='x/", 9, "a closing '"),
        ("cpu/name=a b/", 11, "',' or '/'"),
        ("cpu/config=0x1ffffffffffffffff/", 11, ""),
        ("1:z", 2, "a number"),
        ("1", 1, "':'"),
        ("99999999999:1", 0, ""),
        ("mem:", 4, "an address"),
        ("mem:0x10:rr", 9, "any of r, w and x"),
        ("cycles/", 7, "'/'"),
        ("a\0b", 1, ""),
    ],
)
def test_a_syntax_error_names_the_column_and_the_expected_text(text: str, column: int, expected: str) -> None:
    with pytest.raises(EventSyntaxError) as caught:
        parse(text)
    assert caught.value.column == column
    assert expected in caught.value.expected
    assert f"column {column + 1}" in str(caught.value)


def test_sysfs_events_are_terms_without_slashes() -> None:
    assert [(term.name, term.value) for term in parse_terms("domain=?,offset=0x80,core=?")] == [
        ("domain", "?"),
        ("offset", 0x80),
        ("core", "?"),
    ]
    with pytest.raises(EventSyntaxError):
        parse_terms("event=1/")


def test_raw_codes_are_hexadecimal_with_or_without_0x() -> None:
    assert (raw_config("r1a8"), raw_config("r0x1a8"), raw_config("read"), raw_config("rabbit")) == (0x1A8, 0x1A8, 0xEAD, None)
