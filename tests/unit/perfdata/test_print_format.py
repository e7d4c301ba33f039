"""Tracepoint formats: fields, and print formats grouped by the rules of perf's library."""

from __future__ import annotations

import pytest

from perfpy.perfdata.event_format import EventFormat, parse_format
from perfpy.perfdata.print_format import (
    Atom,
    Cast,
    Conditional,
    DynamicText,
    FieldValue,
    Flags,
    Operation,
    PrintFormatError,
    number,
    parse_print_fmt,
)

HEAD = """name: example
ID: 77
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

"""
FIELDS = """\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:unsigned long addr;\toffset:32;\tsize:8;\tsigned:0;
\tfield:__data_loc char[] name;\toffset:40;\tsize:4;\tsigned:0;
\tfield:const char * reason;\toffset:48;\tsize:8;\tsigned:0;
\tfield:u32 words[TASK_LEN];\toffset:56;\tsize:8;\tsigned:0;

"""


def event(print_fmt: str = '"x"') -> EventFormat:
    return parse_format(f"{HEAD}{FIELDS}print fmt: {print_fmt}\n", "sys")


def argument(expression: str) -> object:
    (tree,) = parse_print_fmt(event(f'"%d", {expression}')).arguments
    return tree


def test_a_format_gives_common_and_own_fields() -> None:
    parsed = event()
    assert (parsed.system, parsed.name, parsed.id) == ("sys", "example", 77)
    assert [field.name for field in parsed.common_fields] == ["common_type", "common_pid"]
    assert [field.name for field in parsed.fields] == ["comm", "pid", "addr", "name", "reason", "words"]


def test_fields_have_kinds_and_sizes() -> None:
    fields = {field.name: field for field in event().fields}
    assert fields["comm"].is_array
    assert fields["comm"].is_string
    assert (fields["comm"].length, fields["comm"].element_size) == (16, 1)
    assert fields["pid"].is_signed
    assert not fields["pid"].is_array
    assert fields["addr"].is_long
    assert not fields["addr"].is_signed
    assert fields["name"].is_dynamic
    assert fields["name"].is_string
    assert not fields["name"].is_relative
    assert fields["reason"].is_pointer
    assert fields["words"].is_array
    assert fields["words"].length == 0


def test_a_format_without_id_is_an_error() -> None:
    with pytest.raises(ValueError, match="without name or ID"):
        parse_format("name: x\nformat:\n", "sys")


def test_operators_of_equal_priority_group_from_the_right() -> None:
    tree = argument("REC->pid - 1 - 2")
    assert isinstance(tree, Operation)
    assert tree.operator == "-"
    # constants are folded only if both sides are numbers
    assert tree.right == Operation("-", Atom("1"), Atom("2"), 7) or tree.right == Atom("-1")


def test_a_parenthesised_right_side_is_torn_apart() -> None:
    tree = argument("REC->pid * (REC->addr + 2)")
    assert isinstance(tree, Operation)
    assert tree.operator == "+"
    assert isinstance(tree.left, Operation)
    assert tree.left.operator == "*"


def test_comparisons_bind_tighter_than_and() -> None:
    tree = argument("REC->pid == 1 && REC->addr")
    assert isinstance(tree, Operation)
    assert tree.operator == "&&"


def test_casts_conditions_and_records_in_parentheses() -> None:
    assert isinstance(argument("(unsigned long)REC->pid"), Cast)
    assert isinstance(argument("(REC)->pid"), FieldValue)
    tree = argument('REC->pid ? "yes" : "no"')
    assert isinstance(tree, Conditional)
    assert (tree.yes, tree.no) == (Atom("yes"), Atom("no"))


def test_flags_keep_their_names_and_evaluate_their_masks() -> None:
    tree = argument('__print_flags(REC->pid, "|", { 1 << 2, "A" }, { 0x10, "B" })')
    assert isinstance(tree, Flags)
    assert tree.names == (("4", "A"), ("0x10", "B"))
    assert tree.delimiter == "|"


def test_strings_join_and_dynamic_strings_have_their_field() -> None:
    parsed = parse_print_fmt(event('"a" "b %s", __get_str(name)'))
    assert parsed.literal == "ab %s"
    (tree,) = parsed.arguments
    assert isinstance(tree, DynamicText)
    assert tree.field is not None
    assert tree.field.name == "name"


@pytest.mark.parametrize(
    "print_fmt",
    [
        '"%s", unknown_function(REC->pid)',
        '"%s", ({ int x = 1; x; })',
        '"tab\there %d", REC->pid',
        '"%s", __get_dynamic_array(nothing)',
        '"%d", __get_dynamic_array(name)[0]',
        "REC->pid",
    ],
)
def test_formats_that_perfs_library_cannot_parse_are_errors(print_fmt: str) -> None:
    with pytest.raises(PrintFormatError):
        parse_print_fmt(event(print_fmt))


@pytest.mark.parametrize(("text", "value"), [("0x10UL", 16), ("017", 15), ("-3", -3), ("12abc", 12), ("name", 0), ("0", 0)])
def test_numbers_are_read_as_c_reads_them(text: str, value: int) -> None:
    assert number(text) == value


def test_sizeof_of_types_and_fields() -> None:
    assert argument("sizeof(unsigned long)") == Atom("8")
    assert argument("sizeof(REC->pid)") == Atom("4")
    assert parse_print_fmt(event('"%d", sizeof(long)'), 4).arguments == (Atom("4"),)
