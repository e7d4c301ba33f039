"""-e texts that name probes are told apart from events, and orphans are removed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

import pytest

from perfpy.cli.dispatch.commands import load
from perfpy.cli.line.shared import events_with_filters, names_probe
from perfpy.cli.probe.temporary_probes import remove_orphans

if TYPE_CHECKING:
    from perfpy.kernel.probe_events import ProbeEvents


@pytest.mark.parametrize(
    "text", ["uprobe:./app:parse", "uprobe:app:parse n", "probe:./app:parse", "./app:parse%return", "/bin/app:a.c:3", "../a:b"]
)
def test_these_are_probes(text: str) -> None:
    assert names_probe(text)


@pytest.mark.parametrize(
    "text",
    [
        "cycles:u",
        "probe:vfs_read",
        "probe:vfs_read:u",
        "uprobe/path=/a,offset=1/",
        "sched:sched_switch",
        "r1a8:k",
        "cpu/event=1/u",
        "./app",
        "",
    ],
)
def test_these_are_events(text: str) -> None:
    assert not names_probe(text)


def test_texts_are_replaced_in_the_order_of_the_line() -> None:
    """Filters stay after the events that they belong to."""
    command = load("record")
    parser = command.parser(["-e", "./a:b", "--filter", "n > 1", "-e", "cycles", "--", "true"])
    options = command.options_class.read(parser).replace_texts("event", ["g:b", "cycles"])
    assert options.event == ("g:b", "cycles")
    assert events_with_filters(options) == (["g:b", "cycles"], [(1, "n > 1")])


class FakeEvents:
    """A kernel's list of probes."""

    def __init__(self, *lines: str) -> None:
        self.kept = list(lines)
        self.owners: set[int] = set()

    def lines(self, *, is_kernel: bool) -> list[str]:
        return [] if is_kernel else list(self.kept)

    def may_own(self, pid: int, _group: str) -> bool:
        return pid in self.owners

    def remove(self, group: str, event: str, *, is_kernel: bool) -> None:
        self.kept = [line for line in self.kept if not line.startswith(f"p:{group}/{event} ")]


def test_probes_of_ended_processes_are_removed_and_no_others() -> None:
    mine, others = f"p:probe_app_by{os.getpid()}/a /a:0x1", "p:probe_app/a /a:0x1"
    events = FakeEvents(mine, others, "p:probe_app_by999999999/a /a:0x1", "p:probe_app_by999999999/a /a:0x2", "p:x/y_by999999999 /a:0x1")
    events.owners = {os.getpid()}
    assert remove_orphans(cast("ProbeEvents", events)) == 1
    assert events.kept == [mine, others, "p:x/y_by999999999 /a:0x1"]
    events.owners = set()  # another process has got the pid
    assert remove_orphans(cast("ProbeEvents", events)) == 1
    assert events.kept == [others, "p:x/y_by999999999 /a:0x1"]
