"""Chains with the frames of inlined calls: which frames they become, for the page and as each perf has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.abi.flags import MISC_KERNEL, MISC_USER
from perfpy.debuginfo import dwarf
from perfpy.debuginfo.inlined_frames import give_inlined
from perfpy.symbols.files.debug_files import Inline, SymbolOptions
from perfpy.symbols.symbolizer import Symbolizer
from tests.builders.dies import Dies, code, function, inlined, unit
from tests.builders.elf import NOTYPE
from tests.builders.timeline import kernel_mmap, mmap, timeline

if TYPE_CHECKING:
    from pathlib import Path

BASE = 0x400000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder for --symfs with /opt/prog: leaf is inlined into middle, that into main; other has another name in the symbol table."""
    leaf, middle = function("leaf"), function("middle")
    calls = inlined(middle, (0x1010, 0x1030), inlined(leaf, (0x1018, 0x1020), line=9), line=7)
    same = inlined(function("main"), (0x1040, 0x1050), line=5)
    debug = function("debug_name", (0x1100, 0x1200), inlined(leaf, (0x1110, 0x1120), line=4))
    namesake = same.attributes[0][2]
    tree = code(unit(leaf, middle, namesake, function("main", (0x1000, 0x1100), calls, same), debug, low_pc=None), (0x1000, 0x1200))
    elf = Dies(tree).elf().symbol("main", 0x1000, 0x100).symbol("other", 0x1100, 0x100)
    path = tmp_path / "opt" / "prog"
    path.parent.mkdir()
    path.write_bytes(elf.build())
    return tmp_path


class Chains:
    """Chains of a process that has /opt/prog."""

    def __init__(self, root: Path, inline: Inline, *, unwound: bool = False) -> None:
        source = timeline((0, mmap(1, BASE + 0x1000, 0x1000, "/opt/prog", pgoff=0x1000)))
        self.symbolizer = Symbolizer(source, SymbolOptions(symfs=str(root), inline=inline))
        give_inlined(self.symbolizer, unwound=unwound)

    def ids(self, *chain: int) -> np.ndarray:
        count = len(chain)
        return self.symbolizer.frame_ids(
            np.full(count, 1, np.int32),
            np.array(chain, np.uint64) + np.uint64(BASE),
            np.full(count, 9, np.uint64),
            np.full(count, MISC_USER, np.uint8),
        )

    def names(self, *chains: tuple[int, ...], callers_first: bool = False) -> list[list[str]]:
        """The functions of each chain, inlined ones with a star."""
        ids = np.concatenate([self.ids(*chain) for chain in chains])
        frames, counts = self.symbolizer.expand(ids, np.array([len(chain) for chain in chains]), callers_first=callers_first)
        self.symbolizer.resolve()
        names = [self.name(frame) for frame in frames.tolist()]
        ends = np.cumsum(counts).tolist()
        return [names[end - count : end] for end, count in zip(ends, counts.tolist(), strict=True)]

    def name(self, frame: int) -> str:
        symbols, number = self.symbolizer.symbols, int(self.symbolizer.frames.symbol[frame])
        return "?" if number < 0 else symbols.name(number) + "*" * symbols.is_inlined(number)


def test_a_frame_expands_to_the_functions_at_its_address(root: Path) -> None:
    assert Chains(root, Inline.ALL).names((0x1018,), (0x1010, 0x1001), (0x1000,)) == [
        ["leaf*", "middle*", "main"],
        ["middle*", "main", "main"],
        ["main"],
    ]


def test_callchains_without_inlined_calls_are_unchanged(root: Path) -> None:
    assert Chains(root, Inline.ALL).names((0x1000, 0x1004), (), (0x1F00,)) == [["main", "main"], [], ["?"]]


def test_return_addresses_in_kernel_callchains_are_looked_up_one_byte_earlier(root: Path) -> None:
    chain = (0x1000, 0x1020)  # the call is the last instruction of leaf
    assert Chains(root, Inline.ALL).names(chain) == [["main", "leaf*", "middle*", "main"]]
    assert Chains(root, Inline.ALL_AS_PERF).names(chain) == [["main", "middle*", "main"]]
    assert Chains(root, Inline.ALL, unwound=True).names(chain) == [["main", "middle*", "main"]]


