"""What holds for all tests of recordings from other machines."""

from __future__ import annotations

import pytest

from perfpy.symbols.files import build_id_notes


@pytest.fixture(autouse=True)
def _no_vdso(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide this kernel's vdso: on a machine with the kernel of a recording, perfpy names functions that perf did not."""
    monkeypatch.setattr(build_id_notes, "vdso_image", lambda: b"")
