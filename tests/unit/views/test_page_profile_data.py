"""The page: the profile as compact data."""

from __future__ import annotations

import base64
import zlib
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfpy.analysis.report.options import ReportOptions
from perfpy.analysis.source_files import SourceFile, SourceLine, SourceShares
from perfpy.disassembly.disassembler import CodeStyle
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.views.page import page as code_data_module
from perfpy.views.page import profile_data as module
from perfpy.views.page import profile_data as sample_rows
from perfpy.views.page.marks import RowGroups, packed
from perfpy.views.page.page import code_data, file_data, page_parts
from perfpy.views.page.profile_data import profile_data
from tests.builders.annotated import spin_with_lines, stand_in
from tests.builders.stacks import At, stacks, timed_stacks

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from perfpy.analysis.filters import SampleFilter


# Tests of the data for the page's scripts: samples at nodes of one tree.


def inflated(texts: str | list[str]) -> bytes:
    """The bytes of a column, one plane after the other."""
    return b"".join(zlib.decompress(base64.b64decode(text)) for text in ([texts] if isinstance(texts, str) else texts))


def column(packed: dict[str, Any]) -> list[Any]:
    if "of" in packed:
        table = column(packed["of"])
        return [table[rank] for rank in column({key: value for key, value in packed.items() if key != "of"})]
    if "all" in packed:
        return [packed["all"]] * packed["n"]
    data, rows = inflated(packed["z"]), packed["n"]
    values = [sum(data[plane * rows + row] << 8 * plane for plane in range(packed["bytes"])) for row in range(rows)]
    return [sum(values[: row + 1]) % (1 << 32) for row in range(rows)] if "delta" in packed else values


def paths(data: dict[str, Any], samples: dict[str, Any]) -> list[str]:
    """Return the stack of each sample, from the tree."""
    names, depths = column(data["tree"]["name"]), column(data["tree"]["depth"])
    results: list[str] = []
    open_: list[str] = []
    for name, depth in zip(names, depths, strict=True):
        open_[depth:] = [data["names"][name][0]]
        results.append(";".join(open_))
    return [results[node] for node in column(samples["node"])]


ONE = [At("a;main;run", 5_000_000, 1000), At("b;main", 7_000_000, 3000, 8, 9, 1), At("a;main;run", 9_000_000, 2000)]


def test_a_sample_has_its_stack_time_thread_cpu_and_weight() -> None:
    data = profile_data([[timed_stacks(ONE)]])
    (samples,) = data["events"][0]["samples"]
    assert paths(data, samples) == ["a;main;run", "b;main", "a;main;run"]
    assert [tick * data["tick"] for tick in column(samples["time"])] == [0, 2_000_000, 4_000_000]
    assert column(samples["weight"]) == [1000, 3000, 2000]
    assert [data["threads"][number] for number in column(samples["thread"])] == [[7, 7, "a"], [8, 9, "b"], [7, 7, "a"]]
    assert [data["cpus"][number] for number in column(samples["cpu"])] == [0, 1, 0]
    assert (data["events"][0]["seconds"], data["events"][0]["off"]) == (1, 0)


def test_a_thread_has_its_last_name() -> None:
    data = profile_data([[timed_stacks([At("old;f", 1), At("new;f", 2)])]])
    assert data["threads"] == [[7, 7, "new"]]


def test_times_of_two_recordings_begin_at_each_start() -> None:
    later = [sample._replace(time=sample.time + 10**12) for sample in ONE]
    data = profile_data([[timed_stacks(ONE)], [timed_stacks(later)]])
    first, second = data["events"][0]["samples"]
    assert column(first["time"]) == column(second["time"])
    assert column(first["node"]) == column(second["node"])


def test_an_event_of_only_one_recording_is_skipped() -> None:
    parts = [timed_stacks(ONE, "a"), timed_stacks(ONE, "b")]
    assert [event["event"] for event in profile_data([parts, parts[1:]])["events"]] == ["b"]
    assert [event["event"] for event in profile_data([parts])["events"]] == ["a", "b"]


def test_a_clock_is_compared_whatever_its_precision() -> None:
    """`record` opens task-clock:ppp in the place of cycles, `record --off-cpu` task-clock."""
    data = profile_data([[timed_stacks(ONE, "task-clock"), timed_stacks(ONE, "offcpu-time")], [timed_stacks(ONE, "task-clock:ppp")]])
    assert ([event["event"] for event in data["events"]], data["sides"]) == (["task-clock"], 2)


