"""`perfpy kmem`: the tables of allocations, by call site, page and slab."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from perfpy.cli import run
from perfpy.recording import Recording
from perfpy.symbols.symbolizer import Symbolizer
from perfpy.tools.kmem.pages import is_allocator
from perfpy.tools.kmem.slab import SlabRow, SlabUse, read_slab, slab_lines, sorted_slab
from tests.builders.kernel_events import recording_of_allocations
from tests.builders.tracepoint_events import EventRecording

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


# Tests of `perfpy kmem stat`: options of the tables, and refusals.


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A recording of allocations."""
    file = tmp_path / "perf.data"
    file.write_bytes(recording_of_allocations())
    return str(file)


def test_sort_and_limit_belong_to_the_table_before_them(path, capsys):
    assert run(["kmem", "stat", "--caller", "-l", "1", "--alloc", "-l", "2", "-i", path]) == 0
    tables = capsys.readouterr().out.split("Frag\n")[1:]
    assert [sum(line.startswith(" 0x") for line in table.splitlines()) for table in tables] == [1, 2]


def test_options_may_stand_on_both_sides_of_the_action(path, capsys):
    assert run(["kmem", "--page", "-i", path, "--alloc", "-l", "2", "stat"]) == 0
    before = capsys.readouterr().out
    assert run(["kmem", "stat", "--page", "--alloc", "-l", "2", "-i", path]) == 0
    assert capsys.readouterr().out == before


def test_the_caller_of_pages_is_shown_by_address_without_symbols(path, capsys):
    assert run(["kmem", "--page", "--caller", "-i", path, "stat"]) == 0
    assert "| 7000\n" in capsys.readouterr().out


def test_callers_in_json_are_addresses_even_with_symbols(path, tmp_path, monkeypatch):
    """As in perf, which resolves no functions there."""
    monkeypatch.setattr(Symbolizer, "kernel_symbol", lambda *_: ("caller", 0))
    assert run(["data", "convert", "--to-json", str(tmp_path / "out.json"), "-i", path, "--force"]) == 0
    samples = json.loads((tmp_path / "out.json").read_text())["samples"]
    assert {sample["call_site"] for sample in samples if "call_site" in sample} >= {"0x1000", "0x1010"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--alloc", "-s", "page"], "-s page: unknown sort key; expected ptr, callsite, bytes, hit, pingpong, frag"),
        (["--page", "--alloc", "-s", "ptr"], "-s ptr: unknown sort key; expected page, callsite, bytes, hit, order, migtype, gfp"),
    ],
)
def test_a_sort_key_of_the_other_allocator_is_refused(words, message, path, capsys):
    assert run(["kmem", *words, "-i", path, "stat"]) == 129
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["slab", "page"])
def test_a_recording_without_allocations_is_refused_with_the_line_that_records_them(kind, tmp_path, capsys):
    file = tmp_path / "perf.data"
    file.write_bytes(EventRecording(["kmem:kfree"]).event("kmem:kfree", 10**9, 1, 2).file())
    assert run(["kmem", f"--{kind}", "-i", str(file), "stat"]) == 129
    assert f"perfpy kmem --{kind} record -- COMMAND" in capsys.readouterr().err


# Tests of the functions that count as callers of the page allocator.


@pytest.mark.parametrize(
    "name",
    [
        "__alloc_pages_noprof", "__alloc_frozen_pages_noprof", "alloc_pages_mpol", "alloc_pages_bulk_noprof", "get_zeroed_page_noprof",
        "__get_free_pages", "folio_alloc_noprof", "vma_alloc_folio_noprof", "filemap_alloc_folio_noprof", "folio_prealloc",
        "__alloc_pages_slowpath.constprop.0", "alloc_page_buffers",
    ],
)  # fmt: skip
def test_functions_of_the_allocator_are_no_callers(name):
    assert is_allocator(name)


