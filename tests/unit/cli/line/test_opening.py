"""What opening a recording does to the process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from perfpy.cli.line.opening import open_recording
from tests.builders.perfdata import simple_recording

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("given", "expected"), [(None, "1"), ("4", "4")])
def test_numpy_starts_no_threads_unless_the_user_says_so(
    given: str | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(1).file())
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", given or "")
    if given is None:
        monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    with open_recording(str(path), force=False) as recording:
        assert len(recording.events) == 1
    assert os.environ["OPENBLAS_NUM_THREADS"] == expected
