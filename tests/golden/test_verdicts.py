"""Tests that no sentence about a recording made elsewhere is false: each of its numbers is computed again from single samples."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.abi.flags import RecordType, SampleType
from perfpy.analysis.report.options import CallGraph, ChainOptions, ReportOptions, RowOptions
from perfpy.errors import PerfError
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.views.verdict.profile import profile_verdict
from perfpy.views.verdict.sentence import function_text

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from perfpy.views.verdict.sentence import Sentence

_POINT = 0.0051  # shares are printed as whole percentages
_KERNEL_MODES = (1, 4)


class Samples:
    """The single samples of one event, without those of the idle task."""

    def __init__(self, recording: Recording, event: int) -> None:
        columns, attr = recording.samples, recording.events[event].attr
        count = len(columns["event"])
        tid = columns["tid"] if "tid" in columns else np.ones(count, np.int64)
        of_event = columns["event"] == event
        is_kernel = np.isin(columns["cpumode"], _KERNEL_MODES)
        is_idle = (tid == 0) & is_kernel & np.array([re.search("idle|halt|mwait", name) is not None for name in columns["symbol"]], bool)
        self.idle = int(np.count_nonzero(of_event & is_idle))
        self.rows = rows = np.flatnonzero(of_event & ~is_idle)
        has_period = "period" in columns
        fixed = np.full(count, attr.sample_period if not attr.freq else 1, np.uint64)
        self.period = np.asarray(columns["period"] if has_period else fixed)[rows].astype(np.float64)
        self.symbol = columns["symbol"][rows]
        self.tid, self.cpumode = tid[rows], columns["cpumode"][rows]
        self.stacks = columns["stack"][rows] if "callchain" in columns else [(name,) for name in self.symbol]

    def share(self, chosen: NDArray[np.bool_]) -> float:
        """Return the share of some samples."""
        return float(self.period[chosen].sum() / self.period.sum())

    def own(self, name: str) -> float:
        """Return the share of samples in a function."""
        return self.share(self.symbol == name)

    def inclusive(self, name: str) -> float:
        """Return the share of samples with a function in their stacks."""
        return self.share(np.array([name in stack for stack in self.stacks]) | (self.symbol == name))

    @property
    def effective(self) -> float:
        """The number of samples of equal period with the same statistical error, at least."""
        return float(self.period.sum() ** 2 / (self.period**2).sum())


def lower_end(share: float, samples: float) -> float:
    """Return the lower end of Wilson's interval with 99 % confidence."""
    z = 2.5758
    middle = share + z * z / (2 * samples)
    reach = z * math.sqrt(share * (1 - share) / samples + z * z / (4 * samples * samples))
    return (middle - reach) / (1 + z * z / samples)


def printed(text: str) -> list[float]:
    """Return the percentages of a text."""
    return [float(number) / 100 for number in re.findall(r"([\d.]+) %", text)]


def errors_of_function(sentence: Sentence, samples: Samples) -> list[str]:
    """Return what is false in a sentence that names a function."""
    name, numbers, names = sentence.names["function"], sentence.numbers, sentence.names
    checks = {
        "own": abs(numbers.get("own", samples.own(name)) - samples.own(name)) < 1e-6,
        "charged below own": numbers["charged"] >= samples.own(name) - 1e-6,
        "charged above inclusive": numbers["charged"] <= samples.inclusive(name) + 1e-6,
    }
    if "caller" in names:
        both = np.array([name in stack and names["caller"] in stack[stack.index(name) :] for stack in samples.stacks])
        checks["caller"] = numbers["caller"] <= samples.share(both) + 1e-6
    if "callee" in names:
        below = np.array([stack[:1] == (names["callee"],) and name in stack for stack in samples.stacks])
        checks["callee"] = numbers["callee"] <= samples.share(below) + 1e-6
    if "kernel work" in names:
        kernel = np.isin(samples.cpumode, _KERNEL_MODES)
        checks["kernel work"] = numbers["kernel work"] <= samples.share(kernel) + 1e-6
    if sentence.rule == "no function stands out":
        checks["largest"] = all(samples.own(one) <= numbers["charged"] + 1e-6 for one in set(samples.symbol) if one != "[unknown]")
    elif sentence.rule != "largest share":
        checks["least"] = lower_end(numbers["charged"], samples.effective) >= 0.12
    all_names = [*numbers.values(), *(lower_end(value, samples.effective) for value in numbers.values() if 0 <= value <= 1)]
    checks["printed"] = all(any(abs(value - number) < 0.012 for number in all_names) or value > 0.989 for value in printed(sentence.text))
    return [reason for reason, holds in checks.items() if not holds]


