"""Counters read without a system call on a PMU that allows it: arm64's."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.builders.guests import Guest, Said

SCRIPT = Path(__file__).with_name("user_reads") / "reads.py"


@pytest.fixture(scope="module")
def said(boot: Callable[[str], Guest]) -> Said:
    guest = boot("arm64")
    shutil.copy(SCRIPT, guest.folder)
    result = guest.run("PYTHONPATH=/host python3 reads.py")
    assert result.status == 0, result.text
    return result


def lines(said: Said, word: str) -> list[str]:
    return re.findall(rf"^{word} (.*)$", said.text, re.MULTILINE)


def test_cycles_and_instructions_of_32_and_64_bits_never_go_back(said: Said) -> None:
    assert lines(said, "order") == [f"{event} {how} page True True True" for event in (17, 8) for how in (2, 3)]


def test_counters_that_share_the_pmu_are_estimated_as_read_does(said: Said) -> None:
    printed_lines = lines(said, "shared")
    assert len(printed_lines) > 40
    assert {line.rsplit(" ", 1)[1] for line in printed_lines} == {"True"}
    ways = {line.rsplit(" ", 1)[0] for line in printed_lines}
    assert ways == {"page", "the counter is not in a register of the PMU now (index is 0)"}


def test_it_costs_less_than_read(said: Said) -> None:
    (user, kernel, from_page) = lines(said, "cost")[0].split()
    assert from_page == "True"
    assert int(user) < 0.85 * int(kernel)


def test_other_threads_and_children_fall_back(said: Said) -> None:
    assert lines(said, "others") == ["True 0 True"]


def test_an_event_that_user_space_may_not_read_is_reported(said: Said) -> None:
    assert "cap_user_rdpmc" in lines(said, "plain")[0]
