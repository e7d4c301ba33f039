"""Frames of one function are merged."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest

import perfpy
from perfpy.abi import records
from perfpy.abi.columns import Ragged
from perfpy.abi.flags import CONTEXT_KERNEL, CONTEXT_USER, BranchSample, SampleType
from perfpy.abi.sample_decoding import BRANCH_DTYPE
from perfpy.analysis.callchains import (
    BranchSums,
    ChainTable,
    Functions,
    _without_loops,
    shorten_chains,
    with_callers_beyond,
    with_callstacks,
)
from perfpy.analysis.location_sort_keys import python_function
from perfpy.analysis.locations import ROLE_BITS
from perfpy.cli import run
from perfpy.recording import Recording
from perfpy.symbols.dso import has_python_image
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.views.stacks.exports import folded_lines
from tests.builders.perfdata import USUAL, PerfDataBuilder, simple_recording, usual_attr
from tests.builders.python_recording import python_recording
from tests.builders.terminals import on_terminal

if TYPE_CHECKING:
    from pathlib import Path


class Names:
    """The part of a symbolizer that Functions needs: the symbol of each frame, -1 for none."""

    inliner = None

    def __init__(self, *symbols: int) -> None:
        self.frames = list(symbols)
        self.symbols = range(max(symbols, default=-1) + 1)
        self.symbol = np.array(symbols, np.int32)

    def resolve(self) -> Names:
        """Return itself: its frames are resolved."""
        return self


def firsts(functions: Functions, names: Names) -> list[int]:
    """Return the first frame in the function of every frame."""
    first_frames = functions.first_frames(np.arange(len(names.frames), dtype=np.int32), names)  # type: ignore[arg-type]
    return [int(frame) for frame in first_frames]


def test_frames_of_one_symbol_become_the_first_of_them() -> None:
    assert firsts(Functions(), Names(1, 0, 1, 0, 1)) == [0, 1, 0, 1, 0]


def test_frames_without_a_symbol_stay_themselves() -> None:
    assert firsts(Functions(), Names(-1, 0, -1, 0)) == [0, 1, 2, 1]
    assert firsts(Functions(), Names(-1, -1)) == [0, 1]


def test_later_frames_join_the_known_functions() -> None:
    functions = Functions()
    assert firsts(functions, Names(2, 2)) == [0, 0]
    assert firsts(functions, Names(2, 2, 0, 2, 3, 0, -1)) == [0, 0, 2, 0, 4, 2, 6]


class InlinerThatNotes:
    """An inliner that notes which dsos it was asked about; dso 1 has inlined calls."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def may_expand(self, number: int) -> bool:
        """Whether a dso may have inlined calls."""
        self.asked.append(number)
        return number == 1


def test_only_dsos_of_new_frames_are_searched_for_inlined_calls() -> None:
    functions, names, inliner = Functions(), Names(0, 0, 1, 1, -1), InlinerThatNotes()
    names.inliner, names.dsos, names.dso = inliner, range(100), np.array([7, 7, 1, 1, -1], np.int32)  # type: ignore[assignment, attr-defined]
    assert firsts(functions, names) == [0, 0, 2, 3, 4], "frames of dso 1 may have different inlined calls"
    assert sorted(inliner.asked) == [1, 7]
    names.frames.append(0)
    names.symbol, names.dso = np.append(names.symbol, np.int32(0)), np.append(names.dso, np.int32(9))  # type: ignore[attr-defined]
    assert firsts(functions, names)[-1] == 0
    assert sorted(inliner.asked) == [1, 7, 9], "frames that are known are not looked at again"


# Samples of interpreted programs count for the functions that the interpreter ran.


FOLDED = SymbolOptions(cache=False, fold_interpreters=True)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return python_recording(tmp_path)


def rows(recording: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, tuple[float, ...]]:
    """The rows of a plain report: the last column -> percentages."""
    assert run(["report", "--stdio", "-g", "none", "-i", str(recording), *options]) == 0
    text = capsys.readouterr().out
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {line.rstrip().split("  ")[-1].strip(): tuple(float(part) for part in re.findall(r"([\d.]+)%", line)) for line in lines}


