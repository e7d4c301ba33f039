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
    assert run(["lock", "contention", "-o", "-t"]) == 255
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


def _table(tmp_path: Path, capsys: pytest.CaptureFixture[str], *line: str) -> list[str]:
    """Return the table of two waits of 9 and 20 ns and one without an end, by thread or caller."""
    recording = EventRecording(["lock:contention_begin", "lock:contention_end"], with_chains=True)
    chain = tuple(0xFFFF_FFFF_8100_0000 + offset for offset in (0x310, 0x118, 0x218, 0x408))
    for start, lock, tid, length in ((10**9, 5, 100, 9), (2 * 10**9, 5, 100, 20), (3 * 10**9, 6, 101, 0)):
        recording.event("lock:contention_begin", start, lock, 1, tid=tid, chain=chain)
        if length:
            recording.event("lock:contention_end", start + length, lock, 0, tid=tid, chain=chain)
    (tmp_path / "perf.data").write_bytes(recording.file())
    (tmp_path / "kallsyms").write_text(_KALLSYMS)
    assert run(["lock", *line, "--kallsyms", str(tmp_path / "kallsyms"), "-i", str(tmp_path / "perf.data")]) == 0
    return capsys.readouterr().err.splitlines()


def test_the_sort_key_is_the_last_field_if_the_fields_lack_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert _table(tmp_path, capsys, "report", "-F", "wait_max,wait_min")[0].split() == "Name max wait min wait acquired".split()
    assert _table(tmp_path, capsys, "contention", "-t", "-F", "contended")[0].split() == "contended total wait pid comm".split()
    assert _table(tmp_path, capsys, "contention", "-t", "-k", "wait_min")[0].split()[-4:] == "min wait pid comm".split()


def test_quiet_tables_have_no_titles(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert _table(tmp_path, capsys, "report", "-q", "-t") == [
        f"{':100':>20} {2:10} {2:10} {'14 ns':>12} {'29 ns':>12} {'20 ns':>12} {'9 ns':>12} "
    ]
    assert _table(tmp_path, capsys, "contention", "-q", "-t", "-x", ",") == ["2, 29, 20, 14, 100, :100"]


def test_waits_without_an_end_have_no_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert [line.split()[-2] for line in _table(tmp_path, capsys, "contention", "-t")[2:]] == ["100"]
    assert [line.split()[0] for line in _table(tmp_path, capsys, "report", "-t")[2:]] == [":100"]


def test_a_filter_of_callchains_takes_parts_of_names_and_shows_the_functions(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    lines = _table(tmp_path, capsys, "contention", "-v", "-S", "other no", "--stack-skip", "0")
    row = next(index for index, line in enumerate(lines) if line.endswith("spinlock   caller_of_wait+0x8"))
    assert lines[row + 4] == "\t\t\t0xffffffff81000408  another+0x8"
    assert "total: 1" in " ".join(lines[row + 5 :])
    table = _table(tmp_path, capsys, "contention", "-v", "-S", "another", "--stack-skip", "0", "-x", ";")
    heading, values, debug = table[-3:]
    assert heading.endswith("; caller; stacktrace")
    assert values.endswith("0xffffffff81000218 caller_of_wait+0x8: 0xffffffff81000408 another+0x8")
    assert debug.endswith("bad_acquire=0, bad_acquired=0, bad_contended=0, bad_release=0")
    assert len(_table(tmp_path, capsys, "contention", "-S", "nowhere", "--stack-skip", "0")) == 2


def test_separators_that_values_contain_are_refused(capsys: pytest.CaptureFixture[str]):
    assert run(["lock", "contention", "-x", ":"]) == 255
    assert "use another separator" in capsys.readouterr().err


def test_a_name_that_no_lock_has_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert "Warning: -L absent: no lock of this recording has this name" in _table(tmp_path, capsys, "contention", "-L", "absent", "-l")


def test_unknown_fields_are_refused_with_perfs_status():
    for action in ("report", "contention"):
        assert [run(["lock", action, option, "bogus"]) for option in ("-F", "-k")] == [234, 234]


def test_types_of_locks_have_the_names_of_perf_6_and_7(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for name in ("percpu-rwsem", "pcpu-sem"):
        assert len(_table(tmp_path, capsys, "contention", "-t", "-Y", name)) == 2
        assert len(_table(tmp_path, capsys, "contention", "-t", "-Y", f"{name},spinlock")) == 3
    assert run(["lock", "contention", "-Y", "percpu"]) == 129


def test_filters_that_are_repeated_add_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    once = _table(tmp_path, capsys, "contention", "-t", "-Y", "spinlock", "-L", "0x5")
    assert len(once) == 3
    assert _table(tmp_path, capsys, "contention", "-t", "-Y", "spinlock", "-Y", "rt-mutex", "-L", "0x5", "-L", "0x7 0x8") == once
