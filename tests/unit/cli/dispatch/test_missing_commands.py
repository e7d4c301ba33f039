"""A command that only perf has is refused with what does its work."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from perfpy.cli.dispatch.commands import COMMANDS, load
from perfpy.cli.dispatch.missing_commands import ALTERNATIVES, refusal
from perfpy.cli.line.parser import Parser

COMPATIBILITY = Path(__file__).resolve().parents[4] / "man" / "topics" / "compatibility.md"


def test_no_command_of_perfpys_is_refused() -> None:
    assert not set(ALTERNATIVES) & set(COMMANDS)


@pytest.mark.parametrize("line", sorted({line for lines in ALTERNATIVES.values() for line in lines}))
def test_alternatives_are_valid_command_lines(line: str) -> None:
    program, name, *words = shlex.split(line)
    command = load(name)
    Parser(command.options, stops_at_word=command.runs_workload).parse(words)
    assert program == "perfpy"


@pytest.mark.parametrize("name", sorted(ALTERNATIVES))
def test_the_refusal_is_one_line_with_a_remedy(name: str) -> None:
    text = refusal(name)
    assert f"'{name}'; " in text
    assert "\n" not in text
    assert "perfpy " in text.split("'; ")[1]
    assert f"`{name}`" in COMPATIBILITY.read_text()
