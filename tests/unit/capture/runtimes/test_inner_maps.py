"""Perf maps of processes in pid namespaces."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perfpy.capture.runtimes import inner_maps
from perfpy.capture.runtimes.inner_maps import InnerMaps
from perfpy.symbols import mapped_names

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def maps(monkeypatch: pytest.MonkeyPatch) -> InnerMaps:
    """Looks at this process's descendants; their pid inside is 1."""
    monkeypatch.setattr(inner_maps, "innermost_pid", lambda pid: 999_999_999 if mapped_names.innermost_pid(pid) else 0)
    return InnerMaps([])


@pytest.fixture
def perf_map() -> Iterator[Path]:
    path = Path("/tmp/perf-999999999.map")
    path.unlink(missing_ok=True)
    yield path
    path.unlink(missing_ok=True)


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"])


def test_the_map_of_an_ended_process_is_held(maps: InnerMaps, perf_map: Path) -> None:
    with sleeper() as process:
        maps._recorded = (process.pid,)
        maps.look()
        perf_map.write_bytes(b"1000 10 inside\n")
        maps.look()
        assert maps.read(process.pid) == b""  # it runs: its map may grow
        process.kill()
    maps.look()
    perf_map.unlink()
    assert maps.read(process.pid) == b"1000 10 inside\n"
    maps.close()
    assert maps.read(process.pid) == b""


@pytest.mark.parametrize("what", ["link", "hard link", "old", "fifo", "sparse"])
def test_a_map_that_may_be_anothers_is_not(maps: InnerMaps, perf_map: Path, tmp_path: Path, what: str) -> None:
    secret = perf_map.with_suffix(".secret") if what == "hard link" else tmp_path / "secret"
    secret.write_bytes(b"1000 10 secret\n")
    with sleeper() as process:
        maps._recorded = (process.pid,)
        maps.look()
        if what == "link":
            perf_map.symlink_to(secret)
        elif what == "hard link":
            perf_map.hardlink_to(secret)
        elif what == "fifo":
            os.mkfifo(perf_map)
        else:
            perf_map.write_bytes(secret.read_bytes())
            if what == "old":
                os.utime(perf_map, (time.time() - 100, time.time() - 100))
            else:
                os.truncate(perf_map, 1 << 30)
        process.kill()
    maps.look()
    secret.unlink()
    assert maps.read(process.pid) == b""
    maps.close()


def test_files_are_closed(maps: InnerMaps, perf_map: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with sleeper() as process:
        maps._recorded = (process.pid,)
        for _ in range(5):
            maps.look()
        perf_map.write_bytes(b"1000 10 inside\n")
        process.kill()
    maps.look()
    maps.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_processes_of_our_own_namespace_are_not_held() -> None:
    maps = InnerMaps([os.getpid()])
    maps.look()
    assert not maps._processes
    maps.close()
