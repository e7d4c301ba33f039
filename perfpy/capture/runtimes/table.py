"""The runtimes that can tell the names of the code they make: one entry each.

What enters: nothing. What leaves: RUNTIMES, as data: what is set in the
environment of a command, how its stacks are walked, what else is to be known.
Each entry says whether it was tried, with which version, and where its switches
are described.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from perfpy.capture.runtimes.cpython import STARTUP

_HERE: Final = os.path.dirname(__file__)


class Variable(NamedTuple):
    """A variable of the environment, and what it has to hold.

    between: what stands between the user's own value and ours; "" where there can be one value only: then the user's stays.
    first: whether ours stands in front of it.
    """

    name: str
    value: str
    between: str = ""
    first: bool = False


class Version(NamedTuple):
    """The oldest version that does not take a switch for an error, and the command that tells which one is there."""

    asked: tuple[str, ...]
    oldest: tuple[int, ...]


class LanguageRuntime(NamedTuple):
    """One runtime.

    programs: the names of its programs, without versions; variables: what makes it tell names; version: where the
    variables harm older ones, they are set for its own programs only, and if they are as new as that; stacks: how its
    stacks can be walked, "fp" where its code has frame pointers, "dwarf" where that has to be looked up;
    logs: what else it leaves in the folder where it starts (a name with {pid});
    attach: how it can be asked while it runs: "jcmd", "remote_exec", or what is to be done instead.
    """

    name: str
    programs: tuple[str, ...]
    variables: tuple[Variable, ...]
    version: Version | None = None
    stacks: str = "fp"
    logs: str = ""
    attach: str = ""


#: 3.8 to 3.14 were tried; 3.8 to 3.11 have their names by what runs from PYTHONPATH (perfpy.capture.runtimes.cpython). 3.13
#: has PYTHON_PERF_JIT_SUPPORT, too, for a jitdump with how to unwind its trampolines (docs.python.org, "Python support for the
#: Linux perf profiler"): it is not asked for, as that is known here, and the dump loses the last functions of a process that
#: is killed or ends by os._exit (a perf map is written line by line), of which children of multiprocessing are.
PYTHON: Final = LanguageRuntime(
    "Python",
    ("python", "pypy"),
    (Variable("PYTHONPERFSUPPORT", "1"), Variable("PYTHONPATH", STARTUP, ":", first=True)),
    stacks="dwarf",
    attach="remote_exec",
)

RUNTIMES: Final = (
    PYTHON,
    # 20.20 was tried, both with --perf-basic-prof and --perf-prof: of the latter's dump not one name was right, and it lies
    # in the current folder. Interpreted functions have names of their own with the second switch only.
    LanguageRuntime(
        "Node.js",
        ("node", "nodejs", "npm", "npx", "yarn"),
        (Variable("NODE_OPTIONS", "--perf-basic-prof --interpreted-frames-native-stack", " "),),
        logs="isolate-0x*-{pid}-v8.log",
        attach="start it with --perf-basic-prof --interpreted-frames-native-stack",
    ),
    # not tried; the switches are V8's
    LanguageRuntime(
        "Deno",
        ("deno",),
        (Variable("DENO_V8_FLAGS", "--perf-basic-prof,--interpreted-frames-native-stack", ","),),
        logs="isolate-0x*-{pid}-v8.log",
        attach="start it with --v8-flags=--perf-basic-prof",
    ),
    # OpenJDK 17 and 25 were tried. Older ones, which have no such map, are to ignore it. Methods that are interpreted or inlined
    # stand in no map: they are found in copies of the stack (perfpy.capture.runtimes.hotspot).
    LanguageRuntime(
        "Java",
        ("java", "gradle", "mvn", "scala", "kotlin", "clojure", "sbt", "ant"),
        (
            Variable(
                "JAVA_TOOL_OPTIONS",
                "-XX:+IgnoreUnrecognizedVMOptions -XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions -XX:+DebugNonSafepoints"
                " -XX:+DumpPerfMapAtExit",
                " ",
            ),
        ),
        stacks="dwarf",
        attach="jcmd",
    ),
    # not tried (learn.microsoft.com, "Runtime configuration options for debugging and profiling"): 3 is the perf map alone
    LanguageRuntime(".NET", ("dotnet",), (Variable("DOTNET_PerfMapEnabled", "3"),), attach="start it with DOTNET_PerfMapEnabled=1"),
    # 6.8 was tried; older Mono ends at a switch that it does not know, so only where the command is mono itself
    LanguageRuntime(
        "Mono",
        ("mono",),
        (Variable("MONO_ENV_OPTIONS", "--jitmap", " "),),
        Version(("mono", "--version"), (4, 0)),
        attach="start it with mono --jitmap",
    ),
    # 3.1 was tried, which knows no such switch and ends there; 3.3 was not
    LanguageRuntime(
        "Ruby",
        ("ruby", "bundle", "rake", "rails", "irb"),
        (Variable("RUBYOPT", "--yjit-perf", " "),),
        Version(("ruby", "--version"), (3, 3)),
        attach="start it with --yjit-perf (3.3 or newer)",
    ),
    # 8.2 was tried: an .ini file of ours with opcache.jit_debug=16; an empty part means PHP's own folder
    LanguageRuntime("PHP", ("php",), (Variable("PHP_INI_SCAN_DIR", f":{_HERE}/php", ":"),), attach="start it with -d opcache.jit_debug=16"),
    # OTP 25 was tried; before, there was no "map", and before 24 none of it
    LanguageRuntime(
        "Erlang",
        ("erl", "elixir", "iex", "mix", "escript", "rebar3"),
        (Variable("ERL_FLAGS", "+JPperf map", " "),),
        Version(("erl", "-version"), (13,)),
        attach="start it with +JPperf true",
    ),
    # not tried; docs.julialang.org describes it under "External Profiler Support"
    LanguageRuntime("Julia", ("julia",), (Variable("ENABLE_JITPROFILING", "1"),), attach="start it with ENABLE_JITPROFILING=1"),
    # these have no variable
    LanguageRuntime("LuaJIT", ("luajit",), (), attach="build it with -DLUAJIT_USE_PERFTOOLS"),
    LanguageRuntime("wasmtime", ("wasmtime",), (), attach="start it with wasmtime run --profile=perfmap"),
)
