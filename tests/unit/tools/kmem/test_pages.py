"""Tests of the functions that count as callers of the page allocator."""

from __future__ import annotations

import pytest

from perfpy.tools.kmem.pages import is_allocator


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
