"""--switch-on and --switch-off of script and report keep the samples that perf keeps."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.versus_perf]

# perf 6.12 forgets --switch-off at once where there is no --switch-on, so that pair alone is compared
LINES = [
    "--switch-on context-switches",
    "--switch-on page-faults --switch-off context-switches",
    "--switch-on page-faults --switch-off context-switches --show-on-off-events",
    "--switch-on task-clock --switch-off task-clock --time 20%-80%",
    "--switch-on page-faults --switch-off context-switches -c ls",
    "--switch-on page-faults --show-on-off-events --no-inline",
]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory, perf: str) -> Path:
    path = tmp_path_factory.mktemp("switched") / "perf.data"
    events = ["-e", "task-clock", "-e", "page-faults", "-e", "context-switches"]
    work = "for i in 1 2 3; do ls -lR /usr/share/doc > /dev/null; sleep 0.01; done"
    subprocess.run([perf, "record", "-q", *events, "-F", "2000", "-o", path, "sh", "-c", work], check=True, capture_output=True, timeout=60)
    return path


def printed(program: list[str], command: str, options: str, path: Path) -> list[bytes]:
    environment = os.environ | {"LC_ALL": "C", "PERF_CONFIG": "/dev/null", "COLUMNS": "200"}
    view = ["--stdio", "-q"] if command == "report" else []
    done = subprocess.run(
        [*program, command, *view, *options.split(), "-i", str(path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment,
        check=True,
        timeout=60,
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("command", ["script", "report"])
@pytest.mark.parametrize("options", LINES)
def test_the_same_samples_are_kept(perf: str, recording: Path, command: str, options: str) -> None:
    expected = printed([perf], command, options, recording)
    assert expected
    assert printed([sys.executable, "-m", "perfpy"], command, options, recording) == expected
