"""`perfpy help api` lists every public name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import perfpy
from perfpy import cli
from perfpy.cli.output import terminal
from perfpy.cli.top_level import print_topic

if TYPE_CHECKING:
    import pytest


def test_every_public_name_is_on_the_map(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["help", "api"]) == 0
    output = capsys.readouterr().out
    for name in perfpy.__all__:
        if not name.startswith("_"):
            assert re.search(rf"^  {name}\b|perfpy\.{name}$", output, re.MULTILINE), name
    assert "    .flamegraph" in output
    assert "BadPerfDataError" in output
    assert "Alias for field" not in output
    assert max(map(len, output.splitlines())) < 120


def test_pictures_are_words_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A sign for pictures is none of ASCII."""
    monkeypatch.setattr(terminal, "is_terminal", lambda: True)
    print_topic("screens")
    output = " ".join(capsys.readouterr().out.split())
    assert "(picture in the manual: A report on a terminal)" in output
    assert "\N{CITYSCAPE AT DUSK}" not in output
