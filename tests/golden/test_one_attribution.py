"""Tests that numbers that are printed several times are the same: in the verdict, tables, JSON, the API and pages."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import perfpy.views.page
from perfpy.analysis.filters import SampleFilter
from perfpy.analysis.report.options import ColumnOptions, ReportOptions
from perfpy.analysis.sample_view import is_off_cpu
from perfpy.analysis.verdict.categories import IDLE_FUNCTION
from perfpy.analysis.verdict.functions import sampled_functions
from perfpy.cli.line.perfconfig import load_config
from perfpy.errors import PerfError
from perfpy.live.rings import LiveRings
from perfpy.recording import Recording
from perfpy.symbols.demangling.demangle import without_tier
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.tools.top.command import command as top_command
from perfpy.tools.top.model import TopModel
from perfpy.tools.top.monitor import LiveMonitor
from perfpy.tools.top.options import TopCommandOptions, TopRequest
from perfpy.views.page.page import page_parts
from perfpy.views.page.profile_data import profile_data
from perfpy.views.report.json import report_json
from perfpy.views.verdict.profile import headline_options, profile_verdict
from tests.builders.prepared_start import PERFPY
from tests.builders.sampled_program import Stack, sampled_program

if TYPE_CHECKING:
    from collections.abc import Iterator

_SCRIPTS = Path(perfpy.views.page.__file__).parent / "scripts"
_SAME = 1e-6
_UNNAMED = re.compile(r"\[|(?:0x)?[0-9a-f]+$")
_SCRIPT = """
import {{ readFileSync }} from "node:fs";
import {{ createInterface }} from "node:readline";
import {{ profileOf }} from "{folder}/model/unpack.js";
import {{ collect }} from "{folder}/model/selection.js";
import {{ chargedWeights, weighed }} from "{folder}/model/trees.js";
import {{ functionRows }} from "{folder}/views/functions.js";
const choice = {{ event: 0, process: null, thread: null, cpu: null, module: null, category: null, inside: null, range: null }};
for await (const path of createInterface({{ input: process.stdin }})) {{
  const profile = await profileOf(JSON.parse(readFileSync(path)));
  const {{ own }} = collect(profile, choice), tree = weighed(profile.tree, own, "one"), names = profile.names;
  console.log(JSON.stringify(functionRows(tree, names, chargedWeights(profile, own), profile.charges)));
}}
"""


class PageScripts:
    """The scripts of pages in one process of node, because its start takes longer than most pages."""

    def __init__(self, folder: Path) -> None:
        node = shutil.which("node")
        if node is None:
            pytest.skip("no node on this machine to run the page's scripts with")
        (folder / "page.mjs").write_text(_SCRIPT.format(folder=_SCRIPTS.as_uri()), encoding="utf-8")
        self._data = folder / "data.json"
        self._node = subprocess.Popen([node, folder / "page.mjs"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def rows(self, data: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the table of functions that the page shows of its first event."""
        assert self._node.stdin is not None
        assert self._node.stdout is not None
        self._data.write_text(json.dumps({key: value for key, value in data.items() if key != "chunks"}), encoding="utf-8")
        print(self._data, file=self._node.stdin)
        line = self._node.stdout.readline()
        assert line, f"node ended with {self._node.wait(60)}"
        rows: list[dict[str, Any]] = json.loads(line)
        return rows

    def close(self) -> None:
        """End the process."""
        self._node.communicate(timeout=60)


@pytest.fixture
def scripts(tmp_path: Path) -> Iterator[PageScripts]:
    """Return the scripts of pages."""
    page_scripts = PageScripts(tmp_path)
    yield page_scripts
    page_scripts.close()


def by_name(pairs: Iterator[tuple[str, float]]) -> dict[str, float]:
    """Return the sums of shares of functions with the same name."""
    sums: dict[str, float] = {}
    for name, share in pairs:
        function = without_tier(name.removesuffix(" (inlined)"))
        sums[function] = sums.get(function, 0.0) + share
    return {name: share for name, share in sums.items() if share and not _UNNAMED.match(name)}


