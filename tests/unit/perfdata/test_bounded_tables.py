"""Tables of untrusted origin: those of recordings' proportions are read, bombs are refused before anything is expanded."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

import pytest

from perfpy.perfdata import bounded_tables
from perfpy.perfdata.bounded_tables import open_table
from perfpy.untrusted.expansion import ExpansionError
from perfpy.untrusted.parquet_pages import memory_of

if TYPE_CHECKING:
    from pathlib import Path

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
MANY = 200_000


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the limits, so that small tables are bombs."""
    monkeypatch.setattr(bounded_tables, "_SMALL", 1 << 20)
    monkeypatch.setattr(bounded_tables, "_RATIO", 20)


def table(path: Path, columns: dict[str, Any], **how: Any) -> str:
    parquet.write_table(pyarrow.table(columns), path, compression="zstd", **how)
    return str(path)


def test_ordinary_tables_are_read(tmp_path: Path) -> None:
    numbers = list(range(1000))
    path = table(tmp_path / "a.parquet", {"at": numbers, "name": ["one", "two"] * 500, "none": pyarrow.array([[1, 2]] * 1000)})
    with open_table(path) as found:
        read = found.read()
    assert read["at"].to_pylist() == numbers
    assert read["name"].to_pylist() == ["one", "two"] * 500
    assert read["none"].to_pylist() == [[1, 2]] * 1000


@pytest.mark.parametrize(
    ("values", "how"),
    [
        (pyarrow.array([7] * MANY), {}),
        (pyarrow.array([7] * MANY), {"use_dictionary": False}),
        (pyarrow.array([7] * MANY), {"use_dictionary": False, "column_encoding": {"x": "DELTA_BINARY_PACKED"}}),
        (pyarrow.array([[7] * MANY]), {}),
        (pyarrow.array([None] * MANY, pyarrow.int64()), {}),
        (pyarrow.array([b"\0" * (3 << 20)]), {}),
        (pyarrow.array([b"\0" * (1 << 16)] * 200), {"use_dictionary": False}),
        (pyarrow.array([7] * MANY), {"data_page_version": "2.0"}),
        (pyarrow.array([b"\0" * (3 << 20)], pyarrow.binary(3 << 20)), {}),
    ],
)
def test_bombs_are_refused(values: Any, how: dict[str, Any], tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet", {"x": values}, **how)
    assert os.path.getsize(path) < 100_000
    with pytest.raises(ExpansionError, match="would become"), open_table(path):
        pass


def test_columns_that_are_not_read_do_not_count(tmp_path: Path) -> None:
    with open_table(table(tmp_path / "a.parquet", {"x": [b"\0" * (3 << 20)], "z": [1]}), ["z"]) as found:
        assert found.read(columns=["z"])["z"].to_pylist() == [1]


def test_values_that_build_on_each_other_are_refused(tmp_path: Path) -> None:
    """Each value may be as long as all before it together."""
    how = {"use_dictionary": False, "column_encoding": {"x": "DELTA_BYTE_ARRAY"}}
    path = table(tmp_path / "a.parquet", {"x": ["a" * number for number in range(100)]}, **how)
    with pytest.raises(ExpansionError, match="encoding"), open_table(path):
        pass


def test_texts_come_once_however_often_they_are_repeated(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet", {"x": ["a" * 10_000] * 10_000})
    with open_table(path) as found:
        column = found.read()["x"]
    assert column.nbytes < 100_000


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.parquet")
    with pytest.raises(OSError, match=r"a\.parquet"), open_table(str(tmp_path / "a.parquet")):
        pass


def test_damaged_page_headers_raise_one_error(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet", {"x": ["one", "two"] * 500})
    about = parquet.read_metadata(path).row_group(0).column(0)
    whole, numbers = (tmp_path / "a.parquet").read_bytes(), random.Random(1)
    good, refused = 0, 0
    for _ in range(500):
        damaged = bytearray(whole)
        for _ in range(numbers.randrange(1, 4)):
            damaged[numbers.randrange(4, 60)] = numbers.randrange(256)
        (tmp_path / "b.parquet").write_bytes(damaged)
        with (tmp_path / "b.parquet").open("rb") as file:
            try:
                assert memory_of(file, about.dictionary_page_offset, about.total_compressed_size, 8) >= 0
                good += 1
            except ExpansionError:
                refused += 1
    assert good
    assert refused
