"""Frames and symbols of whole recordings: files, kernel, JIT, what is missing."""

from __future__ import annotations

import gzip
import http.server
import lzma
import os
import re
import struct
import sys
import threading
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.abi.flags import MISC_KERNEL, MISC_USER
from perfpy.perfdata.kept_files import KeptFiles, encode
from perfpy.symbols import quality_notes as missing
from perfpy.symbols.address_spaces import TaskTimeline
from perfpy.symbols.dso import DsoTable
from perfpy.symbols.files import build_ids, elf_symbols
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.files.debuginfod import Client
from perfpy.symbols.files.elf import ElfFile
from perfpy.symbols.symbolizer import Symbolizer
from perfpy.untrusted import files
from tests.builders import elf as b
from tests.builders.elf import Elf
from tests.builders.timeline import comm, dsos, frames, kernel_mmap, ksymbol, mmap, task_records, timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ID, OTHER_ID = "ab" * 20, "cd" * 20
KERNEL = 0xFFFFFFFF81000000


def program(*names: str, build_id: str = "", table: str = ".symtab") -> Elf:
    """Functions of 16 bytes from 0x1000 on."""
    file = Elf().text().segment(0x1000, 0x1000, 0x1000)
    for number, name in enumerate(names):
        file.symbol(name, 0x1000 + 16 * number, 16, table=table)
    return file.build_id(build_id) if build_id else file


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder for --symfs."""
    return tmp_path / "root"


def put(root: Path, name: str, data: bytes) -> None:
    path = root / name.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def mapped(name: str = "/opt/prog", build_id: str = "") -> TaskTimeline:
    return timeline((0, mmap(1, 0x401000, 0x1000, name, pgoff=0x1000, build_id=build_id)))


def symbol(root: Path, source: TaskTimeline, offset: int = 4) -> str:
    return frames(source, (1, 0x401000 + offset, 1), options=SymbolOptions(symfs=str(root)))[0].symbol


def test_a_frame_has_symbol_offset_dso_and_address(root: Path):
    put(root, "/opt/prog", program("f", "g").build())
    assert frames(mapped(), (1, 0x401014, 1), options=SymbolOptions(symfs=str(root))) == [("g", 4, "/opt/prog", 0x1014, ".")]


def test_columns_of_frames_and_symbols_describe_them(root: Path):
    put(root, "/opt/prog", program("f", "g").build())
    symbolizer = Symbolizer(mapped(), SymbolOptions(symfs=str(root)))
    ids = symbolizer.frame_ids(np.array([1]), np.array([0x401014], np.uint64), np.array([1], np.uint64), np.array([MISC_USER], np.uint8))
    table = symbolizer.resolve()
    number, result = int(ids[0]), int(table.symbol[ids[0]])
    assert (int(table.map_start[number]), int(table.map_end[number]), int(table.ip[number])) == (0x401000, 0x402000, 0x401014)
    assert (symbolizer.symbols.start(result), symbolizer.symbols.end(result), symbolizer.symbols.binding(result)) == (0x1010, 0x1020, 1)
    assert symbolizer.symbols.dso(result) == int(table.dso[number]) == 0


def test_equal_addresses_share_a_frame_and_later_batches_go_on(root: Path):
    put(root, "/opt/prog", program("f", "g").build())
    symbolizer = Symbolizer(mapped(), SymbolOptions(symfs=str(root)))
    assert [frame.symbol for frame in frames(symbolizer, (1, 0x401000, 1), (1, 0x401000, 2))] == ["f", "f"]
    assert len(symbolizer.frames) == 1
    assert [frame.symbol for frame in frames(symbolizer, (1, 0x401010, 1), (1, 0x401000, 9))] == ["g", "f"]
    assert len(symbolizer.frames) == 2


def test_a_file_of_another_build_gives_no_names(root: Path):
    put(root, "/opt/prog", program("f", build_id=OTHER_ID).build())
    assert symbol(root, mapped(build_id=ID)) == "-"
    put(root, "/opt/prog", program("f").build())  # one without a build-id cannot be it either
    assert symbol(root, mapped(build_id=ID)) == "-"
    put(root, "/opt/prog", program("f", build_id=ID).build())
    assert symbol(root, mapped(build_id=ID)) == "f"


def test_the_build_id_table_of_the_file_counts_too(root: Path):
    put(root, "/opt/prog", program("f", build_id=OTHER_ID).build())
    source = timeline((0, mmap(1, 0x401000, 0x1000, "/opt/prog", pgoff=0x1000)), build_ids={"/opt/prog": ID})
    assert symbol(root, source) == "-"


@pytest.mark.parametrize(
    ("place", "origin"),
    [
        ("/opt/prog.sym", "l"),
        ("/opt/.debug/prog.sym", "l"),
        ("/usr/lib/debug/opt/prog.sym", "l"),
        (f"/.debug/.build-id/ab/{ID[2:]}/elf", "B"),
        (f"/.debug/.build-id/ab/{ID[2:]}/debug", "D"),
        ("/usr/lib/debug/opt/prog.debug", "f"),
        ("/usr/lib/debug/opt/prog", "u"),
        ("/usr/lib/debug/lib/opt/prog", "x"),
        (f"/usr/lib/debug/.build-id/ab/{ID[2:]}.debug", "b"),
        ("/opt/.debug/prog", "o"),
    ],
)
def test_separate_symbols_are_found_in(root: Path, place: str, origin: str):
    stripped = program("exported", build_id=ID, table=".dynsym").section(".gnu_debuglink", b"prog.sym\0\0\0\0crc!", flags=0)
    put(root, "/opt/prog", stripped.build())
    put(root, place, program("internal", build_id=ID).build())
    symbolizer = Symbolizer(mapped(build_id=ID), SymbolOptions(symfs=str(root)))
    assert frames(symbolizer, (1, 0x401004, 1))[0].symbol == "internal"
    assert symbolizer.origin(0) == origin


@pytest.mark.parametrize(("names", "origin"), [((), "d"), (("f",), "d"), (None, "!")])
def test_a_file_counts_as_found_with_symbols_or_without(root: Path, names: tuple[str, ...] | None, origin: str):
    if names is not None:
        put(root, "/opt/prog", program(*names, build_id=ID).symbol("other", 0x1F00, 4, table=".dynsym").build())
    symbolizer = Symbolizer(mapped(build_id=ID), SymbolOptions(symfs=str(root)))
    frames(symbolizer, (1, 0x401004, 1))
    assert symbolizer.origin(0) == origin


def test_separate_symbols_of_another_build_are_passed_over(root: Path):
    put(root, "/opt/prog", program("exported", build_id=ID, table=".dynsym").build())
    put(root, "/usr/lib/debug/opt/prog.debug", program("internal", build_id=OTHER_ID).build())
    assert symbol(root, mapped(build_id=ID)) == "exported"


def linked(crc: int, *, endian: str = "<", build_id: str = "") -> Elf:
    """A program without internal names, and the CRC of its debug file."""
    link = b"prog.sym\0\0\0\0" + struct.pack(endian + "I", crc)
    return program("exported", table=".dynsym", build_id=build_id).section(".gnu_debuglink", link, flags=0)


@pytest.mark.parametrize("place", ["/opt/prog.sym", "/opt/.debug/prog.sym", "/usr/lib/debug/opt/prog.sym", "/usr/lib/debug/opt/prog.debug"])
def test_a_debug_file_without_build_id_is_taken_with_the_crc_of_the_link_only(root: Path, place: str):
    debug = program("internal").build()
    put(root, place, debug)
    put(root, "/opt/prog", linked(zlib.crc32(debug)).build())
    assert symbol(root, mapped()) == "internal"
    put(root, "/opt/prog", linked(zlib.crc32(debug) ^ 1).build())
    symbolizer = Symbolizer(mapped(), SymbolOptions(symfs=str(root)))
    assert frames(symbolizer, (1, 0x401004, 1))[0].symbol == "exported"
    reason = f"belongs to another build of {root}/opt/prog (the CRC in .gnu_debuglink differs); it is not used"
    assert [str(file) for file in symbolizer.unusable()] == [f"{root}{place} {reason}"]


def test_the_next_debug_file_is_taken_if_the_first_has_another_crc(root: Path):
    debug = program("internal").build()
    put(root, "/opt/prog.sym", program("stale").build())
    put(root, "/opt/.debug/prog.sym", debug)
    put(root, "/opt/prog", linked(zlib.crc32(debug)).build())
    assert symbol(root, mapped()) == "internal"


def test_equal_build_ids_prove_a_debug_file_whose_crc_differs(root: Path):
    """Tools that change debug files (dwz, for example) leave the CRC of the link as it was."""
    put(root, "/opt/prog", linked(1, build_id=ID).build())
    put(root, "/opt/prog.sym", program("internal", build_id=ID).build())
    assert symbol(root, mapped()) == "internal"


def test_a_link_without_a_crc_proves_nothing_and_refuses_nothing(root: Path):
    put(root, "/opt/prog", program("exported", table=".dynsym").section(".gnu_debuglink", b"prog.sym", flags=0).build())
    put(root, "/opt/prog.sym", program("internal").build())
    assert symbol(root, mapped()) == "internal"


def test_a_file_in_the_build_id_cache_needs_no_original(root: Path):
    put(root, f"/.debug/.build-id/ab/{ID[2:]}/elf", program("f", build_id=ID).build())
    assert symbol(root, mapped(build_id=ID)) == "f"


def test_the_build_id_cache_can_be_named(root: Path, tmp_path: Path):
    put(tmp_path, files.build_id_path("/cache", ID, "elf"), program("f", build_id=ID).build())
    options = SymbolOptions(symfs=str(root), buildid_dir=str(tmp_path / "cache"))
    assert frames(mapped(build_id=ID), (1, 0x401004, 1), options=options)[0].symbol == "f"


def test_names_stay_mangled_on_request(root: Path):
    put(root, "/opt/prog", program("_Z1fv").build())
    assert symbol(root, mapped()) == "f()"
    assert frames(mapped(), (1, 0x401000, 1), options=SymbolOptions(symfs=str(root), demangle=False))[0].symbol == "_Z1fv"


def test_a_damaged_file_gives_no_names(root: Path):
    put(root, "/opt/prog", program("f").build()[:0x1080])
    assert symbol(root, mapped()) == "-"


def unreadable(root: Path, source: TaskTimeline) -> list[str]:
    symbolizer = Symbolizer(source, SymbolOptions(symfs=str(root)))
    frames(symbolizer, (1, 0x401004, 1))
    return [str(file).removeprefix(str(root)) for file in symbolizer.unusable()]


def test_a_damaged_file_is_named_with_the_reason(root: Path):
    data = program("f").build()
    put(root, "/opt/prog", data[:-8])
    (line,) = unreadable(root, mapped())
    assert line.startswith("/opt/prog cannot be read: damaged ELF file (a table of 5 entries at ")


def test_a_file_that_is_damaged_in_parts_is_named_and_the_others_count(root: Path):
    data = bytearray(program("f").build())
    data[32:40] = b"\xff" * 8  # the place of the program headers
    put(root, "/opt/prog", bytes(data))
    (line,) = unreadable(root, mapped())
    assert line.startswith("/opt/prog cannot be read: program headers: ")
    assert symbol(root, mapped()) == "f"


def test_symbols_that_cannot_be_decompressed_are_named_once(root: Path):
    header = struct.pack("<IIQQ", 1, 0, 24, 1)
    file = Elf().text().segment(0x1000, 0x1000, 0x1000)
    put(root, "/opt/prog", file.section(".symtab", header + b"nonsense", type=b.SYMTAB, flags=b.COMPRESSED).build())
    (line,) = unreadable(root, mapped())
    assert line.startswith("/opt/prog cannot be read: cannot decompress section '.symtab': damaged zlib data")


@pytest.mark.parametrize("data", [program("f").build(), b"a map of fonts", b""])
def test_files_that_are_whole_or_something_else_are_not_named(root: Path, data: bytes):
    put(root, "/opt/prog", data)
    assert unreadable(root, mapped()) == []


def test_a_damaged_kernel_or_module_is_named(tmp_path: Path):
    broken = Elf().text(KERNEL, 0x1000).symbol("_text", KERNEL).build()[:-8]
    put(tmp_path, "/lib/modules/my.ko", broken)
    put(tmp_path, "vm", broken)
    source = timeline((0, kernel_mmap(KERNEL, 0x1000, pgoff=KERNEL)), (0, kernel_mmap(0xFFFFFFFFC0100000, 0x1000, "/lib/modules/my.ko")))
    symbolizer = Symbolizer(source, SymbolOptions(symfs=str(tmp_path), vmlinux=str(tmp_path / "vm")))
    frames(symbolizer, (1, KERNEL + 4, 1), mode=MISC_KERNEL)
    assert [os.path.basename(file.path) for file in symbolizer.unusable()] == ["vm", "my.ko"]


def test_a_program_in_a_folder_of_tmp_that_looks_like_a_perf_map_is_a_program(root: Path):
    put(root, "/tmp/perf-build/prog", program("f").build())
    assert symbol(root, mapped("/tmp/perf-build/prog")) == "f"


def test_mini_debug_info_fills_gaps_of_dynsym(root: Path):
    import lzma

    inside = lzma.compress(program("shadowed", "internal").build())
    put(root, "/opt/prog", program("exported", table=".dynsym").section(".gnu_debugdata", inside, flags=0).build())
    assert symbol(root, mapped(), 4) == "exported"
    assert symbol(root, mapped(), 20) == "internal"


def kallsyms(tmp_path: Path, base: int = KERNEL) -> SymbolOptions:
    text = f"{base:x} T _text\n{base + 0x100:x} t helper\nffffffffc0000000 t hook\t[nf_tables]\n"
    (tmp_path / "kallsyms").write_text(text)
    return SymbolOptions(symfs=str(tmp_path), kallsyms=str(tmp_path / "kallsyms"))


def test_the_kernel_and_its_modules_are_named_by_kallsyms(tmp_path: Path):
    source = timeline((0, kernel_mmap(KERNEL, 0x10000, pgoff=KERNEL)), (0, kernel_mmap(0xFFFFFFFFC0000000, 0x1000, "[nf_tables]")))
    symbolizer = Symbolizer(source, kallsyms(tmp_path))
    actual_frames = frames(symbolizer, (1, KERNEL + 0x104, 1), (1, 0xFFFFFFFFC0000008, 1), mode=MISC_KERNEL)
    assert actual_frames == [("helper", 4, "[kernel.kallsyms]", KERNEL + 0x104, "k"), ("hook", 8, "[nf_tables]", 8, "k")]
    assert [symbolizer.origin(number) for number in range(2)] == ["k", "k"]


def test_a_kernel_that_was_relocated_since_is_moved_back(tmp_path: Path):
    source = timeline((0, kernel_mmap(KERNEL + 0x5000000, 0x10000, pgoff=KERNEL + 0x5000000)))
    actual_frames = frames(source, (1, KERNEL + 0x5000104, 1), mode=MISC_KERNEL, options=kallsyms(tmp_path))
    assert actual_frames[0].symbol == "helper"


def test_kallsyms_without_the_reference_symbol_is_not_trusted(tmp_path: Path):
    source = timeline((0, kernel_mmap(KERNEL, 0x10000, "[kernel.kallsyms]_stext", pgoff=KERNEL)))
    assert frames(source, (1, KERNEL + 0x104, 1), mode=MISC_KERNEL, options=kallsyms(tmp_path))[0].symbol == "-"


def test_the_kernel_is_where_kallsyms_has_symbols(tmp_path: Path):
    source = timeline((0, kernel_mmap(KERNEL - 0x1000, 0x1010, pgoff=KERNEL)))
    end = KERNEL + 0x2000  # the last symbol ends with the page behind its own
    actual_frames = frames(source, *((1, at, 1) for at in (KERNEL - 8, KERNEL, end - 1, end)), mode=MISC_KERNEL, options=kallsyms(tmp_path))
    assert [frame.dso for frame in actual_frames] == ["-", "[kernel.kallsyms]", "[kernel.kallsyms]", "-"]


def test_the_kernel_is_where_kallsyms_has_symbols_in_later_batches_too(tmp_path: Path):
    symbolizer = Symbolizer(timeline((0, kernel_mmap(KERNEL, 0x200, pgoff=KERNEL))), kallsyms(tmp_path))
    results = [frames(symbolizer, (1, at, 1), mode=MISC_KERNEL)[0] for at in (KERNEL, KERNEL + 0x1800)]
    assert [frame.dso for frame in results] == ["[kernel.kallsyms]"] * 2
    assert results[1].symbol != "-"


def test_a_kernel_that_hides_its_addresses_is_distinguished_from_one_without_symbols(tmp_path: Path):
    put(tmp_path, "kallsyms", b"0000000000000000 T _text\n0000000000000000 t helper\n")
    symbolizer = Symbolizer(
        timeline((0, kernel_mmap(KERNEL, 0x10000, pgoff=KERNEL))), SymbolOptions(kallsyms=str(tmp_path / "kallsyms"), cache=False)
    )
    assert frames(symbolizer, (1, KERNEL + 0x104, 1), mode=MISC_KERNEL)[0].symbol == "-"
    (lost,) = symbolizer.missing(np.array([3]))
    assert lost.advice == "the kernel hides its addresses; run as root, or set sysctl kernel.kptr_restrict=0"
    assert lost.looked[-1] == str(tmp_path / "kallsyms")
    assert symbolizer.origin(0) == "!"


@pytest.mark.parametrize("relocated", [0, 0x5000000])
def test_vmlinux_counts_only_with_the_build_id_of_the_recorded_kernel(tmp_path: Path, relocated: int):
    vmlinux = Elf(type=b.ET_EXEC).text(KERNEL, 0x1000).symbol("_text", KERNEL, 0, b.NOTYPE).symbol("start_kernel", KERNEL + 0x40, 32)
    put(tmp_path, "vm", vmlinux.build_id(ID).build())
    kernel, result = kernel_mmap(KERNEL + relocated, 0x10000, pgoff=KERNEL + relocated), []
    for build_id in (ID, OTHER_ID):
        source = timeline((0, kernel), build_ids={"[kernel.kallsyms]": build_id})
        symbolizer = Symbolizer(source, SymbolOptions(vmlinux=str(tmp_path / "vm"), symfs=str(tmp_path)))
        result.append((frames(symbolizer, (1, KERNEL + relocated + 0x44, 1), mode=MISC_KERNEL)[0].symbol, symbolizer.origin(0)))
    assert result == [("start_kernel", "v"), ("-", "!")]


def test_trampolines_of_the_kernel_have_its_names():
    source = timeline((0, ksymbol(0xC000, 0x100, "ftrace_trampoline")), (0, ksymbol(0xD000, 0x100, "bpf_trampoline_6442")))
    actual_frames = frames(source, (1, 0xC010, 1), (1, 0xD0FF, 1), (1, 0xD100, 1), mode=MISC_KERNEL)
    assert [(frame.symbol, frame.offset) for frame in actual_frames] == [
        ("ftrace_trampoline", 0x10),
        ("bpf_trampoline_6442", 0xFF),
        ("-", 0),
    ]


def test_the_vdso_is_this_kernels_if_it_is_the_recorded_one():
    image = build_ids.vdso_image()
    if not image:
        pytest.skip("no vdso is mapped here")
    file = ElfFile("[vdso]", image)
    offset = int(elf_symbols.load(file, file).symbols.start[0])
    results = []
    for build_id in (build_ids.of_image(image).hex(), OTHER_ID, ""):
        source = timeline((0, mmap(1, 0x7FFF0000, 0x4000, "[vdso]", build_id=build_id)))
        results.append(frames(source, (1, 0x7FFF0000 + offset, 1))[0].symbol)
    assert results[0] == results[2] != "-"
    assert results[1] == "-"


def test_the_vdso_of_32_bit_programs_has_a_name_and_build_id_of_its_own():
    """This program's image is that of 64-bit programs: its functions are elsewhere, with or without a build-id in the recording."""
    maps = [(0, mmap(pid, start, 0x4000, "[vdso]")) for pid, start in ((1, 0x7FFF_0000_0000), (2, 0xF7F1_A000), (3, 0xF7EF_4000))]
    for build_ids_of_table in ({"[vdso]": "", "[vdso32]": OTHER_ID}, {}):
        source = TaskTimeline(task_records(*maps), dso_table=DsoTable(build_ids_of_table, has_vdso32=True))
        assert [(dso.name, dso.build_id) for dso in source.dso_table.dsos] == [
            ("[vdso]", ""),
            ("[vdso32]", build_ids_of_table.get("[vdso32]", "")),
        ]
        assert dsos(source, (1, 0x7FFF_0000_0000, 1), (2, 0xF7F1_AA00, 1), (3, 0xF7EF_4A00, 1)) == ["[vdso]", "[vdso32]", "[vdso32]"]
        every = frames(source, *((2, 0xF7F1_A000 + offset, 1) for offset in range(0, 0x2000, 16)))
        assert {frame.symbol for frame in every} == {"-"}


