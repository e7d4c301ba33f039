"""Stacks in other viewers' formats: what each holds is the profile that went in."""

import dataclasses
import gzip
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfpy.analysis.stacks.stacks import Stacks, TimedSamples, prefix_table
from perfpy.views.stacks import exports
from tests.builders.stacks import stacks

PROFILE = "sh;main;run;sys_read_[k] 3\nsh;main;run 2\nls;main 4\nls 1"
# what node programs say of an export: speedscope's own schema, pprof's own decoder
SPEEDSCOPE = """
const fs = require("fs"), Ajv = require("ajv"), [packages, file] = process.argv.slice(1);
const schema = JSON.parse(fs.readFileSync(packages + "/node_modules/speedscope/dist/release/file-format-schema.json"));
delete schema.$schema;
const valid = new Ajv({ strict: false, validateFormats: false }).compile(schema);
console.log(JSON.stringify([valid(JSON.parse(fs.readFileSync(file))), valid.errors]));
"""
PPROF = """
const fs = require("fs"), zlib = require("zlib"), { Profile } = require("pprof-format"), [packages, file] = process.argv.slice(1);
const profile = Profile.decode(zlib.gunzipSync(fs.readFileSync(file))), text = i => profile.stringTable.strings[Number(i)];
const name = Object.fromEntries(profile.function.map(f => [f.id, text(f.name)]));
const place = Object.fromEntries(profile.location.map(l => [l.id, name[l.line[0].functionId]]));
console.log(JSON.stringify(profile.sample.map(s => [s.locationId.map(i => place[i]), s.value.map(Number), text(s.label[0].str)])));
"""


def timed() -> Stacks:
    def column(*values: int) -> np.ndarray[Any, Any]:
        return np.array(values)

    samples = TimedSamples(column(0, 1, 2, 3, 0), column(0, 0, 1, 1, 0), column(7, 7, 8, 8, 7), column(7, 7, 8, 8, 9),
                           column(5000000, 1000000, 2000000, 3000000, 4000000).astype(np.uint64),
                           column(0, 0, 1, 1, 0), column(1, 1, 1, 1, 1).astype(np.uint64))  # fmt: skip
    return dataclasses.replace(stacks(PROFILE), timed=samples)


def test_folded_lines_are_sorted_and_added_up() -> None:
    assert list(exports.folded([stacks(PROFILE)])) == ["ls 1", "ls;main 4", "sh;main;run 2", "sh;main;run;sys_read 3"]
    assert list(exports.folded([stacks("a;f 1"), stacks("a;f 2")])) == ["a;f 3"]


def test_a_semicolon_in_a_name_does_not_split_it() -> None:
    part = stacks("a;f 1")
    part = dataclasses.replace(part, functions=[part.functions[0]._replace(name="operator;")])
    assert list(exports.folded([part])) == ["a;operator: 1"]


def test_a_line_break_in_a_name_does_not_end_the_line() -> None:
    part = stacks("a;f 1")
    part = dataclasses.replace(part, functions=[part.functions[0]._replace(name="f 7\nroot;forged")], comms=["a\r\nb"])
    assert list(exports.folded([part])) == ["a^M^Jb;f 7^Jroot:forged 1"]


def test_speedscope_holds_every_stack_outermost_first() -> None:
    data = json.loads(exports.speedscope([stacks(PROFILE, "cpu-clock:u"), stacks("x;y 1", "faults")], "perf.data"))
    first, second = data["profiles"]
    names = [frame["name"] for frame in data["shared"]["frames"]]
    got = {tuple(names[i] for i in sample): weight for sample, weight in zip(first["samples"], first["weights"], strict=True)}
    assert got == {("sh", "main", "run", "sys_read"): 3, ("sh", "main", "run"): 2, ("ls", "main"): 4, ("ls",): 1}
    assert (first["unit"], first["endValue"]) == ("nanoseconds", 10)
    assert (second["unit"], second["name"]) == ("none", "faults")


def test_firefox_has_a_track_a_thread_with_its_samples_in_time_order() -> None:
    data = json.loads(exports.firefox([timed()], "perf record", started=1.5))
    assert [(t["pid"], t["tid"], t["name"]) for t in data["threads"]] == [(7, 7, "sh"), (7, 9, "sh"), (8, 8, "ls")]
    thread = data["threads"][0]
    assert [sample[1] for sample in thread["samples"]["data"]] == [0.0, 4.0]
    assert [gecko_stack(thread, sample[0]) for sample in thread["samples"]["data"]] == [
        ["run (in app)", "main (in app)"],
        ["sys_read (in kernel)", "run (in app)", "main (in app)"],
    ]
    assert data["threads"][2]["samples"]["data"][1][0] is None  # no frames
    assert data["meta"]["startTime"] == 1500.0


def gecko_stack(thread: dict[str, Any], stack: int | None) -> list[str]:
    """Walk a Gecko stackTable from its innermost frame out."""
    names = []
    while stack is not None:
        stack, frame = thread["stackTable"]["data"][stack]
        names.append(thread["stringTable"][thread["frameTable"]["data"][frame][0]])
    return names


def test_firefox_needs_times() -> None:
    with pytest.raises(ValueError, match="times"):
        exports.firefox([stacks(PROFILE)], "x")


