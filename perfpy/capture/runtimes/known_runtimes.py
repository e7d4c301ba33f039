"""The runtimes that can publish the names of the code they generate, as data.

Each entry has the environment variables, the mode of callchains, the tested versions, and the documentation of its switches.
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.capture.record_options import DEFAULT_STACK_SIZE, Callchain
from perfpy.capture.runtimes.cpython_attach import STARTUP
from perfpy.untrusted.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfpy.capture.record_options import RecordOptions


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
        stacks: "fp" if the code that it generates has frame pointers, "dwarf" if that must be checked.
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


#: 3.8 to 3.14 were tried; 3.8 to 3.11 get their names from the code on PYTHONPATH (perfpy.capture.runtimes.cpython_attach). 3.13 also has
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
    # the dump are damaged, but the log has the positions of the code, and of what is inlined (perfpy.symbols.jit_images).
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


# Find the runtime of a command by the name of its program, or of the interpreter in its first line. A command that starts others (sh,
# make, env) has none itself, but its children inherit the environment.

_VERSION: Final = re.compile(r"[-.\d]*(?:t|d|m)?(?:\.exe)?$")  # of python3.13t, ruby3.1, php8.2
_LONGEST_LINE: Final = 256  # the kernel reads no more of a script (BINPRM_BUF_SIZE)


def runtime_of(program: str, environ: Mapping[str, str] = os.environ) -> LanguageRuntime | None:
    """Return the runtime that a program is, or that runs it."""
    path = find_program(program, environ)
    names = [program, os.path.realpath(path), *_interpreter(path)] if path else [program]
    return next((runtime for name in names if (runtime := _find_runtime(os.path.basename(name)))), None)


def find_program(name: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the path of a program by PATH; "" if there is none."""
    if "/" in name:
        return name if os.path.isfile(name) else ""
    candidates = (os.path.join(folder, name) for folder in environ.get("PATH", os.defpath).split(os.pathsep))
    return next((path for path in candidates if os.access(path, os.X_OK) and os.path.isfile(path)), "")


def _find_runtime(name: str) -> LanguageRuntime | None:
    """Return the runtime with a program of that name, in any version."""
    plain = _VERSION.sub("", name)
    return next((runtime for runtime in RUNTIMES if name in runtime.programs or plain in runtime.programs), None)


def _interpreter(path: str) -> list[str]:
    """Return the interpreter of a script's first line: python3 for `#!/usr/bin/env -S python3 -u`, /bin/sh for `#!/bin/sh`."""
    try:
        with open_regular(path) as file:
            line = file.readline(_LONGEST_LINE)
    except OSError:
        return []
    if not line.startswith(b"#!"):
        return []
    words = line[2:].decode("utf-8", "surrogateescape").split()
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return words[:1]


# Find the runtimes that a command may start: a shell script, a shell, a program that runs another one, or one that builds. The words of
# scripts tell them. A runtime too many costs little, one too few leaves its functions without names.

_SHELL: Final = re.compile(r"(?:ba|da|z|k|a|mk)?sh")
_STARTERS: Final = frozenset(
    "chrt command doas env exec flock ionice nice nohup numactl nsenter prlimit script setarch setpriv setsid stdbuf sudo systemd-run"
    " taskset time timeout unshare watch xargs".split()
)
_BUILDERS: Final = frozenset("bazel cmake ctest gmake just make meson ninja scons".split())
_SEPARATORS: Final = re.compile(r"[\s;|&()<>\"'`={}$]+")
_COMMENT: Final = re.compile(r"(?:^|(?<=\s))#.*", re.MULTILINE)
_MOST_OF_SCRIPT: Final = 1 << 16  # bytes that are read
_MOST_SCRIPTS: Final = 16
_MOST_PATHS: Final = 256  # that scripts name, whose first lines are read
_SUFFIXES: Final = {".py": "python", ".js": "node", ".mjs": "node", ".jar": "java"}


