"""The fuzzer finds what is planted, its damage is not refused at the door, a seed says everything; what it once found stays mended."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.fuzz import mutation
from tests.fuzz.campaign import case_of
from tests.fuzz.case import Case, save, saved
from tests.fuzz.minimise import minimised
from tests.fuzz.recordings import damaged_recording, take_apart
from tests.fuzz.seeds import seeds
from tests.fuzz.targets import TARGETS

CHECKOUT = Path(__file__).parents[2]
FOUND = Path(__file__).parent / "found"

#: what is wrong in a child -> what it is called
PLANTED = {
    "raise IndexError('planted')": "internal error: IndexError in perfpy/views/planted.py:planted",
    "import time; time.sleep(30)": "time",
    "while True: pass": "time",
    "kept = [bytearray(1 << 20) for _ in range(400)]": "memory: more than 300 MB",
    "kept = bytearray(1 << 40)": "out of memory",
    "open('../escaped', 'w')": "writes outside: '../escaped'",
    "import os; os.symlink('/', '/proc/self/cwd/../link')": "changes outside: os.symlink '/proc/self/cwd/../link'",
    "eval('1 + ' + str(1))": "makes code of a text: in",
    "import subprocess; subprocess.run(['true'])": "starts a program",
    "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)": "crash: SIGSEGV",
    "import os; os._exit(3)": "exit status 3",
    "import warnings; warnings.warn_explicit('so', RuntimeWarning, '/x/perfpy/y.py', 1)": "warning in perfpy/y.py: RuntimeWarning: so",
    "": "",
}
#: the faults pretend to stand in a module of perfpy, which every command that reads comes through
PLANTING = """
    import contextlib, io, json, sys
    from tests.fuzz.__main__ import main
    from tests.fuzz.campaign import campaign
    from tests.fuzz.case import Case
    from tests.fuzz.limits import Limits
    from tests.fuzz.seeds import seeds
    from tests.fuzz.server import Server

    case = Case("evlist", ("-i", "perf.data"), seeds()["sampled"]["plain <"])
    found = {}
    with Server(Limits(cpu_seconds=2, wall_seconds=8, memory=300 << 20)) as server:
        from perfpy.perfdata import reader
        real = reader.PerfData.__init__
        for fault in json.loads(sys.argv[1]):
            scope = {}
            exec(compile("def planted():\\n " + (fault or "pass"), "/x/perfpy/views/planted.py", "exec"), scope)
            reader.PerfData.__init__ = lambda self, *args, **options: (scope["planted"](), real(self, *args, **options))[1]
            found[fault] = server.run(case).signature
        reader.PerfData.__init__ = real
        tally = campaign(server, range(25), "shares", ["header", "report", "script", "api-samples"])
    texts = []
    for line in json.loads(sys.argv[2]):
        sys.argv[1:], text = line, io.StringIO()
        with contextlib.redirect_stdout(text):
            status = main()
        texts.append([status, text.getvalue()])
    print(json.dumps({"named": found, "opened": tally.opened, "read": tally.read, "texts": texts}))
"""
COMMAND_LINES = [["--runs", "30", "--seed", "told", "--target", "^(header|evlist)$"], ["--replay", str(FOUND)]]


def apart(script: str, *args: str, timeout: float = 600) -> str:
    """What a script prints. A process of its own, because it forks: pytest's has threads."""
    command = [sys.executable, "-c", textwrap.dedent(script), *args]
    return subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True, text=True, timeout=timeout).stdout.strip()


@pytest.mark.thorough
def test_campaigns_find_planted_faults_and_no_others():
    """One process does everything that imports all of perfpy."""
    results = json.loads(apart(PLANTING, json.dumps([*PLANTED]), json.dumps(COMMAND_LINES)))
    for fault, name in PLANTED.items():
        assert results["named"][fault].startswith(name), fault
    assert results["named"][""] == ""
    assert results["read"] > 15
    assert results["opened"] / results["read"] > 0.75, "most damaged recordings get past their header"
    (status, described), (replay_status, replayed) = results["texts"]
    assert status == 0
    assert re.search(r"seed told: 30 runs in \d+ s", described)
    assert re.search(r"evlist \d+, header \d+\n  peak \d+ MB", described)
    assert "failures: 0 of 0 causes" in described
    assert replay_status == 0, replayed
    assert len(replayed.splitlines()) == len(saved(FOUND)), "every case in found/ is fixed"


@pytest.mark.thorough
def test_a_seed_and_a_number_give_the_same_case_and_others_another():
    cases = [case_of("a seed", number) for number in range(5)]
    assert cases == [case_of("a seed", number) for number in range(5)]
    assert sum(one == other for one, other in zip(cases, [case_of("another", number) for number in range(5)], strict=True)) == 0


@pytest.mark.thorough
def test_a_damaged_input_can_be_damaged_again():
    rng = random.Random(1)
    for name, files in seeds()["sampled"].items():
        data = files["perf.data"]
        for _ in range(30):
            data = damaged_recording(data, rng)
        assert len(data) < 10_000_000, name


@pytest.mark.thorough
def test_the_order_of_sets_is_not_in_a_case():
    script = "from tests.fuzz.campaign import case_of; import zlib; print(zlib.crc32(repr([case_of('s', n) for n in range(20)]).encode()))"
    assert apart(script) == apart(script)  # each has its own hashes of strings


def test_a_recording_taken_apart_is_joined_to_one_of_the_same_parts():
    whole, same = 0, 0
    for name, files in seeds()["sampled"].items():
        parts = take_apart(files["perf.data"])
        if parts is not None:
            assert take_apart(parts.joined()) == parts, name
            whole += len(parts.records) > 5
            same += parts.joined() == files["perf.data"]
    assert whole > 20
    assert same > 20  # perf puts padding between features


def test_every_damage_changes_a_recording():
    rng = random.Random(1)
    data = seeds()["sampled"]["everything <"]["perf.data"]
    assert sum(damaged_recording(data, rng) != data for _ in range(200)) > 170


def test_a_failing_case_is_made_small():
    case = Case("report", ("-i", "perf.data", "-g", "-s", "comm"), {**seeds()["sampled"]["plain <"], "kallsyms": b"x"})
    small = minimised(case, lambda case: "-g" in case.args and case.files.get("perf.data", b"").count(b"busy") >= 2)
    assert small.args == ("-i", "perf.data", "-g")
    assert list(small.files) == ["perf.data"]
    parts = take_apart(small.files["perf.data"])
    assert parts is not None
    assert len(parts.records) == 2


def test_a_case_is_kept_and_found_again(tmp_path: Path):
    case = Case("inject", ("-i", "-", "-j"), {"a/perf.data": b"\0\1", "perf-7.map": b"x"}, "a/perf.data", {"PERF_CONFIG": "perfconfig"})
    save(tmp_path, "one", case, "time")
    save(tmp_path, "two", case_of("s", 1), "time")
    assert saved(tmp_path) == {"one": case, "two": case_of("s", 1)}


def test_names_that_double_do_double():
    from perfpy.symbols.demangling.demangle import demangle

    for make in (mutation._doubling_cxx, mutation._doubling_rust):
        lengths = [len(demangle(make(levels))) for levels in (3, 4, 5)]
        assert lengths[2] - lengths[1] > 1.8 * (lengths[1] - lengths[0])


def test_every_target_is_known():
    from tests.fuzz.api import CALLS

    assert {name for name, target in TARGETS.items() if not target.command} == set(CALLS)
