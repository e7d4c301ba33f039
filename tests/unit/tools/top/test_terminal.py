"""Keys of terminals as names, and lines that command no terminal."""

from __future__ import annotations

import os
import select
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import pytest

from perfpy.tools.top import terminal as screen_run
from perfpy.tools.top.command import command
from perfpy.tools.top.screen import Request
from perfpy.tools.top.terminal import Changed, KeyTerminal, ScreenRun, split_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


ESC = chr(27)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("q", ["q"]),
        ("ab", ["a", "b"]),
        (f"{ESC}[A{ESC}[B{ESC}OA", ["up", "down", "up"]),
        (f"{ESC}[5~{ESC}[6~{ESC}[H{ESC}[F", ["pageup", "pagedown", "home", "end"]),
        (ESC, ["escape"]),
        (f"{ESC}q", ["escape", "q"]),
        (f"{ESC}[1;5Cx", ["x"]),  # an unknown key
        (f"{ESC}[", []),
        ("\r\t\x7f\x03", ["enter", "tab", "backspace", "ctrl+c"]),
        ("é", ["é"]),
    ],
)
def test_keys_have_names(text: str, keys: list[str]) -> None:
    assert list(split_keys(text)) == keys


@pytest.mark.parametrize("style", ["", "1", "31"])
def test_texts_of_lines_do_not_command_the_terminal(style: str) -> None:
    """Messages of errors can contain names of files."""
    terminal = object.__new__(KeyTerminal)
    terminal._coloured = True
    paint = terminal._paint([(f"{ESC}]0;title\x07 \u202e\n", style)])
    assert paint.removeprefix(f"{ESC}[{style}m").removesuffix(f"{ESC}[0m") == "^[]0;title^G \\u202e^J"


def test_lines_of_a_longer_screen_are_cleared(capsys: pytest.CaptureFixture[str]) -> None:
    """The help is shorter than the screen that it replaces."""
    terminal = object.__new__(KeyTerminal)
    terminal._coloured, terminal._lines = False, []
    terminal.draw([[("one", "")], [("two", "")], [("three", "")]])
    capsys.readouterr()
    terminal.draw([[("one", "")]])
    assert capsys.readouterr().out == f"{ESC}[2;1H{ESC}[K{ESC}[3;1H{ESC}[K"


# The screen of perfpy top obeys keys while updates are computed; all that passes between the threads arrives once and in order.


KEY_LIMIT = 1.0  # seconds, with a margin for busy machines; without load it takes 0.02


class Terminal:
    """A terminal: keys through a pipe, times of drawing."""

    is_open = True

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe2(os.O_NONBLOCK)
        self.drawn: list[float] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None: ...

    def fileno(self) -> int:
        return self._reading

    def size(self) -> tuple[int, int]:
        return 80, 24

    def draw(self, _lines: object) -> None:
        self.drawn.append(time.monotonic())

    def read_keys(self) -> str:
        try:
            return os.read(self._reading, 100).decode()
        except BlockingIOError:
            return ""


class Screen:
    """A screen that notes what it is told."""

    message = zoomed = ""

    def __init__(self, *_words: object, **_options: object) -> None:
        self.rows: list[object] = []
        self.pressed: list[float] = []

    def lines(self, _width: int, _height: int) -> list[str]:
        return []

    def update(self, rates: object, _report: object) -> None:
        self.rows.append(rates)

    def refresh(self, report: object) -> None:
        self.rows.append(report)

    def press(self, key: str) -> Request | None:
        self.pressed.append(time.monotonic())
        return Request("quit") if key == "q" else Request("rows", str(len(self.pressed))) if key == "s" else None


class Rings:
    """Ring buffers that are never full; they note the thread that reads them."""

    has_ended = False
    size = 0

    def __init__(self) -> None:
        self._poll = select.poll()
        self.threads: set[int] = set()

    def watch(self, fd: int) -> None:
        self._poll.register(fd, select.POLLIN)

    def wait(self, seconds: float) -> None:
        self._poll.poll(1000 * min(seconds, 0.05))

    def drain(self) -> None:
        self.threads.add(threading.get_ident())

    def adapt(self, *_numbers: float) -> None: ...

    def take(self, *, last: bool) -> object:
        self.drain()
        return last


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[ScreenRun, Terminal, Screen, Rings]]]:
    terminal, screen, rings = Terminal(), Screen(), Rings()
    monkeypatch.setattr(screen_run, "KeyTerminal", lambda: terminal)
    monkeypatch.setattr(screen_run, "TopScreen", lambda *_words, **_options: screen)

    def make(update: Callable[[object], Any], delay: str = "0.01") -> tuple[ScreenRun, Terminal, Screen, Rings]:
        monitor = SimpleNamespace(reader=rings, update=update)
        options = command.options_class.read(command.parser(["-d", delay]))
        return ScreenRun(rings, monitor, SimpleNamespace(), options), terminal, screen, rings  # type: ignore[arg-type]

    yield make
    os.close(terminal.fileno())
    os.close(terminal.writing)


