"""Targets: commands with sets of options, and calls of the API.

Input: a generator of random numbers. Output: a Case: a target, its
arguments and damaged files. Targets of the API are functions of tests.fuzz.api.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.fuzz import options
from tests.fuzz.binaries import damaged_elf, damaged_jitdump
from tests.fuzz.case import Case
from tests.fuzz.data_seeds import damaged_table, damaged_trace
from tests.fuzz.debug_damage import damaged_program, hostile_jitdump
from tests.fuzz.memory_images import damaged_image
from tests.fuzz.mutation import damaged_text
from tests.fuzz.recordings import damaged_recording
from tests.fuzz.seeds import common_files, seeds

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.fuzz.seeds import Files

_READ = ("sampled",) * 5 + ("elf", "elf", "jit", "stat", "folder")
_SYMBOLIC = ("sampled", "sampled", "sampled", "elf", "elf", "jit")
_CONFIGURED, _PIPED = 0.08, 0.15
_FOLDER = re.compile(rb"^(\s*dir\s*=).*$", re.MULTILINE)  # whoever configures a folder means it, wherever it is
_PROGRAMS = "tmp/c/"  # of recordings with copies of stacks
_KEPT = "home/.debug/.build-id/ab/cdef0123456789abcdef0123456789abcdef01/elf"


@dataclass(frozen=True)
class Target:
    """What to run. command: of perfpy, "" for the API; kinds: of seeds that suit it; args: makes its options; reads: takes -i."""

    command: str
    kinds: tuple[str, ...]
    args: Callable[[random.Random, str], tuple[str, ...]]
    reads: bool = True
    share: int = 1


TARGETS = {
    "report": Target("report", (*_SYMBOLIC, "folder"), options.report, share=6),
    "many": Target("report", _SYMBOLIC, options.many, reads=False, share=2),
    "export": Target("report", _SYMBOLIC, options.export, share=2),
    "report-dump": Target("report", _READ, lambda rng, seed: ("-D",)),
    "header": Target("report", _READ, options.header),
    "script": Target("script", (*_SYMBOLIC, "stat"), options.script, share=6),
    "script-dump": Target("script", _READ, options.script_dump),
    "evlist": Target("evlist", _READ, options.evlist),
    "buildid-list": Target("buildid-list", _READ, options.buildid_list),
    "buildid-cache": Target("buildid-cache", ("elf",), options.buildid_cache, reads=False),
    "stacks-report": Target("report", ("stacks",), options.stacks_report, share=5),
    "stacks-script": Target("script", ("stacks",), options.stacks_script, share=5),
    "inject": Target("inject", ("jit", "jit", "sampled", "elf", "stat"), options.inject, share=2),
    "stat-report": Target("stat", ("stat", "stat", "stat", "sampled"), options.stat_report),
    "diff": Target("diff", _SYMBOLIC, options.diff, reads=False),
    "page": Target("report", (*_SYMBOLIC, "folder", "stacks"), options.page, share=2),
    "annotate": Target("annotate", ("elf", "stacks", "stacks", "jit"), options.annotate, share=2),
    "aux-dump": Target("report", ("aux",), options.aux_dump, reads=False, share=2),
    "aux-script": Target("script", ("aux",), options.aux_script, reads=False),
    "aux-calls": Target("trace", ("aux",), options.traced_calls, reads=False),
    "threads-folder": Target("report", ("folder",), options.report, share=2),
    "tables": Target("report", ("tables",), options.of_tables, reads=False, share=2),
    "tables-script": Target("script", ("tables",), options.script_of_tables, reads=False),
    "parquet-export": Target("export", (*_SYMBOLIC, "stacks", "tables"), options.parquet_export, reads=False),
    "trace": Target("trace", ("calls",), options.trace, share=3),
    "why": Target("why", ("threads",), options.why, share=3),
    "sched": Target("sched", ("threads",), options.sched, share=3),
    "sched-stats": Target("sched", ("statistics",), options.sched_stats),
    "kwork": Target("kwork", ("work",), options.kwork),
    "kmem": Target("kmem", ("allocations",), options.kmem),
    "lock": Target("lock", ("locks",), options.lock),
    "timechart": Target("timechart", ("threads", "work"), options.timechart),
    "probe": Target("probe", ("stacks",), options.probe, reads=False, share=3),
    "list": Target("list", ("events",), options.list_events, reads=False),
    "api-samples": Target("", _READ, options.nothing),
    "api-records": Target("", _READ, options.nothing),
    "api-report": Target("", _SYMBOLIC, options.sort_keys),
    "api-tracepoints": Target("", ("sampled",), options.nothing),
    "api-python-frames": Target("", ("python",), options.nothing, share=2),
}
_WITH_ACTIONS = ("stat-report", "sched", "sched-stats", "kwork", "kmem", "lock")
_NAMES = [name for name, target in TARGETS.items() for _ in range(target.share)]


def make_case(rng: random.Random, names: list[str] | None = None) -> Case:
    """A target (one of the names, by default any) and damaged files for it."""
    name = rng.choice(names or _NAMES)
    target = TARGETS[name]
    kind = rng.choice(target.kinds)
    seed = rng.choice(sorted(seeds()[kind]))
    args = target.args(rng, seed)
    whole = _files(name, kind, seed, rng)
    files = _damaged(whole, rng)
    environ = {"PERF_CONFIG": "/dev/null"}
    if rng.random() < _CONFIGURED:
        environ = {"PERF_CONFIG": "perfconfig"}
        # a configuration is its owner's word: a folder that it names elsewhere would be written to
        files["perfconfig"] = _FOLDER.sub(rb"\1 home/.debug", damaged_text(whole["perfconfig"], rng))
    if name in ("annotate", "page"):
        environ["PATH"] = "nowhere"  # capstone instead of objdump: a run starts no programs
    if name == "list":
        environ["PERFPY_EVENT_FILES"] = "events"
    if not target.reads or not target.command:
        return Case(name, args, files, "", environ)
    stdin = "perf.data" if "perf.data" in files and rng.random() < _PIPED else ""
    source = ("-i", "-" if stdin else "perf.data")
    args = (args[0], *source, *args[1:]) if name in _WITH_ACTIONS else source + args
    return Case(name, args, files, stdin, environ)


def _files(name: str, kind: str, seed: str, rng: random.Random) -> Files:
    files = common_files() | dict(seeds()[kind][seed])
    if name in ("diff", "many"):
        files["other.data"] = files["perf.data"]
    if kind == "elf" and rng.random() < 0.3:
        files[_KEPT] = files["app.elf"]
    return files


def _damaged(whole: Files, rng: random.Random) -> Files:
    """One of the files damaged, sometimes two; what lies beside a recording more often than the recording."""
    beside = [path for path in whole if not path.startswith(("perf.data", "other.data", "kallsyms", "perfconfig"))]
    recordings = [path for path in whole if path.startswith(("perf.data", "other.data"))]
    chance = rng.random()
    if any(path.startswith(_PROGRAMS) for path in whole):
        chance = 0.1 + 0.57 * chance  # of stacks nearly always the program
    if chance < 0.08:
        chosen = {rng.choice(sorted(whole))}
    elif beside and (chance < 0.6 or not recordings):
        chosen = {rng.choice(beside)}
    else:
        chosen = {rng.choice(recordings)}
    if rng.random() < 0.15:
        chosen.add(rng.choice(sorted(whole)))
    return {path: _damaged_file(path, data, rng) if path in chosen else data for path, data in whole.items()}


def _damaged_file(path: str, data: bytes, rng: random.Random) -> bytes:
    if path.endswith(".parquet"):
        return damaged_table(data, rng)
    if path.endswith(".image"):
        return damaged_image(data, rng)
    if path.startswith("aux.data"):
        return damaged_trace(data, rng)
    if path.endswith(".c"):
        return damaged_text(data, rng)
    if path.startswith(_PROGRAMS):
        return damaged_program(data, rng)
    if path.endswith((".elf", ".debug", "/elf")):
        return damaged_elf(data, rng)
    if path.endswith(".dump"):
        return hostile_jitdump(rng) if rng.random() < 0.4 else damaged_jitdump(data, rng)
    if path.endswith((".map", "kallsyms", "perfconfig", ".json")):
        return damaged_text(data, rng)
    return damaged_recording(data, rng)
