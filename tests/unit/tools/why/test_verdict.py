"""The verdict names the cause first."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perfpy.analysis.verdict import waits as reasons
from perfpy.tools.why.tasks import PAGE_FAULT, RUNNING
from perfpy.tools.why.text import why_json, why_lines
from perfpy.tools.why.verdict import verdict
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


@pytest.mark.parametrize("kind", ["semaphore", "lock"])
def test_who_posts_a_semaphore_need_not_have_held_it(kind: str):
    """CPython makes its locks and conditions of semaphores; only the Python functions tell them apart."""
    assert ", ended by t2 (2) in flush(), which waits for the disk" in verdict(explained(HELD, lock=kind))[0]
    of_python = [part._replace(function="py::push:/srv/app.py:3") if part.tid == 1 else part for part in HELD]
    assert ", held by t2 (2) in flush(), which waits for the disk" in verdict(explained(of_python, lock=kind))[0]


@pytest.mark.parametrize(
    ("function", "notes"), [("_PyEval_EvalFrameDefault", 1), ("py::push:/srv/app.py:3", 0), ("push", 0)], ids=["native", "python", "C"]
)
def test_waits_of_python_without_its_functions_have_a_note(function: str, notes: int):
    explanation = explained(parts((1, 0, 20), (1, 20, 100, reasons.LOCK, function, 2, "", MUTEX), (2, 0, 95)))
    lines = list(why_lines(explanation))
    assert lines.count("note: Python code waits; perfpy why --python names its functions and lines") == notes


def test_a_wait_of_the_main_thread_has_one_sentence():
    sentences = verdict(explained(parts((1, 0, 44, reasons.CPU), (1, 44, 100, reasons.SLEEP, "nap"), (2, 0, 44))))
    assert [sentence.partition(",")[0] for sentence in sentences] == [
        "t1 (1) sleeps 56 % of 1 s in nap().",
        "t1 (1) waits for a CPU for 44 %",
    ]


def test_functions_that_start_programs_are_not_named():
    """A program without symbols runs in code that they call, not in the few functions with names."""
    samples = [(1, time * SECOND // 100, "__libc_start_call_main" if time % 4 else "do_wp_page", False) for time in range(1, 100)]
    assert verdict(explained(parts((1, 0, 100)), samples=samples)) == ["t1 (1) runs 100 % of 1 s."]
    assert verdict(explained(parts((1, 0, 100, reasons.SLEEP, "start_thread")))) == ["t1 (1) sleeps 100 % of 1 s."]


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


CHAIN = parts(
    (1, 0, 100, reasons.CHILD, "wait4", 2),
    (2, 0, 99, reasons.EVENTS, "poll", 3),
    (3, 0, 98, reasons.SLEEP, "nap"),
)
NAMES = {1: "sh", 2: "make", 3: "app"}


def test_the_program_that_a_shell_waits_for_comes_first():
    assert verdict(explained(CHAIN, comms=NAMES, programs={2: 1, 3: 2}))[0] == (
        "app (3) sleeps 98 % of 1 s in nap(); sh waits for make, which waits for app."
    )


def test_a_subshell_that_waits_for_a_program_is_no_cause():
    names = {1: "sh", 2: "sh", 3: "app"}
    explanation = explained(CHAIN, comms=names, programs={2: -1, 3: 2})
    assert verdict(explanation)[0] == "app (3) sleeps 98 % of 1 s in nap(); sh waits for app."


def test_a_child_that_goes_on_with_its_parents_program_is_a_part_of_it():
    rows = parts((1, 0, 100, reasons.CHILD, "main", 2), (2, 0, 95))
    explanation = explained(rows, comms={1: "app", 2: "app"}, programs={2: -1})
    assert verdict(explanation)[0].startswith("app (1) waits 100 % of 1 s for a child process in main(), ended by app (2), which runs")


def test_programs_one_after_the_other_are_added_up():
    rows = parts((1, 0, 50, reasons.CHILD, "wait", 2), (1, 50, 100, reasons.CHILD, "wait", 3), (2, 0, 50), (3, 50, 100))
    explanation = explained(rows, comms={1: "make", 2: "cc1", 3: "cc1"}, programs={2: 1, 3: 1})
    assert verdict(explanation) == ["cc1 (2 processes) runs 100 % of 1 s; make waits for cc1."]


def test_many_programs_in_a_row_are_shortened():
    rows = [(tid, 0, 101 - tid, reasons.CHILD, "wait", tid + 1) for tid in range(1, 7)] + [(7, 0, 94, reasons.SLEEP, "nap")]
    text = verdict(explained(parts(*rows), programs={tid: tid - 1 for tid in range(2, 8)}))[0]
    assert text.endswith("; t1 waits for t2, which waits for ..., which waits for t7.")


def test_the_output_of_a_program_that_a_daemon_did_not_start_is_a_cause():
    explanation = explained(parts((1, 0, 100, reasons.PIPE, "read", 2), (2, 0, 95)), programs={2: 9})
    assert verdict(explanation)[0].startswith("t1 (1) waits 100 % of 1 s for a pipe")


def test_spinning_is_named_beside_the_wait_for_a_cpu():
    rows = parts((1, 0, 58, reasons.CPU), (1, 58, 100), (2, 0, 58))
    samples = [(1, (58 + turn) * SECOND // 100, "count", True) for turn in range(42)]
    assert verdict(explained(rows, samples=samples, comms={2: "sibling"})) == [
        "t1 (1) waits 58 % of 1 s for a CPU, while sibling (2) ran, and spins for a spinlock in count() for 42 %."
    ]


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
