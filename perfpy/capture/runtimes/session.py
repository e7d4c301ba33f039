"""`record --jit` from the start of a recording to its end: complete the options and the command's environment, then add the names."""

from __future__ import annotations

import glob
import os
import re
import stat
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.capture.runtimes.attaching import is_java, lacks, needs_names, runtime_of_process
from perfpy.capture.runtimes.cpython_attach import attach_all
from perfpy.capture.runtimes.known_runtimes import PYTHON, RUNTIMES, Version, complete_options, find_program, reads_frames, runtime_of
from perfpy.errors import PerfError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from perfpy.capture.record_options import RecordOptions
    from perfpy.capture.runtimes.cpython_attach import Trampolines
    from perfpy.capture.runtimes.inner_maps import InnerMaps
    from perfpy.capture.runtimes.known_runtimes import LanguageRuntime, Variable


_STANDARD_OUTPUT: Final = "-"
_STACKS: Final = ".stacks"  # suffix of the file with stacks that were not unwound while recording


class RuntimeNames:
    """Names for one recording.

    Attributes:
        options: the completed options.
        variables: to set for the command.
        command: with options of its runtime.

    tell is called with a line for the user.
    """

    def __init__(self, options: RecordOptions, command: Sequence[str], tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._began = time.time()
        self._switched: list[Trampolines] = []
        self._inner_maps: InnerMaps | None = None
        attached = bool(options.target.pid or options.target.tid or options.target.user)  # then a command only determines the duration
        self._pids = [int(pid) for pid in options.target.pid.split(",") if pid.strip().isdecimal()]
        self._environment = environment_for(() if attached else command, reads_python=options.python)
        runtime, program = self._environment.runtime, command[0] if command else ""
        if attached:
            program = f"/proc/{self._pids[0]}/exe" if len(self._pids) == 1 else ""
            runtime = runtime_of_process(self._pids[0]) if program else None
        from_memory = any(map(needs_names, self._pids))
        self.options = complete_options(options, runtime, program, unwound_later=writes_dumps(command), from_memory=from_memory)
        self.variables = self._environment.variables if command and not attached else {}
        self._words = len(command)
        self._stores_names = options.output.path != _STANDARD_OUTPUT
        is_stored = not attached and self._stores_names
        self.command = tuple(command_with_switches(command, runtime) if is_stored else command)

    def begin(self, in_the_end: Callable[[Callable[[], None]], object], examined: Iterable[int] = ()) -> None:
        """Report the settings.

        Args:
            in_the_end: takes functions that are called however the recording ends.
            examined: further processes: the recording is of the whole machine, but examined are these.
        """
        in_the_end(self._leave)
        self._pids += [pid for pid in examined if pid not in self._pids and is_java(pid)]
        is_shown = self.variables and self.options.verbose
        variables_text = f"sets {describe_variables(self._environment)}; " if is_shown else ""
        if self.options.verbose and len(self.command) > self._words:
            variables_text += f"runs {' '.join(self.command[: 1 + len(self.command) - self._words])}; "
        self._tell(f"[ perf record: --jit {variables_text}{self._stacks()} ]")
        if self.options.output.path == _STANDARD_OUTPUT:
            self._tell("warning: --jit: a pipe cannot store names; its readers need the perf maps in /tmp")
        self._switched, refused = attach_all(self._pids)
        unwinds = self.options.sampling.unwind and reads_frames()
        lacking = [lacks(pid, unwinds=unwinds, reads_memory=unwinds) for pid in self._pids]
        late = [f"process {one.pid} is blocked; its Python functions get names when it runs again" for one in self._switched if one.late]
        for hint in (*self._environment.hints, *filter(None, lacking), *map(str, refused), *late):
            self._tell(f"warning: --jit: {hint}")

    def alarms(self) -> list[InnerMaps]:
        """Return what to do regularly while the recording runs."""
        if not self._stores_names:
            return []
        from perfpy.capture.runtimes.inner_maps import InnerMaps

        self._inner_maps = InnerMaps([os.getpid(), *self._pids])
        return [self._inner_maps]

    def _stacks(self) -> str:
        """Return the mode of callchains as options."""
        chain = self.options.sampling.callchain
        if chain is None or chain.mode != "dwarf":
            return f"--call-graph {chain.mode}" if chain else "no callchains"
        return f"--call-graph dwarf,{chain.stack_size}{' --unwind' if self.options.sampling.unwind else ''}"

    def _leave(self) -> None:
        """Restore processes whose names were switched on."""
        for one in self._switched:
            one.off()
        if self._inner_maps is not None:
            self._inner_maps.close()

    def end(self, files: Iterable[str], known_lines: Mapping[int, bytes] | None = None, images: Mapping[str, bytes] | None = None) -> None:
        """Add the names to finished recordings, and remove files that runtimes left. known_lines, images: see store_names."""
        written = [name for path in files for name in (path, f"{path}{_STACKS}" if self.options.sampling.unwind else "")]
        recordings = [path for path in written if os.path.isfile(path) and os.path.getmtime(path) >= self._began - 1]
        if not recordings:
            return
        from perfpy.capture.runtimes.store_names import store_names  # it reads recordings, which needs numpy

        if self._inner_maps is not None:
            self._inner_maps.look()
        cache = self.options.output.buildid_dir if self.options.output.buildid_cache else None
        for path in recordings:
            try:
                last = bool(self.variables) and path == recordings[-1]
                lines, files_in_it, inner = known_lines or {}, images or {}, self._inner_maps
                stored = store_names(path, self._began, cache, known_lines=lines, images=files_in_it, inner_maps=inner, remove_dumps=last)
            except PerfError as error:
                self._tell(f"warning: --jit: {error}")
                continue
            for failure in stored.failures:
                self._tell(f"warning: --jit: {failure}")
            self._tell(
                f"[ perf record: --jit stored {_count(stored.maps, 'perf map')}, {_count(stored.functions, 'function')} of jitdumps ]"
            )
            self._remove_logs(stored.pids)

    def _remove_logs(self, pids: Iterable[int]) -> None:
        """Remove these processes' logs, which a runtime writes to the current folder when it publishes names."""
        patterns = [runtime.logs for runtime in self._environment.requested_runtimes if runtime.logs]
        for pattern in {pattern.format(pid=pid) for pattern in patterns for pid in pids}:
            for name in glob.glob(pattern):
                state = os.lstat(name)
                if stat.S_ISREG(state.st_mode) and state.st_uid == os.geteuid() and state.st_mtime >= self._began - 1:
                    os.unlink(name)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


# The environment in which runtimes publish the names of the code they generate. Children inherit the variables. The user's own values are
# kept: perfpy's are added to them, or dropped if a variable has room for one value only.

_DUMPS: Final = "PYTHON_PERF_JIT_SUPPORT"
_SECONDS: Final = 5  # the limit for a runtime to print its version
_VERSION: Final = re.compile(rb"\d+(?:\.\d+)+|\b\d+\b")


class CommandEnvironment(NamedTuple):
    """The environment of a command.

    Attributes:
        variables: to set.
        runtime: the command's; None if unknown.
        hints: options that the user would have to add to the command.
    """

    variables: dict[str, str]
    runtime: LanguageRuntime | None
    hints: tuple[str, ...] = ()

    @property
    def requested_runtimes(self) -> list[LanguageRuntime]:
        """The runtimes whose names are requested."""
        return [runtime for runtime in RUNTIMES if any(variable.name in self.variables for variable in runtime.variables)]

    @property
    def stacks(self) -> str:
        """The best mode of callchains, "fp" or "dwarf"; Python's if the runtime is unknown, because most scripts start Python."""
        return (self.runtime or PYTHON).stacks


def environment_for(command: Sequence[str], environ: Mapping[str, str] = os.environ, *, reads_python: bool = False) -> CommandEnvironment:
    """Return the environment in which a command and its children publish names; reads_python: Python's come from its memory."""
    runtime = runtime_of(command[0], environ) if command else None
    variables: dict[str, str] = {}
    for candidate in RUNTIMES:
        if reads_python and candidate is PYTHON:
            continue
        if candidate.version is None or (candidate is runtime and _is_new_enough(candidate.version)):
            for variable in candidate.variables:
                value = join_values(variable, environ.get(variable.name, ""))
                if value != environ.get(variable.name):
                    variables[variable.name] = value
    lacks = (
        runtime is not None
        and not (reads_python and runtime is PYTHON)
        and not any(variable.name in {**environ, **variables} for variable in runtime.variables)
    )
    return CommandEnvironment(variables, runtime, (f"{runtime.name}: {runtime.attach}",) if runtime and lacks else ())


def command_with_switches(command: Sequence[str], runtime: LanguageRuntime | None, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the command with its runtime's own switches, if it is that program, and new enough; otherwise the command as it is."""
    words = list(command)
    if not words or not runtime or not runtime.switches or os.path.basename(words[0]) not in runtime.programs[:2]:
        return words
    # V8 prints the log if it cannot write it to the current folder, and `inspect` must be node's first word.
    if words[1:2] == ["inspect"] or not os.access(".", os.W_OK) or not find_program(words[0], environ):
        return words
    version = Version((words[0], "--version"), runtime.switches_since)
    return [words[0], *runtime.switches, *words[1:]] if _is_new_enough(version) else words


def join_values(variable: Variable, users: str) -> str:
    """Return the value of a variable that the user may have set already."""
    if not users:
        return variable.value
    if not variable.between or variable.value in users:
        return users
    between = variable.between
    if variable.first:
        return variable.value.removesuffix(between) + between + users
    return users + between + variable.value.removeprefix(between)


def writes_dumps(command: Sequence[str], environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the user chose jitdumps for Python (-X perf_jit), which have the unwind information of its trampolines when complete."""
    return environ.get(_DUMPS, "0") not in ("", "0") or any(word.removeprefix("-X") == "perf_jit" for word in command)


def describe_variables(environment: CommandEnvironment, environ: Mapping[str, str] = os.environ) -> str:
    """Describe the variables in one line: the command's with values, those for its children by name."""
    names_of_command = {variable.name for variable in environment.runtime.variables} if environment.runtime else set(environment.variables)
    assignments = [
        _assignment(name, value, environ.get(name, "")) for name, value in environment.variables.items() if name in names_of_command
    ]
    others = [name for name in environment.variables if name not in names_of_command]
    return " ".join(assignments) + (f"{' and ' if assignments else ''}for its children {' '.join(others)}" if others else "")


def _assignment(name: str, value: str, users: str) -> str:
    added = value.replace(users, "").strip() if users else value
    quoted = f"'{added}'" if re.search(r"[^\w@%+=:,./-]", added) else added
    return f"{name}{'+' if users else ''}={quoted}"


def _is_new_enough(version: Version) -> bool:
    """Whether a runtime exists and is new enough for the options; False if it does not answer."""
    import subprocess  # rarely needed

    try:
        answer = subprocess.run(version.command, capture_output=True, timeout=_SECONDS, stdin=subprocess.DEVNULL, check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    match = _VERSION.search(answer.stdout + answer.stderr)
    return match is not None and tuple(int(part) for part in match[0].split(b".")) >= version.oldest
