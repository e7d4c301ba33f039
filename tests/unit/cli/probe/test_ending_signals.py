"""A signal at any instruction leaves no probe: the kernel's list is simulated, the signals are real."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from errno import EBUSY, EINVAL, EIO
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from perfpy.cli.probe import ending_signals, temporary_probes
from perfpy.cli.probe.ending_signals import EndingSignals
from perfpy.cli.probe.temporary_probes import TemporaryProbes
from perfpy.errors import KernelRefusedError
from perfpy.probing.definitions import Definition
from perfpy.probing.plans import Planned

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_FILES = (temporary_probes.__file__, ending_signals.__file__, contextlib.__file__)


class FakeEvents:
    """A kernel's list of probes."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.on_adding: Callable[[str], object] = lambda _name: None
        self.on_removing: Callable[[str], object] = lambda _name: None

    def lines(self, *, is_kernel: bool) -> list[str]:
        return [] if is_kernel else [f"p:{name} /a:0x1" for name in self.names]

    def open(self) -> int:
        return os.open(os.devnull, os.O_RDONLY)

    def may_own(self, pid: int, _group: str) -> bool:
        return pid == os.getpid()

    def add(self, definition: str, _file: object) -> None:
        name = definition.split(" ", maxsplit=1)[0][2:]
        self.names.add(name)
        self.on_adding(name)

    def remove(self, group: str, event: str, *, is_kernel: bool) -> None:
        assert not is_kernel
        self.on_removing(event)
        self.names.discard(f"{group}/{event}")


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> FakeEvents:
    events = FakeEvents()

    def plan(_program: object, request: Any) -> Planned:
        return Planned([Definition(False, "probe_a", request.point.function, "/a:0x1")], "", [])

    monkeypatch.setattr(temporary_probes, "ProbeEvents", lambda _tracefs: events)
    monkeypatch.setattr(temporary_probes, "plan", plan)
    monkeypatch.setattr(temporary_probes, "pin", lambda _path: SimpleNamespace())
    monkeypatch.setattr(temporary_probes, "open_program", lambda *_words: None)
    monkeypatch.setattr(temporary_probes, "_PAUSE", 0)
    return events


def measure(kernel: FakeEvents) -> None:
    """Measure as record does."""
    with TemporaryProbes(["uprobe:/a:one", "uprobe:/a:two"]):
        assert len(kernel.names) == 2


def interrupted(kernel: FakeEvents, at: int) -> bool:
    """Whether Ctrl-C at this instruction was before the end of a measurement."""
    count = 0

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        if frame.f_code.co_filename not in _FILES:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            count += 1
            if count == at:
                signal.raise_signal(signal.SIGINT)
        return trace

    before = sys.gettrace()
    try:
        sys.settrace(trace)
        measure(kernel)
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return count >= at


def test_ctrl_c_at_any_instruction_leaves_no_probe(kernel: FakeEvents) -> None:
    at = 1
    while True:
        try:
            was_running = interrupted(kernel, at)
        except KeyboardInterrupt:  # after the last instruction
            was_running = True
        assert not kernel.names, at
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, at
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, at
        if not was_running:
            break
        at += 1
    assert at > 200


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM])
def test_a_signal_ends_the_process_after_the_probes_are_removed(number: signal.Signals, kernel: FakeEvents) -> None:
    """With the handlers of the command line, the process dies of the signal; a pipe shows what the kernel had then."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        kernel.on_removing = lambda name: os.write(writing, name.encode() + b" ")
        try:
            with TemporaryProbes(["uprobe:/a:one", "uprobe:/a:two"]):
                os.kill(os.getpid(), number)
                os.write(writing, b"alive")
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading) as pipe:
        assert pipe.read() == "one two "
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == number


def test_a_signal_waits_while_a_probe_is_added(kernel: FakeEvents) -> None:
    def interrupt(_name: str) -> None:
        signal.raise_signal(signal.SIGINT)
        seen.append(len(kernel.names))

    seen: list[int] = []
    kernel.on_adding = interrupt
    with pytest.raises(KeyboardInterrupt):
        measure(kernel)
    assert seen == [1]
    assert not kernel.names


def test_a_refused_second_probe_removes_the_first_one(kernel: FakeEvents) -> None:
    """Also if the kernel answers with an error although it has added the probe."""

    def refuse(name: str) -> None:
        if name.endswith("two"):
            raise KernelRefusedError("cannot add the probe", EINVAL)

    kernel.on_adding = refuse
    with pytest.raises(KernelRefusedError):
        measure(kernel)
    assert not kernel.names


@pytest.mark.parametrize("code", [EIO, EBUSY])
def test_a_probe_that_cannot_be_removed_keeps_no_other_one(code: int, kernel: FakeEvents) -> None:
    def refuse(name: str) -> None:
        if name == "one":
            raise KernelRefusedError("cannot remove the probe", code)

    kernel.on_removing = refuse
    measure(kernel)
    assert kernel.names == {f"probe_a_by{os.getpid()}/one"}


def test_ignored_signals_and_handlers_of_others_stay() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    other = signal.signal(signal.SIGUSR1, lambda _number, _frame: None)
    mine = signal.getsignal(signal.SIGUSR1)
    try:
        with EndingSignals(lambda _ends: None):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGUSR1) is mine
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)
        signal.signal(signal.SIGUSR1, other)
