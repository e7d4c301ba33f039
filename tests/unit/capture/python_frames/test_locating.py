"""C functions by the method tables of their files."""

from __future__ import annotations

import random
import shutil
import subprocess
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.capture.python_frames import locating
from perfpy.capture.python_frames.locating import NO_CALL, CalledFunctions, MethodTables
from perfpy.symbols.files import elf
from perfpy.symbols.files.debug_files import ColumnFiles

if TYPE_CHECKING:
    from pathlib import Path

#: the structures of the public headers, without these headers
SOURCE = """
#include <stddef.h>
typedef void *(*function)(void *, void *);
struct method { const char *name; function function; int flags; const char *doc; };
struct module { long base[5]; const char *name; const char *doc; long size; struct method *methods; };
struct type { long head[3]; const char *name; long basic, item; function dealloc; long vectorcall; void *slots[13]; unsigned long flags;
              const char *doc; function traverse, clear; void *more[3]; function next; struct method *methods; void *rest[60]; };
struct slot { int number; void *function; };
struct spec { const char *name; int basic, item; unsigned flags; struct slot *slots; };
#define FUNCTION(name) void *name(void *self, void *argument) { volatile int number = __LINE__; (void)number; return self; }
FUNCTION(hidden_one) FUNCTION(hidden_two) FUNCTION(hidden_three) FUNCTION(hidden_four) FUNCTION(hidden_five) FUNCTION(hidden_six)
FUNCTION(shared) FUNCTION(no_name) FUNCTION(freed)
__attribute__((noinline)) void *continued(void *self, void *argument);
void *jumps(void *self, void *argument) { return continued(self, argument); }
void *continued(void *self, void *argument) { volatile int number = 7; (void)number; return argument; }
static struct method functions[] = {{"fast", hidden_one, 1, "text"}, {"slow", hidden_two, 0x80, 0}, {"copy", shared, 4, 0},
    {"bad name", no_name, 1, 0}, {"joins", jumps, 8, 0}, {0}};
static struct method methods[] = {{"run", hidden_three, 4, 0}, {"copy", shared, 4, 0}, {0}};
static struct method of_spec[] = {{"go", hidden_five, 4, 0}, {0}};
static struct slot slots[] = {{64, of_spec}, {63, hidden_six}, {52, freed}, {0}};
struct module module = {{1}, "pack.fastmod", 0, -1, functions};
struct type type = {{1}, "pack.Thing", 32, 0, freed, 0, {0}, 1 << 18, 0, 0, 0, {0}, hidden_four, methods};
struct spec spec = {"pack.Made", 48, 0, 1 << 18, slots};
"""
EXPECTED = {
    "hidden_one": "pack.fastmod.fast",
    "hidden_two": "pack.fastmod.slow",
    "hidden_three": "pack.Thing.run",
    "hidden_four": "pack.Thing.__next__",
    "hidden_five": "pack.Made.go",
    "hidden_six": "pack.Made.__next__",
    "shared": "copy",  # of two owners
    "jumps": "pack.fastmod.joins",
    "no_name": None,
    "continued": None,
    "freed": NO_CALL,
}


@pytest.fixture(scope="module", params=["shared", "program"])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """A stripped file with tables, and the addresses of its functions."""
    if not shutil.which("gcc") or not shutil.which("strip"):
        pytest.skip("no gcc")
    folder = tmp_path_factory.mktemp("tables")
    (folder / "tables.c").write_text(SOURCE + ("int main(void) { return 0; }" if request.param == "program" else ""))
    kind = ["-no-pie"] if request.param == "program" else ["-shared", "-fPIC"]
    path = folder / "tables"
    subprocess.run(["gcc", "-O2", "-fno-ipa-icf", *kind, "-o", path, folder / "tables.c"], check=True, timeout=60)
    file = elf.ElfFile(str(path))
    section = file.section(".symtab")
    assert section is not None
    strings, symbols = bytes(file.strings(section)), file.symbols(section)
    addresses = {
        strings[name:].partition(b"\0")[0].decode(): int(value) for name, value in zip(symbols["name"], symbols["value"], strict=True)
    }
    subprocess.run(["strip", path], check=True, timeout=60)
    return path, addresses


def offset_of(file: elf.ElfFile, address: int) -> np.uint64:
    segment = next(one for one in file.segments if 0 <= address - int(one["vaddr"]) < int(one["filesz"]))
    return np.uint64(address - int(segment["vaddr"]) + int(segment["offset"]))


def test_tables_name_functions_of_stripped_files(built: tuple[Path, dict[str, int]]):
    path, addresses = built
    file = elf.ElfFile(str(path))
    tables = MethodTables(file)
    starts = {name: tables.start_of(offset_of(file, addresses[name] + 2)) for name in EXPECTED}
    assert starts == {name: addresses[name] for name in EXPECTED}
    assert {name: tables.names.get(start) for name, start in starts.items()} == EXPECTED