def test_firefox_has_a_track_for_each_event_of_a_thread() -> None:
    first = timed()
    assert first.timed is not None
    moved = dataclasses.replace(first.timed, time=first.timed.time + np.uint64(1000000))
    data = json.loads(exports.firefox([first, dataclasses.replace(first, event="faults", timed=moved)], "perf record"))
    assert [(t["tid"], t["name"]) for t in data["threads"]] == [
        (7, "sh (cycles)"), (9, "sh (cycles)"), (8, "ls (cycles)"), (7, "sh (faults)"), (9, "sh (faults)"), (8, "ls (faults)"),
    ]  # fmt: skip
    assert data["threads"][3]["samples"]["data"][0][1] == 1.0  # they share one time line


def test_pprof_decodes_to_the_profile_that_went_in() -> None:
    fields = list(protobuf(gzip.decompress(exports.pprof([stacks(PROFILE, "cycles"), stacks("x;y 1", "faults")], time_nanos=5))))
    strings = [value.decode() for number, value in fields if number == 6]
    functions = {dict(protobuf(v))[1]: strings[dict(protobuf(v))[2]] for n, v in fields if n == 5}
    assert [strings[dict(protobuf(v))[1]] for n, v in fields if n == 1] == ["cycles samples", "cycles", "faults samples", "faults"]
    got = []
    for sample in (dict(protobuf(v)) for n, v in fields if n == 2):
        chain = [functions[i] for i in varints(sample.get(1, b""))]
        label = dict(protobuf(sample[3]))
        got.append((strings[label[2]], chain, varints(sample[2])))
    assert got == [
        ("sh", ["sys_read", "run", "main"], [1, 3, 0, 0]),
        ("sh", ["run", "main"], [1, 2, 0, 0]),
        ("ls", ["main"], [1, 4, 0, 0]),
        ("ls", [], [1, 1, 0, 0]),
        ("x", ["y"], [0, 0, 1, 1]),
    ]
    assert dict(fields)[9] == 5


def varints(data: bytes) -> list[int]:
    values, shift, value = [], 0, 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            values.append(value)
            shift = value = 0
    return values


def protobuf(data: bytes) -> Iterator[tuple[int, Any]]:
    """A message's fields: varints as int, length-delimited ones as bytes."""
    at = 0

    def varint() -> int:
        nonlocal at
        start = at
        while data[at] > 0x7F:
            at += 1
        at += 1
        return varints(data[start:at])[0]

    while at < len(data):
        key = varint()
        if key & 7 == 2:
            size = varint()
            yield key >> 3, data[at : at + size]
            at += size
        else:
            yield key >> 3, varint()


def test_prefixes_are_shared() -> None:
    part = stacks("a;x;y;z 1\na;x;y 1\na;x;w 1")
    prefix, function, leaf = prefix_table(part, np.array([0, 1, 2], np.int32))
    paths = []
    for end in leaf.tolist():
        node, path = end, []
        while node >= 0:
            path.append(part.functions[function[node]].name)
            node = int(prefix[node])
        paths.append("".join(path))
    assert paths == ["zyx", "yx", "wx"]
    assert len(prefix) == 4


def consumed(program: str, file: Path) -> object:
    """What a node program prints about an exported file, from JSON.

    Needs node and a folder of npm packages named by PERFPY_NODE_PACKAGES: `npm install --prefix FOLDER ajv pprof-format speedscope`.
    """
    packages, node = os.environ.get("PERFPY_NODE_PACKAGES"), shutil.which("node")
    if not packages or node is None:
        pytest.skip("no node with the packages ajv, pprof-format and speedscope: set PERFPY_NODE_PACKAGES")
    env = {**os.environ, "NODE_PATH": f"{packages}/node_modules"}
    run = subprocess.run([node, "-e", program, packages, str(file)], capture_output=True, text=True, timeout=60, check=False, env=env)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_speedscopes_schema_accepts_the_export(tmp_path: Path) -> None:
    file = tmp_path / "speedscope.json"
    file.write_text(exports.speedscope([stacks(PROFILE, "cpu-clock"), stacks("x;y 1", "faults")], "perf.data"))
    assert consumed(SPEEDSCOPE, file) == [True, None]


def test_pprofs_decoder_finds_the_profile(tmp_path: Path) -> None:
    file = tmp_path / "profile.pb.gz"
    file.write_bytes(exports.pprof([stacks(PROFILE)]))
    assert consumed(PPROF, file) == [
        [["sys_read", "run", "main"], [1, 3], "sh"],
        [["run", "main"], [1, 2], "sh"],
        [["main"], [1, 4], "ls"],
        [[], [1, 1], "ls"],
    ]


PYTHON = "sh;py::main:/srv/app.py;run 5"


def test_functions_of_python_have_their_names_and_files_in_viewers_and_are_folded_as_perf_prints_them() -> None:
    part = stacks(PYTHON)
    assert list(exports.folded([part])) == [PYTHON]
    frames = json.loads(exports.speedscope([part], "perf.data"))["shared"]["frames"]
    assert {"name": "main (app.py)", "file": "/srv/app.py"} in frames
    strings = gzip.decompress(exports.pprof([part]))
    assert b"main (app.py)" in strings
    assert b"py::main:/srv/app.py" in strings  # the system's name
    assert exports._gecko_name(part.functions[0]) == "main (app.py)"