def runtimes_of(command: Sequence[str], environ: Mapping[str, str] = os.environ) -> list[LanguageRuntime]:
    """Return the runtimes that a command may run: all for a build tool; otherwise that of the program, or those named in its script."""
    runtime = runtime_of(command[0], environ) if command else None
    if runtime is not None:
        return [runtime]
    names: set[str] = set()
    _note_started(command, environ, names, {})
    return [runtime for runtime in RUNTIMES if names.intersection(runtime.programs)]


def _note_started(words: Sequence[str], environ: Mapping[str, str], names: set[str], scripts: dict[str, bool]) -> None:
    """Add the programs of the runtimes that a command starts to `names`.

    scripts: the paths that were looked at already, and whether they were read.
    """
    name = os.path.basename(words[0]) if words else ""
    path = find_program(words[0], environ) if words else ""
    if name in _BUILDERS:
        names.update(*(runtime.programs for runtime in RUNTIMES))
    elif name in _STARTERS:
        _note_words(words[1:], os.getcwd(), environ, names, scripts)
    elif _SHELL.fullmatch(name):
        code = next((words[number + 1] for number, word in enumerate(words[:-1]) if word.startswith("-") and word.endswith("c")), None)
        script = next((word for word in words[1:] if not word.startswith("-")), "")
        if code is not None:
            _note_words(_SEPARATORS.split(_COMMENT.sub("", code)), os.getcwd(), environ, names, scripts)
        elif script:
            _note_script(script, environ, names, scripts)
    elif any(_SHELL.fullmatch(os.path.basename(word)) for word in _interpreter(path) if path):
        _note_script(path, environ, names, scripts)


def _note_words(words: Sequence[str], folder: str, environ: Mapping[str, str], names: set[str], scripts: dict[str, bool]) -> None:
    """Add the runtimes that the words of a script name, and those of further scripts."""
    for word in words:
        name = os.path.basename(word)
        if runtime := _find_runtime(name):
            names.update(runtime.programs)
        elif (suffix := os.path.splitext(name)[1]) in _SUFFIXES:
            names.add(_SUFFIXES[suffix])
        elif name in _BUILDERS:
            names.update(*(runtime.programs for runtime in RUNTIMES))
        elif "/" in word or suffix == ".sh":
            path = os.path.join(folder, word)
            if path in scripts or len(scripts) >= _MOST_PATHS:
                continue
            scripts[path] = False
            if interpreter := _interpreter(path):
                if runtime := _find_runtime(os.path.basename(interpreter[0])):
                    names.update(runtime.programs)
                elif _SHELL.fullmatch(os.path.basename(interpreter[0])):
                    _note_script(path, environ, names, scripts)
            elif suffix == ".sh":  # a shell may run it by its name
                _note_script(path, environ, names, scripts)


def _note_script(path: str, environ: Mapping[str, str], names: set[str], scripts: dict[str, bool]) -> None:
    """Add the runtimes that a shell script starts."""
    if scripts.get(path) or sum(scripts.values()) >= _MOST_SCRIPTS:
        return
    scripts[path] = True
    try:
        with open_regular(path) as file:
            text = file.read(_MOST_OF_SCRIPT).decode("utf-8", "replace")
    except OSError:
        return
    _note_words(_SEPARATORS.split(_COMMENT.sub("", text)), os.path.dirname(os.path.abspath(path)), environ, names, scripts)


# Choose the options that the user of `record --jit` left open: the clock, the callchains, the frequency. jitdumps have times of
# CLOCK_MONOTONIC, and names of functions are of little use without callers.

_STACK_SIZE: Final = 32768  # a call of a Python function takes some 500 bytes of the C stack
_DWARF_FREQUENCY: Final = 999  # Hz; stacks of that size are 32 MB a second for each CPU, which have to be copied at least
_PACED: Final = 100  # a smaller count (-c) samples most page faults and system calls: hundreds of thousands a second
_PROLOGUE: Final = b"\x55\x48\x89\xe5"  # push %rbp; mov %rsp,%rbp
_PIECE: Final = 1 << 20  # bytes read at a time
_ENOUGH: Final = 2000  # functions with this prologue: an interpreter has some ten thousand, without frame pointers a few hundred
_SMALL: Final = 1 << 20  # bytes; smaller programs have their interpreter in a shared object


