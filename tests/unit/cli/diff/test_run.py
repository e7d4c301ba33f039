"""Options of a comparison of recordings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from perfpy.cli.diff.options import DiffCommandOptions
from perfpy.cli.diff.run import DiffRun

if TYPE_CHECKING:
    import pytest

IMAGE = "/root/.debug/jit/x/jitted-0-1.so"


def folds(monkeypatch: pytest.MonkeyPatch, *files: list[str], option: bool | None = None, is_screen: bool = True) -> list[bool]:
    """Return for each recording whether its interpreters are folded; files: stored in each."""
    monkeypatch.setattr("perfpy.cli.output.terminal.wants_plain", lambda **_: not is_screen)
    recordings = [cast("Any", SimpleNamespace(data=SimpleNamespace(kept_files=kept, features={}), header={}, events=[])) for kept in files]
    options = DiffCommandOptions(fold_interpreters=option)
    run = DiffRun(recordings, ["a", "b"], options)
    return [run._symbols(recording).fold_interpreters for recording in recordings]


def test_screens_of_python_recordings_have_python_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert folds(monkeypatch, [IMAGE], [IMAGE]) == [True, True]
    assert folds(monkeypatch, [IMAGE], [IMAGE], option=False) == [False, False]


def test_both_recordings_are_folded_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert folds(monkeypatch, [IMAGE], []) == [False, False]
    assert folds(monkeypatch, [IMAGE], [], option=True) == [True, True]


def test_plain_text_is_that_of_perf(monkeypatch: pytest.MonkeyPatch) -> None:
    assert folds(monkeypatch, [IMAGE], [IMAGE], is_screen=False) == [False, False]
