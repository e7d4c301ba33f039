"""A higher priority for some time, for users who may have it."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from perfpy.workers.priority import HigherPriority

if TYPE_CHECKING:
    import pytest


def test_all_threads_return_to_their_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "getpriority", lambda _kind, _who: 3)
    monkeypatch.setattr(os, "setpriority", lambda _kind, who, value: calls.append((who, value)))
    with HigherPriority(10) as priority:
        assert calls == [(0, -7)]
        priority.end()
        assert (threading.get_native_id(), 3) in calls
        count = len(calls)
    assert len(calls) == count


def test_users_without_permission_keep_their_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def refuse(_kind: int, _who: int, value: int) -> None:
        calls.append(value)
        raise PermissionError

    monkeypatch.setattr(os, "setpriority", refuse)
    with HigherPriority(10):
        pass
    assert len(calls) == 1
