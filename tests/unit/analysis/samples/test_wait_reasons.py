"""Time off the CPU in reports, flame graphs and comparisons: state, waker, seconds, with time on the CPU or without."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import perfpy
from perfpy.abi.flags import CONTEXT_USER, MISC_USER, NATIVE_ENDIAN, SampleType
from perfpy.abi.records import Comm, Mmap2, Read
from perfpy.abi.waits import IS_WAIT, OFF_CPU_EVENT, WOKEN_BY_INTERRUPT, WOKEN_BY_THREAD
from perfpy.capture.off_cpu.sources import TIME_ATTR
from perfpy.errors import PerfError
from perfpy.perfdata.container.feature_values import EventDesc
from perfpy.perfdata.container.features import Feature, encode_feature
from tests.builders.perfdata import PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from perfpy.abi.attr import EventAttr

CHECKOUT = Path(__file__).resolve().parents[3]
CLOCK = usual_attr(SampleType.IDENTIFIER | SampleType.IP | SampleType.TID | SampleType.TIME | SampleType.PERIOD)
MILLISECOND = 1_000_000
CODE = 0x400000


def recording(
    path: Path,
    *,
    clock: EventAttr = CLOCK,
    events: tuple[str, str] = ("cpu-clock", OFF_CPU_EVENT),
    asleep: int = 6,
    ran: tuple[tuple[int, int], ...] = (),
) -> str:
    """3 ms on the CPU; in it a lock for 1 ms, which thread 9 gave back, a sleep until an interrupt came, and 2 ms for another's sake."""
    attrs = [clock, TIME_ATTR]
    ids: list[tuple[int, ...]] = [(1,), (2,)]
    built = PerfDataBuilder(attrs, ids)
    described = tuple(EventDesc(attr, name, ident) for attr, name, ident in zip(attrs, events, ids, strict=True))
    built.features[int(Feature.EVENT_DESC)] = encode_feature(Feature.EVENT_DESC, described, NATIVE_ENDIAN)
    built.record(Comm(0, 7, 7, "program")).record(Comm(0, 7, 9, "helper"))
    built.record(Mmap2(MISC_USER, 7, 7, CODE, 0x1000, 0, 0, 0, 0, 0, 5, 2, "/nowhere/program", b""))
    usual = {"pid": 7, "tid": 7, "misc": MISC_USER, "callchain": (CONTEXT_USER, CODE + 0x10, CODE + 0x20), "ip": CODE + 0x10}
    for time in (10, 20, 30):
        built.sample(0, time=time, period=MILLISECOND, **usual)
    for number, (duration, state, waker, note) in enumerate(
        ((1, "S", 9, WOKEN_BY_THREAD), (asleep, "S", 0, WOKEN_BY_INTERRUPT), (2, "R", 0, 0))
    ):
        why = {"weight": waker, "ins_lat": ord(state), "retire_lat": IS_WAIT | note}
        built.sample(1, time=40 + number, period=duration * MILLISECOND, **usual, **why)
    for tid, time in ran:
        built.record(Read(0, 7, tid, struct.pack("=3Q", time * MILLISECOND, 2, 0)), 1)
    path.write_bytes(built.file())
    return str(path)


def rows(path: str, by: str, *, joined: bool = False) -> dict[str, dict[str, float]]:
    """Return the ms of each row, for each event."""
    with perfpy.open(path) as opened:
        if joined:
            opened.merge_off_cpu()
        tables = opened.report(by=by).to_dict()["events"]
    return {table["events"][0]["name"]: {row["keys"][by]: row["seconds"] * 1000 for row in table["rows"]} for table in tables}


def test_states_are_separate_rows(tmp_path):
    actual_rows = rows(recording(tmp_path / "a"), "state")
    assert actual_rows == {"cpu-clock": {"on CPU": 3}, OFF_CPU_EVENT: {"S (sleeping)": 7, "R (ready)": 2}}


def test_wakers_are_rows(tmp_path):
    assert rows(recording(tmp_path / "a"), "waker")[OFF_CPU_EVENT] == {"[interrupt]": 6, "-": 2, "helper:9": 1}


def test_both_kinds_of_time_are_one_event_on_request(tmp_path):
    actual_rows = rows(recording(tmp_path / "a"), "state", joined=True)
    assert {name: table for name, table in actual_rows.items() if table} == {
        f"cpu-clock + {OFF_CPU_EVENT}": {"S (sleeping)": 7, "on CPU": 3, "R (ready)": 2}
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"events": ("cpu-clock", "other")}, "--off-cpu"),
        ({"clock": CLOCK.copy(type=0)}, "task-clock"),
        ({"clock": CLOCK.copy(sample_type=CLOCK.sample_type & ~SampleType.PERIOD)}, "have no period"),
    ],
)
def test_recordings_that_cannot_be_merged_raise_errors(tmp_path, changes, message):
    with perfpy.open(recording(tmp_path / "a", **changes)) as opened, pytest.raises(PerfError, match=message):
        opened.merge_off_cpu()