def test_joined_time_on_and_off_the_cpu_is_distinguished() -> None:
    part = timed_stacks(ONE, "cpu-clock + offcpu-time")
    assert part.timed is not None
    part = replace(part, timed=replace(part.timed, waits=np.array([False, True, False])))
    on, off = profile_data([[part]])["events"]
    assert [(one["event"], one["seconds"], one["off"]) for one in (on, off)] == [("cpu-clock", 1, 0), ("offcpu-time", 1, 1)]
    assert (column(on["samples"][0]["weight"]), column(off["samples"][0]["weight"])) == ([1000, 2000], [3000])


def test_two_events_of_one_name_are_separate() -> None:
    assert [event["event"] for event in profile_data([[timed_stacks(ONE), timed_stacks(ONE)]])["events"]] == ["cpu-clock"] * 2


def test_stacks_without_times_have_counts() -> None:
    data = profile_data([[stacks("a;f 4\nb;g 6")]])
    (samples,) = data["events"][0]["samples"]
    assert sorted(zip(paths(data, samples), column(samples["weight"]), strict=True)) == [("a;f", 4), ("b;g", 6)]
    assert "time" not in samples
    assert data["threads"] == []


def test_shares_of_the_wall_clock_are_times_but_not_of_a_cpu() -> None:
    part = replace(timed_stacks(ONE, in_seconds=False), event="task-clock (wall clock)")
    (event,) = profile_data([[part]])["events"]
    assert (event["seconds"], event["time"]) == (0, 1)
    (event,) = profile_data([[replace(part, event="page-faults")]])["events"]
    assert (event["seconds"], event["time"]) == (0, 0)


def test_samples_without_time_have_no_times() -> None:
    part = timed_stacks(ONE)
    assert part.timed is not None
    part = replace(part, timed=replace(part.timed, time=np.full(3, (1 << 64) - 1, np.uint64)))
    (samples,) = profile_data([[part]])["events"][0]["samples"]
    assert "time" not in samples
    assert len(column(samples["thread"])) == 3


