"""Names of descriptors at the moments of events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.tracing import descriptor_names
from perfpy.tracing.descriptor_names import DescriptorNames, NameChanges, NameIds
from perfpy.tracing.descriptor_tables import DescriptorTable, OpenFile

if TYPE_CHECKING:
    import pytest


def names_of(changes: NameChanges, rows: list[tuple[int, int, int]], tables: dict[int, DescriptorTable]) -> list[str]:
    """Return the names of (process, descriptor, key)."""
    pids, numbers, keys = (np.array(column) for column in zip(*rows, strict=True))
    names = DescriptorNames(
        pids.astype(np.int32), keys.astype(np.uint64), tables, changes, lambda pid, number: f"anon_inode:{pid * number}"
    )
    return names.names(np.arange(len(rows)), numbers.astype(np.int32))


def test_a_name_holds_until_the_return_that_changes_it():
    changes = NameChanges(NameIds())
    changes.note(7, 3, 10, "", "/a")
    changes.note(7, 4, 15, "/x", "")
    changes.note(7, 3, 20, "/a", "")
    changes.note(7, 3, 30, "", "/b")

    keys = (5, 10, 11, 20, 21, 30, 31)
    assert names_of(changes, [(7, 3, key) for key in keys], {}) == ["", "", "/a", "/a", "", "", "/b"]
    assert names_of(changes, [(7, 4, 15), (7, 4, 16), (8, 4, 16)], {}) == ["/x", "", "anon_inode:32"]


def test_unchanged_descriptors_have_the_name_in_their_table_or_their_present_one():
    tables = {7: DescriptorTable({0: OpenFile("/dev/null"), 5: OpenFile("/f")})}
    rows = [(7, 0, 1), (7, 5, 1), (7, 6, 1), (9, 0, 1), (7, -100, 1)]

    assert names_of(NameChanges(NameIds()), rows, tables) == ["/dev/null", "/f", "anon_inode:42", "anon_inode:0", ""]


def test_many_changes_of_one_descriptor_are_found_without_a_walk_over_all():
    changes = NameChanges(NameIds())
    for key in range(1, 20_000):
        changes.note(7, 3, key, "/a" if key & 1 else "/b", "/b" if key & 1 else "/a")
    rows = [(7, 3, key) for key in range(1, 20_000)]

    assert names_of(changes, rows, {}) == [("/a", "/b")[key + 1 & 1] for key in range(1, 20_000)]


def test_a_number_never_gets_another_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(descriptor_names, "_MOST_NAMES", 3)
    ids = NameIds()
    first = [ids.id(name) for name in ("", "/a", "/b", "/a", "/c", "/d")]
    assert first == [0, 1, 2, 1, 3, 4]
    ids.limit()
    assert [ids.id(name) for name in ("/d", "")] == [5, 0]
    assert ids.name(5) == "/d"
