"""SDT markers are read from the notes of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfpy.errors import PerfError
from perfpy.probing.grammar.points import parse_request
from perfpy.probing.requests import plan
from perfpy.probing.sites.markers import fetch_operand, markers_of
from perfpy.probing.sites.program import Program, open_program
from perfpy.symbols.files.debug_files import SymbolOptions
from tests.builders.probed import compiled

if TYPE_CHECKING:
    from pathlib import Path

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