def differences(what: str, one: dict[str, float], other: dict[str, float]) -> list[str]:
    """Return the functions whose shares differ, or that only one of both has; the verdict has no functions of idle CPUs."""
    is_verdict = what.startswith(("verdict", "charged", "callers"))
    idle = {name for name in other if IDLE_FUNCTION.fullmatch(name) and name not in one}
    return [f"{what} {name}: {one.get(name)} and {other.get(name)}" for name in sorted({*one, *other} - (idle if is_verdict else set()))
            if abs(one.get(name, 0.0) - other.get(name, 0.0)) > _SAME]  # fmt: skip


def errors_of(recording: Recording, symbols: SymbolOptions, scripts: PageScripts) -> list[str]:
    """Return the numbers of a recording that differ."""
    report = recording.report(options=headline_options(SampleFilter()), symbols=symbols)
    histogram = next((one for one in report.histograms if one.leader.samples and not is_off_cpu(one.leader.event)), None)
    if histogram is None or histogram is not report.histograms[0] or "symbol" not in histogram.keys:
        return []
    functions = sampled_functions(report, histogram)
    if not functions.period:
        return []
    periods = {number: int(functions.rows.period[functions.leaf == number].sum()) for number in np.unique(functions.leaf).tolist()}
    named = ((functions.name(number), period) for number, period in periods.items() if functions.name(number))
    own = by_name((name, functions.share(period) * functions.busy) for name, period in named)
    charged = by_name((name, functions.share(period) * functions.busy) for name, (_, period) in functions.charged_amounts().items())
    columns = by_name((row.texts["symbol"][4:].strip(), row.percent / 100) for row in report.histograms[0].rows())
    values = json.loads("".join(report_json(report)))["events"][0]
    in_json = by_name((row["keys"]["symbol"][4:].strip(), row["overhead"] / 100) for row in values["rows"])
    data = profile_data([page_parts(recording, None, symbols, code=False).stacks])
    rows = scripts.rows(data)
    page_own = by_name((row["name"], row["self"]) for row in rows)
    of_names = Counter(without_tier(functions.name(number)) for number in periods)
    of_rows = Counter(without_tier(row["name"]) for row in rows)
    unique = {name for name in of_names if name and of_names[name] == of_rows[name] == 1}
    callers = {without_tier(functions.name(number)): caller.share for number, caller in functions.hottest_callers().items()}
    page_callers = {without_tier(row["name"]): row["callerShare"] for row in rows if row["callerName"]}
    unique &= {*callers} & {*page_callers}
    called, page_called = ({name: share for name, share in shares.items() if name in unique} for shares in (callers, page_callers))
    page_charged = by_name((row["name"], row["charged"]) for row in rows)
    return [
        *differences("verdict and table", own, columns),
        *differences("table and JSON", columns, in_json),
        *differences("verdict and page", own, page_own),
        *differences("callers: verdict and page", called, page_called),
        *differences("charged: verdict and page", charged, page_charged),
    ]


_CPP = """#include <algorithm>
#include <string>
#include <vector>
struct Order { std::string name; double price; };
static double tax(const Order& o) { double t = o.price; for (int i = 0; i < 20; i++) t = t * 0.19 + i; return t; }
void sort_all(std::vector<Order>& v) { std::sort(v.begin(), v.end(), [](const Order& a, const Order& b) { return tax(a) < tax(b); }); }
int main() {
    double sum = 0;
    for (int k = 0; k < 60; k++) {
        std::vector<Order> v;
        for (int i = 0; i < 5000; i++) v.push_back({"order" + std::to_string(i * 7919 % 5000), i * 31.0});
        sort_all(v);
        sum += v[0].price;
    }
    return sum < 0;
}
"""
_RUST = """use std::collections::HashMap;
fn count(words: &[String]) -> HashMap<String, usize> {
    let mut m = HashMap::new();
    for w in words { *m.entry(w.clone()).or_insert(0) += 1; }
    m
}
fn main() {
    let words: Vec<String> = (0..60000u64).map(|i| format!("w{}", i * 2654435761 % 5021)).collect();
    let mut n = 0;
    for _ in 0..25 { n += count(&words).len(); }
    std::process::exit((n == 0) as i32);
}
"""
_GO = """package main
import "sort"
func order(x []int) { for j := range x { x[j] = (j * 7919) % 2000 }; sort.Slice(x, func(a, b int) bool { return x[a] < x[b] }) }
func main() { x := make([]int, 2000); for i := 0; i < 900; i++ { order(x) } }
"""
_POOL = """import multiprocessing
def total(n):
    return sum(i * i % 7 for i in range(n))
if __name__ == "__main__":
    total(900000)
    with multiprocessing.Pool(2) as pool:
        pool.map(total, [900000] * 4)
"""
_JAVASCRIPT = """function work(n) { return JSON.stringify(Array.from({length: n}, (_, i) => ({i}))).length }
for (let k = 0; k < 60; k++) work(20000);
"""
_JAVA = "class A { static int f(String s) { int h = 0; for (int i = 0; i < 900; i++) h += (s + i).hashCode(); return h; }\n"
_JAVA += 'public static void main(String[] a) { int t = 0; for (int k = 0; k < 20000; k++) t += f("w" + k); System.out.println(t); } }\n'


