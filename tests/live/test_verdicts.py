"""Tests that the verdict on programs with a planted cause names it first. tests/bench/verdicts.py counts all thirty."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.builders.planted import PLANTED, is_missing, names_cause, verdict_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.live

#: programs whose cause does not depend on how busy the machine is
STEADY = ("checksum", "inlined", "lock_held_asleep", "sleep", "recursion", "memcpy", "condition")


@pytest.mark.parametrize("name", STEADY)
def test_the_first_sentence_names_the_cause_and_the_line(name: str, tmp_path: Path) -> None:
    planted = next(one for one in PLANTED if one.name == name)
    if missing := is_missing(planted):
        pytest.skip(f"no {missing}")
    sentences = verdict_of(planted, tmp_path)
    assert names_cause(planted, sentences[0]), sentences
