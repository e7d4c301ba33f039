"""-e texts that name probes are told apart from events, and orphans are removed."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from errno import EBUSY, EINVAL, EIO
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from perfpy.cli import temporary_probes
from perfpy.cli import temporary_probes as ending_signals
from perfpy.cli.commands import load_command
from perfpy.cli.line.option_parsing import events_with_filters
from perfpy.cli.temporary_probes import EndingSignals, TemporaryProbes, remove_orphans
from perfpy.errors import KernelRefusedError
from perfpy.events.grammar import names_probe
from perfpy.probing.definitions import Definition, Planned

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from perfpy.kernel.probe_events import ProbeEvents


@pytest.mark.parametrize(
    "text", ["uprobe:./app:parse", "uprobe:app:parse n", "probe:./app:parse", "./app:parse%return", "/bin/app:a.c:3", "../a:b"]
)
def test_these_are_probes(text: str) -> None:
    assert names_probe(text)


@pytest.mark.parametrize(
    "text",
    [
        "cycles:u",
        "probe:vfs_read",
        "probe:vfs_read:u",
        "uprobe/path=/a,offset=1/",
        "sched:sched_switch",
        "r1a8:k",
        "cpu/event=1/u",
        "./app",
        "",
    ],
)
def test_these_are_events(text: str) -> None:
    assert not names_probe(text)


def test_texts_are_replaced_in_the_order_of_the_line() -> None:
    """Filters stay after the events that they belong to."""
    command = load_command("record")
    parser = command.parser(["-e", "./a:b", "--filter", "n > 1", "-e", "cycles", "--", "true"])
    options = command.options_class.read(parser).replace_texts("event", ["g:b", "cycles"])
    assert options.event == ("g:b", "cycles")
    assert events_with_filters(options) == (["g:b", "cycles"], [(1, "n > 1")])


class FakeEvents:
    """A kernel's list of probes."""

    def __init__(self, *lines: str) -> None:
        self.kept = list(lines)
        self.owners: set[int] = set()

    def lines(self, *, is_kernel: bool) -> list[str]:
        return [] if is_kernel else list(self.kept)

    def may_own(self, pid: int, _group: str) -> bool:
        return pid in self.owners

    def remove(self, group: str, event: str, *, is_kernel: bool) -> None:
        self.kept = [line for line in self.kept if not line.startswith(f"p:{group}/{event} ")]


def test_probes_of_ended_processes_are_removed_and_no_others() -> None:
    mine, others = f"p:probe_app_by{os.getpid()}/a /a:0x1", "p:probe_app/a /a:0x1"
    events = FakeEvents(mine, others, "p:probe_app_by999999999/a /a:0x1", "p:probe_app_by999999999/a /a:0x2", "p:x/y_by999999999 /a:0x1")
    events.owners = {os.getpid()}
    assert remove_orphans(cast("ProbeEvents", events)) == 1
    assert events.kept == [mine, others, "p:x/y_by999999999 /a:0x1"]
    events.owners = set()  # another process has got the pid
    assert remove_orphans(cast("ProbeEvents", events)) == 1
    assert events.kept == [others, "p:x/y_by999999999 /a:0x1"]


# A signal at any instruction leaves no probe: the kernel's list is simulated, the signals are real.


_FILES = (temporary_probes.__file__, ending_signals.__file__, contextlib.__file__)


class EndingEvents:
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
def kernel(monkeypatch: pytest.MonkeyPatch) -> EndingEvents:
    events = EndingEvents()

    def plan(_program: object, request: Any) -> Planned:
        return Planned([Definition(False, "probe_a", request.point.function, "/a:0x1")], "", [])

    monkeypatch.setattr(temporary_probes, "ProbeEvents", lambda _tracefs: events)
    monkeypatch.setattr(temporary_probes, "plan", plan)
    monkeypatch.setattr(temporary_probes, "pin", lambda _path: SimpleNamespace())
    monkeypatch.setattr(temporary_probes, "open_program", lambda *_words: None)
    monkeypatch.setattr(temporary_probes, "_PAUSE", 0)
    return events


def measure(kernel: EndingEvents) -> None:
    """Measure as record does."""
    with TemporaryProbes(["uprobe:/a:one", "uprobe:/a:two"]):
        assert len(kernel.names) == 2


def interrupted(kernel: EndingEvents, at: int) -> bool:
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


def test_ctrl_c_at_any_instruction_leaves_no_probe(kernel: EndingEvents) -> None:
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
def test_a_signal_ends_the_process_after_the_probes_are_removed(number: signal.Signals, kernel: EndingEvents) -> None:
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


def test_a_signal_waits_while_a_probe_is_added(kernel: EndingEvents) -> None:
    def interrupt(_name: str) -> None:
        signal.raise_signal(signal.SIGINT)
        seen.append(len(kernel.names))

    seen: list[int] = []
    kernel.on_adding = interrupt
    with pytest.raises(KeyboardInterrupt):
        measure(kernel)
    assert seen == [1]
    assert not kernel.names


def test_a_refused_second_probe_removes_the_first_one(kernel: EndingEvents) -> None:
    """Also if the kernel answers with an error although it has added the probe."""

    def refuse(name: str) -> None:
        if name.endswith("two"):
            raise KernelRefusedError("cannot add the probe", EINVAL)

    kernel.on_adding = refuse
    with pytest.raises(KernelRefusedError):
        measure(kernel)
    assert not kernel.names


@pytest.mark.parametrize("code", [EIO, EBUSY])
def test_a_probe_that_cannot_be_removed_keeps_no_other_one(code: int, kernel: EndingEvents) -> None:
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
