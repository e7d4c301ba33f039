"""Which modules the quick commands load, and that only those are written for a quick start (tests/quick_modules.txt, one a line)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from perfpy.abi.flags import SampleType
from tests.builders.kernel_events import recording_of_allocations, recording_of_locks
from tests.builders.many_threads import recording_of_switches
from tests.builders.perfdata import USUAL, PerfDataBuilder, simple_recording, usual_attr
from tests.builders.traced import traced_recording

CHECKOUT = Path(__file__).resolve().parents[1]
QUICK = frozenset((Path(__file__).parent / "quick_modules.txt").read_text().split())
START = (
    "import sys; from perfpy.cli import run; run(sys.argv[1:]); print('LOADED', *(m for m in sys.modules if m.split('.')[0] == 'perfpy'))"
)
READING = ("list sw", "report --header-only -i perf.data", "script --header-only -i perf.data", "evlist -i perf.data")
MEASURING = (
    "stat -- true",
    "stat -I 20 -- sleep 0.05",
    "stat -x , -- true",
    "stat -j -- true",
    "record -o x.data -e cpu-clock -- true",
    "record -v -g -o y.data -e cpu-clock -- true",
)
#: loaded, too, where an event or a metric of a vendor is named
NAMED = {
    "perfpy.capture.metrics",
    "perfpy.counts.formulas",
    "perfpy.counts.metrics",
    "perfpy.events.descriptions",
    "perfpy.events.vendor_tables",
    "perfpy.kernel.cpus",
}
REFUSED = {"perfpy.events.fallback"}  # loaded, too, where the kernel refuses an event and another one is tried
ON_A_TERMINAL = {"perfpy.untrusted.terminal", "perfpy.cli.line.pager"}  # these commands load it, too, but no test has a terminal
#: their start is measured, too: with typing's NamedTuple a small report takes 13 % longer, with real dataclasses 2 %
REPORTS = ("report --stdio -i perf.data", "report -g --stdio -i chains.data", "script -i perf.data")
#: of small recordings these need no numpy, whose import takes longer than all else
WITHOUT_NUMPY = ("report --tasks -i perf.data", "report --mmaps -i perf.data")
#: Tools on small recordings: the start is most of their time, and the first of typing's NamedTuples takes 3 % of it.
TOOLS = (
    "sched latency -i switches.data",
    "lock report -i locks.data",
    "kmem -i allocations.data stat",
    "timechart -o x.svg -i switches.data",
)
LONGER_TOOLS = ("sched timehist -s -i switches.data", "sched map -i switches.data", "trace -s -i calls.data")
#: The most modules of perfpy that a command on a small recording may load. One takes about 0.4 ms, perf's whole report 18.
MOST_LOADED = {
    "report --stdio -i perf.data": 84,
    "report -g --stdio -i chains.data": 85,
    "report --mmaps -i perf.data": 34,
    "script -i perf.data": 69,
    **dict(zip(TOOLS, (57, 71, 49, 51), strict=True)),
}
#: what the processes of record --python load: with typing's NamedTuple a recording of two seconds takes 4 % longer
OF_RECORDERS = (
    "perfpy.capture.unwinding.python_reader",
    "perfpy.capture.python_frames.recorded_frames",
    "perfpy.capture.unwinding.serving",
    "perfpy.capture.unwinding.observed_states",
)
#: elsewhere types are those of the standard library
LIGHT = re.compile(r"^TYPE_CHECKING = False|^from perfpy\.abi\.light_types import", re.MULTILINE)


@cache
def loaded_by(line: str, folder: Path) -> frozenset[str]:
    (folder / "perf.data").write_bytes(simple_recording(3).file())
    (folder / "chains.data").write_bytes(with_chains())
    (folder / "switches.data").write_bytes(recording_of_switches(3, 10))
    (folder / "locks.data").write_bytes(recording_of_locks())
    (folder / "allocations.data").write_bytes(recording_of_allocations())
    (folder / "calls.data").write_bytes(traced_recording())
    command = [sys.executable, "-c", START, *line.split()]
    process = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=60, check=True)
    return frozenset(process.stdout.split("LOADED", 1)[1].split())


def with_chains() -> bytes:
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | SampleType.CALLCHAIN)])
    built.sample(misc=2, ip=0x1000, pid=7, tid=7, time=200, period=1000, callchain=[0x1000, 0x1010])
    return built.file()


def sources() -> dict[str, str]:
    """Return the text of each module."""
    parts = {path: path.relative_to(CHECKOUT).with_suffix("").parts for path in (CHECKOUT / "perfpy").rglob("*.py")}
    return {".".join(names[:-1] if names[-1] == "__init__" else names): path.read_text() for path, names in parts.items()}


@pytest.mark.parametrize("line", [*READING, *(pytest.param(line, marks=pytest.mark.live) for line in MEASURING)])
def test_the_quick_commands_load_the_listed_modules(line: str, tmp_path: Path) -> None:
    assert not loaded_by(line, tmp_path) - QUICK - REFUSED


@pytest.mark.live
def test_the_list_is_no_longer_than_needed(tmp_path: Path) -> None:
    assert not QUICK - frozenset().union(*(loaded_by(line, tmp_path) for line in READING + MEASURING))


def test_quick_modules_have_the_light_named_tuple() -> None:
    """typing.NamedTuple loads annotationlib and ast in Python 3.14."""
    sources = {name: (CHECKOUT / name.replace(".", "/")).with_suffix(".py") for name in QUICK}
    slow = re.compile(r"^from typing import .*\bNamedTuple\b", re.MULTILINE)
    assert not {name for name, path in sources.items() if path.exists() and slow.search(path.read_text())}


def test_replacing_a_refused_event_loads_nothing_slow() -> None:
    line = "import sys; import perfpy.events.fallback; print(*sys.modules)"
    process = subprocess.run([sys.executable, "-S", "-c", line], capture_output=True, text=True, cwd=CHECKOUT, timeout=60, check=True)
    loaded = {*process.stdout.split()}
    assert loaded >= REFUSED
    assert not loaded & {"typing", "re", "collections"}


def test_named_events_and_metrics_load_nothing_slow() -> None:
    """A third of the time of `stat -e l1d.replacement` was that of importing re and typing."""
    line = f"import sys; import {', '.join(sorted(NAMED))}, perfpy.events.resolve; print(*sys.modules)"
    process = subprocess.run([sys.executable, "-S", "-c", line], capture_output=True, text=True, cwd=CHECKOUT, timeout=60, check=True)
    assert not {*process.stdout.split()} & {"typing", "re", "collections", "functools", "contextlib"}


@pytest.mark.live
@pytest.mark.parametrize("line", ["stat -- true", "list sw"])
def test_stat_and_list_import_no_slow_module_of_the_standard_library(line: str, tmp_path: Path) -> None:
    start = (
        f"import sys; sys.path.insert(0, {str(CHECKOUT)!r}); from perfpy.cli import run; run(sys.argv[1:]); print('LOADED', *sys.modules)"
    )
    command = [sys.executable, "-S", "-c", start, *line.split()]
    process = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=True)
    slow = {"collections", "ctypes", "dataclasses", "enum", "functools", "inspect", "numpy", "re", "signal", "typing"}
    assert not slow & {*process.stdout.split("LOADED", 1)[1].split()}


def test_only_quick_modules_and_those_of_reports_tools_and_recorders_have_light_types(tmp_path: Path) -> None:
    line = f"import sys, {', '.join(OF_RECORDERS)}; print(*sys.modules)"
    process = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, cwd=CHECKOUT, timeout=60, check=True)
    light = {name for name, text in sources().items() if LIGHT.search(text)} - QUICK - ON_A_TERMINAL - REFUSED - NAMED
    lines = (*REPORTS, *WITHOUT_NUMPY, *TOOLS, *LONGER_TOOLS)
    assert not light - frozenset(process.stdout.split()).union(*(loaded_by(line, tmp_path) for line in lines))


@pytest.mark.parametrize(("line", "most"), MOST_LOADED.items())
def test_commands_on_small_recordings_load_few_modules(line: str, most: int, tmp_path: Path) -> None:
    """Nor one with a NamedTuple of typing, the first of which builds Python's syntax tree classes."""
    loaded = loaded_by(line, tmp_path)
    assert len(loaded) <= most
    texts = sources()
    slow = re.compile(r"^from typing import .*\bNamedTuple\b", re.MULTILINE)
    assert not {name for name in loaded if slow.search(texts[name])}