@pytest.mark.parametrize("name", ["anon_pipe_write", "do_anonymous_page", "pte_alloc_one", "__filemap_get_folio", "", "my_alloc_pages"])
def test_other_functions_are_callers(name):
    assert not is_allocator(name)


# Tests of objects of the slab allocator: who allocated them, and which frees belong to them.


_NAMES = ("kmem:kmalloc", "kmem:kfree", "kmem:kmem_cache_alloc", "kmem:kmem_cache_free")


@pytest.fixture
def use_of(tmp_path: Path) -> Callable[[list[tuple[int, ...]]], SlabUse]:
    """The function from events to their sums: (address, site, requested, allocated, node, CPU) or, for a free, (address, CPU)."""

    def read(events: list[tuple[int, ...]]) -> SlabUse:
        recording = EventRecording(_NAMES)
        for number, event in enumerate(events):
            address, *others, cpu = event
            if others:
                site, requested, allocated, node = others
                recording.event("kmem:kmalloc", 10**9 + number, site, address, requested, allocated, 0xCC0, node, cpu=cpu)
            else:
                recording.event("kmem:kfree", 10**9 + number, 99, address, cpu=cpu)
        path = tmp_path / "perf.data"
        path.write_bytes(recording.file())
        with Recording(str(path)) as opened:
            return read_slab(opened.data, None, {1: 1})

    return read


def test_rows_are_sums_by_call_site_and_by_address(use_of):
    use = use_of([(0x100, 1, 60, 64, -1, 0), (0x200, 1, 30, 32, -1, 0), (0x100, 2, 60, 64, -1, 0)])
    assert [(row.key, row.requested, row.allocated, row.hits) for row in use.sites] == [(1, 90, 96, 2), (2, 60, 64, 1)]
    assert [(row.key, row.site, row.hits) for row in use.objects] == [(0x100, 2, 2), (0x200, 1, 1)]
    assert use.sites[0].fragmentation == 6.25


def test_a_free_belongs_to_the_last_allocation_at_its_address(use_of):
    use = use_of([(0x100, 1, 60, 64, -1, 0), (0x100, 2, 100, 128, -1, 1), (0x100, 0), (0x300, 0)])
    assert use.totals.freed == 128
    assert [(row.key, row.ping_pongs) for row in use.sites] == [(1, 0), (2, 1)]


def test_a_second_free_is_a_ping_pong(use_of):
    use = use_of([(0x100, 1, 60, 64, -1, 0), (0x100, 0), (0x100, 0)])
    assert (use.totals.freed, use.objects[0].ping_pongs) == (128, 1)


def test_allocations_for_another_node_are_counted(use_of):
    use = use_of([(0x100, 1, 60, 64, 0, 0), (0x200, 1, 60, 64, 0, 1), (0x300, 1, 60, 64, -1, 1)])
    assert (use.totals.cross_node, use.totals.allocations) == (1, 3)


def test_a_free_before_any_allocation_counts_nothing(use_of):
    use = use_of([(0x100, 0), (0x200, 1, 60, 64, -1, 0)])
    assert (use.totals.freed, len(use.objects)) == (0, 1)


def test_equal_rows_stand_in_the_order_of_their_addresses(use_of):
    use = use_of([(address, address, 60, 64, -1, 0) for address in (0x300, 0x100, 0x200)])
    assert [row.key for row in sorted_slab(use.objects, ["bytes"])] == [0x100, 0x200, 0x300]
    assert [row.key for row in sorted_slab(use.objects, ["ptr"])] == [0x300, 0x200, 0x100]


# The table of the slab allocator's objects.


def test_large_numbers_widen_their_column():
    """As in perf 6.12: a blank stays before each bar."""
    row = SlabRow(key=1, site=1, requested=131632, allocated=262144, hits=2, ping_pongs=0)
    line = list(slab_lines([row], "Callsite", lambda _: "site", has_more=False))[3]
    assert line == " site" + " " * 30 + " |    262144/131072 |    131632/65816 |        2 |         0 | 49.786%"