def test_elsewhere_the_vdso_has_one_name():
    source = timeline((0, mmap(1, 0x7FFF_0000_0000, 0x4000, "[vdso]")), (0, mmap(2, 0xF7F1_A000, 0x4000, "[vdso]")))
    assert [dso.name for dso in source.dso_table.dsos] == ["[vdso]"]


def test_with_symfs_and_nothing_else_the_kernel_has_no_names(tmp_path: Path):
    source = timeline((0, kernel_mmap(KERNEL, 0x10000, pgoff=KERNEL)))
    assert frames(source, (1, KERNEL + 0x104, 1), mode=MISC_KERNEL, options=SymbolOptions(symfs=str(tmp_path)))[0].symbol == "-"


def test_vmlinux_names_the_kernel_wherever_it_was_loaded(tmp_path: Path):
    vmlinux = Elf(type=b.ET_EXEC).text(KERNEL, 0x1000).symbol("_text", KERNEL, 0, b.NOTYPE).symbol("start_kernel", KERNEL + 0x40, 32)
    put(tmp_path, "vm", vmlinux.build())
    source = timeline((0, kernel_mmap(KERNEL + 0x200000, 0x10000, pgoff=KERNEL + 0x200000)))
    options = SymbolOptions(vmlinux=str(tmp_path / "vm"))
    actual_frames = frames(source, (1, KERNEL + 0x200044, 1), mode=MISC_KERNEL, options=options)
    assert actual_frames == [("start_kernel", 4, "[kernel.kallsyms]", KERNEL + 0x200044, "k")]


