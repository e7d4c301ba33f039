"""Guests for tests: each boots when a test first asks for it, and is left out, with the reason, where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.builders import guests

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.builders.guests import Guest


@pytest.fixture(scope="module")
def boot(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Guest]:
    """Name -> guest, in a folder of its own."""

    def made(name: str) -> Guest:
        if reason := guests.why_not(name):
            pytest.skip(reason)
        return guests.guest(name, tmp_path_factory.mktemp(name))

    return made
