"""The verdict names the cause first."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perfpy.analysis.verdict import waits as reasons
from perfpy.analysis.why.kinds import PAGE_FAULT, RUNNING
from perfpy.views.why.as_json import why_json
from perfpy.views.why.text import why_lines
from perfpy.views.why.verdict import verdict
from tests.builders.waiting_threads import Part, explained

SECOND = 1_000_000_000
MUTEX = 0x1000


def parts(*rows: tuple[Any, ...]) -> list[Part]:
    """Return parts with times in hundredths of a second."""
    return [Part(tid, begin * SECOND // 100, end * SECOND // 100, *more) for tid, begin, end, *more in rows]


HELD = parts((1, 0, 20), (1, 20, 100, reasons.LOCK, "push", 2, "flush", MUTEX), (2, 0, 95, reasons.DISK, "flush"), (2, 95, 100))


def test_a_lock_is_named_with_its_holder_and_the_holders_wait():
    assert verdict(explained(HELD, comms={1: "app", 2: "writer"})) == [
        "app (1) waits 80 % of 1 s for the mutex 0x1000 in push(), held by writer (2) in flush(), which waits for the disk in flush().",
        "app (1) runs for 20 %.",
    ]


def test_waits_come_before_running_unless_the_program_runs_most_of_the_time():
    half = explained(parts((1, 0, 50), (1, 50, 100, PAGE_FAULT, "load")))
    most = explained(parts((1, 0, 70), (1, 70, 100, PAGE_FAULT, "load")))
    assert "page fault" in verdict(half)[0]
    assert "runs 70 %" in verdict(most)[0]


def test_the_lock_behind_a_wait_for_a_child_comes_first():
    explanation = explained(parts((1, 0, 100, reasons.CHILD, "main", 2), (2, 0, 95, reasons.FILE_LOCK, "update", 3, "update"), (3, 0, 95)))
    assert verdict(explanation)[0].startswith("t2 (2) waits 95 % of 1 s for a file lock in update(), held by t3 (3)")


def test_a_lock_of_other_threads_comes_first_if_the_main_thread_only_sleeps():
    rows = [(1, 0, 100, reasons.SLEEP, "nap"), *((tid, 0, 100, reasons.LOCK, "find", 1, "nap", MUTEX) for tid in (2, 3))]
    explanation = explained(parts(*rows), comms={2: "w", 3: "w"}, lock="rwlock")
    assert (
        verdict(explanation)[0]
        == "w (2 threads) waits 100 % of 2 s for the rwlock 0x1000 in find(), held by t1 (1) in nap(), which sleeps in nap()."
    )


def test_priority_inversion_is_recognized():
    rows = parts(
        (1, 0, 100, reasons.JOIN, "main", 2),
        (2, 0, 100, reasons.LOCK, "push", 3, "flush", MUTEX),
        (3, 0, 95, reasons.CPU),
        (3, 95, 100),
        (4, 0, 95),
    )
    names = {2: "high", 3: "low", 4: "medium"}
    inverted = explained(rows, comms=names, priorities={2: 10, 3: 30, 4: 20})
    assert verdict(inverted)[0].startswith("Priority inversion: high (priority 10) waits for the mutex 0x1000")
    usual = explained(rows, comms=names, priorities={2: 120, 3: 120, 4: 120})
    assert verdict(usual)[0].startswith("high (2) waits")


def test_spinning_comes_before_running():
    samples = [(1, turn * SECOND // 100, "grab" if turn % 2 else "work", bool(turn % 2)) for turn in range(100)]
    assert verdict(explained(parts((1, 0, 100)), samples=samples))[0] == "t1 (1) spins 50 % of 1 s for a spinlock in grab()."


@pytest.mark.parametrize("name", ["\x1b]0;title\x07", "a\nb", "[red]"])
def test_names_cannot_control_the_terminal(name):
    text = "\n".join(why_lines(explained(HELD, comms={1: name, 2: name}), stacks=True))
    assert "\x1b" not in text
    assert "a\nb" not in text


def test_the_text_has_path_threads_and_waits():
    lines = list(why_lines(explained(HELD, comms={1: "app", 2: "writer"})))
    assert "Where the time of app (1) went: 1.000 s" in lines
    assert any(line.split()[:3] == ["Thread", "time", "running"] for line in lines)
    assert any("waits for the mutex 0x1000 in push(), 1 time, ended by writer (2) in flush()" in line for line in lines)


def test_json_has_the_same_times():
    values = json.loads(why_json(explained(HELD, comms={1: "app", 2: "writer"})))
    lock = values["critical-path"][0]
    assert (lock["kind"], lock["time"], lock["lock"], lock["waker"]["comm"]) == ("lock", 80 * SECOND // 100, "0x1000", "writer")
    assert [one["kind"] for one in lock["during"]] == ["disk", "running"]
    assert values["main"]["time"] == SECOND


def test_a_process_that_did_not_run_has_a_verdict():
    explanation = explained([Part(2, 0, 10, RUNNING)], main=1)
    assert verdict(explanation) == ["The process did not run while it was recorded."]
    assert json.loads(why_json(explanation))["critical-path"] == []
