"""Make perfpy/events/tables: what Intel's CPUs count, as compact tables of facts.

    sudo .venv/bin/python .ci/vendor_events.py        writes perfpy/events/tables/intel/*

What enters: the lists that an installed perf 6.12 prints (`perf list --json`)
for every model of family 6, below a /sys in which each PMU that there may be
stands, in a mount namespace of its own. What leaves: a table for each list
that differs, and an index from models to tables; see
perfpy/events/vendor.py for their layout. Names, codes, scales and
formulas are taken, descriptions are not; Intel publishes all of it under the
licence that is put beside the tables.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.builders.pmu_sys import with_pmus

TABLES = Path(__file__).resolve().parents[1] / "perfpy" / "events" / "tables" / "intel"
UNCORE = """arb b2cmi b2cxl b2hot b2upi bcu cbox cha chacms clock cxlcm cxldp edc_eclk edc_uclk ha hac_arb hac_cbox hbm iio
iio_free_running imc imc_free_running irp m2hbm m2m m2pcie m3upi mc_dclk mc_uclk mchbm mdf nest pciex16 pciex8 pcu qpi r2pcie r3qpi
sbox ubox upi"""
HYBRID = ("cpu_core", "cpu_atom")


def listed(identity: str, core: tuple[str, ...]) -> list[dict[str, Any]]:
    """What perf lists for a CPU. identity: perf's, such as GenuineIntel-6-55-4."""
    environment = os.environ | {"PERF_CPUID": identity, "HOME": "/nonexistent"}
    command = with_pmus(" ".join(core), UNCORE, "perf", "list", "--json", "--deprecated")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def table(entries: list[dict[str, Any]]) -> str:
    """The events and metrics as a table's text; "" where perf knows none."""
    events, metrics = set(), {}
    for entry in entries:
        if entry.get("EventType") == "Kernel PMU event":
            unit = "" if entry["Unit"] == "cpu" else entry["Unit"]
            terms = entry["Encoding"].partition("/")[2].rpartition("/")[0]
            flags = "d" if entry.get("Deprecated", "0") != "0" else ""
            events.add(("E", entry["EventName"], unit, terms, entry.get("ScaleUnit", ""), entry.get("Topic", ""), flags))
        elif "MetricName" in entry:
            groups = metrics.setdefault((entry["MetricName"], entry["MetricExpr"]), (entry, set()))[1]  # hybrid CPUs have two of a name
            groups.add(entry.get("MetricGroup", ""))
    rows = sorted(events)
    for (name, _), (entry, groups) in sorted(metrics.items(), key=lambda item: item[0]):
        named = ";".join(sorted(group for group in groups if group and group != "No_group"))
        rows.append(("M", name, entry["MetricExpr"], entry.get("ScaleUnit", ""), named, entry.get("MetricThreshold", ""), ""))
    return "".join("\t".join(row).rstrip("\t") + "\n" for row in rows)


def known(identity: str) -> str:
    """The table of a CPU, hybrid ones included: of these perf lists other units' events alone when there is one kind of core."""
    text = table(listed(identity, ("cpu",)))
    has_core = any(row.split("\t")[2] == "" for row in text.splitlines() if row.startswith("E"))
    return text if has_core or not text else table(listed(identity, HYBRID))


def of_model(model: int) -> dict[str, str]:
    """The tables of a model: text -> the steppings that have it, "" where all have; none for a model that perf does not know."""
    first, last = (known(f"GenuineIntel-6-{model:02X}-{stepping:X}") for stepping in (0, 15))
    if first == last:
        return {first: ""} if first else {}
    found: dict[str, str] = {}
    for stepping in range(16):
        text = known(f"GenuineIntel-6-{model:02X}-{stepping:X}")
        found[text] = found.get(text, "") + f"{stepping:X}"
    found.pop("", None)
    return found


def main() -> int:
    """Ask perf about every model, write the tables."""
    TABLES.mkdir(parents=True, exist_ok=True)
    names: dict[str, str] = {}
    index = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for model, found in enumerate(pool.map(of_model, range(256))):
            for text, steppings in found.items():
                name = names.setdefault(text, f"6-{model:02X}" + (f"-{steppings[0]}" if steppings else ""))
                index.append(f"GenuineIntel-6-{model:02X}-{f'[{steppings}]' if steppings else ''}\t{name}\n")
    for text, name in names.items():
        (TABLES / f"{name}.z").write_bytes(zlib.compress(text.encode(), 9))
    (TABLES / "index.tsv").write_text("".join(index))
    print(f"{len(names)} tables for {len(index)} rows of the index", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
