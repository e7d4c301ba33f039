"""Messages between the two processes are complete, wherever the pipe splits them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from perfpy.capture.unwinding import process
from perfpy.capture.unwinding.process import DISK, MEMORY, Extent, Spool
from perfpy.errors import OutputFailedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


EXTENTS = [Extent(0, 1 << 40, 7), Extent(1, 5, 1 << 33)]


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_requests_come_through(step):
    sent = process.request(process.PIECE, EXTENTS) + process.request(process.END)
    incoming, result = process.Incoming(), []
    for start in range(0, len(sent), step):
        incoming.add(sent[start : start + step])
        result += list(incoming.requests())
    assert result == [(process.PIECE, EXTENTS), (process.END, [])]


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_answers_come_through(step):
    sent = process.answer(process.RECORDS, b"x" * 100) + process.answer(process.FINISHED)
    incoming, result = process.Incoming(), []
    for start in range(0, len(sent), step):
        incoming.add(sent[start : start + step])
        result += list(incoming.answers())
    assert result == [(process.RECORDS, b"x" * 100), (process.FINISHED, b"")]


# Pieces wait in memory first, then on disk, and are returned in order.


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    new_spool = Spool(str(tmp_path), capacity=64)
    yield new_spool
    new_spool.close()


def read(spool: Spool, extents: list[Extent]) -> bytes:
    return b"".join(os.pread((spool.memory, spool.disk)[store], size, offset) for store, offset, size in extents)


def test_a_piece_is_one_extent(spool):
    spool.write([b"abc", b"defg"])
    piece = spool.close_piece()
    assert piece == [Extent(MEMORY, 0, 7)]
    assert read(spool, piece) == b"abcdefg"


def test_pieces_beyond_the_memory_limit_go_to_disk(spool):
    spool.write([bytes(60)])
    first = spool.close_piece()
    spool.write([b"0123456789"])
    second = spool.close_piece()
    assert [extent.store for extent in first + second] == [MEMORY, MEMORY, DISK]
    assert read(spool, second) == b"0123456789"
    assert spool.most_on_disk == 6


def test_memory_is_used_round_and_round(spool):
    for _ in range(2):
        spool.write([bytes(30)])
        spool.close_piece()
    spool.release_first()  # 0-30 are free, 30-60 wait
    spool.write([b"x" * 20])
    piece = spool.close_piece()
    assert piece == [Extent(MEMORY, 60, 4), Extent(MEMORY, 0, 16)]
    assert read(spool, piece) == b"x" * 20
    assert spool.most_on_disk == 0


def test_memory_that_is_all_in_use_takes_nothing(spool):
    spool.write([bytes(64)])
    spool.close_piece()
    spool.write([b"more"])
    assert spool.close_piece() == [Extent(DISK, 0, 4)]


def test_the_disk_is_given_back_when_nothing_on_it_waits(spool):
    spool.write([bytes(100)])
    spool.close_piece()
    assert os.fstat(spool.disk).st_size == 36
    spool.release_first()
    assert os.fstat(spool.disk).st_size == 0


def test_everything_that_waits_can_be_taken_in_order(spool):
    spool.write([b"a" * 60])
    spool.close_piece()
    spool.write([b"b" * 10])
    spool.close_piece()
    spool.write([b"c"])
    assert b"".join(spool.take_all()) == b"a" * 60 + b"b" * 10 + b"c"
    assert len(spool) == 0
    assert spool.take_all() == []


def test_many_pieces_come_back_as_they_were(spool):
    waiting = []
    for number in range(200):
        spool.write([bytes([number]) * (number % 37 + 1)])
        waiting.append((number, spool.close_piece()))
        if number % 3:
            first, extents = waiting.pop(0)
            assert read(spool, extents) == bytes([first]) * (first % 37 + 1)
            spool.release_first()


def test_a_folder_that_takes_no_files_is_named(tmp_path):
    with pytest.raises(OutputFailedError, match="no-such-folder"):
        Spool(str(tmp_path / "no-such-folder"))


def test_the_error_of_a_full_disk_names_a_remedy(spool):
    os.close(spool.disk)
    spool.disk = os.open("/dev/full", os.O_RDWR)
    with pytest.raises(OutputFailedError, match="a lower frequency"):
        spool.write([bytes(100)])
