"""What the page's scripts compute, without a browser: in node, where there is one."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import perfpy.views.page
from perfpy.views.page.profile_data import profile_data
from tests.builders.stacks import At, stacks, timed_stacks

FOLDER = Path(perfpy.views.page.__file__).parent
MS = 1_000_000
NAMES = "unpack trees tries selection loads colours functions words"


def node(expression: str, data: dict[str, Any] | None = None) -> Any:
    """The value of an expression, in which every export of the scripts is known, and `profile`, made of the data."""
    found = shutil.which("node")
    if found is None:
        pytest.skip("no node on this machine to run the page's scripts with")
    modules = "\n".join(f'import * as {name} from "{(FOLDER / name).as_uri()}.js";' for name in NAMES.split())
    text = (f"{modules}\nObject.assign(globalThis, {', '.join(NAMES.split())});\n"
            f"const profile = {'await unpack.profileOf(' + json.dumps(data) + ')' if data else 'null'};\n"
            f"console.log(JSON.stringify({expression}));")  # fmt: skip
    run = subprocess.run([found, "--input-type=module", "-e", text], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


CHOICE = "{event: 0, process: null, thread: null, cpu: null, module: null, range: null}"
TREE = f"weighed(profile.tree, collect(profile, {CHOICE}).own, kindOf(profile, 0))"


def lines(tree: str) -> Any:
    """A tree as [depth, name, sum] of its nodes, as a text of JavaScript."""
    return (f"(t => Array.from({{length: t.n - 1}}, (_, k) => k + 1).filter(i => t.width[i])"
            f".map(i => [t.depth[i], profile.names[t.name[i]][0], t.sum[0][i]]))({tree})")  # fmt: skip


FOLDED = "sh;main;run;read 30\nsh;main;run 20\nls;main;list 50"


def test_a_tree_has_the_sums_of_what_is_above() -> None:
    found = node(lines(TREE), profile_data([[stacks(FOLDED)]]))
    assert found == [[1, "ls", 50], [2, "main", 50], [3, "list", 50], [1, "sh", 50], [2, "main", 50], [3, "run", 50], [4, "read", 30]]


def test_inverted_stacks_begin_with_the_innermost_function() -> None:
    found = node(lines(f"inverted({TREE}, profile.names.length)"), profile_data([[stacks(FOLDED)]]))
    assert [line for line in found if line[0] == 1] == [[1, "list", 50], [1, "read", 30], [1, "run", 20]]
    assert [3, "main", 30] in found  # read, run, main


def test_callers_and_callees_count_recursion_once() -> None:
    data = profile_data([[stacks("a;f;g;f;h 5\na;f 2\nb;f 3")]])
    name = "profile.names.findIndex(name => name[0] === 'f')"
    above = node(lines(f"callers({TREE}, profile.names.length, {name})"), data)
    below = node(lines(f"callees({TREE}, profile.names.length, {name})"), data)
    assert above == [[1, "a", 7], [1, "b", 3]]
    assert below == [[1, "g", 5], [2, "f", 5], [3, "h", 5]]


def test_self_and_total_count_each_sample_once() -> None:
    data = profile_data([[stacks("a;f;g;f;h 5\na;f 2\nb;f 3")]])
    rows = node(f"functionRows({TREE}, profile.names)", data)
    assert {row["name"]: (row["self"], row["total"]) for row in rows}["f"] == (0.5, 1.0)


def test_a_table_is_sorted_by_what_changed_most_either_way() -> None:
    rows = [{"change": 0.1, "total": 1}, {"change": -0.5, "total": 0}, {"change": 0.3, "total": 0}]
    assert [row["change"] for row in node(f"sortedRows({json.dumps(rows)}, 'change')")] == [-0.5, 0.3, 0.1]


def collected(part: str, data: dict[str, Any]) -> Any:
    choice = CHOICE.replace(part.partition(":")[0] + ": null", part)
    return node(f"(c => [c.samples, c.own[0].reduce((a, b) => a + b)])(collect(profile, {choice}))", data)


def test_a_selection_has_the_samples_of_its_range_and_tasks() -> None:
    samples = [At("a;f", 10 * MS, 1, 1, 1, 0), At("a;g", 20 * MS, 2, 1, 2, 1), At("b;f", 30 * MS, 4, 3, 3, 1)]
    data = profile_data([[timed_stacks(samples)]])
    ticks = 10 * MS // data["tick"]
    assert collected(f"range: [{ticks}, {2 * ticks}]", data) == [1, 2]
    assert collected(f"range: [0, {2 * ticks + 1}]", data) == [3, 7]
    assert collected("process: 1", data) == [2, 3]
    assert collected("cpu: 1", data) == [2, 6]
    assert collected("thread: 2", data) == [1, 4]


def test_of_a_wait_the_part_within_the_range_counts() -> None:
    waits = [At("a;f", 0, 0), At("a;f", 100 * MS, 60 * MS), At("a;g", 200 * MS, 150 * MS)]
    data = profile_data([[timed_stacks(waits, off_cpu=True)]])
    ticks = 10 * MS // data["tick"]
    assert collected(f"range: [{7 * ticks}, {8 * ticks}]", data) == [2, 20 * MS]


def test_load_is_the_share_of_the_time_that_was_spent() -> None:
    samples = [At("a;f", at * MS, MS) for at in range(1, 51)] + [At("a;f", 100 * MS, MS)]
    data = profile_data([[timed_stacks(samples)]])
    found = node(f"lanesOf(profile, {CHOICE}, 'cpu', [0, profile.last], 10).map(lane => [...lane.on])", data)
    assert [round(value, 1) for value in found[0]] == [1.0] * 4 + [0.9] + [0.0] * 4 + [0.1]


def test_a_wait_is_spread_over_the_time_that_it_took() -> None:
    waits = [At("a;f", 0, 0), At("a;f", 80 * MS, 40 * MS), At("a;f", 100 * MS, 0)]
    data = profile_data([[timed_stacks(waits, off_cpu=True)]])
    found = node(f"lanesOf(profile, {CHOICE}, 'thread', [0, profile.last], 10).map(lane => [...lane.off])", data)
    assert [round(value, 1) for value in found[0]] == [0.0] * 4 + [1.0] * 4 + [0.0] * 2


def test_of_very_many_threads_those_with_most_are_lanes() -> None:
    samples = [At("a;f", number * MS, 1000 + number, 1, number, 0) for number in range(1, 501)]
    data = profile_data([[timed_stacks(samples)]])
    found = node(f"lanesOf(profile, {CHOICE}, 'thread', [0, profile.last], 10).map(lane => profile.threads[lane.lane][1])", data)
    assert found == list(range(500, 200, -1))


def test_the_heat_map_has_a_column_a_second_and_the_offset_below() -> None:
    samples = [At("a;f", at * 1000 * MS + 250 * MS, 1) for at in range(3)] + [At("a;f", 0, 1)]
    cells = "[...heat.cells].flatMap((n, i) => n ? [[Math.floor(i / 4), i % 4]] : [])"
    data = profile_data([[timed_stacks(samples)]])
    found = node(f"(heat => [heat.columns, heat.most, {cells}])(heatOf(profile, {CHOICE}, 1, 4))", data)
    assert found == [3, 1, [[0, 0], [0, 1], [1, 1], [2, 1]]]


@pytest.mark.parametrize(("seconds", "lengths"), [(0.2, [0.1]), (4.5, [0.1, 1]), (100, [0.1, 1, 10]), (86400, [60])])
def test_columns_are_as_long_as_makes_a_picture(seconds: float, lengths: list[float]) -> None:
    assert node(f"columnsFor({seconds})") == lengths


def test_names_are_readable_on_every_colour() -> None:
    """WCAG's contrast for text, 4.5, of the ink with each colour that a frame can have."""
    names = "Array.from({length: 200}, (_, i) => ['f' + i, 'lib' + i, +(i % 7 === 0)])"
    of_files = "names.map((_, i) => colour({kind: 'one', name: [-1, i]}, 1, {names, dark, off}))"
    waited = "[0, .2, .5, .8, 1].map(s => ({kind: 'parts', name: [-1, 0], sum: [[1, 1 - s], [1, s]], totals: [1, 1]}))"
    changed = "[[0, 1], [1, 0], [1, 1]].map(p => ({kind: 'changes', name: [-1, 0], sum: p.map(v => [1, v]), totals: [1, 1]}))"
    of_kinds = f"[...{waited}, ...{changed}].map(tree => colour(tree, 1, {{names, dark, off}}))"
    each = f"[false, true].flatMap(dark => [false, true].flatMap(off => [...{of_files}, ...{of_kinds}]))"
    found = node(f"(names => [...{each}, INK])({names})")
    *colours, ink = found
    least = min(brightness(colour) for colour in colours)
    assert (least + 0.05) / (brightness(ink) + 0.05) >= 4.5


def brightness(colour: str) -> float:
    """Relative luminance of hsl(h s% l%) or #rrggbb."""
    if colour.startswith("#"):
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    else:
        import colorsys
        import re

        hue, saturation, light = map(float, re.findall(r"-?[\d.]+(?:e-?\d+)?", colour))
        parts = list(colorsys.hls_to_rgb(hue / 360, light / 100, saturation / 100))
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(
    ("ns", "text"), [(0, "0.0 µs"), (999_940, "999.9 µs"), (999_960, "1.000 ms"), (999_999_999, "1.000 s"), (12_345_678_901, "12.346 s")]
)
def test_times_have_the_digits_that_matter(ns: int, text: str) -> None:
    assert node(f"duration({ns})") == text