CYCLES = CLOCK.copy(type=0)


def test_any_event_is_joined_by_how_long_its_threads_ran(tmp_path):
    """Three samples of a million cycles each; the thread ran for 6 ms."""
    path = recording(tmp_path / "a", clock=CYCLES, events=("cycles", OFF_CPU_EVENT), ran=((7, 4), (7, 2)))
    actual_rows = rows(path, "state", joined=True)[f"cycles + {OFF_CPU_EVENT}"]
    assert actual_rows == {"S (sleeping)": 7, "on CPU": pytest.approx(6), "R (ready)": 2}
    assert [event.name for event in perfpy.open(path).events] == ["cycles", OFF_CPU_EVENT]


def test_a_thread_that_never_left_the_cpu_ran_from_its_first_sample_to_its_last(tmp_path):
    path = recording(tmp_path / "a", clock=CYCLES, events=("cycles", OFF_CPU_EVENT), ran=((9, 1),))
    with perfpy.open(path) as opened:
        opened.merge_off_cpu()
        (stacks,) = opened.stacks()
        assert stacks.in_seconds
        assert stacks.total == pytest.approx(9 * MILLISECOND + 20, abs=2)  # ns, each sample rounded
        assert any("threads without a sample of cycles" in text for text in opened.warnings)


def test_the_flame_graph_and_the_report_agree(tmp_path):
    with perfpy.open(recording(tmp_path / "a", clock=CYCLES, events=("cycles", OFF_CPU_EVENT), ran=((7, 6),))) as opened:
        opened.merge_off_cpu()
        (stacks,) = opened.stacks()
        assert stacks.total == 15 * MILLISECOND


def test_a_stack_ends_with_the_reason_why_it_waited(tmp_path):
    path = recording(tmp_path / "a")
    with perfpy.open(path) as opened:
        clock, off = opened.stacks()
    assert (clock.event, off.event, clock.in_seconds, off.in_seconds) == ("cpu-clock", OFF_CPU_EVENT, True, True)
    assert {off.functions[off.chain_of(chain)[0]].name: int(weight) for chain, weight in zip(off.chain, off.weight, strict=True)} == {
        "[S (sleeping)]": 7 * MILLISECOND,
        "[R (ready)]": 2 * MILLISECOND,
    }
    assert all(len(off.chain_of(chain)) == 3 for chain in off.chain)
    assert not any(clock.functions[clock.chain_of(chain)[0]].name.endswith(")]") for chain in clock.chain)


def test_one_flame_graph_has_both(tmp_path):
    with perfpy.open(recording(tmp_path / "a")) as opened:
        opened.merge_off_cpu()
        (stacks,) = opened.stacks()
        assert stacks.total == 12 * MILLISECOND
        opened.flamegraph(tmp_path / "page.html")
    assert '"seconds":1' in (tmp_path / "page.html").read_text()


def run(*args: str, folder: Path) -> Any:
    line = [sys.executable, "-m", "perfpy", *args]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=60, check=True).stdout


def test_the_text_has_seconds_on_request(tmp_path):
    path = recording(tmp_path / "a")
    plain = run("report", "--stdio", "-i", path, "-s", "state", folder=tmp_path)
    assert "Seconds" not in plain
    result = run("report", "--stdio", "-i", path, "--with-off-cpu", "--no-children", folder=tmp_path)
    (line,) = (line.split() for line in result.splitlines() if "R (ready)" in line)
    assert line[:2] == ["16.67%", "0.002000"]
    fields = run("report", "--stdio", "-i", path, "-F", "seconds,state", folder=tmp_path)
    assert "0.007000  S (sleeping)" in fields


def test_samples_are_listed_though_they_have_no_data(tmp_path):
    lines = run("script", "-i", recording(tmp_path / "a"), folder=tmp_path).splitlines()
    assert [line.split()[2:4] for line in lines if f"{OFF_CPU_EVENT}:" in line] == [
        ["0.000000:", "1000000"],
        ["0.000000:", "6000000"],
        ["0.000000:", "2000000"],
    ]


def test_only_events_of_time_are_in_seconds(tmp_path):
    path = recording(tmp_path / "a", clock=CLOCK.copy(type=0))
    text = run("report", "--stdio", "-i", path, "-F", "seconds,state", folder=tmp_path)
    assert "N/A  on CPU" in text


def test_a_comparison_shows_both_kinds_of_time_as_one(tmp_path):
    before, after = recording(tmp_path / "a"), recording(tmp_path / "b", asleep=9)
    document = json.loads(run("diff", "--json", "--with-off-cpu", "-s", "state", before, after, folder=tmp_path))
    (event,) = (event for event in document["events"] if event["rows"])
    assert [file["seconds"] for file in event["files"]] == [0.012, 0.015]
    periods = {row["keys"]["state"]: [file["period"] // MILLISECOND for file in row["files"]] for row in event["rows"]}
    assert periods == {"S (sleeping)": [7, 10], "on CPU": [3, 3], "R (ready)": [2, 2]}
