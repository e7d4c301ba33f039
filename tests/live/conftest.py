"""Folders of another user, for tests that run as root."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.builders.other_users import GID, UID

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder of root's whose names other users can reach.

    It is not below pytest's own folder: any other session of pytest closes that one (0700) when it starts.
    """
    with tempfile.TemporaryDirectory(prefix="perfpy-test-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o711)
        yield Path(folder)


@pytest.fixture
def theirs(reachable: Path) -> Path:
    """A folder of the other user, where that user can exchange every name."""
    folder = reachable / "theirs"
    folder.mkdir()
    os.chown(folder, UID, GID)
    return folder