def test_self_is_the_functions_own_and_that_of_the_code_it_ran(recording: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    actual_rows = rows(recording, capsys, "-s", "sym", "--fold-interpreters")
    assert actual_rows[f"[.] py::spin:{tmp_path}/app.py"] == (60.0, 60.0)
    assert actual_rows[f"[.] py::main:{tmp_path}/app.py"] == (80.0, 20.0)


def test_functions_of_an_extension_module_of_the_program_count_for_themselves(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Rows of Python functions have them nevertheless."""
    path = python_recording(tmp_path, "/srv/fast.so")
    actual_rows = rows(path, capsys, "-s", "dso", "--fold-interpreters")
    assert actual_rows["fast.so"] == (20.0, 20.0)
    with Recording(str(path)) as opened:
        (part,) = opened.stacks(FOLDED)
    stacks = [[frame.partition(":/")[0] for frame in line.rpartition(" ")[0].split(";")[1:]] for line in folded_lines(part)]
    assert sorted(stack for stack in stacks if stack[-1] == "[fast.so]") == [
        ["[libc.so.6]", "[fast.so]"],
        ["py::main", "py::spin", "[fast.so]"],
    ]
    assert rows(path, capsys, "--no-children", "-s", "pyfunc")[f"spin {tmp_path}/app.py"] == (60.0,)


def test_perfs_text_stays_without_the_option(recording: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    assert rows(recording, capsys, "-s", "sym")[f"[.] py::spin:{tmp_path}/app.py"] == (60.0, 0.0)
    assert rows(recording, capsys, "-s", "sym", "--no-fold-interpreters")[f"[.] py::spin:{tmp_path}/app.py"] == (60.0, 0.0)


def test_samples_without_python_stay_unchanged(recording: Path, capsys: pytest.CaptureFixture[str]):
    actual_rows = rows(recording, capsys, "-s", "dso", "--fold-interpreters")
    assert actual_rows["libpython3.12.so.1.0"] == (10.0, 10.0)
    assert actual_rows["fast.so"] == (10.0, 10.0)


def test_stacks_have_the_functions_and_the_embedding_program(recording: Path):
    with Recording(str(recording)) as opened:
        (part,) = opened.stacks(FOLDED)
    results = {}
    for line in folded_lines(part):
        stack, _, weight = line.rpartition(" ")
        results[";".join(frame.partition(":/")[0] for frame in stack.split(";")[1:])] = int(weight)
    assert results["py::main;py::spin"] == 6000
    assert results["py::main"] == 1000
    assert results["[embedding];py::main"] == 1000
    assert sum(results.values()) == 10000


@pytest.mark.parametrize("options", [("-s", "pyfunc"), ("-s", "pyfunc", "--fold-interpreters"), ("-F", "overhead,pyfunc")])
def test_rows_by_function(options: tuple[str, ...], recording: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    actual_rows = rows(recording, capsys, "--no-children", *options)
    assert actual_rows == {f"spin {tmp_path}/app.py": (60.0,), f"main {tmp_path}/app.py": (20.0,), "[no Python function]": (20.0,)}


def test_the_api_has_the_same_rows(recording: Path, tmp_path: Path):
    with Recording(str(recording)) as opened:
        results = {row.texts["pyfunc"]: row.percent for row in opened.report(by=["pyfunc"]).top(9)}
        assert results[f"spin {tmp_path}/app.py"] == 60.0
        plain = FOLDED._replace(fold_interpreters=False)
        as_perf = {row.texts["symbol"]: row.percent for row in opened.report(by=["symbol"], symbols=plain).top(9)}
        assert as_perf.get(f"[.] py::spin:{tmp_path}/app.py", 0) == 0
        folded_rows = {row.texts["symbol"]: row.percent for row in opened.report(by=["symbol"]).top(9)}
        assert folded_rows[f"[.] py::spin:{tmp_path}/app.py"] == 60.0


def test_rows_by_line(recording: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    actual_rows = rows(recording, capsys, "--no-children", "-s", "pyline")
    source = f"{tmp_path}/app.py"
    assert actual_rows == {
        f"spin {source}:3": (50.0,),
        f"spin {source}:2": (10.0,),
        f"main {source}:6": (20.0,),
        "[no Python function]": (20.0,),
    }


def test_rows_by_the_lock(recording: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    assert rows(recording, capsys, "--no-children", "-s", "gil") == {"holds": (50.0,), "released": (20.0,), "-": (30.0,)}
    with Recording(str(recording)) as opened:
        by_both = {(row.texts["gil"], row.texts["pyfunc"]): row.percent for row in opened.report(by=["gil", "pyfunc"]).top(9)}
    assert by_both["holds", f"spin {tmp_path}/app.py"] == 50.0
    assert by_both["-", f"spin {tmp_path}/app.py"] == 10.0


def test_names_of_python_functions_and_of_others():
    names = ["py::main:app.py", "py::A.f:/srv/app.py", "py::f:<string>", "py::object::cast", "py::detail::f(a::b)", "main"]
    texts = SimpleNamespace(locations=SimpleNamespace(name=names.__getitem__))
    column = python_function(texts, np.arange(len(names)) << ROLE_BITS)  # type: ignore[arg-type]
    results = [column.text(row) for row in range(len(names))]
    assert results == ["main app.py", "A.f /srv/app.py", "f <string>", *["[no Python function]"] * 3]


def test_filters_are_for_the_folded_samples(recording: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    actual_rows = rows(recording, capsys, "--no-children", "-s", "sym", "--fold-interpreters", "-S", f"py::spin:{tmp_path}/app.py")
    assert actual_rows == {f"[.] py::spin:{tmp_path}/app.py": (60.0,)}


def test_source_lines_have_self_and_total(recording: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    assert run(["annotate", "--by-line", "-i", str(recording)]) == 0
    assert capsys.readouterr().out.startswith(
        "cpu-clock:u: 10 samples\n"
        f"\n{tmp_path}/app.py  80.00%\n"
        "   self    total     line\n"
        "                       1  def spin():\n"
        " 10.00%                2      x = 1\n"
        " 50.00%                3      return x + 1\n"
        "                       4  def main():\n"
        "         60.00%        5      spin()\n"
        " 20.00%                6      spin()\n"
    )


def test_terminals_fold_by_default_with_a_note(recording: Path):
    def shown(*words: str) -> str:
        return on_terminal(*words, "-i", str(recording), columns=100, lines=40, environment={"PAGER": "cat"}).text

    usual = shown("report")
    assert re.search(r"60\.00%.* 60\.00%.* Python .*spin \(app\.py:3, 50 %\)", usual)
    assert "--no-fold-interpreters" in usual
    assert "--no-fold-interpreters" in shown("annotate", "--by-line")
    for option in ("--no-fold-interpreters", "--fold-interpreters"):
        assert "--no-fold-interpreters" not in shown("report", option)
    assert "libpython3.12.so.1.0" in shown("report", "--no-fold-interpreters").partition("hottest")[0]


def test_source_lines_without_the_code_of_extension_modules(recording: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["annotate", "--by-line", "--no-fold-interpreters", "-i", str(recording)]) == 0
    assert " 30.00%  50.00%        3      return x + 1\n" in capsys.readouterr().out


def test_only_recordings_of_python_have_python_frames(recording: Path, tmp_path: Path):
    (tmp_path / "other").write_bytes(simple_recording().file())
    for path, has in ((recording, True), (tmp_path / "other", False)):
        with Recording(str(path)) as opened:
            assert has_python_image(opened.data.kept_files) == has


# Callchains from branch records: with_callstacks, and reports of recordings made with `--call-graph lbr`.


CODE = 0x400000


def chains_of(*rows: list[int]) -> Ragged:
    return Ragged(np.array([address for row in rows for address in row], np.uint64), np.cumsum([0, *map(len, rows)]))


def branches_of(*rows: list[tuple[int, int]]) -> Ragged:
    entries = [(source, target, 0) for row in rows for source, target in row]
    return Ragged(np.array(entries, BRANCH_DTYPE), np.cumsum([0, *map(len, rows)]))


def as_lists(chains: Ragged) -> list[list[int]]:
    return [row.tolist() for row in chains]


def test_the_user_part_is_the_newest_target_and_where_the_calls_came_from() -> None:
    chains = chains_of([CONTEXT_KERNEL, 1, CONTEXT_USER, 2, 3])
    branches = branches_of([(11, 10), (21, 20)])
    assert as_lists(with_callstacks(chains, branches)) == [[CONTEXT_KERNEL, 1, CONTEXT_USER, 10, 11, 21]]


def test_chains_without_a_user_part_and_samples_without_branches_stay() -> None:
    rows: list[list[int]] = [[CONTEXT_KERNEL, 1], [CONTEXT_USER, 2], [], [CONTEXT_USER, 3]]
    branches = branches_of([(11, 10)], [], [(11, 10)], [(31, 30)])
    assert as_lists(with_callstacks(chains_of(*rows), branches)) == [*rows[:3], [CONTEXT_USER, 30, 31]]


def test_the_first_of_two_user_markers_counts() -> None:
    chains = chains_of([CONTEXT_USER, 1, CONTEXT_USER, 2])
    assert as_lists(with_callstacks(chains, branches_of([(11, 10)]))) == [[CONTEXT_USER, 10, 11]]


def test_branches_of_rows_that_are_not_chosen_are_no_call_stacks() -> None:
    chains, branches = chains_of([CONTEXT_USER, 1], [CONTEXT_USER, 2]), branches_of([(11, 10)], [(21, 20)])
    result = with_callstacks(chains, branches, np.array([False, True]))
    assert as_lists(result) == [[CONTEXT_USER, 1], [CONTEXT_USER, 20, 21]]
    assert with_callstacks(chains, branches, np.array([False, False])) is chains


def test_beyond_the_recorded_calls_come_the_callers_of_the_stack() -> None:
    whole = chains_of([CONTEXT_KERNEL, 1, CONTEXT_USER, 0x100, 0x204, 0x304, 0x404, 0x504])
    branches = branches_of([(0x200, 0x100), (0x300, 0x200)])
    columns = with_callstacks(whole, branches)
    result = with_callers_beyond(columns, branches, whole, np.array([True]))
    assert as_lists(result) == [[CONTEXT_KERNEL, 1, CONTEXT_USER, 0x100, 0x200, 0x300, 0x404, 0x504]]


def test_calls_unknown_to_the_stack_stay_without_callers() -> None:
    whole = chains_of([CONTEXT_USER, 0x100, 0x204], [CONTEXT_USER, 0x100, 0x204, 0x304], [CONTEXT_USER, 0x100, 0x204, 0x304])
    branches = branches_of([(0x900, 0x100)], [(0x200, 0x100)], [])
    result = with_callstacks(whole, branches)
    rows = [[CONTEXT_USER, 0x100, 0x900], [CONTEXT_USER, 0x100, 0x200], [CONTEXT_USER, 0x100, 0x204, 0x304]]
    assert as_lists(with_callers_beyond(result, branches, whole, np.array([True, False, True]))) == rows


def recording_of_lbr_callchains(call_stack: int) -> PerfDataBuilder:
    sampled = USUAL | SampleType.CALLCHAIN | SampleType.BRANCH_STACK
    built = PerfDataBuilder(attrs=[usual_attr(sampled, branch_sample_type=BranchSample.USER | call_stack)])
    built.record(records.Comm(0, 7, 7, "prog"))
    built.record(records.Mmap(0, 7, 7, CODE, 0x10000, 0, "/bin/prog"))
    chain, stack = [CONTEXT_USER, CODE + 0x10, CODE + 0x999], [(CODE + 0x200, CODE + 0x10, 0), (CODE + 0x300, CODE + 0x180, 0)]
    return built.sample(ip=CODE + 0x10, pid=7, tid=7, time=5, period=1, misc=2, callchain=chain, branch_stack=stack)


def in_chains(path: Path) -> list[int]:
    """Return the addresses of a report's rows that come from callchains only (samples in missing files count by offset)."""
    with perfpy.open(path) as recorded:
        rows = recorded.report(by=["symbol"], callers=True).top(10)
        return sorted(int(row.texts["symbol"].split()[-1], 16) for row in rows if not row.values["samples"][0])


def test_a_report_takes_callers_from_recorded_call_stacks(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(recording_of_lbr_callchains(BranchSample.CALL_STACK).file())
    assert in_chains(path) == [CODE + 0x10, CODE + 0x200, CODE + 0x300]


def test_other_branch_records_are_no_callers(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(recording_of_lbr_callchains(0).file())
    assert in_chains(path) == [CODE + 0x10, CODE + 0x999]


def kept_by_the_rule(sources: list[int], cycles: list[int]) -> list[tuple[int, int, int]]:
    """Return the index, iterations and cycles of each branch that stays, computed one branch after the other."""
    rows = [(index, 0, 0) for index in range(len(sources))]
    seen: dict[int, int] = {}
    place = 0
    while place < len(rows):
        source = sources[rows[place][0]]
        begin = seen.setdefault((source * 0x61C8864680B583EB % 2**64 >> 57) % 127, place)
        size = min(place - begin, len(rows) - place)
        at = [sources[index] for index, _, _ in rows]
        if begin < place and at[begin] == source and at[begin : begin + size] == at[place : place + size]:
            took = sum(cycles[index] for index, _, _ in rows[place : place + size])
            del rows[place : place + size]
            if place < len(rows):
                index, times, _ = rows[place]
                rows[place] = (index, times + 1, took)
        place += 1
    return rows


@pytest.mark.parametrize("seed", range(20))
def test_loops_of_branches_are_dropped_by_the_rule(seed: int) -> None:
    draw = np.random.default_rng(seed)
    counts = draw.integers(0, 33, 50)
    sources = draw.integers(0x400000, 0x400000 + draw.integers(2, 9), (50, 32)).astype(np.uint64)
    cycles = draw.integers(0, 1000, (50, 32))
    kept, times, took, lengths = _without_loops(sources, cycles, counts)
    for row, count in enumerate(counts.tolist()):
        length = int(lengths[row])
        found = list(zip(*(table[row, :length].tolist() for table in (kept, times, took)), strict=True))
        assert found == kept_by_the_rule(sources[row, :count].tolist(), cycles[row, :count].tolist())


@pytest.mark.parametrize(
    ("sums", "text"),
    [
        (BranchSums(0, 0, 0, 0, 0, 0, 0, 0), " (calltrace)"),
        (BranchSums(4, 3, 1, 0, 0, 0, 1 | 1 << 3, 0), " (COND_BWD predicted:75.0% abort:25.0%)"),
        (BranchSums(4, 4, 0, 0, 0, 0, 1, 0), ""),
        (BranchSums(4, 0, 0, 403, 6, 50, 2, 3), " (cycles:100 iter:2 avg_cycles:8)"),
        (BranchSums(1, 0, 0, 0, 1, 50, 2, 0), ""),  # perf does not count the first one
    ],
)
def test_text_of_the_branches_of_a_node(sums: BranchSums, text: str) -> None:
    assert sums.text == text


def short_chains(chains: list[list[int]], rare: list[bool], most: int) -> tuple[list[list[int]], list[bool]]:
    """Return each chain after shorten_chains(), and whether it may be short. Frames 10 and 11 are of function 10, others of their own."""
    table = ChainTable(is_narrow=True)
    numbers = table.add(np.concatenate(chains).astype(np.int32), np.array([len(chain) for chain in chains]))
    assert numbers.tolist() == list(range(len(chains)))
    function_of = np.arange(100, dtype=np.int32)
    function_of[11] = 10
    shorter = shorten_chains(table, np.array(rare), function_of, 99, most)
    frames, offsets = shorter.table.chains()
    found = [frames[offsets[number] : offsets[number + 1]].tolist() for number in shorter.number_of]
    return found, shorter.is_short[shorter.number_of].tolist()


def test_rare_chains_keep_the_innermost_call_of_each_function() -> None:
    recursion = [[11, 5, 10, 5, 11, 1], [11, 5, 11, 1], [11, 5, 11, 2, 1]]
    assert short_chains(recursion, [True, True, True], 10) == ([[11, 5, 1], [11, 5, 1], [11, 5, 2, 1]], [True] * 3)
    chains = [[11, 5, 10, 5, 11, 1], [11, 5, 1], [11, 5, 11, 2, 1]]
    assert short_chains(recursion, [False, True, False], 10) == (chains, [False, True, False])


def test_rare_chains_that_are_still_many_lose_frames_in_the_middle() -> None:
    """As few as there is room for: 20 chains with one function each in the middle become two of the innermost and outermost ones."""
    chains = [[30 + i % 2, 40 + i, 60 + i, *range(1, 9)] for i in range(20)]
    found, is_short = short_chains(chains, [True] * 20, 2)
    assert found == [[30 + i % 2, 99, 7, 8] for i in range(20)]
    assert is_short == [True] * 20
    found, is_short = short_chains([*chains, [3, 4, 5]], [*[True] * 20, False], 1)
    assert found == [*([30 + i % 2, 99] for i in range(20)), [3, 4, 5]], "one has no room for both, and gets the shortest ones"
    assert is_short == [*[True] * 20, False]
    again, _ = short_chains([[30, 40, 99, 7, 8], [30, 41, 99, 7, 8]], [True, True], 1)
    assert again == [[30, 99, 7, 8]] * 2, "a chain has one marker"
