"""Interned names, interpreters' frames, and the tables of symbols."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfpy.perfdata.kept_files import KeptFiles, encode
from perfpy.symbols import dso as dso_module
from perfpy.symbols import perf_map
from perfpy.symbols.dso import Dso, DsoKind
from perfpy.symbols.dso_symbols import SymbolLoader
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.interning import IdTable, first_occurrences, first_rows, number_values
from perfpy.symbols.symbolizer import Symbolizer, without_interpreters
from tests.builders.elf import Elf
from tests.builders.timeline import comm, frames, mmap, timeline

if TYPE_CHECKING:
    from pathlib import Path


# The hash table behind every group-by.


KEYS = st.lists(st.integers(0, (1 << 64) - 1) | st.integers(0, 7), max_size=200)


@given(st.lists(KEYS, max_size=5))
def test_ids_are_handed_out_in_order_of_first_appearance(batches):
    table = IdTable()
    expected: dict[int, int] = {}
    for batch in batches:
        result = [expected.setdefault(key, len(expected)) for key in batch]
        assert table.ids(np.array(batch, np.uint64)).tolist() == result
    assert table.keys.tolist() == list(expected)
    assert len(table) == len(expected)


@given(KEYS, KEYS)
def test_new_ids_come_with_the_places_where_they_were_first_seen(before, batch):
    table = IdTable()
    table.ids(np.array(before, np.uint64))
    _, new = table.ids_and_new(np.array(batch, np.uint64))
    fresh = [key for key in dict.fromkeys(batch) if key not in before]
    assert [batch[at] for at in new.tolist()] == fresh
    assert [batch.index(key) for key in fresh] == new.tolist()


@given(KEYS | st.lists(st.integers(0, 60), max_size=40))
def test_a_first_occurrence_has_no_equal_key_before_it(keys):
    expected = [key not in keys[:at] for at, key in enumerate(keys)]
    assert first_occurrences(np.array(keys, np.uint64)).tolist() == expected


@pytest.mark.parametrize("distinct", [10, 5000, 60_000])
def test_growing_keeps_every_id(distinct):
    rng = np.random.default_rng(distinct)
    pool = rng.integers(0, 1 << 63, distinct, dtype=np.uint64)
    table = IdTable()
    for _ in range(3):
        keys = pool[rng.integers(0, distinct, 40_000)]
        ids = table.ids(keys)
        assert (table.keys[ids] == keys).all()


def test_keys_for_one_slot_are_kept_separate_and_repetitions_of_them_are_not():
    inverse = pow(0x9E3779B97F4A7C15, -1, 1 << 64)  # of what keys are multiplied by to spread them
    crowd = [number * inverse % (1 << 64) for number in range(40)]  # all in the first slot
    table = IdTable()
    table.ids(np.array(crowd[:9], np.uint64))
    batch = [*crowd[20:5:-1], *crowd, *crowd[::-1]]
    expected = {key: number for number, key in enumerate(dict.fromkeys([*crowd[:9], *batch]))}
    assert table.ids(np.array(batch, np.uint64)).tolist() == [expected[key] for key in batch]
    assert table.keys.tolist() == list(expected)


def test_keys_take_little_more_memory_than_themselves() -> None:
    """Recordings have millions of different addresses and stacks, which several tables know: free slots are what costs."""
    count = 300_000
    keys = np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    tracemalloc.start()
    try:
        table = IdTable()
        for begin in range(0, count, 50_000):
            table.ids(keys[begin : begin + 50_000])
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(table) == count
    assert used < 32 * count


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint64])
def test_many_small_numbers_are_numbered_as_few(dtype):
    values = np.array([7, 0, 7, 3, 5000] * 1000, dtype)
    numbers, ids = number_values(values)
    assert numbers.tolist() == [7, 0, 3, 5000]
    assert numbers.dtype == (np.uint64 if dtype == np.uint64 else np.int64)
    assert ids.tolist() == [0, 1, 0, 2, 3] * 1000
    assert first_rows(values).tolist() == [0, 1, 3, 4]


# Callchains without the frames of interpreters.


DSOS = [Dso("/usr/lib/libpython3.12.so.1.0"), Dso("/tmp/perf-7.map", DsoKind.JIT), Dso("/usr/lib/libc.so.6"), Dso("/usr/bin/python3.12")]
#: a frame id for each Dso, and the last for none
EVAL, PY, LIBC, MAIN, NOWHERE = range(5)
FRAME_DSO = np.array([0, 1, 2, 3, -1], np.int32)


def folded(*chains: list[int]) -> list[list[int]]:
    frames = np.array([frame for chain in chains for frame in chain], np.int32)
    counts = np.array([len(chain) for chain in chains], np.int64)
    result, sizes = without_interpreters(frames, counts, FRAME_DSO, DSOS)
    ends = np.cumsum(sizes)
    return [result[end - size : end].tolist() for end, size in zip(ends, sizes, strict=True)]


def test_frames_between_named_functions_go():
    assert folded([LIBC, EVAL, PY, EVAL, PY, EVAL, MAIN, LIBC, NOWHERE]) == [[LIBC, PY, PY, LIBC, NOWHERE]]


def test_the_innermost_frame_stays():
    assert folded([EVAL, PY, EVAL]) == [[EVAL, PY]]


def test_a_chain_without_named_functions_stays_unchanged():
    assert folded([LIBC, EVAL, MAIN], [], [EVAL, PY], [MAIN]) == [[LIBC, EVAL, MAIN], [], [EVAL, PY], [MAIN]]


def test_nothing_is_nothing():
    assert folded() == []


@pytest.mark.parametrize(
    "name", ["/usr/bin/node", "/usr/bin/python3", "/usr/lib/jvm/lib/server/libjvm.so", "/usr/lib/libpython3.13t.so.1.0"]
)
def test_interpreters_are_known_by_name(name: str):
    dsos = [Dso(name), DSOS[PY]]
    result, _ = without_interpreters(np.array([0, 1], np.int32), np.array([2]), np.array([1, 0], np.int32), dsos)
    assert result.tolist() == [0]


def test_images_of_jitdumps_name_functions_as_perf_maps_do():
    dsos = [Dso("/usr/bin/python3.13"), Dso("/home/u/jitted-7-1.so")]
    result, _ = without_interpreters(np.array([1, 0, 1, 0], np.int32), np.array([4]), np.array([0, 1], np.int32), dsos)
    assert result.tolist() == [1, 1]


def test_extension_modules_stay():
    dsos = [Dso("/usr/lib/python3.12/lib-dynload/_json.cpython-312-x86_64-linux-gnu.so"), Dso("/tmp/perf-7.map", DsoKind.JIT)]
    result, _ = without_interpreters(np.array([1, 0, 1], np.int32), np.array([3]), np.array([0, 1], np.int32), dsos)
    assert result.tolist() == [1, 0, 1]


# Symbol tables of perf maps that are being written, and of files that a recording brings along.


PID, CODE = 4242, 0x7000
PROGRAM = "/nowhere/jitted-4242-1.so"


def of_map(path: Path, monkeypatch: pytest.MonkeyPatch, options: SymbolOptions) -> Symbolizer:
    """With a perf map that was read once."""
    monkeypatch.setattr(dso_module, "perf_map_paths", lambda pid: iter([str(path)]))
    path.write_bytes(b"7000 10 first\n")
    symbolizer = Symbolizer(timeline((0, comm(PID, "node")), (0, mmap(PID, CODE, 0x1000, "//anon"))), options)
    assert names(symbolizer) == ["first", "-"]
    path.write_bytes(b"7000 10 first\n7010 10 second\n")
    return symbolizer


def names(symbolizer: Symbolizer) -> list[str]:
    table, rows = symbolizer.symbols_of(0, np.array([CODE, CODE + 16], np.uint64))
    return [table.name(row) if row >= 0 else "-" for row in rows.tolist()]


def test_a_map_that_is_being_written_is_read_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    symbolizer = of_map(tmp_path / "map", monkeypatch, SymbolOptions(live=True))
    assert symbolizer.has_grown(0)
    assert names(symbolizer) == ["first", "second"]
    assert not symbolizer.has_grown(0)


def test_but_not_in_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Their frames know symbols by the rows of one table."""
    symbolizer = of_map(tmp_path / "map", monkeypatch, SymbolOptions())
    assert not symbolizer.has_grown(0)
    assert names(symbolizer) == ["first", "-"]


