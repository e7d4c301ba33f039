"""Probes: their grammar, the places in a program, its variables, and definitions for the kernel."""

from __future__ import annotations

import contextlib
import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfpy.debuginfo import dwarf
from perfpy.debuginfo.units import Attribute
from perfpy.errors import PerfError, UsageError
from perfpy.probing.definitions import LONGEST, Definition, as_event, event_of, group_of, parse_shown, unused_name
from perfpy.probing.grammar import (
    ArgumentField,
    LineRange,
    glob_test,
    is_glob,
    parse_argument,
    parse_filter,
    parse_line_range,
    parse_point,
    parse_request,
    shown_name,
)
from perfpy.probing.problems import ProbeError
from perfpy.probing.program import Program, open_program
from perfpy.probing.requests import plan
from perfpy.probing.sites import Resolver, plan_kernel, site_text
from perfpy.probing.variables import Base, Location, LocationReader
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.files.elf import DAMAGE, BadElfError, ElfFile
from perfpy.tools.probe.actions import list_lines, list_variables
from tests.builders.call_frames import uleb
from tests.builders.probed import compiled

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.debuginfo.dies import CodeDie


# Definitions are written as the kernel takes them, and read as it shows them.


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


# Points are parsed as perf-probe(1) describes them.


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("cost", {"function": "cost"}),
        ("cost+4", {"function": "cost", "offset": 4}),
        ("cost+0x10", {"function": "cost", "offset": 16}),
        ("cost%return", {"function": "cost", "is_return": True}),
        ("cost:2", {"function": "cost", "line": 2}),
        ("cost:-1", {"function": "cost", "line": -1}),
        ("cost@a/shop.c", {"function": "cost", "source": "a/shop.c"}),
        ("cost@shop.c:2", {"function": "cost", "source": "shop.c", "line": 2}),
        ("cost:2@shop.c", {"function": "cost", "source": "shop.c", "line": 2}),
        ("cost@shop.c%return", {"function": "cost", "source": "shop.c", "is_return": True}),
        ("shop.c:13", {"source": "shop.c", "line": 13}),
        ("shop.c;sum*=+;", {"source": "shop.c", "pattern": "sum*=+;"}),
        ("cost;a=b", {"function": "cost", "pattern": "a=b"}),
        ("main.cold", {"function": "main.cold"}),
        (r"malloc\@GLIBC_2.2.5", {"function": "malloc@GLIBC_2.2.5"}),
        (r"foo\+bar.c:4", {"source": "foo+bar.c", "line": 4}),
        ("shop::Item::cost", {"function": "shop::Item::cost"}),
        ("shop::Item::cost:3", {"function": "shop::Item::cost", "line": 3}),
        ("shop::over(long)", {"function": "shop::over(long)"}),
        ("0x11d4", {"address": 0x11D4}),
        ("%sdt_app:begin", {"marker": ("app", "begin")}),
        ("%begin", {"marker": ("", "begin")}),
        ("sdt_app:begin", {"marker": ("app", "begin")}),
    ],
)
def test_a_point_has_these_fields(text: str, fields: dict[str, object]) -> None:
    point = parse_point(text)
    defaults = parse_point("x")._replace(function="", text=text)
    assert point == defaults._replace(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    ["", "cost%return+3", "cost+3%return", "cost:1+2", "cost%foo", "cost+x", "cost:x", "shop.c", "cost:1:2", "%sdt_a:b-c", "@a.c", "+4"],
)
def test_a_wrong_point_is_a_usage_error(text: str) -> None:
    if text == "shop.c":
        assert parse_point(text).function == "shop.c"  # without a line it may be a function's clone
        return
    with pytest.raises(UsageError):
        parse_point(text)


def test_a_request_has_a_group_an_event_and_arguments() -> None:
    request = parse_request("mine:here=cost:2 count  it->price")
    assert (request.group, request.event, request.point.function, request.point.line) == ("mine", "here", "cost", 2)
    assert request.arguments == ("count", "it->price")
    assert parse_request("here=cost").event == "here"
    assert parse_request("f(int, long) x").arguments == ("x",)


