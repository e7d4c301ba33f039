"""The tables of descriptors are bounded: a user may have a million descriptors, and as many processes with copies of them."""

from __future__ import annotations

import pytest

from perfpy.tracing import descriptors as module
from perfpy.tracing.descriptor_rules import RULES, Call
from perfpy.tracing.descriptor_tables import DescriptorTable, OpenFile
from perfpy.tracing.descriptors import Descriptors


def table(count: int) -> DescriptorTable:
    return DescriptorTable({number: OpenFile(f"/file{number}") for number in range(count)})


def test_tables_of_children_are_dropped_if_all_together_are_too_large(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_MOST_FILES", 1000)
    followed = Descriptors("x86_64")
    followed.add_process(1, table(300))
    for child in range(2, 50):
        followed.fork(child - 1, child)
    assert list(followed._tables) == [47, 48, 49]
    assert followed._count == sum(len(one.files) for one in followed._tables.values()) == 900


def test_descriptors_are_counted_when_they_close(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_MOST_FILES", 1000)
    followed = Descriptors("x86_64")
    followed.add_process(1, table(300))
    followed.add_process(1, table(200))
    followed.table(1).files[5] = OpenFile("/file5", closes_on_exec=True)
    followed.execute(1, 0)
    assert followed._count == 199
    followed.forget([1, 2])
    assert followed._count == 0


@pytest.mark.parametrize(("present", "name"), [("pipe:[7]", "pipe:[7]"), ("/etc/passwd", "pipe"), ("", "pipe")])
def test_a_pipe_has_its_present_name_unless_its_descriptor_is_another_file_by_now(present, name):
    followed = Descriptors("x86_64", read_name=lambda _pid, _number: present)
    RULES["pipe2"](followed, Call(0, 1, 1, (0x7F00, 0o2000000), 0, {0: "[3, 4]"}))

    assert followed.table(1).files == {3: OpenFile(name, closes_on_exec=True), 4: OpenFile(name, closes_on_exec=True)}


def test_a_pipe_whose_descriptors_are_unreadable_has_no_name():
    followed = Descriptors("x86_64")
    RULES["socketpair"](followed, Call(0, 1, 1, (1, 1, 0, 0x7F00), 0, {}))

    assert followed.table(1).files == {}
