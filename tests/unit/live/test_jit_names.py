"""Requests of perf maps for a live view: when, of which processes, and what follows an answer."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from perfpy.capture.runtimes.programs import runtime_of
from perfpy.live import jit_names as module
from perfpy.live.jit_names import LiveJitNames
from perfpy.symbols.dso import Dso, DsoKind


class Symbols:
    """Notes the files that are to be read again."""

    def __init__(self) -> None:
        self.forgotten: list[str] = []

    def forget(self, names: set[str]) -> None:
        self.forgotten += names


def frames(*pids: int, symbol: int = -1) -> Any:
    """Frames in the compiled code of processes, and one of a file."""
    dsos = [Dso("/bin/java"), *(Dso(f"/tmp/perf-{pid}.map", DsoKind.JIT) for pid in pids)]
    symbols = np.full(len(dsos), symbol, np.int32)
    return SimpleNamespace(dsos=dsos, frames=SimpleNamespace(dso=np.arange(len(dsos), dtype=np.int32), symbol=symbols))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processes that were asked; 13 refuses, 40 and more are no JVMs."""
    pids: list[int] = []

    def ask(requested: list[int]) -> list[str]:
        pids.extend(requested)
        return ["process 13 refuses"] if 13 in requested else []

    monkeypatch.setattr(module, "ask", ask)
    monkeypatch.setattr(module, "is_java", lambda pid: pid < 40)
    monkeypatch.setattr(module, "_PAUSE", 0.0)
    return pids


def await_answers(names: LiveJitNames, symbols: Any, number: int) -> list[str]:
    """Take the answers; return the failures."""
    end, failures = time.monotonic() + 10, list[str]()
    while number and time.monotonic() < end:
        number -= not names._answers.empty()
        names.prepare(symbols)
        failures += names.failures()
        time.sleep(0.001)
    return failures


def test_a_map_is_requested_for_code_without_names_and_read_again(asked: list[int]) -> None:
    names, symbols = LiveJitNames(), Symbols()
    names.see(frames(7, 41))
    names.see(frames(7))  # it has not answered
    assert await_answers(names, symbols, 1) == []
    assert (asked, symbols.forgotten) == ([7], ["/tmp/perf-7.map"])
    names.see(frames(7, symbol=0))
    assert asked == [7]
    names.see(frames(7))
    await_answers(names, symbols, 1)
    names.close()
    assert asked == [7, 7]


def test_a_process_that_gave_no_map_is_reported_once_and_left_alone(asked: list[int]) -> None:
    names, symbols = LiveJitNames(), Symbols()
    names.see(frames(13))
    assert await_answers(names, symbols, 1) == ["process 13 refuses"]
    names.see(frames(13))
    names.close()
    assert (asked, symbols.forgotten, names.failures()) == ([13], [], [])


def test_with_targets_no_other_process_is_read(asked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "runtime_of_process", lambda pid: runtime_of("python3" if pid == 41 else "java"))
    monkeypatch.setattr(module, "lacks", lambda pid, **_options: "" if pid == 8 else f"process {pid} is Node.js")
    names = LiveJitNames([8, 41, 42])
    hints = list(names.begin(with_callers=False))
    names.see(frames(9))
    await_answers(names, Symbols(), 1)
    names.close()
    assert asked == [8]
    assert ["top --python" in hint for hint in hints] == [True, False]
