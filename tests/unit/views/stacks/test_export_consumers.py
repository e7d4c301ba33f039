"""Exports as their consumers see them: speedscope's own schema, pprof's own decoder.

Needs node and a folder of npm packages (ajv, pprof-format, speedscope) named by PERFPY_NODE_PACKAGES, the one that
`npm install --prefix FOLDER ajv pprof-format speedscope` fills.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from perfpy.views.stacks import exports
from tests.builders.stacks import stacks

PROFILE = "sh;main;run;sys_read_[k] 3\nsh;main;run 2\nls;main 4\nls 1"

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


def consumed(program: str, file: Path) -> object:
    """What a node program prints about an exported file, from JSON."""
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
