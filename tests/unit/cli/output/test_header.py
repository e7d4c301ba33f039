"""`evlist` over --control describes the open events."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

from perfpy.cli.output.header import event_lines
from perfpy.kernel import sysfs
from tests.builders.perfdata import usual_attr

if TYPE_CHECKING:
    import pytest


def test_the_names_of_pmus_are_read_once_for_all_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer may request this list again and again; each reading of sysfs delays the end of the measurement."""
    reads = []

    class Machine:
        pmus = (SimpleNamespace(type=1, name="software"),)

        def __init__(self) -> None:
            reads.append(1)

    monkeypatch.setattr(sysfs, "Sysfs", Machine)
    events = [SimpleNamespace(name=f"event{number}", attr=usual_attr()) for number in range(10)]
    lines = event_lines(events, "-v").splitlines()  # type: ignore[arg-type]
    assert [line.partition(":")[0] for line in lines] == [event.name for event in events]
    assert all("type: 1 (software)" in line for line in lines)
    assert len(reads) == 1
    assert event_lines(events[:1], "") == "event0"  # type: ignore[arg-type]
