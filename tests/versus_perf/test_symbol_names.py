"""Tests of the names of live samples against perf's."""

from __future__ import annotations

import collections
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.prepared_start import PERFPY, output_of

pytestmark = [pytest.mark.versus_perf, pytest.mark.live]

#: spends its time in the interpreter, libc, the kernel, and (as a child) a shell
PROGRAM = """
import json, os, subprocess
for _ in range(30):
    json.loads(json.dumps([{"a": i} for i in range(3000)]))
    sorted(os.urandom(20000))
subprocess.run(["sh", "-c", "for i in 1 2 3 4 5 6 7 8; do ls / >/dev/null; done"])
"""


#: closures, templates, names without linkage, IFUNCs of libc, stubs of the linkage table, calls into the vdso
CXX = """
#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>
namespace shapes {
template <class T, int N> struct Box { T values[N]; __attribute__((noinline)) T sum() const { T s{}; for (int k = 0; k < 2000; k++) for (auto &v : values) s += v * k; return s; } };
namespace { __attribute__((noinline)) double hidden(double x) { double s = 0; for (int i = 1; i < 3000; i++) s += x / i; return s; } }
struct Call { __attribute__((noinline)) double operator()(double a) const { for (int i = 0; i < 3000; i++) a = a * 0.999 + i; return a; } };
}
template <class F> __attribute__((noinline)) double apply(F f) { double s = 0; for (int i = 0; i < 2000; i++) s += f(i); return s; }
int main() {
  double t = 0; std::map<std::string, std::vector<int>> m; std::vector<char> from(1 << 16), to(1 << 16);
  std::function<int(int)> fib = [&](int k) -> int { return k < 2 ? k : fib(k - 1) + fib(k - 2); };
  for (int r = 0; r < 1500; r++) {
    t += shapes::Box<int, 4>{{1, 2, 3, r}}.sum() + shapes::Box<double, 8>{}.sum() + shapes::hidden(r) + shapes::Call()(r) + fib(10);
    t += apply([&](int i) { return i * t; }); m[std::to_string(r % 97)].push_back(r); memcpy(to.data(), from.data(), from.size());
    for (int k = 0; k < 200; k++) t += std::chrono::steady_clock::now().time_since_epoch().count() & 1;
    std::vector<int> v(500); for (auto &x : v) x = rand(); std::sort(v.begin(), v.end(), [](int a, int b) { return a > b; });
  }
  return t == 1;
}
"""  # noqa: E501  a program, not for reading


def python_program(_: Path) -> list[str]:
    return [sys.executable, "-c", PROGRAM]


def cxx_program(folder: Path) -> list[str]:
    (folder / "names.cpp").write_text(CXX)
    subprocess.run(["g++", "-O1", "-o", "names", "names.cpp"], check=True, capture_output=True, timeout=120, cwd=folder)
    return [str(folder / "names")]


def git_program(_: Path) -> list[str]:
    folders = " ".join(str(Path(__file__).parents[2] / name) for name in ("perfpy/views", "perfpy/analysis"))
    return ["sh", "-c", f"git --no-pager diff --no-index --patience {folders} >/dev/null; true"]  # the status tells that they differ


MAKERS = {"python": python_program, "g++": cxx_program, "git": git_program}


@pytest.fixture(scope="module", params=[tool for tool in MAKERS if tool == "python" or shutil.which(tool)])
def recording(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("names")
    program = MAKERS[request.param](folder)
    command = ["perf", "record", "-q", "-F", "5000", "-g", "-o", str(folder / "perf.data"), "--", *program]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder / "perf.data"


def frames(*command: str) -> list[str]:
    text = output_of([*command, "-F", "ip,sym,symoff,dso"])
    return [line.strip() for line in text.splitlines() if line.strip()]


def test_every_frame_has_perfs_name(recording: Path):
    theirs = frames("perf", "script", "-i", str(recording))
    ours = frames(*PERFPY, "script", "-i", str(recording))
    assert len(theirs) == len(ours) > 100
    different = collections.Counter((a, b) for a, b in zip(theirs, ours, strict=True) if a != b and " _R" not in a)
    assert sum(different.values()) <= len(theirs) / 1000, different.most_common(5)


def test_no_more_frames_are_without_a_name_than_perfs(recording: Path):
    unknown = [sum("[unknown]" in line for line in frames(*command, "script", "-i", str(recording))) for command in (["perf"], PERFPY)]
    assert unknown[1] <= unknown[0]


def test_build_ids_are_listed_alike(recording: Path):
    listed = [output_of([*command, "buildid-list", "-i", recording]) for command in (["perf"], PERFPY)]
    assert listed[0] == listed[1]