KERNEL = 0xFFFF800008000000


@pytest.mark.parametrize(
    ("inline", "unwound", "expected"),
    [
        (Inline.ALL, False, ["leaf*", "middle*", "syscall", "leaf*", "middle*", "syscall"]),
        (Inline.ALL_AS_PERF, False, ["leaf*", "middle*", "syscall", "middle*", "syscall"]),
        (Inline.UNWOUND_AS_PERF, True, ["syscall", "syscall"]),
    ],
)
def test_kernel_frames_expand_if_vmlinux_has_debug_information(tmp_path: Path, inline: Inline, unwound: bool, expected: list[str]) -> None:
    leaf, middle = function("leaf"), function("middle")
    calls = inlined(middle, (0x1010, 0x1030), inlined(leaf, (0x1018, 0x1020), line=9), line=7)
    tree = code(unit(leaf, middle, function("syscall", (0x1000, 0x1100), calls), low_pc=None), (0x1000, 0x1100))
    elf = Dies(tree).elf().symbol("_text", 0x1000, 0, NOTYPE).symbol("syscall", 0x1000, 0x100)
    (tmp_path / "vmlinux").write_bytes(elf.build())
    source = timeline((0, kernel_mmap(KERNEL, 0x10000, pgoff=KERNEL)))
    symbolizer = Symbolizer(source, SymbolOptions(vmlinux=str(tmp_path / "vmlinux"), inline=inline))
    give_inlined(symbolizer, unwound=unwound)
    ids = symbolizer.frame_ids(
        np.full(2, 1, np.int32),
        np.array([KERNEL + 0x18, KERNEL + 0x20], np.uint64),
        np.full(2, 9, np.uint64),
        np.full(2, MISC_KERNEL, np.uint8),
    )
    frames, counts = symbolizer.expand(ids, np.array([2]))
    symbols = symbolizer.frames.symbol[frames].tolist()
    assert [symbolizer.symbols.name(number) + "*" * symbolizer.symbols.is_inlined(number) for number in symbols] == expected
    assert counts.tolist() == [len(expected)]


def test_the_first_instruction_of_a_function_is_not_a_return_address(root: Path) -> None:
    leaf = function("leaf")
    tree = code(unit(leaf, function("main", (0x1000, 0x1100), inlined(leaf, (0x10F0, 0x1100))), low_pc=None), (0x1000, 0x1100))
    elf = Dies(tree).elf().symbol("main", 0x1000, 0x100).symbol("handler", 0x1100, 0x100)
    (root / "opt" / "prog").write_bytes(elf.build())
    assert Chains(root, Inline.ALL).names((0x1000, 0x1100), (0x1000, 0x10F8)) == [["main", "handler"], ["main", "leaf*", "main"]]


def test_callers_first_reverses_inlined_frames(root: Path) -> None:
    assert Chains(root, Inline.ALL).names((0x1001, 0x1018), callers_first=True) == [["main", "main", "middle*", "leaf*"]]


def test_perf_6_12_expands_unwound_stacks_only(root: Path) -> None:
    assert Chains(root, Inline.UNWOUND_AS_PERF).names((0x1018,)) == [["main"]]
    assert Chains(root, Inline.UNWOUND_AS_PERF, unwound=True).names((0x1018,)) == [["leaf*", "middle*", "main"]]
    assert Chains(root, Inline.NONE, unwound=True).names((0x1018,)) == [["main"]]


def test_perf_6_12_uses_function_names_of_the_debug_information(root: Path) -> None:
    chains = ((0x1110,), (0x1100,))
    assert Chains(root, Inline.ALL).names(*chains) == [["leaf*", "other"], ["other"]]
    assert Chains(root, Inline.UNWOUND_AS_PERF, unwound=True).names(*chains) == [["leaf*", "debug_name*"], ["debug_name*"]]


