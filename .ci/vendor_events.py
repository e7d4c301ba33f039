"""Make perfpy/events/tables: what CPUs count, as compact tables of facts.

    sudo .venv/bin/python .ci/vendor_events.py intel amd       writes perfpy/events/tables/MAKER/*
    .venv/bin/python .ci/vendor_events.py arm=DATA,LIBPFM4 power=LIBPFM4 riscv

DATA and LIBPFM4 are git repositories (.ci/vendor_sources.py). Makers intel and
amd: the lists that an installed perf 6.12 prints (`perf list --json`) for every model, below a /sys in which each PMU that there may be
stands, in a mount namespace of its own. What those lists do not print, when
the events of a metric must not be a group, which kind of core it is about, and
which events are counted once per package, is read from the tables of the
same program. What leaves: a table for each list that differs, and an index
from models to tables; see perfpy/events/vendor_tables.py for their layout.
Names, codes, scales and formulas are taken, descriptions are not.
"""

from __future__ import annotations

import array
import json
import os
import re
import shutil
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import vendor_sources

from perfpy.events.vendor import metric_row
from tests.builders.pmu_sys import with_pmus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TABLES = Path(__file__).resolve().parents[1] / "perfpy" / "events" / "tables"
INTEL_UNITS = """uncore_arb uncore_b2cmi uncore_b2cxl uncore_b2hot uncore_b2upi uncore_bcu uncore_cbox uncore_cha uncore_chacms
uncore_clock uncore_cxlcm uncore_cxldp uncore_edc_eclk uncore_edc_uclk uncore_ha uncore_hac_arb uncore_hac_cbox uncore_hbm uncore_iio
uncore_iio_free_running uncore_imc uncore_imc_free_running
uncore_imc_free_running_1 uncore_irp uncore_m2hbm uncore_m2m uncore_m2pcie uncore_m3upi uncore_mc_dclk
uncore_mc_uclk uncore_mchbm uncore_mdf uncore_nest uncore_pciex16 uncore_pciex8 uncore_pcu uncore_qpi uncore_r2pcie uncore_r3qpi
uncore_sbox uncore_ubox uncore_upi"""
AMD_UNITS = "amd_l3 amd_df amd_umc"
HYBRID = ("cpu_core", "cpu_atom")
#: digit of the compiled tables -> MetricConstraint
CONSTRAINTS = {"1": "NO_GROUP_EVENTS", "2": "NO_GROUP_EVENTS_NMI", "3": "NO_GROUP_EVENTS_SMT"}


class CompiledMetric(NamedTuple):
    """A metric in perf's own tables.

    Attributes:
        ungrouped_in: groups in which its events need not be a group
        default_group: the group of the default metrics
    """

    name: str
    groups: str
    expression: str
    threshold: str
    unit: str
    ungrouped_in: str
    default_group: str
    constraint: str


