"""Names of threads cannot control the terminal of sched and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.cli import run
from perfpy.tools.sched.timehist import duration_piece, milliseconds
from perfpy.views.script.pieces import Coded, Joiner, Piece, text_of
from tests.builders.terminals import on_terminal
from tests.builders.traced import traced_recording
from tests.builders.tracepoint_events import EventRecording

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("args", [("sched", "timehist", "-n"), ("sched", "map", "--compact"), ("sched", "latency", "-p"), ("why",)])
def test_escape_sequences_are_made_visible_on_a_terminal(args: tuple[str, ...], tmp_path: Path):
    path = tmp_path / "perf.data"
    path.write_bytes(traced_recording(40, odd_name=b"\x1b]0;x\x07odd"))
    terminal = on_terminal("--no-pager", *args, "-i", str(path), columns=200)
    assert "\x1b]0;" not in terminal.text
    assert terminal.text.strip()
    assert "Traceback" not in terminal.text
    if "timehist" in args:
        assert "^[]0;x^Godd" in terminal.text


# Idle times in the summary of timehist: by CPU and by callchain. The expected text is perf 7.3's, of the same file.


_SWITCH = "sched:sched_switch"
_KERNEL = 0xFFFFFFFF81000000
_PERFS_CHAINS = """\
Idle stats by callchain:
  CPU  0:    27.000  msec
  Idle time (msec)     Count  Callchains
  ----------------  --------  --------------------------------------------------
            12.000         1  fun1 <- fun2 <- fun3 <- fun7
            12.000         2  fun1 <- fun2 <- fun3
             3.000         1  fun1 <- fun5

  CPU  1:     0.000  msec
"""


def recording() -> bytes:
    """Return a file in which CPU 0 is idle after three callchains, and CPU 1 has no switch."""
    built = EventRecording([_SWITCH], comms={10: "aa"}, with_chains=True)
    other, usual, longer = ([_KERNEL + 0x1000 * number for number in chain] for chain in ((1, 5), (1, 2, 3), (1, 2, 3, 7)))
    begin = 10**10
    for start, idle, chain in ((0, 5, usual), (6, 3, other), (10, 7, usual), (18, 12, longer)):
        first, second = begin + start * 10**6, begin + (start + idle) * 10**6
        built.event(_SWITCH, first, b"aa", 10, 120, 1, b"swapper/0", 0, 120, tid=10, chain=chain)
        built.event(_SWITCH, second, b"swapper/0", 0, 120, 0, b"aa", 10, 120, tid=0, chain=[_KERNEL])
    return built.file()


def _summary(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], *options: str) -> str:
    (tmp_path / "perf.data").write_bytes(recording())
    names = "".join(f"{_KERNEL + 0x1000 * number:x} T fun{number}\n" for number in range(16))
    (tmp_path / "kallsyms").write_text(f"{_KERNEL:x} T _text\n{names}")
    path, symbols = str(tmp_path / "perf.data"), str(tmp_path / "kallsyms")
    assert run(["sched", "timehist", "-I", "-s", "--kallsyms", symbols, "-i", path, *options]) == 0
    return capfdbinary.readouterr().out.decode()


def test_idle_times_are_shown_by_callchain(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert _PERFS_CHAINS in _summary(tmp_path, capfdbinary, "-g")


def test_only_the_chosen_cpus_have_idle_times(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    text = _summary(tmp_path, capfdbinary, "-C", "0")
    assert "CPU  0 idle for     27.000" in text
    assert "CPU  1" not in text


# Columns of fixed width, and lines joined from them.


def test_durations_of_a_million_milliseconds_and_more_are_wider() -> None:
    durations = [0, 999, 1_234_567, 99_999_999, 100_000_000, 1_000_000_000, 999_999_999_999]
    for values in (durations, [*durations, 10**12]):
        piece = duration_piece(np.array(values, np.int64))
        assert list(piece) == [milliseconds(value, 6).encode() for value in values]


def test_lines_of_equal_width_are_joined_like_others() -> None:
    codes = np.array([1, 0, 1])
    for texts in ([b"ab", b"cd"], [b"ab", b"longer"], [b"a\0", b"b\0"]):
        pieces: list[Piece] = [np.array([b"12", b"34", b"56"]), b" ", Coded(codes, texts), b"\n"]
        assert text_of(pieces, 3) == b"".join(Joiner().join(pieces, 3).parts)
    assert text_of([b""], 0) == b""