def test_perf_7_uses_function_names_of_the_debug_information_for_expanded_frames(root: Path) -> None:
    assert Chains(root, Inline.ALL_AS_PERF).names((0x1110,), (0x1100,)) == [["leaf*", "debug_name*"], ["other"]]


def test_perf_7_keeps_the_symbols_of_clones(root: Path) -> None:
    leaf = function("leaf")
    debug = function("name", (0x1000, 0x1100), inlined(leaf, (0x1010, 0x1020), line=4))
    tree = code(unit(leaf, debug, low_pc=None), (0x1000, 0x1100))
    (root / "opt" / "prog").write_bytes(Dies(tree).elf().symbol("name.constprop.0", 0x1000, 0x100).build())
    assert Chains(root, Inline.ALL_AS_PERF).names((0x1010,)) == [["leaf*", "name.constprop.0"]]
    assert Chains(root, Inline.UNWOUND_AS_PERF, unwound=True).names((0x1010,)) == [["leaf*", "name*"]]


@pytest.fixture
def cpp(tmp_path: Path) -> Path:
    """Create /opt/prog of C++ functions without linkage names: one begins with its symbol, the other later."""
    leaf = function("leaf")
    first = function("first", (0x1000, 0x1100), inlined(leaf, (0x1010, 0x1020), line=3))
    second = function("second", (0x1104, 0x1200))
    tree = code(unit(leaf, first, second, low_pc=None), (0x1000, 0x1200)).add(dwarf.AT_LANGUAGE, dwarf.FORM_DATA1, 4)
    path = tmp_path / "opt" / "prog"
    path.parent.mkdir()
    path.write_bytes(Dies(tree).elf().symbol("first(int)", 0x1000, 0x100).symbol("second(int)", 0x1100, 0x100).build())
    return tmp_path


def test_perf_6_12_names_functions_as_addr2line_does(cpp: Path) -> None:
    chains = Chains(cpp, Inline.UNWOUND_AS_PERF, unwound=True)
    assert chains.names((0x1010,)) == [["first(int)", "first*"]]  # what is the innermost function for the first time
    assert chains.names((0x1011,)) == [["leaf*", "first*"]]
    assert chains.names((0x1040,)) == [["first(int)"]]
    assert chains.names((0x1012,), (0x1041,)) == [["leaf*", "first(int)"], ["first(int)"]]  # it begins with the symbol
    assert chains.names((0x1140,), (0x1141,)) == [["second(int)"], ["second*"]]


def test_a_function_with_its_symbols_name_is_not_marked_as_inlined(root: Path) -> None:
    assert Chains(root, Inline.ALL).names((0x1040,)) == [["main", "main"]]


def test_frames_have_the_lines_of_inlined_calls(root: Path) -> None:
    chains = Chains(root, Inline.ALL)
    frames, _ = chains.symbolizer.expand(chains.ids(0x1018), np.array([1]))
    called_from = chains.symbolizer.frames.called_from
    assert [called_from.get(frame) for frame in frames.tolist()] == [None, (0, 1, 9), (0, 1, 7)]


def test_frames_of_later_batches_have_numbers_of_their_own(root: Path) -> None:
    chains = Chains(root, Inline.ALL)
    chains.names((0x1018,))
    assert chains.names((0x1010, 0x1018), (0x1110,)) == [["middle*", "main", "middle*", "main"], ["leaf*", "other"]]
    frames = chains.symbolizer.resolve()
    assert len(frames) == len(frames.symbol) == len(frames.ip)
    before = len(frames)
    assert chains.ids(0x1050).tolist() == [before]
    assert chains.names((0x1050,)) == [["main"]]


def test_one_name_inlined_into_one_symbol_is_one_symbol(root: Path) -> None:
    chains = Chains(root, Inline.ALL)
    ids = chains.ids(0x1018, 0x1019, 0x1110)
    frames, _ = chains.symbolizer.expand(ids, np.array([1, 1, 1]))
    symbols = chains.symbolizer.frames.symbol[frames]
    assert symbols[0] == symbols[3] != symbols[6]