@pytest.mark.parametrize("text", ["", "  ", "9a=cost", "a-b=cost", "g:=cost", "=cost", ":a=cost"])
def test_a_wrong_name_of_an_event_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        parse_request(text)


@given(st.text(alphabet="ab:;@+%=.\\0x()-> \t\n*", max_size=30))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with contextlib.suppress(UsageError):
        parse_request(text)


# Arguments are parsed as perf-probe(1) describes them.


def test_a_variable_has_fields_a_type_and_a_name() -> None:
    argument = parse_argument("n=it->next.sizes[2]:u8@user")
    assert (argument.name, argument.variable, argument.type, argument.is_user) == ("n", "it", "u8", True)
    assert argument.fields == (ArgumentField("next", follows_pointer=True), ArgumentField("sizes"), ArgumentField("", 2))


@pytest.mark.parametrize("text", ["%di", "$retval", "$stack0", "@counter+4", "+0(+8(%di)):string", "-8(%bp)", "\\7", "x=%ax:u32"])
def test_the_kernels_own_expressions_pass(text: str) -> None:
    argument = parse_argument(text)
    assert argument.raw == text.removeprefix("x=")
    assert not argument.needs_variables


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("count", "count"),
        ("why:string", "why_string"),
        ("n:b4@2/32", "n_b4"),
        ("it->price", "price"),
        ("it->name:string", "name"),
        ("argv[1]", "argv"),
        ("cs[1]:x8", "cs"),
        ("it[1].price", "price"),
        ("a=it->price", "a"),
        ("shop::total", "shop__total"),
    ],
)
def test_the_name_in_the_event(text: str, name: str) -> None:
    assert shown_name(parse_argument(text)) == name


@pytest.mark.parametrize("text", ["", "9", "a->", "a.", "a[x]", "a[99999999999]", "a:u8:x", "a b", "a:b c", "-", "="][1:-2])
def test_other_text_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        parse_argument(text)


@given(st.text(alphabet="ab->.[]0:@=$%+\\(", min_size=1, max_size=20))
def test_any_text_is_parsed_or_refused_of_arguments(text: str) -> None:
    with contextlib.suppress(UsageError):
        shown_name(parse_argument(text))


# Ranges of source lines are parsed as perf-probe(1) describes them.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cost", LineRange("cost", "", 0, None)),
        ("cost:1-4", LineRange("cost", "", 1, 4)),
        ("cost:1+2", LineRange("cost", "", 1, 2)),
        ("cost@shop.c:3", LineRange("cost", "shop.c", 3, None)),
        ("cost:3@shop.c", LineRange("cost", "shop.c", 3, None)),
        ("shop.c:18-22", LineRange("", "shop.c", 18, 22)),
        ("src/shop:5", LineRange("", "src/shop", 5, None)),
        ("shop::Item::cost:2", LineRange("shop::Item::cost", "", 2, None)),
    ],
)
def test_a_range_is_a_function_or_a_file_with_lines(text: str, expected: LineRange) -> None:
    assert parse_line_range(text) == expected


@pytest.mark.parametrize("text", ["", ":1", "cost:", "cost:x", "cost:4-1", "cost:1-2-3", "cost:99999999999", "cost:1+"])
def test_other_text_is_a_usage_error_of_line_ranges(text: str) -> None:
    with pytest.raises(UsageError):
        parse_line_range(text)


# Filters of names: patterns joined by !, &, | and parentheses.


@pytest.mark.parametrize(
    ("text", "passes", "fails"),
    [
        ("foo*", ["foo", "foobar"], ["bar"]),
        ("!foo* & *bar", ["fizzbar"], ["foobar", "fizz"]),
        ("foo* | bar*", ["foo1", "bar2"], ["xfoo"]),
        ("!(a | b)", ["c"], ["a", "b"]),
        ("!_* & !*@plt", ["main"], ["_start", "printf@plt"]),
        ("[!A-Z]*", ["main"], ["Main"]),
        ("a&b|c", ["c"], ["a", "b"]),
    ],
)
def test_a_filter_passes_these_names(text: str, passes: list[str], fails: list[str]) -> None:
    test = parse_filter(text)
    assert [name for name in passes + fails if test(name)] == passes