@pytest.mark.live
@pytest.mark.particular  # of compilers and runtimes
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="stacks of x86-64 are unwound here")
@pytest.mark.parametrize(
    ("source", "text", "builder", "command", "record"),
    [
        ("p.cpp", _CPP, "g++ -O2 -g -o p p.cpp", "./p", "--unwind"),
        ("p.rs", _RUST, "rustc -O -g -o p p.rs", "./p", "--unwind"),
        ("p.go", _GO, "go build -o p p.go", "./p", "--unwind"),
        ("pool.py", _POOL, "", f"{sys.executable} pool.py", "--python"),
        ("p.js", _JAVASCRIPT, "", "node p.js", "--jit"),
        ("A.java", _JAVA, "javac A.java", "java -cp . A", "--jit"),
        # alone: programs of other tests are in it, which still write their maps of compiled code
        pytest.param("p.cpp", _CPP, "g++ -O2 -g -o p p.cpp", "./p", "-a --unwind", marks=pytest.mark.alone),
        ("p.cpp", _CPP, "g++ -O2 -g -o p p.cpp", "./p", "--user-callchains -g"),
    ],
    ids=["cpp", "rust", "go", "python", "node", "java", "system-wide", "user callchains"],
)
def test_numbers_of_programs_with_inlined_calls_and_workers_are_the_same(
    source: str, text: str, builder: str, command: str, record: str, scripts: PageScripts, tmp_path: Path
) -> None:
    for tool in filter(None, (builder.partition(" ")[0], command.partition(" ")[0])):
        if not tool.startswith("./") and shutil.which(tool) is None:
            pytest.skip(f"no {tool}")
    (tmp_path / source).write_text(text)
    if builder:
        built = subprocess.run(builder.split(), cwd=tmp_path, check=False, timeout=120, capture_output=True, text=True)
        if built.returncode:  # such as rustup's stand-in of a compiler, which needs a home
            pytest.skip(f"{builder}: {built.stderr.strip()[:200]}")
    recorder = [*PERFPY, "record", "-q", *record.split(), "-F", "1999", "-o", "perf.data", "--", *command.split()]
    subprocess.run(recorder, cwd=tmp_path, check=True, timeout=120, capture_output=True)
    symbols = SymbolOptions(cache=False, fold_interpreters=record == "--python")
    with Recording(str(tmp_path / "perf.data"), symbols=symbols) as recording:
        assert recording.data.sample_counts.total() > 50
        assert errors_of(recording, symbols, scripts) == []


def _function_of(text: str) -> str:
    """Return the text of a function's cell without its level."""
    return re.sub(r"^\[.\] ", "", text.strip())