def complete_options(
    options: RecordOptions, runtime: LanguageRuntime | None, program: str, *, unwound_later: bool = False, from_memory: bool = False
) -> RecordOptions:
    """Return the complete options.

    Args:
        program: the command, or the path of the running program; "" if there are several.
        unwound_later: the unwind information of its code is available at the end only.
        from_memory: the names of its functions are read from its memory, by its stack.
    """
    if options.sampling.clockid is None:
        options = options._replace(sampling=options.sampling._replace(clockid=time.CLOCK_MONOTONIC))
    if options.sampling.callchain is not None:
        return options
    from_memory = from_memory and reads_frames()
    if not (options.sampling.unwind or from_memory or needs_stack_copies(runtime, program, waits=options.off_cpu.enabled)):
        return options._replace(sampling=options.sampling._replace(callchain=Callchain("fp")))
    excluded = (
        unwound_later or options.sampling.user_regs or options.buffers.overwrite or options.side_band.tail_synthesize
    )  # see RecordOptions.check
    # a small stack copy where samples come as fast as the events themselves
    period = options.sampling.period
    callchain = Callchain("dwarf", DEFAULT_STACK_SIZE if period is not None and period < _PACED else _STACK_SIZE)
    options = options._replace(sampling=options.sampling._replace(callchain=callchain, unwind=options.sampling.unwind or not excluded))
    return (
        options._replace(sampling=options.sampling._replace(freq=_DWARF_FREQUENCY))
        if options.sampling.freq is None and options.sampling.period is None
        else options
    )


def needs_stack_copies(runtime: LanguageRuntime | None, program: str, *, waits: bool = False) -> bool:
    """Whether frame pointers do not lead from a runtime's frames to their callers.

    waits: waits are recorded. They begin in functions of the C library, and of runtimes that have frame pointers in generated code only.
    """
    if not reads_frames():  # elsewhere compilers keep frame pointers by default
        return False
    if runtime is not None and runtime.stacks == "fp":
        return waits
    return not _has_frame_pointers(find_program(program))


def reads_frames() -> bool:
    """Whether frames described by a runtime's memory can be read on this machine (perfpy.capture.runtimes.hotspot)."""
    return os.uname().machine == "x86_64"


def _has_frame_pointers(path: str) -> bool:
    """Whether a program, or the interpreter's library beside it, was compiled with frame pointers."""
    real = os.path.realpath(path) if path else ""
    try:
        if not real or os.path.getsize(real) >= _SMALL:
            return _prologues(real) >= _ENOUGH if real else False
        return any(_prologues(library) >= _ENOUGH for library in _libraries(real))
    except (OSError, ValueError):
        return False


def _libraries(program: str) -> list[str]:
    """Return the existing libraries of an interpreter, for example libpython3.12.so.1.0 of bin/python3.12."""
    name, folder = os.path.basename(program), os.path.dirname(os.path.dirname(program))
    candidates = [f"{folder}/{lib}/lib{name}.so.1.0" for lib in ("lib", "lib64", f"lib/{os.uname().machine}-linux-gnu")]
    return [path for path in candidates if os.path.isfile(path)]


def _prologues(path: str) -> int:
    """Count prologues, up to the threshold. The file is read, not mapped, because its owner may truncate it meanwhile."""
    count, tail = 0, b""
    with open_regular(path) as file:
        while count < _ENOUGH and (piece := file.read(_PIECE)):
            data = tail + piece
            count += data.count(_PROLOGUE)
            tail = data[-len(_PROLOGUE) + 1 :]
    return min(count, _ENOUGH)
