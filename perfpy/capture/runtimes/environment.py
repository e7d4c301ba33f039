"""The environment in which runtimes publish the names of the code they generate.

Children inherit the variables. The user's own values are kept: perfpy's are added to them, or dropped if a variable has room for
one value only.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.capture.runtimes.programs import find_program, runtime_of
from perfpy.capture.runtimes.table import PYTHON, RUNTIMES, Version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfpy.capture.runtimes.table import LanguageRuntime, Variable

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


def environment_for(command: Sequence[str], environ: Mapping[str, str] = os.environ) -> CommandEnvironment:
    """Return the environment in which a command and its children publish names."""
    runtime = runtime_of(command[0], environ) if command else None
    variables: dict[str, str] = {}
    for candidate in RUNTIMES:
        if candidate.version is None or (candidate is runtime and _is_new_enough(candidate.version)):
            for variable in candidate.variables:
                value = join_values(variable, environ.get(variable.name, ""))
                if value != environ.get(variable.name):
                    variables[variable.name] = value
    lacks = runtime is not None and not any(variable.name in {**environ, **variables} for variable in runtime.variables)
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