def test_the_kernel_is_where_vmlinux_has_code_and_symbols(tmp_path: Path):
    vmlinux = Elf(type=b.ET_EXEC).text(KERNEL, 0x1000).section(".init.text", addr=KERNEL + 0x5000, offset=0x6000, size=0x1000)
    vmlinux.section(".data..percpu", addr=0, offset=0x7000, size=0x1000).symbol("per_cpu_thing", 0x10, 8, b.OBJECT, section=".data..percpu")
    vmlinux.symbol("_text", KERNEL, 0, b.NOTYPE).symbol("start_kernel", KERNEL + 0x5040, 32, section=".init.text")
    put(tmp_path, "vm", vmlinux.build())
    symbolizer = Symbolizer(timeline((0, kernel_mmap(KERNEL, 0x1000, pgoff=KERNEL))), SymbolOptions(vmlinux=str(tmp_path / "vm")))
    actual_frames = frames(symbolizer, *((1, at, 1) for at in (0x10, KERNEL + 0x5044, KERNEL + 0x6000)), mode=MISC_KERNEL)
    assert [(frame.symbol, frame.dso) for frame in actual_frames] == [("-", "-"), ("start_kernel", "[kernel.kallsyms]"), ("-", "-")]


@pytest.mark.parametrize(("ending", "pack"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress), (".zst", zstd.compress)])
def test_a_module_that_kallsyms_lacks_is_read_from_its_file(tmp_path: Path, ending: str, pack: Callable[[bytes], bytes]):
    module = Elf(type=b.ET_REL).text(0, 0x40, 0x100).symbol("probe", 0x20, 16).build()
    name = f"/lib/modules/6.1/extra/my-mod.ko{ending}"
    put(tmp_path, name, pack(module))
    source = timeline((0, kernel_mmap(0xFFFFFFFFC0100000, 0x1000, name)))
    symbolizer = Symbolizer(source, SymbolOptions(symfs=str(tmp_path)))
    actual_frames = frames(symbolizer, (1, 0xFFFFFFFFC0100024, 1), mode=MISC_KERNEL)[0]
    assert (actual_frames.symbol, actual_frames.offset, actual_frames.dso) == ("probe", 4, name)
    assert symbolizer.origin(0) == ("m" if ending else "K")


