"""Tests of `report -D` with a PMCU's AUX data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import perfpy
from perfpy.views.pmcu.dump import piece_texts
from tests.builders import pmcu

if TYPE_CHECKING:
    from pathlib import Path


def dumped(path: Path, data: bytes, cuts: tuple[int, ...] = ()) -> list[str]:
    path.write_bytes(pmcu.recording(data, cuts=cuts))
    with perfpy.open(path) as recording:
        trace = recording.pmcu
        assert trace is not None
        return ["".join(piece_texts(trace, piece)) for piece in trace.pieces]


def test_the_header_is_shown_as_bytes_and_as_text(tmp_path: Path) -> None:
    (text,) = dumped(tmp_path / "a", pmcu.aux_data([0x10, 0x11, 0x12], 1))
    assert text.splitlines()[:16] == [
        ".",
        ". ... HISI PMCU data: size 0x170 bytes",
        ".  00000000: 00 10 00 00 03 00 00 00 08 00 00 00 00 00 00 00",
        ".  00000010: 40 01 00 00 01 00 00 00 03 00 00 00 10 00 00 00",
        ".  00000020: 11 00 00 00 12 00 00 00 00 00 00 00 00 00 00 00",
        ". AUX buffer size: 4096",
        ". Counters in parallel: 3",
        ". Monitored CPUs: 8",
        ". Compatible mode: no",
        ". Subsample size: 320",
        ". Subsamples a sample: 1",
        ". Events: 3",
        ". Event 0: 0x0010",
        ". Event 1: 0x0011",
        ". Event 2: 0x0012",
        ". Sample 0",
    ]


def test_every_number_has_its_offset_width_and_cpu(tmp_path: Path) -> None:
    (text,) = dumped(tmp_path / "a", pmcu.aux_data([0x10, 0x11, 0x12], 1))
    lines = text.splitlines()[16:]
    assert lines[:2] == [". Subsample 0", ".  00000030: 000003e8 PMCID0SR CPU 0"]
    assert lines[9] == ".  00000050: 000007d0 PMCID1SR CPU 0"
    assert lines[17] == f".  00000070: {pmcu.value_of(0, 0, 0x10):016x} Event 0010 CPU 0"
    assert lines[-1] == f".  00000168: {pmcu.cycles_of(0, 7, 0):016x} Cycle count CPU 7"
    assert len(lines) == 1 + 8 * 6


def test_a_sample_is_shown_with_the_record_that_completes_it(tmp_path: Path) -> None:
    first, second = dumped(tmp_path / "a", pmcu.aux_data([1, 2, 3], 4), cuts=(48 + 2 * 320 + 8,))
    assert [line for line in first.splitlines() if line.startswith(". Sample")] == [". Sample 0", ". Sample 1"]
    assert [line for line in second.splitlines() if line.startswith(". Sample")] == [". Sample 2", ". Sample 3"]
    assert ". AUX buffer size" not in second
