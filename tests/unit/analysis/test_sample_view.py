"""Samples as dimensions read them."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import perfpy
from perfpy.abi.attr import EventAttr
from perfpy.abi.columns import Columns, Ragged, Slices
from perfpy.abi.flags import CONTEXT_USER, MISC_KERNEL, MISC_USER, NATIVE_ENDIAN, BranchSample, SampleType
from perfpy.abi.perfpy_encodings import IS_WAIT, OFF_CPU_EVENT, WOKEN_BY_INTERRUPT, WOKEN_BY_THREAD
from perfpy.abi.records import Comm, Mmap2, Read
from perfpy.abi.sample_decoding import BRANCH_DTYPE
from perfpy.analysis import sample_view
from perfpy.analysis.dimensions import branch_samples
from perfpy.analysis.sample_view import DeliveryOrder, SampleView, TaskStates, combine_columns, row_fingerprints
from perfpy.capture.off_cpu_events import TIME_ATTR
from perfpy.errors import PerfError
from perfpy.perfdata.header import EventDesc, Feature, encode_feature
from perfpy.symbols.interning import IdTable
from tests.builders.perfdata import PerfDataBuilder, usual_attr


def view(*times: int) -> SampleView:
    """Return samples with times only."""
    time = np.array(times, np.uint64)
    columns = Columns(len(time), {"time": time})
    attrs = [EventAttr(sample_type=SampleType.TIME)]
    return SampleView(columns, np.zeros(len(time), np.int32), DeliveryOrder(time, time, np.arange(len(time))), attrs, None, None)  # type: ignore[arg-type]


def test_times_in_grains_are_rounded_down() -> None:
    assert view(0, 99, 100, 250).in_grains(100).column("time").tolist() == [0, 0, 100, 200]


def test_samples_are_still_delivered_at_their_own_times() -> None:
    assert view(99, 250).in_grains(100).key.tolist() == [99, 250]


def test_a_grain_of_nothing_rounds_nothing() -> None:
    assert view(99, 250).in_grains(0).column("time").tolist() == [99, 250]


def test_samples_without_times_stay_unchanged() -> None:
    samples = view(5).with_columns({})
    assert samples.in_grains(100) is samples


def test_the_period_of_a_reading_counts_also_where_the_event_has_a_fixed_one() -> None:
    attrs = [EventAttr(sample_type=SampleType.READ, sample_period=100), EventAttr(sample_type=SampleType.IP, sample_period=50)]
    time = np.arange(2, dtype=np.uint64)
    columns = Columns(2, {"period": np.array([123, 0], np.uint64)})
    samples = SampleView(columns, np.array([0, 1], np.int32), DeliveryOrder(time, time, time), attrs, None, None)  # type: ignore[arg-type]
    assert samples.period().tolist() == [123, 50]


def weighted_view() -> SampleView:
    """Return three samples with weights, the second without one."""
    samples = view(1, 2, 3)
    return samples.with_columns({**samples.columns, "weight": np.array([5, 0, 7], np.uint64)})


def test_periods_stay_with_selected_samples_and_columns() -> None:
    weighted = weighted_view().with_weights()
    assert weighted.period().tolist() == [5, 1, 7]
    assert weighted.take(np.array([2, 0])).period().tolist() == [7, 5]
    assert weighted.take(slice(None)).period().tolist() == [5, 1, 7]
    assert weighted.with_columns({}).period().tolist() == [5, 1, 7]
    assert weighted.in_grains(10).period().tolist() == [5, 1, 7]


def test_original_samples_stay_unchanged() -> None:
    samples = weighted_view()
    samples.with_weights()
    assert samples.counted_once().period().tolist() == [1, 1, 1]
    assert samples.period().tolist() == [0, 0, 0]


def test_branches_are_samples_of_their_own() -> None:
    stacks = np.array([(1, 2, 3), (4, 5, 6), (7, 8, 9)], BRANCH_DTYPE)
    samples = view(10, 20)
    samples = samples.with_columns({**samples.columns, "branch_stack": Ragged(stacks, np.array([0, 2, 3]))})
    branches = branch_samples(samples)
    assert branches.column("branch_to").tolist() == [2, 5, 8]
    assert branches.column("time").tolist() == [10, 10, 20]
    assert branches.period().tolist() == [1, 1, 1]
    assert "branch_to" not in samples.columns


# Time off the CPU in reports, flame graphs and comparisons: state, waker, seconds, with time on the CPU or without.


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


# The states of tasks at the moments of samples.


class Timeline:
    """A record that matters every 100 ns; comms are those of the thread from the third on, spaces change with each."""

    def __init__(self) -> None:
        self.tasks = IdTable()

    def ranks(self, key: Any) -> Any:
        return (key // np.uint64(100)).astype(np.int32)

    def first_and_last_rank(self, key: Any) -> tuple[int, int]:
        ranks = self.ranks(key)
        return int(ranks.min()), int(ranks.max())

    def comm_states(self, tid: Any, rank: Any) -> Any:
        return tid.astype(np.int64) * (rank > 2)

    def space_states(self, pid: Any, rank: Any) -> Any:
        return (pid.astype(np.int64) * 10 + rank).astype(np.int32)

    def kernel_states(self, rank: Any) -> Any:
        return (rank > 3).astype(np.int32)


def states(timeline: Timeline, pid: list[int], tid: list[int], key: list[int]) -> TaskStates:
    return TaskStates(timeline, np.array(pid, np.int32), np.array(tid, np.int32), np.array(key, np.uint64))  # type: ignore[arg-type]


@pytest.mark.parametrize("keys", [lambda i: 10, lambda i: 350, lambda i: 7 * i, lambda i: 700 - 7 * i])
@pytest.mark.parametrize("length", [1, 5, 40], ids=["each another task", "short runs", "long runs"])
def test_each_sample_has_the_state_of_its_task_at_its_moment(keys: Any, length: int) -> None:
    timeline = Timeline()
    for _ in range(2):  # the second batch finds its tasks known
        pid, tid, key = [i // length % 3 - 1 for i in range(100)], [i // length % 6 for i in range(100)], [keys(i) for i in range(100)]
        actual_states = states(timeline, pid, tid, key)
        rank = [one // 100 for one in key]
        assert actual_states.comm().tolist() == [one * (at > 2) for one, at in zip(tid, rank, strict=True)]
        mode = np.array([MISC_KERNEL if i % 2 else MISC_USER for i in range(100)], np.uint8)
        user = [(one % (1 << 32) * 10 + at) % (1 << 32) for one, at in zip(pid, rank, strict=True)]
        expected = [int(rank[i] > 3) if i % 2 else user[i] for i in range(100)]
        assert (actual_states.mode_space(mode) % (1 << 32)).tolist() == expected


@pytest.mark.parametrize("names", [("comm",), ("comm", "mode_space"), ("mode_space",), ("space",), ("comm", "space")])
def test_numbers_for_several_are_equal_where_all_of_these_are(names: tuple[str, ...]) -> None:
    random = np.random.default_rng(1)
    pid, tid, key = (random.integers(0, most, 300).tolist() for most in (3, 5, 700))
    mode = random.choice([MISC_KERNEL, MISC_USER], 300).astype(np.uint8)
    actual_states = states(Timeline(), pid, tid, key)
    ways = {"comm": actual_states.comm(), "mode_space": actual_states.mode_space(mode), "space": actual_states.space()}
    expected = list(zip(*(ways[name].tolist() for name in names), strict=True))
    numbers = actual_states.combine(names, mode).tolist()
    assert len(set(numbers)) == len(set(expected)) == len(set(zip(numbers, expected, strict=True)))


# Hashes that distinguish samples.


def ragged(*rows: list[int]) -> Ragged:
    """Return rows of words."""
    return Ragged(np.array([word for row in rows for word in row], np.uint64), np.cumsum([0, *map(len, rows)]))


def test_equal_rows_have_one_number_wherever_they_stand() -> None:
    numbers = row_fingerprints(ragged([1, 2], [], [3], [1, 2], []))
    assert numbers[0] == numbers[3]
    assert numbers[1] == numbers[4]
    assert len(set(numbers.tolist())) == 3


def test_rows_that_differ_in_order_or_by_zeros_have_different_numbers() -> None:
    rows = ragged([1, 2], [2, 1], [1, 2, 0], [0, 1, 2], [0], [0, 0], [])
    assert len(set(row_fingerprints(rows).tolist())) == 7


@pytest.mark.parametrize("order", ["<", ">"])
def test_rows_in_a_buffer_have_the_numbers_of_the_same_rows_apart(order: str) -> None:
    words = np.array([9, 1, 2, 9, 3, 9], order + "u8")
    spans = Slices(words, np.array([1, 4, 0]), np.array([2, 1, 0]))
    assert row_fingerprints(spans).tolist() == row_fingerprints(ragged([1, 2], [3], [])).tolist()


def test_rows_of_many_blocks_have_the_numbers_that_each_has_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    words = random.integers(0, 1 << 63, 5000).astype(np.uint64)
    lengths = np.append(random.integers(0, 9, 600), [700, 0, 3])
    starts = np.cumsum(lengths + 1) - lengths - 1
    alone = [int(row_fingerprints(Slices(words, starts[i : i + 1], lengths[i : i + 1]))[0]) for i in range(len(starts))]
    for block in (1, 7, 100, 1 << 15):
        monkeypatch.setattr(sample_view, "_BLOCK", block)
        assert row_fingerprints(Slices(words, starts, lengths)).tolist() == alone
        assert row_fingerprints(Slices(words, starts[::-1], lengths[::-1])).tolist() == alone[::-1]


@pytest.mark.parametrize("lengths", [(3, 3), (30, 50), (30, 90), (700, 900)])
@pytest.mark.parametrize("gap", [0, 7, 400])
def test_rows_of_a_buffer_are_gathered_in_their_order(lengths: tuple[int, int], gap: int) -> None:
    generator = np.random.default_rng(gap)
    size = generator.integers(*lengths, 20, endpoint=True)
    starts = np.cumsum(size + gap) - size
    words = generator.integers(0, 1 << 62, int(starts[-1] + size[-1]) + 9).astype(">u8")
    for order in (slice(None), slice(None, None, -1), slice(0, 1)):
        column = Slices(words, starts[order], size[order])
        expected = [words[start : start + count].tolist() for start, count in zip(starts[order], size[order], strict=True)]
        assert [row.tolist() for row in column.gather()] == expected
        assert column.gather().values.dtype == np.dtype("u8")


def test_millions_of_similar_chains_have_different_hashes() -> None:
    low, high = np.meshgrid(np.arange(0, 16 * 1000, 16), np.arange(0, 16 * 1000, 16))
    words = np.stack([low.ravel(), high.ravel()], axis=1).astype(np.uint64).ravel() + np.uint64(0x7F0000000000)
    rows = Ragged(words, np.arange(0, len(words) + 1, 2))
    assert len(set(row_fingerprints(rows).tolist())) == 1_000_000


def test_exchanged_columns_have_different_hashes() -> None:
    one, two = np.array([1, 2, 0], np.int64), np.array([2, 1, 0], np.int64)
    numbers = combine_columns([one, two])
    assert len(set(numbers.tolist())) == 3
    assert numbers[0] != combine_columns([two, one])[0]


def test_a_chain_is_not_taken_for_its_neighbour_column() -> None:
    numbers = combine_columns([row_fingerprints(ragged([5, 7], [5])), np.array([0, 7])])
    assert numbers[0] != numbers[1]


_WALKED = SampleType.IP | SampleType.TID | SampleType.CALLCHAIN


@pytest.mark.parametrize(
    ("attr", "words", "walked"),
    [
        (usual_attr(_WALKED), ("perf", "record", "-g"), True),
        (usual_attr(_WALKED | SampleType.REGS_USER | SampleType.STACK_USER, mmap_data=1), ("perf", "record"), False),
        (usual_attr(_WALKED | SampleType.BRANCH_STACK, branch_sample_type=BranchSample.USER | BranchSample.CALL_STACK), ("perf",), False),
        (usual_attr(_WALKED | SampleType.BRANCH_STACK, branch_sample_type=BranchSample.USER), ("perf",), True),
        (usual_attr(_WALKED, mmap_data=1), ("perfpy", "record", "--unwind"), False),
        (usual_attr(_WALKED | SampleType.ADDR, mmap_data=1), ("perf", "record", "-g", "-d"), True),
        (usual_attr(_WALKED, mmap_data=1), ("perfpy", "record", "-g", "--data-mmap"), True),
    ],
)
def test_only_callchains_of_the_kernel_lack_the_callers_of_functions_without_a_frame_pointer(
    attr: EventAttr, words: tuple[str, ...], walked: bool
) -> None:
    data = SimpleNamespace(
        events=[SimpleNamespace(attr=attr)], features={"cmdline": words}, has=lambda field: bool(attr.sample_type & field)
    )
    assert sample_view.is_walked(data) == walked
