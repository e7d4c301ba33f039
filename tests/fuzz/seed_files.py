"""Seeds that are no recordings: ELF files, jitdumps, symbol lists, configuration, event files.

Output: their bytes, small and whole.
"""

from __future__ import annotations

import lzma
import struct
import zlib

from perfpy.untrusted.expansion import zstd_library
from tests.builders import elf as b
from tests.builders.elf import Elf
from tests.builders.plt_entries import FORMS, Form

BUILD_ID = "abcdef0123456789abcdef0123456789abcdef01"

KALLSYMS = b"""\
ffffffff81000000 T _text
ffffffff81000000 T _stext
ffffffff81000100 T do_one_thing
ffffffff81000200 t another.isra.0
ffffffff81001000 T last_one
ffffffff81100000 T _etext
ffffffffc0000000 t module_init	[a_module]
ffffffffc0001000 t bpf_prog_1	[bpf]
"""
PERFCONFIG = b"""\
# settings
[report]
	percent-limit = 0.5
	children = true
	sort_order = comm,dso
[buildid]
	dir = home/.debug
[core]
	debuginfo = no
[ui "x"]
	show = "a b" \\
  more
[call-graph]
	record-mode = fp
	print-limit = 3
[diff]
	order = 1
	compute = delta
[hist]
	percentage = absolute
"""
EVENTS = b"""\
[{"EventName": "CACHE.HIT", "EventCode": "0x1,0x2", "UMask": "0x0f", "BriefDescription": "hits",
  "SampleAfterValue": "2003", "MSRIndex": "0x1a6", "MSRValue": "0x10"},
 {"MetricName": "ratio", "MetricExpr": "(CACHE.HIT / cycles) * 100 if cycles > 0 else max(1, 2)",
  "MetricGroup": "A;B", "ScaleUnit": "100%", "Unit": "CBO"}]
"""
PERF_MAP = b"""\
1000 20 first
1020 40 LazyCompile:~x a.js:1
1010 100 over it
1200 8 py::f:a.py
"""


def jitdump(endian: str) -> bytes:
    """Two functions with lines and unwinding, one of which moves."""

    def record(kind: int, body: bytes) -> bytes:
        return struct.pack(endian + "IIQ", kind, 16 + len(body), 205) + body

    def load(name: bytes, address: int, code: bytes, index: int) -> bytes:
        return record(0, struct.pack(endian + "IIQQQQ", 7, 7, address, address, len(code), index) + name + b"\0" + code)

    def line(address: int, number: int, file: bytes) -> bytes:
        return struct.pack(endian + "QII", address, number, 0) + file + b"\0"

    head = struct.pack(endian + "IIIIIIQQ", 0x4A695444, 1, 40, 62, 0, 7, 5, 0)
    lines = record(2, struct.pack(endian + "QQ", 0x1000, 2) + line(0x1000, 1, b"a.js") + line(0x1008, 9, b"b.js"))
    unwinding = record(4, struct.pack(endian + "QQQ", 6, 2, 6) + b"frameH  ")
    moved = record(1, struct.pack(endian + "IIQQQQQ", 7, 7, 0, 0x1000, 0x1200, 32, 1))
    code = load(b"first", 0x1000, bytes(32), 1) + load(b"../second", 0x1100, bytes(64), 2)
    return head + lines + unwinding + code + moved + record(3, b"")


def debug_file() -> bytes:
    """What a .gnu_debuglink leads to."""
    return Elf(type=b.ET_EXEC).text(0x1000, size=64).symbol("from_debug_file", 0x1000, 64).build_id(BUILD_ID).build()


def _chdr(kind: int, packed: bytes, size: int) -> bytes:
    return struct.pack("<IIQQ", kind, 0, size, 1) + packed


def _bare(**options: object) -> Elf:
    return Elf(**options).segment(0x1000, 0x1000, 0x2000).text(0x1400, size=0x200)  # type: ignore[arg-type]


def _program(**options: object) -> Elf:
    file = _bare(**options).symbol("main", 0x1400, 16).symbol("_Z3addii", 0x1410, 16)
    return file.symbol("_RNvCs1234_3foo3bar", 0x1420, 16).build_id(BUILD_ID)


_LAYOUTS = ("x86-64 lazy", "x86-64 got", "i386 ebx", "arm64", "arm", "riscv64", "s390x")


def _with_plt(form: Form) -> Elf:
    """The entries of a layout, and an IFUNC."""
    file = _program(machine=form.machine, bits=form.bits, endian=form.endian)
    for name in ("puts", "_Z3subii"):
        file.symbol(name, 0, 0, section=b.UNDEF, table=".dynsym")
    code = form.header + form.entries(0x1020 + len(form.header), [0x4000, 0x4008, 0x4010], 0x3F00)
    file.section(form.table, code, addr=0x1020, offset=0x1020).section(".got", addr=0x3F00, size=16)
    file.relocations(".rela.plt", [(0x4000, 1, 7, 0), (0x4010, 0, form.irelative, 0x1400)])
    return file.relocations(".rela.dyn", [(0x4008, 2, 6, 0)])


def _packed() -> Elf:
    names = b"\0main\0other\0"
    symbols = bytes(24) + struct.pack("<IBBHQQ", 1, 0x12, 0, 1, 0x1400, 16) + struct.pack("<IBBHQQ", 6, 0x12, 0, 1, 0x1410, 16)
    flags = b.ALLOC | b.COMPRESSED
    packed = _chdr(1, zlib.compress(symbols), len(symbols))
    file = _bare().section(".symtab", packed, type=b.SYMTAB, flags=flags, link=".strtab", entsize=24)
    return file.section(".strtab", _chdr(2, zstd_library().compress(names), len(names)), type=b.STRTAB, flags=flags)


def _with_names() -> Elf:
    file = _program().symbol("_ZNSt3mapISsSt4pairIKSsiEE6insertE", 0x1430, 16)
    return file.symbol("_R" * 60 + "Nv", 0x1440, 16).symbol("x" * 600, 0x1450, 256)


def elf_files() -> dict[str, bytes]:
    """Executables with everything that symbols are read from."""
    inside = lzma.compress(_program().build())
    return {
        "elf": _program().build(),
        "elf 32 >": _program(bits=32, endian=">", machine=b.PPC64).build(),
        **{f"elf plt {name}": _with_plt(FORMS[name]).build() for name in _LAYOUTS},
        "elf packed": _packed().build(),
        "elf in elf": _bare().section(".gnu_debugdata", inside, flags=0).build(),
        "elf names": _with_names().build(),
        "elf debuglink": _program().section(".gnu_debuglink", b"app.debug\0\0\0crc!", flags=0).build(),
        "elf object": _bare(type=b.ET_REL).symbol("deep" * 60, 0x1400, 64).section(".debug_line", bytes(64), flags=0).build(),
    }
