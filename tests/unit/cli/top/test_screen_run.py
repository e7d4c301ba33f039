"""The screen of perfpy top obeys keys, however long updates take."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from perfpy.cli.top import screen_run
from perfpy.cli.top.screen_run import ScreenRun
from perfpy.views.top.screen import Request

if TYPE_CHECKING:
    import pytest

MOST_UPDATES = 50


class Terminal:
    """A terminal on which q is pressed during the third update."""

    is_open = True
    keys: ClassVar[list[str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None: ...

    def fileno(self) -> int:
        return 0

    def size(self) -> tuple[int, int]:
        return 80, 24

    def draw(self, lines: object) -> None: ...

    def read_keys(self) -> list[str]:
        keys, self.keys[:] = list(self.keys), []
        return keys


class Screen:
    """A screen without rows."""

    message = ""

    def __init__(self, *_words: object, **_options: object) -> None: ...

    def lines(self, _width: int, _height: int) -> list[str]:
        return []

    def update(self, *_values: object) -> None: ...

    def press(self, key: str) -> Request | None:
        return Request("quit") if key == "q" else None


def test_keys_are_read_although_updates_take_longer_than_the_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a loaded machine the next update is due at once; q still ends the program."""
    updates = []

    def update(*, last: bool) -> Any:
        del last
        time.sleep(0.005)
        updates.append(1)
        if len(updates) == 3:
            Terminal.keys.append("q")
        return SimpleNamespace(rates=None, report=None)

    monkeypatch.setattr(screen_run, "KeyTerminal", Terminal)
    monkeypatch.setattr(screen_run, "TopScreen", Screen)
    rings = SimpleNamespace(watch=lambda _fd: None, wait=lambda _seconds: None, has_ended=False)
    monitor = SimpleNamespace(drain=lambda: None, update=update)
    options = SimpleNamespace(delay=0.001, updates=MOST_UPDATES, entries=0, python=False, children=None)
    signals = SimpleNamespace(fileno=lambda: 0, arrived=False, read=set)

    assert ScreenRun(rings, monitor, SimpleNamespace(), options).run(signals) == 0  # type: ignore[arg-type]
    assert len(updates) == 3
