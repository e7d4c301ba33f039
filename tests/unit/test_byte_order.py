"""A recorder on a big-endian machine writes everything in that machine's order, as the kernel does."""

from __future__ import annotations

import subprocess
import sys

RECORDER = """
import sys
sys.byteorder = "big"
from perfpy.abi.records import Comm
from perfpy.capture.synthesis import FINISHED_INIT
from perfpy.capture.synthesis import id_layout
from perfpy.perfdata.writer import FINISHED_ROUND
from perfpy.abi.records import SampleId
print(FINISHED_ROUND.hex(), FINISHED_INIT.hex(), id_layout(0x6).encode(SampleId(pid=1, tid=2, time=3)).hex())
"""


def test_records_and_trailers_that_the_recorder_makes_are_big_endian() -> None:
    process = subprocess.run([sys.executable, "-c", RECORDER], capture_output=True, check=True, text=True, timeout=60)
    finished_round, finished_init, trailer = process.stdout.split()
    assert finished_round == "0000004400000008"
    assert finished_init == "0000005200000008"
    assert trailer == "00000001000000020000000000000003"