def errors_of_line(sentence: Sentence, recording: Recording) -> list[str]:
    """Return the line of a sentence if the function has no samples there: lines of calls are not in samples' own lines."""
    if sentence.rule != "hot function" or sentence.names["function"].startswith(("py::", "JS:")):
        return []
    printed_line = re.search(re.escape(function_text(sentence.names["function"])) + r" \(([^()]+:\d+)\)", sentence.text)
    if printed_line is None:
        return []
    rows = recording.report(by="symbol,srcline")
    lines = {row.texts["srcline"].strip() for row in rows if sentence.names["function"] in row.texts["symbol"]}
    return [] if printed_line[1] in lines else [f"line {printed_line[1]}"]


def errors_of_category(sentence: Sentence, samples: Samples) -> list[str]:
    """Return what is false in a sentence on a category."""
    if " in the kernel" not in sentence.text:
        return []
    return [] if abs(samples.share(np.isin(samples.cpumode, _KERNEL_MODES)) - sentence.numbers["category"]) < 0.01 else ["category"]


def errors_of(sentence: Sentence, recording: Recording, samples: Samples) -> list[str]:
    """Return what is false in a sentence."""
    numbers = sentence.numbers
    if "function" in sentence.names and sentence.rule != "longest wait":
        return errors_of_function(sentence, samples) + errors_of_line(sentence, recording)
    if sentence.rule == "category":
        return errors_of_category(sentence, samples)
    if sentence.rule == "no symbols":
        return [] if numbers["charged"] <= samples.own("[unknown]") + 1e-6 else ["charged"]
    if sentence.rule == "few samples":
        return [] if numbers["samples"] == len(samples.period) < 100 else ["samples"]
    if sentence.rule == "lost samples":
        report = recording.report()
        lost = report.lost or report.losses.records
        return [] if abs(numbers["lost"] - lost / (lost + len(samples.period))) < _POINT else ["lost"]
    if sentence.rule == "idle machine":
        return [] if abs(numbers["idle"] - samples.idle / (samples.idle + len(samples.period))) < _POINT + 0.05 else ["idle"]
    if sentence.rule == "rarely runs":
        times = np.asarray(recording.samples["time"]).astype(np.float64)
        is_known = abs(numbers["seconds"] - samples.period.sum() / 1e9) < 1e-6
        return [] if is_known and numbers["seconds"] < (times.max() - times.min()) / 1e9 else ["seconds"]
    if sentence.rule == "busiest command":
        comm = recording.samples["comm"][samples.rows]
        return [] if abs(samples.share(comm == sentence.names["command"]) - numbers["share"]) < 0.02 else ["share"]
    if sentence.rule == "started processes":
        forks = [side.record for side in recording.side_band([RecordType.FORK])]
        started = sum(fork.pid != fork.ppid and fork.pid == fork.tid for fork in forks)
        return [] if 0 < numbers["started"] <= started else ["started"]
    return [f"no test of the rule {sentence.rule!r}"]


def first_event(recording: Recording) -> int:
    """Return the index of the first event with samples that is no dummy."""
    events = recording.samples["event"]
    return next(event.index for event in recording.events if (events == event.index).any() and event.name.partition(":")[0] != "dummy")


def verdict_of(recording: Recording) -> list[Sentence]:
    chains = ChainOptions(CallGraph(order="caller"), children=True)
    return profile_verdict(recording.report(options=ReportOptions(chains=chains, rows=RowOptions(by_thread=True))), recording.data)


@pytest.mark.parametrize(("folder", "least"), [("recorded", 60), ("public", 35), ("qemu", 5)])
def test_no_sentence_is_false(folder: str, least: int, corpus: Path, files_of_recordings: SymbolOptions, tmp_path: Path) -> None:
    symbols = files_of_recordings if folder == "recorded" else SymbolOptions(symfs=str(tmp_path), buildid_dir=str(tmp_path), cache=False)
    sentence_count, false = 0, []
    for path in sorted((corpus / folder).glob("*.data")):
        try:
            with Recording(str(path), symbols=symbols) as recording:
                if any(event.attr.sample_type & SampleType.READ for event in recording.events):
                    continue  # the samples of a group's members are made from readings
                sentences = verdict_of(recording)
                samples = Samples(recording, first_event(recording)) if sentences else None
                sentence_count += bool(sentences)
                for sentence in sentences:
                    assert samples is not None
                    false += [f"{path.name}: {sentence.text}: {reason}" for reason in errors_of(sentence, recording, samples)]
        except PerfError:
            continue  # damaged, or of another kind; other tests read these
    assert sentence_count >= least
    assert not false, "\n".join(false)
