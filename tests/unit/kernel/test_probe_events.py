"""The file of dynamic probes gets one definition at a time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from perfpy.errors import KernelRefusedError
from perfpy.kernel.probe_events import ProbeEvents
from perfpy.kernel.tracefs import Tracefs

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("text", ["p:a/b /x:0x1\np:c/d /bin/sh:0x2", "p:a/b /x:0x1 #"])
def test_several_lines_are_not_written(text: str, tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    (tmp_path / "kprobe_events").write_text("")
    events = ProbeEvents(Tracefs((str(tmp_path),)))
    with pytest.raises(KernelRefusedError, match="more than one line"):
        events.add(text, None)
    events.add("p:a/b vfs_read+0", None)
    assert (tmp_path / "kprobe_events").read_text() == "p:a/b vfs_read+0\n"


def test_a_process_owns_probes_that_are_younger_or_whose_list_it_has_open(tmp_path: Path) -> None:
    group = tmp_path / "events" / "probe_a_by1"
    group.mkdir(parents=True)
    (tmp_path / "uprobe_events").write_text("")
    events = ProbeEvents(Tracefs((str(tmp_path),)))
    pid = os.getpid()
    assert events.may_own(pid, group.name)
    os.utime(group, (0, 1))
    assert not events.may_own(pid, group.name)
    fd = events.open()
    assert events.may_own(pid, group.name)
    os.close(fd)
    assert not events.may_own(pid, group.name)
    assert events.may_own(pid, "a_group_without_a_folder")
    assert not events.may_own(999_999_999, group.name)