@pytest.mark.live
@pytest.mark.particular  # of compilers
@pytest.mark.parametrize(
    ("source", "options", "enough"),  # bytes of samples
    [("p.cpp", "", 20_000), ("p.cpp", "-g", 60_000), ("w.py", "--python", 1_500_000)],
    ids=["flat", "callchains", "python"],
)
def test_top_has_the_rows_of_a_report_of_its_samples(source: str, options: str, enough: int, tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    texts = {"p.cpp": _CPP.replace("k < 60", "k >= 0"), "w.py": _POOL.partition("if __name__")[0] + "while True: total(900000)\n"}
    (tmp_path / source).write_text(texts[source])
    if source == "p.cpp":
        subprocess.run(["g++", "-O2", "-g", "-o", "p", source], cwd=tmp_path, check=True, timeout=120)
    program = subprocess.Popen(["./p"] if source == "p.cpp" else [sys.executable, source], cwd=tmp_path)
    try:
        request = TopRequest(TopCommandOptions.read(top_command.parser([*options.split(), "-p", str(program.pid)])), load_config(), print)
        rings = LiveRings([], [], request.record_options(), print)
        report_options = request.report_options(of_tracepoints=False, is_screen=True)
        monitor = LiveMonitor(rings, report_options, request.symbol_options(), retain=60.0)
        monitor.begin()
        deadline = time.monotonic() + 20
        while monitor.reader.size < enough and time.monotonic() < deadline:
            rings.wait(0.05)
            monitor.reader.drain()
        update = monitor.update(monitor.reader.take(last=True))
        monitor.save(str(tmp_path / "top.data"))
        model = TopModel(by_own=True)
        model.update(update.report, update.rates)
        monitor.close()
        rings.close()
    finally:
        program.kill()
        program.wait()
    key = "pyfunc" if "--python" in options else "symbol"
    number = [*update.report.histograms[0].keys].index(key)
    top = by_name((_function_of(row.key[number]), row.percent / 100) for row in model.rows())
    with Recording(str(tmp_path / "top.data"), symbols=SymbolOptions(cache=False)) as recording:
        of_functions = headline_options(SampleFilter()) if options == "-g" else ReportOptions()
        report = recording.report(options=of_functions._replace(columns=ColumnOptions(sort=key)))
        assert report.histograms[0].leader.samples > 50
        columns = by_name((_function_of(row.texts[key]), row.percent / 100) for row in report.histograms[0].rows())
        assert top
        assert differences("top and report", top, columns) == []
        assert options != "-g" or any("tax" in name for name in top), (top, "inlined calls have rows, as in reports")


def test_shares_beside_idle_cpus_are_those_of_the_table(scripts: PageScripts, tmp_path: Path) -> None:
    """The CPU time that is used is not the base of tables and pages, which have the functions of idle CPUs, too."""
    idle = Stack(("default_idle@kernel", "do_idle@kernel"), 600, tid=0, pid=0)
    path = sampled_program(tmp_path, [Stack(("work", "main"), 300), Stack(("rest", "main"), 100), idle])
    symbols = SymbolOptions(cache=False, symfs=str(tmp_path), kallsyms=str(tmp_path / "kallsyms"))
    with Recording(str(path), symbols=symbols) as recording:
        report = recording.report(options=headline_options(SampleFilter()), symbols=symbols)
        first, second = (sentence.text for sentence in profile_verdict(report, recording.data))
        assert first.startswith("The CPUs were idle 60 % of the time")
        assert second == "30 % of the time of the CPUs is in work() and 10 % in rest(), both called from main()."
        assert errors_of(recording, symbols, scripts) == []


@pytest.mark.parametrize(("folder", "least"), [("recorded", 20), ("public", 10)])
def test_every_number_is_the_same_everywhere(
    folder: str, least: int, corpus: Path, files_of_recordings: SymbolOptions, scripts: PageScripts, tmp_path: Path
) -> None:
    symbols = files_of_recordings if folder == "recorded" else SymbolOptions(symfs=str(tmp_path), buildid_dir=str(tmp_path), cache=False)
    compared, wrong = 0, []
    for path in sorted((corpus / folder).glob("*.data")):
        if path.stat().st_size > 2 << 20:
            continue
        try:
            with Recording(str(path), symbols=symbols) as recording:
                if not recording.data.has_branches and recording.data.sample_counts.total():
                    errors = errors_of(recording, symbols, scripts)
                    compared += 1
                    wrong += [f"{path.name}: {error}" for error in errors[:3]]
        except PerfError:
            continue  # damaged, or of a kind without functions
    assert compared >= least
    assert wrong == []