class CompiledTables:
    """The tables of events and metrics in perf's program file (tools/perf/pmu-events/jevents.py writes them).

    A record is a string of fields that end with a null byte; its last field has digits. A table is an array of the records' offsets.
    """

    def __init__(self, path: str) -> None:
        self._data = Path(path).read_bytes()
        self._places = {match.start() + 2 for match in re.finditer(rb"(?<=\0)[01][0-3][A-Za-z][^\0 ]*\0", self._data)}
        numbers = array.array("i", self._data[: len(self._data) // 4 * 4])
        starts = [match.start() for match in re.finditer(rb"(?<=\0)default_core\0", self._data)]  # the strings begin with this PMU
        present = set(numbers)
        self._start = max(starts, key=lambda start: sum(place - start in present for place in self._places))
        self.metrics: list[list[CompiledMetric]] = []
        last = 0  # index of the last metric
        for index, number in enumerate(numbers):
            metric = self._metric(number)
            if metric:
                # A table is sorted. A record is overlooked if it follows another kind of record.
                continues = self.metrics and index - last <= 2 and metric.name.lower() > self.metrics[-1][-1].name.lower()
                self.metrics[-1].append(metric) if continues else self.metrics.append([metric])
                last = index

    def _metric(self, offset: int) -> CompiledMetric | None:
        place = offset + self._start
        if place not in self._places:
            return None
        fields = [field.decode() for field in self._data[place : place + 8192].split(b"\0", 11)[:11]]
        name, groups, expression, threshold, _, _, unit, _, ungrouped_in, default_group, digits = fields
        if not re.match("[01][0-3]", digits):  # an event
            return None
        return CompiledMetric(name, groups, expression, threshold, unit, ungrouped_in, default_group, CONSTRAINTS.get(digits[1], ""))

    def per_package(self, name: str, terms: str) -> bool:
        """Whether an event of these terms is counted once per package."""
        return (name, terms) in self._per_package()

    @cache  # noqa: B019  # one object
    def _per_package(self) -> set[tuple[str, str]]:
        r"""Return (name, terms) of the records name \0 topic \0 description \0 terms \0 compat \0 deprecated, per-package, unit."""
        pattern = re.compile(rb"(?<=\0)([a-z][\w.]*)\0[a-z][a-z ]*\0[^\0]*\0([^\0]*=[^\0]*)\0[^\0]*\0[01]1")
        return {(match[1].decode(), terms_key(match[2].decode())) for match in pattern.finditer(self._data)}


def terms_key(terms: str) -> str:
    """Return terms in an order and spelling that do not depend on the printer."""
    words = []
    for term in terms.split(","):
        key, equals, value = term.partition("=")
        words.append(f"{key}{equals}{int(value, 0) if re.fullmatch('0x[0-9a-f]+|[0-9]+', value) else value}")
    return ",".join(sorted(words))


@cache
def compiled() -> CompiledTables:
    """Return the tables of the installed perf."""
    return CompiledTables(os.path.realpath(shutil.which("perf") or ""))


def listed(identity: str, core: Iterable[str], units: str) -> list[dict[str, Any]]:
    """Return what perf lists for a CPU. identity: perf's, such as GenuineIntel-6-55-4."""
    environment = os.environ | {"PERF_CPUID": identity, "HOME": "/nonexistent"}
    command = with_pmus(" ".join(core), units, "perf", "list", "--json", "--deprecated")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    entries: list[dict[str, Any]] = json.loads(done.stdout)
    return entries


def event_rows(entries: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the events in a list of perf."""
    for entry in entries:
        if entry.get("EventType") == "Kernel PMU event":
            unit = "" if entry["Unit"] == "cpu" else entry["Unit"]
            terms = entry["Encoding"].partition("/")[2].rpartition("/")[0]
            name = entry["EventName"].rstrip("/").rpartition("/")[2]  # uncore_cbox_0/unc_c_ismq_drd_miss_occ/
            flags = "d" if entry.get("Deprecated", "0") != "0" else ""
            flags += "u" if "BriefDescription" not in entry else ""
            flags += "p" * bool(unit and compiled().per_package(name, terms_key(terms)))
            yield "E", name, unit, terms, entry.get("ScaleUnit", ""), entry.get("Topic", ""), flags


def metric_rows(entries: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the metrics in a list of perf, one for all groups of a metric."""
    metrics: dict[tuple[str, str, str], dict[str, str]] = {}
    groups: dict[tuple[str, str, str], set[str]] = {}
    for entry in entries:
        if "MetricName" in entry:
            key = entry["MetricName"], entry["MetricExpr"], entry.get("MetricThreshold", "")
            metrics[key] = entry
            groups.setdefault(key, set()).add(entry.get("MetricGroup", ""))
    for pmu, facts in compiled_facts(set(metrics)):
        for key, fact in facts.items():
            if key not in metrics and pmu != HYBRID[1]:  # of two metrics of one name, perf lists that of the large cores
                continue
            # The list has a metric of the small cores only in groups in which the large ones have none of its name.
            names = (groups.get(key, set()) | set(fact.groups.split(";"))) - {"", "No_group"}
            fields = {
                "MetricName": fact.name,
                "MetricExpr": fact.expression,
                "MetricThreshold": fact.threshold,
                "MetricGroup": ";".join(sorted(names)),
                "ScaleUnit": fact.unit,
                "MetricConstraint": fact.constraint,
                "MetricgroupNoGroup": fact.ungrouped_in,
                "DefaultMetricgroupName": fact.default_group,
            }
            yield metric_row(fields, pmu)
            if key in metrics:
                metrics.pop(key)
    for key, entry in metrics.items():
        yield metric_row(entry | {"MetricGroup": ";".join(sorted(groups[key] - {"", "No_group"}))})


def compiled_facts(keys: set[tuple[str, str, str]]) -> list[tuple[str, dict[tuple[str, str, str], CompiledMetric]]]:
    """Return perf's tables of a CPU's metrics with the kind of core, those with most of the metrics first."""
    tables = []
    for table in compiled().metrics:
        own = {(metric.name, metric.expression, metric.threshold): metric for metric in table}
        text = " ".join(expression for _, expression, _ in own)
        pmu = next((pmu for pmu in HYBRID if f"{pmu}@" in text), "")
        tables.append((len(own.keys() & keys), len(own), pmu, own))
    is_hybrid = any(f"{HYBRID[0]}@" in expression for _, expression, _ in keys)
    tables = [row for row in tables if is_hybrid or not row[2]]
    tables.sort(key=lambda row: (row[2] != "", row[0] == row[1], row[0]), reverse=True)
    of_small_cores = [row for row in tables if row[2] == HYBRID[1]]
    best = max(of_small_cores, key=lambda row: row[0], default=None)
    return [(pmu, own) for common, _, pmu, own in tables if common and (pmu != HYBRID[1] or (best and own is best[3]))]


def table(entries: list[dict[str, Any]]) -> str:
    """Return the events and metrics as a table's text; "" where perf knows none."""
    return text_of([*event_rows(entries), *metric_rows(entries)])


def text_of(rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table's text."""
    return "".join(f"{line}\n" for line in sorted({"\t".join(row).rstrip("\t") for row in rows}))


def intel_table(identity: str) -> str:
    """Return the table of a CPU, hybrid ones included: of these perf lists at most other units' events when there is one kind of core."""
    text = table(listed(identity, ("cpu",), INTEL_UNITS))
    has_core = any(row.split("\t")[2] == "" for row in text.splitlines() if row.startswith("E"))
    return text if has_core else table(listed(identity, HYBRID, INTEL_UNITS))


def intel_model(model: int) -> dict[str, str]:
    """Return the tables of a model: text -> the steppings that have it, "" where all have; none for a model that perf does not know."""
    first, last = (intel_table(f"GenuineIntel-6-{model:02X}-{stepping:X}") for stepping in (0, 15))
    if first == last:
        return {first: ""} if first else {}
    tables: dict[str, str] = {}
    for stepping in range(16):
        text = intel_table(f"GenuineIntel-6-{model:02X}-{stepping:X}")
        tables[text] = tables.get(text, "") + f"{stepping:X}"
    tables.pop("", None)
    return tables


def intel(pool: ThreadPoolExecutor) -> Iterator[tuple[str, str, str]]:
    """Yield (pattern, name, table) of Intel's models."""
    for model, tables in enumerate(pool.map(intel_model, range(256))):
        for text, steppings in tables.items():
            pattern = f"GenuineIntel-6-{model:02X}-" + (f"[{steppings}]" if steppings else "")
            yield pattern, f"6-{model:02X}" + (f"-{steppings[0]}" if steppings else ""), text


def amd(pool: ThreadPoolExecutor) -> Iterator[tuple[str, str, str]]:
    """Yield (pattern, name, table) of AMD's models from Zen on."""
    models = [(family, model) for family in (0x17, 0x19, 0x1A) for model in range(256)]
    identities = [f"AuthenticAMD-{family}-{model:X}-0" for family, model in models]
    texts = list(pool.map(lambda identity: table(listed(identity, ("cpu",), AMD_UNITS)), identities))
    families: dict[tuple[int, str], dict[str, list[int]]] = {}
    for (family, model), text in zip(models, texts, strict=True):
        families.setdefault((family, text), {}).setdefault("" if model < 16 else f"{model >> 4:X}", []).append(model & 15)
    for (family, text), parts in families.items():
        highs: dict[str, str] = {}
        for high, lows in parts.items():
            low = "".join(f"{number:X}" for number in lows)
            highs[low] = highs.get(low, "") + (high or "-")
        first = next(iter(parts))
        for low, high in highs.items() if text else ():
            if "-" in high:
                yield f"AuthenticAMD-{family}-[{low}]-", f"{family}-{first}{parts[first][0]:X}", text
            if high.replace("-", ""):
                yield f"AuthenticAMD-{family}-[{high.replace('-', '')}][{low}]-", f"{family}-{first}{parts[first][0]:X}", text


def write(maker: str, rows: Iterable[tuple[str, str, str]]) -> None:
    """Write a maker's tables and index."""
    folder = TABLES / maker
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.z"):
        old.unlink()
    names: dict[str, str] = {}
    index = [(pattern, names.setdefault(text, name)) for pattern, name, text in rows]
    for text, name in names.items():
        (folder / f"{name}.z").write_bytes(zlib.compress(text.encode(), 9))
    (folder / "index.tsv").write_text("".join(f"{pattern}\t{name}\n" for pattern, name in index))
    size = sum(path.stat().st_size for path in folder.glob("*.z"))
    print(f"{maker}: {len(names)} tables of {size} bytes for {len(index)} rows of the index", file=sys.stderr)


def main() -> int:
    """Write the tables of the makers that are named."""
    listed_makers = {"intel": intel, "amd": amd}
    for argument in sys.argv[1:]:
        maker, _, repositories = argument.partition("=")
        if maker in listed_makers:
            compiled()  # before threads share it
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                write(maker, listed_makers[maker](pool))
        else:
            tables = getattr(vendor_sources, maker)(*filter(None, repositories.split(",")))
            write(maker, ((pattern, name, text_of(rows)) for pattern, name, rows in tables))
    return 0


if __name__ == "__main__":
    sys.exit(main())