def test_a_perf_map_names_memory_without_a_file(tmp_path: Path):
    put(tmp_path, "/tmp/perf-4242.map", b"7000 40 JS:fib\n")
    source = timeline((0, comm(4242, "node")), (0, mmap(4242, 0x7000, 0x1000, "//anon")))
    actual_frames = frames(source, (4242, 0x7010, 1), options=SymbolOptions(symfs=str(tmp_path)))
    assert actual_frames == [("JS:fib", 0x10, "/tmp/perf-4242.map", 0x7010, ".")]


def test_a_perf_map_of_another_user_is_passed_over_unless_forced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "map").write_bytes(b"7000 40 forged\n")
    monkeypatch.setattr("perfpy.symbols.dso.perf_map_paths", lambda pid: iter([str(tmp_path / "map")]))
    monkeypatch.setattr("perfpy.untrusted.process_files.trusted_owners", lambda pid: {12345})
    source = timeline((0, comm(4242, "node")), (0, mmap(4242, 0x7000, 0x1000, "//anon")))
    forced = Symbolizer(source, SymbolOptions(force=True, cache=False))
    assert frames(forced, (4242, 0x7010, 1))[0].symbol == "forged"
    symbolizer = Symbolizer(source, SymbolOptions(cache=False))
    assert frames(symbolizer, (4242, 0x7010, 1))[0].symbol == "-"
    (lost,) = symbolizer.missing(np.array([1]))
    assert re.search(r"belongs to user \d+, not to the process: -f if you trust it", lost.looked[0])


