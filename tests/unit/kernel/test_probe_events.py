"""The file of dynamic probes gets one definition at a time."""

from __future__ import annotations

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
    (tmp_path / "uprobe_events").write_text("")
    events = ProbeEvents(Tracefs((str(tmp_path),)))
    with pytest.raises(KernelRefusedError, match="more than one line"):
        events.add(text, is_kernel=False)
    events.add("p:a/b /x:0x1", is_kernel=False)
    assert (tmp_path / "uprobe_events").read_text() == "p:a/b /x:0x1\n"
