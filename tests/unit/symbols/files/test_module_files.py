"""Files with the debug information of kernel modules: the module's own, or what a distribution put beside it, of the same build."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from perfpy.symbols.dso import Dso, DsoKind
from perfpy.symbols.files.module_files import find_debug_module
from tests.builders.elf import ALLOC, EXEC, Elf

if TYPE_CHECKING:
    from pathlib import Path

NAME, ID, OTHER = "/lib/modules/6.1/kernel/fs/some.ko", "ab" * 20, "cd" * 20


def put(root: Path, name: str, *, debug: bool = True, build_id: str = ID) -> None:
    elf = Elf(type=1).section(".text", flags=ALLOC | EXEC, offset=0x400, size=0x100).build_id(build_id)
    data = (elf.section(".debug_info", b"data", flags=0) if debug else elf).build()
    path = root / name.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)


def found(root: Path, name: str = NAME, build_id: str = ID) -> tuple[str, int] | None:
    image = find_debug_module(Dso(name, DsoKind.MODULE, build_id), str(root))
    return (image[0].path.removeprefix(str(root)), image[1]) if image else None


@pytest.mark.parametrize(
    "place", [NAME, f"/usr/lib/debug{NAME}", f"/usr/lib/debug{NAME}.debug", f"/usr/lib/debug/.build-id/ab/{ID[2:]}.debug"]
)
def test_it_is_where_distributions_put_it(tmp_path: Path, place: str) -> None:
    put(tmp_path, NAME, debug=False)
    assert found(tmp_path) is None
    put(tmp_path, place)
    assert found(tmp_path) == (place, -0x400)


def test_modules_may_be_packed(tmp_path: Path) -> None:
    put(tmp_path, f"{NAME}.gz")
    assert found(tmp_path, f"{NAME}.gz") == (f"{NAME}.gz", -0x400)
    (tmp_path / f"{NAME}.gz".lstrip("/")).unlink()
    put(tmp_path, f"/usr/lib/debug{NAME}")
    assert found(tmp_path, f"{NAME}.gz") == (f"/usr/lib/debug{NAME}", -0x400)


def test_files_of_other_builds_do_not_count(tmp_path: Path) -> None:
    put(tmp_path, NAME, build_id=OTHER)
    assert found(tmp_path) is None
    assert found(tmp_path, build_id="") == (NAME, -0x400)


@pytest.mark.parametrize("name", ["[some]", "/lib/../../etc/some.ko", ""])
def test_names_that_are_no_paths_have_none(tmp_path: Path, name: str) -> None:
    put(tmp_path, NAME)
    assert found(tmp_path, name, "") is None


def test_damaged_files_are_passed_over(tmp_path: Path) -> None:
    put(tmp_path, f"/usr/lib/debug{NAME}")
    path = tmp_path / NAME.lstrip("/")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9) + b"\xff" * 100)
    assert found(tmp_path) == (f"/usr/lib/debug{NAME}", -0x400)
