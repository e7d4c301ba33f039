"""Tests of `perfpy lock`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.cli import run
from perfpy.tools.lock import LockRow, in_order_of_keys, report_lines
from tests.builders.kernel_events import recording_of_locks
from tests.builders.tracepoint_events import EventRecording

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

_TABLE = """\
 contended   total wait          pid   owner

        10     86.42 ms          100   alpha
         9     33.33 ms          102   gamma
         9     32.10 ms          101   beta
         1      1.23 ms           -1   Unknown
"""


def test_the_owners_of_locks_are_shown_as_threads(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "perf.data"
    path.write_bytes(recording_of_locks())
    assert run(["lock", "contention", "-o", "-F", "contended,wait_total", "-i", str(path)]) == 0
    assert capsys.readouterr().err == _TABLE


def test_a_recording_without_wakeups_names_the_line_that_records_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    recording = EventRecording(["lock:contention_begin", "lock:contention_end"])
    recording.event("lock:contention_begin", 10**9, 5, 1, tid=100).event("lock:contention_end", 10**9 + 9, 5, 0, tid=100)
    path = tmp_path / "perf.data"
    path.write_bytes(recording.file())
    assert run(["lock", "contention", "-o", "-i", str(path)]) == 0
    error = capsys.readouterr().err
    assert "perfpy lock record -e sched:sched_waking -- COMMAND" in error
    assert "-1   Unknown" in error


def test_names_are_padded_by_bytes_as_in_perf():
    row = LockRow(1, 0, 1, 1, 5, 5, 5)
    _, _, line = report_lines([row], ("acquired",), lambda _: "käse")
    assert line.encode().index("käse".encode()) == 20 - len("käse".encode())


def test_one_kind_of_row_excludes_another(capsys: pytest.CaptureFixture[str]):
    assert run(["lock", "contention", "-o", "-t"]) == 129
    assert "-t, -l and -o exclude each other" in capsys.readouterr().err


#: a kernel with a waiting function in the scheduler's text, between two that are no part of it
_KALLSYMS = """\
ffffffff81000000 T _text
ffffffff81000010 t take_a_lock
ffffffff81000100 T __sched_text_start
ffffffff81000110 t wait_for_it
ffffffff81000200 T __sched_text_end
ffffffff81000210 T caller_of_wait
ffffffff81000300 T __traceiter_contention_begin
ffffffff81000400 T another
"""


def test_the_caller_is_outside_of_the_schedulers_text_of_the_recorded_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    recording = EventRecording(["lock:contention_begin", "lock:contention_end"], with_chains=True)
    chain = tuple(0xFFFF_FFFF_8100_0000 + offset for offset in (0x310, 0x118, 0x218, 0x408))
    recording.event("lock:contention_begin", 10**9, 5, 1, tid=100, chain=chain)
    recording.event("lock:contention_end", 10**9 + 9, 5, 0, tid=100, chain=chain)
    (tmp_path / "perf.data").write_bytes(recording.file())
    (tmp_path / "kallsyms").write_text(_KALLSYMS)
    line = ["lock", "contention", "--stack-skip", "0", "--kallsyms", str(tmp_path / "kallsyms"), "-i", str(tmp_path / "perf.data")]
    assert run(line) == 0
    assert capsys.readouterr().err.splitlines()[-1].endswith("spinlock   caller_of_wait+0x8")


def test_equal_rows_have_the_order_of_perfs_buckets():
    rows = [LockRow(key, first, 1, 1, 9, 9, 9) for first, key in enumerate((1, 2, 3, 2**40 | 1))]
    # The keys times perf's constant begin with 0x61c, 0xc39, 0x255 and 0x174, of twelve bits.
    assert [row.first for row in in_order_of_keys(rows)] == [3, 2, 0, 1]
    # Callers are distinguished by 32 bits: the newer of two in one bucket comes first.
    assert [row.first for row in in_order_of_keys(rows, 2**32 - 1)] == [2, 3, 0, 1]


def test_the_only_sample_of_a_tracepoint_is_not_cut_if_its_callers_have_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """perf compares it with its callers, which makes its text before columns are measured; without callers it cuts it."""
    recording = EventRecording(["lock:contention_begin"], with_chains=True)
    recording.event("lock:contention_begin", 10**9, 0xFFFF_8886_27C2_BA80, 1, tid=100, chain=(0xFFFF_FFFF_8100_0000, 0xFFFF_FFFF_8100_1000))
    (tmp_path / "perf.data").write_bytes(recording.file())
    rows = []
    for option in ("--children", "--no-children"):
        assert run(["report", "--stdio", "-g", "none", option, "-s", "trace", "-i", str(tmp_path / "perf.data")]) == 0
        rows.append(next(line for line in capsys.readouterr().out.splitlines() if "100.00%" in line))
    assert [len(row.split("  ")[-1].strip()) for row in rows] == [len(rows[0].split("%")[-1].strip()), 12]
    assert len(rows[0].split("%")[-1].strip()) > 12
