"""How long the attrs of a file are."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.capture.output.attr_size import known_here


@pytest.mark.parametrize(
    ("release", "config3", "size"), [("6.18.1", 0, 136), ("6.3.0-1-x", 0, 136), ("6.1.0-56-arm64", 0, 128), ("6.1.0", 1, 136)]
)
def test_a_perf_as_old_as_the_kernel_reads_them(monkeypatch, release, config3, size):
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(release=release))
    attr = EventAttr(type=1, config3=config3)
    assert known_here(attr).size == size
    assert len(known_here(attr).pack("<")) == size
    assert known_here(attr) == attr
