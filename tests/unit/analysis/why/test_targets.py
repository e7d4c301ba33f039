"""The process that `perfpy why` explains is the recorded command, also beside others of the same name."""

from __future__ import annotations

from perfpy.analysis.why.targets import Tasks, family_of, workloads_of

EXECS = [(10, "make", 1), (20, "app", 2), (30, "app", 3), (20, "sh", 4)]
TASKS = Tasks({}, {10: 1, 20: 10, 30: 7, 31: 30, 32: 31}, EXECS, {})


def test_the_child_of_the_recorder_is_the_command():
    assert workloads_of(["perfpy", "record", "--", "./app", "-x"], TASKS, 7) == [30, 20]


def test_without_the_recorder_the_first_of_the_name_is_likeliest():
    assert workloads_of(["perfpy", "record", "--", "/usr/bin/app", "make"], TASKS) == [20, 30]
    assert workloads_of(["perf", "record", "-a", "make"], TASKS) == [10]
    assert workloads_of(["perf", "record", "-a"], TASKS) == []


def test_a_command_with_another_name_is_found_by_its_recorder():
    """As a shim or a script, whose name is the interpreter's."""
    assert workloads_of(["perfpy", "record", "--", "./script"], TASKS, 7) == [30]


def test_a_family_is_a_process_with_all_its_descendants():
    assert family_of([30], TASKS) == {30, 31, 32}