@pytest.mark.parametrize("text", ["", "(", "(a", "a)", "a &", "!", "& a", "a b", "!" * 500 + "a", "(" * 500])
def test_other_text_is_a_usage_error_of_name_filters(text: str) -> None:
    with pytest.raises(UsageError):
        parse_filter(text)


def test_a_name_with_an_escaped_star_is_plain() -> None:
    assert glob_test(r"a\*")("a*")
    assert not glob_test(r"a\*")("ab")


def test_operators_are_no_patterns() -> None:
    assert is_glob("a*")
    assert not is_glob("operator*")


# Damaged debug information is refused with one line, whatever its bytes.


_RUNS = 40
_REQUESTS = ("cost $vars", "twice n", "cost:2", "shop.c:8", "main:3 a.price sum", "cost it->next->name:string total label", "*")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("shop"))


def damaged(path: Path, seed: int) -> bytes:
    """Return the program with some bytes of its debug sections changed."""
    chance, data, file = random.Random(seed), bytearray(path.read_bytes()), ElfFile(str(path))
    sections = [one for one in file.sections if one.size and (one.name.startswith(".debug_") or one.name in (".eh_frame", ".symtab"))]
    for _ in range(chance.choice((1, 2, 5, 20))):
        section = chance.choice(sections)
        offset = section.offset + chance.randrange(section.size)
        piece = chance.choice((b"\xff" * 4, bytes(4), b"\x80" * 4, chance.randbytes(1)))
        data[offset : offset + len(piece)] = piece
    return bytes(data[: path.stat().st_size])


@pytest.mark.parametrize("seed", range(_RUNS))
def test_damage_is_refused_with_one_line(shop: Path, seed: int) -> None:
    try:
        file = ElfFile("/shop", damaged(shop, seed))
    except BadElfError:
        return
    program = Program("/shop", file, file)
    for text in _REQUESTS:
        with contextlib.suppress(PerfError):
            plan(program, parse_request(text))
    with contextlib.suppress(PerfError):
        list_lines(program, parse_line_range("cost"))
    with contextlib.suppress(PerfError):
        for site in Resolver(program).sites(parse_request("cost:2").point):
            list_variables(program, site, externs=True, ranges=True, test=lambda _: True)
    site_text(program, 0x401150)


def test_a_path_with_spaces_is_refused_before_the_kernel_reads_it_as_arguments(tmp_path: Path) -> None:
    folder = tmp_path / "a b\np:evil"
    folder.mkdir()
    program = open_program(str(compiled(folder)), SymbolOptions())
    with pytest.raises(PerfError, match="no path with spaces"):
        plan(program, parse_request("cost"))


# Kernel functions are defined relative to _text, as perf does.


KALLSYMS = """ffffffff81000000 T _text
ffffffff816b89f0 T vfs_read
ffffffff816b9000 t vfs_readv
ffffffff81ffff00 D not_code
ffffffffc0001000 t helper\t[nf_tables]
"""


@pytest.mark.parametrize(
    ("text", "definitions"),
    [
        ("vfs_read", ["p:probe/vfs_read _text+7047664"]),
        ("vfs_read+4 %di", ["p:probe/vfs_read _text+7047668 %di"]),
        ("vfs_read%return $retval", ["r:probe/vfs_read__return vfs_read+0 $retval"]),
        ("vfs_*", ["p:probe/vfs_read _text+7047664", "p:probe/vfs_readv _text+7049216"]),
        ("helper", ["p:probe/helper nf_tables:helper+0"]),
    ],
)
def test_a_kernel_function_is_defined(text: str, definitions: list[str]) -> None:
    assert [one.text for one in plan_kernel(KALLSYMS, parse_request(text)).definitions] == definitions


