"""Tables of untrusted origin: those of recordings' proportions are read, bombs are refused before anything is expanded."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from perfpy.perfdata import skeleton
from perfpy.perfdata.skeleton import open_table
from perfpy.untrusted.expansion import ExpansionError, column_chunks, memory_of

if TYPE_CHECKING:
    from pathlib import Path

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
MANY = 200_000


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the limits, so that small tables are bombs."""
    monkeypatch.setattr(skeleton, "_SMALL", 1 << 20)
    monkeypatch.setattr(skeleton, "_RATIO", 20)


def table(path: Path, columns: dict[str, Any], **how: Any) -> str:
    parquet.write_table(pyarrow.table(columns), path, compression="zstd", **how)
    return str(path)


def test_ordinary_tables_are_read(tmp_path: Path) -> None:
    numbers = list(range(1000))
    path = table(tmp_path / "a.parquet", {"at": numbers, "name": ["one", "two"] * 500, "none": pyarrow.array([[1, 2]] * 1000)})
    with open_table(path) as result:
        read = result.read()
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
    with open_table(table(tmp_path / "a.parquet", {"x": [b"\0" * (3 << 20)], "z": [1]}), ["z"]) as result:
        assert result.read(columns=["z"])["z"].to_pylist() == [1]


def test_values_that_build_on_each_other_are_refused(tmp_path: Path) -> None:
    """Each value may be as long as all before it together."""
    how = {"use_dictionary": False, "column_encoding": {"x": "DELTA_BYTE_ARRAY"}}
    path = table(tmp_path / "a.parquet", {"x": ["a" * number for number in range(100)]}, **how)
    with pytest.raises(ExpansionError, match="encoding"), open_table(path):
        pass


def test_texts_come_once_however_often_they_are_repeated(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet", {"x": ["a" * 10_000] * 10_000})
    with open_table(path) as result:
        column = result.read()["x"]
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


def test_a_footer_whose_statistics_fit_no_column_is_one_error(tmp_path: Path) -> None:
    """pyarrow ends the process where it describes the chunks of this one: its column is no longer optional."""
    whole = (tmp_path / table(tmp_path / "a.parquet", {"x": [1, None] * 50})).read_bytes()
    (length,) = struct.unpack("<I", whole[-8:-4])
    footer = whole[-8 - length :]
    for at in range(60):
        if footer[at : at + 2] == b"\x25\x02":  # repetition_type: OPTIONAL
            damaged = footer[:at] + b"\x25\x00" + footer[at + 2 :]
            (tmp_path / "a.parquet").write_bytes(whole[: -8 - length] + damaged)
    program = f"""
from perfpy.perfdata.skeleton import damage_of_tables, open_table
from perfpy.errors import PerfError
try:
    with open_table({str(tmp_path / "a.parquet")!r}) as table:
        table.read()
except (*damage_of_tables(), PerfError) as error:
    print(type(error).__name__)
"""
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (process.returncode, process.stdout, process.stderr) == (0, "OSError\n", "")


@pytest.mark.parametrize(
    "footer",
    [
        b"\x00",  # no row groups
        b"\x49\x1c\x19\x1c\x00\x00\x00",  # a chunk without a description
        b"\x49\xf9\xff\xff\xff\x7f",  # a list of 256 million lists
        b"\x49" + b"\x19" * 100,  # lists in lists
        b"\x18\xff\xff\x03",  # a text that ends beyond the footer
    ],
)
def test_footers_that_describe_nothing_are_refused(footer: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1")
    with (tmp_path / "a.parquet").open("rb") as file:
        if footer == b"\x00":
            assert [*column_chunks(file, 1)] == []
        else:
            with pytest.raises(ExpansionError):
                [*column_chunks(file, 1)]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PARE" + bytes(8) + b"PARE", b"PAR1\xff\xff\xff\xffPAR1"])
def test_files_without_a_footer_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(content)
    with (tmp_path / "a.parquet").open("rb") as file, pytest.raises(ExpansionError, match="footer"):
        [*column_chunks(file, 1)]


def test_chunks_equal_those_of_pyarrow(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet", {"x": [1, None] * 500, "y": [["a"], ["b", "c"]] * 500}, row_group_size=300)
    footer = parquet.read_metadata(path)
    expected = [
        (number, about.path_in_schema.partition(".")[0], about.num_values, about.dictionary_page_offset, about.total_compressed_size)
        for group in range(footer.num_row_groups)
        for number in range(footer.num_columns)
        for about in [footer.row_group(group).column(number)]
    ]
    with open(path, "rb") as file:
        assert [
            (chunk.number, chunk.name, chunk.values, chunk.start, chunk.size) for chunk in column_chunks(file, footer.num_columns)
        ] == expected
    assert len(expected) == 8
