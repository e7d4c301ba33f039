"""A session as in a notebook: record, narrow, group by thread and second, compare two runs, hold a budget; and twenty wrong uses."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

import perfpy
from perfpy.errors import PerfError
from tests.builders.perfdata import simple_recording

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PROGRAM = """
import threading, time, sys
def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: sum(range(500))
threads = [threading.Thread(target=spin, args=(float(sys.argv[1]) / 2,)) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


@pytest.mark.live
@pytest.mark.kernel_too
@pytest.mark.thorough
def test_a_session(tmp_path: Path) -> None:
    # 1. record the program as it was, and as it is
    old, new = tmp_path / "old.data", tmp_path / "new.data"
    for path, seconds in ((old, "0.2"), (new, "0.8")):
        summary = perfpy.record([sys.executable, "-c", PROGRAM, seconds], events="cpu-clock:u", frequency=500, output=path, call_graph=True)
        assert (summary.exit_code, summary.lost) == (0, 0)
    with perfpy.open(old) as before, perfpy.open(new) as after:
        # 2. what is in it: a table of rows, with numbers
        report = after.report(by="dso")
        shares = report.to_pandas().set_index("dso")["overhead"]
        assert shares.sum() == pytest.approx(100)
        # 3. narrow it: the busiest thread, without the program's first tenth
        frame = after.samples.to_pandas(["tid", "time", "symbol", "comm"])
        busiest = int(frame.groupby("tid").size().idxmax())
        part = after.where(tid=busiest, time=("10%", None))
        assert {*part.samples["tid"].tolist()} == {busiest}
        assert 0 < part.report().samples <= len(frame)
        # 4. group it by thread and tenth of a second, as a plot has it
        frame["tenth"] = (frame["time"] - frame["time"].min()) // 100_000_000
        plotted = frame.pivot_table(index="tenth", columns="tid", values="time", aggfunc="count").fillna(0)
        assert plotted.to_numpy().sum() == len(frame)
        assert len(plotted.columns) >= 2
        # 5. what changed, by more than noise
        (changes,) = perfpy.diff(before, after, by="comm")
        assert changes.after.period > changes.before.period
        assert changes.above(0.5)
    # 6. a budget: the new one is slower by more than half, which nobody may merge
    verdict = perfpy.compare(*([sys.executable, "-c", PROGRAM, seconds] for seconds in ("0.05", "0.3")), events="task-clock", repeat=6)
    assert verdict.slower(by=0.5)
    assert verdict.higher("task-clock", by=0.5)


WRONG: list[tuple[Callable[[perfpy.Recording], Any], type[Exception], str]] = [
    (lambda r: r.samples["callchain"], KeyError, "this recording has event, "),
    (lambda r: r.samples["symbols"], KeyError, "comm, dso, symbol, srcline"),
    (lambda r: r.samples.to_dict(["ip", "colour"]), KeyError, "no column 'colour'"),
    (lambda r: r.where(pid="7"), TypeError, "pid takes a number"),  # type: ignore[arg-type]
    (lambda r: r.where(comm=7), TypeError, "comm takes a text"),  # type: ignore[arg-type]
    (lambda r: r.where(time=3), TypeError, "time takes a start and an end"),  # type: ignore[arg-type]
    (lambda r: r.where(time=("soon", None)), ValueError, "a time is seconds from the first sample"),
    (lambda r: r.where(event="cycles"), PerfError, "its events: cpu-clock:u"),
    (lambda r: r.report(by="colour"), PerfError, "colour"),
    (lambda r: r.report()["cycles"], KeyError, "no event 'cycles' in this report"),
    (lambda r: r.report()[99], IndexError, ""),
    (lambda r: r.tracepoint("sched:sched_switch"), PerfError, "no tracepoint 'sched:sched_switch'"),
    (lambda r: r.flamegraph("/nowhere/at/all.html"), PerfError, "/nowhere/at/all.html"),
    (lambda _: perfpy.open("/nowhere/perf.data"), PerfError, "record one first"),
    (lambda _: perfpy.stat("true"), PerfError, "a command must be a list of arguments"),
    (lambda _: perfpy.stat(["true"], events="no-such-event"), PerfError, "no-such-event"),
    (lambda _: perfpy.stat(["true"], repeat=0), PerfError, "repeat"),
    (lambda _: perfpy.record(["true"], frequency=-1), PerfError, "frequency"),
    (lambda _: perfpy.compare(["true"], []), PerfError, "compare needs two commands"),
    (lambda _: perfpy.count("task-clock:u,("), PerfError, "column"),
]


@pytest.mark.parametrize(("use", "error", "says"), WRONG, ids=range(len(WRONG)))
def test_a_wrong_use_gets_a_remedy(use: Callable[[perfpy.Recording], Any], error: type[Exception], says: str, tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(10).file())
    with perfpy.open(path) as recording, pytest.raises(error) as raised:
        use(recording)
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)