@pytest.mark.parametrize(
    ("text", "status", "part"),
    [
        ("vfs_raed", 254, "did you mean 'vfs_read"),
        ("not_code", 254, "no function"),
        ("vfs_read:3", 195, "-k"),
        ("vfs_read count", 195, "-k"),
    ],
)
def test_errors_have_perfs_status(text: str, status: int, part: str) -> None:
    with pytest.raises(PerfError) as caught:
        plan_kernel(KALLSYMS, parse_request(text))
    assert caught.value.exit_code == status
    assert part in str(caught.value)


def test_hidden_addresses_are_reported() -> None:
    hidden = "0000000000000000 T _text\n0000000000000000 T vfs_read\n"
    with pytest.raises(PerfError, match="kptr_restrict"):
        plan_kernel(hidden, parse_request("vfs_read"))


# Damaged and unusual location expressions are refused; simple ones are read.


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> LocationReader:
    program: Program = open_program(str(compiled(tmp_path_factory.mktemp("shop"))), SymbolOptions())
    unit = next(program.all_units())
    functions = program.functions(unit)
    assert functions is not None
    code: CodeDie = next(one for one in functions.code if functions.name_of(one).name == "cost")
    return LocationReader(program, unit, code, code.entry)


@pytest.mark.parametrize(
    ("expression", "location"),
    [
        (b"\x55", Location(Base("%di"), 0, is_value=True)),
        (b"\x75\x08", Location(Base("%di"), 8)),
        (b"\x75\x78", Location(Base("%di"), -8)),
        (b"\x75\x08\x06\x23\x04", Location(Base("+8(%di)"), 4)),
        (b"\x75\x08\x9f", Location(Base("%di"), 8, is_value=True)),
        (b"\x75\x00\x9f", Location(Base("%di"), 0, is_value=True)),
        (b"\x35\x9f", Location(None, 5)),
        (b"\x09\xff\x9f", Location(None, -1)),
        (b"\x9e\x04\xff\xff\xff\xff", Location(None, -1)),
        (b"\xa3\x01\x55\x9f", Location(Base("%di"), 0, is_value=True)),
        (b"\x03" + (0x404010).to_bytes(8, "little"), Location(Base(""), 0x404010)),
        (b"\x91\x00", Location(Base("%sp"), 8)),
    ],
)
def test_an_expression_is_a_location(reader: LocationReader, expression: bytes, location: Location) -> None:
    assert reader.read(expression) == location


@pytest.mark.parametrize("expression", [b"", b"\x61", b"\x55\x93\x04", b"\x75\x00\x74\x00\x22", b"\x75\x00\xe0", b"\x9e\x10" + bytes(16)])
def test_values_that_the_kernel_cannot_read_are_unsupported(reader: LocationReader, expression: bytes) -> None:
    with pytest.raises(ProbeError) as caught:
        reader.read(expression)
    assert caught.value.exit_code == 161


def test_expressions_nested_without_end_are_refused(reader: LocationReader) -> None:
    nested = b"\x55"
    for _ in range(2_000):
        nested = b"\xa3" + uleb(len(nested)) + nested
    with pytest.raises(ValueError, match="needs itself"):
        reader.read(nested)


def test_a_frame_base_that_needs_the_frame_base_is_refused(reader: LocationReader) -> None:
    base = reader._unit, Attribute(dwarf.FORM_EXPRLOC, b"\x91\x00")
    function: Any = SimpleNamespace(die=SimpleNamespace(attribute=lambda _name: base), entry=0)
    with pytest.raises(ValueError, match="needs itself"):
        LocationReader(reader._program, reader._unit, function, 0).read(b"\x91\x00")


@settings(max_examples=300)
@given(expression=st.binary(max_size=24))
def test_any_bytes_are_read_or_refused(reader: LocationReader, expression: bytes) -> None:
    try:
        reader.read(expression)
    except (ProbeError, *DAMAGE):
        pass