def test_functions_of_all_maps_together_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A user can have many processes, each with a map of half a gigabyte."""
    monkeypatch.setattr(perf_map, "MOST_FUNCTIONS", 3)
    for pid in (1, 2, 3):
        (tmp_path / str(pid)).write_bytes(b"7000 10 first\n7010 10 second\n")
    monkeypatch.setattr(dso_module, "perf_map_paths", lambda pid: iter([str(tmp_path / str(pid))]))
    source = timeline(*((0, record) for pid in (1, 2, 3) for record in (comm(pid, "node"), mmap(pid, CODE, 0x1000, "//anon"))))
    symbolizer = Symbolizer(source, SymbolOptions())
    assert [len(symbolizer.symbols_of(number, np.array([CODE], np.uint64))[0]) for number in range(3)] == [2, 1, 0]
    assert {file.reason for file in symbolizer.unusable()} == {"too many functions in perf maps; the later ones have no names"}


def with_kept(files: dict[str, bytes]) -> Symbolizer:
    section = encode(files, "<")
    kept_files = KeptFiles(lambda offset, size: section[offset : offset + size], len(section), "<", lambda text: None)
    source = timeline((0, comm(PID, "node")), (0, mmap(PID, CODE, 0x1000, PROGRAM, pgoff=0x1000)))
    return Symbolizer(source, SymbolOptions(cache=False), files=kept_files)


def test_a_file_that_a_recording_brings_along_needs_no_path():
    image = Elf().text().segment(0x1000, 0x1000, 0x1000).symbol("JS:fib", 0x1000, 16).build()
    symbolizer = with_kept({PROGRAM: image})
    assert frames(symbolizer, (PID, CODE + 4, 1))[0].symbol == "JS:fib"
    assert symbolizer.origin(0) == "j"


def test_a_damaged_one_is_reported():
    symbolizer = with_kept({PROGRAM: Elf().text().build()[:40]})
    assert frames(symbolizer, (PID, CODE + 4, 1))[0].symbol == "-"
    assert [file.path for file in symbolizer.unusable()] == [PROGRAM]


def test_files_that_are_no_programs_are_skipped():
    assert frames(with_kept({PROGRAM: b"names"}), (PID, CODE + 4, 1))[0].symbol == "-"


def test_files_that_were_not_used_lately_are_forgotten_beyond_a_limit():
    """Those used since the last call stay, also if they alone take more."""
    mapped = [(0, mmap(PID, CODE + 0x1000 * number, 0x1000, f"/nowhere/{number}")) for number in range(3)]
    image = Elf().text().segment(0x1000, 0x1000, 0x1000).symbol("f", 0x1000, 16).build()
    stored = {f"/nowhere/{number}": image for number in range(3)}
    loader = SymbolLoader(timeline((0, comm(PID, "work")), *mapped), SymbolOptions(cache=False), stored)
    numbers = [number for number, dso in enumerate(loader._dsos) if dso.name.startswith("/nowhere")]
    for number in numbers:
        loader.table(number)
    loader.trim(0)
    assert set(numbers) <= loader.loaded_tables().keys()
    loader.table(numbers[0])
    loader.trim(1 << 20)
    assert set(numbers) <= loader.loaded_tables().keys()
    loader.table(numbers[0])
    loader.trim(0)
    assert [number for number in numbers if number in loader.loaded_tables()] == [numbers[0]]
    assert len(loader.table(numbers[1])) == len(loader.table(numbers[0]))
