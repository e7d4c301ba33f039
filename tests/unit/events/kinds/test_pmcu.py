"""What is said of a HiSilicon PMCU's event before it is opened: the term, the limit, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfpy.errors import EventSyntaxError, UsageError
from perfpy.events import parse_events
from tests.builders import sysfs_tree

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.events.machine import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return sysfs_tree.hisi_pmcu(tmp_path, user_events="0x0010\n").machine()


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        pytest.param("nr_sample=0x100000000", "0x100000000 does not fit 'nr_sample', expected at most 0xffffffff", id="samples"),
        pytest.param("sample_period_ms=85900", "85900 is too long for 'sample_period_ms', expected at most 85899 ms", id="period"),
        pytest.param("pmccfiltr=256", "256 does not fit 'pmccfiltr', expected at most 0xff", id="filter"),
        pytest.param(
            "user_events=0x10000", "'user_events' cannot be '0x10000', expected hexadecimal event numbers up to 0xffff", id="event"
        ),
        pytest.param("user_events=0x10:cycles", "'user_events' cannot be '0x10:cycles'", id="no number"),
        pytest.param("user_events=" + ":".join(["0x1"] * 241), "241 events, expected at most 240", id="many events"),
    ],
)
def test_values_out_of_range_are_named_with_their_limit(machine: Machine, terms: str, message: str) -> None:
    with pytest.raises(EventSyntaxError, match=message):
        parse_events(f"hisi_pmcu_sccl3/{terms}/", machine=machine)


def test_the_longest_period_is_taken(machine: Machine) -> None:
    (event,) = parse_events("hisi_pmcu_sccl3/sample_period_ms=85899/", machine=machine)
    assert event.attr.config >> 32 == 85_899


def test_events_can_be_given_with_the_event(tmp_path: Path) -> None:
    machine = sysfs_tree.hisi_pmcu(tmp_path).machine()
    (event,) = parse_events("hisi_pmcu_sccl3/user_events=0x10:0x11:c000,nr_sample=8/", machine=machine)
    assert event.terms.user_events == (0x10, 0x11, 0xC000)
    assert event.attr.config == 8
    (event,) = parse_events("hisi_pmcu_sccl3/user_events=0x11/", machine=machine)
    assert event.terms.user_events == (0x11,)


def test_a_pmcu_without_events_names_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        parse_events("hisi_pmcu_sccl3/nr_sample=8/", machine=sysfs_tree.hisi_pmcu(tmp_path).machine())
    assert f"echo 0x10 0x11 > {tmp_path}" in str(caught.value)
    assert "hisi_pmcu_sccl3/user_events=0x10:0x11/" in str(caught.value)


def test_it_has_no_counts_for_stat(machine: Machine) -> None:
    with pytest.raises(UsageError, match="use perfpy record -e hisi_pmcu_sccl3//"):
        parse_events("hisi_pmcu_sccl3//", machine=machine, counting=True)
