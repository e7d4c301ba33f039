"""Definitions of a compiled program: perf's, or the kernel's where perf's are refused by it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from perfpy.errors import PerfError
from perfpy.probing.grammar import parse_line_range, parse_request
from perfpy.probing.program import Program, open_program
from perfpy.probing.requests import fetch_operand, markers_of, plan
from perfpy.probing.sites import Resolver
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.tools.probe.actions import list_lines, list_variables, print_variables
from perfpy.tools.probe.options import ProbeCommandOptions
from tests.builders.probed import compiled

if TYPE_CHECKING:
    from pathlib import Path


CXX = """
namespace shop { struct Item { int price; int cost(int n) const; }; int Item::cost(int n) const { return price * n; }
int __attribute__((noinline)) over(int x) { return x; }
long __attribute__((noinline)) over(long x) { return x + 1; }
int __attribute__((noinline)) by_ref(const Item &item) { return item.price; } }
int main(int argc, char **) { shop::Item i{argc}; return i.cost(2) + shop::over(1) + shop::over(2L) + shop::by_ref(i); }
"""


INLINED = """
struct item { int price; char name[8]; };
int seen;
extern int far_total, nowhere __attribute__((weak));
__asm__(".data; .globl far_total; .type far_total,@object; .size far_total,4; far_total: .long 7; .text");
static inline __attribute__((always_inline)) int first(const char *text)
{
	seen++;
	return text[0] + text[seen];
}
__attribute__((noinline)) int scan(struct item *it)
{
	int sum = it->price / 3 + far_total + (&nowhere ? nowhere : 0);
	sum += first(it->name);
	return sum;
}
int main(int argc, char **argv) { struct item i = { argc, "ab" }; return scan(&i); }
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return opened(compiled(tmp_path_factory.mktemp("shop")))


