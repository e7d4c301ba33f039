"""Event-based branches on a POWER PMU: the rules against the kernel's own, a handler that counts, what others see of it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.builders.guests import Guest, Said

SCRIPTS = Path(__file__).with_name("ebb")
RULES = {
    "not pinned": "it must be pinned",
    "not exclusive": "it must be exclusive",
    "inherit": "it must not have inherit",
    "sample_period": "it must not have sample_period",
    "sample_freq": "it must not have freq",
    "enable_on_exec": "it must not have enable_on_exec",
    "sample_type": "it must not have sample_type",
    "cpu": "it must follow a task, on any CPU (leave out -a and -C)",
    "no PMC": "its code must name a counter in bits 16 to 19, as 0x1001e names PMC1",
}


def run(guest: Guest) -> Said:
    shutil.copytree(SCRIPTS, guest.folder / "ebb")
    return guest.run((SCRIPTS / "session.sh").read_text())


@pytest.fixture(scope="module")
def said(boot: Callable[[str], Guest]) -> Said:
    return run(boot("ppc64el"))


def test_a_handler_in_user_space_counts_the_overflows(said: Said) -> None:
    """PM_CYC of 50 turns of 100,000 iterations, and of what Python does between them."""
    text = said.section("example")
    match = re.search(r"overflows: (\d+) of 100000 cycles each, and (\d+) cycles more", text)
    assert match, text
    assert 50 <= int(match[1]) <= 100
    assert int(match[2]) < 100_000
    assert "read: 'r1001e:u' branches to the program at overflows" in text
    assert "status 0" in text


def test_stat_adds_required_events_and_invents_no_count(said: Said) -> None:
    """perf opens the same event with inherit and enable_on_exec: <not supported>."""
    assert re.search(r"<not supported> +r800000000001001e:u", said.section("raw"))
    text = said.section("stat")
    assert re.search(r"<not counted> +r800000000001001e:u", text)
    assert "its count is in the PMC" in text
    assert "status 0" in text


@pytest.mark.parametrize("rule", RULES)
def test_refused_combinations_are_named_before_opening(said: Said, rule: str) -> None:
    assert f"{rule}: refuses / {RULES[rule]}\n" in said.section("kernel")


def test_accepted_combinations_are_opened(said: Said) -> None:
    assert said.section("kernel").startswith("good: opens / opens\n")
    assert "group: 2" in said.section("kernel")


def test_options_that_contradict_are_refused(said: Said) -> None:
    lines = said.section("rules").splitlines()
    assert [line for line in lines if line.startswith("status")] == ["status 129"] * 5
    assert sum("leave out -a and -C" in line for line in lines) == 2
    assert sum("must have that bit, or none" in line for line in lines) == 2
    assert "has no samples; clear that bit\nstatus 129" in said.section("record")


def test_a_pmu_that_is_held_is_reported_when_the_event_is_enabled(said: Said) -> None:
    assert said.section("held").strip() == "pinned event 'r1001e:u' could not be scheduled on the PMU; another pinned event holds the PMU"


def test_others_events_are_not_counted_and_the_hint_names_the_cause(said: Said) -> None:
    text = said.section("hint")
    assert re.search(r"<not counted> +cycles", text)
    assert re.search(r"<not counted> +instructions", text)
    assert "hint: no hardware event was ever scheduled: a program with event-based branches (EBB)" in text


def test_list_marks_the_pmu(said: Said) -> None:
    assert "cpu: a raw event with bit 63" in said.section("list")


def test_a_newer_emulator_opens_the_event_and_cannot_run_the_handler(boot: Callable[[str], Guest]) -> None:
    """QEMU 10 has no rfebb for programs: SIGILL is the emulator's, as the kernel opens and schedules the same event."""
    text = run(boot("ppc64el-pmi"))
    assert "good: opens / opens" in text.section("kernel")
    assert "status 132" in text.section("example") or "overflows: " in text.section("example")
