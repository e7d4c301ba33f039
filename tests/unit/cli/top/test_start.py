"""The start of perfpy top ends with the first table, and leaves nothing changed."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

from perfpy.cli.top.start import Start

if TYPE_CHECKING:
    import pytest


def test_garbage_is_collected_again_after_the_first_table(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("setpriority", "sched_setscheduler"):
        monkeypatch.setattr(os, name, lambda *_values: None)
    frozen = gc.get_freeze_count()
    try:
        with Start() as start:
            assert not gc.isenabled()
            start.end()
            assert gc.isenabled()
            assert gc.get_freeze_count() > frozen
        gc.disable()
        with Start():
            pass
        assert not gc.isenabled()  # as before
    finally:
        gc.enable()
        gc.unfreeze()
