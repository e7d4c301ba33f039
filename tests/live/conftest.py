"""Folders of another user, for tests that run as root."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.builders.other_users import GID, UID

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A folder of the other user, where that user can exchange every name."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == 0 and folder.stat().st_mode & 0o077 == 0:
            folder.chmod(0o711)
    folder = tmp_path / "theirs"
    folder.mkdir()
    os.chown(folder, UID, GID)
    return folder
