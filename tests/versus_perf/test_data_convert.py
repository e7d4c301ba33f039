"""Tests that `data convert --to-json` writes what perf writes, for recordings of several machines."""

from __future__ import annotations

import json
import lzma
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from perfpy.cli import run
from tests.builders.own_corpus import RECORDINGS

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.versus_perf

FILES = (
    *("chains", "wide", "sched", "syscalls", "group-leader", "clock-monotonic", "tracepoint-dynamic", "weight"),
    *("arm64-chains-clock", "s390x-sched"),
)


def _convert(perf: str, source: Path, target: Path) -> str:
    environment = {**os.environ, "PERF_CONFIG": "/dev/null", "TZ": "UTC", "HOME": str(source.parent)}
    line = [perf, "data", "convert", "--to-json", str(target), "-i", str(source)]
    return subprocess.run(line, capture_output=True, env=environment, stdin=subprocess.DEVNULL, check=True, text=True).stderr


@pytest.mark.parametrize("name", FILES)
def test_the_json_is_perfs(
    name: str, perf: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, theirs, ours = (tmp_path / part for part in ("a.data", "theirs.json", "ours.json"))
    source.write_bytes(lzma.decompress((RECORDINGS / f"{name}.data.xz").read_bytes()))
    errors = _convert(perf, source, theirs)
    for variable in ("HOME", "XDG_CACHE_HOME", "PERF_BUILDID_DIR"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.setenv("PERF_CONFIG", "/dev/null")
    assert run(["data", "convert", "--to-json", str(ours), "-i", str(source)]) == 0
    assert ours.read_text() == theirs.read_text()
    assert json.loads(ours.read_text())["samples"]
    assert capsys.readouterr().err.splitlines() == errors.replace("theirs", "ours").splitlines()[-2:]
