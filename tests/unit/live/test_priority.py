"""A higher priority for some time, for users who may have it."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest

from perfpy.live import priority
from perfpy.live.priority import HigherPriority

if TYPE_CHECKING:
    from pathlib import Path


def test_all_threads_return_to_their_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "getpriority", lambda _kind, _who: 3)
    monkeypatch.setattr(os, "setpriority", lambda _kind, who, value: calls.append((who, value)))
    with HigherPriority(10) as higher:
        assert calls == [(0, -7)]
        higher.include(4321)
        higher.end()
        assert {(threading.get_native_id(), 3), (4321, 3)} <= {*calls}
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


class Scheduler:
    """The kernel's scheduling policies of tasks, as far as os changes them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, load: str) -> None:
        self.policies: list[tuple[int, int]] = []
        monkeypatch.setattr(os, "setpriority", lambda *_values: None)
        monkeypatch.setattr(os, "sched_setscheduler", lambda tid, policy, _param: self.policies.append((tid, policy)))
        monkeypatch.setattr(priority, "_LOAD", load)


@pytest.mark.parametrize(
    ("text", "is_realtime"), [("0.1 9 9 2/90 7", False), ("0.1 9 9 9999/99999 7", True), ("9999 9 9 1/90 7", True), ("?", False)]
)
def test_only_busy_machines_need_realtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, is_realtime: bool) -> None:
    load = tmp_path / "loadavg"
    load.write_text(text)
    scheduler = Scheduler(monkeypatch, str(load))
    with HigherPriority(10, realtime=60.0) as higher:
        assert scheduler.policies == [(0, os.SCHED_RR)] * is_realtime
        higher.include(4321)
        higher.end()
        ended = dict(scheduler.policies[1:])
        assert {threading.get_native_id(), 4321} <= ended.keys() if is_realtime else not ended
        assert {*ended.values()} <= {os.SCHED_OTHER}
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_an_alarm_ends_realtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Work that takes longer than planned must not keep others from the CPU."""
    load = tmp_path / "loadavg"
    load.write_text("9999 9 9 1/90 7")
    scheduler = Scheduler(monkeypatch, str(load))
    before = signal.getsignal(signal.SIGALRM)
    with HigherPriority(10, realtime=0.01):
        end = time.monotonic() + 10
        while len(scheduler.policies) < 2 and time.monotonic() < end:
            sum(range(1000))
        assert scheduler.policies[1][1] == os.SCHED_OTHER
        assert signal.getsignal(signal.SIGALRM) == before


def test_other_threads_get_no_alarm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only the main thread can handle it, so the policy stays."""
    load = tmp_path / "loadavg"
    load.write_text("9999 9 9 1/90 7")
    scheduler = Scheduler(monkeypatch, str(load))

    def work() -> None:
        with HigherPriority(10, realtime=0.01):
            pass

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not scheduler.policies
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
