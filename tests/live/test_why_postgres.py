"""`perfpy why` names the row lock of a database first, behind the wait of pgbench for its server."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perfpy.kernel.tracefs import Tracefs, mount_as_root

if TYPE_CHECKING:
    from collections.abc import Iterator

_SCRIPT = "BEGIN;\nUPDATE counters SET value = value + 1 WHERE id = 1;\nSELECT pg_sleep(0.02);\nCOMMIT;\n"
_TABLE = "CREATE TABLE counters (id int, value int); INSERT INTO counters VALUES (1, 0)"
_DEADLINE = 60.0


def programs() -> Path | None:
    """Return the folder with the programs of the newest PostgreSQL."""
    folders = [Path("/usr/local/bin"), Path("/usr/bin"), *Path("/usr/lib/postgresql").glob("*/bin")]
    complete = [folder for folder in folders if all((folder / name).exists() for name in ("initdb", "postgres", "psql", "pgbench"))]
    return complete[-1] if complete else None


pytestmark = [
    pytest.mark.live,
    pytest.mark.system_wide,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="the scheduler's tracepoints need root"),
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="stacks of x86-64 are unwound here"),
    pytest.mark.skipif(programs() is None, reason="no PostgreSQL"),
]


@pytest.fixture
def database() -> Iterator[tuple[Path, Path, str]]:
    """The folder of a running server's socket, that of its programs, and its user."""
    bin_folder = programs()
    assert bin_folder is not None
    if not Tracefs(mount=mount_as_root).events("sched"):
        pytest.skip("no tracefs")
    user = next((name for name in ("postgres", "nobody") if name in {entry.pw_name for entry in pwd.getpwall()}), "")
    if not user:
        pytest.skip("no user that may run a database")
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))  # the path of a socket is short
    shutil.chown(folder, user)
    try:
        _run([bin_folder / "initdb", "-D", folder / "data", "-A", "trust", "-N"], user, folder)
        server = subprocess.Popen(
            [bin_folder / "postgres", "-D", folder / "data", "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"],
            user=user, cwd=folder, env=_environment(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            deadline = time.monotonic() + _DEADLINE
            while subprocess.run(
                [bin_folder / "psql", "-h", folder, "-U", user, "-c", _TABLE, "postgres"], capture_output=True, check=False
            ).returncode:
                assert server.poll() is None, "the server ended"
                assert time.monotonic() < deadline, "the server did not begin"
                time.sleep(0.1)
            yield folder, bin_folder, user
        finally:
            server.terminate()
            server.wait(timeout=_DEADLINE)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _environment(folder: Path) -> dict[str, str]:
    return {"HOME": str(folder), "PATH": os.environ["PATH"]}


def _run(words: list[str | Path], user: str, folder: Path) -> None:
    subprocess.run(words, user=user, cwd=folder, env=_environment(folder), stdout=subprocess.DEVNULL, check=True, timeout=_DEADLINE)


def test_the_row_lock_behind_the_wait_of_pgbench_is_named_first(database: tuple[Path, Path, str], tmp_path: Path):
    folder, bin_folder, user = database
    script = tmp_path / "update.sql"
    script.write_text(_SCRIPT)
    bench: list[str | Path] = [
        bin_folder / "pgbench",
        "-h",
        folder,
        "-U",
        user,
        "-n",
        "-c",
        "4",
        "-j",
        "4",
        "-t",
        "12",
        "-f",
        script,
        "postgres",
    ]
    line: list[str | Path] = [sys.executable, "-m", "perfpy", "why", "-o", tmp_path / "why.data", "--", *bench]
    process = subprocess.run(line, capture_output=True, text=True, timeout=300, cwd=tmp_path, check=False)
    assert process.returncode == 0, process.stderr
    verdict = process.stdout.partition("Where the time")[0].rpartition("tps = ")[2].splitlines()[1:]
    assert "for a lock of the database" in verdict[0], process.stdout
    assert "; pgbench (" in verdict[0], process.stdout