NO_SIGNALS = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
SIGNALS = SimpleNamespace(fileno=lambda: NO_SIGNALS[0], arrived=False, read=set)


def test_keys_are_obeyed_while_an_update_computes(made: Callable[..., Any]) -> None:
    """The update runs Python code without end; a key is drawn soon, and q does not wait for the update."""
    ends = threading.Event()

    def update(_reading: object) -> Any:
        while not ends.is_set():
            sum(range(100))

    run, terminal, screen, _ = made(update)
    typed = []

    def type_keys() -> None:
        for key in "xyq":
            time.sleep(0.1)
            typed.append(time.monotonic())
            os.write(terminal.writing, key.encode())

    typist = threading.Thread(target=type_keys)
    typist.start()
    assert run.run(SIGNALS) == 0
    monotonic = time.monotonic()
    ends.set()
    typist.join()
    assert len(screen.pressed) == 3
    for before, pressed in zip(typed[:2], screen.pressed, strict=False):
        assert next(at for at in terminal.drawn if at > pressed) - before < KEY_LIMIT
    assert monotonic - typed[2] < 2 * KEY_LIMIT  # with the last wait for the other thread


def test_updates_and_changes_do_not_overlap_and_arrive_in_order(made: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread computes, another reads ring buffers and draws."""
    running, computing, updates, changes = [0], set(), [0], []

    def compute(name: str) -> None:
        computing.add(threading.get_ident())
        running[0] += 1
        time.sleep(0.0005)
        assert running[0] == 1, name
        running[0] -= 1

    def update(_reading: object) -> Any:
        compute("update")
        updates[0] += 1
        return SimpleNamespace(rates=("update", updates[0]), report=None, size=0, seconds=0)

    def carry_out(request: Request) -> Changed:
        compute("change")
        changes.append(request.text)
        return Changed(report=("change", len(changes)))  # type: ignore[arg-type]

    run, terminal, screen, rings = made(update)
    monkeypatch.setattr(run, "_changes", SimpleNamespace(carry_out=carry_out))

    def type_keys() -> None:
        for _ in range(100):
            os.write(terminal.writing, b"s")
            time.sleep(0.001)
        while len(changes) < 100:
            time.sleep(0.01)
        time.sleep(0.05)
        os.write(terminal.writing, b"q")

    typist = threading.Thread(target=type_keys)
    typist.start()
    assert run.run(SIGNALS) == 0
    typist.join()
    assert changes == [str(number) for number in range(1, 101)]
    for name, least in (("update", 10), ("change", 100)):
        numbers = [number for kind, number in screen.rows if kind == name]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) >= least
    assert rings.threads == {threading.get_ident()}
    assert len(computing) == 1
    assert computing != rings.threads


def test_an_error_of_an_update_ends_the_run(made: Callable[..., Any]) -> None:
    def update(_reading: object) -> Any:
        raise MemoryError("no memory")

    run, *_ = made(update)
    with pytest.raises(MemoryError, match="no memory"):
        run.run(SIGNALS)


@pytest.mark.parametrize("is_rich", [False, True])
def test_first_rows_come_before_the_interval(made: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, *, is_rich: bool) -> None:
    """The first screen needs a hundred samples or a moment, the second one half a second."""
    if is_rich:
        monkeypatch.setattr(screen_run, "_FIRST", 1000.0)
    run, terminal, screen, rings = made(lambda _reading: SimpleNamespace(rates="", report=None, size=0, seconds=0), delay="1000")
    rings.size = screen_run._ENOUGH if is_rich else 0

    def type_quit() -> None:
        end = time.monotonic() + 30
        while len(screen.rows) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        os.write(terminal.writing, b"q")

    typist = threading.Thread(target=type_quit)
    typist.start()
    assert run.run(SIGNALS) == 0
    typist.join()
    assert len(screen.rows) == 2
