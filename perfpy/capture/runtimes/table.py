"""The runtimes that can publish the names of the code they generate, as data.

Each entry has the environment variables, the mode of callchains, the tested versions, and the documentation of its switches.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from perfpy.capture.runtimes.cpython import STARTUP

V8_LOG: Final = "isolate-0x*-{pid}-v8.log"  #: V8's log of an isolate
_HERE: Final = os.path.dirname(__file__)


class Variable(NamedTuple):
    """An environment variable and its value.

    Attributes:
        between: the separator between the user's value and perfpy's; "" if there can be one value only: then the user's stays.
        first: whether perfpy's value comes first.
    """

    name: str
    value: str
    between: str = ""
    first: bool = False


class Version(NamedTuple):
    """The command that prints the version, and the oldest version that does not reject a switch."""

    command: tuple[str, ...]
    oldest: tuple[int, ...]


class LanguageRuntime(NamedTuple):
    """One runtime.

    Attributes:
        programs: the names of its programs, without versions.
        variables: those that make it publish names.
        version: the oldest version of its programs that accepts the variables; None: harmless to all, so set for every command.
        stacks: "fp" if its code has frame pointers, "dwarf" if that must be checked.
        logs: further files that it writes to the current folder (a pattern with {pid}).
        switches: options for the command itself if it is one of the programs, before its own.
        switches_since: the oldest version that has them.
        attach: how to request names of a running one: "jcmd", "remote_exec", or a hint for the user.
    """

    name: str
    programs: tuple[str, ...]
    variables: tuple[Variable, ...]
    version: Version | None = None
    stacks: str = "fp"
    logs: str = ""
    switches: tuple[str, ...] = ()
    switches_since: tuple[int, ...] = ()
    attach: str = ""


#: 3.8 to 3.14 were tried; 3.8 to 3.11 get their names from the code on PYTHONPATH (perfpy.capture.runtimes.cpython). 3.13 also has
#: PYTHON_PERF_JIT_SUPPORT, for a jitdump with the unwind information of its trampolines (docs.python.org, "Python support for the
#: Linux perf profiler"). It is not used, because perfpy knows that information, and because the dump loses the last functions of a
#: process that is killed or ends by os._exit, as children of multiprocessing do (a perf map is written line by line).
PYTHON: Final = LanguageRuntime(
    "Python",
    ("python", "pypy"),
    (Variable("PYTHONPERFSUPPORT", "1"), Variable("PYTHONPATH", STARTUP, ":", first=True)),
    stacks="dwarf",
    attach="remote_exec",
)

RUNTIMES: Final = (
    PYTHON,
    # 20.20 and 24.21 were tried. Interpreted functions have their own names with the second variable's switch only. The switches of
    # the command itself, which NODE_OPTIONS does not permit, write a jitdump and a log of code to the current folder: names of files in
    # the dump are damaged, but the log has the positions of the code, and of what is inlined (perfpy.symbols.providers.v8_log).
    LanguageRuntime(
        "Node.js",
        ("node", "nodejs", "npm", "npx", "yarn"),
        (Variable("NODE_OPTIONS", "--perf-basic-prof --interpreted-frames-native-stack", " "),),
        logs=V8_LOG,
        switches=("--perf-prof", "--log-code", "--log-source-code"),
        switches_since=(20,),
        attach="start it with --perf-basic-prof --interpreted-frames-native-stack",
    ),
    # not tried; the switches are V8's
    LanguageRuntime(
        "Deno",
        ("deno",),
        (Variable("DENO_V8_FLAGS", "--perf-basic-prof,--interpreted-frames-native-stack", ","),),
        logs=V8_LOG,
        attach="start it with --v8-flags=--perf-basic-prof",
    ),
    # OpenJDK 17 and 25 were tried. Older ones, which have no perf map, ignore the switches. Interpreted and inlined methods are in no
    # map: they are found in stack copies (perfpy.capture.runtimes.hotspot).
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
    # 6.8 was tried; older Mono exits at an unknown switch, so it is only set if the command is mono itself
    LanguageRuntime(
        "Mono",
        ("mono",),
        (Variable("MONO_ENV_OPTIONS", "--jitmap", " "),),
        Version(("mono", "--version"), (4, 0)),
        attach="start it with mono --jitmap",
    ),
    # 3.1 was tried, which exits at the unknown switch; 3.3 was not
    LanguageRuntime(
        "Ruby",
        ("ruby", "bundle", "rake", "rails", "irb"),
        (Variable("RUBYOPT", "--yjit-perf", " "),),
        Version(("ruby", "--version"), (3, 3)),
        attach="start it with --yjit-perf (3.3 or newer)",
    ),
    # 8.2 was tried: perfpy's .ini file with opcache.jit_debug=16; an empty part means PHP's own folder
    LanguageRuntime("PHP", ("php",), (Variable("PHP_INI_SCAN_DIR", f":{_HERE}/php", ":"),), attach="start it with -d opcache.jit_debug=16"),
    # OTP 25 was tried; "map" is not in older ones, and before 24 there is no switch
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
