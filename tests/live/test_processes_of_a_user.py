"""`-u USER` by an ordinary user: processes with privileges are skipped, with one note."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.other_users import GID, UID, child, idle, needs_root

CHECKOUT = Path(__file__).resolve().parents[2]
#: this user may read the checkout and Python's library, which may be root's alone, and nothing else that root may
_USER = f"setpriv --reuid={UID} --regid={GID} --clear-groups --inh-caps=+dac_read_search --ambient-caps=+dac_read_search --".split()


def have_privileges() -> None:
    """Be like ssh-agent: no other process of the same user may look."""
    assert ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) == 0  # PR_SET_DUMPABLE
    idle()


@pytest.mark.live
@needs_root
def test_a_process_with_privileges_is_skipped_with_a_note(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "HOME": "/nonexistent"}
    command = [*_USER, sys.executable, "-m", "perfpy", "record", "-u", str(UID), "-e", "task-clock:u", "-o", "-", "--", "true"]
    with child(), child(work=have_privileges) as hidden:
        process = subprocess.run(command, env=environment, cwd="/", capture_output=True, timeout=60, check=False)
    notes = [line for line in process.stderr.decode().splitlines() if "with privileges" in line]
    assert process.returncode == 0, process.stderr
    assert [str(hidden) in note and "CAP_PERFMON" in note for note in notes] == [True]
    assert process.stdout.startswith(b"PERFILE2")
