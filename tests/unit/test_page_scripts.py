"""What the page's scripts compute, without a browser: in node, where there is one."""

from __future__ import annotations

import colorsys
import dataclasses
import itertools
import json
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import perfpy.views.page
from perfpy.analysis.verdict.categories import COMMAND, INTERPRETER, KERNEL, LIBRARY, OWN, RUNTIME
from perfpy.views.page import profile_data as profile_rows
from perfpy.views.page.marks import WaitChains, WaitLane
from perfpy.views.page.profile_data import profile_data
from tests.builders.stacks import At, stacks, timed_stacks

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(perfpy.views.page.__file__).parent / "scripts"
MS = 1_000_000
NAMES = (
    "model/kinds model/stretches "
    "model/wait_chains model/function_sums "
    "model/unpack model/trees model/tries model/selection model/activity model/task_tree model/heat_cells model/categories "
    "model/words model/verdicts "
    "model/forms model/marks model/permalink model/stack_order model/wait_lanes views/functions views/call_tree views/details views/code"
)


def node(expression: str, data: dict[str, Any] | None = None) -> Any:
    """The value of an expression, in which every export of the scripts is known, and `profile`, made of the data."""
    path = shutil.which("node")
    if path is None:
        pytest.skip("no node on this machine to run the page's scripts with")
    modules = "\n".join(f'import * as {name.rpartition("/")[2]} from "{(FOLDER / name).as_uri()}.js";' for name in NAMES.split())
    text = (f"{modules}\nObject.assign(globalThis, {', '.join(name.rpartition('/')[2] for name in NAMES.split())});\n"
            f"const profile = {'await unpack.profileOf(' + json.dumps(data) + ')' if data else 'null'};\n"
            f"console.log(JSON.stringify({expression}));")  # fmt: skip
    run = subprocess.run([path, "--input-type=module", "-"], input=text, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


CHOICE = "{event: 0, commands: null, process: null, group: null, thread: null, cpu: null, module: null, range: null}"
TREE = f"weighed(profile.tree, collect(profile, {CHOICE}).own, kindOf(profile, 0))"


def lines(tree: str) -> Any:
    """A tree as [depth, name, sum] of its nodes, as a text of JavaScript."""
    return (f"(t => Array.from({{length: t.n - 1}}, (_, k) => k + 1).filter(i => t.width[i])"
            f".map(i => [t.depth[i], profile.names[t.name[i]][0], t.sum[0][i]]))({tree})")  # fmt: skip


FOLDED = "sh;main;run;read 30\nsh;main;run 20\nls;main;list 50"


def test_a_tree_has_the_sums_of_its_nodes() -> None:
    result = node(lines(TREE), profile_data([[stacks(FOLDED)]]))
    assert result == [[1, "ls", 50], [2, "main", 50], [3, "list", 50], [1, "sh", 50], [2, "main", 50], [3, "run", 50], [4, "read", 30]]


def test_stacks_of_many_commands_alike_are_merged() -> None:
    samples = [*(At(f"worker-{at};f", at * MS, 1, 1, 1 + at) for at in range(20)), At("app-1;f", 30 * MS, 5, 2, 2)]
    data = profile_data([[timed_stacks(samples)]])
    assert node(lines(TREE), data) == [[1, "app-1", 5], [2, "f", 5], [1, "worker-*", 20], [2, "f", 20]]
    assert "worker-7" in [name for *_, name in data["threads"]]


def test_a_profile_without_index_has_the_same_sums() -> None:
    samples = [At(f"app;main;f{at % 3}", at * MS, 1 + at, 7, 7, at % 2) for at in range(50)]
    for most in (profile_rows.MOST_ROWS, 10):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(profile_rows, "MOST_ROWS", most)
            patch.setattr(profile_rows, "OVERVIEW", max(1, most // 4))
            data = profile_data([[timed_stacks(samples)]])
        own = f"(p => [...collect(p, {CHOICE}).own[0], collect(p, {CHOICE}).samples, p.last])"
        first = f"{own}((await beginningOf({json.dumps(data)})).profile)"
        result, whole = node(f"[{first}, {own}(profile)]", data)
        assert result == whole
        assert result[-2:] == [50, 49 * MS // data["tick"]]


def test_the_callees_of_one_call_are_the_tree_below_it() -> None:
    data = profile_data([[stacks(FOLDED)]])
    assert node(lines(f"callees({TREE}, profile.names.findIndex(([name]) => name === 'run'))"), data) == [[1, "read", 30]]
    both = node(lines(f"callees({TREE}, profile.names.findIndex(([name]) => name === 'main'))"), data)  # of two commands
    assert sorted(both) == [[1, "list", 50], [1, "run", 50], [2, "read", 30]]


def test_all_callers_and_callees_of_a_rare_function_are_shown() -> None:
    data = profile_data([[stacks("app;main;busy 1000000\napp;main;far;near;rare;one;two 3")]])
    rare = "profile.names.findIndex(([name]) => name === 'rare')"
    assert node(lines(f"callers({TREE}, {rare})"), data) == [[1, "near", 3], [2, "far", 3], [3, "main", 3], [4, "app", 3]]
    assert node(lines(f"callees({TREE}, {rare})"), data) == [[1, "one", 3], [2, "two", 3]]


def test_callees_that_are_narrower_than_a_pixel_keep_their_weight() -> None:
    data = profile_data([[stacks("app;main;busy 1000000\napp;main;far;near 3")]])
    shown = node(lines(f"callees({TREE}, profile.names.findIndex(([name]) => name === 'main'))"), data)
    assert sorted(shown) == [[1, "busy", 1000000], [1, "far", 3]]


def test_inverted_stacks_begin_with_the_innermost_function() -> None:
    result = node(lines(f"inverted({TREE})"), profile_data([[stacks(FOLDED)]]))
    assert sorted(line for line in result if line[0] == 1) == [[1, "list", 50], [1, "read", 30], [1, "run", 20]]
    assert [3, "main", 30] in result  # read, run, main


def test_callers_and_callees_count_recursion_once() -> None:
    data = profile_data([[stacks("a;f;g;f;h 5\na;f 2\nb;f 3")]])
    name = "profile.names.findIndex(name => name[0] === 'f')"
    above = node(lines(f"callers({TREE}, {name})"), data)
    below = node(lines(f"callees({TREE}, {name})"), data)
    assert above == [[1, "a", 7], [1, "b", 3]]
    assert below == [[1, "g", 5], [2, "f", 5], [3, "h", 5]]


CATEGORISED = (
    "sh;main;PyEval;work;read;entry_SYSCALL_64;__x64_sys_read;vfs_read;copy 7\nsh;main;work;memcpy 5\nsh;main;PyEval;gc 3\nsh;main;x;y 2"
)
CATEGORY_OF = {
    "main": OWN,
    "work": OWN,
    "PyEval": INTERPRETER,
    "gc": INTERPRETER,
    "read": RUNTIME,
    "memcpy": RUNTIME,
    "x": LIBRARY,
    "y": LIBRARY,
}


def form(kind: str, text: str = CATEGORISED, kept: str = "") -> Any:
    """The nodes of a form of stacks with weight, as [depth, name, sum]; all other functions are the kernel's.

    kept: a function with all its frames.
    """
    part = stacks(text)
    part = dataclasses.replace(part, categories=[CATEGORY_OF.get(function.name, KERNEL) for function in part.functions])
    numbers = f"profile.names.flatMap(([name], f) => name === '{kept}' ? [f] : [])"
    grown = f"formOf(profile.tree, profile.names, '{kind}', endsOf(profile), {numbers})"
    tree = f"(f => weighed(f, regrouped(collect(profile, {CHOICE}).own, f.of, f.n), 'one'))({grown})"
    return node(lines(tree), profile_data([[part]]))


def head_of(path: list[str]) -> tuple[str, ...]:
    """The path to the first frame of the run that the path ends in."""
    kinds = [COMMAND, *(CATEGORY_OF.get(name, KERNEL) for name in path[1:])]
    first = len(path) - 1
    while kinds[first - 1] == kinds[-1]:
        first -= 1
    return tuple(path[: first + 1])


def folded_path(path: list[str], paths: list[list[str]]) -> list[str]:
    """The frames that a stack has with folded plumbing, by the plain rule. paths: all stacks."""
    shown, run, last, left_out, within = path[:1], "", -1, path[0], list[str]()
    used = {head_of(one) for one in paths if CATEGORY_OF.get(one[-1]) == RUNTIME}
    for depth, name in enumerate(path[1:], 2):
        kind = CATEGORY_OF.get(name, KERNEL)
        in_run = bool(run) and last == kind
        if kind in (RUNTIME, INTERPRETER):
            run = left_out = run if in_run else name
            within = [run] if kind == RUNTIME and head_of(path[:depth]) in used else []
        elif kind in (LIBRARY, KERNEL) and in_run:
            left_out = ""
        elif kind == KERNEL and name.startswith("entry_"):
            run, left_out = "", name
        else:
            shown, run, left_out = [*shown, *(within if kind == KERNEL else []), name], name if kind in (LIBRARY, KERNEL) else "", ""
            within = []
        last = kind
    return [*shown, *(within if last == KERNEL else []), left_out] if left_out and len(path) > 1 else shown


def own_path(path: list[str], _: list[list[str]]) -> list[str]:
    """The frames of own code of a stack."""
    return [*path[:1], *(name for name in path[1:] if CATEGORY_OF.get(name, KERNEL) == OWN)]


@pytest.mark.parametrize(("kind", "path_of"), [("folded", folded_path), ("own", own_path)])
@pytest.mark.parametrize("seed", range(3))
def test_a_form_has_the_frames_of_the_plain_rule(kind: str, path_of: Callable[[list[str], list[list[str]]], list[str]], seed: int) -> None:
    rng, names = random.Random(seed), [*CATEGORY_OF, "entry_SYSCALL_64", "vfs_read", "copy"]
    expected: dict[tuple[str, ...], int] = {}
    paths = [[rng.choice(["sh", "ls"]), *(rng.choice(names) for _ in range(rng.randrange(1, 9)))] for _ in range(199)]
    text = [f"{';'.join(path)} {weight}" for weight, path in enumerate(paths, 1)]
    for weight, path in enumerate(paths, 1):
        shown = path_of(path, paths)
        for depth in range(1, len(shown) + 1):
            expected[tuple(shown[:depth])] = expected.get(tuple(shown[:depth]), 0) + weight
    found: dict[tuple[str, ...], int] = {}
    path = []
    for depth, name, weight in form(kind, "\n".join(text)):
        path[depth - 1 :] = [name]
        assert tuple(path) not in found
        found[tuple(path)] = weight
    assert found == expected


def test_folded_plumbing_keeps_the_call_that_entered_it() -> None:
    assert sorted(form("folded")) == [
        [1, "sh", 17],
        [2, "main", 17],
        [3, "PyEval", 3],  # samples end in it; where it only leads to own code it is passed over
        [3, "work", 12],
        [3, "x", 2],
        [4, "__x64_sys_read", 7],
        [4, "memcpy", 5],
    ]


def test_waits_below_a_function_of_a_library_stay_with_its_samples() -> None:
    """The time of a thread that is preempted in it was its caller's; functions that only lead to the kernel still have no frame."""
    text = (
        "sh;main;memcpy 70\nsh;main;memcpy;entry_irq;schedule;switch 20\nsh;main;memcpy;entry_irq 1\nsh;main;read;entry_SYSCALL;vfs_read 9"
    )
    assert sorted(form("folded", text)) == [
        [1, "sh", 100],
        [2, "main", 100],
        [3, "memcpy", 91],
        [3, "vfs_read", 9],
        [4, "entry_irq", 1],
        [4, "schedule", 20],
    ]


@pytest.mark.parametrize("kind", ["folded", "own"])
def test_a_form_keeps_all_frames_of_functions_that_must_not_be_hidden(kind: str) -> None:
    """A run of plumbing lost the function that the headline names to the frame that called it."""
    text = "sh;main;PyEval;gc;PyEval 30\nsh;main;PyEval 5\nsh;main;gc;work 2\nsh;x;y;x 4"
    kept = sorted(form(kind, text, "gc"))
    assert [3, "gc", 32] in kept
    assert [4, "work", 2] in kept
    assert ([3, "PyEval", 5] in kept) is (kind == "folded")
    assert "y" not in [name for _, name, _ in kept]
    assert [3, "y", 4] in form("folded", text, "y")


def test_folding_hides_neither_what_is_selected_nor_what_is_found() -> None:
    text = "sh;main;PyEval;gc;PyEval 30\nsh;main;PyEval 5\nsh;main;read;PyEval;gc;memcpy 6\nsh;x;y 4"
    part = stacks(text)
    part = dataclasses.replace(part, categories=[CATEGORY_OF.get(function.name, KERNEL) for function in part.functions])
    data = {**profile_data([[part]]), "headline": [{"names": [["memcpy()", "memcpy"]]}]}
    grown = "(kind => formOf(profile.tree, profile.names, kind, endsOf(profile), kind === 'folded' ? headlined(profile) : []))"
    number = "(name => profile.names.findIndex(one => one[0] === name))"
    shown = "(form => [...new Set(form.name)].filter(f => f >= 0).map(f => profile.names[f][0]).sort())"
    cases = [
        "at(null, null)",
        "at(number('y'), null)",
        "at(number('PyEval'), null)",  # a part of its frames is there: a click does not move the others
        "at(null, profile.names.map(one => one[0] === 'gc'))",
        "at(null, null, number('read'))",
        "at(number('y'), null, number('read'), 'own')",
    ]
    script = f"""(() => {{
        const grown = {grown}, number = {number}, shown = {shown};
        const forms = new Forms({{ ...profile, forms: Object.fromEntries(['all', 'folded', 'own'].map(kind => [kind, grown(kind)])) }});
        const at = (chosen, hits, whole, form = 'folded') => forms.of({{ form, recursion: '', chosen }}, hits, whole);
        return [{", ".join(f"shown({case})" for case in cases)}];
    }})()"""
    found = node(script, data)
    plain = ["PyEval", "main", "memcpy", "sh", "x"]
    assert found == [plain, sorted([*plain, "y"]), plain, sorted([*plain, "gc"]), sorted([*plain, "read"]), ["main", "read", "sh"]]


def test_own_code_only_includes_the_weight_of_callees() -> None:
    assert sorted(form("own")) == [[1, "sh", 17], [2, "main", 17], [3, "work", 12]]
    assert len(form("all")) == 14


def test_merged_recursion_moves_weights_to_the_outermost_frame() -> None:
    data = profile_data([[stacks("sh;main;f;f;g;f 5\nsh;main;f;g 2\nsh;main;g;h;g;h 3")]])
    text = "merged(formOf(profile.tree, profile.names, 'all', endsOf(profile)), profile.names.length)"
    tree = f"(f => weighed(f, regrouped(collect(profile, {CHOICE}).own, f.of, f.n), 'one'))({text})"
    assert sorted(node(lines(tree), data)) == [[1, "sh", 10], [2, "main", 10], [3, "f", 7], [3, "g", 3], [4, "g", 2], [4, "h", 3]]


def test_a_call_tree_opens_inwards_and_outwards() -> None:
    data = profile_data([[stacks(FOLDED)]])
    rows = "rows => rows.map(row => [profile.names[row.name][0], row.sum[0]])"
    result = node(f"(tree => [({rows})(inwards(tree, null)), ({rows})(inwards(tree, inwards(tree, null)[0]))])({TREE})", data)
    assert result == [[["ls", 50], ["sh", 50]], [["main", 50]]]
    result = node(f"(tree => [({rows})(outwards(tree, null)), ({rows})(outwards(tree, outwards(tree, null)[1]))])({TREE})", data)
    assert result == [[["list", 50], ["read", 30], ["run", 20]], [["run", 30]]]


def test_the_caller_of_a_function_is_the_one_with_most() -> None:
    data = profile_data([[stacks("a;f;g 5\na;h;g 7\na;f;g;g 4")]])
    result = node(f"Object.fromEntries(functionRows({TREE}, profile.names).map(row => [row.name, row.callerName]))", data)
    assert result == {"f": "", "g": "f", "h": "", "a": ""}


def test_inlined_code_counts_for_the_function_that_it_stands_in() -> None:
    part = stacks("a;f;g;h 5\na;f 2\na;k;h 3\na;g 1")
    part = dataclasses.replace(part, inlined=[function.name in "gh" for function in part.functions])
    sums = f"withInlined({TREE}, profile.names, profile.inlined)[0]"
    named = f"Array.from({sums}).map((sum, f) => [profile.names[f][0], sum]).filter(([, sum]) => sum)"
    result = node(f"Object.fromEntries({named})", profile_data([[part]]))
    assert result == {"f": 7, "k": 3, "a": 1}


def test_the_function_of_the_headline_is_the_one_with_most_samples_of_its_name() -> None:
    data = profile_data([[stacks("a;f 5\na;g;f_[k] 9\nf;g 1")]])
    total = f"byFunction({TREE}, profile.names).total[0]"
    headline = "[{hottest: []}, {hottest: [['gone()', 'gone', 0.6], ['f()', 'f', 0.5]]}]"
    found = f"namedHottest({{...profile, headline: {headline}}}, {total})"
    result = node(f"(found => [profile.names[found.f].slice(0, 2), found.shown, found.share])({found})", data)
    assert result == [["f", "kernel"], "f()", 0.5]
    assert node(f"namedHottest(profile, {total})", data) is None


def test_a_sample_counts_once_for_a_callee_however_often_it_is_on_the_stack() -> None:
    data = profile_data([[stacks("a;f;g;f;g;f;h 5\na;f;g 2\na;f;h;f;g 3")]])
    called = f"neighbours({TREE}, profile.names.findIndex(name => name[0] === 'f')).callees"
    assert node(f"{called}.map(([f, weight]) => [profile.names[f][0], weight])", data) == [["g", 10], ["h", 8]]


def test_neighbours_are_the_callers_and_callees_of_a_function() -> None:
    data = profile_data([[stacks("a;f;g 5\na;h;g 7\na;h;g;k 4")]])
    names = "pairs => pairs.map(([name, weight]) => [profile.names[name][0], weight])"
    result = node(
        f"(n => [({names})(n.callers), ({names})(n.callees)])(neighbours({TREE}, profile.names.findIndex(name => name[0] === 'g')))", data
    )
    assert result == [[["h", 11], ["f", 5]], [["k", 4]]]


def waiting(data: dict[str, Any], **categories: int) -> dict[str, Any]:
    """Data whose functions of these names have categories; a name in brackets is a state."""
    data["names"] = [
        [name, module, 6 if name.startswith("[") else categories.get(name, category)] for name, module, category, *_ in data["names"]
    ]
    return data


PARTS = f"weighed(profile.tree, collect(profile, {{...{CHOICE}, event: JOINED}}).own, 'parts')"


def test_a_function_that_runs_and_waits_has_its_neighbours_with_both_shares() -> None:
    ran = [At("a;f;g", 10 * MS, MS), At("a;h;g", 20 * MS, 2 * MS), At("a;g;k", 30 * MS, 4 * MS)]
    waited = [At("a;f;g;nap", 90 * MS, 50 * MS), At("a;m;g;nap", 40 * MS, 10 * MS)]
    data = profile_data([[timed_stacks(ran), timed_stacks(waited, "offcpu-time", off_cpu=True)]])
    name = "pairs => pairs.map(([name, [on, off]]) => [profile.names[name][0], on / 1e6, off / 1e6])"
    found = node(f"(n => [n.callers, n.callees].map({name}))(inBoth({PARTS}, profile.names.findIndex(([name]) => name === 'g')))", data)
    assert found == [[["f", 1, 50], ["m", 0, 10], ["a", 4, 0], ["h", 2, 0]], [["nap", 0, 60], ["k", 4, 0]]]


def test_waits_are_at_the_function_that_waited_and_not_at_the_state() -> None:
    slept, ready, unknown = "[S (sleeping)]", "[R (ready)]", "[- (waiting)]"
    waited = [
        At(f"a;f;wait;entry;__x64_sys_futex;schedule;{slept}", 40 * MS, 30 * MS),
        At(f"a;g;wait;entry;__x64_sys_futex;schedule;{slept}", 60 * MS, 10 * MS),
        At(f"a;f;irq;schedule;{ready}", 65 * MS, 5 * MS),
        At(f"a;entry;__x64_sys_read;schedule;{slept}", 80 * MS, 4 * MS),
        At(f"a;kthread;schedule;{slept}", 90 * MS, 3 * MS),
        At(f"a;{slept}", 95 * MS, 2 * MS),
        At(f"a;f;{unknown}", 96 * MS, MS),
    ]
    data = profile_data([[timed_stacks([At("a;f", 10 * MS, MS)]), timed_stacks(waited, "offcpu-time", off_cpu=True)]])
    kernel = dict.fromkeys(("entry", "__x64_sys_futex", "__x64_sys_read", "schedule", "irq", "kthread"), KERNEL)
    rows = f"placesOfWaits({PARTS}, profile.names).map(([f, weight, state]) => [profile.names[f][0], weight / 1e6, state])"
    assert node(rows, waiting(data, **kernel)) == [
        ["wait", 40, "sleeping"],
        ["f", 5, "for a CPU"],
        ["__x64_sys_read", 4, "sleeping"],
        ["schedule", 3, "sleeping"],
        [slept, 2, "sleeping"],
        ["f", 1, "waiting"],
    ]


@pytest.mark.parametrize(("event", "kind", "column"), [("JOINED", "parts", "off"), ("1", "one", "self")])
def test_waits_are_the_own_time_of_the_function_that_waits(event: str, kind: str, column: str) -> None:
    """Every function had 0.00 %: the state of the thread had all. perf counts waits for the innermost function of user space."""
    slept = "[S (sleeping)]"
    waited = [At(f"a;f;wait;entry;schedule;{slept}", 60 * MS, 30 * MS), At(f"a;g;wait;entry;{slept}", 80 * MS, 10 * MS)]
    waited.append(At(f"a;entry;schedule;{slept}", 85 * MS, 4 * MS))
    data = profile_data([[timed_stacks([At("a;f;entry", 10 * MS, MS)]), timed_stacks(waited, "offcpu-time", off_cpu=True)]])
    tree = PARTS.replace("event: JOINED", f"event: {event}").replace("'parts'", f"'{kind}'")
    rows = node(f"functionRows({tree}, profile.names)", waiting(data, a=COMMAND, entry=KERNEL, schedule=KERNEL))
    found = {row["name"]: (round(44 * row[column]), row["callerName"]) for row in rows if row[column]}
    assert found == {"wait": (40, "f"), "schedule": (4, "entry")}
    if kind == "parts":
        assert {row["name"]: row["on"] for row in rows if row["on"]} == {"entry": 1}


def test_stacks_in_order_of_time_are_runs_of_equal_frames() -> None:
    samples = [At("a;f", 10 * MS, 10 * MS), At("a;f;g", 20 * MS, 10 * MS), At("a;f;g", 30 * MS, 10 * MS), At("a;h", 50 * MS, 10 * MS)]
    data = profile_data([[timed_stacks([At("a;f", 0, 0), *samples])]])
    columns = f"columnsOf(profile, {CHOICE}, Array.from({{length: profile.tree.n}}, (_, i) => i), 0, [0, profile.last], 5)"
    runs = f"runsOf(profile.tree, {columns}.node)"
    result = node(f"{runs}.map(run => [run.depth, profile.names[profile.tree.name[run.node]][0], run.from, run.to])", data)
    assert sorted(result) == [[0, "a", 0, 3], [0, "a", 4, 5], [1, "f", 0, 3], [1, "h", 4, 5], [2, "g", 1, 3]]


def test_a_sum_of_short_waits_hides_nothing_in_the_order_of_time() -> None:
    ran = [At("a;f", at * 10 * MS, 10 * MS) for at in range(1, 6)]
    waited = [
        At("a;f;nap", 90 * MS, 40 * MS),  # one wait: the thread has no sample in it
        At("a;f;ready", 50 * MS, 45 * MS),  # a sum: the thread ran four times since it would have begun
        At("a;f;lock", 49 * MS, 4 * MS),
        At("a;f;other", 80 * MS, 40 * MS, 7, 8),  # of another thread
    ]
    data = profile_data([[timed_stacks([At("a;f", 0, 0), *ran]), timed_stacks(waited, "offcpu-time", off_cpu=True)]])
    for event in ("JOINED", "1"):
        columns = (
            f"columnsOf(profile, {{...{CHOICE}, event: {event}}}, Array.from({{length: profile.tree.n}}, (_, i) => i), 0, "
            "[0, profile.last], 9)"
        )
        found = node(f"(({{node, apart}}) => [Array.from(node, i => i && profile.names[profile.tree.name[i]][0]), apart])({columns})", data)
        on = ["f"] * 5 if event == "JOINED" else [0, 0, 0, 0, "lock"]
        assert found == [[*on, "nap", "nap", "nap", "nap"], 45 * MS], event


def summed_waits() -> dict[str, Any]:
    """Two threads in 100 ms: one runs every other 5 ms, and waits between, once for 20 ms; the other has two sums that overlap."""
    ran = [At("a;f", at * MS, 5 * MS) for at in (5, 15, 25, 35, 45, 75, 85, 95)]
    waited = [
        At("a;f;nap", 70 * MS, 20 * MS),
        At("a;f;ready", 40 * MS, 10 * MS),
        At("a;f;lock", 90 * MS, 25 * MS),
        At("a;g;pipe", 60 * MS, 40 * MS, 7, 8),
        At("a;g;futex", 80 * MS, 35 * MS, 7, 8),
    ]
    return profile_data([[timed_stacks([At("a;f", 0, 0), *ran]), timed_stacks(waited, "offcpu-time", off_cpu=True)]])


def test_no_thread_waits_for_longer_than_a_range_takes() -> None:
    data = summed_waits()
    ms = f"{MS} / profile.tick"
    of = f"(event, thread, from, to) => collect(profile, {{...{CHOICE}, event, thread, range: [from * {ms}, to * {ms}]}})"
    total = f"(...asked) => ({of})(...asked).own.map(own => own.reduce((a, b) => a + b, 0) / {MS})"
    for length in (1, 5, 7, 20, 50):
        begins = list(range(0, 100 - length, 3))
        found = node(f"{begins}.map(at => [0, 1].map(thread => ['1', JOINED].map(one => ({total})(one, thread, at, at + {length}))))", data)
        for (waited,), both in itertools.chain(*found):
            assert waited <= length * 1.001, length
            assert sum(both) <= length * 1.001 + 5, length  # a sample stands for 5 ms
    whole, ranged, compared, sums = node(
        f"[collect(profile, {{...{CHOICE}, event: '1'}}).own[0].reduce((a, b) => a + b, 0) / {MS}, ({total})('1', null, -100, 200)[0], "
        f"collectBoth(profile, {{...{CHOICE}, event: '1', range: [50 * {ms}, 60 * {ms}]}}, [20 * {ms}, 30 * {ms}]).own"
        f".map(own => own.reduce((a, b) => a + b, 0) / {MS}), [({total})('1', 0, 50, 70)[0], ({total})('1', 0, 25, 30)[0]]]",
        data,
    )
    assert whole == 130
    assert ranged == pytest.approx(130)
    assert compared == pytest.approx([5 + 10, 10 + 10], abs=0.02)
    assert sums == pytest.approx([20, 5], abs=0.02)  # the one wait is where it was; the sum is where the thread did not run


def test_the_time_line_never_has_more_waiting_than_threads() -> None:
    activity = f"activityOf(profile, {{...{CHOICE}, event}}, 'thread', range, count, categoryOfNodes(profile))"
    most = f"(event, range, count) => (found => [found.all[0], ...found.tracks].map(track => track.most(true) / found.unit))({activity})"
    ranges = "[[0, profile.last], [0, profile.last / 3], [profile.last / 2, profile.last * 0.9]]"
    each = f"{ranges}.flatMap(range => [7, 100].map(count => ({most})(event, range, count)))"
    found = node(f"['1', JOINED].flatMap(event => {each})", summed_waits())
    for everything, *threads in found:
        assert 0.9 < everything < 2.01
        assert max(threads) < 1.01
    bins = f"activityOf(profile, {{...{CHOICE}, event: '1'}}, 'thread', [0, profile.last], 40, categoryOfNodes(profile)).all[0]"
    weights = f"({bins}).bins.filter(bins => bins).flatMap(bins => Array.from(bins)).reduce((a, b) => a + b, 0) / {MS}"
    assert node(weights, summed_waits()) == pytest.approx(130, abs=0.1)


@pytest.mark.parametrize(
    ("fragment", "key", "value"),
    [
        ("#tab=tree", "tab", "tree"),
        ("#tab=evil", "tab", "flame"),
        ("#range=1.5-2", "range", [1.5, 2]),
        ("#range=2-1", "range", None),
        ("#range=a-b-c", "range", None),
        ("#thread=7", "thread", 7),
        ("#thread=x", "thread", None),
        ("#find=%3Cimg%20src%3Dx%3E", "find", "<img src=x>"),
        ("#form=own", "form", "own"),
    ],
)
def test_a_fragment_is_read_strictly(fragment: str, key: str, value: Any) -> None:
    assert node(f"stateOf({json.dumps(fragment)})[{json.dumps(key)}]") == value


def test_a_state_and_its_fragment_are_the_same() -> None:
    state = {"tab": "tree", "thread": 3, "range": [0.25, 1.125], "find": "a&b=c #", "form": "own", "event": "joined", "module": "lib x.so"}
    result = node(f"(given => [fragmentOf(given), stateOf(fragmentOf(given))])({{...stateOf(''), ...{json.dumps(state)}}})")
    assert {key: result[1][key] for key in state} == state
    assert node("fragmentOf(stateOf(''))") == ""


def test_texts_that_are_no_expression_are_searched_as_they_are() -> None:
    assert node("[patternOf('f(').test('call f(x)'), patternOf('^f$').test('F'), patternOf('')]") == [True, True, None]


@pytest.mark.parametrize(
    ("sources", "places", "interpreted", "note"),
    [
        ([{}], [""], 0, ""),
        ([], ["s_sin.c:201", ""], 0, ". Source not found here, or not called as source files are: s_sin.c"),
        ([], ["a.c:1", "b.c:2", "a.c:9", "c.h:3", "d.h:4", "e.h:5"], 0,
         ". Source not found here, or not called as source files are: a.c, b.c, c.h and 2 more files"),
        ([], [], 1,
         ". Python runs it without instructions of its own, and its source is in no file: <string> is the text of python -c or exec()"),
        ([], ["", ""], 0, ". No lines of source are known: the file has no debug information"),
    ],
)  # fmt: skip
def test_a_function_without_source_says_why(sources: list[Any], places: list[str], interpreted: int, note: str) -> None:
    """No lines were known, as it said, above rows with lines of files that are not here."""
    instructions = [[1, 0.5, "10", "ret", place, -1, 0, -1] for place in places]
    one = {"module": "<string>", "sources": sources, "instructions": instructions, "interpreted": interpreted}
    assert node(f"sourceNote({json.dumps(one)})") == note


def test_self_and_total_count_each_sample_once() -> None:
    data = profile_data([[stacks("a;f;g;f;h 5\na;f 2\nb;f 3")]])
    rows = node(f"functionRows({TREE}, profile.names)", data)
    assert {row["name"]: (row["self"], row["total"]) for row in rows}["f"] == (0.5, 1.0)


def charged(folded: str, categories: dict[str, int]) -> Any:
    """The charged weight of each function that has one."""
    part = stacks(folded)
    part = dataclasses.replace(part, categories=[categories.get(function.name, LIBRARY) for function in part.functions])
    weights = f"chargedWeights(profile, collect(profile, {CHOICE}).own)[0]"
    return node(
        f"Object.fromEntries(Array.from({weights}, (weight, f) => [profile.names[f][0], weight]).filter(one => one[1]))",
        profile_data([[part]]),
    )


def test_library_code_is_charged_to_the_innermost_function_of_own_code() -> None:
    own = {"main": OWN, "sum": OWN, "main::{lambda()#1}": OWN}
    assert charged("a;main;sum;memcpy 5\na;main;qsort;main::{lambda()#1} 3\na;start 2\na;main 1", own) == {"sum": 5, "main": 4}


def test_time_on_the_cpu_and_waits_have_bases_of_their_own() -> None:
    parts = [timed_stacks([At("a;f", 10 * MS, 30 * MS), At("a;g", 20 * MS, 10 * MS)]),
             timed_stacks([At("a;f", 90 * MS, 60 * MS)], "offcpu-time", off_cpu=True)]  # fmt: skip
    tree = f"weighed(profile.tree, collect(profile, {{...{CHOICE}, event: selection.JOINED}}).own, 'parts')"
    rows = node(f"functionRows({tree}, profile.names)", profile_data([parts]))
    assert {row["name"]: (row["on"], row["off"], row["total"], row["waits"]) for row in rows if row["name"] in "fg"} == {
        "f": (0.75, 1.0, 0.75, 1.0),
        "g": (0.25, 0.0, 0.25, 0.0),
    }


def test_the_hottest_function_is_the_one_that_waits_where_the_headline_tells_of_waits() -> None:
    parts = [timed_stacks([At("a;f", 10 * MS, 30 * MS)]), timed_stacks([At("a;g", 90 * MS, 60 * MS)], "offcpu-time", off_cpu=True)]
    tree = f"weighed(profile.tree, collect(profile, {{...{CHOICE}, event: selection.JOINED}}).own, 'parts')"
    found = f"(t => [false, true].map(waits => profile.names[hottest(t, profile.names, chargedWeights(profile, t.own), waits)][0]))({tree})"
    assert node(found, profile_data([parts])) == ["f", "g"]


def test_a_table_is_sorted_by_the_size_of_changes() -> None:
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


def test_columns_grouped_by_stack_come_in_order_of_the_samples() -> None:
    rng = random.Random(7)
    tids = [rng.randrange(1, 90) for _ in range(20_000)]
    data = profile_data([[timed_stacks([At(f"app;f{tid}", at * MS, 1, 1, tid) for at, tid in enumerate(tids)])]])
    packed = data["events"][0]["samples"][0]
    assert packed["thread"]["grouped"] == 1
    threads = node(f"[...(await unpack.columnsOf({json.dumps(packed)}, 'node')).thread]")
    assert [data["threads"][thread][1] for thread in threads] == tids


def test_sums_by_prefix_are_those_of_the_samples() -> None:
    """Of many samples, for ranges within a block, over blocks, and to the end."""
    samples = [At(f"a;f{at % 5}", at * MS, 1 + at % 7, 1, 1 + at % 3, at % 2) for at in range(30_000)]
    part = timed_stacks(samples[:50])
    rows = np.arange(30_000)
    assert part.timed is not None
    columns: dict[str, Any] = {"chain": part.timed.chain[rows % 50], "comm": part.timed.comm[rows % 50], "pid": part.timed.pid[rows % 50]}
    columns |= {"tid": 1 + rows % 3, "cpu": rows % 2, "time": (rows * MS).astype(np.uint64), "weight": (1 + rows % 7).astype(np.uint64)}
    timed = dataclasses.replace(part.timed, **columns)
    data = profile_data([[dataclasses.replace(part, timed=timed)]])
    tick = data["tick"]
    assert node("profile.events[0].samples[0].prefix.blocks >= 8", data)
    for begin, end in ((0, 30_000), (100, 200), (1, 29_999), (2500, 27_000), (29_000, 30_000)):
        first, last = -(-begin * MS // tick), -(-end * MS // tick)
        inside = [at for at in range(30_000) if first <= at * MS // tick < last]
        assert collected(f"range: [{first}, {last}]", data) == [len(inside), sum(1 + at % 7 for at in inside)]


def test_of_a_wait_the_part_within_the_range_counts() -> None:
    waits = [At("a;f", 0, 0), At("a;f", 100 * MS, 60 * MS), At("a;g", 200 * MS, 150 * MS, 7, 8)]
    data = profile_data([[timed_stacks(waits, off_cpu=True)]])
    ticks = 10 * MS // data["tick"]
    assert collected(f"range: [{7 * ticks}, {8 * ticks}]", data) == [2, 20 * MS]


def activity(by: str, bins: int, hits: str = "null") -> str:
    """The activity of all samples, as a text of JavaScript."""
    return f"activityOf(profile, {CHOICE}, '{by}', [0, profile.last], {bins}, categoryOfNodes(profile), {hits})"


def test_load_is_the_share_of_the_time_that_was_spent() -> None:
    samples = [At("a;f", at * MS, MS) for at in range(1, 51)] + [At("a;f", 100 * MS, MS)]
    data = profile_data([[timed_stacks(samples)]])
    result = node(f"(a => a.tracks.map(track => [...track.of(OWN)].map(one => one / a.unit)))({activity('cpu', 10)})", data)
    assert [round(value, 1) for value in result[0]] == [1.0] * 4 + [0.9] + [0.0] * 4 + [0.1]


def test_a_wait_is_spread_over_the_time_that_it_took() -> None:
    waits = [At("a;f", 0, 0), At("a;f", 80 * MS, 40 * MS), At("a;f", 100 * MS, 0)]
    data = profile_data([[timed_stacks(waits, off_cpu=True)]])
    result = node(f"(a => a.tracks.map(track => [...track.of(WAITING)].map(one => one / a.unit)))({activity('thread', 10)})", data)
    assert [round(value, 1) for value in result[0]] == [0.0] * 4 + [1.0] * 4 + [0.0] * 2


def test_activity_is_by_category_and_the_sum_of_its_tracks() -> None:
    samples = [At("a;f", 10 * MS, MS, 1, 1, 0), At("a;k", 20 * MS, 2 * MS, 1, 2, 1), At("a;f", 30 * MS, 4 * MS, 1, 2, 1)]
    part = timed_stacks(samples)
    part = dataclasses.replace(part, categories=[KERNEL if function.name == "k" else OWN for function in part.functions])
    sums = "track => [OWN, KERNEL].map(category => track.of(category).reduce((a, b) => a + b, 0))"
    result = node(
        f"(a => [[...a.all, ...a.tracks].map({sums}), a.tracks.map(track => track.lane)])({activity('thread', 30)})", profile_data([[part]])
    )
    assert [[round(value / MS, 3) for value in values] for values in result[0]] == [[4, 2], [4, 2], [0, 0]]
    assert result[1] == [1, 0]  # the busiest first; the first sample's time is before the range


def test_a_search_finds_the_time_of_its_stacks() -> None:
    data = profile_data([[timed_stacks([At("a;f", 0, 0), At("a;f;g", 50 * MS, 10 * MS), At("a;h", 100 * MS, 10 * MS)])]])
    hits = "nodesUnder(profile.tree, profile.names.map(name => name[0] === 'f'))"
    result = node(f"[...{activity('thread', 10, hits)}.all[0].found].map(one => Math.round(one / {MS}))", data)
    assert result == [0, 0, 0, 0, 10, 0, 0, 0, 0, 0]


def test_a_search_tells_what_runs_from_what_waits() -> None:
    """Waits that were found stood beside an axis of CPUs as if they used some."""
    ran, waited = timed_stacks([At("a;f", 0, 0), At("a;f", 50 * MS, 10 * MS)]), timed_stacks([At("a;f", 100 * MS, 20 * MS)], off_cpu=True)
    hits = "nodesUnder(profile.tree, profile.names.map(name => name[0] === 'f'))"
    sums = "track => ['found', 'foundWaits'].map(key => Math.round((track[key] || []).reduce((a, b) => a + b, 0) / 1e6))"
    for event, expected in (("0", [10, 0]), ("1", [0, 20]), ("JOINED", [10, 20])):
        choice = activity("thread", 10, hits).replace(CHOICE, CHOICE.replace("event: 0", f"event: {event}"))
        assert node(f"(a => [...a.all, ...a.tracks].map({sums}))({choice})", profile_data([[ran, waited]])) == [expected, expected]


def test_rulers_have_several_steps_on_a_phone() -> None:
    assert node("[100, 223, 400, 3000].map(width => stepFor(10e9, width) / 1e9)") == [5, 5, 2, 1]


def test_the_busiest_of_many_threads_are_tracks() -> None:
    samples = [At("a;f", number * MS, 1000 + number, 1, number, 0) for number in range(1, 501)]
    data = profile_data([[timed_stacks(samples)]])
    result = node(f"{activity('thread', 10)}.tracks.map(track => profile.threads[track.lane][1])", data)
    assert result == list(range(500, 0, -1))


ROWS = (
    "shownRows(taskTree(lanesOf(profile, {choice}, 'thread'), profile.threads, pid => 'p' + pid), "
    "{{isOpen: () => {opens}, isFound: row => {found}, showsIdle: false, least: .01, few: 12, most: 50}})"
)


def task_rows(data: dict[str, Any], *, opens: bool = False, found: str = "false", choice: str = CHOICE) -> Any:
    """The shown rows as [level, kind, value, threads], and how many threads are folded."""
    rows = ROWS.format(choice=choice, opens=json.dumps(opens), found=found)
    return node(f"(r => [r.shown.map(({{row, level}}) => [level, row.kind, row.value, row.lanes.length]), r.folded])({rows})", data)


def test_processes_with_few_samples_are_folded() -> None:
    samples = [
        At("a;f", 10 * MS, 1000 * MS, 1, 1),
        At("b;f", 20 * MS, MS, 2, 2),
        At("c;f", 30 * MS, 50 * MS, 3, 3),
        At("c;f", 31 * MS, MS, 3, 4),
    ]
    assert task_rows(profile_data([[timed_stacks(samples)]])) == [[[0, "thread", 0, 1], [0, "process", 3, 2]], 1]


def test_threads_that_only_wait_are_folded() -> None:
    ran = [At("a;f", 500 * MS, 500 * MS, 1, 1), At("a;f", 900 * MS, 10 * MS, 1, 3)]
    waited = timed_stacks([At("a;f", 1000 * MS, 1000 * MS, 1, 2), At("b;f", 1000 * MS, 900 * MS, 4, 4)], off_cpu=True)
    data = profile_data([[timed_stacks(ran), waited]])
    rows = task_rows(data, opens=True, choice=CHOICE.replace("event: 0", "event: JOINED"))
    assert rows == [[[0, "process", 1, 3], [1, "thread", 0, 1], [1, "thread", 2, 1]], 2]


def test_threads_and_processes_with_like_names_are_one_row_with_all_their_time() -> None:
    """3,000 workers of one process, and 40 processes: nothing is cut before it is added up."""
    samples = [At(f"worker-{number};f", (number + 1) * MS, MS, 1, 1 + number) for number in range(3000)]
    samples += [At("main;f", 3001 * MS, 1000 * MS, 1, 9000)]
    samples += [At(f"server {number};f", (4000 + number) * MS, 100 * MS, 10_000 + number, 10_000 + number) for number in range(40)]
    data = profile_data([[timed_stacks(samples)]])
    rows = ROWS.format(choice=CHOICE, opens="true", found="false")
    result = node(
        f"{rows}.shown.filter(({{row}}) => row.kind !== 'thread').map(({{row}}) => [row.kind, row.value, row.weight / {MS}])", data
    )
    assert result == [["process", 1, 4000], ["group", "worker-*", 3000], ["commands", "server *", 4000]]
    sums = f"a => a.tracks.map(track => Math.round(track.of(UNKNOWN).reduce((x, y) => x + y, 0) / {MS}))"
    range_of_all = (
        f"({sums})(activityOf(profile, {CHOICE}, 'thread', [0, profile.last + 1], 50, categoryOfNodes(profile).fill(UNKNOWN), null, rows))"
    )
    assert node(f"(rows => {range_of_all})({rows}.shown.slice(0, 2).map(({{row}}) => row.lanes))", data)[1] >= 2999
    assert collected("group: 'worker-*'", data) == [3000, 3000 * MS]
    assert collected("commands: 'server *'", data) == [40, 4000 * MS]


def test_a_search_shows_tasks_by_name_however_little_they_ran() -> None:
    samples = [At("a;f", 10 * MS, 1000 * MS, 1, 1), *(At(f"w{number};f", 20 * MS, 1, 1, 2 + number) for number in range(100))]
    data = profile_data([[timed_stacks(samples)]])
    assert [1, "thread", 78, 1] not in task_rows(data)[0]
    assert [2, "thread", 78, 1] in task_rows(data, found="row.name === 'w77'")[0]


def test_a_lane_counts_the_waits_at_once() -> None:
    begin, end = (np.array(times) * MS for times in ([1, 2, 8], [4, 6, 9]))
    lane = WaitLane("lock", "a", "", begin, end, 8 * MS, 3)
    data = profile_data([[timed_stacks([At("a;f", MS), At("a;f", 10 * MS)])]], lanes=[lane])
    result = node(f"[...waitsAtOnce(profile.lanes[0], [0, 9 * {MS} / profile.tick], 9)].map(one => Math.round(one * 10) / 10)", data)
    assert result == [1, 2, 2, 1, 1, 0, 0, 1, 0]
    assert node(f"[...waitsAtOnce(profile.lanes[0], [{MS} / profile.tick, 2 * {MS} / profile.tick], 1)]", data) == [2]


def test_the_heat_map_has_a_column_a_second_and_the_offset_below() -> None:
    samples = [At("a;f", at * 1000 * MS + 250 * MS, 1) for at in range(3)] + [At("a;f", 0, 1)]
    cells = "[...heat.cells].flatMap((n, i) => n ? [[Math.floor(i / 4), i % 4]] : [])"
    data = profile_data([[timed_stacks(samples)]])
    result = node(f"(heat => [heat.columns, heat.most, {cells}])(heatOf(profile, {CHOICE}, 1, 4))", data)
    assert result == [3, 1, [[0, 0], [0, 1], [1, 1], [2, 1]]]


@pytest.mark.parametrize(("seconds", "lengths"), [(0.2, [0.1]), (4.5, [0.1, 1]), (100, [0.1, 1, 10]), (86400, [60])])
def test_columns_are_as_long_as_makes_a_picture(seconds: float, lengths: list[float]) -> None:
    assert node(f"columnsFor({seconds})") == lengths


def test_names_are_readable_on_every_colour() -> None:
    """WCAG's contrast for text, 4.5, of the ink with each colour that a frame can have."""
    names = "Array.from({length: 200}, (_, i) => ['f' + i, 'lib' + i, i % 8])"
    of_categories = "names.map((_, i) => colour({kind: 'one', name: [-1, i]}, 1, {names, dark}))"
    found_ones = "[colour({kind: 'one', name: [-1, 0]}, 1, {names, dark, hits: [true]})]"
    changed = "[[0, 1], [1, 0], [1, 1]].map(p => ({kind: 'changes', name: [-1, 0], sum: p.map(v => [1, v]), totals: [1, 1]}))"
    of_changes = f"{changed}.map(tree => colour(tree, 1, {{names, dark}}))"
    each = f"[false, true].flatMap(dark => [...{of_categories}, ...{found_ones}, ...{of_changes}])"
    result = node(f"(names => [...{each}, INK])({names})")
    *colours, ink = result
    least = min(brightness(colour) for colour in colours)
    assert (least + 0.05) / (brightness(ink) + 0.05) >= 4.5


#: what people see who lack one kind of cone (Machado, Oliveira, Fernandes 2009, severity 1), of linear red, green and blue
VISION = {
    "all": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


@pytest.mark.parametrize("eyes", VISION)
@pytest.mark.parametrize("dark", [False, True])
def test_categories_differ_for_every_kind_of_eyes(eyes: str, dark: bool) -> None:
    """By at least 20 in CIE 1976 L*a*b*, of which 2.3 is a just noticeable difference."""
    colours = node(f"STACKED.map(category => token(category, {json.dumps(dark)}))")
    seen_colours = [lab(tuple(sum(a * b for a, b in zip(row, linear(colour), strict=True)) for row in VISION[eyes])) for colour in colours]
    apart = {
        (a, b): sum((x - y) ** 2 for x, y in zip(seen_colours[a], seen_colours[b], strict=True)) ** 0.5 for a in range(7) for b in range(a)
    }
    assert min(apart.values()) >= 20, sorted(apart.items(), key=lambda pair: pair[1])[:3]


@pytest.mark.parametrize(
    ("name", "words"),
    [("[R (ready)]", "waits for a CPU"), ("[S (sleeping)]", "waits (sleeping)"), ("[- (waiting)]", "waits"), ("[kernel]", ""), ("f()", "")],
)
def test_states_of_threads_have_the_words_of_all_pages(name: str, words: str) -> None:
    assert node(f"(state => state && stateWords(state))(threadState({name!r}))") == words


@pytest.mark.parametrize("dark", [False, True])
def test_kinds_of_code_differ_on_grey_paper(dark: bool) -> None:
    """In lightness alone, by at least 5 of 100, and from waits and unknown code by 2."""
    colours = node(f"STACKED.map(category => token(category, {json.dumps(dark)}))")
    lightness = [lab(tuple(linear(colour)))[0] for colour in colours]
    for most, least in ((5, 5), (7, 2)):
        ascending = sorted(lightness[:most])
        assert all(after - before >= least for before, after in itertools.pairwise(ascending)), ascending


def lab(rgb: tuple[float, ...]) -> tuple[float, float, float]:
    """CIE 1976 L*a*b* of linear red, green and blue."""
    red, green, blue = (min(1.0, max(0.0, part)) for part in rgb)
    xyz = (
        0.4124 * red + 0.3576 * green + 0.1805 * blue,
        0.2126 * red + 0.7152 * green + 0.0722 * blue,
        0.0193 * red + 0.1192 * green + 0.9505 * blue,
    )
    x, y, z = (part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116 for part in (xyz[0] / 0.95047, xyz[1], xyz[2] / 1.08883))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def linear(colour: str) -> list[float]:
    """Linear red, green and blue of hsl(h s% l%) or #rrggbb."""
    if colour.startswith("#"):
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    else:
        hue, saturation, light = map(float, re.findall(r"-?[\d.]+(?:e-?\d+)?", colour))
        parts = list(colorsys.hls_to_rgb(hue / 360, light / 100, saturation / 100))
    return [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def brightness(colour: str) -> float:
    """Relative luminance."""
    red, green, blue = linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(
    ("ns", "step", "text"), [(0, 1e9, "0 s"), (0, 2e7, "0 ms"), (0, 500, "0 µs"), (2e7, 2e7, "20 ms"), (1.5e9, 5e8, "1.5 s")]
)
def test_the_zero_of_a_ruler_has_the_unit_of_its_steps(ns: float, step: float, text: str) -> None:
    assert node(f"atRuler({ns}, {step})") == text


def test_rows_of_a_comparison_have_the_names_of_their_recording() -> None:
    threads = '[[7, 7, "old \u2192 new"], [7, 8, "old \u2192 new"]]'
    thread = "{kind: 'thread', value: 1, name: 'old \u2192 new', recording, lanes: [1], below: []}"
    rows = f"[0, 1].map(recording => rowName({thread}, 1, profile))"
    for recordings, names in ((2, ["8 old", "8 new"]), (1, ["8 old \u2192 new"] * 2)):
        assert node(f"(profile => {rows})({{cpus: [], threads: {threads}, recordings: {recordings}}})") == names


def test_numbers_of_processes_with_one_thread_each_are_named_once() -> None:
    row = "{kind: 'commands', name: 'w-*', recording: 0, lanes: Array(lanes), below: [1, 2, 3]}"
    rows = f"[3, 4].map(lanes => rowName({row}, 0, {{cpus: [], threads: [], recordings: 1}}))"
    assert node(rows) == ["w-* (3 processes)", "w-* (3 processes, 4 threads)"]


@pytest.mark.parametrize(
    ("ns", "text"), [(0, "0.0 µs"), (999_940, "999.9 µs"), (999_960, "1.000 ms"), (999_999_999, "1.000 s"), (12_345_678_901, "12.346 s")]
)
def test_times_have_the_digits_that_matter(ns: int, text: str) -> None:
    assert node(f"duration({ns})") == text


@pytest.mark.parametrize(
    ("seconds", "most", "steps"),
    [
        (True, 0.3, ["0", "0.2 CPUs", "0.4 CPUs"]),
        (True, 1.0, ["0", "1 CPU"]),
        (True, 2.05, ["0", "1 CPU", "2 CPUs"]),
        (True, 7.4, ["0", "4 CPUs", "8 CPUs"]),
        (True, 16.3, ["0", "8 CPUs", "16 CPUs"]),
        (False, 300, ["0", "200", "400"]),
        (False, 3e9, ["0", "2000 M", "4000 M"]),
    ],
)
def test_the_axis_has_round_steps_above_the_highest_bar(seconds: bool, most: float, steps: list[str]) -> None:
    unit = 1000 if seconds else 1
    result = node(f"axisOf({{seconds: {json.dumps(seconds)}, unit: {unit}}}, {most * unit})")
    assert [text for text, _ in result["steps"]] == steps
    assert result["unit"] >= 0.94 * most * unit
    assert result["steps"][-1][1] == 1


def test_the_axis_of_waits_counts_threads() -> None:
    assert [text for text, _ in node("axisOf({seconds: true, unit: 1000}, 6000, true)")["steps"]] == ["0", "3 waiting", "6 waiting"]


def test_changes_that_may_be_chance_are_noise() -> None:
    """6 points of 40 are beyond the chance of 4,000 samples, and within that of 400."""
    data = profile_data([[stacks("app;f 40\napp;g 60")], [stacks("app;f 46\napp;g 54")]])
    compared = "{sides: ['before', 'after'], samples: [SIZE, SIZE]}"
    tree = f"weighed(profile.tree, collect(profile, {CHOICE}).own, 'changes', {compared})"
    change = "(tree => [1, 2, 3].map(i => changeOf(tree, i).isNoise))"
    assert node(f"{change}({tree.replace('SIZE', '4000')})", data) == [True, False, False]
    assert node(f"{change}({tree.replace('SIZE', '400')})", data) == [True, True, True]
    mean = node(f"Array.from({tree.replace('SIZE', '9')}.width)", data)
    after = node(f"Array.from({tree.replace('SIZE, SIZE]', '9, 9], side: 1')}.width)", data)
    assert [round(width, 3) for width in mean] == [1, 1, 0.43, 0.57]
    assert [round(width, 3) for width in after] == [1, 1, 0.46, 0.54]


def test_two_recordings_are_compared_by_what_the_first_one_has() -> None:
    """As the headline does: f fell from 80 % to 40 % of the total before, though its share of its own side is as large as before."""
    data = profile_data([[stacks("app;f 80\napp;g 20")], [stacks("app;f 40\napp;g 10")]])
    counted = f"collectShown(profile, {{...{CHOICE}, event: '0'}}, null)"
    result = node(f"(c => [c.own.map(o => o.reduce((a, b) => a + b)), c.base, c.parts.length])({counted})", data)
    assert result[0] == [100, 50]
    assert result[1] == {"sides": ["before", "after"], "lengths": [100, 100], "grain": [0.5, 0.25], "of": "the total before"}
    tree = "(c => weighed(profile.tree, c.own, 'changes', { samples: c.counts, ...c.base }))"
    rows = f"functionRows({tree}({counted}), profile.names, chargedWeights(profile, {counted}.own))"
    changes = "[row.name, row.change, row.chargedBefore, row.chargedAfter, row.chargedChange, row.totalBefore, row.total]"
    shares = {name: [round(one, 6) for one in values] for name, *values in node(f"{rows}.map(row => {changes})", data)}
    assert shares["f"][0] == -0.4
    assert shares["f"][-2:] == [0.8, 0.4]
    assert shares["app"][-2:] == [1.0, 0.5]
    said = node(f"(c => describeNode({tree}(c), 0, ['all', ''], c.base.lengths, ''))({counted})", data)
    assert said.endswith("-50.00 points of the total before")
    only_after = profile_data([[stacks("app;f 80")], [stacks("app;f 40")]])
    emptied = f"(p.events[0].samples[0].stacks.weight.fill(0), collectShown(p, {{...{CHOICE}, event: '0'}}, null).base)"
    empty = node(f"(p => {emptied})(profile)", only_after)
    assert (empty["lengths"], empty["of"]) == ([40, 40], "the total after")


def test_more_is_red_and_less_is_blue() -> None:
    """And grey is what stays; the colours differ for eyes that do not tell red from green."""
    red, blue, grey = node("[10, -10, 0].map(points => changeColour(points, false))")
    assert re.findall(r"\d+", red)[0] == "8"
    assert re.findall(r"\d+", blue)[0] == "212"
    assert int(re.findall(r"\d+", grey)[1]) < 10
    colours = node("[false, true].flatMap(dark => Array.from({length: 25}, (_, i) => changeColour(i - 12, dark)))")
    assert min(map(brightness, colours)) > 0.18  # names in frames are nearly black


def said(**values: Any) -> str:
    given = {"wholeWeights": [40, 30], "wholeTotal": 100, "total": 100, "weights": [50, 10], "samples": 400, "cpus": 1.5, **values}
    result: str = node(f"verdictOf({{...{json.dumps(given)}, name: f => ['hot()', 'cold()'][f], of: 'CPU time'}})")
    return result


def test_a_range_has_a_sentence() -> None:
    expected = "1.50 CPUs were used. 50 % of the CPU time is in hot() and what it calls (\u00b1 6.5 points, 40 % in the whole recording)."
    assert said() == expected
    assert said(weights=[5, 10], cpus=None) == "No function stands out: the largest, cold(), has 10 % of the CPU time."
    assert said(samples=7) == "Only 7 samples here: too few to tell."
    assert said(samples=0) == "No samples here."


def said_of_both(of: str = "CPU time", **values: Any) -> str:
    given = {"totals": [100, 200], "samples": [500, 900], "cpus": [1, 2], "lengths": [1e9, 2e9], **values}
    result: str = node(f"verdictOfBoth({{...{json.dumps(given)}, name: f => ['hot()', 'cold()', 'same()'][f], of: {of!r}}})")
    return result


def test_two_ranges_have_a_sentence_of_what_differs() -> None:
    assert said_of_both("events", cpus=None, weights=[[50, 10, 30], [40, 100, 58]]) == (
        "B has more in cold(): 10 % of the events in A, 50 % in B; less in hot(): 50 % of the events in A, 20 % in B."
    )
    assert said_of_both(cpus=None, weights=[[50, 10, 30], [101, 20, 58]]) == "No function differs between A and B beyond chance."
    sentence = said_of_both("events", cpus=None, samples=[5, 900], weights=[[1], [1]])
    assert sentence == "A has only 5 samples: too few to compare."


def test_time_in_two_ranges_is_compared_as_such_and_not_as_shares() -> None:
    """hot() has a larger share of the CPU time in B, and less CPU time."""
    given: dict[str, Any] = {"cpus": [0.31, 0.16], "lengths": [1e9, 1e9], "grain": [1e-3, 1e-3], "samples": [310, 160]}
    assert said_of_both(weights=[[232e6, 59e6], [130e6, 15e6]], **given) == (
        "A used 0.31 CPUs for 1.000 s, B 0.16 for 1.000 s. B has less CPU time in hot(): "
        "232.000 ms in A (23 % of its length), 130.000 ms in B (13 % of its length)."
    )
    # half of the time in half of the length is the same
    given["lengths"] = [2e9, 1e9]
    assert "No function differs" in said_of_both(weights=[[232e6, 59e6], [116e6, 29e6]], **given)
    # few samples of a range are little time, which is an answer
    given["samples"] = [310, 0]
    assert "B has less CPU time in hot(): 232.000 ms in A (12 % of its length), none in B." in said_of_both(
        weights=[[232e6, 0], [0, 0]], **given
    )


def test_waits_of_two_ranges_are_measured_so_that_few_are_compared_too() -> None:
    sentence = said_of_both("waiting time", cpus=[0.5, 3], grain=[0, 0], samples=[1, 2], weights=[[0, 5e8], [2e9, 4e9]])
    assert sentence == (
        "In A 0.50 threads waited at a time, in B 3.00. B has more waiting time in cold(): "
        "500.000 ms in A (50 % of its length), 4.000 s in B (200 % of its length)."
    )
    sentence = said_of_both("waiting time", cpus=[0.5, 0.5], grain=[0, 0], samples=[1, 2], weights=[[5e8], [1e9]])
    assert sentence == "In A 0.50 threads waited at a time, in B 0.50. No function differs between A and B."


def test_widths_of_two_ranges_are_their_times_and_the_whole_is_one_wide() -> None:
    tree = node(
        "(({ width, totals, sum }) => ({ width: [...width], totals, all: sum.map(column => column[0]) }))"
        "(weighed(shape([0, 1], [0, 0]), [[0, 10, 10], [0, 10, 0]], 'changes', { sides: ['A', 'B'], lengths: [100, 50], grain: [0, 0] }))"
    )
    assert tree == {"width": pytest.approx([1, 0.75, 0.25]), "totals": [100, 50], "all": [20, 10]}
    noise = "changeOf({ totals: [100, 100], sum: [[50], [60]], compared: { grain: [GRAIN, GRAIN] } }, 0).isNoise"
    assert [node(noise.replace("GRAIN", grain)) for grain in ("0", "0.001", "0.01")] == [False, False, True]


def held(turns: list[tuple[int, int, int, int, int]]) -> WaitChains:
    """Turns (thread, begin, end, state, waker), in ms; a waker of -1 is none."""
    thread, begin, end, state, waker = (np.array(column, np.int64) for column in zip(*turns, strict=True))
    none = np.full(len(turns), -1, np.int64)
    threads = [(10 + number, "t") for number in range(int(thread.max()) + 1)]
    return WaitChains(
        0, threads, 1, ["runs", "ready", "waits"], [], thread, (begin + 1) * MS, (end + 1) * MS, state, state, waker, none, none
    )


LOCKED = held([(0, 0, 20, 0, -1), (0, 20, 80, 2, 1), (0, 80, 100, 0, -1), (1, 30, 50, 2, 2), (1, 50, 100, 0, -1), (2, 0, 60, 0, -1)])


def test_the_critical_path_follows_the_threads_that_end_waits() -> None:
    """Thread 1 begins while thread 0 waits for it, and waits for thread 2 itself."""
    data = profile_data([[timed_stacks([At("app", MS, MS), At("app", 101 * MS, MS)])]], waits=LOCKED)
    assert node("chainAt(profile.waits, 0, 40000).map(row => [profile.waits.thread[row], profile.waits.begin[row]])", data) == [
        [0, 20_000],
        [1, 30_000],
        [2, 0],
    ]
    path = (
        "criticalPath(profile.waits, 0, [0, 100000]).map(one => [profile.waits.thread[one.row], one.from / 1000, one.to / 1000, one.depth])"
    )
    assert node(path, data) == [[0, 0, 20, 0], [0, 20, 30, 0], [2, 30, 50, 2], [1, 50, 80, 1], [0, 80, 100, 0]]
    sums = "pathSums(profile.waits, criticalPath(profile.waits, 0, [0, 100000])).map(one => [one.thread, one.text, one.time / 1000])"
    assert node(sums, data) == [[0, 0, 40], [1, 0, 30], [2, 0, 20], [0, 2, 10]]


def test_waits_of_a_function_are_by_what_was_awaited_and_who_ended_them() -> None:
    turns = held([(0, 0, 10, 0, -1), (0, 10, 30, 2, 1), (0, 30, 35, 1, -1), (0, 40, 70, 2, 1), (0, 70, 90, 2, -1), (1, 0, 100, 2, -1)])
    stack = np.array([0, 0, 0, 0, 1, 2], np.int64)
    stacks = [["futex_wait", "py::take:/srv/app.py:7", "main"], ["nap", "main"], ["py::take:/srv/app.py:9"]]
    turns = turns._replace(stacks=stacks, stack=stack)
    data = profile_data([[timed_stacks([At("app", MS, MS), At("app", 101 * MS, MS)])]], waits=turns)
    row = "[one.thread, profile.waits.texts[one.text], one.waker, one.time / 1000, one.count, one.longest]"
    values = f"waitsOf(profile.waits, NAME).map(one => {row})"
    assert node(values.replace("NAME", "'py::take:/srv/app.py'"), data) == [
        [1, "waits", -1, 100, 1, 5],
        [0, "waits", 1, 50, 2, 3],
        [0, "ready", -1, 5, 1, 2],
    ]
    assert node(values.replace("NAME", "'nap'"), data) == [[0, "waits", -1, 20, 1, 4]]
    assert node(values.replace("NAME", "'py::take'"), data) == []


def test_threads_that_wait_for_each_other_end_their_chain() -> None:
    data = profile_data([[timed_stacks([At("app", MS, MS), At("app", 101 * MS, MS)])]], waits=held([(0, 0, 100, 2, 1), (1, 0, 100, 2, 0)]))
    assert node("chainAt(profile.waits, 0, 50000)", data) == [0, 1]
    assert node("wakeups(profile.waits, [0, 100000], 1)", data) == [0]