@pytest.mark.parametrize("line", [*REPORTS, *WITHOUT_NUMPY, *TOOLS, *LONGER_TOOLS])
def test_commands_on_small_recordings_load_nothing_slow_of_the_standard_library_or_numpy(line: str, tmp_path: Path) -> None:
    """numpy's functions of sets take as long to import as ten modules of ours, and typing with its protocols as eight."""
    loaded_by(line, tmp_path)  # makes the recordings
    start = START.replace("if m.split('.')[0] == 'perfpy'", "")
    command = [sys.executable, "-c", start, *line.split()]
    process = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=True)
    loaded = {*process.stdout.split("LOADED", 1)[1].split()}
    assert ("numpy._core" in loaded) is (line not in WITHOUT_NUMPY)
    assert not loaded & {"numpy.lib._arraysetops_impl", "copy", "heapq", "dataclasses", "typing"}


def test_annotations_of_plain_classes_are_text() -> None:
    """The light NamedTuple and dataclass read a class's annotations, which Python 3.14 evaluates later unless they are text."""
    sources = {path: path.read_text() for path in (CHECKOUT / "perfpy").rglob("*.py")}
    plain = [path for path, text in sources.items() if re.search(r"^from perfpy\.abi\.light_types import", text, re.MULTILINE)]
    assert plain
    lacking = [path for path in plain if not re.search("^from __future__ import annotations$", sources[path], re.MULTILINE)]
    assert [str(path.relative_to(CHECKOUT)) for path in lacking] == []


@pytest.mark.parametrize("line", ["sched latency", "sched map", "lock contention", "kmem stat", "timechart -o x.svg", "trace -s"])
def test_tools_that_read_a_recording_have_numpy_start_without_threads_or_slow_modules(line: str, tmp_path: Path) -> None:
    """Threads for linear algebra spin for 50 ms; numpy.ma, tarfile and urllib take 5 to 20 ms each."""
    (tmp_path / "perf.data").write_bytes(simple_recording(3).file())
    start = START.replace("print('LOADED', *(m for m in sys.modules if m.split('.')[0] == 'perfpy'))", "import os")
    start += "; print('THREADS', os.environ.get('OPENBLAS_NUM_THREADS'), *({'numpy.ma', 'tarfile', 'urllib.request'} & {*sys.modules}))"
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    command = [sys.executable, "-c", start, *line.split(), "-i", "perf.data"]
    process = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=True, env=environment)
    assert process.stdout.split("THREADS", 1)[1].split() == ["1"]