@pytest.fixture(scope="module")
def unoptimized(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return opened(compiled(tmp_path_factory.mktemp("shop0"), flags="-O0 -g -no-pie"))


def opened(path: Path) -> Program:
    return open_program(str(path), SymbolOptions())


def defined(program: Program, text: str) -> list[str]:
    """Return the definitions without path and offset."""
    return [re.sub(r" \S+:0x[0-9a-f]+", "", definition.text, count=1) for definition in plan(program, parse_request(text)).definitions]


def refusal(program: Program, text: str) -> PerfError:
    with pytest.raises(PerfError) as caught:
        plan(program, parse_request(text))
    assert "\n" not in str(caught.value)
    return caught.value


def entry(program: Program, name: str) -> int:
    (symbol,) = program.symbols_named(name.__eq__)
    return program.file_offset(symbol.address)


def test_a_function_is_probed_at_its_entry(shop: Program) -> None:
    (definition,) = plan(shop, parse_request("cost")).definitions
    assert definition.text == f"p:probe_shop/cost {shop.path}:{entry(shop, 'cost'):#x}"


def test_arguments_become_fetch_expressions(shop: Program) -> None:
    (text,) = defined(shop, "cost it count why:string it->price it->name:string it->next->price it->sizes[2]")
    assert text == (
        "p:probe_shop/cost it=%di:x64 count=%si:s32 why_string=+0(%dx):string price=+0(%di):s32 name=+0(+8(%di)):string"
        " price=+0(+16(%di)):s32 sizes=+32(%di):s32"
    )


def test_bitfields_count_from_the_lowest_bit(shop: Program) -> None:
    """perf counts those of DWARF 4 from the highest; the kernel counts from the lowest."""
    assert defined(shop, "cost it->low it->high") == ["p:probe_shop/cost low=+4(%di):b3@0/32 high=+4(%di):b5@3/32"]


def test_arrays_of_arrays_are_indexed(shop: Program) -> None:
    assert defined(shop, "cost it->grid[1][2] it->grid[1]") == ["p:probe_shop/cost grid=+56(%di):s32 grid=+48(%di)"]


def test_types_equal_the_request(shop: Program) -> None:
    assert defined(shop, "cost count:x count:u8 count:u x=count:s64") == [
        "p:probe_shop/cost count_x=%si:x32 count_u8=%si:u8 count_u=%si:u32 x=%si:s64"
    ]


def test_global_variables_are_memory_of_the_file(shop: Program) -> None:
    """The kernel adds the distance between the probe's address and its offset, so that data beyond the file works, too."""
    (text,) = defined(shop, "cost total")
    (symbol,) = (symbol for symbol in raw_symbols(shop) if symbol[0] == b"total")
    (probed,) = shop.symbols_named("cost".__eq__)
    distance = probed.address - shop.file_offset(probed.address)
    assert text == f"p:probe_shop/cost total=@+{symbol[1] - distance:#x}:s32"


def raw_symbols(program: Program) -> list[tuple[bytes, int]]:
    section = program.symbols.section(".symtab")
    assert section is not None
    strings = bytes(program.symbols.strings(section))
    return [(strings[row["name"] :].split(b"\0")[0], int(row["value"])) for row in program.symbols.symbols(section)]


def test_the_return_is_probed(shop: Program) -> None:
    assert defined(shop, "cost%return $retval r=$retval:s64") == ["r:probe_shop/cost__return $retval r=$retval:s64"]


def test_names_are_the_users(shop: Program) -> None:
    assert defined(shop, "mine:here=cost a=count") == ["p:mine/here a=%si:s32"]


def test_parameters_are_listed(shop: Program) -> None:
    assert defined(shop, "cost $params") == ["p:probe_shop/cost it=%di:x64 count=%si:s32 why=%dx:x64"]


def test_a_pattern_of_names_probes_each_function(shop: Program) -> None:
    assert defined(shop, "co*") == ["p:probe_shop/cost"]


def test_inlined_calls_are_probed(shop: Program) -> None:
    (definition,) = plan(shop, parse_request("twice")).definitions
    start = entry(shop, "cost")
    assert definition.event == "twice"
    assert start < int(definition.target.rpartition(":")[2], 16) < start + 200


def _moved(target: str, distance: int) -> str:
    path, _, offset = target.rpartition(":")
    return f"{path}:{int(offset, 16) + distance:#x}"


@pytest.fixture(scope="module")
def inlined(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return opened(compiled(tmp_path_factory.mktemp("inlined"), flags="-O2 -g -no-pie", source=INLINED))


def test_a_pointer_that_is_a_sum_is_followed(inlined: Program) -> None:
    """`text` is it->name, an address that no register has; perf reads a pointer from there."""
    (text,) = defined(inlined, "first text[1] text:string")
    match = re.fullmatch(r"p:probe_shop/first text=\+(\d+)\(%(\w+)\):s8 text_string=\+(\d+)\(%(\w+)\):string", text)
    assert match is not None
    assert int(match[1]) == int(match[3]) + 1
    assert match[2] == match[4]
    assert refusal(inlined, "first text").exit_code == 161


def test_a_variable_of_another_file_is_found_by_its_symbol(inlined: Program) -> None:
    """perf writes @far_total+0, which kernels refuse for programs."""
    address = inlined.data_address("far_total")
    assert address is not None
    (probed,) = inlined.symbols_named("scan".__eq__)
    distance = probed.address - inlined.file_offset(probed.address)
    assert defined(inlined, "scan far_total") == [f"p:probe_shop/scan far_total=@+{address - distance:#x}:s32"]
    assert "'nowhere' is a variable of another file" in str(refusal(inlined, "scan nowhere"))


def test_variables_are_listed_if_a_probe_can_read_them(inlined: Program) -> None:
    """Global variables have the mark [EXT], also those of other files, as in perf."""
    (site,) = Resolver(inlined).sites(parse_request("scan").point)
    everything = list_variables(inlined, site, externs=True, ranges=True, test=lambda name: True)
    assert [line for line in everything.lines if line.startswith("[EXT]")] == [
        "[EXT]\tint\tfar_total", "[EXT]\tint\tnowhere", "[EXT]\tint\tseen"
    ]  # fmt: skip
    assert any(line.startswith("[VAL]\tstruct item*\tit\t@<scan+[0-") for line in everything.lines)
    plain = list_variables(inlined, site, externs=False, ranges=False, test=lambda name: True)
    assert plain.lines == ["struct item*\tit"]


def test_types_of_variables_are_written_as_in_the_source(tmp_path: Path) -> None:
    """A class has no keyword in front, and one without a name is unknown, as in perf."""
    source = """class Shape { public: int x; }; class { public: int a; } unnamed; struct Box { int k; }; union Two { int i; };
    int main() { Shape s, *p = &s; Box b; Two t; s.x = b.k = t.i = unnamed.a; return p->x + b.k + t.i; }"""
    program = opened(compiled(tmp_path, "app", "-O0 -g", source, "g++"))
    (site,) = Resolver(program).sites(parse_request("main").point)
    lines = list_variables(program, site, externs=True, ranges=False, test=lambda name: True).lines
    assert lines == ["(unknown_type)\tunnamed", "Shape\ts", "Shape*\tp", "struct Box\tb", "union Two\tt"]


@pytest.mark.parametrize(
    ("text", "status"),
    [("nosuch", 254), ("nosuch@shop.c", 161), ("other.c:1", 161), ("shop.c:900-903", 161), ("cost@shop.c:900", 161), ("cost:900", 254)],
)
def test_a_listing_of_no_lines_has_perfs_status(shop: Program, text: str, status: int) -> None:
    with pytest.raises(PerfError) as caught:
        list_lines(shop, parse_line_range(text))
    assert caught.value.exit_code == status


@pytest.mark.parametrize(("point", "status"), [("nosuch", 254), ("nosuch@shop.c", 161), ("cost:900", 254), ("shop.c:900", 161)])
def test_variables_of_no_point_have_perfs_status(shop: Program, point: str, status: int) -> None:
    with pytest.raises(PerfError) as caught:
        print_variables(ProbeCommandOptions(exec_path=shop.path), [point])
    assert caught.value.exit_code == status


def test_a_line_of_an_inlined_function_is_named_after_that_function(inlined: Program) -> None:
    assert {definition.event for definition in plan(inlined, parse_request("shop.c:9")).definitions} == {"first"}
    assert "shares its address with line 14" in str(refusal(inlined, "shop.c:6"))
    assert {definition.event for definition in plan(inlined, parse_request("shop.c:14")).definitions} == {"scan"}


def test_a_kernel_is_probed_by_symbols(inlined: Program) -> None:
    """A return is at the symbol itself, although the code may begin after space for patches. Images of x86 count from _text."""
    (entered,) = plan(inlined, parse_request("scan it"), is_kernel=True).definitions
    (returned,) = plan(inlined, parse_request("scan%return"), is_kernel=True).definitions
    assert (entered.text, returned.text) == ("p:probe/scan scan+0 it=%di:x64", "r:probe/scan__return scan+0")


def test_a_variable_of_a_kernel_is_named_by_its_symbol(inlined: Program) -> None:
    (definition,) = plan(inlined, parse_request("scan seen"), is_kernel=True).definitions
    assert definition.text == "p:probe/scan scan+0 seen=@seen+0:s32"


def test_a_function_that_the_linker_dropped_has_no_site(tmp_path: Path) -> None:
    """Its debug information stays, at addresses near 0; perf writes 0xfffffffffffff000."""
    source = "int seen;\nvoid dead(int n)\n{\n seen += n;\n}\nint main(void)\n{\n return seen;\n}\n"
    program = opened(compiled(tmp_path, flags="-O1 -g -no-pie -ffunction-sections -Wl,--gc-sections", source=source))
    assert [refusal(program, text).exit_code for text in ("dead", "dead n", "shop.c:4")] == [237, 254, 237]


def test_lines_of_functions_in_assembly_count_from_the_file(tmp_path: Path) -> None:
    source = ".globl main, count\n.type count,@function\n.text\nmain:\ncount:\n nop\n ret\n.size count,.-count\n"
    program = opened(compiled(tmp_path, flags="-g -x assembler -no-pie", source=source))
    (entry_site,) = plan(program, parse_request("count:6")).definitions
    (next_site,) = plan(program, parse_request("count:7")).definitions
    assert _moved(entry_site.target, 1) == next_site.target


def test_without_optimization_variables_are_read_after_the_prologue(unoptimized: Program) -> None:
    (plain,) = plan(unoptimized, parse_request("cost")).definitions
    planned = plan(unoptimized, parse_request("cost count it->price"))
    (definition,) = planned.definitions
    assert definition.target > plain.target
    assert re.fullmatch(r"count=-\d+\(%bp\):s32 price=\+0\(-\d+\(%bp\)\):s32", " ".join(definition.arguments))
    assert "without optimization" in planned.notes[0]


def test_lines_count_from_the_function(shop: Program) -> None:
    by_function = plan(shop, parse_request("cost:2")).definitions
    by_file = plan(shop, parse_request("shop.c:7")).definitions
    assert [one.target for one in by_function] == [one.target for one in by_file]
    assert [one.event for one in by_function] == ["cost_L2"]
    assert [one.event for one in by_file] == ["cost"]


def test_a_pattern_of_source_text_probes_each_line(shop: Program) -> None:
    assert len(plan(shop, parse_request("cost;sum+=*")).definitions) >= 1


@pytest.mark.parametrize(
    ("text", "status", "part"),
    [
        ("nosuch", 237, "no function 'nosuch'"),
        ("nosuch%return", 254, "no function 'nosuch'"),
        ("nosuch x", 254, "no function 'nosuch'"),
        ("nosuch %di", 254, "no function 'nosuch'"),
        ("nosuch* $stack0", 254, "fits no function"),
        ("cost:500 %di", 254, "no code for"),
        ("cost@other.c count", 254, "no code for"),
        ("cots", 237, "did you mean 'cost'?"),
        ("cost:500", 237, "no code for 'cost:500'"),
        ("cost@other.c", 237, "no code for"),
        ("cost+4096", 254, "beyond its end"),
        ("cost cuont", 254, "did you mean 'count'?"),
        ("cost it.price", 234, "write it->price instead of it.price"),
        ("cost it->prize", 234, "did you mean 'price'?"),
        ("cost count->x", 234, "neither a structure"),
        ("cost count:string", 234, "not a string"),
        ("half x", 161, "register 17"),
        ("twice%return", 254, "inlined"),
    ],
)
def test_errors_have_perfs_status_and_a_remedy(shop: Program, text: str, status: int, part: str) -> None:
    error = refusal(shop, text)
    assert error.exit_code == status
    assert part in str(error)


def test_a_stripped_program_has_no_points(tmp_path: Path) -> None:
    program = opened(compiled(tmp_path, flags="-O1 -s -no-pie"))
    points = ("cost", "cost*", "cost+4", "cost%return", "cost %di")
    assert [refusal(program, text).exit_code for text in points] == [254] * len(points)
    for text in ("shop.c:7", "cost:2", "cost;sum*", "cost@shop.c", "cost it", "cost $vars", "nosuch x"):
        error = refusal(program, text)
        assert (error.exit_code, "needs debug information" in str(error)) == (195, True)


def test_overloaded_functions_are_distinguished(tmp_path: Path) -> None:
    program = opened(compiled(tmp_path, "app", "-O1 -g", CXX, "g++"))
    both = plan(program, parse_request("over"))
    assert len(both.definitions) == 2
    assert any("several functions fit" in note and "app.cc:4" in note for note in both.notes)
    for text in ("shop::over(long)", "_ZN4shop4overEl"):
        assert len(plan(program, parse_request(text)).definitions) == 1
    own, inlined = plan(program, parse_request("cost")).definitions[::-1]
    assert plan(program, parse_request("cost+8")).definitions == [inlined._replace(target=_moved(inlined.target, 8))], own
    assert defined(program, "shop::Item::cost this->price n")[-1] == "p:probe_app/cost price=+0(%di):s32 n=%si:s32"
    assert defined(program, "by_ref item.price") == ["p:probe_app/by_ref price=+0(%di):s32"]


# SDT markers are read from the notes of a program.


SOURCE = r"""
#define MARKER(provider, name, arguments, semaphore) __asm__ volatile("990: nop\n.pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n" \
  ".4byte 992f-991f,994f-993f,3\n991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b\n.8byte 0\n.8byte " semaphore "\n" \
  ".asciz \"" provider "\"\n.asciz \"" name "\"\n.asciz \"" arguments "\"\n994: .balign 4\n.popsection")
unsigned short counter __attribute__((section(".probes"))) = 0;
int main(int argc, char **argv) { MARKER("app", "begin", "-4@%edi 8@-16(%rbp) 4@$7 8@xx", "0");
  MARKER("app", "end-1", "", "counter"); return argc; }
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Program:
    path: Path = compiled(tmp_path_factory.mktemp("app"), "app", "-O1 -no-pie", SOURCE)
    return open_program(str(path), SymbolOptions())


def test_markers_have_names_and_arguments(app: Program) -> None:
    first, second = markers_of(app)
    assert (first.provider, first.name, first.arguments) == ("app", "begin", "-4@%edi 8@-16(%rbp) 4@$7 8@xx")
    assert second.semaphore


def test_a_marker_is_probed_with_its_arguments(app: Program) -> None:
    planned = plan(app, parse_request("%sdt_app:begin"))
    (definition,) = planned.definitions
    assert definition.name == "sdt_app:begin"
    assert definition.arguments == ("arg1=%di:s32", "arg2=-16(%bp):u64", "arg3=\\7:u32")
    assert "8@xx" in planned.notes[0]


def test_a_missing_marker_is_reported_with_the_existing_ones(app: Program) -> None:
    with pytest.raises(PerfError) as caught:
        plan(app, parse_request("%sdt_app:begun"))
    assert caught.value.exit_code == 237
    assert "%sdt_app:begin" in str(caught.value)


@pytest.mark.parametrize(
    ("operand", "fetched"),
    [("-4@%edi", "%di:s32"), ("1@%r8b", "%r8:u8"), ("8@(%rax)", "+0(%ax):u64"), ("8@[sp, 16]", "+16(%sp):u64"), ("4@x3", "%x3:u32")],
)
def test_operands_of_machines(operand: str, fetched: str) -> None:
    assert fetch_operand(operand) == fetched


@pytest.mark.parametrize("operand", ["", "4", "3@%ax", "8@%xmm0", "8@8(%rip", "8@sym(%rip)", "8@%rax,%rbx", "4@$x"])
def test_other_operands_are_omitted(operand: str) -> None:
    assert fetch_operand(operand) == ""
