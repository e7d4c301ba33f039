"""Source lines in names of runtimes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfpy.analysis.annotation import NamedLines, beginnings

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = b"""\
import os
def one():
    def inner():
        pass
    return inner
class Shop:
    class Order:
        async def of(self):
            pass
    def of(self): pass
def one(): pass
"""


def test_names_are_qualified_as_python_does() -> None:
    assert beginnings(SOURCE) == {"one": 2, "one.<locals>.inner": 3, "Shop": 6, "Shop.Order": 7, "Shop.Order.of": 8, "Shop.of": 10}


def test_the_line_of_a_python_function(tmp_path: Path) -> None:
    path = tmp_path / "shop.py"
    path.write_bytes(SOURCE)
    lines = NamedLines()
    assert lines.of(f"py::Shop.of:{path}") == (str(path), 10)
    assert lines.of(f"py::<lambda>:{path}") == (str(path), 0)
    assert lines.of(f"py::Shop.of.<locals>.<lambda>.<locals>.<genexpr>:{path}") == (str(path), 10)
    assert lines.of(f"py::two.<locals>.<genexpr>:{path}") == (str(path), 0)
    assert lines.of(f"py::<module>:{path}") == (str(path), 0)
    assert lines.of("py::run:/no/such.py") == ("/no/such.py", 0)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("JS:*spin file:///srv/app.js:12:34", ("/srv/app.js", 12)),
        ("LazyCompile:~ /srv/app.js:1:1", ("/srv/app.js", 1)),
        ("JS:^parse node:internal/url:3:4", ("", 0)),
        ("main", ("", 0)),
        ("Builtin:ArrayMap", ("", 0)),
    ],
)
def test_the_line_of_a_function_of_v8(name: str, found: tuple[str, int]) -> None:
    assert NamedLines().of(name) == found


def test_a_device_in_the_place_of_a_file_has_no_lines() -> None:
    assert NamedLines().of("py::f:/dev/zero") == ("/dev/zero", 0)
