"""--affinity: the CPUs on which ring buffers are read."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from perfpy.capture.rings.affinity import mover
from perfpy.capture.rings.sample_counters import CounterTarget

if TYPE_CHECKING:
    import pytest

    from perfpy.capture.rings.sample_counters import SampleCounters


def counters(*cpus: int) -> SampleCounters:
    """One ring buffer for each CPU."""
    opened = [SimpleNamespace(ring=ring, target=CounterTarget(cpu, -1)) for ring, cpu in enumerate(cpus)]
    return cast("SampleCounters", SimpleNamespace(cpus=cpus, opened=opened))


def test_each_ring_is_read_on_its_cpu_and_moves_only_where_it_must(monkeypatch: pytest.MonkeyPatch):
    moves: list[Any] = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cpus: moves.append((pid, set(cpus))))
    move = mover("cpu", counters(0, 3))
    for ring in (0, 0, 1, 0):
        move(ring)
    assert moves == [(0, {0}), (0, {3}), (0, {0})]


def test_rings_of_threads_are_read_anywhere(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "sched_setaffinity", None)
    move = mover("cpu", counters(-1))
    move(0)


def test_an_offline_cpu_is_read_from_where_one_is(monkeypatch: pytest.MonkeyPatch):
    def refuse(_pid: int, _cpus: object) -> None:
        raise OSError

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    move = mover("cpu", counters(7))
    move(0)