@pytest.fixture
def levels(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The data of 1,000 samples, of which the overview has 50, in chunks of 200."""
    many = [At(f"a;f{number % 2}", number * 1_000_000, 5 + number % 3, cpu=number % 2) for number in range(1000)]
    monkeypatch.setattr(module, "MOST_ROWS", 100)
    monkeypatch.setattr(module, "OVERVIEW", 50)
    monkeypatch.setattr(sample_rows, "_CHUNK", 200)
    assert profile_data([[timed_stacks(many[:100])]])["each"] == 1, "few samples have no levels"
    return profile_data([[timed_stacks(many)]])


def test_an_overview_stands_for_all_samples(levels: dict[str, Any]) -> None:
    (samples,) = levels["events"][0]["samples"]
    assert levels["each"] == 20
    assert samples["node"]["n"] == 50
    assert sum(column(samples["count"])) == 1000
    assert sum(column(samples["weight"])) == sum(5 + number % 3 for number in range(1000))
    assert sorted(column(samples["time"])) == list(column(samples["time"]))
    cpus = [*column(samples["cpu"])]
    assert 10 < sum(cpus) < 40, "samples that come in turns are chosen from all CPUs"


def test_sums_without_times_are_exact(levels: dict[str, Any]) -> None:
    sums = levels["events"][0]["samples"][0]["sums"]
    assert sums["node"]["n"] == 2
    assert "time" not in sums
    weights = [sum(5 + number % 3 for number in range(1000) if number % 2 == parity) for parity in (0, 1)]
    assert list(column(sums["weight"])) == weights
    assert list(column(sums["count"])) == [500, 500]


def test_chunks_have_all_samples(levels: dict[str, Any]) -> None:
    (samples,) = levels["events"][0]["samples"]
    assert samples["chunks"] == [[number * 10, number * 10 + 10, number * 200_000, number * 200_000 + 199_000] for number in range(5)]
    assert [chunk["node"]["n"] for chunk in levels["chunks"]] == [200] * 5
    assert [time for chunk in levels["chunks"] for time in column(chunk["time"])] == [number * 1000 for number in range(1000)]


def test_the_overview_of_waits_has_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of waits are not added up: they would overlap each other."""
    waits = [At("a;f", number * 1_000_000, 1 + (number * 7919) % 1000) for number in range(1, 1001)]
    monkeypatch.setattr(module, "MOST_ROWS", 100)
    monkeypatch.setattr(module, "OVERVIEW", 50)
    (samples,) = profile_data([[timed_stacks(waits, "offcpu-time", off_cpu=True)]])["events"][0]["samples"]
    assert sorted(column(samples["weight"])) == list(range(951, 1001))
    assert sum(column(samples["sums"]["weight"])) == sum(range(1, 1001))


def test_code_that_a_runtime_generated_twice_is_one_function() -> None:
    names = [name[0] for name in profile_data([[stacks("a;JS:~f 1\na;JS:*f 2")]])["names"]]
    assert [name for name in names if "f" in name] == ["JS:f"]


def test_no_samples_give_empty_data() -> None:
    data = profile_data([[]])
    assert (data["events"], data["names"], data["threads"]) == ([], [], [])


def unpacked(column: dict[str, Any]) -> list[float]:
    """Unpack like unpack.js."""
    rows = column["n"]
    if "of" in column:
        table = unpacked(column["of"])
        return [table[int(rank)] for rank in unpacked({key: value for key, value in column.items() if key != "of"})]
    if "all" in column:
        return [column["all"]] * rows
    data = inflated(column["z"])
    if column["bytes"] == 8:
        return list(map(float, np.frombuffer(data, "<f8")))
    assert len(data) == rows * column["bytes"]
    values = [sum(data[plane * rows + row] << 8 * plane for plane in range(column["bytes"])) for row in range(rows)]
    return [value % (1 << 32) for value in accumulate(values)] if "delta" in column else list(values)


@given(st.lists(st.integers(0, (1 << 53) - 1)))
def test_numbers_round_trip(values: list[int]) -> None:
    assert unpacked(packed(np.array(values, np.int64))) == values


@given(st.lists(st.integers(0, (1 << 32) - 1)))
def test_ascending_numbers_round_trip(values: list[int]) -> None:
    assert unpacked(packed(np.array(sorted(values), np.int64), ascending=True)) == sorted(values)


def test_a_column_of_one_value_is_that_value() -> None:
    assert packed(np.full(1000, 4_000_000)) == {"n": 1000, "all": 4_000_000}
    assert packed(np.zeros(0, np.int64)) == {"n": 0, "all": 0}


def test_few_distinct_numbers_are_packed_by_how_often_they_occur() -> None:
    """Stacks of many samples: their numbers have 17 bits, the ranks of frequent ones a few."""
    generator = np.random.default_rng(7)
    numbers = generator.permutation(1 << 17)[:4000]
    values = numbers[np.minimum(generator.zipf(1.4, 100_000), 4000) - 1]
    result = packed(values)
    assert unpacked(result) == values.tolist()
    plain = zlib.compress(values.astype("<u4").view(np.uint8).reshape(len(values), 4)[:, :3].T.tobytes())
    assert 0.75 * (sum(map(len, result["z"])) + sum(map(len, result["of"]["z"]))) < 0.8 * len(plain)  # in base64
    assert "of" not in packed(np.arange(100_000))  # all differ
    assert "of" not in packed(values[:100])  # the table would be larger than the column
    assert unpacked(packed(np.repeat(np.arange(5000), 20))) == np.repeat(np.arange(5000), 20).tolist()


def test_small_numbers_take_a_byte_each_before_compression() -> None:
    assert packed(np.array([1, 255]))["bytes"] == 1
    assert packed(np.array([1, 256]))["bytes"] == 2
    assert packed(np.array([7_000_000, 7_000_001]), ascending=True)["bytes"] == 3


@given(st.lists(st.tuples(st.integers(0, 1 << 17), st.integers(0, 300)), max_size=200))
def test_grouped_numbers_round_trip(rows: list[tuple[int, int]]) -> None:
    groups, values = (np.array([row[place] for row in rows], np.int64) for place in (0, 1))
    result = RowGroups(groups).packed(values)
    grouped = [value for _, value in sorted(rows, key=lambda row: row[0])]
    assert unpacked(result) == (grouped if "grouped" in result else values.tolist())


def test_columns_are_grouped_where_that_takes_less_room() -> None:
    """Each stack has one place in code: in order of time places change with every sample."""
    generator = np.random.default_rng(7)
    stack = generator.integers(0, 1000, 100_000)
    place, time_slice = stack * 7 % 251, np.repeat(generator.integers(0, 200, 1000), 100)
    groups = RowGroups(stack)
    grouped = groups.packed(place)
    assert grouped["grouped"] == 1
    assert len(str(grouped)) < len(str(packed(place))) / 10
    assert groups.packed(time_slice) == packed(time_slice)


def test_files_without_known_lines_are_left_out() -> None:
    """Compilers of runtimes name the file "??" for code of their own."""
    files = [SourceFile(name, 30.0, 30.0, [SourceLine(number, 30.0, 30.0, 3)]) for name, number in (("??", 0), ("a.c", 7))]
    assert [one["name"] for one in file_data([SourceShares("cycles", 10, files, {})])] == ["a.c"]


# Code of a range of time: samples know their place in the page's code, and these add up to what annotate finds in the range.


def site_column(packed: dict[str, Any]) -> NDArray[np.int64]:
    """Return the numbers of a packed column."""
    if "of" in packed:
        return site_column(packed["of"])[site_column({key: value for key, value in packed.items() if key != "of"})]
    if "all" in packed:
        return np.full(packed["n"], packed["all"], np.int64)
    planes = np.frombuffer(inflated(packed["z"]), np.uint8).reshape(packed["bytes"], packed["n"]).astype(np.int64)
    values = sum((plane << 8 * number for number, plane in enumerate(planes)), np.zeros(packed["n"], np.int64))
    return np.cumsum(values) % (1 << 32) if packed.get("delta") else values


@pytest.mark.parametrize(("first", "last"), [(0, 13), (0, 5), (2, 9), (9, 13)])
def test_lines_and_instructions_of_a_range_equal_annotates(first: int, last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = spin_with_lines(tmp_path)
    monkeypatch.setattr(code_data_module, "_CODE_ONLY", CodeStyle(program=str(stand_in(files))))
    symbols = SymbolOptions(symfs=str(files), cache=False)
    with Recording(str(files / "perf.data")) as recording:
        parts = page_parts(recording, symbols=symbols)
        assert parts.sites is not None
        (function, *_), (file, *_) = code_data(parts.annotation, parts.sites), file_data(parts.files, parts.sites)
        data = profile_data([parts.stacks], sites=parts.sites)
        rows = data["events"][0]["samples"][0]
        weights = np.bincount(site_column(rows["site"])[first:last], site_column(rows["weight"])[first:last], data["sites"] + 1)

        begin, end = ((210 + 10 * number) / 1e9 for number in (first, last - 1))
        chosen: SampleFilter | None = recording.where(time=f"{begin:.9f},{end:.9f}").sample_filter
        assert chosen is not None
        of_range = recording.annotate(options=ReportOptions(sample_filter=chosen), symbols=symbols)
        expected = {
            number: row.samples
            for number, row in enumerate(next(of_range.functions(style=code_data_module._CODE_ONLY)).rows())
            if row.samples
        }
        by_instruction: dict[int, int] = {}
        for number, _, _, site in function["spots"]:
            by_instruction[number] = by_instruction.get(number, 0) + int(weights[site]) // 1000
        assert {number: samples for number, samples in by_instruction.items() if samples} == expected

        (lines,) = recording.source_files(sample_filter=chosen, symbols=symbols)
        own = {line.line: line.percent for one in lines.files if one.path == file["name"] for line in one.lines if line.percent}
        whole = {line.line: line.with_inlined for one in lines.files if one.path == file["name"] for line in one.lines if line.with_inlined}
        share = {kind: {line: 100 * sum(weights[site] for number, site, is_own in file["spots"] if number == line and (is_own or not kind))
                        / 1000 / (last - first) for line, _, _ in file["spots"]} for kind in (True, False)}  # fmt: skip
        assert {line: value for line, value in share[True].items() if value} == pytest.approx(own)
        assert {line: value for line, value in share[False].items() if value} == pytest.approx(whole)


def test_a_page_without_code_has_no_sites(tmp_path: Path) -> None:
    files = spin_with_lines(tmp_path)
    with Recording(str(files / "perf.data")) as recording:
        parts = page_parts(recording, symbols=SymbolOptions(symfs=str(files), cache=False), code=False)
        assert parts.sites is None
        data = profile_data([parts.stacks], sites=parts.sites)
        assert data["sites"] == 0
        assert "site" not in data["events"][0]["samples"][0]


def test_commands_that_differ_in_numbers_alone_are_one_in_all_recordings() -> None:
    before = timed_stacks([At("worker-1;f", 1), At("worker-2;f", 2), At("main;f", 3)])
    after = timed_stacks([At("worker-1;f", 1), At("worker-3;f", 2), At("main;f", 3)])
    names = [name[0] for name in profile_data([[before], [after]])["names"]]
    assert sorted(names) == ["f", "main", "worker-*"]
    assert "worker-1" in [name[0] for name in profile_data([[before]])["names"]], "two are no group"
