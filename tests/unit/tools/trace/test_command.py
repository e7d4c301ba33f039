"""perfpy trace of running tasks, as far as it needs no kernel."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from perfpy.errors import KernelRefusedError
from perfpy.tools.trace import command as live
from perfpy.tools.trace.command import command

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("words", [["true"], ["-s", "true"], ["--sched", "-F", "all", "true"]])
def test_without_kernel_permission_trace_prints_one_line(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With kernel.perf_event_paranoid=2 the kernel opens the tracepoints and reports nothing: an empty table would be a lie."""
    monkeypatch.setattr(live, "may_measure_kernel", lambda: False)
    monkeypatch.setattr(live, "paranoid_level", lambda: 2)
    monkeypatch.setattr(live, "LiveRings", _refuse)

    with pytest.raises(KernelRefusedError, match="paranoid is 2: users may not measure the kernel; run with CAP_PERFMON, or sysctl"):
        command.run("trace", words)


def test_the_same_note_of_two_events_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Both kinds of page faults lose the kernel for the same reason."""
    tell = live._teller()
    for text in ("same", "same", "other"):
        tell(text)
    assert capsys.readouterr().err == "same\nother\n"


@pytest.mark.parametrize(
    ("words", "events", "filters"),
    [
        (["-e", "a:b,c:d", "--filter", "x>1", "-e", "e:f", "--filter", "y>1"], ["a:b", "c:d", "e:f"], [(2, "x>1"), (3, "y>1")]),
        (["-e", "a:*", "--switch-on", "a:b", "--switch-off", "c:d"], ["a:*", "c:d"], []),
        (["-F", "maj", "--switch-on", "a:b"], ["major-faults", "a:b"], []),
    ],
)
def test_filters_and_switches_stand_after_the_events_they_follow(
    words: list[str], events: list[str], filters: list[tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filter is for the last event before it; an event that only switches comes last."""
    monkeypatch.setattr(live, "may_measure_kernel", lambda: True)
    monkeypatch.setattr(live, "LiveRings", _refuse)

    usual = os.getpriority(os.PRIO_PROCESS, 0)
    with pytest.raises(AssertionError) as refused:
        command.run("trace", [*words, "-p", "1"])
    assert os.getpriority(os.PRIO_PROCESS, 0) == usual, "commands that follow in this process have their own priority"
    assert refused.value.args[1:] == (events, filters)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-a"], "common_pid != OWN"),
        (["-a", "-e", "getpid", "-s"], "(id == 39) && (common_pid != OWN)"),
        (["-e", "getpid", "-s", "-p", "1"], "id == 39"),
        (["-p", "1"], ""),
    ],
)
def test_own_calls_are_not_recorded_among_those_of_all_cpus(words: list[str], text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would fill the ring buffers, the more the more is printed."""
    monkeypatch.setattr(live, "may_measure_kernel", lambda: True)
    monkeypatch.setattr(live, "LiveRings", _refuse)
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "here", "6", "1", "x86_64")))

    with pytest.raises(AssertionError) as refused:
        command.run("trace", words)
    text = text.replace("OWN", str(os.getpid()))
    assert refused.value.args[2] == ([(1, text), (2, text)] if text else [])


def _refuse(events: object, filters: object, *_words: object, **_options: object) -> Callable[[], None]:
    raise AssertionError("opened events", events, filters)
