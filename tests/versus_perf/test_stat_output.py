"""Tests that perfpy stat and perf stat print the same except values, over aggregations, formats and options."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.builders.live_pairs import assert_alike
from tests.builders.stat_shapes import csv_shape, json_shape, text_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

pytestmark = [pytest.mark.versus_perf, pytest.mark.live, pytest.mark.system_wide]

OURS = [sys.executable, "-m", "perfpy"]
AGGREGATIONS = ["", "-A", "--per-socket", "--per-die", "--per-cluster", "--per-cache", "--per-core", "--per-node"]
CPUS = ",".join(map(str, sorted(os.sched_getaffinity(0))))
#: events of a cgroup are not counted on a CPU that runs nothing of it: this runs on each
EVERYWHERE = shlex.join(
    [
        sys.executable,
        "-c",
        f"""
import os, time
for cpu in ({CPUS},):
    os.sched_setaffinity(0, [cpu])
    end = time.thread_time() + 0.02
    while time.thread_time() < end:
        pass
""",
    ]
)
EVENTS = ["cpu-clock,page-faults,cycles", "{cs,faults},msr/tsc/", "task-clock:u,instructions,L1-dcache-loads,r1a8"]
OPTIONS = [
    "-e task-clock,cs -- true",
    "-d -- true",
    "-ddd -e cs -- true",
    "-r 3 -- true",
    "-r 3 --table -e task-clock -- true",
    "-n -- true",
    "-e duration_time,cs -- true",
    "-i -e task-clock -- sh -c true",
    "--all-user -e task-clock -- true",
    "--no-big-num -e page-faults -- true",
    "--no-scale -e page-faults -- true",
    "-a -C 1 -e cpu-clock -- true",
    "-C 0 -e cpu-clock,cs -- true",
    "-D 5 -e cs -- sleep 0.3",
    "-I 20 --interval-count 2 -a -e cpu-clock,cs",
    "-I 20 --interval-count 1 -a -A -e cpu-clock",
    "-I 20 --interval-count 1 -a --per-core -e cpu-clock",
    "-I 20 --interval-count 1 -a --per-socket -e cpu-clock",
    "-I 20 --summary --interval-count 1 -a -e cpu-clock",
    "--timeout 120 -a -e cpu-clock",
    "-a -e cpu-clock,cs -G / -- true",
    "-a -e cpu-clock --for-each-cgroup / -- true",
    "-C CPUS -A -e cpu-clock --for-each-cgroup / -- EVERYWHERE",
    "-e sched:sched_process_exec -- true",
    "-e cpu-clock/name=clock/ -- true",
    "-e page-faults:D -- true",
    "--metric-only -a -- true",
    "--quiet -- true",
]
OPTIONS_WITH_FIELDS = [options for options in OPTIONS if not re.search("--table|--metric-only", options)]


def stat(program: list[str], options: str) -> str:
    """What a stat command prints on stderr.

    perf's built-in tables name events of the CPU model that this machine's PMU may lack, and perf complains of them: it is told
    of a model that has no table.
    """
    environment = {**os.environ, "PERF_CPUID": "GenuineIntel-0-0-0"}
    command = [*program, "stat", *shlex.split(options.replace("CPUS", CPUS).replace("EVERYWHERE", EVERYWHERE))]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment).stderr


def perfpy_stat(options: str) -> str:
    return stat(OURS, options)


def shapes(shape: Callable[[str], Iterable[object]], program: list[str], options: str) -> list[object]:
    return unique(shape(stat(program, options)))


def unique(shapes: Iterable[object]) -> list[object]:
    listed = list(shapes)
    return [shape for i, shape in enumerate(listed) if shape not in listed[:i]]


@pytest.mark.parametrize("events", EVENTS)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_text_has_perfs_columns(perf: str, aggregation: str, events: str) -> None:
    """Every aggregation's text has perf's widths, names and comments."""
    options = f"-a {aggregation} -e {events} -- sleep 0.02"
    assert_alike(lambda: text_shape(perfpy_stat(options)), lambda: text_shape(stat([perf], options)))


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_csv_has_perfs_fields(perf: str, aggregation: str) -> None:
    """Every aggregation's CSV has perf's fields in perf's order."""
    for more in ("", "-I 20 --interval-count 1", "-r 2"):
        options = f"-a {aggregation} -x, {more} -e {EVENTS[0]} -- sleep 0.05"
        assert_alike(partial(shapes, csv_shape, OURS, options), partial(shapes, csv_shape, [perf], options))


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_json_has_perfs_keys(perf: str, aggregation: str) -> None:
    """Every aggregation's JSON has perf's keys in perf's order."""
    for more in ("", "-I 20 --interval-count 1", "-r 2"):
        options = f"-a {aggregation} -j {more} -e {EVENTS[0]} -- sleep 0.05"
        assert_alike(partial(shapes, json_shape, OURS, options), partial(shapes, json_shape, [perf], options))


@pytest.mark.parametrize("options", OPTIONS)
def test_options_give_perfs_text(perf: str, options: str) -> None:
    """Options one by one, and in pairs that scripts use."""
    assert_alike(lambda: text_shape(perfpy_stat(options)), lambda: text_shape(stat([perf], options)))


@pytest.mark.parametrize("options", OPTIONS_WITH_FIELDS)
@pytest.mark.parametrize("form", ["-x,", "-j"])
def test_options_give_perfs_fields(perf: str, options: str, form: str) -> None:
    """The same options as CSV and JSON."""
    shape = csv_shape if form == "-x," else json_shape

    def fields(text: str) -> list[object]:
        return unique(shape(text.partition("enabled\n")[2] if "-D" in options else text))  # a message comes before the counts

    assert_alike(lambda: fields(perfpy_stat(f"{form} {options}")), lambda: fields(stat([perf], f"{form} {options}")))
