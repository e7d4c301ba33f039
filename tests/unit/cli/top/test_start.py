"""The start of perfpy top ends with the first table, and leaves nothing changed."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

from perfpy.cli.top import start
from perfpy.cli.top.start import Start

if TYPE_CHECKING:
    import pytest


def test_garbage_is_collected_again_after_the_first_table(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("setpriority", "sched_setscheduler"):
        monkeypatch.setattr(os, name, lambda *_values: None)
    frozen = gc.get_freeze_count()
    try:
        with Start() as begun:
            assert not gc.isenabled()
            begun.end()
            assert gc.isenabled()
            assert gc.get_freeze_count() > frozen
        gc.disable()
        with Start():
            pass
        assert not gc.isenabled()  # as before
    finally:
        gc.enable()
        gc.unfreeze()


def test_programs_before_the_first_table_are_no_realtime_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    realtime: list[float] = []
    monkeypatch.setattr(start, "HigherPriority", lambda _change, seconds: realtime.append(seconds))
    Start()
    Start(runs_programs=True)
    assert realtime == [2, 0]