def test_a_deleted_program_is_read_from_the_process_that_still_runs(root: Path):
    # this process: its own interpreter, under the name that it has now
    path = os.readlink("/proc/self/exe")
    source = timeline((0, mmap(os.getpid(), 0x401000, 0x1000, path, pgoff=0x1000)))
    symbolizer = Symbolizer(source, SymbolOptions())
    frames(symbolizer, (os.getpid(), 0x401004, 1))
    from perfpy.symbols.dso import paths_of

    assert f"/proc/{os.getpid()}/exe" in list(paths_of(path, {os.getpid()}))
    assert list(paths_of("/no/such/file", {os.getpid()})) == []


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, list[str]]]:
    """A debuginfod of our own: its address, and the paths that were asked for."""
    paths: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(tmp_path / "server"))  # type: ignore[arg-type]

        def do_GET(self) -> None:
            paths.append(self.path)
            super().do_GET()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}", paths
        httpd.shutdown()
        thread.join()


@pytest.fixture
def debuginfod(server: tuple[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The environment points at the server; the list of what it was asked."""
    monkeypatch.setenv("DEBUGINFOD_URLS", server[0])
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / "cache"))
    return server[1]


def fetched(debuginfod_on: bool, root: Path) -> str:
    options = SymbolOptions(symfs=str(root), debuginfod=debuginfod_on)
    return frames(mapped(build_id=ID), (1, 0x401004, 1), options=options)[0].symbol


def test_a_debuginfod_server_has_the_symbols_once(root: Path, tmp_path: Path, debuginfod: list[str]):
    put(tmp_path / "server", f"/buildid/{ID}/debuginfo", program("internal", build_id=ID).build())
    put(root, "/opt/prog", program("exported", build_id=ID, table=".dynsym").build())
    assert fetched(True, root) == "internal"
    assert fetched(True, root) == "internal"
    assert debuginfod == [f"/buildid/{ID}/debuginfo"]


def test_servers_are_queried_on_request_only(root: Path, tmp_path: Path, debuginfod: list[str], monkeypatch: pytest.MonkeyPatch):
    assert fetched(False, root) == "-"
    monkeypatch.delenv("DEBUGINFOD_URLS")
    assert fetched(True, root) == "-"
    assert debuginfod == []


def test_files_without_a_server_are_requested_once(root: Path, debuginfod: list[str]):
    assert [fetched(True, root) for _ in range(2)] == ["-", "-"]
    assert debuginfod == [f"/buildid/{ID}/debuginfo", f"/buildid/{ID}/executable"]


def test_a_server_that_lies_about_the_build_is_not_trusted(root: Path, tmp_path: Path, debuginfod: list[str]):
    put(tmp_path / "server", f"/buildid/{ID}/debuginfo", program("f", build_id=OTHER_ID).build())
    assert fetched(True, root) == "-"


def test_a_server_that_is_down_is_passed_over(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DEBUGINFOD_URLS", "http://127.0.0.1:9 nonsense://x http://[")
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / "cache"))
    assert fetched(True, root) == "-"


def test_an_unreachable_server_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DEBUGINFOD_URLS", "http://127.0.0.1:9")
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / "cache"))
    client = Client()
    assert client.fetch(ID) == ""
    assert client.servers == []
    assert not (tmp_path / "cache" / ID / "debuginfo").exists()  # nobody said that there is none


def test_missing_files_are_reported_with_build_id_and_searched_paths(root: Path):
    put(root, "/opt/known", program("f").build())
    source = timeline(
        (0, mmap(1, 0x401000, 0x1000, "/opt/gone", pgoff=0x1000, build_id=ID)), (0, mmap(1, 0x501000, 0x1000, "/opt/known", pgoff=0x1000)),
        (0, ksymbol(0xC000, 16, "bpf_prog_x")),
    )  # fmt: skip
    symbolizer = Symbolizer(source, SymbolOptions(symfs=str(root)))
    frames(symbolizer, (1, 0x401004, 1), (1, 0x501004, 1), (1, 0x501F00, 1), (1, 0x99, 1))
    lost = symbolizer.missing(np.array([7, 100, 2, 5]))
    assert [(item.dso.name, item.samples) for item in lost] == [("/opt/gone", 7), ("/opt/known", 2)]
    assert str(root) + "/opt/gone" in lost[0].looked
    lines = missing.note(lost, 114)
    assert lines[0] == "9 of 114 samples (7.9%) have no symbol: 7 in gone, 2 in known (-v shows more)"
    assert lines[1].startswith("  gone: not found, or another build: give --symfs")
    assert len(lines) == 2
    assert missing.note([], 10) == missing.note(lost, 901) == []  # below 1 %
    assert missing.note(lost, 901, everything=True)[1].startswith(f"  7 in /opt/gone (build-id {ID}): not found")
    everything = missing.note(lost, 114, everything=True)
    assert [line.strip() for line in everything if "looked in" in line] == [f"looked in {place}" for item in lost for place in item.looked]


def test_kernel_samples_of_a_recording_without_kernel_addresses_are_explained():
    """Where kptr_restrict hid the kernel when it was recorded, its samples are in no file at all."""
    symbolizer = Symbolizer(timeline((0, mmap(1, 0x401000, 0x1000, "//anon"))))
    frames(symbolizer, (1, 0x401004, 1), (1, 0x77, 1))
    frames(symbolizer, (1, 0xFFFFFFFF81000010, 1), mode=MISC_KERNEL)
    lost = symbolizer.missing(np.array([2, 9, 5]))
    assert [(item.dso.name, item.samples) for item in lost] == [("[kernel.kallsyms]", 5), ("/tmp/perf-1.map", 2)]
    assert missing.note(lost, 16)[1] == (
        "  [kernel.kallsyms]: its addresses were hidden when this was recorded: sysctl kernel.kptr_restrict=0, then record again as root"
    )


def test_kernel_samples_beside_a_known_kernel_are_no_hidden_ones():
    symbolizer = Symbolizer(timeline((0, kernel_mmap(0xFFFFFFFF81000000, 0x1000))))
    frames(symbolizer, (1, 0xFFFFFFFFC0000010, 1), mode=MISC_KERNEL)
    assert symbolizer.missing(np.array([5])) == []


def test_code_of_a_jit_compiler_is_reported_both_ways_to_get_its_names():
    symbolizer = Symbolizer(timeline((0, mmap(1, 0x401000, 0x1000, "//anon"))))
    frames(symbolizer, (1, 0x401004, 1))
    (lost,) = symbolizer.missing(np.array([2]))
    assert "perf map" in lost.advice
    assert "record --jit" in lost.advice


def test_code_that_a_map_lacks_has_no_advice_to_record_maps():
    section = encode({"/tmp/perf-1.map": b"402000 10 elsewhere\n"}, "<")
    kept_files = KeptFiles(lambda offset, size: section[offset : offset + size], len(section), "<", lambda _text: None)
    symbolizer = Symbolizer(timeline((0, mmap(1, 0x401000, 0x1000, "//anon"))), files=kept_files)
    frames(symbolizer, (1, 0x401004, 1))
    (lost,) = symbolizer.missing(np.array([2]))
    assert "named no code" in lost.advice
    assert "record --jit" not in lost.advice


def test_one_more_file_is_one_file(root: Path):
    source = timeline(*((0, mmap(1, 0x10000 * number, 0x1000, f"/opt/lib{number}")) for number in range(1, 7)))
    symbolizer = Symbolizer(source, SymbolOptions(symfs=str(root)))
    frames(symbolizer, *((1, 0x10000 * number, 1) for number in range(1, 7)))
    assert " and 3 more files (-v shows more)" in missing.note(symbolizer.missing(np.arange(1, 7)), 21)[0]
    assert " and 1 more file (-v shows more)" in missing.note(symbolizer.missing(np.arange(1, 7))[:4], 21)[0]


def test_only_the_files_with_most_samples_are_named_unless_all_are_wanted(root: Path):
    source = timeline(*((0, mmap(1, 0x10000 * number, 0x1000, f"/opt/lib{number}")) for number in range(1, 9)))
    symbolizer = Symbolizer(source, SymbolOptions(symfs=str(root)))
    frames(symbolizer, *((1, 0x10000 * number, 1) for number in range(1, 9)))
    lost = symbolizer.missing(np.arange(1, 9))
    assert [item.dso.name for item in lost] == [f"/opt/lib{number}" for number in range(8, 0, -1)]
    assert missing.note(lost, 36)[0].count(" in lib") == 3
    assert sum(" in /opt/lib" in line for line in missing.note(lost, 36, everything=True)) == 8
