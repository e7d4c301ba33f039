"""Tests that numbers that are printed several times are the same: in the verdict, tables, JSON, the API and pages."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import perfpy.views.page
from perfpy.analysis.filters import SampleFilter
from perfpy.analysis.sample_view import is_off_cpu
from perfpy.analysis.verdict.functions import sampled_functions
from perfpy.errors import PerfError
from perfpy.recording import Recording
from perfpy.symbols.demangling.demangle import without_tier
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.views.page.page import page_parts
from perfpy.views.page.profile_data import profile_data
from perfpy.views.report.json import report_json
from perfpy.views.verdict.profile import headline_options

if TYPE_CHECKING:
    from collections.abc import Iterator

_SCRIPTS = Path(perfpy.views.page.__file__).parent / "scripts"
_SAME = 1e-6
_UNNAMED = re.compile(r"\[|(?:0x)?[0-9a-f]+$")
_SCRIPT = """
import {{ readFileSync }} from "node:fs";
import {{ profileOf }} from "{folder}/model/unpack.js";
import {{ collect }} from "{folder}/model/selection.js";
import {{ chargedWeights, weighed }} from "{folder}/model/trees.js";
import {{ functionRows }} from "{folder}/views/functions.js";
const profile = await profileOf(JSON.parse(readFileSync(process.argv[2])));
const choice = {{ event: 0, process: null, thread: null, cpu: null, module: null, category: null, inside: null, range: null }};
const {{ own }} = collect(profile, choice), tree = weighed(profile.tree, own, "one"), names = profile.names;
console.log(JSON.stringify(functionRows(tree, names, chargedWeights(profile, own))));
"""


def rows_of_page(data: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Return the table of functions that the page shows of its first event."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node on this machine to run the page's scripts with")
    (folder / "page.mjs").write_text(_SCRIPT.format(folder=_SCRIPTS.as_uri()), encoding="utf-8")
    (folder / "data.json").write_text(json.dumps({key: value for key, value in data.items() if key != "chunks"}), encoding="utf-8")
    run = subprocess.run([node, folder / "page.mjs", folder / "data.json"], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
    rows: list[dict[str, Any]] = json.loads(run.stdout)
    return rows


def by_name(pairs: Iterator[tuple[str, float]]) -> dict[str, float]:
    """Return the sums of shares of functions with the same name."""
    sums: dict[str, float] = {}
    for name, share in pairs:
        sums[without_tier(name)] = sums.get(without_tier(name), 0.0) + share
    return {name: share for name, share in sums.items() if share and not _UNNAMED.match(name)}


def differences(what: str, one: dict[str, float], other: dict[str, float]) -> list[str]:
    """Return the functions whose shares differ, or that only one of both has."""
    return [f"{what} {name}: {one.get(name)} and {other.get(name)}" for name in sorted({*one, *other})
            if abs(one.get(name, 0.0) - other.get(name, 0.0)) > _SAME]  # fmt: skip


def errors_of(recording: Recording, symbols: SymbolOptions, folder: Path) -> list[str]:
    """Return the numbers of a recording that differ."""
    report = recording.report(options=headline_options(SampleFilter()), symbols=symbols)
    histogram = next((one for one in report.histograms if one.leader.samples and not is_off_cpu(one.leader.event)), None)
    if histogram is None or histogram is not report.histograms[0] or "symbol" not in histogram.keys:
        return []
    functions = sampled_functions(report, histogram)
    if functions.idle or not functions.period:
        return []  # the verdict has no samples of idle CPUs
    if histogram.leader.event.attr.exclude_callchain_kernel:
        return []  # pages have callchains only, which do not begin where these samples were taken
    periods = {number: int(functions.rows.period[functions.leaf == number].sum()) for number in np.unique(functions.leaf).tolist()}
    own = by_name((functions.name(number), functions.share(period)) for number, period in periods.items() if functions.name(number))
    charged = by_name((name, functions.share(period)) for name, (_, period) in functions.charged_amounts().items())
    columns = by_name((row.texts["symbol"][4:].strip(), row.percent / 100) for row in report.histograms[0].rows())
    values = json.loads("".join(report_json(report)))["events"][0]
    in_json = by_name((row["keys"]["symbol"][4:].strip(), row["overhead"] / 100) for row in values["rows"])
    data = profile_data([page_parts(recording, None, symbols, code=False).stacks])
    rows = rows_of_page(data, folder)
    page_own = by_name((row["name"], row["self"]) for row in rows)
    page_charged = by_name((row["name"], row["charged"]) for row in rows)
    return [
        *differences("verdict and table", own, columns),
        *differences("table and JSON", columns, in_json),
        *differences("verdict and page", own, page_own),
        *differences("charged: verdict and page", charged, page_charged),
    ]


@pytest.mark.parametrize(("folder", "least"), [("recorded", 20), ("public", 10)])
def test_every_number_is_the_same_everywhere(
    folder: str, least: int, corpus: Path, files_of_recordings: SymbolOptions, tmp_path: Path
) -> None:
    symbols = files_of_recordings if folder == "recorded" else SymbolOptions(symfs=str(tmp_path), buildid_dir=str(tmp_path), cache=False)
    compared, wrong = 0, []
    for path in sorted((corpus / folder).glob("*.data")):
        if path.stat().st_size > 2 << 20:
            continue
        try:
            with Recording(str(path), symbols=symbols) as recording:
                if not recording.data.has_branches and recording.data.sample_counts.total():
                    errors = errors_of(recording, symbols, tmp_path)
                    compared += 1
                    wrong += [f"{path.name}: {error}" for error in errors[:3]]
        except PerfError:
            continue  # damaged, or of a kind without functions
    assert compared >= least
    assert wrong == []