def test_names_of_large_files_are_kept_between_runs(built: tuple[Path, dict[str, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, addresses = built
    monkeypatch.setattr(locating, "_LARGE_DATA", 0)
    first = MethodTables(elf.ElfFile(str(path)), ColumnFiles(str(tmp_path / "cache"), ".methods"))
    monkeypatch.setattr(MethodTables, "_read_tables", None)  # is not called again
    cached = MethodTables(elf.ElfFile(str(path)), ColumnFiles(str(tmp_path / "cache"), ".methods"))
    assert cached.names == first.names
    assert cached.names[addresses["hidden_one"]] == EXPECTED["hidden_one"]
    assert cached.that_continues_in(addresses["continued"], "joins") == "pack.fastmod.joins"


def test_damaged_kept_names_are_read_again(built: tuple[Path, dict[str, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, addresses = built
    monkeypatch.setattr(locating, "_LARGE_DATA", 0)
    MethodTables(elf.ElfFile(str(path)), ColumnFiles(str(tmp_path / "cache"), ".methods"))
    (kept,) = (tmp_path / "cache").iterdir()
    data = bytearray(kept.read_bytes())
    data[-16] ^= 1
    kept.write_bytes(data)
    tables = MethodTables(elf.ElfFile(str(path)), ColumnFiles(str(tmp_path / "cache"), ".methods"))
    assert tables.names[addresses["hidden_one"]] == EXPECTED["hidden_one"]


def test_a_last_call_that_is_a_jump_leaves_the_name_of_its_function(built: tuple[Path, dict[str, int]]):
    path, addresses = built
    tables = MethodTables(elf.ElfFile(str(path)))
    assert tables.that_continues_in(addresses["continued"], "joins") == "pack.fastmod.joins"
    assert tables.that_continues_in(addresses["continued"], "fast") is None
    assert tables.that_continues_in(addresses["hidden_one"], "joins") is None


def test_damaged_tables_have_names_that_are_identifiers_or_none(built: tuple[Path, dict[str, int]]):
    path, _ = built
    data = path.read_bytes()
    file = elf.ElfFile(str(path))
    segment = next(one for one in file.segments if int(one["flags"]) & 2)
    begin, size = int(segment["offset"]), int(segment["filesz"])
    relocations = file.section(".rela.dyn")
    assert relocations is not None
    for seed in range(150):
        chance, damaged = random.Random(seed), bytearray(data)
        for _ in range(chance.choice((1, 8, 64))):
            where = chance.choice((begin + chance.randrange(size), relocations.offset + chance.randrange(max(relocations.size, 1))))
            damaged[where : where + 8] = chance.choice((chance.randbytes(8), b"\xff" * 8, bytes(8), (begin + 64).to_bytes(8, "little")))
        try:
            tables = MethodTables(elf.ElfFile("damaged", bytes(damaged)))
        except elf.DAMAGE:
            continue
        assert all(
            name == NO_CALL or all(part.isidentifier() or part == "()" for part in name.split(".")) for name in tables.names.values()
        )


LOOP, EXTENSION, OTHER = locating._IN_INTERPRETER, locating._IN_EXTENSION, locating._IN_OTHER_FILE


@pytest.mark.parametrize(
    ("frames", "call", "expected"),
    [
        ([(None, OTHER), ("list.sort", LOOP), ("sorted", LOOP), (None, LOOP)], "", ("sorted", True)),  # the outermost is called
        ([(None, EXTENSION), (None, LOOP)], "burn", ("burn", False)),
        ([(None, EXTENSION), (None, LOOP)], "", ("", False)),
        ([(None, OTHER), (None, LOOP)], "burn", ("", False)),  # a Python function, or the interpreter's own work
        ([("pack.run", EXTENSION), (None, EXTENSION), (None, LOOP)], "run", ("pack.run", True)),  # within functions of Cython
        ([("pack.other", EXTENSION), (None, EXTENSION), (None, LOOP)], "run", ("run", False)),
        ([(None, EXTENSION), *[(None, LOOP)] * 5], "burn", ("", False)),  # garbage collection visits an object
        ([(NO_CALL, EXTENSION), (None, LOOP)], "burn", ("", False)),  # an argument is freed
        ([(None, EXTENSION), (NO_CALL, LOOP)], "burn", ("", False)),
        ([(None, EXTENSION), ("pack.Object.__call__", EXTENSION), (None, LOOP)], "burn", ("pack.Object.__call__", True)),
        ([("fast", EXTENSION), ("pack.Object.__call__", EXTENSION), (None, LOOP)], "burn", ("fast", True)),
        ([], "burn", ("", False)),
    ],
)
def test_the_function_nearest_to_the_loop_is_called(
    frames: list[tuple[str | None, int]], call: str, expected: tuple[str, bool], monkeypatch: pytest.MonkeyPatch
):
    native = [locating._NativeFrame(None, 0, name, kind) for name, kind in frames]
    monkeypatch.setattr(CalledFunctions, "_look_up", lambda _self, _symbolizer, number: native[number])
    assert CalledFunctions().find(None, np.arange(len(frames), dtype=np.int32), call) == expected  # type: ignore[arg-type]
