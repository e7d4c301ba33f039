"""What holds for all tests of recordings from other machines."""

from __future__ import annotations

import gzip
import shutil
import tarfile
from typing import TYPE_CHECKING

import pytest

from perfpy.symbols.files import build_ids
from perfpy.symbols.files.debug_files import SymbolOptions

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _no_vdso(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide this kernel's vdso: on a machine with the kernel of a recording, perfpy names functions that perf did not."""
    monkeypatch.setattr(build_ids, "vdso_image", lambda: b"")


@pytest.fixture(scope="module")
def files_of_recordings(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> SymbolOptions:
    """Return the files of the programs in recorded/."""
    folder = tmp_path_factory.mktemp("files")
    with tarfile.open(corpus / "symfs.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    with gzip.open(corpus / "kallsyms.rec.gz") as packed, open(folder / "kallsyms", "wb") as plain:
        shutil.copyfileobj(packed, plain)
    return SymbolOptions(symfs=str(folder / "symfs"), kallsyms=str(folder / "kallsyms"), buildid_dir=str(folder), cache=False)
