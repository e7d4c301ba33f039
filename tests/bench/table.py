"""The table of the benchmark: a row for each comparison, and the file that keeps the rows of every version."""

from __future__ import annotations

import csv
import os
import platform
import resource
import subprocess
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.bench.pairs import Comparison

HISTORY = Path(__file__).with_name("history.tsv")
_SLOWER = 1.10  # a ratio that grew by more than this, and by more than the spread of both, is marked
_ALIKE = 1.25  # if perf's own time differs by more than this factor, the machine or the recording is another one
_COLUMNS = (
    "version", "date", "machine", "case", "wall", "cpu", "memory", "spread", "pairs",
    "our_wall_s", "their_wall_s", "our_cpu_s", "their_cpu_s", "our_mb", "their_mb", "our_instructions", "their_instructions", "goal",
)  # fmt: skip


class Row(NamedTuple):
    """One comparison.

    Attributes:
        goal: the largest accepted ratio; None if there is no goal
        measure: what the goal is about: wall, cpu or memory
        instructions: ours and theirs; None where they were not counted
    """

    case: str
    costs: Comparison
    goal: float | None = None
    measure: str = "cpu"
    instructions: tuple[int | None, int | None] = (None, None)

    def fields(self) -> dict[str, str]:
        """Return the columns of the row as text, by name."""
        values = {"case": self.case, "pairs": str(len(self.costs.ours)), "spread": f"{self.costs.spread('cpu'):.3f}"}
        for measure, unit in (("wall", "wall_s"), ("cpu", "cpu_s"), ("memory", "mb")):
            values[measure] = f"{self.costs.ratio(measure):.3f}"
            values[f"our_{unit}"] = f"{self.costs.median(measure, ours=True):.4g}"
            values[f"their_{unit}"] = f"{self.costs.median(measure, ours=False):.4g}"
        if min(self.costs.median("memory", ours=ours) for ours in (True, False)) <= _own_memory():
            values["memory"] = ""
        ours, theirs = self.instructions
        values["our_instructions"], values["their_instructions"] = str(ours or ""), str(theirs or "")
        values["goal"] = f"{self.measure}<={self.goal:g}" if self.goal is not None else ""
        return values

    def line(self, before: dict[str, str] | None) -> str:
        """Return the row for a terminal. before: the same case of the newest other version on this machine."""
        values = self.fields()
        reached = "" if self.goal is None else "met" if self.costs.ratio(self.measure) <= self.goal else "MISSED"
        columns = [
            f"{self.case:<34.34}",
            *(f"{values[name]:>7}" for name in ("wall", "cpu", "memory")),
            f"{float(values['spread']):7.0%}",
            f"{values['pairs']:>5}",
            f"{values['our_cpu_s']:>8} {values['their_cpu_s']:>8}",
            f"{_short(self.instructions[0]):>8} {_short(self.instructions[1]):>8}",
            f"{values['goal']:>12} {reached:<6}",
            self._slower(before),
        ]
        return " ".join(columns).rstrip()

    def _slower(self, before: dict[str, str] | None) -> str:
        if before is None:
            return ""
        growth = self.costs.ratio("cpu") / max(float(before["cpu"]), 1e-6)
        noise = 1 + self.costs.spread("cpu") + float(before["spread"])
        if growth <= max(_SLOWER, noise):
            return ""
        theirs, theirs_before = self.costs.median("cpu", ours=False), float(before["their_cpu_s"])
        if not 1 / _ALIKE <= theirs / max(theirs_before, 1e-6) <= _ALIKE:
            return f"not comparable with {before['version']}: perf took {theirs_before:.3g} s"
        return f"slower than {before['version']}: cpu {before['cpu']}"


HEADING = (
    f"{'ratio to perf (below 1: better)':<34} {'wall':>7} {'cpu':>7} {'memory':>7} {'spread':>7} {'pairs':>5} {'our s':>8} {'perf s':>8} "
    f"{'instr.':>8} {'perf':>8} {'goal':>12}"
)


def _own_memory() -> float:
    """Return the peak of this process in MB: children inherit it, so that smaller peaks cannot be seen."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _short(count: int | None) -> str:
    return "" if count is None else f"{count / 1e6:.1f}M"


def this_version() -> str:
    """Return the commit of the checkout, with + for changes but those of the history; unknown outside of a checkout."""
    commit = _git("describe", "--always")
    changes = _git("status", "--porcelain", "--untracked-files=no", "--", ":/", f":(exclude){HISTORY.name}")
    return f"{commit}{'+' if changes else ''}" if commit else "unknown"


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=HISTORY.parent, check=False).stdout.strip()


def this_machine() -> str:
    """Return what makes figures comparable: the processor, the number of CPUs, the Python version."""
    model = next((line.split(":", 1)[1].strip() for line in _cpuinfo() if line.startswith("model name")), platform.machine())
    return f"{model} x{os.cpu_count()}, Python {platform.python_version()}"


def _cpuinfo() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []


def read_history(path: Path = HISTORY) -> list[dict[str, str]]:
    """Return the kept rows, oldest first."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def last_of(history: list[dict[str, str]], case: str, version: str, machine: str) -> dict[str, str] | None:
    """Return the newest row of a case on a machine, of another version; None if there is none."""
    rows = (row for row in reversed(history) if (row["case"], row["machine"]) == (case, machine) and row["version"] != version)
    return next(rows, None)


def append_history(rows: list[Row], version: str, machine: str, path: Path = HISTORY) -> None:
    """Keep rows. A version that was measured before on the machine is measured anew: its rows of these cases are replaced."""
    cases = {row.case for row in rows}
    other_rows = [row for row in read_history(path) if (row["version"], row["machine"]) != (version, machine) or row["case"] not in cases]
    common = {"version": version, "date": date.today().isoformat(), "machine": machine}
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, _COLUMNS, delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows([*other_rows, *(common | row.fields() for row in rows)])
